//! One attempt: a stream or a connection is had, the request is sent, and as much of the response is read as belongs to
//! the attempt.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::header::{DATE, HeaderName, RETRY_AFTER};
use http::{HeaderMap, HeaderValue};
use http_body::Body as _;
use oncebox_policy::{Attempt, Outcome};

use super::head::Head;
use super::take::{Take, TooLarge};
use crate::body::{BoxError, Replay};
use crate::conn::{Exchange, Failure};
use crate::observe::TraceContext;
use crate::options::HttpVersion;
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

/// An attempt: under way, and then over.
///
/// Its states are written out: what an `async` block holds at one `await` has its own room beside what it holds at the
/// next, and of calls under way there are thousands, each copied until it is where it stays. What came of it stays here
/// too, since each of the futures around would hand it on by another copy.
pub(super) struct Making<'a, T: Take> {
    origin: &'a Origin,
    parts: Parts<'a, T>,
    /// Until it begins.
    headers: Option<&'a mut HeaderMap>,
    progress: &'a Progress,
    wanted: Wanted,
    state: State<'a, T>,
}

enum State<'a, T: Take> {
    New,
    /// Sent on a stream that was free at once.
    Sent {
        id: u64,
        exchange: Exchange,
    },
    /// Waits for a stream or a connection first. In a box, since it is much larger.
    Waits(Pin<Box<dyn Future<Output = Attempted> + Send + 'a>>),
    /// The response has begun.
    Reads(Answered<T>),
    Over(Ended<T::Body>),
}

/// A response that is being read.
struct Answered<T: Take> {
    facts: oncebox_policy::Response,
    head: Option<http::response::Parts>,
    at: At,
    reading: T::Reading,
}

impl<'a, T: Take> Making<'a, T> {
    #[inline]
    pub(super) fn new(
        origin: &'a Origin,
        parts: Parts<'a, T>,
        wanted: Wanted,
        headers: &'a mut HeaderMap,
        progress: &'a Progress,
    ) -> Self {
        Self { origin, parts, headers: Some(headers), progress, wanted, state: State::New }
    }

    /// What came of it; `None` while it is under way.
    pub(super) fn ended(&mut self) -> Option<&mut Ended<T::Body>> {
        match &mut self.state {
            State::Over(ended) => Some(ended),
            _ => None,
        }
    }

    /// The same, for those who go on without it.
    pub(super) fn into_ended(self) -> Option<Ended<T::Body>> {
        match self.state {
            State::Over(ended) => Some(ended),
            _ => None,
        }
    }

    /// Gives it up at a limit: its stream is free from here on.
    pub(super) fn cut_off(&mut self, outcome: Outcome, source: Option<BoxError>) {
        let attempt = Attempt { connection: self.progress.connection(), ..Attempt::new(outcome) };
        self.state = State::Over(Ended { attempt, answer: None, source });
    }

    fn begin(&mut self, headers: &'a mut HeaderMap) {
        let &Parts { version, head, trace, number, body, .. } = &self.parts;
        let mut request = move |version| {
            let body = body.attempt();
            let mut request = head.request(version, number, headers, body.size_hint().exact());
            if let Some(trace) = trace {
                trace.set(request.headers_mut());
            }
            (request, body)
        };
        match self.origin.begin(version, &mut request, self.wanted, self.progress) {
            Some(Began { id, exchange: Ok(exchange) }) => self.state = State::Sent { id, exchange },
            Some(Began { id, exchange: Err(failure) }) => {
                self.answered(self.origin.attempted(self.wanted.class, id, Err(failure)));
            }
            None => {
                let waits = self.origin.attempt(version, request, self.wanted, self.progress);
                self.state = State::Waits(Box::pin(waits));
            }
        }
    }

    /// The attempt is over, or its response is still to be read.
    fn answered(&mut self, attempted: Attempted) {
        let Attempted { connection, result, failed_dials, other_connection } = attempted;
        let at = At { connection, failed_dials, other_connection };
        self.state = match result {
            Ok(response) => {
                let facts = response_facts(response.status().as_u16(), response.headers());
                let (head, mut body) = response.into_parts();
                body.set_read_idle_timeout(self.parts.read_idle_timeout);
                self.progress.reads_body();
                State::Reads(Answered { facts, head: Some(head), at, reading: self.parts.take.take(body) })
            }
            Err(Failure { outcome, source }) => {
                State::Over(Ended { attempt: at.attempt(outcome), answer: None, source: Some(source) })
            }
        };
    }
}

/// Nothing in it is pinned: what is polled is `Unpin` by itself.
impl<T: Take> Unpin for Making<'_, T> {}

impl<T: Take> Future for Making<'_, T> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        if let Some(headers) = this.headers.take() {
            this.begin(headers);
        }
        loop {
            let attempted = match &mut this.state {
                State::Sent { id, exchange } => {
                    let result = ready!(Pin::new(exchange).poll(cx));
                    this.origin.attempted(this.wanted.class, *id, result)
                }
                State::Waits(waits) => ready!(waits.as_mut().poll(cx)),
                State::Reads(answered) => {
                    let read = ready!(Pin::new(&mut answered.reading).poll(cx));
                    this.state = State::Over(answered.ended(read));
                    return Poll::Ready(());
                }
                State::New | State::Over(_) => return Poll::Ready(()),
            };
            this.answered(attempted);
        }
    }
}

impl<T: Take> Answered<T> {
    fn ended(&mut self, read: Result<T::Body, BoxError>) -> Ended<T::Body> {
        let (answer, source) = match read {
            Ok(body) => (self.head.take().map(|head| http::Response::from_parts(head, body)), None),
            Err(error) => {
                if error.is::<TooLarge>() {
                    // It is complete as far as the server is concerned: asking again would change nothing.
                    self.facts = oncebox_policy::Response::new(self.facts.status);
                } else {
                    self.facts.body = oncebox_policy::ResponseBody::Broken;
                }
                (None, Some(error))
            }
        };
        Ended { attempt: self.at.attempt(Outcome::Responded(self.facts)), answer, source }
    }
}

/// An attempt that is over.
pub(crate) struct Ended<B> {
    pub(crate) attempt: Attempt,
    pub(crate) answer: Option<http::Response<B>>,
    pub(crate) source: Option<BoxError>,
}

/// Where an attempt took place.
struct At {
    connection: Option<u64>,
    other_connection: bool,
    failed_dials: u32,
}

impl At {
    fn attempt(&self, outcome: Outcome) -> Attempt {
        let Self { connection, other_connection, failed_dials } = *self;
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
