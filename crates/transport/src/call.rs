//! The one loop: attempts are made, the policy judges, nothing else repeats anything.

use std::fmt;
use std::future::Future;
use std::ops::ControlFlow;
use std::pin::{Pin, pin};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::{Bytes, BytesMut};
use http::header::{CONNECTION, CONTENT_LENGTH, DATE, HOST, HeaderName, RETRY_AFTER, TE};
use http::{HeaderMap, HeaderValue, Method, Request, Response, Uri, Version};
use http_body::Body as _;
use http_body_util::BodyExt;
use oncebox_policy::{
    Attempt, CallFacts, Cause, ClosedLedger, Ledger, NotSent, Outcome, Record, RequestBody, ShortText, Tokens, Unknown,
    Verdict, judge,
};
use tokio::time::{Instant, sleep, timeout_at};
use tracing::{Instrument, Span};

use crate::body::{AttemptBody, Body, BodyUse, BoxError, Replay, ResponseBody, Upload};
use crate::client::Client;
use crate::error::Error;
use crate::limit::{Due, Expired, Step, StreamLimits};
use crate::observe::{self, TraceContext};
use crate::options::{CallOptions, HttpVersion, Resolved};
use crate::pool::{self, Origin, Progress, Redacted, Wanted};
use crate::single::Attempted;

/// Tells a server, and whoever reads its log, that a request is the n-th attempt of its call. Sent from the second on.
static ATTEMPT: HeaderName = HeaderName::from_static("oncebox-attempt");

static SHOULD_RETRY: HeaderName = HeaderName::from_static("should-retry");

/// Every attempt of a call, oldest first, as its response's extensions hold it.
#[derive(Clone, Debug)]
pub struct History {
    closed: ClosedLedger,
    /// Most histories are of one attempt and read by nobody, so that the whole record is made when it is asked for.
    whole: OnceLock<Box<Ledger>>,
}

impl History {
    fn new(ledger: &Ledger) -> Self {
        Self { closed: ledger.close(), whole: OnceLock::new() }
    }

    /// The attempts.
    pub fn attempts(&self) -> &[Record] {
        self.closed.attempts()
    }

    /// The whole record of the call.
    pub fn ledger(&self) -> &Ledger {
        self.whole.get_or_init(|| Box::new(self.closed.reopen()))
    }
}

/// What a call ends with.
pub(crate) enum Answer {
    Streaming(Response<ResponseBody>),
    Collected(Response<Bytes>),
}

/// A call that is to be made.
pub(crate) struct Call<'a> {
    made_of: MadeOf<'a>,
    /// The headers as they were given, for the first attempt.
    headers: HeaderMap,
}

/// What a call is made of.
struct MadeOf<'a> {
    client: &'a Client,
    head: Head,
    body: Replay,
    options: Resolved,
    /// The size up to which the response is read whole within the attempt.
    collect: Option<usize>,
    /// Where attempts are to name themselves as parts of a trace.
    trace: Option<Box<TraceContext>>,
}

impl Answer {
    fn status(&self) -> u16 {
        match self {
            Self::Streaming(response) => response.status().as_u16(),
            Self::Collected(response) => response.status().as_u16(),
        }
    }
}

impl<'a> Call<'a> {
    pub(crate) fn new(
        client: &'a Client,
        request: Request<Body>,
        options: &CallOptions,
        collect: Option<usize>,
    ) -> Self {
        let (head, body) = request.into_parts();
        let options = client.defaults().resolve(options, &head.method);
        let made_of = MadeOf {
            client,
            body: body.into_replay(options.replay_buffer_limit),
            head: Head::new(head.method, head.uri, &head.headers),
            options,
            collect,
            trace: client.traces().then(|| Box::new(TraceContext::of(&head.headers))),
        };
        Self { made_of, headers: head.headers }
    }

    /// Makes the call.
    pub(crate) async fn run(&mut self) -> Result<Answer, Error> {
        let Self { made_of, headers } = self;
        let running =
            Running { call: made_of, origin: made_of.client.origin(&made_of.head.uri)?, started: Instant::now() };
        let watched = made_of.client.observer().map(|observer| observer.watch(&made_of.head.method, &made_of.head.uri));
        let span = tracing::debug_span!("call", target = %made_of.head);
        // Pinned here and below, since a future that is handed on by value is copied whole.
        let answer = pin!(running.attempts(headers)).instrument(span).await;
        if let Some(watched) = watched {
            watched.ends(answer.as_ref().map(Answer::status));
        }
        answer
    }

    /// Makes one attempt, which nobody judges.
    pub(crate) async fn once(&mut self, number: usize, wanted: Wanted) -> Result<Attempted, Error> {
        let Self { made_of, headers } = self;
        let running =
            Running { call: made_of, origin: made_of.client.origin(&made_of.head.uri)?, started: Instant::now() };
        let span = tracing::debug_span!("attempt", target = %made_of.head, number);
        let Ended { attempt, answer, source, .. } =
            pin!(running.attempt(wanted, number, headers)).instrument(span).await;
        made_of.body.commit();
        let response = match answer {
            Some(Answer::Collected(response)) => Some(response),
            // It is collected, since a size was given.
            Some(Answer::Streaming(_)) | None => None,
        };
        Ok(Attempted { attempt: Attempt { started: Duration::ZERO, ..attempt }, response, source })
    }
}

/// A call under way. What it is made of stays where it is: futures are copied and kept by the thousand.
struct Running<'a> {
    call: &'a MadeOf<'a>,
    origin: Arc<Origin>,
    started: Instant,
}

impl Running<'_> {
    async fn attempts(&self, headers: &mut HeaderMap) -> Result<Answer, Error> {
        let mut wanted = Wanted {
            cautious: self.call.options.policy.connection_retries == 0,
            class: self.call.options.class,
            ..Wanted::default()
        };
        // A ledger is large, and many calls wait at once. It is kept over a wait only where an attempt went before.
        let mut kept: Option<Box<Ledger>> = None;
        loop {
            let number = kept.as_ref().map_or(0, |ledger| ledger.attempts().len()) + 1;
            let ended = if observe::is_traced() {
                self.traced_attempt(wanted, number, headers).await
            } else {
                self.attempt(wanted, number, headers).await
            };
            let after = match self.after(ended, &mut kept, &mut wanted) {
                ControlFlow::Break(end) => return end,
                ControlFlow::Continue(after) => after,
            };
            if !after.is_zero() {
                sleep(after).await;
            }
        }
    }

    /// An attempt in a span of its own. In a box, so that calls which nobody looks at have no room for it.
    fn traced_attempt<'b>(
        &'b self,
        wanted: Wanted,
        number: usize,
        headers: &'b mut HeaderMap,
    ) -> Pin<Box<dyn Future<Output = Ended> + Send + 'b>> {
        let span = observe::attempt_span(number);
        Box::pin(async move {
            let mut ended = self.attempt(wanted, number, headers).instrument(span.clone()).await;
            ended.span = Some(Box::new(span));
            ended
        })
    }

    /// What follows an attempt: the end, or another one after a wait. A response that will be asked for again is given
    /// up before the wait, so that its slot is free.
    fn after(
        &self,
        ended: Ended,
        kept: &mut Option<Box<Ledger>>,
        wanted: &mut Wanted,
    ) -> ControlFlow<Result<Answer, Error>, Duration> {
        let retry = if let Some(ledger) = kept {
            let Verdict::Retry(retry) = self.judge(ledger, &ended) else {
                return ControlFlow::Break(self.end(ended, ledger));
            };
            retry
        } else {
            let mut ledger = Ledger::new();
            let Verdict::Retry(retry) = self.judge(&mut ledger, &ended) else {
                return ControlFlow::Break(self.end(ended, &ledger));
            };
            *kept = Some(Box::new(ledger));
            retry
        };
        wanted.last_connection = ended.attempt.connection;
        wanted.connection = retry.connection;
        wanted.is_replay = retry.reason.is_replay();
        ControlFlow::Continue(retry.after)
    }

    fn judge(&self, ledger: &mut Ledger, ended: &Ended) -> Verdict {
        let verdict = judge(
            &self.call.options.policy,
            &self.facts(),
            ledger,
            Some(Tokens {
                budget: &self.origin.budget,
                call_started: self.started.saturating_duration_since(self.origin.created),
            }),
            &ended.attempt,
            self.started.elapsed(),
            self.call.client.random(),
        );
        if let Some((span, record)) = ended.span.as_deref().zip(ledger.attempts().last()) {
            observe::fill(span, record);
        }
        if let Some(observer) = self.call.client.observer() {
            observer.attempt_ended(&self.call.head.method, &self.call.head.uri, ledger);
        }
        verdict
    }

    fn end(&self, ended: Ended, ledger: &Ledger) -> Result<Answer, Error> {
        self.call.body.commit();
        tracing::debug!("{}, {} attempts\n{ledger}", self.call.head, ledger.attempts().len());
        match ended.answer {
            Some(Answer::Streaming(mut response)) => {
                response.body_mut().set_read_idle_timeout(self.call.options.read_idle_timeout);
                response.extensions_mut().insert(History::new(ledger));
                Ok(Answer::Streaming(response))
            }
            Some(Answer::Collected(mut response)) => {
                response.extensions_mut().insert(History::new(ledger));
                Ok(Answer::Collected(response))
            }
            None => Err(match ended.source {
                Some(source) if source.is::<TooLarge>() => {
                    Error::too_large(self.call.head.to_string(), self.call.collect.unwrap_or_default(), ledger.clone())
                }
                source => Error::failed(self.call.head.to_string(), ledger.clone(), source),
            }),
        }
    }

    /// One attempt, bounded by the call's deadline and `attempt_timeout`.
    async fn attempt(&self, wanted: Wanted, number: usize, headers: &mut HeaderMap) -> Ended {
        let started = if number == 1 { Duration::ZERO } else { self.started.elapsed() };
        let progress = Progress::default();
        let attempt = pin!(self.attempt_and_read(number, wanted, headers, &progress));
        let read = if self.call.body.is_stream() {
            // In a box: few calls have such a body, and all have room for it otherwise.
            Box::pin(self.watch_stream(attempt, &progress)).await
        } else {
            match self.bound() {
                Some((at, limit)) => timeout_at(at, attempt).await.map_err(|_| limit),
                None => Ok(attempt.await),
            }
        };
        let (outcome, answer, source, at) = match read {
            Ok(read) => read,
            Err(limit) => self.expired(limit, &progress),
        };
        Ended {
            attempt: Attempt {
                started,
                connection: at.connection,
                outcome,
                other_connection: at.other_connection,
                failed_dials: at.failed_dials,
            },
            answer,
            source,
            span: None,
        }
    }

    /// What is known of an attempt that was given up at a limit.
    fn expired(&self, limit: Limit, progress: &Progress) -> Read {
        let sent = progress.is_sent();
        let step = if progress.reads() {
            Step::Body
        } else if !sent {
            self.origin.waits_for(progress, self.call.options.class).into()
        } else if matches!(self.call.body.upload(), Upload::Source | Upload::Peer(_)) {
            Step::Upload
        } else {
            Step::Head
        };
        let (outcome, source) = match limit {
            Limit::Call { limit, option } => (Outcome::TimedOut { sent }, Some(Expired { step, limit, option }.into())),
            Limit::Attempt if sent => {
                let detail = ShortText::new(&format!("waited for {step}"));
                let cause = Cause::AttemptTimeout;
                (Outcome::SentUnknown(Unknown { cause, stream_id: None, detail }), None)
            }
            Limit::Attempt => {
                let phase = self.origin.waits_for(progress, self.call.options.class);
                let touched_socket = phase.is_dial();
                (Outcome::NotSent(NotSent { phase, touched_socket, detail: "attempt_timeout passed".into() }), None)
            }
        };
        (outcome, None, source, At::default())
    }

    /// Runs an attempt whose request's body is read as it is sent, within the limits of such.
    async fn watch_stream<T>(
        &self,
        mut attempt: Pin<&mut impl Future<Output = T>>,
        progress: &Progress,
    ) -> Result<T, Limit> {
        let options = &self.call.options;
        let began = Instant::now();
        let limits = StreamLimits { began, request: options.request_timeout, write_idle: options.write_idle_timeout };
        let own = options.attempt_timeout.map(|limit| began + limit);
        let due = || limits.due(self.call.body.upload(), progress.reads());
        loop {
            let look_again = limits.look_again(Instant::now());
            let at = due().map(|due| due.at).into_iter().chain(look_again).chain(own).min();
            let Some(at) = at else { return Ok(attempt.await) };
            if let Ok(done) = timeout_at(at, attempt.as_mut()).await {
                return Ok(done);
            }
            let now = Instant::now();
            if own.is_some_and(|own| own <= now) {
                return Err(Limit::Attempt);
            }
            if let Some(Due { limit, option, .. }) = due().filter(|due| due.at <= now) {
                return Err(Limit::Call { limit, option });
            }
        }
    }

    /// When the attempt that begins now must be over, and what bounds it.
    fn bound(&self) -> Option<(Instant, Limit)> {
        let of_call = |deadline| (self.started + deadline, Limit::Call { limit: deadline, option: "request_timeout" });
        let call = self.deadline().map(of_call);
        let own = self.call.options.attempt_timeout.map(|limit| (Instant::now() + limit, Limit::Attempt));
        match (call, own) {
            (Some(call), Some(own)) if own.0 < call.0 => Some(own),
            (call, own) => call.or(own),
        }
    }

    async fn attempt_and_read(
        &self,
        number: usize,
        wanted: Wanted,
        headers: &mut HeaderMap,
        progress: &Progress,
    ) -> Read {
        let body = self.call.body.attempt();
        let request = |version| {
            let mut request = self.call.head.request(version, number, headers, body);
            if let Some(trace) = &self.call.trace {
                trace.set(request.headers_mut());
            }
            request
        };
        let attempted = self.origin.attempt(self.call.client.version(), request, wanted, progress).await;
        let (mut reading, limit) = match self.answered(attempted) {
            ControlFlow::Break(over) => return over,
            ControlFlow::Continue(reading) => reading,
        };
        progress.reads_body();
        let whole = read_whole(&mut reading.body, limit).await;
        let Reading { mut facts, head, at, .. } = reading;
        match whole {
            Ok(whole) => {
                let response = Response::from_parts(head, whole);
                (Outcome::Responded(facts), Some(Answer::Collected(response)), None, at)
            }
            // The answer is complete as far as the server is concerned: asking again would change nothing.
            Err(error) if error.is::<TooLarge>() => {
                (Outcome::Responded(oncebox_policy::Response::new(facts.status)), None, Some(error), at)
            }
            Err(error) => {
                facts.body = oncebox_policy::ResponseBody::Broken;
                (Outcome::Responded(facts), None, Some(error), at)
            }
        }
    }

    /// Whether the attempt is over with its response's head.
    fn answered(&self, attempted: pool::Attempted) -> ControlFlow<Read, (Reading, usize)> {
        let at = At::of(&attempted);
        let response = match attempted.result {
            Ok(response) => response,
            Err(failure) => return ControlFlow::Break((failure.outcome, None, Some(failure.source), at)),
        };
        let facts = response_facts(&response);
        let Some(limit) = self.call.collect else {
            return ControlFlow::Break((Outcome::Responded(facts), Some(Answer::Streaming(response)), None, at));
        };
        let (head, mut body) = response.into_parts();
        body.set_read_idle_timeout(self.call.options.read_idle_timeout);
        ControlFlow::Continue((Reading { facts, head, body, at }, limit))
    }

    /// `request_timeout`, which does not bound a streamed request body: that has [limits of its own](StreamLimits).
    fn deadline(&self) -> Option<Duration> {
        self.call.options.request_timeout.filter(|_| !self.call.body.is_stream())
    }

    fn facts(&self) -> CallFacts {
        CallFacts {
            permit: self.call.options.permit,
            mints: self.call.options.mints,
            reconciles: self.call.options.reconciles,
            body: match self.call.body.usage() {
                BodyUse::None => RequestBody::None,
                BodyUse::Bytes => RequestBody::Bytes,
                BodyUse::Unread => RequestBody::StreamUnread,
                BodyUse::Mirrored(_) => RequestBody::StreamMirrored,
                BodyUse::Consumed(read) => {
                    RequestBody::StreamConsumed { read, limit: self.call.options.replay_buffer_limit as u64 }
                }
            },
            deadline: self.deadline(),
        }
    }
}

/// What an attempt brought.
type Read = (Outcome, Option<Answer>, Option<BoxError>, At);

/// A response that is being read.
struct Reading {
    facts: oncebox_policy::Response,
    head: http::response::Parts,
    body: ResponseBody,
    at: At,
}

/// An attempt that is over.
struct Ended {
    attempt: Attempt,
    answer: Option<Answer>,
    source: Option<BoxError>,
    /// Where somebody looks at it.
    span: Option<Box<Span>>,
}

/// Where an attempt took place.
#[derive(Clone, Copy, Default)]
struct At {
    connection: Option<u64>,
    other_connection: bool,
    failed_dials: u32,
}

impl At {
    fn of(attempted: &pool::Attempted) -> Self {
        Self {
            connection: attempted.connection,
            other_connection: attempted.other_connection,
            failed_dials: attempted.failed_dials,
        }
    }
}

enum Limit {
    Call { limit: Duration, option: &'static str },
    Attempt,
}

/// The response is larger than may be read whole.
#[derive(Debug)]
struct TooLarge;

impl fmt::Display for TooLarge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the response is larger than may be read whole")
    }
}

impl std::error::Error for TooLarge {}

/// Reads a body to its end. What came in one piece is not copied.
async fn read_whole(body: &mut ResponseBody, limit: usize) -> Result<Bytes, BoxError> {
    let (mut first, mut rest, mut len) = (Bytes::new(), Vec::new(), 0_usize);
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame?.into_data() else { continue };
        len = len.saturating_add(data.len());
        if len > limit {
            return Err(TooLarge.into());
        }
        if first.is_empty() {
            first = data;
        } else {
            rest.push(data);
        }
    }
    if rest.is_empty() {
        return Ok(first);
    }
    let mut whole = BytesMut::with_capacity(len);
    whole.extend_from_slice(&first);
    rest.iter().for_each(|piece| whole.extend_from_slice(piece));
    Ok(whole.freeze())
}

/// A request's head, kept to be sent any number of times.
struct Head {
    method: Method,
    /// With scheme and authority.
    uri: Uri,
    /// For attempts after the first, which takes the headers themselves. A list is half as large as a map.
    headers: Box<[(HeaderName, HeaderValue)]>,
    /// Whether any of them describes a connection rather than the request.
    describes_connection: bool,
}

/// Fields that HTTP/2 has no place for (RFC 9113 §8.2.2).
const OF_A_CONNECTION: [&str; 5] = ["connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"];

/// Takes out what describes an HTTP/1.1 connection. `h2` would refuse the request for it.
fn remove_of_a_connection(headers: &mut HeaderMap) {
    let named: Vec<_> = headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| HeaderName::try_from(name.trim()).ok())
        .collect();
    for name in named {
        headers.remove(name);
    }
    for name in OF_A_CONNECTION {
        headers.remove(name);
    }
    if headers.get(TE).is_some_and(|te| te != "trailers") {
        headers.remove(TE);
    }
}

/// What people and logs call it.
impl fmt::Display for Head {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.method, Redacted(&self.uri))
    }
}

impl Head {
    fn new(method: Method, uri: Uri, headers: &HeaderMap) -> Self {
        let of_a_connection = |name: &HeaderName| *name == TE || OF_A_CONNECTION.contains(&name.as_str());
        let describes_connection = headers.keys().any(of_a_connection);
        let headers = headers.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
        Self { method, uri, headers, describes_connection }
    }

    /// The request of an attempt. The first that gets so far takes `given`, the headers as they were given.
    fn request(
        &self,
        version: HttpVersion,
        number: usize,
        given: &mut HeaderMap,
        body: AttemptBody,
    ) -> Request<AttemptBody> {
        let length = body.size_hint().exact();
        let mut request = Request::new(body);
        *request.method_mut() = self.method.clone();
        *request.headers_mut() = std::mem::take(given);
        if request.headers().is_empty() {
            let headers = request.headers_mut();
            headers.reserve(self.headers.len());
            for (name, value) in &self.headers {
                headers.append(name.clone(), value.clone());
            }
        }
        if version == HttpVersion::Http2 {
            *request.uri_mut() = self.uri.clone();
            *request.version_mut() = Version::HTTP_2;
            if self.describes_connection {
                remove_of_a_connection(request.headers_mut());
            }
        } else {
            // Origin form (RFC 9112 §3.2.1).
            *request.uri_mut() = self.uri.path_and_query().cloned().map_or_else(Uri::default, Uri::from);
            *request.version_mut() = Version::HTTP_11;
            // Whatever an authority may hold, a header value may.
            if !request.headers().contains_key(HOST)
                && let Some(Ok(host)) = self.uri.authority().map(|authority| HeaderValue::from_str(authority.as_str()))
            {
                request.headers_mut().insert(HOST, host);
            }
        }
        if number > 1 {
            request.headers_mut().insert(ATTEMPT.clone(), HeaderValue::from(number));
        }
        // Methods without a defined body say nothing of one (RFC 9110 §8.6).
        if let Some(length) = length
            && (length > 0 || matches!(self.method, Method::POST | Method::PUT | Method::PATCH))
            // Asked before, since a map makes room for what it may turn out to have.
            && !request.headers().contains_key(CONTENT_LENGTH)
        {
            request.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from(length));
        }
        request
    }
}

/// What decisions rest on in a response's head.
fn response_facts<B>(response: &Response<B>) -> oncebox_policy::Response {
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
    let header = |name: &HeaderName| response.headers().get(name).map(HeaderValue::as_bytes);
    let mut facts = oncebox_policy::Response::new(response.status().as_u16());
    facts.retry_after = header(&RETRY_AFTER).and_then(|value| oncebox_policy::retry_after(value, header(&DATE), now()));
    facts.should_retry = header(&SHOULD_RETRY).map(oncebox_policy::should_retry);
    facts
}
