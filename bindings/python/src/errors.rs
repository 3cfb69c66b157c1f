//! From the SDK's error to data. Which exception it becomes is said in one place, `oncebox/_errors.py`.

use oncebox::transport::policy::{Outcome, Purpose, Record};
use oncebox::{Error, ErrorKind};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyList};

/// What an operation is about: the official classes say *what* was not found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Subject {
    Sandbox,
    File,
    Process,
    Volume,
    VolumePath,
    Secret,
    Template,
    Dockerfile,
    Build,
    Other,
}

impl Subject {
    fn name(self) -> &'static str {
        match self {
            Self::Sandbox => "sandbox",
            Self::File => "file",
            Self::Process => "process",
            Self::Volume => "volume",
            Self::VolumePath => "volume_path",
            Self::Secret => "secret",
            Self::Template => "template",
            Self::Dockerfile => "dockerfile",
            Self::Build => "build",
            Self::Other => "other",
        }
    }
}

/// A failure on its way to who takes it.
#[derive(Clone, Debug)]
pub(crate) enum Failure {
    /// The SDK's own.
    Sdk(Error),
    /// One that no call of the SDK's had.
    Plain(ErrorKind, String),
}

impl Failure {
    pub(crate) fn raise(&self, py: Python<'_>, subject: Subject) -> PyErr {
        match self {
            Self::Sdk(error) => raise(py, error, subject),
            Self::Plain(kind, message) => plain(py, *kind, message.as_str()),
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Sdk(error)
    }
}

/// The exception of a failure.
pub(crate) fn raise(py: Python<'_>, error: &Error, subject: Subject) -> PyErr {
    exception(py, data(py, error, subject))
}

/// The exception of an argument that makes no sense: nothing was sent.
pub(crate) fn invalid(py: Python<'_>, message: impl Into<String>) -> PyErr {
    plain(py, ErrorKind::InvalidArgument, message)
}

/// The exception of a failure that no call of the SDK's had.
pub(crate) fn plain(py: Python<'_>, kind: ErrorKind, message: impl Into<String>) -> PyErr {
    let message = message.into();
    let data = || {
        let data = PyDict::new(py);
        data.set_item("kind", name(kind))?;
        data.set_item("message", message)?;
        Ok(data)
    };
    exception(py, data())
}

fn exception(py: Python<'_>, data: PyResult<Bound<'_, PyDict>>) -> PyErr {
    static MAKE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let make: PyResult<_> =
        MAKE.get_or_try_init(py, || Ok(py.import("oncebox._errors")?.getattr("exception")?.unbind()));
    match data.and_then(|data| make?.bind(py).call1((data,))) {
        Ok(exception) => PyErr::from_value(exception),
        Err(error) => error,
    }
}

/// All that is known of it.
fn data<'py>(py: Python<'py>, error: &Error, subject: Subject) -> PyResult<Bound<'py, PyDict>> {
    let data = PyDict::new(py);
    data.set_item("kind", name(error.kind()))?;
    data.set_item("subject", subject.name())?;
    data.set_item("action", error.action())?;
    data.set_item("message", error.to_string())?;
    data.set_item("status_code", error.status())?;
    data.set_item("error_code", error.error_code())?;
    data.set_item("retry_after", error.retry_after().map(|wait| wait.as_secs_f64()))?;
    data.set_item("outcome", error.outcome().map(outcome))?;
    data.set_item("may_have_been_processed", error.may_have_been_processed())?;
    data.set_item("intent", error.intent())?;
    data.set_item("candidates", error.candidates())?;
    data.set_item("guest_unresponsive", error.is_guest_unresponsive())?;
    data.set_item("attempts", attempts(py, error.attempts())?)?;
    if let Some(output) = error.output() {
        data.set_item("stdout", output.stdout_text())?;
        data.set_item("stderr", output.stderr_text())?;
        data.set_item("exit_code", output.exit_code())?;
    }
    Ok(data)
}

/// A call's history, oldest first.
pub(crate) fn attempts<'py>(py: Python<'py>, records: &[Record]) -> PyResult<Bound<'py, PyList>> {
    let list = PyList::empty(py);
    for record in records {
        let attempt = PyDict::new(py);
        attempt.set_item("outcome", outcome(&record.outcome))?;
        attempt.set_item("purpose", purpose(record.purpose))?;
        attempt.set_item("started", record.started.as_secs_f64())?;
        attempt.set_item("ended", record.ended.as_secs_f64())?;
        attempt.set_item("connection", record.connection)?;
        attempt.set_item("status_code", status(&record.outcome))?;
        attempt.set_item("text", record.to_string())?;
        list.append(attempt)?;
    }
    Ok(list)
}

/// The word for what is known of an attempt.
pub(crate) fn outcome(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::NotSent(_) => "not_sent",
        Outcome::Refused(_) => "refused",
        Outcome::Responded(_) => "responded",
        Outcome::SentUnknown(_) => "sent_unknown",
        Outcome::Cancelled { .. } => "cancelled",
        Outcome::TimedOut { .. } => "timed_out",
    }
}

fn status(outcome: &Outcome) -> Option<u16> {
    match outcome {
        Outcome::Responded(response) => Some(response.status),
        _ => None,
    }
}

fn purpose(purpose: Purpose) -> &'static str {
    match purpose {
        Purpose::Call => "call",
        Purpose::LookUp => "look_up",
        Purpose::Poll => "poll",
        Purpose::Kill => "kill",
    }
}

/// The kind's own name, as Rust has it.
fn name(kind: ErrorKind) -> String {
    format!("{kind:?}")
}
