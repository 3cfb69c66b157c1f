//! Sending, and what follows from the end of a send.

use core::time::Duration;

use super::action::{Action, How, NotDoneReason, Send, Step};
use super::input::Answer;
use super::rule::Rule;
use super::said::{Doubt, Said, asks_for_same_key};
use super::state::{Absent, Question, Sending, State};
use super::version::Missing;
use super::{Create, Origin, Turn};
use crate::backoff::backoff;
use crate::judge::judge_look_up;
use crate::ledger::{Attempt, Purpose};
use crate::outcome::Outcome;
use crate::policy::RepeatUnknown;
use crate::verdict::{Connection, Retry, RetryReason, Return, ReturnReason, Verdict};

/// Look-ups kept back from polls and early looks: one that settles the question, one that fetches what it finds.
pub(super) const RESERVE: u32 = 2;

impl Create {
    pub(super) fn begin(&mut self, turn: Turn<'_>) -> Step {
        let (absent, rule) = match self.origin {
            Origin::New => return self.send(FIRST, Rule::FirstSend, turn),
            Origin::Given => (Absent::FirstSend, Rule::GivenIntentFirst),
            Origin::Resolve => (Absent::End(NotDoneReason::Absent), Rule::Resolve),
        };
        self.question = Some(Question { absent, ..self.unasked(turn) });
        self.look(rule, turn)
    }

    pub(super) fn send_at(&mut self, at: Duration, send: Sending, rule: Rule, turn: Turn<'_>) -> Step {
        if at > turn.now {
            return self.wait(at, State::WaitingToSend { until: at, send, rule }, rule);
        }
        self.send(send, rule, turn)
    }

    pub(super) fn send(&mut self, send: Sending, rule: Rule, turn: Turn<'_>) -> Step {
        if send.poll && self.spend(turn.now).is_err() {
            return self.look_later(Rule::LookBeforeEnd, Duration::ZERO, turn);
        }
        self.state = State::Sending { began: turn.now, send };
        let action = Action::Send(Send {
            number: self.keys.number,
            key: self.keys.current(&self.intent),
            version: self.route.create,
            connection: send.connection,
        });
        Step { action, rule }
    }

    pub(super) fn answered(&mut self, answer: &Answer, began: Duration, send: Sending, turn: Turn<'_>) -> Step {
        let attempt = Attempt {
            started: began,
            connection: answer.connection,
            outcome: answer.outcome,
            other_connection: answer.other_connection,
            failed_dials: answer.failed_dials,
        };
        let said = Said::of(answer, &self.call.options.policy, self.is_unresolved());
        self.learn(answer);
        if said.may_have_made_one() {
            self.sends += 1;
        }
        match said {
            Said::Acknowledged(id) => {
                self.record_send(send, &attempt, turn);
                if send.poll {
                    self.refund(turn);
                }
                self.route.confirm_create();
                self.done(id, How::Acknowledged, Rule::Acknowledged)
            }
            Said::CallEnded { sent } => {
                self.record_send(send, &attempt, turn);
                if sent {
                    self.lose(Absent::End(NotDoneReason::Returned(ReturnReason::DeadlinePassed)), turn);
                }
                match answer.outcome {
                    Outcome::Cancelled { .. } => self.end_abandoned(),
                    _ => self.give_up(),
                }
            }
            Said::InProgress => {
                self.record_unresolved(send, &attempt, turn);
                self.lose(Absent::SameKey, turn);
                self.poll(answer, turn)
            }
            Said::Mismatch => {
                self.record_unresolved(send, &attempt, turn);
                if self.is_unresolved() {
                    self.lose(Absent::End(NotDoneReason::IntentMismatch), turn);
                    return self.look_later(Rule::LookBeforeEnd, Duration::ZERO, turn);
                }
                let retry_after = answer.outcome.retry_after();
                self.amend_last_call(Verdict::Return(Return { reason: ReturnReason::StatusFinal, retry_after }));
                self.not_done(NotDoneReason::IntentMismatch, Rule::IntentMismatch)
            }
            Said::Unknown(doubt) => {
                self.record_unresolved(send, &attempt, turn);
                self.doubt(doubt, answer, turn)
            }
            Said::Unprocessed if send.poll => {
                self.record_send(send, &attempt, turn);
                self.poll(answer, turn)
            }
            Said::NoRoute(status) if !send.poll && !self.is_resend() => match self.route.of_status(status) {
                Missing::Yes if self.spend(turn.now).is_ok() => self.fall_back(&attempt, None, turn),
                Missing::Perhaps if self.spend(turn.now).is_ok() => {
                    let index = self.ledger.attempts().len();
                    self.state = State::Probing { began: turn.now, attempt, index };
                    Step { action: Action::Probe, rule: Rule::ProbeVersion }
                }
                _ => self.judged(answer, &attempt, send, turn),
            },
            Said::Unprocessed | Said::Busy | Said::Final | Said::NoRoute(_) => {
                self.judged(answer, &attempt, send, turn)
            }
        }
    }

    /// The probe ended: v2 is missing only if its list is, too.
    pub(super) fn probed(&mut self, status: Option<u16>, attempt: &Attempt, index: usize, turn: Turn<'_>) -> Step {
        match status {
            Some(404 | 405) if self.spend(turn.now).is_ok() => return self.fall_back(attempt, Some(index), turn),
            Some(200..300) => self.route.confirm_v2(),
            _ => {}
        }
        let verdict = self.judge(attempt, turn);
        self.move_last_record(index);
        match verdict {
            Verdict::Retry(retry) => {
                self.send_at(turn.now.saturating_add(retry.after), plain(retry), Rule::RetryStatus, turn)
            }
            Verdict::Return(end) => self.refused(end, turn),
            Verdict::Reconcile => self.look_later(Rule::LookBeforeResend, Duration::ZERO, turn),
        }
    }

    /// The send that found v2 missing was a probe: it spends a look-up, and the send to v1 is the call's own.
    fn fall_back(&mut self, attempt: &Attempt, index: Option<usize>, turn: Turn<'_>) -> Step {
        judge_look_up(&self.facts, &mut self.ledger, Purpose::LookUp, attempt, turn.now);
        if let Some(index) = index {
            self.move_last_record(index);
        }
        self.route.fall_back();
        // The path is part of what a key stands for.
        self.keys.rotate();
        self.send(FIRST, Rule::FallBack, turn)
    }

    /// What the policy decides: what was not processed, a trusted 503, 429, and final statuses.
    fn judged(&mut self, answer: &Answer, attempt: &Attempt, send: Sending, turn: Turn<'_>) -> Step {
        if send.poll {
            self.record_send(send, attempt, turn);
            self.lose_again(Absent::End(NotDoneReason::Returned(ReturnReason::StatusFinal)));
            return self.look_later(Rule::LookBeforeEnd, Duration::ZERO, turn);
        }
        match self.judge(attempt, turn) {
            Verdict::Retry(retry) => {
                let rule = self.key_for(answer, retry.reason);
                self.send_at(turn.now.saturating_add(retry.after), plain(retry), rule, turn)
            }
            Verdict::Return(end) => self.refused(end, turn),
            Verdict::Reconcile => self.doubt(Doubt::Lost, answer, turn),
        }
    }

    /// This send did nothing and is not repeated. An earlier one may still have an effect: the call ends when that is
    /// known.
    fn refused(&mut self, end: Return, turn: Turn<'_>) -> Step {
        let reason = NotDoneReason::Returned(end.reason);
        if !self.is_unresolved() {
            return self.not_done(reason, Rule::Refused);
        }
        self.amend_last_call(Verdict::Reconcile);
        self.lose_again(Absent::End(reason));
        self.look_later(Rule::LookBeforeEnd, Duration::ZERO, turn)
    }

    /// Chooses the key of a repeat that the policy decided on.
    fn key_for(&mut self, answer: &Answer, reason: RetryReason) -> Rule {
        let status = answer.outcome.status();
        match reason {
            _ if reason.is_replay() => Rule::Replay,
            _ if status != Some(503) || self.is_unresolved() => Rule::RetryStatus,
            _ if asks_for_same_key(answer.error.as_ref()) => Rule::SameKeyAsked,
            _ if answer.error.is_none() => Rule::RetryStatus,
            _ if !self.keys.can_rotate() => Rule::CallersKeyStays,
            _ => {
                self.keys.rotate();
                Rule::NextKeyAfterBusy
            }
        }
    }

    /// Nobody knows what the send did.
    fn doubt(&mut self, doubt: Doubt, answer: &Answer, turn: Turn<'_>) -> Step {
        if doubt == Doubt::Failed && !asks_for_same_key(answer.error.as_ref()) {
            self.keys.failures += 1;
        }
        let (absent, rule) = match doubt {
            Doubt::Unreadable => (Absent::End(NotDoneReason::UnreadableAnswer), Rule::LookBeforeEnd),
            _ if self.forbids(answer) => (Absent::returned(ReturnReason::ServerForbids), Rule::LookBeforeEnd),
            Doubt::Recorded => (Absent::NextKey, Rule::LookBeforeNextKey),
            Doubt::Failed if self.keys.failures >= 2 => (Absent::NextKey, Rule::LookBeforeNextKey),
            _ => (Absent::SameKey, Rule::LookBeforeResend),
        };
        self.lose(absent, turn);
        if absent == Absent::SameKey && self.may_repeat() {
            match self.judge_reconciled(turn) {
                Ok((at, send)) => return self.send_at(at, send, Rule::SameKeyWhileHonoured, turn),
                // Not now. It is judged again once it is known that nothing was made.
                Err(_) => self.amend_last_call(Verdict::Reconcile),
            }
        }
        self.look_later(rule, Duration::ZERO, turn)
    }

    /// Asks later for the answer of a request that the server still works on.
    fn poll(&mut self, answer: &Answer, turn: Turn<'_>) -> Step {
        let wait = answer.outcome.retry_after().unwrap_or_else(|| backoff(self.polls, turn.random));
        self.polls += 1;
        let at = turn.now.saturating_add(wait);
        let (absent, rule) = if self.forbids(answer) {
            (Absent::returned(ReturnReason::ServerForbids), Rule::LookBeforeEnd)
        } else if self.is_late(at) {
            (Absent::returned(ReturnReason::DeadlineTooClose), Rule::LookBeforeEnd)
        } else if self.look_ups_left() <= RESERVE {
            (Absent::SameKey, Rule::LookBeforeResend)
        } else {
            let send = Sending { connection: Connection::Any, poll: true };
            return self.send_at(at, send, Rule::InProgress, turn);
        };
        self.lose_again(absent);
        self.look_later(rule, Duration::ZERO, turn)
    }

    /// Whether a send whose outcome is unknown may be repeated before anything is known: the key makes it harmless.
    pub(super) fn may_repeat(&self) -> bool {
        self.keys.honoured() && self.call.options.policy.repeat_unknown == RepeatUnknown::Permitted
    }

    /// Whether an earlier send, of this call or of another process with the same intent, may still have an effect that
    /// is not known.
    pub(super) fn is_unresolved(&self) -> bool {
        self.question.is_some()
    }

    /// Whether this call itself has made a send whose effect is not known.
    fn is_resend(&self) -> bool {
        self.question.as_ref().is_some_and(|question| question.absent != Absent::FirstSend)
    }

    fn forbids(&self, answer: &Answer) -> bool {
        match answer.outcome {
            Outcome::Responded(response) => {
                self.call.options.policy.honor_should_retry
                    && response.status >= 400
                    && response.should_retry == Some(false)
            }
            _ => false,
        }
    }

    /// The outcome of a send became unknown now; `absent` follows if it turns out to have done nothing.
    fn lose(&mut self, absent: Absent, turn: Turn<'_>) {
        let not_before = turn.now.saturating_add(self.last.1.unwrap_or_default());
        self.question = Some(Question { absent, not_before, ..Question::new(turn.now) });
    }

    /// What is asked of a given intent before anything is sent.
    pub(super) fn unasked(&self, turn: Turn<'_>) -> Question {
        self.call.earlier_loss.map_or_else(|| Question::new(turn.now), Question::lost_before)
    }

    /// The same question, with another consequence.
    fn lose_again(&mut self, absent: Absent) {
        if let Some(question) = &mut self.question {
            question.absent = absent;
        }
    }

    fn learn(&mut self, answer: &Answer) {
        self.last = (answer.outcome.status(), answer.outcome.retry_after());
        if let Some(code) = answer.error.as_ref().and_then(|error| error.error_code.as_deref()) {
            self.keys.learn_from_code(code);
        }
        if let Some(id) = &answer.sandbox {
            self.keys.learn_from_sandbox(id);
        }
    }
}

pub(super) const FIRST: Sending = Sending { connection: Connection::Any, poll: false };

pub(super) fn plain(retry: Retry) -> Sending {
    Sending { connection: retry.connection, poll: false }
}

impl Absent {
    pub(super) fn returned(reason: ReturnReason) -> Self {
        Self::End(NotDoneReason::Returned(reason))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::create::{Call, Input, Intent};
    use crate::outcome::Response;

    #[test]
    fn the_history_keeps_the_order_of_what_was_sent() {
        for (probe, purposes) in [
            (404, [Purpose::LookUp, Purpose::LookUp, Purpose::Call]),
            (200, [Purpose::Call, Purpose::LookUp, Purpose::Call]),
        ] {
            let at = Duration::from_secs;
            let status = |status| Outcome::Responded(Response::new(status));
            let missing = Outcome::Responded(Response { should_retry: Some(true), ..Response::new(404) });
            let mut create = Create::new(Intent::from_random([1; 16]), Call::default());
            create.step(Input::Continue, None, at(0), 0.0);
            create.step(Input::Answered(Answer::new(missing)), None, at(1), 0.0);
            create.record(Purpose::LookUp, &Attempt { started: at(1), ..Attempt::new(status(probe)) }, at(2));
            create.step(Input::Probed { status: Some(probe), date: None }, None, at(2), 0.0);
            create.step(Input::Continue, None, at(3), 0.0);
            create.step(Input::Answered(Answer::new(status(400))), None, at(4), 0.0);
            let records = create.ledger().attempts();
            assert_eq!(
                records.iter().map(|record| record.purpose).collect::<alloc::vec::Vec<_>>(),
                purposes,
                "{probe}"
            );
            assert!(records.is_sorted_by_key(|record| record.started), "{probe}");
        }
    }
}
