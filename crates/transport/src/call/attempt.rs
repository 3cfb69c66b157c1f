//! One attempt: a stream or a connection is had, the request is sent, and as much of the response is read as belongs to
//! the attempt.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::header::{DATE, HeaderName, RETRY_AFTER};
use http::{HeaderMap, HeaderValue};
use oncebox_policy::{Attempt, Outcome};
use tracing::Span;

use super::head::Head;
use super::take::{Take, TooLarge};
use crate::body::{BoxError, Replay};
use crate::conn::{Exchange, Failure};
use crate::observe::TraceContext;
use crate::options::{HttpVersion, TrafficClass};
use crate::pool::{Attempted, Began, Origin, Progress, Wanted};

static SHOULD_RETRY: HeaderName = HeaderName::from_static("should-retry");

/// What an attempt is made of.
pub(super) struct Parts<'a, T> {
    pub(super) version: HttpVersion,
    pub(super) head: &'a Head,
    pub(super) trace: Option<&'a TraceContext>,
    pub(super) number: usize,
    pub(super) body: &'a Replay,
    pub(super) take: &'a T,
    pub(super) read_idle_timeout: Option<Duration>,
}

/// An attempt under way.
///
/// Its states are written out: what an `async` block holds at one `await` has its own room beside what it holds at the
/// next, and of calls under way there are thousands, each copied until it is where it stays.
pub(super) struct Making<'a, T: Take> {
    origin: &'a Origin,
    parts: Parts<'a, T>,
    progress: &'a Progress,
    class: TrafficClass,
    state: State<'a, T>,
}

enum State<'a, T: Take> {
    /// Sent on a stream that was free at once.
    Sent {
        id: u64,
        exchange: Exchange,
    },
    /// Over before it was sent.
    NotSent(Option<(u64, Failure)>),
    /// Waits for a stream or a connection first. In a box, since it is much larger.
    Waits(Pin<Box<dyn Future<Output = Attempted> + Send + 'a>>),
    /// The response has begun.
    Reads(Answered<T>),
    Over,
}

impl<'a, T: Take> Making<'a, T> {
    pub(super) fn new(
        origin: &'a Origin,
        parts: Parts<'a, T>,
        wanted: Wanted,
        headers: &'a mut HeaderMap,
        progress: &'a Progress,
    ) -> Self {
        let Parts { version, head, trace, number, body, .. } = parts;
        let mut request = move |version| {
            let mut request = head.request(version, number, headers, body.attempt());
            if let Some(trace) = trace {
                trace.set(request.headers_mut());
            }
            request
        };
        let state = match origin.begin(version, &mut request, wanted, progress) {
            Some(Began { id, exchange: Ok(exchange) }) => State::Sent { id, exchange },
            Some(Began { id, exchange: Err(failure) }) => State::NotSent(Some((id, failure))),
            None => State::Waits(Box::pin(origin.attempt(version, request, wanted, progress))),
        };
        Self { origin, parts, progress, class: wanted.class, state }
    }

    /// Whether the attempt is over, or its response is still to be read.
    fn answered(&mut self, attempted: Attempted) -> Option<Ended<T::Body>> {
        let Attempted { connection, result, failed_dials, other_connection } = attempted;
        let at = At { connection, failed_dials, other_connection };
        match result {
            Ok(response) => {
                let facts = response_facts(response.status().as_u16(), response.headers());
                let (head, mut body) = response.into_parts();
                body.set_read_idle_timeout(self.parts.read_idle_timeout);
                self.progress.reads_body();
                self.state = State::Reads(Answered { facts, head, at, reading: self.parts.take.take(body) });
                None
            }
            Err(Failure { outcome, source }) => {
                Some(Ended { attempt: at.attempt(outcome), answer: None, source: Some(source), span: None })
            }
        }
    }
}

impl<T: Take> Future for Making<'_, T> {
    type Output = Ended<T::Body>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        loop {
            let attempted = match &mut this.state {
                State::Sent { id, exchange } => {
                    let result = ready!(Pin::new(exchange).poll(cx));
                    this.origin.attempted(this.class, *id, result)
                }
                State::NotSent(failed) => match failed.take() {
                    Some((id, failure)) => this.origin.attempted(this.class, id, Err(failure)),
                    None => return Poll::Pending,
                },
                State::Waits(waits) => ready!(waits.as_mut().poll(cx)),
                State::Reads(answered) => {
                    let read = ready!(Pin::new(&mut answered.reading).poll(cx));
                    return Poll::Ready(match std::mem::replace(&mut this.state, State::Over) {
                        State::Reads(answered) => answered.ended(read),
                        _ => return Poll::Pending,
                    });
                }
                // It was told already.
                State::Over => return Poll::Pending,
            };
            if let Some(ended) = this.answered(attempted) {
                this.state = State::Over;
                return Poll::Ready(ended);
            }
        }
    }
}

/// An attempt whose response has begun.
struct Answered<T: Take> {
    facts: oncebox_policy::Response,
    head: http::response::Parts,
    at: At,
    reading: T::Reading,
}

impl<T: Take> Answered<T> {
    fn ended(self, read: Result<T::Body, BoxError>) -> Ended<T::Body> {
        let Self { mut facts, head, at, .. } = self;
        let (answer, source) = match read {
            Ok(body) => (Some(http::Response::from_parts(head, body)), None),
            Err(error) => {
                if error.is::<TooLarge>() {
                    // It is complete as far as the server is concerned: asking again would change nothing.
                    facts = oncebox_policy::Response::new(facts.status);
                } else {
                    facts.body = oncebox_policy::ResponseBody::Broken;
                }
                (None, Some(error))
            }
        };
        Ended { attempt: at.attempt(Outcome::Responded(facts)), answer, source, span: None }
    }
}

/// An attempt that is over.
pub(crate) struct Ended<B> {
    pub(crate) attempt: Attempt,
    pub(crate) answer: Option<http::Response<B>>,
    pub(crate) source: Option<BoxError>,
    /// Where somebody looks at it.
    pub(super) span: Option<Box<Span>>,
}

/// Where an attempt took place.
struct At {
    connection: Option<u64>,
    other_connection: bool,
    failed_dials: u32,
}

impl At {
    fn attempt(self, outcome: Outcome) -> Attempt {
        let Self { connection, other_connection, failed_dials } = self;
        Attempt { connection, other_connection, failed_dials, ..Attempt::new(outcome) }
    }
}

/// What decisions rest on in a response's head.
fn response_facts(status: u16, headers: &HeaderMap) -> oncebox_policy::Response {
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
    let header = |name: &HeaderName| headers.get(name).map(HeaderValue::as_bytes);
    let mut facts = oncebox_policy::Response::new(status);
    // Below that nothing is asked for again, whatever the server says.
    if status >= 400 {
        facts.retry_after =
            header(&RETRY_AFTER).and_then(|value| oncebox_policy::retry_after(value, header(&DATE), now()));
        facts.should_retry = header(&SHOULD_RETRY).map(oncebox_policy::should_retry);
    }
    facts
}
