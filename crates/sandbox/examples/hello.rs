//! One sandbox, one command.
//!
//! `cargo run -p oncebox --features local --example hello -- --local`

mod support;

use oncebox::{Error, Sandbox};

#[tokio::main]
async fn main() -> Result<(), Error> {
    let client = support::client().await?;
    let sandbox = Sandbox::create(&client).await?;
    let output = sandbox.commands().run("echo hello from $(whoami)").await?;
    print!("{}", output.stdout_text());
    sandbox.kill().await?;
    client.close().await;
    Ok(())
}
