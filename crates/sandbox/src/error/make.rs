//! How errors come about: from arguments, from the transport, from answers.

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use connectrpc::{ConnectError, ErrorCode};
use oncebox_protocol::{ErrorBody, edge};
use oncebox_transport::History;
use oncebox_transport::policy::{Edge, Ledger, Outcome, Record, ReturnReason};

use super::kind::{is_missing_route, kind_of_code, kind_of_status};
use super::masked::{CUT, Secret, shown};
use super::{Error, ErrorKind, Inner};
use crate::commands::CommandOutput;

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
        inner.attempts = error.attempts().to_vec();
        inner.source = Some(Box::new(error));
        Self(Arc::new(inner))
    }

    /// An answer of the control plane that is no success.
    pub(crate) fn answer(action: &str, status: u16, body: &[u8], history: Option<&History>) -> Self {
        let parsed = ErrorBody::parse(body);
        let kind =
            if is_missing_route(status, body, &parsed) { ErrorKind::Unsupported } else { kind_of_status(status) };
        Self::answered(kind, action, status, parsed, history)
    }

    /// An answer of a sandbox, or of what stands in front of it, that is no success.
    pub(crate) fn sandbox_answer(action: &str, status: u16, body: &[u8], history: Option<&History>) -> Self {
        let edge = edge::classify(status, ErrorBody::parse(body).message.as_deref().unwrap_or_default());
        let error = Self::answer(action, status, body, history);
        match edge.map(|answer| answer.edge) {
            Some(Edge::NotRunning) => error.change(|inner| inner.kind = ErrorKind::SandboxNotRunning),
            Some(Edge::NotDelivered) => error.change(|inner| inner.kind = ErrorKind::SandboxUnreachable),
            None => error,
        }
    }

    fn answered(kind: ErrorKind, action: &str, status: u16, body: ErrorBody, history: Option<&History>) -> Self {
        let text = readable(body.message.as_deref().unwrap_or_default());
        let message = match text.as_str() {
            "" => format!("the server answered {status}"),
            text => format!("the server answered {status}: {text}"),
        };
        let mut inner = Self::inner(kind, action, message);
        inner.status = Some(status);
        inner.error_code = body.error_code;
        inner.attempts = history.map(|history| history.ledger().attempts().to_vec()).unwrap_or_default();
        inner.retry_after = retry_after(&inner.attempts);
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
        // What other statuses than Connect's own become (Connect protocol, HTTP to error code): a file that was not found is
        // no sandbox that was not found.
        let from_between = matches!(error.code, ErrorCode::Unavailable | ErrorCode::Unknown);
        let edge = edge::classify_rpc(&text).filter(|_| from_between);
        let kind = match edge.map(|answer| answer.edge) {
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
        self.change(|inner| inner.attempts = ledger.attempts().to_vec())
    }

    /// Gives it the history of all calls that belong together, this one's included.
    pub(crate) fn with_history(self, attempts: Vec<Record>, left_out: usize) -> Self {
        let begun = self.may_have_been_processed();
        self.change(|inner| {
            (inner.attempts, inner.left_out, inner.gathered) = (attempts, left_out, true);
            inner.begun = begun;
        })
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

    /// The failure of a call of which an earlier request was done, or may have been: what is known of this one alone is not
    /// what is known of the call.
    pub(crate) fn partly(self) -> Self {
        if self.may_have_been_processed() {
            return self;
        }
        let error = self.also("what came before it in this call was done, or may have been");
        error.change(|inner| {
            (inner.begun, inner.nothing_done) = (true, false);
            if inner.kind == ErrorKind::NotDone {
                inner.kind = ErrorKind::OutcomeUnknown;
            }
        })
    }

    /// The same, where there was such a request.
    pub(crate) fn partly_if(self, begun: bool) -> Self {
        if begun { self.partly() } else { self }
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
        let secret = Secret::new(secret);
        let message = secret.masked(&self.0.message);
        let output = self.0.output.as_deref().and_then(|output| secret.masked_output(output));
        let error_code = self.0.error_code.as_ref().map(|code| secret.masked(code));
        let is_told = self.source().is_some_and(|source| secret.is_told(source));
        if message == self.0.message && error_code == self.0.error_code && output.is_none() && !is_told {
            return self;
        }
        self.change(|inner| {
            inner.message = message;
            inner.error_code = error_code;
            inner.output = output.map(Box::new).or(inner.output.take());
            inner.source = None;
        })
    }

    /// Takes out values that may be secret, such as those of variables. What is short is no secret, but a word.
    pub(crate) fn without_values<'v>(self, values: impl IntoIterator<Item = &'v str>) -> Self {
        values.into_iter().filter(|value| value.len() >= SHORTEST_VALUE).fold(self, Self::without)
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
                attempts: shared.attempts.clone(),
                left_out: shared.left_out,
                gathered: shared.gathered,
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
            attempts: Vec::new(),
            left_out: 0,
            gathered: false,
            retry_after: None,
            intent: None,
            candidates: Vec::new(),
            nothing_done: false,
            begun: false,
            output: None,
            source: None,
        }
    }
}

fn retry_after(attempts: &[Record]) -> Option<Duration> {
    match attempts.last()?.outcome {
        Outcome::Responded(response) => response.retry_after,
        _ => None,
    }
}

/// Values from so many bytes on are taken for secrets.
const SHORTEST_VALUE: usize = 8;

/// The most of a server's own words that is shown.
const MAX_WORDS: usize = 500;

/// A server's words, of a length and in characters that do no harm on a terminal.
fn readable(text: &str) -> String {
    let mut words: String = text.chars().take(MAX_WORDS).flat_map(shown).collect();
    if text.chars().nth(MAX_WORDS).is_some() {
        words.push(CUT);
    }
    words
}
