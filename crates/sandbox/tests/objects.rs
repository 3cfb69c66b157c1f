//! Clients are cheap: ten thousand of them are one pool, and leave nothing. In a process of its own, whose descriptors and
//! memory are counted.
#![allow(clippy::unwrap_used)] // A test panics when it fails.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use oncebox::{Client, Sandbox};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpListener;

/// Growth of resident memory that is not a leak: of the allocator, and of what is made at first use.
const SLACK_KIB: usize = 6 << 10;

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

fn resident_kib() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// Lists nothing, on connections that stay open; counts them.
async fn server(connections: Arc<AtomicUsize>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            connections.fetch_add(1, Ordering::SeqCst);
            tokio::spawn(async move {
                let mut lines = BufReader::new(socket).lines();
                while let Ok(Some(line)) = lines.next_line().await {
                    if line.is_empty() {
                        let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n[]";
                        lines.get_mut().get_mut().write_all(answer).await.unwrap();
                    }
                }
            });
        }
    });
    url
}

#[tokio::test]
async fn ten_thousand_clients_are_one_pool_and_leave_nothing() {
    let connections = Arc::new(AtomicUsize::new(0));
    let url = server(Arc::clone(&connections)).await;
    let use_clients = async |count: usize| {
        for number in 0..count {
            let client =
                Client::builder().api_key(format!("key{number}")).api_url(&url).sandbox_url(&url).build().unwrap();
            if number % 10 == 0 {
                assert!(Sandbox::list(&client).await.unwrap().is_empty());
            }
        }
    };
    use_clients(1000).await;
    let (fds, memory) = (descriptors(), resident_kib());
    use_clients(9000).await;
    assert_eq!(connections.load(Ordering::SeqCst), 1);
    assert_eq!(descriptors(), fds);
    let grown = resident_kib().saturating_sub(memory);
    println!("{fds} descriptors; memory grew by {grown} KiB of {memory}");
    assert!(grown < SLACK_KIB, "{grown} KiB more than {memory}");
}
