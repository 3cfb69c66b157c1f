//! Finding out what an unknown outcome did: look-ups, adoption, and what follows when nothing is there.

use core::time::Duration;

use super::action::{Action, How, NotDoneReason, Step, UnknownReason};
use super::answer::{FIRST, RESERVE};
use super::input::{Failure, Listing};
use super::listing::{Reading, read};
use super::rule::Rule;
use super::state::{Absent, Found, Question, State};
use super::version::ApiVersion;
use super::{Create, Turn};
use crate::backoff::backoff;
use crate::policy::BACKOFF_BASE;

/// Look-ups before `settle` is over come at these parts of it, after one that is almost at once: most effects are
/// there by then, and a lagging list is soon up to date.
const PARTS: [u32; 3] = [8, 4, 2];

impl Create {
    /// Looks up at the next time that is due for the question at hand, and not within `wait`.
    pub(super) fn look_later(&mut self, rule: Rule, wait: Duration, turn: Turn<'_>) -> Step {
        let Some(question) = &self.question else {
            return self.give_up();
        };
        let left = self.look_ups_left();
        if left == 0 {
            return self.unknown(UnknownReason::LookUpsUsed, None, Rule::LookUpsUsed);
        }
        let due = next_look(question, self.call.options.settle, left, turn);
        let at = due.max(turn.now.saturating_add(wait));
        if self.is_late(at) {
            return self.unknown(UnknownReason::Deadline, None, Rule::Deadline);
        }
        self.look_at(at, rule, turn)
    }

    pub(super) fn look_at(&mut self, at: Duration, rule: Rule, turn: Turn<'_>) -> Step {
        if at > turn.now {
            return self.wait(at, State::WaitingToLook { until: at, rule }, rule);
        }
        self.look(rule, turn)
    }

    pub(super) fn look(&mut self, rule: Rule, turn: Turn<'_>) -> Step {
        if let Err(reason) = self.spend(turn.now) {
            return self.unknown(reason, None, reason.rule());
        }
        if let Some(question) = &mut self.question {
            question.looks += 1;
        }
        self.state = State::Looking { began: turn.now };
        Step { action: Action::LookUp { version: self.route.list }, rule }
    }

    pub(super) fn listed(&mut self, listing: &Listing, began: Duration, turn: Turn<'_>) -> Step {
        if self.route.list == ApiVersion::V2 {
            self.route.confirm_v2();
        }
        match read(listing, &self.intent) {
            Reading::Found(found) => match found.first() {
                Some(first) => {
                    let found = Found { id: first.id.clone(), paused: first.paused };
                    self.adopt(found, Rule::AdoptSmallest, turn)
                }
                None => self.empty(began, turn),
            },
            Reading::Absent => self.empty(began, turn),
            Reading::CannotTell => self.cannot_tell(Duration::ZERO, began, self.is_settled(began), turn),
        }
    }

    pub(super) fn list_failed(&mut self, failure: Failure, began: Duration, turn: Turn<'_>) -> Step {
        if self.route.list_failed(failure.status) {
            return self.look(Rule::ListFallBack, turn);
        }
        // An error may pass; a list that is without metadata stays so.
        self.cannot_tell(failure.retry_after.unwrap_or_default(), began, false, turn)
    }

    fn empty(&mut self, began: Duration, turn: Turn<'_>) -> Step {
        let Some(question) = &self.question else {
            return self.give_up();
        };
        if question.absent == Absent::FirstSend && self.may_send_first(began) {
            self.question = None;
            return if self.is_late(turn.now) { self.give_up() } else { self.send(FIRST, Rule::FirstSend, turn) };
        }
        if !self.is_settled(began) {
            return self.look_later(Rule::NotSettled, Duration::ZERO, turn);
        }
        self.absent(turn)
    }

    fn cannot_tell(&mut self, wait: Duration, began: Duration, hopeless: bool, turn: Turn<'_>) -> Step {
        let first = self.question.as_ref().is_some_and(|question| question.absent == Absent::FirstSend);
        // What an earlier call lost may have had another key: a list is waited for that tells, as long as it may still come.
        if first && self.may_repeat() && self.may_send_first(began) && !self.is_late(turn.now) {
            // The key finds what the list does not tell. The question stays: what an earlier call did is not known.
            return self.send(FIRST, Rule::SameKeyWhileHonoured, turn);
        }
        if hopeless {
            return self.unknown(UnknownReason::CannotTell, None, Rule::CannotTell);
        }
        self.look_later(Rule::CannotTell, wait, turn)
    }

    /// Nothing carries the intent, and nothing will: the send did not happen.
    fn absent(&mut self, turn: Turn<'_>) -> Step {
        let Some(Question { absent, vanished, .. }) = self.question else {
            return self.give_up();
        };
        if vanished {
            return self.not_done(NotDoneReason::Vanished, Rule::SettledAbsent);
        }
        let rule = match absent {
            Absent::End(reason) => return self.not_done(reason, Rule::SettledAbsent),
            Absent::FirstSend | Absent::SameKey => Rule::SameKeyAfterAbsent,
            Absent::NextKey if self.keys.can_rotate() => Rule::NextKeyAfterAbsent,
            // The server would replay what it recorded under the caller's key.
            Absent::NextKey if self.keys.honoured() => {
                return self.not_done(NotDoneReason::KeyIsTheCallers, Rule::SettledAbsent);
            }
            Absent::NextKey => Rule::CallersKeyStays,
        };
        match self.judge_reconciled(turn) {
            Ok((at, send)) => {
                if absent == Absent::NextKey {
                    self.keys.rotate();
                }
                self.question = None;
                self.send_at(at, send, rule, turn)
            }
            Err(reason) => self.not_done(NotDoneReason::Returned(reason), Rule::SettledAbsent),
        }
    }

    pub(super) fn adopt_at(&mut self, at: Duration, found: Found, rule: Rule, turn: Turn<'_>) -> Step {
        if at > turn.now {
            return self.wait(at, State::WaitingToAdopt { until: at, found, rule }, rule);
        }
        self.adopt(found, rule, turn)
    }

    fn adopt(&mut self, found: Found, rule: Rule, turn: Turn<'_>) -> Step {
        if let Err(reason) = self.spend(turn.now) {
            return self.unknown(reason, Some(found.id), reason.rule());
        }
        let action = Action::Adopt { id: found.id.clone(), paused: found.paused };
        self.state = State::Adopting { began: turn.now, found };
        Step { action, rule }
    }

    pub(super) fn adopted(&mut self, found: Found, turn: Turn<'_>) -> Step {
        self.refund(turn);
        self.done(found.id, How::Adopted, Rule::AdoptionConfirmed)
    }

    /// It was there and is gone: killed by somebody, or at the end of its time. It is not made again.
    pub(super) fn adopt_gone(&mut self, turn: Turn<'_>) -> Step {
        if let Some(question) = &mut self.question {
            question.vanished = question.absent != Absent::FirstSend;
        }
        self.look_later(Rule::Vanished, Duration::ZERO, turn)
    }

    pub(super) fn adopt_failed(&mut self, found: Found, failure: Failure, turn: Turn<'_>) -> Step {
        let spent = self.ledger.look_ups_used();
        let wait = failure.retry_after.unwrap_or_else(|| backoff(spent, turn.random));
        let at = turn.now.saturating_add(wait);
        if self.look_ups_left() == 0 {
            return self.unknown(UnknownReason::LookUpsUsed, Some(found.id), Rule::LookUpsUsed);
        }
        if self.is_late(at) {
            return self.unknown(UnknownReason::Deadline, Some(found.id), Rule::Deadline);
        }
        self.adopt_at(at, found, Rule::AdoptAgain, turn)
    }

    /// Whether a look-up that began then answers the question for good.
    fn is_settled(&self, began: Duration) -> bool {
        self.question.as_ref().is_some_and(|question| began >= question.after_loss(self.call.options.settle))
    }

    /// Whether a look-up that began then is enough for the first send: any, unless an earlier call's is known to be lost.
    fn may_send_first(&self, began: Duration) -> bool {
        self.call.earlier_loss.is_none() || self.is_settled(began)
    }
}

/// When to look next. The last look-ups are kept for the end of `settle`, when the answer is final.
fn next_look(question: &Question, settle: Duration, left: u32, turn: Turn<'_>) -> Duration {
    let end = question.after_loss(settle);
    if turn.now >= end {
        return turn.now.saturating_add((settle / PARTS[0]).max(BACKOFF_BASE));
    }
    if left <= RESERVE {
        return end;
    }
    if question.looks == 0 {
        return question.after_loss(backoff(0, turn.random)).clamp(turn.now, end);
    }
    let parts = PARTS.iter().map(|part| question.after_loss(settle / *part));
    parts.into_iter().find(|at| *at > turn.now).unwrap_or(end)
}

impl UnknownReason {
    fn rule(self) -> Rule {
        match self {
            Self::Deadline => Rule::Deadline,
            Self::LookUpsUsed => Rule::LookUpsUsed,
            Self::CannotTell => Rule::CannotTell,
            Self::Abandoned => Rule::Abandoned,
        }
    }
}
