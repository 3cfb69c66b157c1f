//! Files are written, listed, read and signed for.
//!
//! `cargo run -p oncebox --features local --example files -- --local`

mod support;

use std::time::Duration;

use oncebox::{Error, Sandbox};

#[tokio::main]
async fn main() -> Result<(), Error> {
    let client = support::client().await?;
    let sandbox = Sandbox::create(&client).await?;
    let files = sandbox.files();
    files.write("notes/today.txt", "remember the milk\n").await?;
    for entry in files.list("notes", 1).await? {
        println!("{} ({} bytes)", entry.path, entry.size);
    }
    print!("{}", files.read_text("notes/today.txt").await?);
    println!("for a minute: {}", sandbox.download_url("notes/today.txt", Some(Duration::from_secs(60)))?);
    sandbox.kill().await?;
    client.close().await;
    Ok(())
}
