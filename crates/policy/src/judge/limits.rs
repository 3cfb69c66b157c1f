//! Rules 7 to 11: what may turn a proposal into a return, and what a repeat is charged.

use core::time::Duration;

use super::{Counter, Judge, Proposal, Wait};
use crate::backoff::{backoff, dial_backoff, unit};
use crate::budget::{SUCCESS_REFUND, Tokens};
use crate::ledger::Ledger;
use crate::outcome::Outcome;
use crate::policy::{Policy, RETRY_WINDOW_WITHOUT_DEADLINE};
use crate::trace::Trace;
use crate::verdict::{RetryReason, ReturnReason, WaitReason};

impl<T: Trace> Judge<'_, T> {
    /// Rule 8.
    pub(super) fn used_up(&self, counter: Counter) -> Option<ReturnReason> {
        match counter {
            Counter::Retries if self.ledger.retries >= self.policy.retries => Some(ReturnReason::RetriesUsed),
            Counter::ConnectionRetries if self.ledger.connection_retries >= self.policy.connection_retries => {
                Some(ReturnReason::ConnectionRetriesUsed)
            }
            _ => None,
        }
    }

    /// Rule 9: the server's wait exactly, else our own.
    pub(super) fn wait(&self, wait: &Wait) -> (Duration, WaitReason) {
        if let Some(hint) = self.hint {
            return (self.with_jitter(hint), WaitReason::RetryAfter);
        }
        match *wait {
            Wait::None => (Duration::ZERO, WaitReason::None),
            Wait::PromptOnce { other_connection: true } if !self.ledger.prompt_replay_taken => {
                (Duration::ZERO, WaitReason::None)
            }
            Wait::PromptOnce { .. } | Wait::Backoff => {
                (backoff(self.ledger.backoffs, self.random), WaitReason::Backoff)
            }
            Wait::Dial { failed } => (dial_backoff(failed, self.random), WaitReason::DialBackoff),
        }
    }

    fn with_jitter(&self, hint: Duration) -> Duration {
        let fraction = unit(self.policy.retry_after_jitter) * unit(self.random);
        // A hint near the end of its range must not overflow.
        let more = Duration::try_from_secs_f64(hint.as_secs_f64() * fraction).unwrap_or(Duration::MAX);
        hint.saturating_add(more)
    }

    /// Rule 10.
    pub(super) fn too_late(&self, after: Duration) -> Option<ReturnReason> {
        let start = self.now.saturating_add(after);
        match self.facts.deadline {
            Some(deadline) => (start >= deadline).then_some(ReturnReason::DeadlineTooClose),
            None => (start >= RETRY_WINDOW_WITHOUT_DEADLINE).then_some(ReturnReason::RetryWindowOver),
        }
    }

    /// Rule 11.
    pub(super) fn pay(&mut self, cost: u32) -> bool {
        let Some(tokens) = self.tokens.filter(|_| self.policy.retry_budget) else {
            return true;
        };
        let paid = tokens.budget.take(cost, tokens.call_started.saturating_add(self.now));
        if paid {
            self.ledger.tokens += cost;
        }
        paid
    }

    pub(super) fn charge(&mut self, proposal: &Proposal, wait: WaitReason) {
        match proposal.counter {
            Counter::Retries => self.ledger.retries += 1,
            Counter::ConnectionRetries => self.ledger.connection_retries += 1,
            Counter::Free => self.ledger.free_repeats += 1,
        }
        match (wait, &proposal.wait) {
            (WaitReason::Backoff, _) => self.ledger.backoffs += 1,
            (WaitReason::None, Wait::PromptOnce { .. }) => self.ledger.prompt_replay_taken = true,
            _ => {}
        }
        if let Outcome::Responded(response) = self.outcome
            && proposal.reason == RetryReason::Refused
        {
            match response.status {
                421 => self.ledger.misdirected = true,
                _ => self.ledger.too_early = true,
            }
        }
    }
}

/// A success gives back what its call's retries cost, and a little more.
pub(super) fn refund(policy: &Policy, ledger: &mut Ledger, tokens: Option<Tokens<'_>>, now: Duration) {
    if let Some(tokens) = tokens.filter(|_| policy.retry_budget) {
        let refund = ledger.tokens + SUCCESS_REFUND;
        ledger.tokens = 0;
        tokens.budget.refund(refund, tokens.call_started.saturating_add(now));
    }
}
