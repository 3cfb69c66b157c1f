//! The ends of a call, and what follows them.

use alloc::string::String;
use alloc::vec::Vec;

use super::action::{Action, Done, How, NotDone, NotDoneReason, Step, Unknown, UnknownReason};
use super::input::Input;
use super::rule::Rule;
use super::state::{End, Question, State};
use super::sweep::{Keep, Sweep};
use super::{Create, Origin, Turn};
use crate::outcome::Outcome;
use crate::verdict::ReturnReason;

impl Create {
    pub(super) fn done(&mut self, id: String, how: How, rule: Rule) -> Step {
        self.question = None;
        self.state = State::Ended(End::Done(id.clone()));
        Step { action: Action::Done(Done { id, how }), rule }
    }

    pub(super) fn not_done(&mut self, reason: NotDoneReason, rule: Rule) -> Step {
        self.question = None;
        self.state = State::Ended(End::NotDone);
        let (status, retry_after) = self.last;
        Step { action: Action::NotDone(NotDone { reason, status, retry_after }), rule }
    }

    pub(super) fn unknown(&mut self, reason: UnknownReason, candidate: Option<String>, rule: Rule) -> Step {
        let end = if reason == UnknownReason::Abandoned { End::Abandoned } else { End::Unknown };
        self.state = State::Ended(end);
        Step { action: Action::Unknown(Unknown { intent: self.intent, reason, candidate }), rule }
    }

    /// The deadline has come, and the last action brought no result.
    pub(super) fn time_out(&mut self, state: &State, turn: Turn<'_>) -> Step {
        self.record_running(state, Outcome::TimedOut { sent: true }, turn);
        match state {
            State::Sending { .. } => {
                // Nobody said that its head was not written.
                self.sends += 1;
                self.question = Some(Question::new(turn.now));
            }
            // Nobody has looked yet.
            State::New if self.origin != Origin::New => self.question = Some(self.unasked(turn)),
            State::Adopting { found, .. } | State::WaitingToAdopt { found, .. } => {
                let id = Some(found.id.clone());
                return self.unknown(UnknownReason::Deadline, id, Rule::Deadline);
            }
            _ => {}
        }
        self.give_up()
    }

    /// The deadline has come.
    pub(super) fn give_up(&mut self) -> Step {
        if self.question.is_some() {
            return self.unknown(UnknownReason::Deadline, None, Rule::Deadline);
        }
        self.not_done(NotDoneReason::Returned(ReturnReason::DeadlinePassed), Rule::Deadline)
    }

    /// The caller gave the call up, or its result.
    pub(super) fn abandon(&mut self, sent: bool, turn: Turn<'_>) -> Step {
        match core::mem::replace(&mut self.state, State::Finished) {
            // The call has ended: its sandbox is the caller's to kill, and no other one is to stay in its place.
            State::Ended(end) => {
                let end = match end {
                    End::Unknown => End::Abandoned,
                    End::Done(_) if self.sends_to_sweep() >= 2 => End::Abandoned,
                    end => end,
                };
                self.after_end(&end, turn)
            }
            State::Sweeping(mut sweep) => {
                sweep.abandon();
                self.sweep(sweep, Input::Continue, turn)
            }
            State::Finished => self.finished(Rule::NothingToSweep),
            state => {
                self.record_running(&state, Outcome::Cancelled { sent }, turn);
                if sent && matches!(state, State::Sending { .. }) {
                    self.sends += 1;
                    self.question = Some(Question::new(turn.now));
                }
                // Nobody has looked yet for what an earlier call lost.
                if matches!(state, State::New) && self.call.earlier_loss.is_some() {
                    self.question = Some(self.unasked(turn));
                }
                self.end_abandoned()
            }
        }
    }

    pub(super) fn end_abandoned(&mut self) -> Step {
        if self.question.is_some() {
            return self.unknown(UnknownReason::Abandoned, None, Rule::Abandoned);
        }
        let step = self.not_done(NotDoneReason::Returned(ReturnReason::Cancelled), Rule::Abandoned);
        // A 503 is trusted when it comes to sending again. Nobody will: what it may have left has to be looked for.
        self.state = State::Ended(End::Abandoned);
        step
    }

    /// How many sends may have made what a sweep looks for: this call's, and an earlier one that was lost, although look-ups
    /// stayed empty after it: they may have been empty for too short a time.
    pub(super) fn sends_to_sweep(&self) -> u32 {
        self.sends.saturating_add(u32::from(self.call.earlier_loss.is_some()))
    }

    /// What follows an end: every create that sent twice is swept, and so is one that was given up after it was sent.
    pub(super) fn after_end(&mut self, end: &End, turn: Turn<'_>) -> Step {
        let doubled = self.sends_to_sweep() >= 2 || *end == End::Abandoned && self.sends >= 1;
        if self.origin == Origin::Resolve || !doubled {
            return self.finished(Rule::NothingToSweep);
        }
        let (keep, handle) = match end {
            End::Done(id) => (Keep::First, Some(id.clone())),
            End::Unknown => (Keep::First, None),
            End::NotDone | End::Abandoned => (Keep::None, None),
        };
        let sweep = Sweep::new(self, keep, handle, turn.now);
        self.sweep(sweep, Input::Continue, turn)
    }

    pub(super) fn sweep(&mut self, mut sweep: Sweep, input: Input, turn: Turn<'_>) -> Step {
        let step = sweep.step(input, &self.clock, &mut self.route, turn);
        self.keys.evidence = sweep.evidence.or(self.keys.evidence);
        if !matches!(step.action, Action::Finished { .. }) {
            self.state = State::Sweeping(sweep);
        }
        step
    }

    pub(super) fn finished(&mut self, rule: Rule) -> Step {
        self.state = State::Finished;
        Step { action: Action::Finished { left: Vec::new(), certain: true }, rule }
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::*;
    use crate::create::{Answer, Call, Failure, Intent, Listing};

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn whoever_lost_nothing_has_no_loss_to_tell_of() {
        let intent = Intent::from_random([1; 16]);
        for begin in [Create::given, Create::resolve] {
            let mut create = begin(intent, Call::default());
            create.step(Input::Continue, None, at(0), 0.0);
            create.step(Input::ListFailed(Failure::default()), None, at(1), 0.0);
            let step = create.step(Input::Continue, None, at(60), 0.0);
            assert!(matches!(step.action, Action::Unknown(_)));
            assert_eq!(create.lost_for(at(60)), None);
        }
    }

    #[test]
    fn a_loss_is_told_of_until_it_is_settled() {
        let mut create = Create::new(Intent::from_random([1; 16]), Call::default());
        create.step(Input::Continue, None, at(0), 0.0);
        assert_eq!(create.lost_for(at(1)), None);
        create.step(Input::Answered(Answer::new(Outcome::TimedOut { sent: true })), None, at(3), 0.0);
        assert_eq!(create.lost_for(at(5)), Some(at(2)));

        let mut create = Create::new(Intent::from_random([1; 16]), Call::default());
        let lost = Outcome::SentUnknown(crate::Unknown {
            cause: crate::Cause::ConnectionLost,
            stream_id: None,
            detail: "".into(),
        });
        create.step(Input::Continue, None, at(0), 0.0);
        create.step(Input::Answered(Answer::new(lost)), None, at(1), 0.0);
        assert_eq!(create.lost_for(at(11)), Some(at(10)));
        create.step(Input::Continue, None, at(11), 0.0);
        let listing = Listing { complete: true, sandboxes: Vec::new(), date: None };
        create.step(Input::Listed(listing), None, at(12), 0.0);
        assert_eq!(create.lost_for(at(12)), None, "nothing was made");

        let call = Call { earlier_loss: Some(at(4)), ..Call::default() };
        let mut create = Create::given(Intent::from_random([1; 16]), call);
        create.step(Input::Abandoned { sent: false }, None, at(1), 0.0);
        assert_eq!(create.lost_for(at(1)), Some(at(5)), "that of the earlier call");
    }
}
