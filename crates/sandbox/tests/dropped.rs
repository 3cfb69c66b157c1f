//! Commands whose handles are dropped leave nothing open. In a process of its own, whose descriptors are counted.
#![cfg(feature = "local")]
#![allow(clippy::unwrap_used)] // A test panics when it fails.

use std::time::Duration;

use futures_util::{StreamExt, stream};
use oncebox::{Client, Command, Sandbox};

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

/// `ONCEBOX_STARTS=5000` is the whole of it.
#[tokio::test]
async fn starts_whose_handles_are_dropped_leave_nothing_open() {
    let client = match Client::local().await {
        Ok(client) => client,
        Err(error) if error.to_string().contains("cannot be isolated") => {
            println!("SKIP starts_whose_handles_are_dropped_leave_nothing_open: {error}");
            return;
        }
        Err(error) => panic!("{error}"),
    };
    let starts: usize = std::env::var("ONCEBOX_STARTS").map_or(300, |count| count.parse().unwrap());
    let sandbox = Sandbox::create(&client).await.unwrap();
    let start = async |count: usize| {
        stream::iter(0..count)
            .for_each_concurrent(20, |_| async {
                let handle = sandbox.commands().start(Command::new("sleep").arg("0.05")).await.unwrap();
                drop(handle);
            })
            .await;
    };
    start(100).await;
    settled(&sandbox).await;
    let before = descriptors();
    start(starts).await;
    settled(&sandbox).await;
    let after = descriptors();
    println!("{before} descriptors before {starts} starts, {after} after");
    // Twenty at a time may each have left an idle connection, of which the server has the other end.
    assert!(after <= before + 8, "{before} before, {after} after");
    client.close().await;
}

/// Waits until nothing runs any more, and closed connections are closed on both sides.
async fn settled(sandbox: &Sandbox) {
    while !sandbox.commands().list().await.unwrap().is_empty() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    // HTTP/1.1 connections are kept for at most 4 s after their last use.
    tokio::time::sleep(Duration::from_millis(4500)).await;
}
