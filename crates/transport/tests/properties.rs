//! What holds whatever servers do, over fault scripts drawn at random.
//!
//! A seed makes the script, the client's options and the requests. A failure prints its seed, and
//! `ONCEBOX_SEED=n cargo test -p oncebox-transport --test properties` runs that one alone; `ONCEBOX_SEEDS=n` runs the
//! seeds up to n.

#![allow(clippy::unwrap_used)] // A test panics when it fails.

mod support;

use oncebox_faults::Script;
use oncebox_transport::policy::Outcome;
use support::load::{Done, Payload, posts_named, serve};
use support::world::{World, seeds};

const SEEDS: u64 = 150;

#[test]
fn whatever_servers_do() {
    for seed in seeds(SEEDS) {
        let held = std::panic::catch_unwind(|| {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
            runtime.unwrap().block_on(holds_for(seed));
        });
        if held.is_err() {
            let script = World::new(seed).script.to_json();
            panic!("ONCEBOX_SEED={seed}\n{script}");
        }
    }
}

async fn holds_for(seed: u64) {
    let mut world = World::new(seed);
    fastrand::seed(seed);
    let server = serve(world.script.clone()).await;
    let client = world.client(seed);
    let ended = world.make_calls(&client, &server.url("/")).await;
    world.check(server.log(), &ended);

    // 7. The server is well again. A slot that was lost is missed now, and so is a waiter that was forgotten.
    server.set_script(Script::new().max_concurrent_streams(1)).unwrap();
    let run = posts_named("after", &client, &server, 50, 25, Payload::Bytes(1)).await;
    run.assert_histories_agree(&server);
    let waited_for_ever = |done: &Done| done.outcomes().contains(&Outcome::TimedOut { sent: false });
    assert!(!run.done.iter().any(waited_for_ever), "{run:?}");
}
