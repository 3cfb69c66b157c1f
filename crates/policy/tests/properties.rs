//! What holds whatever happens: sequences of outcomes drawn at random, under policies drawn at random.

#![allow(clippy::unwrap_used)] // Tests.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use oncebox_policy::{
    Attempt, BUDGET_CAPACITY, Budget, CallFacts, Cause, Connection, Edge, Ledger, NotSent, Outcome, Permit, Phase,
    Policy, REFILL_PER_SECOND, RETRY_WINDOW_WITHOUT_DEADLINE, RepeatUnknown, RequestBody, Response, ResponseBody,
    Retry, RetryReason, Return, ReturnReason, Tokens, Unknown, Verdict, http_date, judge, judge_reconciled,
    retry_after,
};
use proptest::prelude::*;

prop_compose! {
    fn policy()(
        retries in 0_u32..5,
        connection_retries in 0_u32..5,
        switches in prop::array::uniform8(any::<bool>()),
        repeat_unknown in prop::sample::select(vec![
            RepeatUnknown::Never, RepeatUnknown::Safe, RepeatUnknown::Permitted,
        ]),
        retry_after_jitter in prop::sample::select(vec![0.0, 0.1, 1.0]),
    ) -> Policy {
        Policy {
            retries,
            connection_retries,
            trust_service_unavailable: switches[0],
            trust_bad_gateway: switches[1],
            retry_gateway_timeout: switches[2],
            retry_request_timeout_status: switches[3],
            replay_misdirected_and_early: switches[4],
            retry_rate_limit_without_hint: switches[5],
            honor_should_retry: switches[6],
            retry_budget: switches[7],
            repeat_unknown,
            retry_after_jitter,
            ..Policy::default()
        }
    }
}

fn permit() -> impl Strategy<Value = Option<Permit>> {
    prop::sample::select(vec![
        None,
        Some(Permit::SafeMethod),
        Some(Permit::IdempotentMethod),
        Some(Permit::OperationTable),
        Some(Permit::IdempotencyKey),
    ])
}

fn body() -> impl Strategy<Value = RequestBody> {
    prop::sample::select(vec![
        RequestBody::None,
        RequestBody::Bytes,
        RequestBody::StreamUnread,
        RequestBody::StreamMirrored,
        RequestBody::StreamConsumed { read: 65_537, limit: 65_536 },
    ])
}

prop_compose! {
    fn facts()(
        permit in permit(),
        mints in any::<bool>(),
        reconciles in any::<bool>(),
        body in body(),
        deadline in prop::option::of(1_u64..120),
    ) -> CallFacts {
        CallFacts { permit, mints, reconciles, body, deadline: deadline.map(Duration::from_secs) }
    }
}

prop_compose! {
    fn response()(
        status in prop::sample::select(vec![
            200_u16, 204, 304, 400, 401, 404, 408, 409, 421, 422, 425, 429, 500, 502, 503, 504, 599,
        ]),
        retry_after in prop::option::of(prop::sample::select(vec![0_u64, 1, 5, 30, 59, 60, 3600, 2_147_483_647])),
        should_retry in prop::option::of(any::<bool>()),
        broken in prop::bool::weighted(0.2),
        edge in prop::option::weighted(0.2, prop::sample::select(vec![Edge::NotRunning, Edge::NotDelivered])),
        paced in any::<bool>(),
    ) -> Outcome {
        let response = Response::new(status);
        Outcome::Responded(Response {
            retry_after: retry_after.map(Duration::from_secs),
            should_retry,
            body: if broken { ResponseBody::Broken } else { ResponseBody::Complete },
            edge: edge.filter(|_| matches!(status, 409 | 502)),
            paced,
            ..response
        })
    }
}

fn outcome() -> impl Strategy<Value = Outcome> {
    let phase =
        prop::sample::select(vec![Phase::Dns, Phase::Connect, Phase::Proxy, Phase::Tls, Phase::Slot, Phase::Queue]);
    let not_sent = (phase, any::<bool>())
        .prop_map(|(phase, touched_socket)| Outcome::NotSent(NotSent { phase, touched_socket, detail: "".into() }));
    let goaway = (1_u32..50, 0_u32..50).prop_map(|(id, last)| Outcome::after_goaway(id, last, 0, b"max_age"));
    let reset = (0_u32..14, any::<bool>()).prop_map(|(code, began)| Outcome::after_reset(1, code, began));
    let lost = prop::sample::select(vec![Cause::ConnectionLost, Cause::AttemptTimeout, Cause::Opaque])
        .prop_map(|cause| Outcome::SentUnknown(Unknown { cause, stream_id: None, detail: "".into() }));
    prop_oneof![
        4 => response(),
        2 => not_sent,
        2 => goaway,
        2 => reset,
        2 => lost,
        1 => any::<bool>().prop_map(|sent| Outcome::Cancelled { sent }),
        1 => any::<bool>().prop_map(|sent| Outcome::TimedOut { sent }),
    ]
}

#[derive(Clone, Debug)]
struct Event {
    outcome: Outcome,
    other_connection: bool,
    failed_dials: u32,
    /// How long the attempt takes.
    took: Duration,
    random: f64,
}

prop_compose! {
    fn event()(
        outcome in outcome(),
        other_connection in any::<bool>(),
        failed_dials in 0_u32..12,
        took in 0_u64..5_000,
        random in 0.0..1.0_f64,
    ) -> Event {
        Event { outcome, other_connection, failed_dials, took: Duration::from_millis(took), random }
    }
}

/// One decision, as it was asked for and made.
#[derive(Debug, PartialEq)]
struct Decision {
    outcome: Outcome,
    ended: Duration,
    verdict: Verdict,
}

/// Plays a call as the loop does: attempt, decision, wait. A reconciler says each time that nothing was done.
fn play(policy: &Policy, facts: &CallFacts, events: &[Event], level: u32) -> (Vec<Decision>, Ledger) {
    let budget = Budget::with_level(level);
    let tokens = Some(Tokens { budget: &budget, call_started: Duration::ZERO });
    let (mut ledger, mut now, mut decisions) = (Ledger::new(), Duration::ZERO, Vec::new());
    for event in events {
        let started = now;
        now += event.took;
        let attempt = Attempt {
            started,
            connection: Some(1),
            outcome: event.outcome,
            other_connection: event.other_connection,
            failed_dials: event.failed_dials,
        };
        let mut verdict = judge(policy, facts, &mut ledger, tokens, &attempt, now, event.random);
        decisions.push(Decision { outcome: event.outcome, ended: now, verdict });
        if verdict == Verdict::Reconcile {
            now += Duration::from_millis(100);
            verdict = judge_reconciled(policy, facts, &mut ledger, tokens, now, event.random);
            decisions.push(Decision { outcome: event.outcome, ended: now, verdict });
        }
        assert!(budget.available(now) <= BUDGET_CAPACITY);
        match verdict {
            Verdict::Retry(retry) => now += retry.after,
            _ => break,
        }
    }
    (decisions, ledger)
}

fn is_failed_dial(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::NotSent(NotSent { phase, touched_socket, .. }) if *touched_socket || phase.is_dial())
}

/// Unknown by the rules, whatever the engine calls it.
fn is_unknown(policy: &Policy, facts: &CallFacts, outcome: &Outcome) -> bool {
    match outcome {
        Outcome::SentUnknown(_) => true,
        Outcome::Responded(response) if response.body == ResponseBody::Broken => true,
        Outcome::Responded(response) if response.edge.is_some() => false,
        Outcome::Responded(response) => match response.status {
            504 | 408 => true,
            502 => !policy.trust_bad_gateway,
            503 => !policy.trust_service_unavailable,
            500 => facts.mints,
            _ => false,
        },
        _ => false,
    }
}

fn has_permit(policy: &Policy, facts: &CallFacts) -> bool {
    match policy.repeat_unknown {
        RepeatUnknown::Never => false,
        RepeatUnknown::Safe => facts.permit == Some(Permit::SafeMethod),
        RepeatUnknown::Permitted => facts.permit.is_some(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, ..ProptestConfig::default() })]

    #[test]
    fn attempts_never_exceed_the_bound(
        policy in policy(), facts in facts(), events in prop::collection::vec(event(), 1..40),
    ) {
        let (_, ledger) = play(&policy, &facts, &events, BUDGET_CAPACITY);
        let reached = ledger.attempts().iter().filter(|record| {
            record.outcome.was_sent() || is_failed_dial(&record.outcome)
        });
        let reached = reached.count() as u32;
        prop_assert!(reached <= policy.bound(), "{reached} of {}\n{ledger}", policy.bound());
        prop_assert!(ledger.counted_attempts() <= policy.bound());
        prop_assert!(ledger.retries_used() <= policy.retries);
        prop_assert!(ledger.connection_retries_used() <= policy.connection_retries);
    }

    #[test]
    fn no_wait_is_below_the_servers(
        policy in policy(), facts in facts(), events in prop::collection::vec(event(), 1..20),
    ) {
        let (decisions, _) = play(&policy, &facts, &events, BUDGET_CAPACITY);
        for pair in decisions.windows(2) {
            // A reconciled outcome appears twice, and its wait counts from its first appearance.
            if let (Verdict::Reconcile, Verdict::Retry(retry)) = (pair[0].verdict, pair[1].verdict)
                && let Some(hint) = pair[0].outcome.retry_after()
            {
                prop_assert!(pair[1].ended + retry.after >= pair[0].ended + hint);
            }
        }
        for decision in &decisions {
            if let Verdict::Retry(Retry { after, reason, .. }) = decision.verdict
                && reason != RetryReason::Reconciled
                && let Some(hint) = decision.outcome.retry_after()
            {
                prop_assert!(after >= hint, "{decision:?}");
            }
        }
    }

    #[test]
    fn nothing_starts_at_or_after_the_deadline(
        policy in policy(), facts in facts(), events in prop::collection::vec(event(), 1..40),
    ) {
        let limit = facts.deadline.unwrap_or(RETRY_WINDOW_WITHOUT_DEADLINE);
        for decision in play(&policy, &facts, &events, BUDGET_CAPACITY).0 {
            match decision.verdict {
                Verdict::Retry(retry) => prop_assert!(decision.ended + retry.after < limit, "{decision:?}"),
                Verdict::Reconcile => prop_assert!(facts.deadline.is_none_or(|limit| decision.ended < limit)),
                Verdict::Return(_) => {}
            }
        }
    }

    #[test]
    fn an_unknown_outcome_never_repeats_without_a_permit(
        policy in policy(), facts in facts(), events in prop::collection::vec(event(), 1..20),
    ) {
        for decision in play(&policy, &facts, &events, BUDGET_CAPACITY).0 {
            if let Verdict::Retry(retry) = decision.verdict
                && is_unknown(&policy, &facts, &decision.outcome)
            {
                let allowed = has_permit(&policy, &facts) || retry.reason == RetryReason::Reconciled;
                prop_assert!(allowed, "{decision:?}");
            }
        }
    }

    #[test]
    fn a_consumed_stream_is_never_sent_again_and_a_stream_never_retried(
        policy in policy(), facts in facts(), events in prop::collection::vec(event(), 1..20),
    ) {
        for decision in play(&policy, &facts, &events, BUDGET_CAPACITY).0 {
            if let Verdict::Retry(retry) = decision.verdict {
                prop_assert!(facts.body.is_replayable(), "{decision:?}");
                prop_assert!(!facts.body.is_stream() || retry.reason.is_replay(), "{decision:?}");
            }
        }
    }

    #[test]
    fn a_cancelled_or_timed_out_call_is_over(policy in policy(), facts in facts(), sent in any::<bool>()) {
        for outcome in [Outcome::Cancelled { sent }, Outcome::TimedOut { sent }] {
            let mut ledger = Ledger::new();
            let verdict = judge(&policy, &facts, &mut ledger, None, &Attempt::new(outcome), Duration::ZERO, 0.5);
            let over = matches!(
                verdict,
                Verdict::Return(Return { reason: ReturnReason::Cancelled | ReturnReason::DeadlinePassed, .. })
            );
            prop_assert!(over);
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_trace(
        policy in policy(), facts in facts(), events in prop::collection::vec(event(), 1..40), level in 0_u32..500,
    ) {
        let (one, first) = play(&policy, &facts, &events, level);
        let (two, second) = play(&policy, &facts, &events, level);
        prop_assert_eq!(one, two);
        prop_assert_eq!(first.to_string(), second.to_string());
    }

    #[test]
    fn the_history_holds_every_attempt_once(
        policy in policy(), facts in facts(), events in prop::collection::vec(event(), 1..40),
    ) {
        let (decisions, ledger) = play(&policy, &facts, &events, BUDGET_CAPACITY);
        let reconciled = decisions.iter().filter(|decision| decision.verdict == Verdict::Reconcile).count();
        prop_assert_eq!(ledger.attempts().len(), decisions.len() - reconciled);
        let waits_end = |record: &oncebox_policy::Record| match record.verdict {
            Verdict::Retry(retry) => record.ended + retry.after,
            _ => record.ended,
        };
        for pair in ledger.attempts().windows(2) {
            prop_assert!(pair[1].started >= waits_end(&pair[0]));
        }
    }

    #[test]
    fn a_misdirected_request_goes_to_a_fresh_connection(policy in policy(), facts in facts(), random in 0.0..1.0_f64) {
        let attempt = Attempt::new(Outcome::Responded(Response::new(421)));
        let verdict = judge(&policy, &facts, &mut Ledger::new(), None, &attempt, Duration::ZERO, random);
        if let Verdict::Retry(retry) = verdict {
            prop_assert_eq!(retry.connection, Connection::Fresh);
        }
    }

    #[test]
    fn any_header_is_usable_or_absent(
        value in prop::collection::vec(any::<u8>(), 0..40), date in prop::collection::vec(any::<u8>(), 0..40),
        now in any::<u64>(),
    ) {
        let wait = retry_after(&value, Some(&date), now);
        prop_assert!(wait.is_none_or(|wait| wait <= Duration::from_secs(2_147_483_647)));
    }

    #[test]
    fn any_text_like_a_date_is_read_without_harm(
        text in "(Sun|Sunday|Mon),? [0-9]{1,2}[ -](Nov|Feb)[ -][0-9]{2,4} [0-9]{2}:[0-9]{2}:[0-9]{2} ?(GMT)?",
        now in any::<u64>(),
    ) {
        let _ = http_date(text.as_bytes(), now);
    }

    #[test]
    fn digits_are_seconds(seconds in 0_u64..2_147_483_647, zeros in 0_usize..5) {
        let value = format!("{}{seconds}", "0".repeat(zeros));
        prop_assert_eq!(retry_after(value.as_bytes(), None, 0), Some(Duration::from_secs(seconds)));
    }

    #[test]
    fn a_budget_stays_within_its_bounds_and_never_creates_tokens(
        level in 0_u32..=600, steps in prop::collection::vec((any::<bool>(), 0_u32..700, 0_u64..2_000), 1..50),
    ) {
        let budget = Budget::with_level(level);
        let mut now = Duration::ZERO;
        for (take, tokens, millis) in steps {
            let earlier = budget.available(now);
            now += Duration::from_millis(millis);
            let before = budget.available(now);
            // Whole tokens hide a fraction that the refill may complete.
            let refill = (millis * u64::from(REFILL_PER_SECOND)).div_ceil(1000) as u32 + 1;
            prop_assert!(before >= earlier && before <= BUDGET_CAPACITY.min(earlier + refill));
            if take {
                prop_assert_eq!(budget.take(tokens, now), tokens <= before);
                let left = if tokens <= before { before - tokens } else { before };
                prop_assert_eq!(budget.available(now), left);
            } else {
                budget.refund(tokens, now);
                prop_assert_eq!(budget.available(now), BUDGET_CAPACITY.min(before + tokens));
            }
        }
    }
}

#[test]
fn threads_share_a_budget_without_taking_more_than_there_is() {
    let budget = Arc::new(Budget::new());
    let threads: Vec<_> = (0..8)
        .map(|thread: u32| {
            let budget = Arc::clone(&budget);
            thread::spawn(move || {
                let mut taken = 0_u64;
                for step in 0..5_000_u32 {
                    let cost = if (step + thread).is_multiple_of(2) { 5 } else { 14 };
                    if budget.take(cost, Duration::ZERO) {
                        taken += u64::from(cost);
                    }
                    if step.is_multiple_of(7) {
                        budget.refund(1, Duration::ZERO);
                    }
                    assert!(budget.available(Duration::ZERO) <= BUDGET_CAPACITY);
                }
                taken
            })
        })
        .collect();
    let taken: u64 = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
    // What was there, and what was given back: 5,000 steps / 7, rounded up, for each of 8 threads.
    assert!(taken <= u64::from(BUDGET_CAPACITY) + 8 * 5_000_u64.div_ceil(7), "{taken}");
}
