//! What became of the requests, counted.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::time::Duration;

use bytes::Bytes;
use hdrhistogram::Histogram;
use oncebox_transport::policy::{Ledger, Outcome, Refusal, ResponseBody, Verdict};
use oncebox_transport::{Error, Response};
use serde_json::json;

/// Different error texts that are kept; further ones are counted together.
const MAX_TEXTS: usize = 100;

/// The longest latency that is told apart: an hour, in microseconds.
const MAX_LATENCY: u64 = 3_600_000_000;

/// The bars of the histogram are at most this long.
const BAR: u64 = 40;

pub(super) struct Tally {
    ok: u64,
    failed: u64,
    unknown: u64,
    attempts: u64,
    replays: u64,
    retries: u64,
    connections: BTreeSet<u64>,
    latencies: Histogram<u64>,
    errors: BTreeMap<String, u64>,
}

impl Default for Tally {
    fn default() -> Self {
        // Three digits up to an hour: these bounds are always good ones.
        let latencies = Histogram::new_with_bounds(1, MAX_LATENCY, 3).unwrap_or_else(|_| unreachable!());
        Self {
            ok: 0,
            failed: 0,
            unknown: 0,
            attempts: 0,
            replays: 0,
            retries: 0,
            connections: BTreeSet::new(),
            latencies,
            errors: BTreeMap::new(),
        }
    }
}

impl Tally {
    pub(super) fn take(&mut self, result: &Result<Response<Bytes>, Error>, latency: Duration) {
        self.latencies.saturating_record(u64::try_from(latency.as_micros()).unwrap_or(MAX_LATENCY).max(1));
        let ledger = match result {
            Ok(response) => response.history().ledger(),
            Err(error) => error.ledger(),
        };
        self.history(ledger);
        let outcome = ledger.attempts().last().map(|record| record.outcome);
        match (result, outcome) {
            (Ok(response), _) if response.status().as_u16() < 400 => {
                self.ok += 1;
                return;
            }
            (_, Some(outcome)) if outcome.is_unknown(false) => self.unknown += 1,
            (Err(error), _) if error.may_have_been_processed() => self.unknown += 1,
            _ => self.failed += 1,
        }
        let text = match outcome {
            Some(outcome) => kind(&outcome),
            None => result.as_ref().err().map(ToString::to_string).unwrap_or_default(),
        };
        self.count(text, 1);
    }

    fn history(&mut self, ledger: &Ledger) {
        self.attempts += u64::from(ledger.counted_attempts());
        for record in ledger.attempts() {
            self.connections.extend(record.connection);
            if let Verdict::Retry(retry) = record.verdict {
                if retry.reason.is_replay() {
                    self.replays += 1;
                } else {
                    self.retries += 1;
                }
            }
        }
    }

    fn count(&mut self, text: String, times: u64) {
        let known = self.errors.contains_key(&text) || self.errors.len() < MAX_TEXTS;
        *self.errors.entry(if known { text } else { "others".to_owned() }).or_default() += times;
    }

    pub(super) fn add(&mut self, other: Self) {
        self.ok += other.ok;
        self.failed += other.failed;
        self.unknown += other.unknown;
        self.attempts += other.attempts;
        self.replays += other.replays;
        self.retries += other.retries;
        self.connections.extend(other.connections);
        // Both have the same bounds.
        let _ = self.latencies.add(&other.latencies);
        for (text, times) in other.errors {
            self.count(text, times);
        }
    }

    pub(super) fn all_ok(&self) -> bool {
        self.failed == 0 && self.unknown == 0
    }

    pub(super) fn json(&self, elapsed: Duration) -> serde_json::Value {
        json!({
            "ok": self.ok,
            "failed": self.failed,
            "unknown": self.unknown,
            "attempts": self.attempts,
            "replays": self.replays,
            "retries": self.retries,
            "connections": self.connections.len(),
            "seconds": elapsed.as_secs_f64(),
            "latency_us": {"p50": self.latencies.value_at_quantile(0.5), "p99": self.latencies.value_at_quantile(0.99)},
            "errors": self.errors,
        })
    }

    pub(super) fn text(&self, elapsed: Duration) -> String {
        let mut out = String::new();
        let total = self.ok + self.failed + self.unknown;
        let rate = total as f64 / elapsed.as_secs_f64().max(1e-9);
        // Writing to a string cannot fail.
        let requests = if total == 1 { "request" } else { "requests" };
        let _ = writeln!(out, "{total} {requests} in {:.3} s, {rate:.0} a second", elapsed.as_secs_f64());
        let _ = writeln!(out);
        for (name, value) in [
            ("ok", self.ok),
            ("failed", self.failed),
            ("unknown", self.unknown),
            ("attempts", self.attempts),
            ("replays", self.replays),
            ("retries", self.retries),
            ("connections", self.connections.len() as u64),
        ] {
            let _ = writeln!(out, "  {name:<12} {value:>10}");
        }
        let _ = writeln!(out, "\nlatency, up to");
        let most = self.buckets().map(|(_, count)| count).max().unwrap_or(1).max(1);
        for (limit, count) in self.buckets().filter(|(_, count)| *count > 0) {
            let bar = "#".repeat((count * BAR).div_ceil(most) as usize);
            let _ = writeln!(out, "  {:>12} {count:>10} {bar}", format!("{:?}", Duration::from_micros(limit)));
        }
        for (name, quantile) in [("p50", 0.5), ("p90", 0.9), ("p99", 0.99)] {
            let value = Duration::from_micros(self.latencies.value_at_quantile(quantile));
            let _ = writeln!(out, "  {name:<12} {:>10}", format!("{value:?}"));
        }
        if !self.errors.is_empty() {
            let _ = writeln!(out, "\nwhat went wrong");
            for (text, times) in &self.errors {
                let _ = writeln!(out, "  {times:>10}  {text}");
            }
        }
        out
    }

    /// Each twice as wide as the one before.
    fn buckets(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.latencies.iter_log(64, 2.0).map(|step| (step.value_iterated_to() + 1, step.count_since_last_iteration()))
    }
}

/// What an outcome is, without the numbers that make each one different.
fn kind(outcome: &Outcome) -> String {
    match outcome {
        Outcome::NotSent(not_sent) => format!("not sent ({})", not_sent.phase),
        Outcome::Refused(Refusal::GoAway { .. }) => "stream refused by GOAWAY".to_owned(),
        Outcome::Refused(Refusal::RefusedStream { .. }) => "stream refused: REFUSED_STREAM".to_owned(),
        Outcome::SentUnknown(unknown) => format!("sent, outcome unknown: {}", unknown.cause),
        Outcome::Responded(response) if response.body == ResponseBody::Broken => {
            format!("answered {}, the body was cut", response.status)
        }
        outcome => outcome.to_string(),
    }
}
