//! What `oncebox serve` costs: the start of a sandbox, and the server's memory. Fails outside the bands below.
//!
//! A start is measured as a user has it, through the SDK: from the request that creates the sandbox until it was answered, and
//! until the first command in it has ended. One after another says what a start takes; all at once, what the machine does
//! in a second, since they then wait for each other's processors. The sandboxes have no network: a way out is a process more
//! for each, and none of the server's.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use oncebox::{Client, Sandbox};

/// Sandboxes that run at once.
const AT_ONCE: usize = 200;
/// Sandboxes started one after another.
const IN_A_ROW: usize = 50;
/// The most a start may take at the median, up to the end of the first command.
const START_BAND: Duration = Duration::from_millis(50);
/// The most memory the idle server may hold, before it has had a sandbox and after it had all of them.
const IDLE_BAND: u64 = 30 << 20;

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let within = runtime.block_on(bench());
    if !within {
        eprintln!("outside the band");
        std::process::exit(1);
    }
}

async fn bench() -> bool {
    let before = Instant::now();
    let server = Server::start();
    println!("server ready after                {:>8.1} ms", millis(before.elapsed()));
    tokio::time::sleep(Duration::from_secs(1)).await;
    let idle = server.resident();
    println!("idle server                       {:>8.1} MiB resident   (band {})", mebibytes(idle), IDLE_BAND >> 20);

    let client = Client::builder().api_url(&server.url).sandbox_url(&server.url).api_key("local").build().unwrap();
    // Connections, and the helper's pages.
    start(&client).await.2.kill().await.unwrap();
    let (mut created, mut ran) = (Vec::new(), Vec::new());
    for _ in 0..IN_A_ROW {
        let (create, run, sandbox) = start(&client).await;
        created.push(create);
        ran.push(run);
        sandbox.kill().await.unwrap();
    }
    let one = median(&mut ran);
    println!("one after another, {IN_A_ROW} times");
    println!("  create answered                 {:>8.1} ms median", millis(median(&mut created)));
    println!("  first command ended             {:>8.1} ms median   (band {})", millis(one), START_BAND.as_millis());

    let before = Instant::now();
    let starts = futures_util::future::join_all((0..AT_ONCE).map(|_| start(&client))).await;
    let all = before.elapsed();
    let each = all / u32::try_from(AT_ONCE).unwrap();
    let (mut created, mut ran): (Vec<_>, Vec<_>) = starts.iter().map(|(create, run, _)| (*create, *run)).unzip();
    let busy = server.resident();
    println!("{AT_ONCE} at once, each running a command");
    println!("  create answered                 {:>8.1} ms median", millis(median(&mut created)));
    println!("  first command ended             {:>8.1} ms median", millis(median(&mut ran)));
    println!("  all commands ended              {:>8.1} ms", millis(all));
    println!("  a sandbox each                  {:>8.1} ms   (band {})", millis(each), START_BAND.as_millis());
    println!("  server                          {:>8.1} MiB resident", mebibytes(busy));

    let before = Instant::now();
    futures_util::future::join_all(starts.iter().map(|(.., sandbox)| sandbox.kill())).await;
    println!("  all killed                      {:>8.1} ms", millis(before.elapsed()));
    client.close().await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let after = server.resident();
    println!("idle again                        {:>8.1} MiB resident   (band {})", mebibytes(after), IDLE_BAND >> 20);
    one < START_BAND && each < START_BAND && idle < IDLE_BAND && after < IDLE_BAND
}

/// A sandbox, and the time until it was created and until its first command had ended.
async fn start(client: &Client) -> (Duration, Duration, Sandbox) {
    let before = Instant::now();
    let sandbox = Sandbox::create(client).await.expect("a sandbox");
    let created = before.elapsed();
    let output = sandbox.commands().run("echo hello").await.expect("a command");
    assert_eq!(output.stdout_text(), "hello\n");
    (created, before.elapsed(), sandbox)
}

fn median(times: &mut [Duration]) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

#[allow(clippy::cast_precision_loss, reason = "far below the limit")]
fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

/// The command, as a user starts it.
struct Server {
    process: Child,
    url: String,
}

impl Server {
    fn start() -> Self {
        let mut process = Command::new(env!("CARGO_BIN_EXE_oncebox"))
            .args(["serve", "--port", "0", "--network", "none", "--json"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let told: serde_json::Value = serde_json::from_str(&line).expect("the address of a server that started");
        Self { process, url: told["url"].as_str().unwrap().to_owned() }
    }

    /// Bytes of memory that are its own and in memory now.
    fn resident(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
