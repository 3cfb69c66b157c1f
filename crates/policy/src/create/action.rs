//! What a create asks its caller to do.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;

use super::intent::Intent;
use super::rule::Rule;
use super::version::ApiVersion;
use crate::verdict::{Connection, ReturnReason};

/// An action, and the rule that it follows from.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Step {
    /// What to do now.
    pub action: Action,
    /// Why.
    pub rule: Rule,
}

/// What to do now. One action at a time; its result is the next [`Input`](super::Input).
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "snake_case"))]
pub enum Action {
    /// Make one attempt of the create, without repeats of any kind below.
    Send(Send),
    /// Do nothing before this time, counted from the call's begin. If the last action still runs, its result comes
    /// first.
    Wait {
        /// The time.
        #[cfg_attr(feature = "serde", serde(with = "crate::seconds"))]
        until: Duration,
    },
    /// Ask `GET /v2/sandboxes?limit=1` for its status, in one attempt.
    Probe,
    /// List the sandboxes that carry the intent, running and paused, by the metadata filter; all pages, each in one
    /// attempt.
    LookUp {
        /// The path version to list from.
        version: ApiVersion,
    },
    /// Fetch this sandbox for the caller, in one attempt; a paused one is resumed.
    Adopt {
        /// `sandboxID`
        id: String,
        /// Whether it was listed as paused.
        paused: bool,
    },
    /// The call ends with a sandbox.
    Done(Done),
    /// The call ends without one: none was made, and none will be.
    NotDone(NotDone),
    /// The call ends, and nobody knows.
    Unknown(Unknown),
    /// After the end: the handle's sandbox lost to another one of the same intent, and is killed next.
    Superseded {
        /// The handle's sandbox.
        lost: String,
        /// The one that stays.
        by: String,
    },
    /// After the end: kill these sandboxes, each in one attempt.
    Kill {
        /// Their ids.
        ids: Vec<String>,
    },
    /// After the end: there is nothing more to do.
    Finished {
        /// Sandboxes of this intent that were seen and should not live, but may.
        left: Vec<String>,
        /// Whether the sweep came to its end; `false`: its bound cut it off, and there may be more.
        certain: bool,
    },
}

/// A send. Its metadata holds the intent under [`INTENT_METADATA`](super::INTENT_METADATA), always.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Send {
    /// The number of the key.
    pub number: u32,
    /// `Idempotency-Key`
    pub key: String,
    /// The path version to send to.
    pub version: ApiVersion,
    /// On which connection.
    pub connection: Connection,
}

/// A call that ended with a sandbox.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Done {
    /// `sandboxID`
    pub id: String,
    /// How it was got.
    pub how: How,
}

/// How a call got its sandbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "snake_case"))]
pub enum How {
    /// A send was answered with it.
    Acknowledged,
    /// A look-up found it.
    Adopted,
}

/// A call that ended without a sandbox.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct NotDone {
    /// Why.
    pub reason: NotDoneReason,
    /// The status of the last answer, where there was one.
    pub status: Option<u16>,
    /// When the server would like to be asked again, counted from its answer.
    #[cfg_attr(feature = "serde", serde(with = "crate::seconds::option"))]
    pub retry_after: Option<Duration>,
}

/// Why a call ended without a sandbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "snake_case"))]
pub enum NotDoneReason {
    /// The policy returns: a final status, or a limit.
    Returned(ReturnReason),
    /// The key was used for another request (409).
    IntentMismatch,
    /// The answer said success and named no sandbox; and none was made.
    UnreadableAnswer,
    /// A new key would be needed, and the caller's own is not replaced.
    KeyIsTheCallers,
    /// A sandbox was made and is gone again.
    Vanished,
    /// `resolve` found none.
    Absent,
}

/// A call of which nobody knows how it ended; `resolve` with the intent may find out, from any process.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Unknown {
    /// The intent.
    pub intent: Intent,
    /// What ended the call.
    pub reason: UnknownReason,
    /// A sandbox that was found and could not be fetched in time.
    pub candidate: Option<String>,
}

/// What ended a call of which nobody knows how it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "snake_case"))]
pub enum UnknownReason {
    /// The deadline, or that it comes before the next look-up.
    Deadline,
    /// `lookups` are used up.
    LookUpsUsed,
    /// The server's lists say nothing about intents.
    CannotTell,
    /// The caller gave it up.
    Abandoned,
}

impl fmt::Display for NotDoneReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Returned(reason) => return reason.fmt(f),
            Self::IntentMismatch => "the idempotency key was used for another request",
            Self::UnreadableAnswer => "the answer named no sandbox, and none was made",
            Self::KeyIsTheCallers => "only another idempotency key could be answered anew (idempotency_key)",
            Self::Vanished => "the sandbox was made and is gone again",
            Self::Absent => "no sandbox carries the intent",
        })
    }
}

impl fmt::Display for UnknownReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Deadline => "the deadline (request_timeout) came before the outcome could be found out",
            Self::LookUpsUsed => "look-ups used up (lookups)",
            Self::CannotTell => "the server's lists do not tell which sandbox carries the intent",
            Self::Abandoned => "the caller gave it up",
        })
    }
}
