//! One attempt: a stream or a connection is had, the request is sent, and as much of the response is read as belongs to
//! the attempt.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};
use std::time::{SystemTime, UNIX_EPOCH};

use http::header::{DATE, HeaderName, RETRY_AFTER};
use http::{HeaderMap, HeaderValue};
use http_body::Body as _;
use oncebox_policy::{Attempt, Outcome, Reading};
use tokio::time::Instant;

use super::Running;
use super::peek::{Peek, Peeked};
use super::take::{Take, TooLarge};
use crate::body::{BoxError, ResponseBody};
use crate::conn::{Exchange, Failure, H2Response};
use crate::pool::{Answer, Began, Failed, Progress, Wanted};

static SHOULD_RETRY: HeaderName = HeaderName::from_static("should-retry");

/// An attempt: under way, and then over.
///
/// Its states are written out: what an `async` block holds at one `await` has its own room beside what it holds at the
/// next, and of calls under way there are thousands, each copied until it is where it stays. What came of it stays here
/// too, since each of the futures around would hand it on by another copy.
pub(super) struct Making<'a, T: Take> {
    running: &'a Running<'a, T>,
    /// From 1.
    number: usize,
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
    Waits(Pin<Box<dyn Future<Output = Result<Answer, Failed>> + Send + 'a>>),
    /// The response has begun, and its body is looked at. In a box, since few are.
    Peeks(Box<Peeks>),
    /// The response has begun.
    Reads(Answered<T>),
    Over(Ended<T::Body>),
}

/// A response that is being looked at.
struct Peeks {
    facts: oncebox_policy::Response,
    connection: Option<u64>,
    peek: Peek,
}

/// A response that is being read.
struct Answered<T: Take> {
    facts: oncebox_policy::Response,
    head: Option<http::response::Parts>,
    connection: Option<u64>,
    reading: T::Reading,
}

impl<'a, T: Take> Making<'a, T> {
    #[inline]
    pub(super) fn new(
        running: &'a Running<'a, T>,
        number: usize,
        wanted: Wanted,
        headers: &'a mut HeaderMap,
        progress: &'a Progress,
    ) -> Self {
        Self { running, number, headers: Some(headers), progress, wanted, state: State::New }
    }

    /// Whether it is its call's first, and begins with it.
    pub(super) fn is_first(&self) -> bool {
        self.number == 1
    }

    /// Whether it waits for a response's head on a connection that wakes this waker before a deadline, which was far
    /// away when it was given first.
    pub(super) fn is_woken_before(&mut self, deadline: Instant, waker: &Waker) -> bool {
        match &mut self.state {
            State::Sent { exchange, .. } => exchange.is_woken_before(deadline, waker),
            _ => false,
        }
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
        let Running { call, origin, .. } = self.running;
        let number = self.number;
        let mut request = move |version, request: &mut http::Request<()>| {
            let body = call.body.attempt();
            call.head.fill(request, version, number, headers, body.size_hint().exact());
            if let Some(trace) = &call.trace {
                trace.set(request.headers_mut());
            }
            body
        };
        let version = call.options.version(call.client.version());
        match origin.begin(version, &mut request, self.wanted, self.progress) {
            Some(Began { id, exchange: Ok(exchange) }) => self.state = State::Sent { id, exchange },
            Some(Began { id, exchange: Err(failure) }) => self.sent_failed(id, failure),
            None => {
                let waits = origin.attempt(version, request, self.wanted, self.progress);
                self.state = State::Waits(Box::pin(waits));
            }
        }
    }

    /// What was sent at once is answered, or is not.
    fn sent_ended(&mut self, id: u64, result: Result<H2Response, Failure>) {
        match result {
            Ok(response) => self.reads(Some(id), response.into_response()),
            Err(failure) => self.sent_failed(id, failure),
        }
    }

    #[cold]
    fn sent_failed(&mut self, id: u64, failure: Failure) {
        self.failed(self.running.origin.failed(self.wanted.class, id, failure));
    }

    /// The response has begun.
    fn reads(&mut self, connection: Option<u64>, response: http::Response<ResponseBody>) {
        let call = self.running.call;
        let (head, mut body) = response.into_parts();
        let facts = response_facts(head.status.as_u16(), &head.headers);
        body.set_read_idle_timeout(call.options.read_idle_timeout);
        self.progress.reads_body();
        let reading = match call.options.answer_reader {
            None => Reading::Nothing,
            Some(reader) => match reader(&head, &[], false) {
                Reading::More => {
                    let peek = Peek::new(reader, head, body);
                    self.state = State::Peeks(Box::new(Peeks { facts, connection, peek }));
                    return;
                }
                reading => reading,
            },
        };
        self.read(facts, connection, Peeked { head, body, reading });
    }

    /// The head, or the begin of the body, said what it had to say.
    fn read(&mut self, mut facts: oncebox_policy::Response, connection: Option<u64>, peeked: Peeked) {
        let Peeked { head, body, reading } = peeked;
        match reading {
            Reading::More | Reading::Nothing => {}
            Reading::Edge(edge) => facts.edge = Some(edge),
            Reading::Like(status) => facts.status = status,
        }
        let reading = self.running.call.take.take(body);
        self.state = State::Reads(Answered { facts, head: Some(head), connection, reading });
    }

    #[cold]
    fn failed(&mut self, failed: Failed) {
        let Failed { connection, failure: Failure { outcome, source }, failed_dials, other_connection } = failed;
        let attempt = Attempt { connection, other_connection, failed_dials, ..Attempt::new(outcome) };
        self.state = State::Over(Ended { attempt, answer: None, source: Some(source) });
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
            match &mut this.state {
                State::Sent { id, exchange } => {
                    let (id, result) = (*id, ready!(Pin::new(exchange).poll(cx)));
                    this.sent_ended(id, result);
                }
                State::Waits(waits) => match ready!(waits.as_mut().poll(cx)) {
                    Ok(Answer { connection, response }) => this.reads(Some(connection), response),
                    Err(failed) => this.failed(failed),
                },
                State::Peeks(peeks) => {
                    let peeked = ready!(Pin::new(&mut peeks.peek).poll(cx));
                    let (facts, connection) = (peeks.facts, peeks.connection);
                    this.read(facts, connection, peeked);
                }
                State::Reads(answered) => {
                    let read = ready!(Pin::new(&mut answered.reading).poll(cx));
                    this.state = State::Over(answered.ended(read));
                    return Poll::Ready(());
                }
                State::New | State::Over(_) => return Poll::Ready(()),
            }
        }
    }
}

impl<T: Take> Answered<T> {
    #[inline(always)] // Made in place where it is called, which is once.
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
        let attempt = Attempt { connection: self.connection, ..Attempt::new(Outcome::Responded(self.facts)) };
        Ended { attempt, answer, source }
    }
}

/// An attempt that is over.
pub(crate) struct Ended<B> {
    pub(crate) attempt: Attempt,
    pub(crate) answer: Option<http::Response<B>>,
    pub(crate) source: Option<BoxError>,
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
