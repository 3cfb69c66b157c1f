//! Large files in memory that does not grow. A process of its own, since others would count.
//!
//! 256 MiB; `ONCEBOX_SOAK=1` makes it 4 GiB.
#![cfg(all(feature = "local", target_os = "linux"))]
#![allow(clippy::unwrap_used)] // A test panics when it fails.

use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;

use http_body_util::StreamBody;
use oncebox::local::{Isolation, LocalServer};
use oncebox::{Body, Client, HttpVersion, Sandbox};

const MIB: u64 = 1 << 20;

/// What memory may grow by, in all of this process: the SDK, and the front of the local server, through which all passes.
const GROWTH: u64 = 64 * MIB;

/// The most that this process has had in memory, in bytes.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
}

/// A file with holes, and a mark in each MiB.
fn marked(path: &Path, length: u64) {
    let mut file = std::fs::File::create(path).unwrap();
    file.set_len(length).unwrap();
    for number in 0..length / MIB {
        file.seek(SeekFrom::Start(number * MIB + number % MIB)).unwrap();
        file.write_all(&[1 + (number % 255) as u8]).unwrap();
    }
}

fn assert_same(one: &Path, other: &Path) {
    let (mut one, mut other) = (std::fs::File::open(one).unwrap(), std::fs::File::open(other).unwrap());
    let (mut a, mut b) = (vec![0; 1 << 20], vec![0; 1 << 20]);
    loop {
        let n = one.read(&mut a).unwrap();
        if n == 0 {
            assert_eq!(other.read(&mut b).unwrap(), 0, "it is longer");
            return;
        }
        other.read_exact(&mut b[..n]).unwrap();
        assert!(a[..n] == b[..n], "it is another");
    }
}

#[tokio::test]
async fn large_files_pass_through_little_memory() {
    let length = if std::env::var_os("ONCEBOX_SOAK").is_some() { 4 << 30 } else { 256 * MIB };
    let local = LocalServer::builder().isolation(Isolation::None).memory(None).start().await.unwrap();
    let client = Client::builder().api_key("k").api_url(local.url()).sandbox_url(local.url());
    let client = client.http_version(HttpVersion::Http1).no_proxy().build().unwrap();
    let sandbox = Sandbox::create(&client).await.unwrap();
    let files = sandbox.files();
    let folder = tempfile::tempdir().unwrap();
    let (from, to) = (folder.path().join("from"), folder.path().join("to"));
    marked(&from, length);
    files.write("warm", vec![1; 1 << 20]).await.unwrap();
    let before = peak();

    files.upload(&from, "parts", |_, _| {}).await.unwrap();
    assert_eq!(files.download("parts", &to, |_, _| {}).await.unwrap(), length);
    assert_same(&from, &to);
    std::fs::remove_file(&to).unwrap();
    files.remove("parts").await.unwrap();

    let zeros = bytes::Bytes::from(vec![0_u8; 1 << 20]);
    let frames = futures_util::stream::iter(
        (0..length / MIB).map(move |_| Ok::<_, std::io::Error>(http_body::Frame::data(zeros.clone()))),
    );
    files.write("streamed", Body::stream(StreamBody::new(frames))).await.unwrap();
    let mut stream = files.read_stream("streamed").await.unwrap();
    let mut received = 0;
    while let Some(piece) = stream.next().await {
        received += piece.unwrap().len() as u64;
    }
    assert_eq!(received, length);

    let grown = peak().saturating_sub(before);
    println!("{} MiB up and down twice: memory grew by {} KiB", length / MIB, grown / 1024);
    assert!(grown < GROWTH, "memory grew by {} KiB", grown / 1024);
    local.stop().await;
}
