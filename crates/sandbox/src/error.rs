//! The one family of errors.

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use connectrpc::{ConnectError, ErrorCode};
use oncebox_protocol::{ErrorBody, edge};
use oncebox_transport::History;
use oncebox_transport::policy::{Edge, Ledger, Outcome, Record, ReturnReason};

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
    ledger: Option<Ledger>,
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

/// What kind of failure it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// An argument or option is wrong; nothing was sent. Or the server says so (400).
    InvalidArgument,
    /// The API key or access token is missing or refused (401, 403).
    Authentication,
    /// There is no such sandbox, file, process or template (404).
    NotFound,
    /// Something is in the way: it exists already, or changes at this moment (409).
    Conflict,
    /// Too many requests (429), after all retries.
    RateLimited,
    /// The service is busy (503), after all retries.
    Busy,
    /// The sandbox's disk is full (507).
    NotEnoughSpace,
    /// The sandbox has ended.
    SandboxNotRunning,
    /// The sandbox runs, or may run, and what was asked for does not answer.
    SandboxUnreachable,
    /// A deadline passed.
    Timeout,
    /// The request provably did nothing: it could not be sent, or was refused.
    NotDone,
    /// The request was sent, and nobody knows what it did.
    OutcomeUnknown,
    /// The connection was lost while a response was read. What it told of may go on.
    ConnectionLost,
    /// A command's output has a gap: its stream was cut, and what it wrote until it was attached to again is lost. How it
    /// ended is known: [`Error::output`].
    OutputLost,
    /// A command is gone, and nobody knows how it ended.
    CommandLost,
    /// A durable command wrote more than its spool holds, and was killed for it, as it was asked to be.
    SpoolFull,
    /// The idempotency key or the intent stands for another request.
    IntentMismatch,
    /// The sandbox was made twice, and the other one of its intent stays.
    Superseded,
    /// A template's build failed.
    BuildFailed,
    /// The server does not offer this.
    Unsupported,
    /// The server answered with another status, or with something that makes no sense.
    Server,
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, action: impl Into<String>, message: impl Into<String>) -> Self {
        Self(Arc::new(Self::inner(kind, action, message)))
    }

    /// An argument that cannot be right; refused before any I/O.
    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::InvalidArgument, "", message)
    }

    /// A call that ended without an answer.
    pub(crate) fn transport(action: &str, error: oncebox_transport::Error) -> Self {
        let kind = match error.outcome() {
            None => ErrorKind::InvalidArgument,
            Some(Outcome::TimedOut { .. }) => ErrorKind::Timeout,
            // Any attempt may have been, also one before the last.
            Some(_) if error.may_have_been_processed() => ErrorKind::OutcomeUnknown,
            Some(_) => ErrorKind::NotDone,
        };
        let mut inner = Self::inner(kind, action, error.to_string());
        inner.retry_after = error.retry_after();
        inner.ledger = Some(error.ledger().clone());
        inner.source = Some(Box::new(error));
        Self(Arc::new(inner))
    }

    /// An answer that is no success.
    pub(crate) fn answer(action: &str, status: u16, body: &[u8], history: Option<&History>) -> Self {
        let body = ErrorBody::parse(body);
        let text = readable(body.message.as_deref().unwrap_or_default());
        let kind = match edge::classify(status, &text).map(|answer| answer.edge) {
            Some(Edge::NotRunning) => ErrorKind::SandboxNotRunning,
            Some(Edge::NotDelivered) => ErrorKind::SandboxUnreachable,
            None => kind_of_status(status),
        };
        let message = match text.as_str() {
            "" => format!("the server answered {status}"),
            text => format!("the server answered {status}: {text}"),
        };
        let mut inner = Self::inner(kind, action, message);
        inner.status = Some(status);
        inner.error_code = body.error_code;
        inner.ledger = history.map(|history| history.ledger().clone());
        inner.retry_after = inner.ledger.as_ref().and_then(retry_after);
        Self(Arc::new(inner))
    }

    /// An error of a Connect RPC, or what our transport put into one.
    pub(crate) fn rpc(action: &str, error: ConnectError) -> Self {
        let mut cause: Option<&(dyn StdError + 'static)> = Some(&error);
        while let Some(current) = cause {
            if let Some(ours) = current.downcast_ref::<Self>() {
                return ours.doing(action);
            }
            if let Some(body) = current.downcast_ref::<oncebox_transport::BodyError>() {
                // A connection on which nothing comes any more is lost too.
                return Self::new(ErrorKind::ConnectionLost, action, body.to_string());
            }
            cause = current.source();
        }
        let text = readable(error.message.as_deref().unwrap_or_default());
        let kind = match edge::classify_rpc(&text).map(|answer| answer.edge) {
            Some(Edge::NotRunning) => ErrorKind::SandboxNotRunning,
            Some(Edge::NotDelivered) => ErrorKind::SandboxUnreachable,
            None => kind_of_code(error.code),
        };
        let message = match text.as_str() {
            "" => error.code.as_str().to_owned(),
            text => format!("{}: {text}", error.code.as_str()),
        };
        let mut inner = Self::inner(kind, action, message);
        inner.source = Some(Box::new(error));
        Self(Arc::new(inner))
    }

    /// An answer whose content makes no sense.
    pub(crate) fn malformed(action: &str, what: impl fmt::Display) -> Self {
        Self::new(ErrorKind::Server, action, format!("the server's answer makes no sense: {what}"))
    }

    /// Says which create this was, so that any process can find out what became of it.
    pub(crate) fn with_intent(self, intent: &str) -> Self {
        self.change(|inner| inner.intent = Some(intent.to_owned()))
    }

    /// Adds the history of a call that keeps its own.
    pub(crate) fn with_ledger(self, ledger: &Ledger) -> Self {
        self.change(|inner| inner.ledger = Some(ledger.clone()))
    }

    /// Says that it was found out that nothing was done.
    pub(crate) fn nothing_done(self, retry_after: Option<Duration>) -> Self {
        self.change(|inner| {
            inner.nothing_done = true;
            inner.retry_after = retry_after;
        })
    }

    /// Adds why it was not tried again.
    pub(crate) fn because(self, reason: ReturnReason) -> Self {
        self.change(|inner| inner.message = format!("{}; {reason}", inner.message))
    }

    /// Says what was begun although the call failed.
    pub(crate) fn begun(self) -> Self {
        self.change(|inner| inner.begun = true)
    }

    /// The same failure, as it looks once more is known.
    pub(crate) fn found(self, kind: ErrorKind, what: &str) -> Self {
        let begun = self.may_have_been_processed();
        self.change(|inner| {
            inner.kind = kind;
            inner.message = format!("{}; {what}", inner.message);
            inner.begun = begun;
        })
    }

    /// Adds what was found out besides.
    pub(crate) fn also(self, what: &str) -> Self {
        self.change(|inner| inner.message = format!("{}; {what}", inner.message))
    }

    /// The same failure in other words.
    pub(crate) fn told(self, action: &str, message: String) -> Self {
        self.change(|inner| {
            inner.action = action.to_owned();
            inner.message = message;
        })
    }

    /// The history of the call, where it has one.
    pub(crate) fn ledger(&self) -> Option<&Ledger> {
        self.0.ledger.as_ref()
    }

    /// Adds what came before the end.
    pub(crate) fn with_output(self, output: CommandOutput) -> Self {
        self.change(|inner| inner.output = Some(Box::new(output)))
    }

    /// Adds what may have been made.
    pub(crate) fn with_candidates(self, candidates: Vec<String>) -> Self {
        self.change(|inner| inner.candidates = candidates)
    }

    /// Takes out a secret that a server may have repeated in its answer.
    pub(crate) fn without(self, secret: &str) -> Self {
        if secret.is_empty() || !self.0.message.contains(secret) {
            return self;
        }
        self.change(|inner| {
            inner.message = inner.message.replace(secret, "…");
            inner.source = None;
        })
    }

    /// What went wrong, without the rest.
    pub(crate) fn message(&self) -> &str {
        &self.0.message
    }

    fn doing(&self, action: &str) -> Self {
        self.clone().change(|inner| inner.action = action.to_owned())
    }

    fn change(self, change: impl FnOnce(&mut Inner)) -> Self {
        let mut inner = match Arc::try_unwrap(self.0) {
            Ok(inner) => inner,
            Err(shared) => Inner {
                kind: shared.kind,
                action: shared.action.clone(),
                message: shared.message.clone(),
                status: shared.status,
                error_code: shared.error_code.clone(),
                ledger: shared.ledger.clone(),
                retry_after: shared.retry_after,
                intent: shared.intent.clone(),
                candidates: shared.candidates.clone(),
                nothing_done: shared.nothing_done,
                begun: shared.begun,
                output: shared.output.clone(),
                source: Some(Box::new(Self(shared))),
            },
        };
        change(&mut inner);
        Self(Arc::new(inner))
    }

    fn inner(kind: ErrorKind, action: impl Into<String>, message: impl Into<String>) -> Inner {
        Inner {
            kind,
            action: action.into(),
            message: message.into(),
            status: None,
            error_code: None,
            ledger: None,
            retry_after: None,
            intent: None,
            candidates: Vec::new(),
            nothing_done: false,
            begun: false,
            output: None,
            source: None,
        }
    }

    /// What kind of failure it is.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// What is known of the call's last attempt. `None`: nothing was tried, or the call is a stream that had begun.
    pub fn outcome(&self) -> Option<&Outcome> {
        self.attempts().last().map(|record| &record.outcome)
    }

    /// Every attempt of the call, oldest first.
    pub fn attempts(&self) -> &[Record] {
        self.0.ledger.as_ref().map_or(&[], Ledger::attempts)
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

    /// Ids of what the call may have made although nobody knows: forks, snapshots, keys, webhooks that appeared meanwhile.
    /// Empty: none was found, or it could not be looked for.
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
        let last = match self.kind() {
            ErrorKind::OutcomeUnknown | ErrorKind::ConnectionLost => true,
            ErrorKind::OutputLost | ErrorKind::CommandLost | ErrorKind::SpoolFull => true,
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
        let is_told = self.0.source.as_ref().is_some_and(|source| source.is::<oncebox_transport::Error>());
        match (&self.0.ledger, self.attempts().len()) {
            (Some(ledger), count) if !is_told && (count > 1 || (count == 1 && self.0.status.is_none())) => {
                let s = if count == 1 { "" } else { "s" };
                write!(f, "; {count} attempt{s}:\n{ledger}")
            }
            _ => Ok(()),
        }
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

fn retry_after(ledger: &Ledger) -> Option<Duration> {
    match ledger.attempts().last()?.outcome {
        Outcome::Responded(response) => response.retry_after,
        _ => None,
    }
}

/// The most of a server's own words that is shown.
const MAX_WORDS: usize = 500;

/// A server's words, of a length and in characters that do no harm on a terminal.
fn readable(text: &str) -> String {
    let mut shown = String::new();
    for c in text.chars().take(MAX_WORDS) {
        // Marks that turn the direction of writing can make a text say something else.
        let harmful =
            c.is_control() || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        if harmful { shown.extend(c.escape_default()) } else { shown.push(c) }
    }
    if text.chars().nth(MAX_WORDS).is_some() {
        shown.push('…');
    }
    shown
}

fn kind_of_status(status: u16) -> ErrorKind {
    match status {
        400 => ErrorKind::InvalidArgument,
        401 | 403 => ErrorKind::Authentication,
        404 => ErrorKind::NotFound,
        405 | 501 => ErrorKind::Unsupported,
        409 => ErrorKind::Conflict,
        429 => ErrorKind::RateLimited,
        503 => ErrorKind::Busy,
        507 => ErrorKind::NotEnoughSpace,
        _ => ErrorKind::Server,
    }
}

fn kind_of_code(code: ErrorCode) -> ErrorKind {
    match code {
        ErrorCode::InvalidArgument | ErrorCode::FailedPrecondition | ErrorCode::OutOfRange => {
            ErrorKind::InvalidArgument
        }
        ErrorCode::Unauthenticated | ErrorCode::PermissionDenied => ErrorKind::Authentication,
        ErrorCode::NotFound => ErrorKind::NotFound,
        ErrorCode::AlreadyExists | ErrorCode::Aborted => ErrorKind::Conflict,
        ErrorCode::ResourceExhausted => ErrorKind::RateLimited,
        // Somebody on the way gave the call up: no time was over.
        ErrorCode::Canceled => ErrorKind::ConnectionLost,
        ErrorCode::DeadlineExceeded => ErrorKind::Timeout,
        ErrorCode::Unavailable => ErrorKind::SandboxUnreachable,
        ErrorCode::Unimplemented => ErrorKind::Unsupported,
        _ => ErrorKind::Server,
    }
}
