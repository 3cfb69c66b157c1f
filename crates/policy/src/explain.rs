//! A decision, told rule by rule.

mod facts;

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;

use crate::budget::Tokens;
use crate::facts::CallFacts;
use crate::judge::judge_traced;
use crate::ledger::{Attempt, Ledger};
use crate::outcome::Outcome;
use crate::policy::Policy;
use crate::trace::{Rule, Trace};
use crate::verdict::{Retry, Return, ReturnReason, Verdict, WaitReason};

/// What [`judge`](crate::judge) would decide, and how it gets there. Nothing is charged: ledger and budget stay as they
/// are.
///
/// ```
/// use std::time::Duration;
/// use oncebox_policy::*;
///
/// let busy = Response { retry_after: Some(Duration::from_secs(3600)), ..Response::new(503) };
/// let facts = CallFacts { deadline: Some(Duration::from_secs(60)), ..CallFacts::default() };
/// let attempt = Attempt::new(Outcome::Responded(busy));
/// let now = Duration::from_millis(200);
/// let told = explain(&Policy::default(), &facts, &Ledger::new(), None, &attempt, now, 0.5);
/// assert_eq!(told.decided_by(), Rule::Deadline);
/// assert!(told.to_string().contains("0.2 s + 3600 s reach the deadline at 60 s"));
/// ```
pub fn explain(
    policy: &Policy,
    facts: &CallFacts,
    ledger: &Ledger,
    tokens: Option<Tokens<'_>>,
    attempt: &Attempt,
    now: Duration,
    random: f64,
) -> Explanation {
    let level = tokens.map(|tokens| tokens.budget.available(tokens.call_started.saturating_add(now)));
    let copy = tokens.map(|tokens| (tokens.budget.clone(), tokens.call_started));
    let copied = copy.as_ref().map(|(budget, call_started)| Tokens { budget, call_started: *call_started });
    let mut after = ledger.clone();
    let mut seen = Seen(Vec::new());
    let verdict = judge_traced(policy, facts, &mut after, copied, attempt, now, random, &mut seen);
    let replay = seen.0.contains(&(Rule::Unprocessed, Effect::Proposed));
    let view = facts::View { policy, facts, ledger, attempt, now, level, verdict, replay };
    let steps = seen.0.into_iter().map(|(rule, effect)| Step { rule, effect, why: view.why(rule, effect) }).collect();
    Explanation { outcome: attempt.outcome, steps, verdict }
}

/// A decision and the rules it went through.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Explanation {
    /// What was known of the attempt.
    pub outcome: Outcome,
    /// The rules that were asked, in their order. Rules that others made needless are left out.
    pub steps: Vec<Step>,
    /// The decision.
    pub verdict: Verdict,
}

/// One rule of a decision.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Step {
    /// The rule.
    pub rule: Rule,
    /// What it did.
    pub effect: Effect,
    /// The facts that it looked at, and what they say.
    pub why: String,
}

/// What a rule did to a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "snake_case"))]
pub enum Effect {
    /// It did not apply, or did not stop what was proposed.
    Passed,
    /// It proposed to send again, or to reconcile.
    Proposed,
    /// It ended the call.
    Decided,
}

impl Explanation {
    /// The rule that the verdict comes from: the one that ended the call, else the one that proposed what happens.
    pub fn decided_by(&self) -> Rule {
        let by = |effect| self.steps.iter().find(|step| step.effect == effect).map(|step| step.rule);
        by(Effect::Decided).or_else(|| by(Effect::Proposed)).unwrap_or(Rule::CallEnded)
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.outcome)?;
        writeln!(f)?;
        for step in &self.steps {
            let effect = match step.effect {
                Effect::Passed => "passed",
                Effect::Proposed => "proposes",
                Effect::Decided => "decides",
            };
            writeln!(f, "{:>2}  {:<19} {effect:<9} {}", step.rule.number(), step.rule.title(), step.why)?;
        }
        writeln!(f)?;
        self.verdict.fmt(f)
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Return(Return { reason: ReturnReason::Success, .. }) => f.write_str("returned: success"),
            Self::Return(Return { reason, retry_after: None }) => write!(f, "returned: {reason}"),
            Self::Return(Return { reason, retry_after: Some(hint) }) => {
                write!(f, "returned: {reason}; ask again after {}", Seconds(*hint))
            }
            Self::Retry(Retry { wait: WaitReason::None, reason, .. }) => write!(f, "sent again at once: {reason}"),
            Self::Retry(Retry { after, wait, reason, .. }) => {
                write!(f, "sent again after {} ({wait}): {reason}", Seconds(*after))
            }
            Self::Reconcile => f.write_str("looked up before anything else: nobody knows whether it was done"),
        }
    }
}

impl Rule {
    /// Its name for people.
    pub fn title(self) -> &'static str {
        match self {
            Self::CallEnded => "call ended",
            Self::Unprocessed => "unprocessed",
            Self::ShouldRetry => "Should-Retry",
            Self::Reconcile => "reconcile",
            Self::Status => "status",
            Self::UnknownOutcome => "unknown outcome",
            Self::StreamedBody => "streamed body",
            Self::Counter => "counters",
            Self::Wait => "wait",
            Self::Deadline => "deadline",
            Self::Budget => "retry budget",
        }
    }
}

/// A duration in seconds, to the millisecond and without idle zeros: `0.2 s`, `3600 s`.
pub(crate) struct Seconds(pub(crate) Duration);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let thousandths = self.0.subsec_millis();
        write!(f, "{}", self.0.as_secs())?;
        if thousandths > 0 {
            let text = alloc::format!("{thousandths:03}");
            write!(f, ".{}", text.trim_end_matches('0'))?;
        }
        f.write_str(" s")
    }
}

struct Seen(Vec<(Rule, Effect)>);

impl Trace for Seen {
    fn passed(&mut self, rule: Rule) {
        self.0.push((rule, Effect::Passed));
    }

    fn proposed(&mut self, rule: Rule) {
        self.0.push((rule, Effect::Proposed));
    }

    fn decided(&mut self, rule: Rule) {
        self.0.push((rule, Effect::Decided));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::Budget;
    use crate::facts::{Permit, RequestBody};
    use crate::outcome::{Cause, NotSent, Phase, Response, Unknown};
    use alloc::string::ToString;

    fn told(policy: &Policy, facts: &CallFacts, outcome: Outcome) -> Explanation {
        explain(policy, facts, &Ledger::new(), None, &Attempt::new(outcome), Duration::from_millis(200), 0.5)
    }

    #[test]
    fn a_retry_is_told_rule_by_rule() {
        let facts = CallFacts { deadline: Some(Duration::from_secs(60)), ..CallFacts::default() };
        let text = told(&Policy::default(), &facts, Outcome::Responded(Response::new(503))).to_string();
        assert_eq!(
            text,
            "answered 503

 1  call ended          passed    0.2 s of 60 s
 2  unprocessed         passed    503 does not say that it was not processed
 3  Should-Retry        passed    absent
 4  reconcile           passed    the outcome is known
 5  status              proposes  503 is a rejection (trust_service_unavailable)
 7  streamed body       passed    no body
 8  counters            passed    0 of 3 retries used
 9  wait                passed    0.075 s (backoff)
10  deadline            passed    0.2 s + 0.075 s stay below the deadline at 60 s
11  retry budget        passed    no budget is shared

sent again after 0.075 s (backoff): this status is retried"
        );
    }

    #[test]
    fn explaining_charges_nothing() {
        let budget = Budget::new();
        let tokens = Some(Tokens { budget: &budget, call_started: Duration::ZERO });
        let (ledger, attempt) = (Ledger::new(), Attempt::new(Outcome::Responded(Response::new(503))));
        let told = explain(&Policy::default(), &CallFacts::default(), &ledger, tokens, &attempt, Duration::ZERO, 0.5);
        assert!(matches!(told.verdict, Verdict::Retry(_)));
        assert!(told.to_string().contains("5 of 500 tokens"), "{told}");
        assert_eq!(budget.available(Duration::ZERO), 500);
        assert!(ledger.attempts().is_empty());
    }

    #[test]
    fn the_rule_that_decides_is_named() {
        let policy = Policy::default();
        let facts = CallFacts::default();
        let lost = Outcome::SentUnknown(Unknown { cause: Cause::ConnectionLost, stream_id: None, detail: "".into() });
        let unsent = Outcome::NotSent(NotSent { phase: Phase::Slot, touched_socket: false, detail: "".into() });
        assert_eq!(told(&policy, &facts, lost).decided_by(), Rule::UnknownOutcome);
        assert_eq!(told(&policy, &facts, unsent).decided_by(), Rule::Unprocessed);
        let reconciling = CallFacts { reconciles: true, ..facts };
        assert_eq!(told(&policy, &reconciling, lost).decided_by(), Rule::Reconcile);
        let streaming = CallFacts { body: RequestBody::StreamUnread, permit: Some(Permit::SafeMethod), ..facts };
        assert_eq!(told(&policy, &streaming, lost).decided_by(), Rule::StreamedBody);
        assert_eq!(told(&policy, &facts, Outcome::Cancelled { sent: true }).decided_by(), Rule::CallEnded);
    }

    #[test]
    fn seconds_have_no_idle_zeros() {
        for (millis, text) in [(0, "0 s"), (5, "0.005 s"), (200, "0.2 s"), (1234, "1.234 s"), (3_600_000, "3600 s")] {
            assert_eq!(Seconds(Duration::from_millis(millis)).to_string(), text);
        }
    }
}
