//! What an error says: its kind, what may have happened, and every attempt.
//!
//! `cargo run -p oncebox --features local --example errors -- --local`

mod support;

use oncebox::{Error, ErrorKind, Sandbox};

#[tokio::main]
async fn main() -> Result<(), Error> {
    let client = support::client().await?;
    for result in [
        Sandbox::create(&client).template("no-such-template").await.map(drop),
        Sandbox::create(&client).env("A=B", "x").await.map(drop),
        Sandbox::connect(&client, "inosuchsandbox").await.map(drop),
    ] {
        let Err(error) = result else { continue };
        println!("{:?}, may have been processed: {}", error.kind(), error.may_have_been_processed());
        println!("  {error}");
        for attempt in error.attempts() {
            println!("  {attempt}");
        }
        match error.kind() {
            ErrorKind::RateLimited | ErrorKind::Busy => println!("  later: {:?}", error.retry_after()),
            ErrorKind::OutcomeUnknown => println!("  to be resolved: {:?}", error.intent()),
            _ => {}
        }
    }
    client.close().await;
    Ok(())
}
