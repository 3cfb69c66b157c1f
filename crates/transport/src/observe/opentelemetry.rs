//! Through OpenTelemetry.

use std::fmt;
use std::time::Duration;

use opentelemetry::KeyValue;
use opentelemetry::metrics::{Counter, Histogram, Meter, UpDownCounter};

use super::recorder::change;
use super::{Connections, Count, Recorder};

/// Records with the instruments of a meter.
pub struct OpenTelemetryRecorder {
    calls: Counter<u64>,
    attempts: Counter<u64>,
    repeats: Counter<u64>,
    in_flight: UpDownCounter<i64>,
    connections: UpDownCounter<i64>,
    waiting: UpDownCounter<i64>,
    took: Histogram<f64>,
}

impl OpenTelemetryRecorder {
    /// Makes the instruments.
    pub fn new(meter: &Meter) -> Self {
        let counter = |what: Count| meter.u64_counter(what.name()).build();
        Self {
            calls: counter(Count::Calls),
            attempts: counter(Count::Attempts),
            repeats: counter(Count::Repeats),
            in_flight: meter.i64_up_down_counter("oncebox_calls_in_flight").build(),
            connections: meter.i64_up_down_counter("oncebox_connections").build(),
            waiting: meter.i64_up_down_counter("oncebox_calls_waiting").build(),
            took: meter.f64_histogram("oncebox_call_seconds").with_unit("s").build(),
        }
    }
}

impl Recorder for OpenTelemetryRecorder {
    fn count(&self, what: Count, label: &'static str) {
        let counter = match what {
            Count::Calls => &self.calls,
            Count::Attempts => &self.attempts,
            Count::Repeats => &self.repeats,
        };
        counter.add(1, &[KeyValue::new(what.label(), label)]);
    }

    fn in_flight(&self, change: i64) {
        self.in_flight.add(change, &[]);
    }

    fn connections(&self, _: &str, before: Connections, now: Connections) {
        self.connections.add(change(before.open, now.open), &[KeyValue::new("state", "open")]);
        self.connections.add(change(before.draining, now.draining), &[KeyValue::new("state", "draining")]);
        self.waiting.add(change(before.waiting, now.waiting), &[]);
    }

    fn took(&self, time: Duration) {
        self.took.record(time.as_secs_f64(), &[]);
    }
}

impl fmt::Debug for OpenTelemetryRecorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenTelemetryRecorder").finish_non_exhaustive()
    }
}
