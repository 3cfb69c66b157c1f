//! Properties of the create machine against a modelled server, for any order of faults.

#![allow(clippy::unwrap_used)]

#[path = "create_properties/drive.rs"]
mod drive;
#[path = "create_properties/server.rs"]
mod server;

use std::collections::BTreeSet;
use std::time::Duration;

use oncebox_policy::create::{Action, ApiVersion, Call, Create, Intent, IntentTag, Rule, ServerMemory};
use oncebox_policy::{DEFAULT_SETTLE, IdempotencyKeys, Options, Policy};
use proptest::collection::{vec, vec_deque};
use proptest::prelude::*;
use proptest::sample::select;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

use drive::{Run, Setup, drive};
use server::{BEGAN, Back, Behaviour, SendFault, Server};

#[derive(Clone, Debug)]
struct Case {
    behaviour: Behaviour,
    keys: IdempotencyKeys,
    given: bool,
    /// Seconds before the begin at which sandboxes of the same intent were started; only of a given one.
    older: Vec<f64>,
    /// How long before the begin an earlier call lost a send; only of a given one.
    earlier_loss: Option<Duration>,
    /// When that send has its effect, where it has one.
    earlier_effect: Option<f64>,
    foreign: usize,
    known_v2: bool,
    policy: Policy,
    deadline: Duration,
    abandon_at: Option<usize>,
    fork: bool,
    seed: u64,
}

impl Default for Case {
    fn default() -> Self {
        Self {
            behaviour: Behaviour::default(),
            keys: IdempotencyKeys::Auto,
            given: false,
            older: Vec::new(),
            earlier_loss: None,
            earlier_effect: None,
            foreign: 3,
            known_v2: false,
            policy: Policy::default(),
            deadline: Duration::from_secs(60),
            abandon_at: None,
            fork: true,
            seed: 0,
        }
    }
}

impl Case {
    fn run(&self) -> (Run, Server) {
        let intent = self.intent();
        let mut server = Server::new(self.behaviour.clone(), self.seed);
        for index in 0..self.foreign {
            let tag = match index % 3 {
                0 => IntentTag::Value(Intent::from_random([0xfe; 16]).to_string()),
                1 => IntentTag::None,
                _ => IntentTag::Value(intent.as_str()[1..].to_owned()),
            };
            server.add_foreign(index as f64 * 0.7 - 1.0, tag);
        }
        for started in &self.older {
            server.add_older(-started, &intent);
        }
        if let Some(at) = self.earlier_effect {
            server.add_earlier(at, &intent);
        }
        let call = Call {
            options: Options {
                policy: self.policy.clone(),
                request_timeout: Some(self.deadline),
                idempotency_keys: self.keys,
                ..Options::default()
            },
            began: BEGAN,
            server: ServerMemory {
                version: (self.known_v2 && self.behaviour.has_v2).then_some(ApiVersion::V2),
                ..ServerMemory::default()
            },
            earlier_loss: self.earlier_loss,
            ..Call::default()
        };
        let mut create = if self.given { Create::given(intent, call) } else { Create::new(intent, call) };
        let setup = Setup {
            intent,
            policy: &self.policy,
            deadline: self.deadline,
            abandon_at: self.abandon_at,
            fork: self.fork,
        };
        let run = drive(&mut create, &mut server, &setup);
        (run, server)
    }

    fn intent(&self) -> Intent {
        Intent::from_random(u128::from(self.seed).to_le_bytes())
    }

    fn lies(&self) -> bool {
        self.behaviour.sends.iter().any(|fault| matches!(fault, SendFault::Busy { lie: true, .. }))
    }

    /// The server's lists and clock tell the truth.
    fn truthful(&self) -> bool {
        self.behaviour.metadata && self.behaviour.dates
    }
}

fn wire_fault() -> impl Strategy<Value = SendFault> {
    let back = prop_oneof![
        3 => Just(Back::Nothing),
        3 => select(vec![408, 500, 502, 504, 524]).prop_map(Back::Html),
        1 => Just(Back::Cut),
    ];
    (any::<bool>(), back).prop_map(|(reaches, back)| SendFault::Wire { reaches, back })
}

fn send_fault() -> impl Strategy<Value = SendFault> {
    prop_oneof![
        3 => Just(SendFault::None),
        1 => Just(SendFault::NotSent),
        1 => Just(SendFault::Refused),
        1 => (0..4_u64).prop_map(SendFault::RateLimited),
        8 => wire_fault(),
        2 => any::<bool>().prop_map(|effect| SendFault::Recorded { effect }),
        3 => (any::<bool>(), proptest::option::of(0..4_u64))
            .prop_map(|(lie, retry_after)| SendFault::Busy { lie, retry_after }),
        1 => Just(SendFault::StoreDown),
        1 => Just(SendFault::Forgotten),
    ]
}

fn behaviour() -> impl Strategy<Value = Behaviour> {
    let faults = |most| vec_deque(any::<bool>(), 0..most);
    (
        (any::<bool>(), any::<bool>(), prop::bool::weighted(0.85), prop::bool::weighted(0.9)),
        (prop::bool::weighted(0.85), select(vec![404, 405]), 0..2_000_u64, -40_000..40_000_i64),
        vec((0..5_000_u64).prop_map(Duration::from_millis), 1..4),
        (vec_deque(send_fault(), 0..8), faults(6), faults(3), faults(3)),
    )
        .prop_map(|((honours_keys, filters, metadata, dates), (has_v2, missing, lag, skew), delays, faults)| {
            let (sends, lists, adopts, kills) = faults;
            let lag = Duration::from_millis(lag);
            Behaviour {
                honours_keys,
                filters,
                metadata,
                dates,
                has_v2,
                missing,
                lag,
                skew,
                delays,
                sends,
                lists,
                adopts,
                kills,
            }
        })
}

/// How long before the begin an earlier call lost a send, and at which part of its time that has its effect, if ever.
fn earlier() -> impl Strategy<Value = (Duration, Option<f64>)> {
    ((0..12_000_u64).prop_map(Duration::from_millis), proptest::option::of(0.0..1.0_f64))
}

/// This part of the time from an earlier loss on in which an effect shows itself in lists before `settle` is over.
fn in_time(behaviour: &Behaviour, loss: Option<Duration>, part: f64) -> f64 {
    (SETTLE - behaviour.lag).as_secs_f64() * part - loss.unwrap_or_default().as_secs_f64()
}

fn case() -> impl Strategy<Value = Case> {
    (
        behaviour(),
        select(vec![IdempotencyKeys::Auto, IdempotencyKeys::Honoured, IdempotencyKeys::Ignored]),
        (prop::bool::weighted(0.3), vec(0.1..60.0_f64, 0..3), proptest::option::of(earlier())),
        (0..5_usize, any::<bool>(), any::<bool>()),
        (0..5_u32, 0..5_u32, select(vec![16_u32, 16, 6, 3])),
        select(vec![60_u64, 60, 25, 8]),
        proptest::option::weighted(0.25, 0..30_usize),
        any::<u64>(),
    )
        .prop_map(
            |(
                behaviour,
                keys,
                (given, older, earlier),
                (foreign, known_v2, fork),
                counts,
                deadline,
                abandon_at,
                seed,
            )| {
                let (retries, connection_retries, lookups) = counts;
                let (loss, effect) = earlier.filter(|_| given).unzip();
                Case {
                    keys,
                    given,
                    older: if given { older } else { Vec::new() },
                    earlier_loss: loss,
                    earlier_effect: effect.flatten().map(|part: f64| in_time(&behaviour, loss, part)),
                    foreign,
                    known_v2,
                    policy: Policy { retries, connection_retries, lookups, ..Policy::default() },
                    deadline: Duration::from_secs(deadline),
                    abandon_at,
                    fork,
                    seed,
                    behaviour,
                }
            },
        )
}

/// What is taken where nothing is said.
const SETTLE: Duration = DEFAULT_SETTLE;

/// A bad day: the answer lost on 20 %, 502 on 10 % (half of them after the effect), 504 after it on 10 %, 503 on 10 %,
/// refused on 10 %; effects up to 5 s late, lists that lag, faults of look-ups and kills.
#[test]
fn on_a_bad_day_nearly_all_are_acknowledged() {
    let bad_day = |percent: u64| match percent {
        0..20 => SendFault::Wire { reaches: true, back: Back::Nothing },
        20..25 => SendFault::Wire { reaches: true, back: Back::Html(502) },
        25..30 => SendFault::Wire { reaches: false, back: Back::Html(502) },
        30..40 => SendFault::Wire { reaches: true, back: Back::Html(504) },
        40..50 => SendFault::Busy { lie: false, retry_after: None },
        50..60 => SendFault::Refused,
        _ => SendFault::None,
    };
    for (honours_keys, has_v2) in [(true, true), (false, true), (false, false)] {
        let mut acknowledged = 0;
        for seed in 0..1_000_u64 {
            let mut dice = Server::new(Behaviour::default(), seed * 7 + 1);
            let mut roll = |sides: u64| dice.next() % sides;
            let behaviour = Behaviour {
                honours_keys,
                has_v2,
                lag: Duration::from_millis(roll(2_000)),
                delays: (0..3).map(|_| Duration::from_millis(roll(5_000))).collect(),
                sends: (0..12).map(|_| bad_day(roll(100))).collect(),
                lists: (0..12).map(|_| roll(10) == 0).collect(),
                adopts: (0..4).map(|_| roll(10) == 0).collect(),
                kills: (0..4).map(|_| roll(10) == 0).collect(),
                ..Behaviour::default()
            };
            let case = Case { behaviour, seed, ..Case::default() };
            let (run, server) = case.run();
            assert!(run.certain && run.left.is_empty(), "{run:#?}");
            match &run.end {
                Action::Done(done) => {
                    acknowledged += 1;
                    assert!(server.is_alive(&done.id) && server.ours_alive() == 1, "{run:#?}");
                }
                Action::NotDone(_) => assert_eq!(server.ours_alive(), 0, "{run:#?}"),
                _ => assert!(server.ours_alive() <= 1, "{run:#?}"),
            }
        }
        println!("keys honoured: {honours_keys}, v2: {has_v2}: {acknowledged} of 1000 acknowledged");
        assert!(acknowledged >= 980, "only {acknowledged} of 1000");
    }
}

/// The model is no proof of anything that it does not reach.
#[test]
fn the_model_reaches_the_rules() {
    // Of these only vectors tell.
    let out_of_reach = [Rule::CallersKeyStays, Rule::IntentMismatch, Rule::Resolve, Rule::Vanished, Rule::Awaited];
    let mut runner = TestRunner::deterministic();
    let mut reached = BTreeSet::from(out_of_reach);
    for _ in 0..4_000 {
        let (run, _) = case().new_tree(&mut runner).unwrap().current().run();
        reached.extend(run.trace.iter().map(|(_, step)| step.rule));
    }
    let missing: Vec<_> = Rule::ALL.iter().filter(|rule| !reached.contains(rule)).collect();
    assert!(missing.is_empty(), "never reached: {missing:?}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    /// The checks of each action are in `drive`: what is adopted and killed, counts, waits, the deadline.
    #[test]
    fn every_end_is_true(case in case()) {
        let (run, server) = case.run();
        let alive = server.ours_alive();
        let carried = server.carried_alive(&case.intent());
        let swept = run.trace.iter().any(|(_, step)| step.rule == Rule::SweepAtOnce);
        prop_assert!(swept || run.sends < 2, "sent twice and not swept: {run:#?}");
        if case.truthful() && !case.given {
            prop_assert!(run.certain, "{run:#?}");
            prop_assert_eq!(&run.left, &Vec::<String>::new(), "{:#?}", run);
            prop_assert!(alive <= 1, "{alive} of ours survive: {run:#?}");
        }
        if case.truthful() && run.left.is_empty() {
            prop_assert!(alive <= 1, "{alive} of ours survive: {run:#?}");
        }
        match &run.end {
            Action::Done(done) if !run.abandoned => {
                prop_assert!(server.is_alive(&done.id), "what was acknowledged is gone: {run:#?}");
            }
            // A trusted 503 that ends the call and lies is not found out unless there is a sweep. Of a given intent
            // what may be older stays, and is told.
            Action::NotDone(_)
                if case.truthful() && (swept || !case.lies()) && (!case.given || run.left.is_empty()) =>
            {
                prop_assert_eq!(alive, 0, "not done, and there: {:#?}", run);
                // Who gave a call up before it looked is told nothing about what is older.
                prop_assert!(run.abandoned || carried == 0, "not done, and older ones are there: {run:#?}");
            }
            _ if run.abandoned && swept && case.truthful() && !case.given => {
                prop_assert_eq!(alive, 0, "given up, and there: {:#?}", run);
            }
            _ => {}
        }
        if !case.behaviour.dates {
            prop_assert!(run.kills() == 0);
        }
    }

    /// Where nothing lies, a create that takes keys to be ignored has one effect at most, without any sweep.
    #[test]
    fn without_keys_there_is_one_effect(mut case in case()) {
        case.keys = IdempotencyKeys::Ignored;
        case.behaviour.honours_keys = false;
        case.behaviour.sends.retain(|fault| !matches!(fault, SendFault::Busy { lie: true, .. }));
        let (run, server) = case.run();
        prop_assert!(server.ours_made() <= 1, "{} effects: {run:#?}", server.ours_made());
    }

    /// The same holds where the server honours keys and the create relies on it.
    #[test]
    fn with_keys_there_is_one_effect(mut case in case()) {
        case.behaviour.honours_keys = true;
        case.keys = IdempotencyKeys::Honoured;
        case.behaviour.sends.retain(|fault| !matches!(fault, SendFault::Busy { lie: true, .. }));
        let (run, server) = case.run();
        prop_assert!(server.ours_made() <= 1, "{} effects: {run:#?}", server.ours_made());
    }

    /// However the call goes, its first send is behind a look-up that began `settle` after the earlier loss.
    #[test]
    fn nothing_is_sent_before_an_earlier_loss_is_settled(mut case in case(), loss in 0..15_000_u64) {
        let loss = Duration::from_millis(loss);
        (case.given, case.earlier_loss, case.earlier_effect) = (true, Some(loss), None);
        let (run, _) = case.run();
        let is = |wanted: fn(&Action) -> bool| run.trace.iter().filter(move |(_, step)| wanted(&step.action));
        let first = is(|action| matches!(action, Action::Send(_))).next().map_or(Duration::MAX, |(at, _)| *at);
        let settled = is(|action| matches!(action, Action::LookUp { .. })).any(|(at, _)| *at < first && *at + loss >= SETTLE);
        prop_assert!(settled || first == Duration::MAX, "sent at {first:?}: {run:#?}");
        prop_assert!(!matches!(run.end, Action::NotDone(_)) || settled || run.sends > 0, "not done, and not known: {run:#?}");
        prop_assert!(
            run.sends == 0 || run.trace.iter().any(|(_, step)| step.rule == Rule::SweepAtOnce),
            "sent after a loss and not swept: {run:#?}"
        );
        // Asked again, the call after it knows of no older a loss.
        if run.lost_for.is_none() {
            prop_assert!(!matches!(run.end, Action::Unknown(_)), "unknown, and nothing lost: {run:#?}");
        }
    }

    /// The earlier send's effect comes while the call is under way: there is one sandbox, though keys are ignored.
    #[test]
    fn the_effect_of_an_earlier_loss_is_no_double(mut case in case(), loss in 0..10_000_u64, part in 0.0..1.0_f64) {
        case.behaviour.honours_keys = false;
        case.keys = IdempotencyKeys::Ignored;
        case.behaviour.sends.retain(|fault| !matches!(fault, SendFault::Busy { lie: true, .. }));
        case.older.clear();
        (case.given, case.earlier_loss) = (true, Some(Duration::from_millis(loss)));
        case.earlier_effect = Some(in_time(&case.behaviour, case.earlier_loss, part));
        let (run, server) = case.run();
        prop_assert_eq!(server.carried_made(&case.intent()), 1, "{:#?}", run);
    }

    /// It comes later than that, when the call has sent: then it is swept.
    #[test]
    fn the_later_effect_of_an_earlier_loss_is_swept(mut case in case(), loss in 0..10_000_u64, late in 0.0..3.0_f64) {
        case.behaviour.honours_keys = false;
        (case.behaviour.metadata, case.behaviour.dates) = (true, true);
        case.older.clear();
        let loss = Duration::from_millis(loss);
        (case.given, case.earlier_loss) = (true, Some(loss));
        case.earlier_effect = Some((SETTLE - loss).as_secs_f64() + late);
        let (run, server) = case.run();
        let carried = server.carried_alive(&case.intent());
        prop_assert!(carried <= 1 || !run.left.is_empty() || !run.certain, "{carried} survive: {run:#?}");
        if run.sends == 0 {
            prop_assert_eq!(run.kills(), 0, "killed, although nothing was sent: {:#?}", run);
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_trace(case in case()) {
        prop_assert_eq!(case.run().0.trace, case.run().0.trace);
    }

    /// After any end `resolve` settles the intent: it finds what survives, and says absent when nothing does.
    #[test]
    fn resolve_settles_what_stayed_unknown(mut case in case()) {
        case.abandon_at = None;
        case.older.clear();
        case.given = false;
        let (run, mut server) = case.run();
        if case.truthful() && matches!(run.end, Action::Unknown(_)) {
            server.behaviour.lists.clear();
            server.behaviour.adopts.clear();
            let made = server.ours_made();
            let intent = case.intent();
            let mut resolve = Create::resolve(intent, Call { began: BEGAN, ..Call::default() });
            let (policy, deadline) = (Policy::default(), Duration::from_secs(60));
            // The server's times go on from the begin of the first call; all its effects are there by now.
            for sandbox in &mut server.sandboxes {
                sandbox.started -= 100.0;
            }
            let setup = Setup { intent, policy: &policy, deadline, abandon_at: None, fork: false };
            let resolved = drive(&mut resolve, &mut server, &setup);
            prop_assert_eq!(server.ours_made(), made, "resolve created");
            match &resolved.end {
                Action::Done(done) => prop_assert!(server.is_alive(&done.id)),
                Action::NotDone(_) => prop_assert_eq!(server.ours_alive(), 0),
                end => prop_assert!(false, "still unknown: {end:?}"),
            }
            prop_assert!(resolved.kills() == 0, "resolve killed");
        }
    }
}
