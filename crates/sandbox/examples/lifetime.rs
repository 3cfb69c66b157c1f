//! How long a sandbox lives, and whether it still does.
//!
//! `cargo run -p oncebox --features local --example lifetime -- --local`

mod support;

use std::time::Duration;

use oncebox::{Error, Killed, Sandbox};

#[tokio::main]
async fn main() -> Result<(), Error> {
    let client = support::client().await?;
    let sandbox = Sandbox::create(&client).lifetime(Duration::from_secs(60)).await?;
    sandbox.set_timeout(Duration::from_secs(600)).await?;
    println!("until {}; running: {}", sandbox.info().await?.end_at, sandbox.is_running().await?);
    assert_eq!(sandbox.kill().await?, Killed::Now);
    assert_eq!(sandbox.kill().await?, Killed::Already);
    println!("running: {}", sandbox.is_running().await?);
    client.close().await;
    Ok(())
}
