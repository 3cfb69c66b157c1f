//! What a create is charged for, and what is written into its history: the call's one ledger.

use core::time::Duration;

use super::action::UnknownReason;
use super::answer::{FIRST, plain};
use super::state::{Sending, State};
use super::{Create, Turn};
use crate::judge::{judge, judge_adopted, judge_look_up, judge_reconciled};
use crate::ledger::{Attempt, Purpose, Record};
use crate::outcome::Outcome;
use crate::verdict::{ReturnReason, Verdict};

impl Create {
    pub(super) fn look_ups_left(&self) -> u32 {
        self.call.options.policy.lookups.saturating_sub(self.ledger.look_ups_used())
    }

    /// Spends one of `lookups`.
    pub(super) fn spend(&mut self, now: Duration) -> Result<(), UnknownReason> {
        self.ledger.start_look_up(&self.call.options.policy, &self.facts, now).map_err(|reason| match reason {
            ReturnReason::LookUpsUsed => UnknownReason::LookUpsUsed,
            _ => UnknownReason::Deadline,
        })
    }

    pub(super) fn judge(&mut self, attempt: &Attempt, turn: Turn<'_>) -> Verdict {
        let policy = &self.call.options.policy;
        judge(policy, &self.facts, &mut self.ledger, turn.tokens, attempt, turn.now, turn.random)
    }

    /// Whether the call may be sent again, from when on and how.
    pub(super) fn judge_reconciled(&mut self, turn: Turn<'_>) -> Result<(Duration, Sending), ReturnReason> {
        // The last answer may have been a poll's, whose wait the policy does not know.
        let not_before = self.question.as_ref().map_or(Duration::ZERO, |question| question.not_before);
        if self.is_late(not_before) {
            return Err(ReturnReason::DeadlineTooClose);
        }
        let policy = &self.call.options.policy;
        match judge_reconciled(policy, &self.facts, &mut self.ledger, turn.tokens, turn.now, turn.random) {
            Verdict::Retry(retry) => Ok((turn.now.saturating_add(retry.after).max(not_before), plain(retry))),
            Verdict::Return(end) => Err(end.reason),
            Verdict::Reconcile => Err(ReturnReason::NoPermit),
        }
    }

    pub(super) fn refund(&mut self, turn: Turn<'_>) {
        judge_adopted(&self.call.options.policy, &mut self.ledger, turn.tokens, turn.now);
    }

    /// Writes a send into the history that the policy decides about as it stands: an answer, or the call's end.
    pub(super) fn record_send(&mut self, send: Sending, attempt: &Attempt, turn: Turn<'_>) {
        if send.poll {
            judge_look_up(&self.facts, &mut self.ledger, Purpose::Poll, attempt, turn.now);
        } else {
            self.judge(attempt, turn);
        }
    }

    /// Writes a send into the history that proves nothing.
    pub(super) fn record_unresolved(&mut self, send: Sending, attempt: &Attempt, turn: Turn<'_>) {
        if send.poll {
            judge_look_up(&self.facts, &mut self.ledger, Purpose::Poll, attempt, turn.now);
        } else {
            self.ledger.records.push(Record::new(Purpose::Call, attempt, turn.now, Verdict::Reconcile));
        }
    }

    /// Writes what runs into the history when the call ends without its result.
    pub(super) fn record_running(&mut self, state: &State, outcome: Outcome, turn: Turn<'_>) {
        match state {
            State::Sending { began, send } => {
                self.record_send(*send, &Attempt { started: *began, ..Attempt::new(outcome) }, turn);
            }
            State::Probing { attempt, .. } => self.record_unresolved(FIRST, attempt, turn),
            _ => {}
        }
    }

    pub(super) fn amend_last_call(&mut self, verdict: Verdict) {
        if let Some(record) = self.ledger.records.iter_mut().rfind(|record| record.purpose == Purpose::Call) {
            record.verdict = verdict;
        }
    }

    /// Puts the newest record where its attempt belongs.
    pub(super) fn move_last_record(&mut self, index: usize) {
        if let Some(record) = self.ledger.records.pop() {
            self.ledger.records.insert(index.min(self.ledger.records.len()), record);
        }
    }
}
