//! What a create is told.

use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use crate::outcome::Outcome;

/// One thing that happened: the result of the last action, or time passing.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "snake_case"))]
pub enum Input {
    /// Time has passed: the begin, the end of a wait, or what comes after an end.
    Continue,
    /// [`Action::Send`](super::Action::Send) ended.
    Answered(Answer),
    /// [`Action::Probe`](super::Action::Probe) ended: with this status, or with none.
    Probed {
        /// The status, where an answer came whole.
        status: Option<u16>,
        /// The answer's `Date`, since 1970.
        #[cfg_attr(feature = "serde", serde(default, with = "crate::seconds::option"))]
        date: Option<Duration>,
    },
    /// [`Action::LookUp`](super::Action::LookUp) brought a list.
    Listed(Listing),
    /// [`Action::LookUp`](super::Action::LookUp) failed.
    ListFailed(Failure),
    /// [`Action::Adopt`](super::Action::Adopt) brought the sandbox.
    Adopted,
    /// [`Action::Adopt`](super::Action::Adopt) found that the sandbox is gone (404).
    AdoptGone,
    /// [`Action::Adopt`](super::Action::Adopt) failed.
    AdoptFailed(Failure),
    /// [`Action::Kill`](super::Action::Kill) ended.
    Killed {
        /// The sandboxes of which it is not known that they are gone (neither 204 nor 404).
        left: Vec<String>,
        /// The longest wait that the server asked for.
        #[cfg_attr(feature = "serde", serde(default, with = "crate::seconds::option"))]
        retry_after: Option<Duration>,
    },
    /// Nobody wants the sandbox any more: the call was cancelled or dropped, or its handle killed the sandbox.
    Abandoned {
        /// Whether a send is running whose head was written.
        sent: bool,
    },
}

/// How a send ended.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Answer {
    /// What is known of the attempt. An answer's body is read inside the attempt.
    pub outcome: Outcome,
    /// The connection it used, by a number that is unique in the process.
    #[cfg_attr(feature = "serde", serde(default))]
    pub connection: Option<u64>,
    /// Whether another connection to the origin is open or being dialled.
    #[cfg_attr(feature = "serde", serde(default))]
    pub other_connection: bool,
    /// How many dials of the origin have failed in a row, this one included.
    #[cfg_attr(feature = "serde", serde(default))]
    pub failed_dials: u32,
    /// The error, where the body has E2B's shape: a JSON object with an integer `code` and a text `message`. `None`
    /// for anything else, such as a proxy's HTML.
    #[cfg_attr(feature = "serde", serde(default))]
    pub error: Option<ServerError>,
    /// The id of the sandbox in the body, also where the body was cut after it.
    #[cfg_attr(feature = "serde", serde(default))]
    pub sandbox: Option<String>,
    /// `Date`, since 1970.
    #[cfg_attr(feature = "serde", serde(default, with = "crate::seconds::option"))]
    pub date: Option<Duration>,
}

impl Answer {
    /// An outcome and nothing else.
    pub const fn new(outcome: Outcome) -> Self {
        Self {
            outcome,
            connection: None,
            other_connection: false,
            failed_dials: 0,
            error: None,
            sandbox: None,
            date: None,
        }
    }
}

/// An error body of E2B's shape.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct ServerError {
    /// `error_code`
    #[cfg_attr(feature = "serde", serde(default))]
    pub error_code: Option<String>,
    /// `message`
    #[cfg_attr(feature = "serde", serde(default))]
    pub message: String,
}

/// The result of a look-up, over all its pages.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Listing {
    /// Whether the last page was reached.
    pub complete: bool,
    /// All that was listed, whatever the filter was.
    pub sandboxes: Vec<ListedSandbox>,
    /// The `Date` of the last page, since 1970.
    #[cfg_attr(feature = "serde", serde(default, with = "crate::seconds::option"))]
    pub date: Option<Duration>,
}

/// A sandbox in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct ListedSandbox {
    /// `sandboxID`
    pub id: String,
    /// `startedAt`, since 1970.
    #[cfg_attr(feature = "serde", serde(with = "crate::seconds"))]
    pub started_at: Duration,
    /// What its own returned metadata says of an intent.
    pub intent: IntentTag,
    /// Whether its `state` is `paused`.
    #[cfg_attr(feature = "serde", serde(default))]
    pub paused: bool,
}

/// What a listed sandbox's metadata says of an intent.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "snake_case"))]
pub enum IntentTag {
    /// It was listed without metadata (absent or null): it may be anyone's.
    NoMetadata,
    /// It has metadata, and no intent in it.
    None,
    /// The value of `oncebox.intent`.
    Value(String),
}

/// A request that brought nothing to go by.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(default))]
pub struct Failure {
    /// The status, where an answer came.
    pub status: Option<u16>,
    /// A usable `Retry-After`.
    #[cfg_attr(feature = "serde", serde(with = "crate::seconds::option"))]
    pub retry_after: Option<Duration>,
    /// The answer's `Date`, since 1970.
    #[cfg_attr(feature = "serde", serde(with = "crate::seconds::option"))]
    pub date: Option<Duration>,
}

impl Input {
    /// The server's clock, where this came with it.
    pub(super) fn date(&self) -> Option<Duration> {
        match self {
            Self::Answered(answer) => answer.date,
            Self::Probed { date, .. } => *date,
            Self::Listed(listing) => listing.date,
            Self::ListFailed(failure) | Self::AdoptFailed(failure) => failure.date,
            _ => None,
        }
    }
}
