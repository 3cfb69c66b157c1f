//! What many small files cost over a slow link: `cargo xtask bench files`.
//!
//! 580 files through a link with a round trip of 20 ms, one request each, and as `write_files` sends them, sizes checked.
//! Fails when the second takes a tenth of the first's time or more.

#![expect(clippy::unwrap_used, reason = "a bench that cannot run has nothing to say")]

use std::process::ExitCode;
use std::time::{Duration, Instant};

use oncebox::local::{Isolation, LocalServer};
use oncebox::{Client, HttpVersion, Sandbox};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::time::{Instant as At, sleep_until};

const FILES: usize = 580;

/// Half of the round trip.
const DELAY: Duration = Duration::from_millis(10);

/// The most that all together may take of the time of one request each.
const SHARE: f64 = 0.1;

#[tokio::main]
async fn main() -> ExitCode {
    let local = LocalServer::builder().isolation(Isolation::None).start().await.unwrap();
    let link = link(local.url().trim_start_matches("http://").to_owned()).await;
    let client = Client::builder().api_key("k").api_url(&link).sandbox_url(&link);
    let client = client.http_version(HttpVersion::Http1).no_proxy().build().unwrap();
    let sandbox = Sandbox::create(&client).await.unwrap();
    let files = sandbox.files();
    let content = |number: usize| format!("content of file {number}\n").repeat(20);
    files.write("warm", "up").await.unwrap();

    let began = Instant::now();
    for number in 0..FILES {
        files.write(format!("one/{number}"), content(number)).verify(false).await.unwrap();
    }
    let each = began.elapsed();
    let began = Instant::now();
    files.write_files((0..FILES).map(|number| (format!("all/{number}"), content(number)))).await.unwrap();
    let together = began.elapsed();
    assert_eq!(files.list("all", 1).await.unwrap().len(), FILES);
    local.stop().await;

    let share = together.as_secs_f64() / each.as_secs_f64();
    println!("{FILES} files of 500 bytes over a round trip of {:?}:", DELAY * 2);
    println!("  one request each     {:8.0} ms", each.as_secs_f64() * 1000.0);
    println!("  write_files          {:8.0} ms   {:.1} % of it", together.as_secs_f64() * 1000.0, share * 100.0);
    if share < SHARE { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// A link to a server: what goes in comes out later, in both directions, as much as one likes at a time.
async fn link(server: String) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let server = TcpStream::connect(server.trim_end_matches('/')).await.unwrap();
            for socket in [&client, &server] {
                socket.set_nodelay(true).unwrap();
            }
            let ((from_client, to_client), (from_server, to_server)) = (client.into_split(), server.into_split());
            tokio::spawn(delayed(from_client, to_server));
            tokio::spawn(delayed(from_server, to_client));
        }
    });
    url
}

async fn delayed(mut from: OwnedReadHalf, mut to: OwnedWriteHalf) {
    let (sender, mut receiver) = mpsc::channel::<(At, Vec<u8>)>(1024);
    tokio::spawn(async move {
        while let Some((at, piece)) = receiver.recv().await {
            sleep_until(at).await;
            if to.write_all(&piece).await.is_err() {
                return;
            }
        }
        // The other side is told of the end; that it is gone already is as good.
        let _ = to.shutdown().await;
    });
    let mut piece = vec![0; 64 << 10];
    while let Ok(length @ 1..) = from.read(&mut piece).await {
        if sender.send((At::now() + DELAY, piece[..length].to_vec())).await.is_err() {
            return;
        }
    }
}
