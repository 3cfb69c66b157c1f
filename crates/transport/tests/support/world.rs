//! What a seed draws: a server's script, a client's options, calls; and what must hold of each call that is over.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use fastrand::Rng;
use http::{Method, Request};
use oncebox_faults::{
    Answer, ErrorCode, Fault, LastId, Log, Moment, Number, ProtocolError, RetryAfter, Rule, Script, Settings, Then,
};
use oncebox_transport::policy::{Ledger, Outcome, Permit, Verdict};
use oncebox_transport::{CallOptions, Client, ClientBuilder};
use tokio::time::{Instant, timeout};

use super::load::{Payload, agree_in_some_order, http2};

const RETRIES: [u32; 3] = [0, 1, 3];
const CONNECTION_RETRIES: [u32; 4] = [0, 1, 3, 8];

/// Time is paused or simulated: a minute takes none.
pub const DEADLINE: Duration = Duration::from_secs(60);
/// A streamed upload has no deadline, but its attempts have one.
const ATTEMPT: Duration = Duration::from_secs(20);
const NEVER: Duration = Duration::from_secs(3600);

/// The seeds that a run is for: the one of `ONCEBOX_SEED`, those up to `ONCEBOX_SEEDS`, or those up to `usual`.
pub fn seeds(usual: u64) -> std::ops::RangeInclusive<u64> {
    let of = |name| std::env::var(name).ok().map(|seed| seed.parse().unwrap());
    match (of("ONCEBOX_SEED"), of("ONCEBOX_SEEDS")) {
        (Some(seed), _) => seed..=seed,
        (None, seeds) => 0..=seeds.unwrap_or(usual),
    }
}

/// What a seed makes.
pub struct World {
    pub script: Script,
    retries: u32,
    connection_retries: u32,
    max_connections: usize,
    calls: Vec<Planned>,
    at_once: usize,
    rng: Rng,
}

#[derive(Clone)]
struct Planned {
    id: String,
    method: Method,
    permit: Option<Permit>,
    payload: Payload,
}

impl World {
    pub fn new(seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed);
        let script = script(&mut rng, seed);
        let (retries, connection_retries) = (any(&mut rng, &RETRIES), any(&mut rng, &CONNECTION_RETRIES));
        let count = rng.usize(5..40);
        let calls = (0..count).map(|n| planned(&mut rng, n)).collect();
        let (max_connections, at_once) = (any(&mut rng, &[1, 2, 200]), rng.usize(1..20));
        Self { script, retries, connection_retries, max_connections, calls, at_once, rng }
    }

    /// The client of this world.
    pub fn client(&mut self, seed: u64) -> Client {
        self.builder(seed).build()
    }

    /// The same, to be changed.
    pub fn builder(&mut self, seed: u64) -> ClientBuilder {
        http2()
            .retries(self.retries)
            .connection_retries(self.connection_retries)
            .max_connections(self.max_connections)
            .initial_streams(self.rng.u32(1..20))
            .request_timeout(DEADLINE)
            .attempt_timeout(ATTEMPT)
            .seed(seed)
    }

    /// Makes all calls, so many at once.
    pub async fn make_calls(&self, client: &Client, url: &str) -> Vec<Ended> {
        let calls: Arc<[Planned]> = self.calls.clone().into();
        let next = Arc::new(AtomicUsize::new(0));
        let workers: Vec<_> = (0..self.at_once)
            .map(|_| tokio::spawn(work(client.clone(), url.to_owned(), calls.clone(), next.clone())))
            .collect();
        let mut ended = Vec::new();
        for worker in workers {
            ended.extend(timeout(NEVER, worker).await.unwrap_or_else(|_| panic!("a call never ends")).unwrap());
        }
        assert_eq!(ended.len(), calls.len());
        ended
    }

    /// What must hold of a server and the calls that were made to it.
    pub fn check(&self, log: &Log, ended: &[Ended]) {
        for call in ended {
            self.check_call(log, call);
        }
        // 5. No stream too many, and none after a GOAWAY was read.
        assert_eq!(log.totals().violations, 0, "{:#?}", log.events());
        for a_try in log.all_tries() {
            assert!(!a_try.after_goaway_was_seen, "a stream was opened after its GOAWAY was read: {a_try:#?}");
        }
    }

    fn check_call(&self, log: &Log, call: &Ended) {
        let Ended { plan, ledger, took, succeeded } = call;
        let tries = log.tries(&plan.id);
        let outcomes: Vec<_> = ledger.attempts().iter().map(|record| record.outcome).collect();
        let say = || format!("{} {}\n{ledger}\n{tries:#?}", plan.method, plan.id);

        // 2. Processed at most once, unless nobody knew and a repeat was permitted.
        let unknown = outcomes.iter().filter(|outcome| outcome.is_unknown(false)).count();
        let processed = tries.iter().filter(|a_try| a_try.processed).count();
        let repeats = if plan.permit.is_some() { unknown } else { 0 };
        assert!(processed <= 1 + repeats, "processed {processed} times: {}", say());
        assert!(!succeeded || processed >= 1, "answered and not processed: {}", say());
        let may_have_been = outcomes.iter().any(Outcome::may_have_been_processed);
        assert!(may_have_been || processed == 0, "said not to have been processed: {}", say());

        // 3. Attempts and waits are bounded, and so is the call.
        let bound = 1 + self.retries + self.connection_retries;
        assert!(ledger.counted_attempts() <= bound, "{}", say());
        assert!(tries.len() <= bound as usize, "{}", say());
        for (record, next) in ledger.attempts().iter().zip(ledger.attempts().iter().skip(1)) {
            let Verdict::Retry(retry) = record.verdict else { panic!("something followed: {}", say()) };
            assert!(retry.after >= record.outcome.retry_after().unwrap_or_default(), "{}", say());
            assert!(next.started >= record.ended + retry.after, "{}", say());
        }
        if !matches!(plan.payload, Payload::Stream(_)) {
            assert!(*took <= DEADLINE + Duration::from_millis(10), "took {took:?}: {}", say());
        }

        // 4. What came is what was sent, from its first byte.
        let bytes = plan.payload.bytes();
        for a_try in &tries {
            let came = &bytes[..a_try.body_bytes as usize];
            assert_eq!(a_try.body_digest, oncebox_faults::digest(came), "{}", say());
            assert!(!a_try.processed || came.len() == bytes.len(), "{}", say());
        }

        // 6 and 8. The history is what the server saw.
        assert!(agree_in_some_order(&outcomes, &tries), "{}", say());
    }
}

pub fn any<T: Clone>(rng: &mut Rng, of: &[T]) -> T {
    of[rng.usize(..of.len())].clone()
}

fn planned(rng: &mut Rng, n: usize) -> Planned {
    let (method, permit) = any(
        rng,
        &[
            (Method::POST, None),
            (Method::POST, None),
            (Method::POST, Some(Permit::IdempotencyKey)),
            (Method::GET, Permit::of_method("GET")),
            (Method::DELETE, Permit::of_method("DELETE")),
        ],
    );
    let size = rng.usize(1..2500);
    let payload = any(rng, &[Payload::None, Payload::Bytes(size), Payload::Stream(size)]);
    Planned { id: format!("r{n}"), method, permit, payload }
}

fn script(rng: &mut Rng, seed: u64) -> Script {
    let mut script = Script::new().seed(seed).service_time_ms(rng.u64(0..30));
    let settings = Settings::streams(rng.u32(1..20));
    script = script.settings(Settings { after_ms: any(rng, &[0, 0, 5]), ..settings });
    for _ in 0..rng.usize(1..5) {
        script = script.rule(rule(rng));
    }
    script
}

fn rule(rng: &mut Rng) -> Rule {
    let moment = any(
        rng,
        &[
            Moment::Request,
            Moment::Request,
            Moment::Received,
            Moment::Processed,
            Moment::AnswerBody(0),
            Moment::AnswerBody(1),
            Moment::Answered,
            Moment::Connect,
            Moment::Preface,
            Moment::Idle(7),
            Moment::Age(40),
        ],
    );
    let mut rule = Rule::at(moment);
    rule = match rng.u32(..5) {
        0 => rule.probability(0.1),
        1 => rule.probability(0.5),
        2 => rule.count(Number::Every(rng.u64(2..9))),
        3 => rule.connection(Number::round([1], rng.u64(2..4))),
        _ => rule.count(1..=rng.u64(1..6)),
    };
    let faults = faults(rng, moment);
    faults.into_iter().fold(rule, Rule::does)
}

/// Only what an honest server does: it never says of a request that it processed that it did not.
fn faults(rng: &mut Rng, moment: Moment) -> Vec<Fault> {
    let mut menu: Vec<Vec<Fault>> =
        vec![vec![Fault::Close], vec![Fault::CloseUnread], vec![Fault::Reset], vec![Fault::Stall(20)]];
    let unprocessed = matches!(moment, Moment::Request | Moment::Received);
    let of_request = unprocessed || matches!(moment, Moment::Processed | Moment::AnswerBody(_) | Moment::Answered);
    if moment != Moment::Connect {
        let code = any(rng, &[ErrorCode::NO_ERROR, ErrorCode::ENHANCE_YOUR_CALM]);
        for then in [Then::Stay, Then::CloseWhenDone, Then::ResetWhenDone, Then::Close, Then::Reset] {
            // The answer to the PING tells whether the client had read the GOAWAY.
            menu.push(vec![Fault::goaway().code(code).debug("max_age").then(then).into(), Fault::Ping]);
        }
        menu.push(vec![Fault::goaway().last(LastId::Max).into(), Fault::Wait(5), Fault::goaway().into()]);
        menu.push(vec![Settings::streams(rng.u32(1..20)).into()]);
        menu.push(vec![Fault::ProtocolError(any(
            rng,
            &[ProtocolError::BadHpack, ProtocolError::DataOnStreamZero, ProtocolError::LoneContinuation],
        ))]);
    }
    if moment == Moment::Request {
        menu.push(vec![Fault::goaway().last(LastId::Previous).into()]);
    }
    if unprocessed {
        for _ in 0..3 {
            menu.push(vec![Fault::Refuse]);
        }
        let status = any(rng, &[421, 425, 429, 500, 502, 503, 503, 504]);
        let wait = any(rng, &[None, Some(RetryAfter::Seconds(0)), Some(RetryAfter::Seconds(2))]);
        menu.push(vec![Fault::answer(Answer { retry_after: wait, ..Answer::status(status).text("no") })]);
        menu.push(vec![Fault::Hold]);
    }
    if of_request {
        let codes = [ErrorCode::NO_ERROR, ErrorCode::CANCEL, ErrorCode::INTERNAL_ERROR];
        menu.push(vec![Fault::ResetStream(any(rng, &codes))]);
        menu.push(vec![Fault::Wait(rng.u64(1..3000))]);
        menu.push(vec![Fault::Silence]);
    }
    if moment == Moment::Answered {
        menu.push(vec![Fault::LateFrames]);
    }
    any(rng, &menu)
}

/// A call that is over.
pub struct Ended {
    plan: Planned,
    ledger: Ledger,
    took: Duration,
    succeeded: bool,
}

async fn work(client: Client, url: String, calls: Arc<[Planned]>, next: Arc<AtomicUsize>) -> Vec<Ended> {
    let mut ended = Vec::new();
    while let Some(plan) = calls.get(next.fetch_add(1, Ordering::Relaxed)) {
        let options = plan.permit.map_or(CallOptions::new(), |permit| CallOptions::new().permit(permit));
        let started = Instant::now();
        let request = Request::builder().method(plan.method.clone()).uri(&url).header("x-request-id", &plan.id);
        let called = client.send_collected(request.body(plan.payload.body()).unwrap(), options).await;
        let took = started.elapsed();
        let (ledger, succeeded) = match &called {
            Ok(response) => {
                let history = response.history();
                (history.ledger().clone(), response.status() == 200)
            }
            Err(error) => (error.ledger().clone(), false),
        };
        ended.push(Ended { plan: plan.clone(), ledger, took, succeeded });
    }
    ended
}
