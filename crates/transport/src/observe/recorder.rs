//! Counters and gauges of a client's calls.

use std::time::Duration;

use oncebox_policy::{Attempt, Outcome, Record, Verdict};

use super::{CallEnd, Connections, Observed, Observer};

/// What is counted. Each has a label whose values are few.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Count {
    /// Calls that are over; labelled with how they ended: `2xx`, `4xx`, …, `failed`, `dropped`.
    Calls,
    /// Attempts that are over; labelled with their outcome: `not_sent`, `refused`, `responded`, `sent_unknown`,
    /// `cancelled`, `timed_out`.
    Attempts,
    /// Requests that are sent again; labelled `replay` where they were provably not processed, else `retry`.
    Repeats,
}

impl Count {
    /// Its name, as it is exported.
    pub fn name(self) -> &'static str {
        match self {
            Self::Calls => "oncebox_calls",
            Self::Attempts => "oncebox_attempts",
            Self::Repeats => "oncebox_repeats",
        }
    }

    /// The name of its label.
    pub fn label(self) -> &'static str {
        match self {
            Self::Calls => "end",
            Self::Attempts => "outcome",
            Self::Repeats => "kind",
        }
    }
}

/// Where numbers go. [`Recording`] turns it into an [`Observer`].
pub trait Recorder: Send + Sync + 'static {
    /// Adds one.
    fn count(&self, what: Count, label: &'static str);

    /// Calls under way, by how many more or less: `oncebox_calls_in_flight`.
    fn in_flight(&self, change: i64);

    /// The connections to an origin, which are others than the `before` that was told last. Added up over all origins:
    /// `oncebox_connections`, labelled `state`: `open`, `draining`; and `oncebox_calls_waiting`. The origin, scheme,
    /// host and port, is no label there: where each sandbox has a host of its own there is no end of them.
    fn connections(&self, _origin: &str, _before: Connections, _now: Connections) {}

    /// How long a call took to its response's head, or to its end where it is read whole: `oncebox_call_seconds`.
    fn took(&self, time: Duration);
}

/// Tells a [`Recorder`] what becomes of a client's calls.
#[derive(Debug)]
pub struct Recording<R>(pub R);

impl<R: Recorder> Observer for Recording<R> {
    fn call_started(&self, _: &Observed<'_>) {
        self.0.in_flight(1);
    }

    fn attempt_ended(&self, _: &Observed<'_>, _: usize, record: &Record) {
        self.0.count(Count::Attempts, label(&record.outcome));
        if let Verdict::Retry(retry) = record.verdict {
            self.0.count(Count::Repeats, if retry.reason.is_replay() { "replay" } else { "retry" });
        }
    }

    fn single_attempt_ended(&self, _: &Observed<'_>, _: usize, attempt: &Attempt) {
        self.0.count(Count::Attempts, label(&attempt.outcome));
    }

    fn connections_changed(&self, origin: &str, before: Connections, now: Connections) {
        self.0.connections(origin, before, now);
    }

    fn call_ended(&self, _: &Observed<'_>, end: CallEnd<'_>, took: Duration) {
        let label = match end {
            CallEnd::Responded(status) => match status / 100 {
                2 => "2xx",
                3 => "3xx",
                4 => "4xx",
                _ => "5xx",
            },
            CallEnd::Failed(_) => "failed",
            CallEnd::Dropped => "dropped",
        };
        self.0.in_flight(-1);
        self.0.count(Count::Calls, label);
        self.0.took(took);
    }
}

fn label(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::NotSent(_) => "not_sent",
        Outcome::Refused(_) => "refused",
        Outcome::Responded(_) => "responded",
        Outcome::SentUnknown(_) => "sent_unknown",
        Outcome::Cancelled { .. } => "cancelled",
        Outcome::TimedOut { .. } => "timed_out",
    }
}

/// By how many more or less a gauge is to show.
#[cfg(any(feature = "metrics", feature = "opentelemetry"))]
pub(super) fn change(before: usize, now: usize) -> i64 {
    // Connections and calls are fewer than 2^63.
    now as i64 - before as i64
}
