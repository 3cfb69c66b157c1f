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
        self.state = State::Ended(End::Done(id.clone()));
        Step { action: Action::Done(Done { id, how }), rule }
    }

    pub(super) fn not_done(&mut self, reason: NotDoneReason, rule: Rule) -> Step {
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
            State::New if self.origin != Origin::New => self.question = Some(Question::new(turn.now)),
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
                    End::Done(_) if self.sends >= 2 => End::Abandoned,
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

    /// What follows an end: every create that sent twice is swept, and so is one that was given up after it was sent.
    pub(super) fn after_end(&mut self, end: &End, turn: Turn<'_>) -> Step {
        let doubled = self.sends >= 2 || *end == End::Abandoned && self.sends >= 1;
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
