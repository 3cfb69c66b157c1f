//! Errors: what failed, the evidence, what was done about it, and which option changes it.

use std::error::Error as StdError;
use std::fmt;
use std::time::Duration;

use oncebox_policy::{Ledger, Outcome, Record, ReturnReason, Verdict};

use crate::body::BoxError;
use crate::dial::DialError;
use crate::limit::{Expired, Step};

/// A call that ended without an answer to hand on, or that could not be made.
///
/// A status is not an error here: an answer is returned as it came, whatever it says.
pub struct Error(Box<Inner>);

struct Inner {
    kind: Kind,
    ledger: Ledger,
    source: Option<BoxError>,
}

enum Kind {
    /// Refused before any I/O.
    Invalid(String),
    /// The attempts ended without an answer.
    Failed { target: String },
    /// The answer is larger than may be read whole.
    TooLarge { target: String, limit: usize },
}

impl Error {
    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self(Box::new(Inner { kind: Kind::Invalid(message.into()), ledger: Ledger::new(), source: None }))
    }

    pub(crate) fn failed(target: String, ledger: Ledger, source: Option<BoxError>) -> Self {
        Self(Box::new(Inner { kind: Kind::Failed { target }, ledger, source }))
    }

    pub(crate) fn too_large(target: String, limit: usize, ledger: Ledger) -> Self {
        Self(Box::new(Inner { kind: Kind::TooLarge { target, limit }, ledger, source: None }))
    }

    /// What is known of the last attempt. `None`: nothing was tried.
    pub fn outcome(&self) -> Option<&Outcome> {
        self.0.ledger.attempts().last().map(|record| &record.outcome)
    }

    /// Every attempt of the call, oldest first, with its outcome and what was decided then.
    pub fn attempts(&self) -> &[Record] {
        self.0.ledger.attempts()
    }

    /// The whole record of the call.
    pub fn ledger(&self) -> &Ledger {
        &self.0.ledger
    }

    /// The last attempt's outcome in words, such as "stream refused by GOAWAY: stream 43 above last stream id 41,
    /// NO_ERROR, max_age".
    pub fn evidence(&self) -> String {
        self.outcome().map(ToString::to_string).unwrap_or_default()
    }

    /// When the server would like to be asked again, where it said so.
    pub fn retry_after(&self) -> Option<Duration> {
        match self.outcome()? {
            Outcome::Responded(response) => response.retry_after,
            _ => None,
        }
    }

    /// Whether any attempt of the call may have been processed by the server. `false` is a promise.
    pub fn may_have_been_processed(&self) -> bool {
        self.0.ledger.may_have_been_processed()
    }

    /// Why the call ended. `None`: it was refused before any I/O, or its outcome is to be reconciled.
    pub fn reason(&self) -> Option<ReturnReason> {
        match self.attempts().last()?.verdict {
            Verdict::Return(end) => Some(end.reason),
            _ => None,
        }
    }

    /// Whether the request or an option was refused before any I/O.
    pub fn is_invalid(&self) -> bool {
        matches!(self.0.kind, Kind::Invalid(_))
    }

    /// Whether the call's deadline passed.
    pub fn is_timeout(&self) -> bool {
        matches!(self.outcome(), Some(Outcome::TimedOut { .. }))
    }

    /// What the call waited for when a limit ended it: `None` where none did.
    pub fn timed_out_in(&self) -> Option<Step> {
        self.expired().map(|expired| expired.step)
    }

    /// Whether no connection could be made.
    pub fn is_connect(&self) -> bool {
        matches!(self.outcome(), Some(Outcome::NotSent(not_sent)) if not_sent.phase.is_dial())
    }
}

impl Error {
    /// The limit that ended the call.
    fn expired(&self) -> Option<&Expired> {
        self.0.source.as_ref()?.downcast_ref()
    }

    /// What the last dial tried, of which evidence keeps the beginning only.
    fn dial_error(&self) -> Option<&DialError> {
        self.0.source.as_ref()?.downcast_ref()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0.kind {
            Kind::Invalid(message) => f.write_str(message),
            Kind::TooLarge { target, limit } => {
                write!(f, "{target}: the response is larger than {limit} bytes (max_response_size)")
            }
            Kind::Failed { target } => {
                match (self.outcome(), self.dial_error()) {
                    (Some(Outcome::NotSent(not_sent)), Some(error)) => {
                        write!(f, "{target}: not sent ({}): {error}", not_sent.phase)?;
                    }
                    _ => write!(f, "{target}: {}", self.evidence())?,
                }
                match (self.expired(), self.reason()) {
                    (Some(expired), _) => write!(f, ": {expired}")?,
                    (None, Some(reason)) => write!(f, "; {reason}")?,
                    (None, None) => {}
                }
                match self.attempts().len() {
                    0 | 1 => Ok(()),
                    n => write!(f, "; {n} attempts:\n{}", self.0.ledger),
                }
            }
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Error")
            .field("message", &self.to_string())
            .field("attempts", &self.attempts())
            .field("source", &self.0.source)
            .finish()
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.source.as_ref().map(|source| source.as_ref() as _)
    }
}

/// A response body that did not come whole. Its call was over: nothing is repeated after a response was handed on.
#[derive(Debug)]
pub struct BodyError {
    kind: BodyErrorKind,
    received: u64,
}

#[derive(Debug)]
pub(crate) enum BodyErrorKind {
    /// The stream or connection ended too early.
    Cut(BoxError),
    /// `read_idle_timeout` passed.
    Idle(Duration),
}

impl BodyError {
    pub(crate) fn new(kind: BodyErrorKind, received: u64) -> Self {
        Self { kind, received }
    }

    /// Bytes that came before.
    pub fn received(&self) -> u64 {
        self.received
    }

    /// Whether nothing came for `read_idle_timeout`, rather than the connection being cut.
    pub fn is_idle_timeout(&self) -> bool {
        matches!(self.kind, BodyErrorKind::Idle(_))
    }
}

impl fmt::Display for BodyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            BodyErrorKind::Cut(_) => write!(f, "the response was cut after {} bytes", self.received),
            BodyErrorKind::Idle(limit) => write!(
                f,
                "no byte of the response came for {limit:?} (read_idle_timeout), {} bytes before",
                self.received
            ),
        }
    }
}

impl StdError for BodyError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match &self.kind {
            BodyErrorKind::Cut(source) => Some(source.as_ref()),
            BodyErrorKind::Idle(_) => None,
        }
    }
}
