//! What became of a call, as JSON.

use oncebox_policy::{Outcome, Record};
use oncebox_transport::{Error, Step};
use serde::Serialize;

/// A call without a response.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Failure<'a> {
    message: &'a str,
    /// Refused before any I/O.
    invalid: bool,
    outcome: Option<&'a Outcome>,
    attempts: &'a [Record],
    may_have_been_processed: bool,
    /// Seconds.
    retry_after: Option<f64>,
    /// Why it ended.
    reason: Option<String>,
    /// What it waited for when a limit ended it.
    timed_out_in: Option<&'static str>,
}

/// Why a call ended without a response.
pub(crate) fn failure(error: &Error) -> String {
    let message = error.to_string();
    json(&Failure {
        message: &message,
        invalid: error.is_invalid(),
        outcome: error.outcome(),
        attempts: error.attempts(),
        may_have_been_processed: error.may_have_been_processed(),
        retry_after: error.retry_after().map(|after| after.as_secs_f64()),
        reason: error.reason().map(|reason| reason.to_string()),
        timed_out_in: error.timed_out_in().map(step),
    })
}

/// A call that this library itself could not make.
pub(crate) fn fault(message: &str) -> String {
    json(&Failure {
        message,
        invalid: false,
        outcome: None,
        attempts: &[],
        // Nobody knows how far it came.
        may_have_been_processed: true,
        retry_after: None,
        reason: None,
        timed_out_in: None,
    })
}

/// The attempts of a call.
pub(crate) fn attempts(records: &[Record]) -> String {
    json(records)
}

/// One attempt.
pub(crate) fn attempt(record: &Record) -> String {
    json(record)
}

fn json<T: Serialize + ?Sized>(value: &T) -> String {
    // Fails only for maps whose keys are no text, and for writers that do.
    serde_json::to_string(value).unwrap_or_default()
}

fn step(step: Step) -> &'static str {
    match step {
        Step::Dns => "dns",
        Step::Connect => "connect",
        Step::Proxy => "proxy",
        Step::Tls => "tls",
        Step::Slot => "slot",
        Step::Upload => "upload",
        Step::Head => "head",
        Step::Body => "body",
        _ => "other",
    }
}
