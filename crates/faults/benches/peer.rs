//! Whether a server is fast enough never to be what limits a test: 1,000 connections and 20,000 requests a second.
//!
//! The client is a process of its own, and as raw as the server: what it costs is not to be mistaken for the server's.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::net::SocketAddr;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use oncebox_faults::{Script, Server};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const CONNECTIONS: u64 = 1_000;
/// Requests a second that must be reached.
const BAND: f64 = 20_000.0;
const TIME: Duration = Duration::from_secs(4);
const RUNS: usize = 3;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().collect();
    if let Some(at) = args.iter().position(|arg| arg == "load") {
        let address = args[at + 1].parse().unwrap();
        let streams = args[at + 2].parse().unwrap();
        runtime().block_on(load(address, streams));
        return ExitCode::SUCCESS;
    }
    // `cargo test --all-targets` runs benches too, and is not to wait for this one.
    if !args.iter().any(|arg| arg == "--bench") {
        return ExitCode::SUCCESS;
    }
    let mut well = true;
    for streams in [1, 4] {
        let rates: Vec<f64> = (0..RUNS).map(|_| run(streams)).collect();
        let mut sorted = rates.clone();
        sorted.sort_by(f64::total_cmp);
        let median = sorted[RUNS / 2];
        println!(
            "{CONNECTIONS} connections, {streams} streams each: median {median:.0} requests/s (at least {BAND:.0})"
        );
        well &= median >= BAND;
    }
    if well { ExitCode::SUCCESS } else { ExitCode::from(1) }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

/// One run: the server here, the client in a process of its own. Returns requests a second.
fn run(streams: usize) -> f64 {
    runtime().block_on(async {
        let server = Server::builder(Script::new()).start().await.unwrap();
        let mut client = Command::new(std::env::current_exe().unwrap());
        client.args(["load", &server.addr().to_string(), &streams.to_string()]);
        let before = cpu();
        let output = tokio::task::spawn_blocking(move || client.output().unwrap()).await.unwrap();
        let cpu = cpu() - before;
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8(output.stdout).unwrap();
        let numbers: Vec<f64> = text.split_whitespace().map(|number| number.parse().unwrap()).collect();
        let [answered, seconds, p50, p99] = numbers[..] else { panic!("{text}") };
        let totals = server.log().totals();
        assert_eq!((totals.most_connections_open, totals.doubled), (CONNECTIONS, 0));
        assert!(totals.processed as f64 >= answered);
        println!(
            "  {:.0} requests/s; {:.1} us of the server's CPU a request; p50 {:.2} ms, p99 {:.2} ms",
            answered / seconds,
            cpu.as_secs_f64() * 1e6 / totals.processed as f64,
            p50 / 1e3,
            p99 / 1e3,
        );
        answered / seconds
    })
}

/// This process's CPU time; 0 where /proc does not tell.
fn cpu() -> Duration {
    let Ok(stat) = std::fs::read_to_string("/proc/self/stat") else { return Duration::ZERO };
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    let ticks: u64 = fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap();
    // USER_HZ has been 100 on Linux since it was fixed.
    Duration::from_millis(ticks * 10)
}

/// Keeps so many streams open on each of the connections, for a while. Prints answers, seconds, p50 and p99 in us.
async fn load(address: SocketAddr, streams: usize) {
    let mut sockets = Vec::new();
    for _ in 0..CONNECTIONS {
        let mut socket = TcpStream::connect(address).await.unwrap();
        socket.set_nodelay(true).unwrap();
        socket.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await.unwrap();
        // A window that a run does not use up.
        socket.write_all(&[0, 0, 4, 8, 0, 0, 0, 0, 0, 0x7f, 0, 0, 0]).await.unwrap();
        sockets.push(socket);
    }
    let began = Instant::now();
    let tasks: Vec<_> = sockets
        .into_iter()
        .enumerate()
        .map(|(number, socket)| tokio::spawn(one_connection(number, socket, streams, began)))
        .collect();
    let mut times = Vec::new();
    for task in tasks {
        times.extend(task.await.unwrap());
    }
    let seconds = began.elapsed().as_secs_f64();
    times.sort_unstable();
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize];
    println!("{} {seconds} {} {}", times.len(), at(0.5), at(0.99));
}

async fn one_connection(number: usize, mut socket: TcpStream, streams: usize, began: Instant) -> Vec<u32> {
    let (mut times, mut next, mut buffer) = (Vec::new(), 1_u32, Vec::with_capacity(16 * 1024));
    while began.elapsed() < TIME {
        let mut requests = Vec::new();
        for _ in 0..streams {
            let id = format!("{number}-{next}");
            let mut block = vec![0x82, 0x86, 0x84, 0x00, 12];
            block.extend(b"x-request-id");
            block.push(id.len() as u8);
            block.extend(id.bytes());
            requests.extend([0, 0, block.len() as u8, 1, 5]);
            requests.extend(next.to_be_bytes());
            requests.extend(block);
            next += 2;
        }
        let sent = Instant::now();
        socket.write_all(&requests).await.unwrap();
        let mut open = streams;
        while open > 0 {
            assert!(socket.read_buf(&mut buffer).await.unwrap() > 0, "the server closed");
            let mut at = 0;
            while buffer.len() >= at + 9 {
                let length = u32::from_be_bytes([0, buffer[at], buffer[at + 1], buffer[at + 2]]) as usize;
                if buffer.len() < at + 9 + length {
                    break;
                }
                if buffer[at + 3] <= 1 && buffer[at + 4] & 1 == 1 {
                    open -= 1;
                    times.push(sent.elapsed().as_micros() as u32);
                }
                at += 9 + length;
            }
            buffer.drain(..at);
        }
    }
    times
}
