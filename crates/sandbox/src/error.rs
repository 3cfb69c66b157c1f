//! The one family of errors.

mod kind;
mod make;
mod masked;
pub(crate) mod values;

pub use kind::ErrorKind;

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use oncebox_transport::policy::{Numbered, Outcome, Purpose, Record};

use crate::commands::CommandOutput;

/// Any failure of this crate. Clones are cheap.
///
/// The [kind](Error::kind) says what to do; the rest is evidence: the [attempts](Error::attempts) of the call, what is
/// [known](Error::outcome) of the last one, the [status](Error::status) and the server's own words.
#[derive(Clone)]
pub struct Error(Arc<Inner>);

struct Inner {
    kind: ErrorKind,
    /// What was being done, such as "create a sandbox".
    action: String,
    /// What went wrong, in one line.
    message: String,
    status: Option<u16>,
    error_code: Option<String>,
    attempts: Vec<Record>,
    /// How many attempts were made before these.
    left_out: usize,
    /// These are the attempts of several calls: they say nothing of what failed that was not said already.
    gathered: bool,
    retry_after: Option<Duration>,
    intent: Option<String>,
    candidates: Vec<String>,
    /// It is certain that nothing was made or is left, whatever became of single attempts.
    nothing_done: bool,
    /// It was begun, whatever the kind says of what came after.
    begun: bool,
    output: Option<Box<CommandOutput>>,
    source: Option<Box<dyn StdError + Send + Sync>>,
}

impl Error {
    /// What kind of failure it is.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// What was being done, such as "create a sandbox".
    pub fn action(&self) -> &str {
        &self.0.action
    }

    /// What is known of the call's last attempt; look-ups, which only find out what became of it, are none. `None`: nothing was
    /// tried.
    pub fn outcome(&self) -> Option<&Outcome> {
        self.attempts().iter().rfind(|record| record.purpose == Purpose::Call).map(|record| &record.outcome)
    }

    /// Every attempt of the call, oldest first. Calls that belong together, such as those by which a stream is attached to
    /// again, are told as one; of more than 64 attempts the oldest are left out.
    pub fn attempts(&self) -> &[Record] {
        &self.0.attempts
    }

    /// The status of the server's answer, where there was one.
    pub fn status(&self) -> Option<u16> {
        self.0.status
    }

    /// The server's `error_code`, where it sent one.
    pub fn error_code(&self) -> Option<&str> {
        self.0.error_code.as_deref()
    }

    /// When the server would like to be asked again, where it said so.
    pub fn retry_after(&self) -> Option<Duration> {
        self.0.retry_after
    }

    /// Which create it was: 32 lower-case hex digits, kept with the sandbox as metadata `oncebox.intent`.
    pub fn intent(&self) -> Option<&str> {
        self.0.intent.as_deref()
    }

    /// Ids of what the call may have made although nobody knows: forks, snapshots, keys, webhooks that appeared meanwhile; of
    /// a template's build that failed or was lost from sight, the build's. Empty: none was found, or it could not be looked
    /// for.
    pub fn candidates(&self) -> &[String] {
        &self.0.candidates
    }

    /// What a command wrote and how it ended, where that is known although something of it was lost.
    pub fn output(&self) -> Option<&CommandOutput> {
        self.0.output.as_deref()
    }

    /// Whether the request may have had its effect although it failed. `false` is a promise.
    pub fn may_have_been_processed(&self) -> bool {
        if self.0.nothing_done {
            return false;
        }
        if self.0.begun {
            return true;
        }
        if self.0.gathered {
            return false;
        }
        let last = match self.kind() {
            ErrorKind::OutcomeUnknown | ErrorKind::ConnectionLost => true,
            ErrorKind::OutputLost | ErrorKind::CommandLost | ErrorKind::SpoolFull => true,
            ErrorKind::CommandFailed => true,
            // A server that failed, or whose answer makes no sense, has not said that it did nothing.
            ErrorKind::Server => self.status().is_none_or(|status| !(400..500).contains(&status)),
            // The server's own deadline; with a history it was this side's.
            ErrorKind::Timeout => self.attempts().is_empty(),
            _ => false,
        };
        last || self.attempts().iter().any(|record| record.outcome.is_unknown(true))
    }

    /// Whether an attempt before the last may have had its effect.
    pub(crate) fn had_unknown_attempt(&self) -> bool {
        let earlier = self.attempts().split_last().map_or(&[][..], |(_, earlier)| earlier);
        earlier.iter().any(|record| record.outcome.is_unknown(false))
    }

    /// Whether the daemon inside did not answer, so that the sandbox was not paused.
    pub fn is_guest_unresponsive(&self) -> bool {
        self.error_code() == Some(oncebox_protocol::codes::GUEST_UNRESPONSIVE)
    }

    /// Whether there is no such thing.
    pub fn is_not_found(&self) -> bool {
        self.kind() == ErrorKind::NotFound
    }

    /// Whether the server's rate limit was met; only ever after a 429.
    pub fn is_rate_limited(&self) -> bool {
        self.kind() == ErrorKind::RateLimited
    }

    /// Whether the service is busy; only ever after a 503.
    pub fn is_busy(&self) -> bool {
        self.kind() == ErrorKind::Busy
    }

    /// Whether nobody knows what the request did.
    pub fn outcome_unknown(&self) -> bool {
        self.kind() == ErrorKind::OutcomeUnknown
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.0.action.is_empty() {
            write!(f, "could not {}: ", self.0.action)?;
        }
        f.write_str(&self.0.message)?;
        if let Some(wait) = self.0.retry_after {
            write!(f, " (the server asks to wait {wait:?})")?;
        }
        if let Some(intent) = &self.0.intent {
            write!(f, " (intent {intent})")?;
        }
        if !self.candidates().is_empty() {
            write!(f, " (it may have made {})", self.candidates().join(", "))?;
        }
        // A transport error's message has the history already.
        let told = self.0.source.as_deref().and_then(|source| source.downcast_ref::<oncebox_transport::Error>());
        let told = told.map_or(0, |error| error.attempts().len());
        let (attempts, left_out) = (self.attempts(), self.0.left_out);
        if attempts.len() <= told || (attempts.len() == 1 && self.0.status.is_some()) {
            return Ok(());
        }
        let s = if attempts.len() == 1 { "" } else { "s" };
        write!(f, "; {} attempt{s}", left_out + attempts.len())?;
        if left_out > 0 {
            write!(f, ", the first {left_out} left out")?;
        }
        write!(f, ":\n{}", Numbered { records: attempts, first: left_out + 1 })
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Error")
            .field("kind", &self.0.kind)
            .field("message", &self.to_string())
            .field("status", &self.0.status)
            .field("attempts", &self.attempts())
            .finish_non_exhaustive()
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.source.as_ref().map(|source| source.as_ref() as _)
    }
}
