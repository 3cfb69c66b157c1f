//! What an error thrown by JavaScript's `fetch` proves.
//!
//! `fetch` says little of why it failed, and each runtime says it otherwise. `spec/runtime-errors.json` lists what is known, and
//! the JavaScript front reads that same file; this is its classifier in Rust, which the vectors of
//! `conformance/runtime-errors` are first tried on.
//!
//! ```
//! use oncebox_policy::Phase;
//! use oncebox_protocol::runtime_errors::{Outcome, RuntimeError, classify};
//!
//! let error: RuntimeError = serde_json::from_str(
//!     r#"{"name": "TypeError", "message": "fetch failed", "cause": {"code": "ECONNREFUSED", "syscall": "connect"}}"#,
//! )?;
//! assert_eq!(classify(&error), Outcome::NotSent { phase: Phase::Connect });
//! # Ok::<(), serde_json::Error>(())
//! ```

use oncebox_policy::Phase;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

#[path = "generated/runtime_errors.rs"]
mod rows;

pub use rows::ROWS;

/// How many errors a chain of causes may have before it is no longer followed.
pub const CHAIN_LIMIT: usize = 8;

/// What an error proves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// The caller aborted.
    Cancelled,
    /// What was thrown is no error, and goes to the caller as it is.
    Rethrown,
    /// Nothing was written.
    NotSent {
        /// Where it ended.
        phase: Phase,
    },
    /// The server says that it did not process the request.
    Refused,
    /// Nothing is proven.
    SentUnknown,
}

/// One shape of an error. Every part that is given must hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Row {
    /// Its name in the table.
    pub id: &'static str,
    /// The error's name.
    pub name: Option<&'static str>,
    /// The error's message.
    pub message: Option<&'static str>,
    /// A part of the error's message.
    pub message_contains: Option<&'static str>,
    /// The error's code.
    pub code: Option<&'static str>,
    /// The system call that failed.
    pub syscall: Option<&'static str>,
    /// What it proves.
    pub outcome: Outcome,
}

impl Row {
    /// Whether an error has this shape, its causes aside.
    pub fn matches(&self, error: &RuntimeError) -> bool {
        let is =
            |wanted: Option<&str>, found: &Option<String>| wanted.is_none_or(|wanted| found.as_deref() == Some(wanted));
        let message = error.message.as_deref().unwrap_or_default();
        is(self.name, &error.name)
            && is(self.message, &error.message)
            && is(self.code, &error.code)
            && is(self.syscall, &error.syscall)
            && self.message_contains.is_none_or(|part| message.contains(part))
    }
}

/// An error as it was thrown. Properties of another type than these count as absent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RuntimeError {
    /// `name`
    pub name: Option<String>,
    /// `message`
    pub message: Option<String>,
    /// `code`, where it is text; a DOMException's is a number.
    pub code: Option<String>,
    /// `syscall`
    pub syscall: Option<String>,
    /// `cause`, where it is an error.
    pub cause: Option<Box<Self>>,
    /// `errors`, which an AggregateError has; its members that are no errors are empty ones.
    pub errors: Option<Vec<Self>>,
}

impl RuntimeError {
    fn from_value(value: &Value) -> Self {
        let text = |key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
        Self {
            name: text("name"),
            message: text("message"),
            code: text("code"),
            syscall: text("syscall"),
            cause: value.get("cause").filter(|cause| cause.is_object()).map(|cause| Box::new(Self::from_value(cause))),
            errors: value
                .get("errors")
                .and_then(Value::as_array)
                .map(|errors| errors.iter().map(Self::from_value).collect()),
        }
    }
}

impl<'de> Deserialize<'de> for RuntimeError {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Value::deserialize(deserializer).map(|value| Self::from_value(&value))
    }
}

/// What was thrown proves, given whether the call's signal is aborted.
pub fn classify_thrown(aborted: bool, thrown: &Value) -> Outcome {
    match thrown {
        _ if aborted => Outcome::Cancelled,
        Value::Object(_) => classify(&RuntimeError::from_value(thrown)),
        _ => Outcome::Rethrown,
    }
}

/// What an error proves: [`NotSent`](Outcome::NotSent), [`Refused`](Outcome::Refused) or
/// [`SentUnknown`](Outcome::SentUnknown).
pub fn classify(error: &RuntimeError) -> Outcome {
    let mut best = None;
    let mut link = Some(error);
    for _ in 0..CHAIN_LIMIT {
        let Some(error) = link else {
            return best.unwrap_or(Outcome::SentUnknown);
        };
        if let Some(members) = &error.errors {
            return stronger(best, Some(aggregate(members))).unwrap_or(Outcome::SentUnknown);
        }
        for row in ROWS.iter().filter(|row| row.matches(error)) {
            best = stronger(best, Some(row.outcome));
        }
        link = error.cause.as_deref();
    }
    match link {
        None => best.unwrap_or(Outcome::SentUnknown),
        Some(_) => Outcome::SentUnknown,
    }
}

/// Several attempts that failed together, as to the addresses of one host.
fn aggregate(members: &[RuntimeError]) -> Outcome {
    let mut outcome = Outcome::SentUnknown;
    for member in members {
        outcome = classify(member);
        if !matches!(outcome, Outcome::NotSent { .. }) {
            return Outcome::SentUnknown;
        }
    }
    outcome
}

/// One sign that something was written outweighs any that nothing was. Of two equally strong, the first.
fn stronger(one: Option<Outcome>, other: Option<Outcome>) -> Option<Outcome> {
    let weight = |outcome: Option<Outcome>| match outcome {
        None => 0,
        Some(Outcome::NotSent { .. }) => 1,
        Some(Outcome::Refused) => 2,
        Some(Outcome::SentUnknown | Outcome::Cancelled | Outcome::Rethrown) => 3,
    };
    if weight(other) > weight(one) { other } else { one }
}
