//! What a client shows of its calls: spans and a block of text for people, events for programs, numbers for dashboards.
//!
//! Nothing here holds a request's headers, query or body: those may be secret.

mod connections;
#[cfg(feature = "metrics")]
mod metrics;
#[cfg(feature = "opentelemetry")]
mod opentelemetry;
mod recorder;
mod trace_context;

pub use connections::Connections;
pub(crate) use connections::Shown;
#[cfg(feature = "metrics")]
pub use metrics::MetricsRecorder;
#[cfg(feature = "opentelemetry")]
pub use opentelemetry::OpenTelemetryRecorder;
pub use recorder::{Count, Recorder, Recording};
pub(crate) use trace_context::TraceContext;
#[cfg(feature = "fuzzing")]
pub(crate) use trace_context::parse as parse_traceparent;

use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

use http::{Method, Uri};
use oncebox_policy::{Attempt, Ledger, Record, Verdict};
use parking_lot::Mutex;
use tokio::time::Instant;
use tracing::field::Empty;
use tracing::{Span, debug_span};

use crate::error::Error;
use crate::pool::Redacted;

/// Is told what becomes of a client's calls, as it happens. It is called on the task of the call, and must not block.
///
/// ```
/// use oncebox_transport::policy::Record;
/// use oncebox_transport::{Client, Observed, Observer};
///
/// struct Print;
///
/// impl Observer for Print {
///     fn attempt_ended(&self, call: &Observed<'_>, number: usize, record: &Record) {
///         println!("{call}, attempt {number} {record}");
///     }
/// }
///
/// let client = Client::builder().observer(Print).build();
/// ```
pub trait Observer: Send + Sync + 'static {
    /// A call begins.
    fn call_started(&self, _call: &Observed<'_>) {}

    /// An attempt is over, and it was decided what follows. `number` counts from 1.
    fn attempt_ended(&self, _call: &Observed<'_>, _number: usize, _record: &Record) {}

    /// A single attempt is over that [`Client::attempt`](crate::Client::attempt) made. Whoever asked for it decides
    /// what follows; it belongs to no call that is told of. `number` counts from 1.
    fn single_attempt_ended(&self, _call: &Observed<'_>, _number: usize, _attempt: &Attempt) {}

    /// The connections to an origin are others than `before`, which is what this observer was told last, and none at
    /// first. Pools are shared: those that other clients use are among them. `origin` is scheme, host and port.
    ///
    /// It is called on whichever task brought the change, with the pool locked.
    fn connections_changed(&self, _origin: &str, _before: Connections, _now: Connections) {}

    /// A call is over, `took` after its begin.
    fn call_ended(&self, _call: &Observed<'_>, _end: CallEnd<'_>, _took: Duration) {}
}

/// A call, as far as an [`Observer`] is shown it. Its text is the method and the URL without query and credentials.
pub struct Observed<'a> {
    method: &'a Method,
    uri: &'a Uri,
}

impl Observed<'_> {
    /// The method.
    pub fn method(&self) -> &Method {
        self.method
    }

    /// The host that is asked.
    pub fn host(&self) -> &str {
        self.uri.host().unwrap_or_default()
    }

    /// The path, without the query.
    pub fn path(&self) -> &str {
        self.uri.path()
    }
}

impl fmt::Display for Observed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.method, Redacted(self.uri))
    }
}

impl fmt::Debug for Observed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// How a call ended.
#[derive(Clone, Copy, Debug)]
pub enum CallEnd<'a> {
    /// With a response, whatever its status.
    Responded(u16),
    /// Without one.
    Failed(&'a Error),
    /// Its caller gave it up.
    Dropped,
}

/// The observer of a client. Two are equal when they are the same.
#[derive(Clone)]
pub(crate) struct Hook(Arc<Told>);

/// Who is told.
struct Told {
    observer: Box<dyn Observer>,
    /// The origins whose connections it is told of.
    watching: Mutex<Vec<Weak<Shown>>>,
}

impl Drop for Told {
    fn drop(&mut self) {
        for shown in std::mem::take(self.watching.get_mut()) {
            if let Some(shown) = shown.upgrade() {
                shown.forget(self);
            }
        }
    }
}

impl Hook {
    pub(crate) fn new(observer: impl Observer) -> Self {
        Self(Arc::new(Told { observer: Box::new(observer), watching: Mutex::default() }))
    }

    pub(crate) fn single_attempt_ended(&self, method: &Method, uri: &Uri, number: usize, attempt: &Attempt) {
        self.0.observer.single_attempt_ended(&Observed { method, uri }, number, attempt);
    }

    pub(crate) fn attempt_ended(&self, method: &Method, uri: &Uri, ledger: &Ledger) {
        let attempts = ledger.attempts();
        if let Some(record) = attempts.last() {
            self.0.observer.attempt_ended(&Observed { method, uri }, attempts.len(), record);
        }
    }

    pub(crate) fn watch<'a>(&'a self, method: &'a Method, uri: &'a Uri) -> Watched<'a> {
        let call = Observed { method, uri };
        self.0.observer.call_started(&call);
        Watched { hook: self, call, started: Instant::now(), is_over: false }
    }
}

impl fmt::Debug for Hook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Observer")
    }
}

/// A call under way whose end is told, also when it is dropped.
pub(crate) struct Watched<'a> {
    hook: &'a Hook,
    call: Observed<'a>,
    started: Instant,
    is_over: bool,
}

impl Watched<'_> {
    pub(crate) fn ends(mut self, result: Result<u16, &Error>) {
        self.is_over = true;
        let end = match result {
            Ok(status) => CallEnd::Responded(status),
            Err(error) => CallEnd::Failed(error),
        };
        self.hook.0.observer.call_ended(&self.call, end, self.started.elapsed());
    }
}

impl Drop for Watched<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            self.hook.0.observer.call_ended(&self.call, CallEnd::Dropped, self.started.elapsed());
        }
    }
}

/// Whether anybody looks at spans.
pub(crate) fn is_traced() -> bool {
    tracing::enabled!(tracing::Level::DEBUG)
}

/// The span of an attempt. What it brings is filled in when it is over.
pub(crate) fn attempt_span(number: usize) -> Span {
    debug_span!("attempt", number, connection = Empty, stream = Empty, outcome = Empty, wait = Empty, reason = Empty)
}

/// The span of an attempt that is a call's only one.
pub(crate) fn single_span(target: &impl fmt::Display, number: usize) -> Span {
    debug_span!("attempt", %target, number, connection = Empty, stream = Empty, outcome = Empty)
}

/// Fills in what an attempt brought.
pub(crate) fn fill_attempt(span: &Span, attempt: &Attempt, stream: Option<u32>) {
    if let Some(connection) = attempt.connection {
        span.record("connection", connection);
    }
    if let Some(stream) = stream {
        span.record("stream", stream);
    }
    span.record("outcome", tracing::field::display(&attempt.outcome));
}

/// Fills in what follows an attempt.
pub(crate) fn fill(span: &Span, record: &Record) {
    match record.verdict {
        Verdict::Return(end) => span.record("reason", tracing::field::display(end.reason)),
        Verdict::Reconcile => span.record("reason", "to be reconciled"),
        Verdict::Retry(retry) => {
            span.record("wait", tracing::field::debug(retry.after));
            span.record("reason", tracing::field::display(retry.reason))
        }
    };
}
