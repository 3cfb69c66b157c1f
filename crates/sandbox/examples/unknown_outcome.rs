//! What to do with a create of which nobody knows how it ended.
//!
//! `cargo run -p oncebox --features local --example unknown_outcome -- --local`

mod support;

use std::time::Duration;

use oncebox::{Error, Sandbox};

#[tokio::main]
async fn main() -> Result<(), Error> {
    let client = support::client().await?;
    // Far too short, so that something goes wrong.
    match Sandbox::create(&client).request_timeout(Duration::from_millis(1)).await {
        Ok(sandbox) => {
            println!("made: {}", sandbox.id());
            sandbox.kill().await?;
        }
        Err(error) if error.outcome_unknown() => {
            println!("unknown: {error}");
            let intent = error.intent().unwrap_or_default();
            match client.resolve(intent).await? {
                Some(sandbox) => {
                    println!("it was made: {}", sandbox.id());
                    sandbox.kill().await?;
                }
                None => println!("none was made"),
            }
        }
        Err(error) => println!("not done: {error}"),
    }
    client.close().await;
    Ok(())
}
