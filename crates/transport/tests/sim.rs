//! What holds over a network that is late, cut and torn, between a client and a scripted server that restarts.
//!
//! Everything runs on one thread in simulated time. A seed makes the network's delays, when it is cut or held and when
//! the server dies, and with that all that `properties.rs` draws. A failure prints its seed, and
//! `ONCEBOX_SEED=n cargo test -p oncebox-transport --test sim` runs that one alone; `cargo xtask sim --seeds n` runs
//! the seeds up to n.

#![allow(clippy::unwrap_used)] // A test panics when it fails.

mod support;

use std::cell::{Cell, RefCell};
use std::net::{IpAddr, Ipv4Addr};
use std::rc::Rc;
use std::time::Duration;

use fastrand::Rng;
use http::Request;
use oncebox_faults::{Peer, Script};
use oncebox_transport::policy::{Outcome, Permit};
use oncebox_transport::{Body, CallOptions, Client, simulation};
use support::world::{DEADLINE, World, any, seeds};
use turmoil::{Builder, Sim};

const SEEDS: u64 = 24;

/// Calls that are made at once when all is well again.
const AFTERWARDS: usize = 10;

const PORT: u16 = 80;
const URL: &str = "http://server/";

/// A step of the simulated clock.
const TICK: Duration = Duration::from_millis(5);
/// Far more than all calls of a world can take one after the other.
const LONGEST: Duration = Duration::from_secs(24 * 3600);

#[test]
fn whatever_networks_do() {
    for seed in seeds(SEEDS) {
        let held = std::panic::catch_unwind(|| simulate(seed));
        if held.is_err() {
            let script = World::new(seed).script.to_json();
            panic!("ONCEBOX_SEED={seed}\n{:#?}\n{script}", Weather::new(seed).plan);
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_run() {
    for seed in [1, 7, 23] {
        assert_eq!(simulate(seed), simulate(seed), "ONCEBOX_SEED={seed}");
    }
}

/// What happens to the network and the server, and when.
struct Weather {
    latency: (Duration, Duration),
    plan: Vec<(Duration, Event)>,
}

#[derive(Clone, Copy, Debug)]
enum Event {
    /// What is sent from now on is lost, in both directions or in one.
    Partition,
    LoseRequests,
    LoseAnswers,
    Repair,
    /// What is sent from now on is kept, and delivered later.
    Hold,
    Release,
    /// The server dies with all its connections, and is there again.
    Bounce,
}

impl Weather {
    fn new(seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed ^ 0x5eed);
        let ms = Duration::from_millis;
        let least = rng.u64(0..20);
        let latency = (ms(least), ms(least + rng.u64(1..80)));
        let mut plan = Vec::new();
        let mut at = ms(0);
        for _ in 0..rng.usize(..6) {
            at += ms(rng.u64(1..600));
            let trouble = [Event::Partition, Event::LoseRequests, Event::LoseAnswers, Event::Hold, Event::Bounce];
            let begins = any(&mut rng, &trouble);
            plan.push((at, begins));
            let ends = match begins {
                Event::Bounce => continue,
                Event::Hold => Event::Release,
                _ => Event::Repair,
            };
            at += any(&mut rng, &[ms(5), ms(300), Duration::from_secs(5), Duration::from_secs(45)]);
            plan.push((at, ends));
        }
        Self { latency, plan }
    }
}

impl Event {
    fn happens(self, sim: &mut Sim<'_>) {
        match self {
            Self::Partition => sim.partition("client", "server"),
            Self::LoseRequests => sim.partition_oneway("client", "server"),
            Self::LoseAnswers => sim.partition_oneway("server", "client"),
            Self::Repair => sim.repair("client", "server"),
            Self::Hold => sim.hold("client", "server"),
            Self::Release => sim.release("client", "server"),
            Self::Bounce => {
                sim.crash("server");
                sim.bounce("server");
            }
        }
    }
}

/// Runs a world, and checks what must hold. Returns what the server saw, to be compared.
fn simulate(seed: u64) -> Vec<String> {
    fastrand::seed(seed);
    simulation::on_this_thread(|host, port| {
        let address = (host.to_owned(), port);
        Box::pin(async move {
            let stream = turmoil::net::TcpStream::connect(address).await?;
            Ok(Box::new(stream) as Box<dyn simulation::Io>)
        })
    });
    let mut world = World::new(seed);
    let peer = Peer::new(world.script.clone()).unwrap();
    let weather = Weather::new(seed);
    let mut sim = Builder::new()
        .rng_seed(seed)
        .tick_duration(TICK)
        .simulation_duration(LONGEST)
        .min_message_latency(weather.latency.0)
        .max_message_latency(weather.latency.1)
        .tcp_capacity(100_000)
        .build();
    let serving = peer.clone();
    sim.host("server", move || {
        let peer = serving.clone();
        async move {
            let listener = turmoil::net::TcpListener::bind((IpAddr::V4(Ipv4Addr::UNSPECIFIED), PORT)).await?;
            loop {
                let (stream, _) = listener.accept().await?;
                let peer = peer.clone();
                tokio::spawn(async move { peer.serve(stream).await });
            }
        }
    });
    let client = world.builder(seed).keepalive_expiry(DEADLINE).build();
    let is_fair = Rc::new(Cell::new(false));
    let seen = Rc::new(RefCell::new(Vec::new()));
    let calls = calls_and_checks(client, world, peer.clone(), is_fair.clone(), seen.clone());
    sim.client("client", calls);
    let mut plan = weather.plan.into_iter().peekable();
    while !sim.step().unwrap() {
        while let Some((_, event)) = plan.next_if(|(at, _)| *at <= sim.elapsed()) {
            event.happens(&mut sim);
        }
        is_fair.set(plan.peek().is_none());
    }
    seen.take()
}

async fn calls_and_checks(
    client: Client,
    world: World,
    peer: Peer,
    is_fair: Rc<Cell<bool>>,
    seen: Rc<RefCell<Vec<String>>>,
) -> turmoil::Result {
    let ended = world.make_calls(&client, URL).await;
    world.check(peer.log(), &ended);
    seen.borrow_mut().extend(peer.log().all_tries().iter().map(|a_try| format!("{a_try:?}")));

    // 7. The network and the server are well again. A slot that was lost is missed now, and so is a waiter that was
    // forgotten. Connections that died without a word are found out one by one, by PING or by a dial's own limit.
    while !is_fair.get() {
        tokio::time::sleep(DEADLINE).await;
    }
    peer.set_script(Script::new().max_concurrent_streams(1)).unwrap();
    tokio::time::sleep(DEADLINE).await;
    let calls: Vec<_> = (0..AFTERWARDS).map(|_| tokio::spawn(get(client.clone()))).collect();
    for call in calls {
        let outcome = call.await.unwrap();
        assert_ne!(outcome, Outcome::TimedOut { sent: false }, "a waiter was forgotten");
    }
    // A server's connections keep the script that they began with, be it one that refuses everything: they must end.
    tokio::time::sleep(2 * DEADLINE).await;
    let mut outcomes = Vec::new();
    for _ in 0..AFTERWARDS {
        match get(client.clone()).await {
            Outcome::Responded(response) if response.status == 200 => return Ok(()),
            outcome => outcomes.push(outcome.to_string()),
        }
    }
    panic!("the server is well, and no call reaches it: {outcomes:#?}");
}

/// How a call ends that may be repeated.
async fn get(client: Client) -> Outcome {
    let options = CallOptions::new().permit(Permit::SafeMethod).retries(3).connection_retries(3);
    match client.send_collected(Request::get(URL).body(Body::empty()).unwrap(), options).await {
        Ok(response) => response.history().attempts().last().unwrap().outcome,
        Err(error) => *error.outcome().unwrap(),
    }
}
