//! The output of a command as it comes.
//!
//! `cargo run -p oncebox --features local --example stream_output -- --local`

mod support;

use oncebox::{CommandEvent, Error, Sandbox};

#[tokio::main]
async fn main() -> Result<(), Error> {
    let client = support::client().await?;
    let sandbox = Sandbox::create(&client).await?;
    let mut command = sandbox.commands().start("for n in 1 2 3; do echo $n; sleep 0.2; done; exit 7").await?;
    while let Some(event) = command.next().await {
        match event? {
            CommandEvent::Stdout(bytes) => print!("{}", String::from_utf8_lossy(&bytes)),
            CommandEvent::Exit(exit) => println!("exit code {}", exit.code),
            _ => {}
        }
    }
    sandbox.kill().await?;
    client.close().await;
    Ok(())
}
