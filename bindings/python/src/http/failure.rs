//! A call, or a response's body, that failed: what kind of error it is in the terms of Python's HTTP libraries.

use std::error::Error as StdError;

use oncebox_policy::{Cause, Ledger, Outcome, Phase, Refusal};
use oncebox_transport::{BodyError, Error, Step};
use pyo3::prelude::*;

use crate::errors;

/// What failed. It is handed to Python as a value: there it becomes the exception of whichever library asked.
#[pyclass(frozen, module = "oncebox._core")]
#[derive(Debug)]
pub(crate) struct HttpFailure {
    /// `invalid`, `connect`, `connect_timeout`, `pool_timeout`, `write_timeout`, `read_timeout`, `write`, `read`, `protocol`,
    /// `refused` or `reset`.
    #[pyo3(get)]
    kind: &'static str,
    #[pyo3(get)]
    message: String,
    /// The HTTP/2 error code of a stream that was refused or reset.
    #[pyo3(get)]
    code: Option<u32>,
    /// `None`: the call had its answer before.
    ledger: Option<Box<Ledger>>,
}

#[pymethods]
impl HttpFailure {
    /// Every attempt of the call.
    #[getter]
    fn attempts(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        match &self.ledger {
            Some(ledger) => Ok(errors::attempts(py, ledger.attempts())?.into_any().unbind()),
            None => Ok(py.None()),
        }
    }

    /// Whether any attempt may have been processed.
    #[getter]
    fn may_have_been_processed(&self) -> bool {
        self.ledger.as_ref().is_none_or(|ledger| ledger.may_have_been_processed())
    }

    /// What is known of the last attempt.
    #[getter]
    fn outcome(&self) -> Option<&'static str> {
        self.ledger.as_ref()?.attempts().last().map(|record| errors::outcome(&record.outcome))
    }
}

impl HttpFailure {
    /// `uploads`: the call's body was still being sent when it ended.
    pub(super) fn of_call(error: &Error, uploads: bool) -> Self {
        let (kind, code) = kind(error, uploads);
        Self { kind, message: error.to_string(), code, ledger: Some(Box::new(error.ledger().clone())) }
    }

    /// A limit of the caller's passed while the response was read.
    pub(super) fn late(message: &str) -> Self {
        Self { kind: "read_timeout", message: message.to_owned(), code: None, ledger: None }
    }

    pub(super) fn of_body(error: &BodyError) -> Self {
        let kind = match error.source() {
            _ if error.is_idle_timeout() => "read_timeout",
            Some(source) if is_of_the_socket(source) => "read",
            _ => "protocol",
        };
        let message = match error.source() {
            Some(source) => format!("{error}: {source}"),
            None => error.to_string(),
        };
        Self { kind, message, code: None, ledger: None }
    }
}

/// REFUSED_STREAM (RFC 9113 §7).
const REFUSED_STREAM: u32 = 7;

/// How the options of a dial's limits end, by which an error names the one that passed.
const LIMIT_OF_A_DIAL: &str = "_timeout)";

fn kind(error: &Error, uploads: bool) -> (&'static str, Option<u32>) {
    let Some(outcome) = error.outcome() else { return ("invalid", None) };
    let kind = match outcome {
        Outcome::NotSent(not_sent) if not_sent.phase == Phase::Slot => "pool_timeout",
        Outcome::NotSent(not_sent) if not_sent.phase.is_dial() && error.to_string().contains(LIMIT_OF_A_DIAL) => {
            "connect_timeout"
        }
        Outcome::NotSent(_) => "connect",
        // A stream above GOAWAY's last id was refused as well as one that was reset.
        Outcome::Refused(Refusal::GoAway { .. } | Refusal::RefusedStream { .. }) => {
            return ("refused", Some(REFUSED_STREAM));
        }
        Outcome::SentUnknown(unknown) => match unknown.cause {
            Cause::Reset { code } => return ("reset", Some(code)),
            Cause::AttemptTimeout => "read_timeout",
            Cause::Protocol => "protocol",
            Cause::RequestBody => "write",
            Cause::ConnectionLost if uploads => "write",
            Cause::ConnectionLost | Cause::PingTimeout | Cause::Opaque => "read",
        },
        Outcome::TimedOut { .. } => match error.timed_out_in() {
            Some(Step::Dns | Step::Connect | Step::Proxy | Step::Tls) => "connect_timeout",
            Some(Step::Slot) => "pool_timeout",
            Some(Step::Upload) => "write_timeout",
            _ => "read_timeout",
        },
        Outcome::Responded(_) | Outcome::Cancelled { .. } => "read",
    };
    (kind, None)
}

/// Whether the socket failed, rather than the peer broke off what it had begun.
fn is_of_the_socket(mut error: &(dyn StdError + 'static)) -> bool {
    loop {
        if error.is::<std::io::Error>() {
            return true;
        }
        match error.source() {
            Some(source) => error = source,
            None => return false,
        }
    }
}
