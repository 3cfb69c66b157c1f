//! The create that happens once, as a pure state machine.
//!
//! A create mints: sent twice, it may make two sandboxes, and an answer that is lost leaves one that nobody knows. The
//! machine sends, finds out what an unknown outcome did, adopts what is there, sends again only when nothing is, and
//! sweeps up doubles after the end. It does no I/O and has no clock: it is told what happened ([`Input`]) and says what
//! to do now ([`Action`]), one at a time, with the [`Rule`] that it follows.
//!
//! ```
//! use std::time::Duration;
//! use oncebox_policy::create::*;
//! use oncebox_policy::{Cause, Outcome};
//!
//! let intent = Intent::from_random([7; 16]);
//! let call = Call { began: Duration::from_secs(1_800_000_000), ..Call::default() };
//! let mut create = Create::new(intent, call);
//! let at = Duration::from_millis;
//!
//! let step = create.step(Input::Continue, None, at(0), 0.5);
//! assert!(matches!(step.action, Action::Send(_)));
//!
//! // The connection is lost. Keys may be ignored here, so nothing is sent before a look.
//! let lost = oncebox_policy::Unknown { cause: Cause::ConnectionLost, stream_id: None, detail: "".into() };
//! let step = create.step(Input::Answered(Answer::new(Outcome::SentUnknown(lost))), None, at(1000), 0.0);
//! assert_eq!((step.action, step.rule), (Action::Wait { until: at(1050) }, Rule::LookBeforeResend));
//! let step = create.step(Input::Continue, None, at(1050), 0.0);
//! assert_eq!(step.action, Action::LookUp { version: ApiVersion::V2 });
//!
//! // A sandbox is there whose own metadata holds this intent: it is ours.
//! let ours = ListedSandbox {
//!     id: "i1".into(),
//!     started_at: Duration::from_secs(1_800_000_000),
//!     intent: IntentTag::Value(intent.to_string()),
//!     paused: false,
//! };
//! let listing = Listing { complete: true, sandboxes: vec![ours], date: None };
//! let step = create.step(Input::Listed(listing), None, at(1100), 0.0);
//! assert_eq!(step.action, Action::Adopt { id: "i1".into(), paused: false });
//! let step = create.step(Input::Adopted, None, at(1150), 0.0);
//! assert_eq!(step.action, Action::Done(Done { id: "i1".into(), how: How::Adopted }));
//! ```
//!
//! # Who counts what
//!
//! Each [`Action::Send`] is exactly one attempt: the layers below repeat nothing. The machine owns the call's
//! [`Ledger`] and asks [`judge`](crate::judge()) itself about what was not processed and about statuses, and
//! [`judge_reconciled`](crate::judge_reconciled) before it sends again what was unknown. So the attempts of a call stay
//! within [`Policy::bound`](crate::Policy::bound) over all layers. Look-ups, fetches of what was found, probes, polls
//! of a request in progress, and the one send that finds v2 missing are single attempts and spend `lookups`. What comes
//! after the end has its own bound.

mod action;
mod answer;
mod call;
mod charge;
mod clock;
mod end;
mod input;
mod intent;
mod keys;
mod listing;
mod look;
mod rule;
mod said;
mod state;
mod sweep;
mod version;

use core::time::Duration;

pub use action::{Action, Done, How, NotDone, NotDoneReason, Send, Step, Unknown, UnknownReason};
pub use call::{Call, ServerMemory};
pub use input::{Answer, Failure, Input, IntentTag, ListedSandbox, Listing, ServerError};
pub use intent::{INTENT_METADATA, Intent, InvalidIntent};
pub use keys::KeyEvidence;
pub use rule::Rule;
pub use version::ApiVersion;

use crate::budget::Tokens;
use crate::facts::{CallFacts, RequestBody};
use crate::judge::judge_look_up;
use crate::ledger::{Attempt, Ledger, Purpose};
use crate::verdict::Verdict;
use clock::ServerClock;
use keys::Keys;
use state::{Question, State};
use version::Route;

/// One create, or one `resolve`.
#[derive(Clone, Debug)]
pub struct Create {
    intent: Intent,
    origin: Origin,
    call: Call,
    facts: CallFacts,
    keys: Keys,
    route: Route,
    clock: ServerClock,
    ledger: Ledger,
    /// Sends that may have made a sandbox.
    sends: u32,
    /// Answers "still in progress" so far, which the waits between polls grow with.
    polls: u32,
    /// The status and wait of the last answer to a send.
    last: (Option<u16>, Option<Duration>),
    question: Option<Question>,
    state: State,
}

/// Where the intent comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Origin {
    /// Made for this call: no sandbox can carry it yet.
    New,
    /// Given by the caller: a sandbox may carry it.
    Given,
    /// Given to `resolve`.
    Resolve,
}

/// The moment of a step, and what is drawn from in it.
#[derive(Clone, Copy)]
struct Turn<'a> {
    tokens: Option<Tokens<'a>>,
    now: Duration,
    random: f64,
}

impl Create {
    /// A create with an intent that was made for it.
    pub fn new(intent: Intent, call: Call) -> Self {
        Self::with_origin(intent, call, Origin::New)
    }

    /// A create with an intent that the caller gives, and that may have been carried out already. [`Call::earlier_loss`]
    /// says whether that may still happen.
    pub fn given(intent: Intent, call: Call) -> Self {
        Self::with_origin(intent, call, Origin::Given)
    }

    /// Finds out what became of an intent. It sends no create and kills nothing.
    pub fn resolve(intent: Intent, call: Call) -> Self {
        Self::with_origin(intent, call, Origin::Resolve)
    }

    fn with_origin(intent: Intent, mut call: Call, origin: Origin) -> Self {
        // A new intent has no earlier call, and `resolve` believes no absence before `settle` is over anyway.
        call.earlier_loss = call.earlier_loss.filter(|_| origin == Origin::Given);
        let facts = CallFacts {
            mints: true,
            reconciles: true,
            body: RequestBody::Bytes,
            deadline: call.options.request_timeout,
            ..CallFacts::default()
        };
        Self {
            intent,
            origin,
            facts,
            keys: Keys::new(call.options.idempotency_keys, call.idempotency_key.clone(), call.server.keys),
            route: Route::new(call.server.version),
            clock: ServerClock::new(call.began),
            call,
            ledger: Ledger::new(),
            sends: 0,
            polls: 0,
            last: (None, None),
            question: None,
            state: State::New,
        }
    }

    /// Tells what happened, and says what to do now. `now` counts from the call's begin, `random` is in [0, 1). The
    /// same inputs always give the same steps.
    ///
    /// The first input is [`Input::Continue`], and so is the one after an end ([`Action::Done`], [`Action::NotDone`],
    /// [`Action::Unknown`]) or [`Action::Superseded`], until [`Action::Finished`]. An input that the machine does not
    /// await changes nothing.
    pub fn step(&mut self, input: Input, tokens: Option<Tokens<'_>>, now: Duration, random: f64) -> Step {
        let turn = Turn { tokens, now, random };
        if let Some(date) = input.date() {
            self.clock.observe(date, self.asked_at(), now);
        }
        if let Input::Abandoned { sent } = input {
            return self.abandon(sent, turn);
        }
        match (core::mem::replace(&mut self.state, State::Finished), input) {
            (State::Ended(end), Input::Continue) => self.after_end(&end, turn),
            (State::Sweeping(sweep), input) => self.sweep(sweep, input, turn),
            (State::Finished, _) => self.finished(Rule::NothingToSweep),
            (state, Input::Continue) if self.is_late(now) && !state.has_ended() => self.time_out(&state, turn),

            (State::New, Input::Continue) => self.begin(turn),
            (State::WaitingToSend { until, send, rule }, Input::Continue) => self.send_at(until, send, rule, turn),
            (State::WaitingToLook { until, rule }, Input::Continue) => self.look_at(until, rule, turn),
            (State::WaitingToAdopt { until, found, rule }, Input::Continue) => self.adopt_at(until, found, rule, turn),

            (State::Sending { began, send }, Input::Answered(answer)) => self.answered(&answer, began, send, turn),
            (State::Probing { attempt, index, .. }, Input::Probed { status, .. }) => {
                self.probed(status, &attempt, index, turn)
            }
            (State::Looking { began }, Input::Listed(listing)) => self.listed(&listing, began, turn),
            (State::Looking { began }, Input::ListFailed(failure)) => self.list_failed(failure, began, turn),
            (State::Adopting { found, .. }, Input::Adopted) => self.adopted(found, turn),
            (State::Adopting { .. }, Input::AdoptGone) => self.adopt_gone(turn),
            (State::Adopting { found, .. }, Input::AdoptFailed(failure)) => self.adopt_failed(found, failure, turn),
            (state, _) => self.await_result(state),
        }
    }

    /// Writes an attempt of a look-up's page, a fetch, a probe or a kill into the call's history.
    pub fn record(&mut self, purpose: Purpose, attempt: &Attempt, now: Duration) -> Verdict {
        judge_look_up(&self.facts, &mut self.ledger, purpose, attempt, now)
    }

    /// The intent.
    pub fn intent(&self) -> Intent {
        self.intent
    }

    /// The call's history and what it has used.
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// How many sends may have made a sandbox.
    pub fn sends(&self) -> u32 {
        self.sends
    }

    /// How long ago the last loss was whose outcome is not known: of a send of this call, or of the earlier one that it
    /// was told of. To be asked at the end of a call that ends unknown, for a later one
    /// ([`Call::earlier_loss`]). `None`: nothing was lost, as far as is known.
    pub fn lost_for(&self, now: Duration) -> Option<Duration> {
        // Whoever only looked has lost nothing, although it does not know either.
        let lost = self.sends > 0 || self.call.earlier_loss.is_some();
        let question = self.question.as_ref().filter(|_| lost)?;
        Some(now.saturating_add(question.before).saturating_sub(question.since))
    }

    /// What is known of the server by now, to be remembered for later calls to it.
    pub fn server(&self) -> ServerMemory {
        ServerMemory { keys: self.keys.evidence, version: self.route.known }
    }

    fn is_late(&self, at: Duration) -> bool {
        self.facts.deadline.is_some_and(|deadline| at >= deadline)
    }

    /// When the request was sent whose result comes now.
    fn asked_at(&self) -> Duration {
        match &self.state {
            State::Sending { began, .. }
            | State::Probing { began, .. }
            | State::Looking { began }
            | State::Adopting { began, .. } => *began,
            State::Sweeping(sweep) => sweep.asked_at(),
            _ => Duration::ZERO,
        }
    }

    /// Nothing to do but to wait for the result of the last action.
    fn await_result(&mut self, state: State) -> Step {
        self.state = state;
        Step { action: Action::Wait { until: self.facts.deadline.unwrap_or(Duration::MAX) }, rule: Rule::Awaited }
    }

    fn wait(&mut self, until: Duration, state: State, rule: Rule) -> Step {
        self.state = state;
        Step { action: Action::Wait { until }, rule }
    }
}
