//! Requests lost and doubled while a server retires each connection after 20 streams: ours beside the clients that people
//! use today. `cargo xtask bench retirement [--write]`; `--write` draws the README's picture from the run.
//!
//! The server counts: a request is lost when its caller got no answer, and doubled when the server processed it twice.
//! Each client has its defaults, and HTTP/2 on.

mod picture;
mod rust;

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use oncebox_faults::{Script, Server};

/// Requests of each run.
const REQUESTS: usize = 2000;

/// How many at once.
const CONCURRENCY: usize = 64;

/// After how many streams a connection is retired.
const STREAMS: u64 = 20;

/// What a request carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// 10,000 bytes at hand.
    Bytes,
    /// The same, read as they are sent.
    Stream,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Bytes => "bytes",
            Self::Stream => "stream",
        }
    }
}

/// What became of one client's requests.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) client: String,
    pub(crate) kind: Kind,
    pub(crate) lost: usize,
    pub(crate) doubled: usize,
    connections: u64,
}

type Failed = Box<dyn Error + Send + Sync>;

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let (Some(root), write) = (arguments.next(), arguments.next().is_some_and(|word| word == "--write")) else {
        eprintln!("usage: cargo xtask bench retirement [--write]");
        return ExitCode::FAILURE;
    };
    match run(Path::new(&root), write) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn run(root: &Path, write: bool) -> Result<bool, Failed> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let peers = peers(root);
    let mut rows = Vec::new();
    println!("{REQUESTS} POSTs at concurrency {CONCURRENCY}, each connection retired after {STREAMS} streams");
    println!("{:<24}{:<8}{:>8}{:>10}{:>14}", "client", "body", "lost", "doubled", "connections");
    for kind in [Kind::Bytes, Kind::Stream] {
        for client in std::iter::once(None).chain(std::iter::once(Some(&Peer::Reqwest))).chain(peers.iter().map(Some)) {
            let row = runtime.block_on(one(client, kind))?;
            let Row { client, lost, doubled, connections, .. } = &row;
            println!("{client:<24}{:<8}{lost:>8}{doubled:>10}{connections:>14}", kind.name());
            rows.push(row);
        }
    }
    if write {
        std::fs::write(root.join("docs/pictures/retirement.svg"), picture::draw(&rows, REQUESTS))?;
    }
    Ok(rows.iter().all(|row| row.client != rust::OURS || (row.lost, row.doubled) == (0, 0)))
}

/// A client by others.
enum Peer {
    Reqwest,
    Program { name: String, command: Vec<PathBuf> },
}

/// One run against a server of its own.
async fn one(peer: Option<&Peer>, kind: Kind) -> Result<Row, Failed> {
    let server = Server::builder(Script::retiring(STREAMS)).log_limit(100_000);
    // Of those in Rust neither speaks TLS here; the others speak HTTP/2 in no other way.
    let server = if matches!(peer, Some(Peer::Program { .. })) { server.tls() } else { server };
    let server = server.start().await?;
    let ca = server.ca_pem().unwrap_or_default().to_owned();
    let url = server.url("/");
    let (client, ok) = match peer {
        None => (rust::OURS.to_owned(), rust::ours(&url, kind).await?),
        Some(Peer::Reqwest) => ("reqwest 0.13".to_owned(), rust::reqwest(&url, kind).await?),
        Some(Peer::Program { name, command }) => {
            let (name, command) = (name.clone(), command.clone());
            let ok = tokio::task::spawn_blocking(move || program(&command, &url, &ca, kind)).await??;
            (name, ok)
        }
    };
    let log = server.log();
    let (doubled, connections) = (log.doubled().len(), log.totals().connections);
    Ok(Row { client, kind, lost: REQUESTS - ok, doubled, connections })
}

/// Runs a client's program, which prints how many of its requests were answered.
fn program(command: &[PathBuf], url: &str, ca: &str, kind: Kind) -> Result<usize, Failed> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("ca.pem");
    std::fs::write(&file, ca)?;
    let (first, rest) = command.split_first().ok_or("no program")?;
    let numbers = [REQUESTS, CONCURRENCY].map(|number| number.to_string());
    let output = Command::new(first).args(rest).arg(url).arg(&file).args(numbers).arg(kind.name()).output()?;
    let words = String::from_utf8_lossy(&output.stderr);
    let told: serde_json::Value =
        serde_json::from_slice(&output.stdout).map_err(|_| format!("{command:?}: {words}"))?;
    words.lines().take(2).for_each(|line| println!("    {line}"));
    let ok = told["ok"].as_u64().ok_or("the program did not count")?;
    Ok(usize::try_from(ok)?)
}

/// The clients whose packages are there; of the others it is said that they are left out.
fn peers(root: &Path) -> Vec<Peer> {
    let (python, node) = (root.join(".tools/bench-python/bin/python"), root.join(".tools/bench-node"));
    let scripts = root.join("bench/peers");
    let all = [
        ("pyqwest 0.12 (Python)", vec![python.clone(), scripts.join("pyqwest_posts.py")]),
        ("httpx 0.28 (Python)", vec![python, scripts.join("httpx_posts.py")]),
        ("undici 7.30 (Node)", vec![PathBuf::from("node"), node.join("undici_posts.mjs")]),
    ];
    let there = |command: &[PathBuf]| command.iter().all(|part| part.components().count() == 1 || part.exists());
    let (there, missing): (Vec<_>, Vec<_>) = all.into_iter().partition(|(_, command)| there(command));
    for (name, _) in missing {
        println!("left out, since it is not installed: {name}");
    }
    there.into_iter().map(|(name, command)| Peer::Program { name: name.to_owned(), command }).collect()
}
