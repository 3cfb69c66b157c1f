//! A sandbox that goes when its setup fails.
//!
//! `cargo run -p oncebox --features local --example scoped -- --local`

mod support;

use oncebox::{Error, Sandbox};

#[tokio::main]
async fn main() -> Result<(), Error> {
    let client = support::client().await?;
    let set_up = |script: &str| {
        let script = script.to_owned();
        Sandbox::create(&client).scoped(async move |sandbox| {
            sandbox.files().write("setup.sh", script).await?;
            let output = sandbox.commands().run("sh setup.sh").await?;
            if output.success() { Ok(sandbox) } else { Err(format!("setup ended with {}", output.exit_code()).into()) }
        })
    };
    let ready: Result<Sandbox, Box<dyn std::error::Error>> = set_up("echo ready").await;
    println!("with a setup that works: {}", if ready.is_ok() { "kept" } else { "killed" });
    let failed: Result<Sandbox, Box<dyn std::error::Error>> = set_up("exit 1").await;
    println!("with one that fails: {}", failed.err().map(|error| error.to_string()).unwrap_or_default());
    println!("left: {}", Sandbox::list(&client).await?.len());
    if let Ok(sandbox) = ready {
        sandbox.kill().await?;
    }
    client.close().await;
    Ok(())
}
