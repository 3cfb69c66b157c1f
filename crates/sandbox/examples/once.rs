//! Two tasks want the same thing: one intent, one sandbox.
//!
//! `cargo run -p oncebox --features local --example once -- --local`

mod support;

use oncebox::{Error, Sandbox};

#[tokio::main]
async fn main() -> Result<(), Error> {
    let client = support::client().await?;
    // Whatever names the job, in 32 hex digits; kept somewhere, it finds the sandbox again from any process.
    let intent = "5f2b0c6e9d3a41788e0f6b1c2d3e4f50";
    let create = || Sandbox::create(&client).intent(intent).into_future();
    let (one, two) = tokio::try_join!(create(), create())?;
    println!("{} = {}", one.id(), two.id());
    let found = client.resolve(intent).await?;
    println!("resolved: {:?}", found.as_ref().map(Sandbox::id));
    one.kill().await?;
    client.close().await;
    Ok(())
}
