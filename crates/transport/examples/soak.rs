//! Clients under fault scripts for minutes on end: `cargo xtask soak --minutes N`.
//!
//! All that must hold of each call is checked as in the tests; at the end descriptors, memory and calls under way are
//! what they were after the first fifth of the time. A failure ends it with a panic, and its seed.

#![allow(clippy::unwrap_used)] // It is a test.

#[path = "../tests/support/mod.rs"]
mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use oncebox_faults::Script;
use oncebox_transport::policy::Outcome;
use oncebox_transport::{Count, Recorder, Recording};
use support::load::{Done, Payload, posts_named, serve};
use support::world::World;

/// Worlds that run at once.
const AT_ONCE: usize = 64;

/// How much more memory may be in use at the end: allocators keep some, and the pool remembers 256 origins.
const MORE_MEMORY: u64 = 48 << 20;

/// How long what was closed may take to be gone.
const SETTLE: Duration = Duration::from_secs(60);

#[derive(Clone, Default)]
struct Sums {
    in_flight: Arc<AtomicI64>,
    calls: Arc<AtomicU64>,
    attempts: Arc<AtomicU64>,
}

impl Recorder for Sums {
    fn count(&self, what: Count, _: &'static str) {
        match what {
            Count::Calls => self.calls.fetch_add(1, Ordering::Relaxed),
            Count::Attempts => self.attempts.fetch_add(1, Ordering::Relaxed),
            _ => 0,
        };
    }

    fn in_flight(&self, change: i64) {
        self.in_flight.fetch_add(change, Ordering::Relaxed);
    }

    fn took(&self, _: Duration) {}
}

fn main() {
    let minutes: f64 = std::env::args().nth(1).and_then(|minutes| minutes.parse().ok()).unwrap_or(1.0);
    let time = Duration::from_secs_f64(minutes * 60.0);
    let first = std::env::var("ONCEBOX_SEED").map_or_else(|_| fastrand::u64(..1 << 32), |seed| seed.parse().unwrap());
    println!("seeds from {first} on, for {minutes} minutes");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let sums = Sums::default();
    let next = Arc::new(AtomicU64::new(first));
    runtime.block_on(worlds(time.mul_f64(0.2), &next, &sums));
    let before = settled(&sums, None);
    println!("after a fifth: {before:?}");
    runtime.block_on(worlds(time.mul_f64(0.8), &next, &sums));
    let after = settled(&sums, Some(before.descriptors));
    let worlds = next.load(Ordering::Relaxed) - first;
    let (calls, attempts) = (sums.calls.load(Ordering::Relaxed), sums.attempts.load(Ordering::Relaxed));
    println!("at the end: {after:?}; {worlds} worlds, {calls} calls, {attempts} attempts");
    assert_eq!(after.in_flight, 0, "calls are under way that nobody waits for");
    assert!(after.descriptors <= before.descriptors, "descriptors are left open");
    assert!(after.memory <= before.memory + MORE_MEMORY, "memory grows");
}

#[derive(Debug)]
struct Usage {
    descriptors: usize,
    memory: u64,
    in_flight: i64,
}

/// What is in use when no world is left; what is being closed has some time to be gone.
fn settled(sums: &Sums, most: Option<usize>) -> Usage {
    let started = Instant::now();
    let mut quiet = 0;
    let mut last = usize::MAX;
    loop {
        std::thread::sleep(Duration::from_millis(500));
        let descriptors = std::fs::read_dir("/proc/self/fd").unwrap().count();
        quiet = if descriptors == last { quiet + 1 } else { 0 };
        last = descriptors;
        let is_settled = most.map_or(quiet >= 10, |most| descriptors <= most);
        if is_settled || started.elapsed() > SETTLE {
            let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
            let memory = pages.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096;
            return Usage { descriptors, memory, in_flight: sums.in_flight.load(Ordering::Relaxed) };
        }
    }
}

async fn worlds(time: Duration, next: &Arc<AtomicU64>, sums: &Sums) {
    let until = Instant::now() + time;
    let workers: Vec<_> = (0..AT_ONCE)
        .map(|_| {
            let (next, sums) = (next.clone(), sums.clone());
            tokio::spawn(async move {
                while Instant::now() < until {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    let held = tokio::spawn(world(seed, sums.clone())).await;
                    assert!(held.is_ok(), "ONCEBOX_SEED={seed}\n{}", World::new(seed).script.to_json());
                }
            })
        })
        .collect();
    for worker in workers {
        worker.await.unwrap();
    }
}

async fn world(seed: u64, sums: Sums) {
    let mut world = World::new(seed);
    let server = serve(world.script.clone()).await;
    let client = world
        .builder(seed)
        .request_timeout(Duration::from_secs(4))
        .attempt_timeout(Duration::from_secs(2))
        .ping(Duration::from_secs(1), Duration::from_secs(1))
        .keepalive_expiry(Duration::from_secs(1))
        .observer(Recording(sums))
        .build();
    let ended = world.make_calls(&client, &server.url("/")).await;
    world.check(server.log(), &ended);
    // Every stream was given back: the server is well again, and has room for one at a time.
    server.set_script(Script::new().max_concurrent_streams(1)).unwrap();
    tokio::time::sleep(Duration::from_secs(4)).await;
    let run = posts_named("after", &client, &server, 20, 10, Payload::Bytes(1)).await;
    run.assert_histories_agree(&server);
    let waited_for_ever = |done: &Done| done.outcomes().contains(&Outcome::TimedOut { sent: false });
    assert!(!run.done.iter().any(waited_for_ever), "{run:?}");
}
