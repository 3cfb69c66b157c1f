//! Times decisions and counts allocations: `cargo xtask bench policy`. Fails outside its band.

use std::hint::black_box;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use oncebox_policy::{
    Attempt, Budget, CallFacts, Cause, Ledger, NotSent, Outcome, Permit, Phase, Policy, Response, Tokens, Unknown,
    judge,
};

/// The most that one decision may take.
const MOST: Duration = Duration::from_nanos(100);

/// Attempts that a call's history holds without allocation.
const ATTEMPTS: usize = 8;

/// Calls a round; many rounds, of which the best counts: everything else on the machine only adds.
const CALLS: u32 = 20_000;
const ROUNDS: u32 = 30;

fn main() -> ExitCode {
    let mut good = true;
    println!("{:<44} {:>12} {:>16}", "a call of 8 attempts", "a decision", "allocations");
    for (name, outcome) in outcomes() {
        let case = Case::new(outcome);
        let time = case.time();
        let allocations = allocation_counter::measure(|| case.call()).count_total;
        let within = time < MOST && allocations == 0;
        let mark = if within { "" } else { "  outside the band" };
        println!("{name:<44} {:>9.1} ns {allocations:>16}{mark}", time.as_secs_f64() * 1e9);
        good &= within;
    }
    println!("band: below {} ns a decision, no allocation for up to {ATTEMPTS} attempts", MOST.as_nanos());
    if good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn outcomes() -> Vec<(&'static str, Outcome)> {
    let hinted = Response { retry_after: Some(Duration::ZERO), ..Response::new(503) };
    let unsent = NotSent { phase: Phase::Connect, touched_socket: true, detail: "connection refused".into() };
    let lost = Unknown { cause: Cause::ConnectionLost, stream_id: Some(1), detail: "connection reset by peer".into() };
    vec![
        ("503", Outcome::Responded(Response::new(503))),
        ("503 with Retry-After", Outcome::Responded(hinted)),
        ("connect failed, the last of many dials", Outcome::NotSent(unsent)),
        ("refused by GOAWAY", Outcome::after_goaway(43, 41, 0, b"max_age")),
        ("connection lost, with a permit", Outcome::SentUnknown(lost)),
    ]
}

struct Case {
    policy: Policy,
    facts: CallFacts,
    budget: Budget,
    attempt: Attempt,
    answer: Attempt,
}

impl Case {
    fn new(outcome: Outcome) -> Self {
        Self {
            policy: Policy { retries: 10, connection_retries: 10, ..Policy::default() },
            facts: CallFacts {
                permit: Some(Permit::SafeMethod),
                deadline: Some(Duration::from_secs(60)),
                ..CallFacts::default()
            },
            budget: Budget::new(),
            attempt: Attempt { failed_dials: 100, ..Attempt::new(outcome) },
            answer: Attempt::new(Outcome::Responded(Response::new(200))),
        }
    }

    /// A whole call: seven attempts that are repeated, one that succeeds.
    fn call(&self) {
        let mut ledger = Ledger::new();
        let tokens = Some(Tokens { budget: &self.budget, call_started: Duration::ZERO });
        let now = Duration::from_millis(100);
        for _ in 1..ATTEMPTS {
            let attempt = black_box(&self.attempt);
            black_box(judge(&self.policy, &self.facts, &mut ledger, tokens, attempt, now, 0.5));
        }
        let answer = black_box(&self.answer);
        black_box(judge(&self.policy, &self.facts, &mut ledger, tokens, answer, now, 0.5));
        assert_eq!(ledger.attempts().len(), ATTEMPTS);
        black_box(&ledger);
    }

    /// The best mean time of a decision.
    fn time(&self) -> Duration {
        let mut best = Duration::MAX;
        for _ in 0..ROUNDS {
            let began = Instant::now();
            for _ in 0..CALLS {
                self.call();
            }
            best = best.min(began.elapsed() / (CALLS * ATTEMPTS as u32));
        }
        best
    }
}
