//! Sandboxes are labelled, listed page by page, and ended.
//!
//! `cargo run -p oncebox --features local --example list -- --local`

mod support;

use futures_util::TryStreamExt;
use oncebox::{Error, Sandbox, SandboxState};

#[tokio::main]
async fn main() -> Result<(), Error> {
    let client = support::client().await?;
    for number in 0..3 {
        Sandbox::create(&client).metadata("example", "list").metadata("number", number.to_string()).await?;
    }
    let running = Sandbox::list(&client).metadata("example", "list").state(SandboxState::Running).page_size(2);
    let mut found = std::pin::pin!(running.stream());
    while let Some(info) = found.try_next().await? {
        println!("{} {:?} until {}", info.id, info.metadata.get("number"), info.end_at);
        Sandbox::connect(&client, &info.id).await?.kill().await?;
    }
    client.close().await;
    Ok(())
}
