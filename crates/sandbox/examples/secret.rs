//! A secret is stored, changed, and named where it is wanted; its value is never told.
//!
//! `cargo run -p oncebox --features local --example secret -- --local`

mod support;

use oncebox::{Error, Secret};

#[tokio::main]
async fn main() -> Result<(), Error> {
    let client = support::client().await?;
    let value = std::env::var("EXAMPLE_TOKEN").unwrap_or_else(|_| "not a real one".to_owned());
    let secret = Secret::create(&client, "example-token", value.as_str()).metadata("team", "blue").await?;
    println!("{} {}", secret.name, secret.version);
    let secret = Secret::update(&client, "example-token", format!("{value}, changed")).await?;
    println!("{} {}", secret.name, secret.version);
    // For headers that the network of a sandbox adds to its requests: the sandbox itself never sees the value.
    println!("Authorization: Bearer {}", Secret::fill("example-token")?);
    Secret::destroy(&client, "example-token").await?;
    client.close().await;
    Ok(())
}
