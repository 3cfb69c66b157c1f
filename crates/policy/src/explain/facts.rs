//! What each rule looked at, in words.

use alloc::format;
use alloc::string::{String, ToString};
use core::time::Duration;

use super::{Effect, Seconds};
use crate::facts::{CallFacts, Permit, RequestBody};
use crate::judge::{is_unknown, permit};
use crate::ledger::{Attempt, Ledger};
use crate::outcome::{Edge, Outcome, Response, ResponseBody};
use crate::policy::{FREE_REPEATS, Policy, RETRY_WINDOW_WITHOUT_DEADLINE};
use crate::trace::Rule;
use crate::verdict::{Retry, RetryReason, Return, Verdict};
use crate::{BUDGET_CAPACITY, COST_STATUS, COST_UNKNOWN};

/// A decision's inputs and its result.
pub(super) struct View<'a> {
    pub(super) policy: &'a Policy,
    pub(super) facts: &'a CallFacts,
    pub(super) ledger: &'a Ledger,
    pub(super) attempt: &'a Attempt,
    pub(super) now: Duration,
    /// The budget before the decision, in tokens. `None`: there is none.
    pub(super) level: Option<u32>,
    pub(super) verdict: Verdict,
    /// Whether a replay was proposed, and not a retry.
    pub(super) replay: bool,
}

impl View<'_> {
    pub(super) fn why(&self, rule: Rule, effect: Effect) -> String {
        match rule {
            Rule::CallEnded => self.call_ended(effect),
            Rule::Unprocessed => self.unprocessed(effect),
            Rule::ShouldRetry => self.should_retry(effect),
            Rule::Reconcile => self.reconcile(effect),
            Rule::Status => self.status(effect),
            Rule::UnknownOutcome => self.unknown_outcome(),
            Rule::StreamedBody => self.streamed_body(effect),
            Rule::Counter => self.counter(),
            Rule::Wait => self.wait(),
            Rule::Deadline => self.deadline(effect),
            Rule::Budget => self.budget(effect),
        }
    }

    fn call_ended(&self, effect: Effect) -> String {
        let elapsed = Seconds(self.now);
        match (effect, self.facts.deadline) {
            (Effect::Decided, _) if matches!(self.attempt.outcome, Outcome::Cancelled { .. }) => {
                "the caller cancelled".to_string()
            }
            (_, Some(deadline)) => format!("{elapsed} of {}", Seconds(deadline)),
            (_, None) => format!("{elapsed}, no deadline"),
        }
    }

    fn unprocessed(&self, effect: Effect) -> String {
        if effect == Effect::Decided {
            return self.reason();
        }
        match (&self.attempt.outcome, effect) {
            (Outcome::NotSent(_), _) if self.is_free() => {
                let used = self.ledger.free_repeats_used();
                format!("nothing was sent, and no socket touched: free, {used} of {FREE_REPEATS} used")
            }
            (Outcome::NotSent(_), _) => "nothing was sent".to_string(),
            (Outcome::Refused(_), _) => "the peer says that it did not process it".to_string(),
            (Outcome::Responded(Response { edge: Some(Edge::NotDelivered), .. }), Effect::Proposed) => {
                "the sandbox edge did not deliver it".to_string()
            }
            (Outcome::Responded(response), Effect::Proposed) => {
                format!("{} says that it was not processed", response.status)
            }
            (Outcome::Responded(response), _) => {
                format!("{} does not say that it was not processed", response.status)
            }
            _ => "it was sent, and nobody refused it".to_string(),
        }
    }

    fn is_free(&self) -> bool {
        match &self.attempt.outcome {
            Outcome::NotSent(not_sent) => not_sent.is_free() && self.ledger.free_repeats_used() < FREE_REPEATS,
            _ => false,
        }
    }

    fn should_retry(&self, effect: Effect) -> String {
        let Outcome::Responded(response) = &self.attempt.outcome else {
            return "no answer".to_string();
        };
        let text = match (response.should_retry, effect) {
            (None, _) => "absent",
            (Some(_), _) if !self.policy.honor_should_retry => "not read (honor_should_retry)",
            (Some(_), _) if response.status < 400 => "not read below 400",
            (Some(true), _) => "true: retryable, but no permit",
            (Some(false), _) => "not true: the server forbids it",
        };
        text.to_string()
    }

    fn reconcile(&self, effect: Effect) -> String {
        let unknown = is_unknown(self.policy, self.facts, &self.attempt.outcome);
        match (effect, unknown) {
            (Effect::Proposed, _) => "the outcome is unknown, and can be looked up".to_string(),
            (_, true) => "the outcome is unknown, and nobody can look it up".to_string(),
            (_, false) => "the outcome is known".to_string(),
        }
    }

    fn status(&self, effect: Effect) -> String {
        let Outcome::Responded(response) = &self.attempt.outcome else {
            return "no answer".to_string();
        };
        let status = response.status;
        if response.body == ResponseBody::Broken {
            return format!("{status}, but the body was cut: an unknown outcome");
        }
        if effect == Effect::Decided {
            return format!("{status}: {}", self.reason());
        }
        if let Verdict::Retry(Retry { reason: RetryReason::ServerAsks, .. }) = self.verdict {
            return format!("{status}, and the server asks for a retry");
        }
        let permit = self.permit();
        match status {
            503 if self.policy.trust_service_unavailable => {
                "503 is a rejection (trust_service_unavailable)".to_string()
            }
            502 if self.policy.trust_bad_gateway => "502 is a rejection (trust_bad_gateway)".to_string(),
            429 => match response.retry_after {
                Some(hint) => format!("429 with Retry-After: {}", Seconds(hint)),
                None => "429 without a usable Retry-After (retry_rate_limit_without_hint)".to_string(),
            },
            _ => format!("{status} proves nothing, but {permit}"),
        }
    }

    fn unknown_outcome(&self) -> String {
        self.permit()
    }

    fn permit(&self) -> String {
        let text = match permit(self.policy, self.facts) {
            Some(Permit::SafeMethod) => "the method is safe",
            Some(Permit::IdempotentMethod) => "the method is idempotent",
            Some(Permit::OperationTable) => "the operation table says that a repeat has no further effect",
            Some(Permit::IdempotencyKey) => "the server recognises a repeat by its idempotency key",
            None if self.facts.permit.is_some() => "repeat_unknown does not recognise its permit",
            None => "nothing permits a repeat",
        };
        text.to_string()
    }

    fn streamed_body(&self, effect: Effect) -> String {
        let text = match self.facts.body {
            RequestBody::None => "no body",
            RequestBody::Bytes => "the body is at hand",
            _ if effect == Effect::Passed => "what was not processed is sent again even with a streamed body",
            _ => "the body is streamed, and the peer may have read it",
        };
        text.to_string()
    }

    fn counter(&self) -> String {
        let policy = self.policy;
        if self.is_free() {
            return "not counted".to_string();
        }
        if self.replay {
            let used = self.ledger.connection_retries_used();
            format!("{used} of {} connection_retries used", policy.connection_retries)
        } else {
            format!("{} of {} retries used", self.ledger.retries_used(), policy.retries)
        }
    }

    fn wait(&self) -> String {
        match (self.verdict, self.attempt.outcome.retry_after()) {
            (Verdict::Retry(retry), _) => format!("{} ({})", Seconds(retry.after), retry.wait),
            (_, Some(hint)) => format!("{} (Retry-After)", Seconds(hint)),
            _ => "backoff".to_string(),
        }
    }

    fn deadline(&self, effect: Effect) -> String {
        let wait = match (self.verdict, self.attempt.outcome.retry_after()) {
            (Verdict::Retry(retry), _) => Seconds(retry.after).to_string(),
            (_, Some(hint)) => Seconds(hint).to_string(),
            _ => "the backoff".to_string(),
        };
        let verb = if effect == Effect::Decided { "reach" } else { "stay below" };
        let limit = match self.facts.deadline {
            Some(deadline) => format!("the deadline at {}", Seconds(deadline)),
            None => format!("{}, where retries end without a deadline", Seconds(RETRY_WINDOW_WITHOUT_DEADLINE)),
        };
        format!("{} + {wait} {verb} {limit}", Seconds(self.now))
    }

    fn budget(&self, effect: Effect) -> String {
        let Some(level) = self.level else { return "no budget is shared".to_string() };
        if !self.policy.retry_budget {
            return "off (retry_budget)".to_string();
        }
        let cost = match &self.attempt.outcome {
            _ if self.replay => 0,
            outcome if is_unknown(self.policy, self.facts, outcome) => COST_UNKNOWN,
            Outcome::Responded(Response { status: 429, paced: true, .. }) => 0,
            _ => COST_STATUS,
        };
        match (effect, cost) {
            (_, 0) => "free".to_string(),
            (Effect::Decided, cost) => format!("it costs {cost}, and {level} of {BUDGET_CAPACITY} tokens are left"),
            (_, cost) => format!("{cost} of {level} tokens"),
        }
    }

    fn reason(&self) -> String {
        match self.verdict {
            Verdict::Return(Return { reason, .. }) => reason.to_string(),
            _ => String::new(),
        }
    }
}
