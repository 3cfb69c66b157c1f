//! The one loop: attempts are made, the policy judges, nothing else repeats anything.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use http::header::{CONNECTION, CONTENT_LENGTH, DATE, HOST, HeaderName, RETRY_AFTER, TE};
use http::{HeaderMap, HeaderValue, Method, Request, Response, Uri, Version};
use http_body::Body as _;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use oncebox_policy::{
    Attempt, CallFacts, Cause, Ledger, NotSent, Outcome, Record, RequestBody, ShortText, Tokens, Unknown, Verdict,
    judge,
};
use tokio::time::{Instant, sleep, timeout_at};
use tracing::Instrument;

use crate::body::{AttemptBody, Body, BodyUse, BoxError, Replay, ResponseBody};
use crate::client::Client;
use crate::error::Error;
use crate::options::{CallOptions, HttpVersion, Resolved};
use crate::pool::{Attempted, Authority, Origin, Progress, Redacted, Wanted};

/// Tells a server, and whoever reads its log, that a request is the n-th attempt of its call. Sent from the second on.
static ATTEMPT: HeaderName = HeaderName::from_static("oncebox-attempt");

static SHOULD_RETRY: HeaderName = HeaderName::from_static("should-retry");

/// Every attempt of a call, oldest first, as its response's extensions hold it.
#[derive(Clone, Debug)]
pub struct History(Ledger);

impl History {
    /// The attempts.
    pub fn attempts(&self) -> &[Record] {
        self.0.attempts()
    }

    /// The whole record of the call.
    pub fn ledger(&self) -> &Ledger {
        &self.0
    }
}

/// What a call ends with.
pub(crate) enum Answer {
    Streaming(Response<ResponseBody>),
    Collected(Response<Bytes>),
}

/// Makes a call. `collect` is the size up to which the response is read whole within the attempt.
pub(crate) async fn run(
    client: &Client,
    request: Request<Body>,
    options: CallOptions,
    collect: Option<usize>,
) -> Result<Answer, Error> {
    let (head, body) = request.into_parts();
    let authority = Authority::of(&head.uri)?;
    let target = format!("{} {}", head.method, Redacted(&head.uri));
    let options = client.defaults().resolve(&options, &head.method);
    let version = client.version();
    let call = Call {
        client,
        origin: client.origin(authority),
        version,
        head: Head::new(head.method, head.uri, head.headers)?,
        body: body.into_replay(options.replay_buffer_limit),
        options,
        collect,
        started: Instant::now(),
        target,
    };
    let span = tracing::debug_span!("call", target = %call.target);
    call.run().instrument(span).await
}

struct Call<'a> {
    client: &'a Client,
    origin: std::sync::Arc<Origin>,
    version: HttpVersion,
    head: Head,
    body: Replay,
    options: Resolved,
    collect: Option<usize>,
    started: Instant,
    target: String,
}

impl Call<'_> {
    async fn run(self) -> Result<Answer, Error> {
        let mut ledger = Ledger::new();
        let mut wanted = Wanted { cautious: self.options.policy.connection_retries == 0, ..Wanted::default() };
        loop {
            let ended = self.attempt(wanted, ledger.attempts().len() + 1).await;
            let verdict = judge(
                &self.options.policy,
                &self.facts(),
                &mut ledger,
                Some(Tokens {
                    budget: &self.origin.budget,
                    call_started: self.started.saturating_duration_since(self.origin.created),
                }),
                &ended.attempt,
                self.started.elapsed(),
                self.client.random(),
            );
            tracing::debug!(outcome = %ended.attempt.outcome, ?verdict, "attempt ended");
            let retry = match verdict {
                Verdict::Retry(retry) => retry,
                Verdict::Return(_) | Verdict::Reconcile => return self.end(ended, ledger),
            };
            // A response that will be asked for again is given up before the wait, so that its slot is free.
            wanted.last_connection = ended.attempt.connection;
            drop(ended);
            wanted.connection = retry.connection;
            wanted.is_replay = retry.reason.is_replay();
            if !retry.after.is_zero() {
                sleep(retry.after).await;
            }
        }
    }

    fn end(self, ended: Ended, ledger: Ledger) -> Result<Answer, Error> {
        self.body.commit();
        let history = History(ledger.clone());
        match ended.answer {
            Some(Answer::Streaming(mut response)) => {
                response.body_mut().set_read_idle_timeout(self.options.read_idle_timeout);
                response.extensions_mut().insert(history);
                Ok(Answer::Streaming(response))
            }
            Some(Answer::Collected(mut response)) => {
                response.extensions_mut().insert(history);
                Ok(Answer::Collected(response))
            }
            None => Err(match ended.source {
                Some(source) if source.is::<LengthLimitError>() => {
                    Error::too_large(self.target, self.collect.unwrap_or_default(), ledger)
                }
                source => Error::failed(self.target, ledger, source),
            }),
        }
    }

    /// One attempt, bounded by the call's deadline and `attempt_timeout`.
    async fn attempt(&self, wanted: Wanted, number: usize) -> Ended {
        let started = self.started.elapsed();
        let progress = Progress::default();
        let deadline = self.deadline().map(|deadline| self.started + deadline);
        let own = self.options.attempt_timeout.map(|limit| Instant::now() + limit);
        let attempt = self.attempt_and_read(number, wanted, &progress);

        let (outcome, answer, source, at) = match bounded(attempt, deadline, own).await {
            Ok(read) => read,
            Err(limit) => {
                let sent = progress.is_sent();
                let outcome = match limit {
                    Limit::Call => Outcome::TimedOut { sent },
                    Limit::Attempt if sent => Outcome::SentUnknown(Unknown {
                        cause: Cause::AttemptTimeout,
                        stream_id: None,
                        detail: ShortText::EMPTY,
                    }),
                    Limit::Attempt => {
                        let phase = self.origin.waits_for(&progress);
                        let touched_socket = phase.is_dial();
                        Outcome::NotSent(NotSent { phase, touched_socket, detail: "attempt_timeout passed".into() })
                    }
                };
                (outcome, None, None, At::default())
            }
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
        }
    }

    async fn attempt_and_read(
        &self,
        number: usize,
        wanted: Wanted,
        progress: &Progress,
    ) -> (Outcome, Option<Answer>, Option<BoxError>, At) {
        let body = self.body.attempt();
        let request = |version| self.head.request(version, number, body);
        let attempted = self.origin.attempt(self.version, request, wanted, progress).await;
        let at = At::of(&attempted);
        let response = match attempted.result {
            Ok(response) => response,
            Err(failure) => return (failure.outcome, None, Some(failure.source), at),
        };
        let mut facts = response_facts(&response);
        let Some(limit) = self.collect else {
            return (Outcome::Responded(facts), Some(Answer::Streaming(response)), None, at);
        };
        let (head, mut body) = response.into_parts();
        body.set_read_idle_timeout(self.options.read_idle_timeout);
        match Limited::new(body, limit).collect().await {
            Ok(collected) => {
                let response = Response::from_parts(head, collected.to_bytes());
                (Outcome::Responded(facts), Some(Answer::Collected(response)), None, at)
            }
            // The answer is complete as far as the server is concerned: asking again would change nothing.
            Err(error) if error.is::<LengthLimitError>() => {
                (Outcome::Responded(oncebox_policy::Response::new(facts.status)), None, Some(error), at)
            }
            Err(error) => {
                facts.body = oncebox_policy::ResponseBody::Broken;
                (Outcome::Responded(facts), None, Some(error), at)
            }
        }
    }

    /// `request_timeout`, which does not bound a streamed request body: how long that takes is its sender's matter.
    fn deadline(&self) -> Option<Duration> {
        self.options.request_timeout.filter(|_| !self.body.is_stream())
    }

    fn facts(&self) -> CallFacts {
        CallFacts {
            permit: self.options.permit,
            mints: self.options.mints,
            reconciles: self.options.reconciles,
            body: match self.body.usage() {
                BodyUse::None => RequestBody::None,
                BodyUse::Bytes => RequestBody::Bytes,
                // What it yielded is gone with the error: it cannot be sent from the beginning to the end.
                BodyUse::Mirrored(read) | BodyUse::Consumed(read) if self.body.source_failed() => {
                    RequestBody::StreamConsumed { read, limit: self.options.replay_buffer_limit as u64 }
                }
                BodyUse::Unread => RequestBody::StreamUnread,
                BodyUse::Mirrored(_) => RequestBody::StreamMirrored,
                BodyUse::Consumed(read) => {
                    RequestBody::StreamConsumed { read, limit: self.options.replay_buffer_limit as u64 }
                }
            },
            deadline: self.deadline(),
        }
    }
}

/// An attempt that is over.
struct Ended {
    attempt: Attempt,
    answer: Option<Answer>,
    source: Option<BoxError>,
}

/// Where an attempt took place.
#[derive(Clone, Copy, Default)]
struct At {
    connection: Option<u64>,
    other_connection: bool,
    failed_dials: u32,
}

impl At {
    fn of(attempted: &Attempted) -> Self {
        Self {
            connection: attempted.connection,
            other_connection: attempted.other_connection,
            failed_dials: attempted.failed_dials,
        }
    }
}

enum Limit {
    Call,
    Attempt,
}

async fn bounded<F: Future>(future: F, call: Option<Instant>, attempt: Option<Instant>) -> Result<F::Output, Limit> {
    let (at, limit) = match (call, attempt) {
        (None, None) => return Ok(future.await),
        (Some(call), Some(attempt)) if attempt < call => (attempt, Limit::Attempt),
        (Some(call), _) => (call, Limit::Call),
        (None, Some(attempt)) => (attempt, Limit::Attempt),
    };
    timeout_at(at, future).await.map_err(|_| limit)
}

/// A request's head, ready to be sent any number of times.
struct Head {
    method: Method,
    /// With scheme and authority, as HTTP/2 wants it.
    uri: Uri,
    /// Origin form (RFC 9112 §3.2.1), as HTTP/1.1 wants it.
    path: Uri,
    host: HeaderValue,
    headers: HeaderMap,
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

impl Head {
    fn new(method: Method, uri: Uri, headers: HeaderMap) -> Result<Self, Error> {
        let authority = uri.authority().map_or("", |a| a.as_str());
        let host = HeaderValue::try_from(authority)
            .map_err(|_| Error::invalid(format!("{}: the host is no header value", Redacted(&uri))))?;
        let path = uri.path_and_query().map_or("/", |p| p.as_str());
        let path = Uri::try_from(path).map_err(|e| Error::invalid(format!("{}: {e}", Redacted(&uri))))?;
        let describes_connection = headers.contains_key(TE) || OF_A_CONNECTION.iter().any(|n| headers.contains_key(*n));
        Ok(Self { method, uri, path, host, headers, describes_connection })
    }

    fn request(&self, version: HttpVersion, number: usize, body: AttemptBody) -> Request<AttemptBody> {
        let length = body.size_hint().exact();
        let mut request = Request::new(body);
        *request.method_mut() = self.method.clone();
        *request.headers_mut() = self.headers.clone();
        if version == HttpVersion::Http2 {
            *request.uri_mut() = self.uri.clone();
            *request.version_mut() = Version::HTTP_2;
            if self.describes_connection {
                remove_of_a_connection(request.headers_mut());
            }
        } else {
            *request.uri_mut() = self.path.clone();
            *request.version_mut() = Version::HTTP_11;
            request.headers_mut().entry(HOST).or_insert_with(|| self.host.clone());
        }
        if number > 1 {
            request.headers_mut().insert(ATTEMPT.clone(), HeaderValue::from(number));
        }
        // Methods without a defined body say nothing of one (RFC 9110 §8.6).
        if let Some(length) = length
            && (length > 0 || matches!(self.method, Method::POST | Method::PUT | Method::PATCH))
        {
            request.headers_mut().entry(CONTENT_LENGTH).or_insert_with(|| HeaderValue::from(length));
        }
        request
    }
}

/// What decisions rest on in a response's head.
fn response_facts<B>(response: &Response<B>) -> oncebox_policy::Response {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
    let header = |name: &HeaderName| response.headers().get(name).map(HeaderValue::as_bytes);
    let mut facts = oncebox_policy::Response::new(response.status().as_u16());
    facts.retry_after = header(&RETRY_AFTER).and_then(|value| oncebox_policy::retry_after(value, header(&DATE), now));
    facts.should_retry = header(&SHOULD_RETRY).map(oncebox_policy::should_retry);
    facts
}
