//! Where a create stands.

use alloc::string::String;
use core::time::Duration;

use super::action::NotDoneReason;
use super::rule::Rule;
use super::sweep::Sweep;
use crate::ledger::Attempt;
use crate::verdict::Connection;

/// Where a create stands. Each state awaits one input; [`Input::Continue`](super::Input::Continue) only moves those
/// that wait.
#[derive(Clone, Debug)]
pub(super) enum State {
    /// Nothing has happened.
    New,
    /// The next send is due at `until`.
    WaitingToSend { until: Duration, send: Sending, rule: Rule },
    /// A send runs.
    Sending { began: Duration, send: Sending },
    /// A 404 was answered, and a probe runs that tells whether v2 is there.
    Probing { began: Duration, attempt: Attempt, index: usize },
    /// The next look-up is due.
    WaitingToLook { until: Duration, rule: Rule },
    /// A look-up runs.
    Looking { began: Duration },
    /// A fetch is due.
    WaitingToAdopt { until: Duration, found: Found, rule: Rule },
    /// A fetch runs.
    Adopting { began: Duration, found: Found },
    /// The call has ended; the sweep has not begun.
    Ended(End),
    /// The call has ended, and doubles are looked for.
    Sweeping(Sweep),
    /// Nothing more to do.
    Finished,
}

impl State {
    pub(super) fn has_ended(&self) -> bool {
        matches!(self, Self::Ended(_) | Self::Sweeping(_) | Self::Finished)
    }
}

/// How a call ended, as far as the sweep must know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// With this sandbox.
    Done(String),
    /// Without one.
    NotDone,
    /// Nobody knows.
    Unknown,
    /// Nobody wants it.
    Abandoned,
}

/// How a send is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sending {
    pub(super) connection: Connection,
    /// It only asks for the answer of an earlier one.
    pub(super) poll: bool,
}

/// A sandbox that a look-up found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) id: String,
    pub(super) paused: bool,
}

/// A question that look-ups are to answer: does a sandbox carry the intent?
#[derive(Clone, Debug)]
pub(super) struct Question {
    /// From when `settle` counts: the last loss.
    pub(super) since: Duration,
    /// How long before the call's begin that loss was, where it is an earlier call's; `since` is then the begin.
    pub(super) before: Duration,
    /// What follows when no sandbox does.
    pub(super) absent: Absent,
    /// The server's wait: no send before.
    pub(super) not_before: Duration,
    /// Look-ups already made for it.
    pub(super) looks: u32,
    /// A sandbox was there, and is gone.
    pub(super) vanished: bool,
}

impl Question {
    /// Asked since now, with nothing known.
    pub(super) fn new(now: Duration) -> Self {
        Self {
            since: now,
            before: Duration::ZERO,
            absent: Absent::SameKey,
            not_before: Duration::ZERO,
            looks: 0,
            vanished: false,
        }
    }

    /// Asked since an earlier call's loss, this long before the call's begin.
    pub(super) fn lost_before(before: Duration) -> Self {
        Self { before, ..Self::new(Duration::ZERO) }
    }

    /// So long after the last loss, or at the call's begin where that is over already.
    pub(super) fn after_loss(&self, wait: Duration) -> Duration {
        self.since.saturating_add(wait).saturating_sub(self.before)
    }
}

/// What follows when no sandbox carries the intent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Absent {
    /// The first send. One empty look-up is enough, since none of ours is under way; unless an earlier call's is that was
    /// lost: then it is believed when `settle` is over.
    FirstSend,
    /// A send with the same key.
    SameKey,
    /// A send with the next key.
    NextKey,
    /// The end.
    End(NotDoneReason),
}
