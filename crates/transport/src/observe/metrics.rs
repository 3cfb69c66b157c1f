//! Through the `metrics` crate, to whichever exporter the program has installed.

use std::time::Duration;

use super::recorder::change;
use super::{Connections, Count, Recorder};

/// Records with the `metrics` crate's macros. What is not exported costs next to nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct MetricsRecorder;

impl Recorder for MetricsRecorder {
    fn count(&self, what: Count, label: &'static str) {
        metrics::counter!(what.name(), what.label() => label).increment(1);
    }

    fn in_flight(&self, change: i64) {
        // Small numbers: every one of them has its float.
        metrics::gauge!("oncebox_calls_in_flight").increment(change as f64);
    }

    fn connections(&self, _: &str, before: Connections, now: Connections) {
        for (state, change) in
            [("open", change(before.open, now.open)), ("draining", change(before.draining, now.draining))]
        {
            metrics::gauge!("oncebox_connections", "state" => state).increment(change as f64);
        }
        metrics::gauge!("oncebox_calls_waiting").increment(change(before.waiting, now.waiting) as f64);
    }

    fn took(&self, time: Duration) {
        metrics::histogram!("oncebox_call_seconds").record(time.as_secs_f64());
    }
}
