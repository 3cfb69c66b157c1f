//! 10,000 commands at once, each for 30 s: none lost, none doubled, on less than 300 descriptors.
//!
//! The envd is scripted and a process of its own. It lets a connection have 100 streams and retires it once it has carried
//! 100. `cargo xtask bench commands` runs this; `ONCEBOX_STREAMS` and `ONCEBOX_SECONDS` make it smaller.

#![allow(clippy::unwrap_used, unreachable_pub)]

mod streams;

use std::io::{BufRead, BufReader, Read};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use oncebox_faults::Server;

/// Streams of a connection.
const STREAMS: u32 = 100;
/// Commands, unless the environment says otherwise.
const COMMANDS: usize = 10_000;
/// How long each goes on, in seconds.
const SECONDS: u64 = 30;
/// Descriptors that the client may have open.
const BAND: usize = 300;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().collect();
    if args.iter().any(|arg| arg == "serve") {
        runtime().block_on(serve());
        return ExitCode::SUCCESS;
    }
    // `cargo test --all-targets` runs benches too, and is not to wait for this one.
    if !args.iter().any(|arg| arg == "--bench") {
        return ExitCode::SUCCESS;
    }
    let commands = number("ONCEBOX_STREAMS", COMMANDS as u64) as usize;
    let mut server = Command::new(std::env::current_exe().unwrap());
    let mut server = server.arg("serve").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(server.stdout.take().unwrap());
    let mut url = String::new();
    said.read_line(&mut url).unwrap();

    let began = Instant::now();
    let (before, mut at_once) = (resident_kib(), (0, 0, Duration::ZERO));
    let tally = runtime().block_on(streams::run(url.trim(), commands, || {
        at_once = (descriptors(), resident_kib(), began.elapsed());
    }));
    // The server ends when it is left alone, and tells what it saw.
    drop(server.stdin.take());
    let mut totals = String::new();
    said.read_to_string(&mut totals).unwrap();
    server.wait().unwrap();
    let counts: Vec<u64> = totals.split_whitespace().map(|count| count.parse().unwrap()).collect();
    let [processed, connections, most] = counts[..] else { panic!("{totals}") };

    let (open, resident, opening) = at_once;
    let doubled = (processed - 1).saturating_sub(commands as u64);
    println!(
        "{commands} commands at once, of which {} came whole, {} did not, and {doubled} were doubled; in {:.1} s\n  \
         all open after {:.1} s, with {open} descriptors (less than {BAND}); {connections} connections in all, {most} at a \
         time\n  {:.1} KiB of memory a stream",
        tally.whole,
        tally.wrong,
        began.elapsed().as_secs_f64(),
        opening.as_secs_f64(),
        resident.saturating_sub(before) as f64 / commands as f64,
    );
    if let Some(why) = tally.first {
        println!("  the first that did not: {why}");
    }
    if tally.wrong == 0 && doubled == 0 && open < BAND { ExitCode::SUCCESS } else { ExitCode::from(1) }
}

async fn serve() {
    let time = Duration::from_secs(number("ONCEBOX_SECONDS", SECONDS));
    let server = Server::builder(streams::script(STREAMS, time)).log_limit(1000).start().await.unwrap();
    println!("{}", server.url(""));
    let wait = tokio::task::spawn_blocking(|| std::io::stdin().read_to_end(&mut Vec::new()));
    wait.await.unwrap().unwrap();
    let totals = server.log().totals();
    println!("{} {} {}", totals.processed, totals.connections, totals.most_connections_open);
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap()
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap())
}

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

fn resident_kib() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}
