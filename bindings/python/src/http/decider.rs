//! The policy alone, over a transport that is not ours.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue, Method};
use oncebox_policy::{
    Attempt, Budget, CallFacts, Cause, Ledger, NotSent, Outcome, Permit, Phase, Policy, Refusal, RequestBody, Response,
    ShortText, Tokens, Unknown, Verdict, judge, retry_after, should_retry,
};
use oncebox_protocol::Table;
use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;

use super::operations::{self, OperationTable};
use super::transport::{invalid, read_policy};
use crate::errors;

/// Decides for the calls of one transport, which share a retry budget for each origin.
#[pyclass(frozen, module = "oncebox._core")]
pub(crate) struct Decider {
    policy: Policy,
    operations: Option<(Arc<Table>, String)>,
    origins: Mutex<HashMap<String, Arc<Origin>>>,
}

/// How many origins are remembered.
const ORIGINS: usize = 256;

struct Origin {
    budget: Budget,
    /// The caller's clock when the budget was made.
    made: f64,
    dials: Dials,
}

/// How many dials of an origin have failed in a row.
#[derive(Default)]
struct Dials(Mutex<u32>);

impl Dials {
    fn failed(&self) -> u32 {
        *self.0.lock()
    }

    /// Learns from what an attempt of a round came to, and says how many dials have failed in a row, where its own was one. Those
    /// of one round count as one: the origin failed once, however many asked. Only an answer shows that it can be reached again.
    fn note(&self, outcome: &Outcome, round: u32) -> u32 {
        let mut failed = self.0.lock();
        if matches!(outcome, Outcome::Responded(_)) {
            *failed = 0;
        }
        if !matches!(outcome, Outcome::NotSent(not_sent) if not_sent.phase.is_dial()) {
            return 0;
        }
        if *failed == round {
            *failed = round.saturating_add(1);
        }
        (*failed).max(1)
    }
}

#[pymethods]
impl Decider {
    #[new]
    #[pyo3(signature = (*, policy, operations = None))]
    fn new(policy: &str, operations: Option<PyRef<'_, OperationTable>>) -> PyResult<Self> {
        let operations = operations.map(|table| table.parts());
        Ok(Self { policy: read_policy(policy)?, operations, origins: Mutex::default() })
    }

    /// A call that begins at `now`, by a clock of the caller's. `deadline` in seconds from then.
    #[pyo3(signature = (method, origin, path, headers, now, deadline))]
    fn call(
        &self,
        method: &str,
        origin: String,
        path: &str,
        headers: Vec<(PyBackedBytes, PyBackedBytes)>,
        now: f64,
        deadline: Option<f64>,
    ) -> PyResult<Judged> {
        let name = Method::from_bytes(method.as_bytes()).map_err(|_| invalid(format!("{method:?} is no method")))?;
        let headers = read_all(&headers);
        let listed = self
            .operations
            .as_ref()
            .and_then(|(table, base_path)| operations::facts(table, base_path, &name, path, &headers));
        let (permit, mints) = listed.unwrap_or((Permit::of_method(method), false));
        let deadline = deadline.map(|seconds| Duration::try_from_secs_f64(seconds).unwrap_or(Duration::ZERO));
        let facts = CallFacts { permit, mints, deadline, ..CallFacts::default() };
        let mut origins = self.origins.lock();
        if origins.len() >= ORIGINS && !origins.contains_key(&origin) {
            origins.clear();
        }
        let origin = origins
            .entry(origin)
            .or_insert_with(|| Arc::new(Origin { budget: Budget::new(), made: now, dials: Dials::default() }))
            .clone();
        let state = Mutex::new(State { facts, ledger: Ledger::new(), round: origin.dials.failed() });
        Ok(Judged { policy: self.policy.clone(), origin, began: now, state })
    }
}

/// One call, and its ledger.
#[pyclass(frozen, module = "oncebox._core")]
pub(crate) struct Judged {
    policy: Policy,
    origin: Arc<Origin>,
    began: f64,
    state: Mutex<State>,
}

struct State {
    facts: CallFacts,
    ledger: Ledger,
    /// How many dials of the origin had failed in a row when the attempt began.
    round: u32,
}

#[pymethods]
impl Judged {
    /// An attempt begins.
    fn begin(&self) {
        self.state.lock().round = self.origin.dials.failed();
    }

    /// An attempt was answered. `date_now` is the time of day in seconds since 1970. The result is how long to wait before
    /// the request is sent again; `None`: it is not.
    #[allow(clippy::too_many_arguments)] // The decision has these inputs.
    fn answered(
        &self,
        status: u16,
        headers: Vec<(PyBackedBytes, PyBackedBytes)>,
        body: &str,
        read: u64,
        limit: u64,
        started: f64,
        now: f64,
        date_now: u64,
        random: f64,
    ) -> PyResult<Option<f64>> {
        let headers = read_all(&headers);
        let value = |name: &str| headers.get(name).map(HeaderValue::as_bytes);
        let hint = value("retry-after").and_then(|hint| retry_after(hint, value("date"), date_now));
        let answer = Response {
            retry_after: hint,
            should_retry: value("should-retry").map(should_retry),
            ..Response::new(status)
        };
        self.judge(Outcome::Responded(answer), body, (read, limit), started, now, random)
    }

    /// An attempt failed. `kind` is one of those of an `HttpFailure`, or `timed_out` or `cancelled` with the call, or
    /// `timed_out_unsent`.
    #[allow(clippy::too_many_arguments)] // The decision has these inputs.
    fn failed(
        &self,
        kind: &str,
        detail: &str,
        body: &str,
        read: u64,
        limit: u64,
        started: f64,
        now: f64,
        random: f64,
    ) -> PyResult<Option<f64>> {
        let detail = ShortText::new(detail);
        let not_sent = |phase: Phase| Outcome::NotSent(NotSent { phase, touched_socket: phase.is_dial(), detail });
        let unknown = |cause: Cause| Outcome::SentUnknown(Unknown { cause, stream_id: None, detail });
        let outcome = match kind {
            "connect" | "connect_timeout" => not_sent(Phase::Connect),
            "pool_timeout" => not_sent(Phase::Slot),
            "refused" => Outcome::Refused(Refusal::RefusedStream { stream_id: 0 }),
            "read" | "write" => unknown(Cause::ConnectionLost),
            "protocol" => unknown(Cause::Protocol),
            "read_timeout" | "write_timeout" => unknown(Cause::AttemptTimeout),
            "source" => unknown(Cause::RequestBody),
            "timed_out" => Outcome::TimedOut { sent: true },
            "timed_out_unsent" => Outcome::TimedOut { sent: false },
            "cancelled" => Outcome::Cancelled { sent: true },
            other => return Err(invalid(format!("{other:?} is no kind of failure"))),
        };
        self.judge(outcome, body, (read, limit), started, now, random)
    }

    /// Every attempt of the call.
    #[getter]
    fn attempts<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        Ok(errors::attempts(py, self.state.lock().ledger.attempts())?.into_any())
    }

    /// The word for what is known of the last attempt.
    #[getter]
    fn outcome(&self) -> Option<&'static str> {
        self.state.lock().ledger.attempts().last().map(|record| errors::outcome(&record.outcome))
    }

    /// Whether any attempt may have been processed.
    #[getter]
    fn may_have_been_processed(&self) -> bool {
        self.state.lock().ledger.may_have_been_processed()
    }
}

impl Judged {
    fn judge(
        &self,
        outcome: Outcome,
        body: &str,
        (read, limit): (u64, u64),
        started: f64,
        now: f64,
        random: f64,
    ) -> PyResult<Option<f64>> {
        let since = |then: f64, now: f64| Duration::try_from_secs_f64(now - then).unwrap_or(Duration::ZERO);
        let State { facts, ledger, round } = &mut *self.state.lock();
        facts.body = match body {
            "none" => RequestBody::None,
            "bytes" => RequestBody::Bytes,
            "unread" => RequestBody::StreamUnread,
            "mirrored" => RequestBody::StreamMirrored,
            "consumed" => RequestBody::StreamConsumed { read, limit },
            other => return Err(invalid(format!("{other:?} is no kind of body"))),
        };
        let failed_dials = self.origin.dials.note(&outcome, *round);
        let attempt = Attempt { started: since(self.began, started), failed_dials, ..Attempt::new(outcome) };
        let tokens = Tokens { budget: &self.origin.budget, call_started: since(self.origin.made, self.began) };
        let verdict = judge(&self.policy, facts, ledger, Some(tokens), &attempt, since(self.began, now), random);
        Ok(match verdict {
            Verdict::Retry(retry) => Some(retry.after.as_secs_f64()),
            Verdict::Return(_) | Verdict::Reconcile => None,
        })
    }
}

/// What cannot be a header is left out: it decides nothing.
fn read_all(given: &[(PyBackedBytes, PyBackedBytes)]) -> HeaderMap {
    given
        .iter()
        .filter_map(|(name, value)| Some((HeaderName::from_bytes(name).ok()?, HeaderValue::from_bytes(value).ok()?)))
        .collect()
}
