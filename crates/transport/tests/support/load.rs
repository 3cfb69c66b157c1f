//! Many calls against a scripted server, and what became of them.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request};
use http_body::Frame;
use http_body_util::StreamBody;
use oncebox_faults::{Script, Server, TryRecord};
use oncebox_transport::policy::{Outcome, Refusal};
use oncebox_transport::{Body, BoxError, CallOptions, Client, ClientBuilder, Error, HttpVersion, Response};

/// Longer than any run here takes.
///
/// Time is paused only where little is sent: the kernel's own clock, by which it acknowledges what was received, is not.
pub const LONG: Duration = Duration::from_secs(100);

pub async fn serve(script: Script) -> Server {
    Server::builder(script).start().await.unwrap()
}

/// The default options, over HTTP/2.
pub fn http2() -> ClientBuilder {
    Client::builder().http_version(HttpVersion::Http2)
}

/// What a request's body is made of.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Payload {
    None,
    Bytes(usize),
    /// Read as it is sent, in pieces of 4 KiB.
    Stream(usize),
    /// The same, and it can be read from its start again.
    Rewindable(usize),
}

/// The bodies that every refusal must leave intact: at hand, and streamed up to the mirror's size.
pub const BODIES: [Payload; 2] = [Payload::Bytes(100), Payload::Stream(10_000)];

impl Payload {
    pub fn len(self) -> usize {
        match self {
            Self::None => 0,
            Self::Bytes(len) | Self::Stream(len) | Self::Rewindable(len) => len,
        }
    }

    pub fn bytes(self) -> Vec<u8> {
        (0..self.len()).map(|n| (n % 251) as u8).collect()
    }

    pub fn body(self) -> Body {
        match self {
            Self::None => Body::empty(),
            Self::Bytes(_) => Body::from(self.bytes()),
            Self::Stream(_) => stream(self.bytes(), 4096),
            Self::Rewindable(len) => Body::rewindable(Some(len as u64), move || pieces(self.bytes(), 4096)),
        }
    }
}

/// A body that is read as it is sent, in pieces of this size.
pub fn stream(bytes: Vec<u8>, piece: usize) -> Body {
    Body::stream(pieces(bytes, piece))
}

fn pieces(bytes: Vec<u8>, piece: usize) -> impl http_body::Body<Data = Bytes, Error = BoxError> + Send + 'static {
    let pieces: Vec<_> = bytes.chunks(piece).map(Bytes::copy_from_slice).collect();
    let frames = pieces.into_iter().map(|piece| Ok::<_, BoxError>(Frame::data(piece)));
    StreamBody::new(futures_util::stream::iter(frames))
}

/// A request that the server can tell from the others.
pub fn request(server: &Server, method: Method, id: &str, payload: Payload) -> Request<Body> {
    Request::builder().method(method).uri(server.url("/")).header("x-request-id", id).body(payload.body()).unwrap()
}

pub fn post(server: &Server, id: &str, payload: Payload) -> Request<Body> {
    request(server, Method::POST, id, payload)
}

pub async fn call(client: &Client, request: Request<Body>) -> Result<Response<Bytes>, Error> {
    let called = client.send_collected(request, CallOptions::new());
    tokio::time::timeout(LONG, called).await.unwrap_or_else(|_| panic!("the call never ends"))
}

/// One call that is over.
pub struct Done {
    pub id: String,
    pub result: Result<Response<Bytes>, Error>,
}

impl Done {
    /// The outcomes of its attempts, in order.
    pub fn outcomes(&self) -> Vec<Outcome> {
        let records = match &self.result {
            Ok(response) => response.history().attempts().to_vec(),
            Err(error) => error.attempts().to_vec(),
        };
        records.into_iter().map(|record| record.outcome).collect()
    }
}

/// What became of many calls.
pub struct Run {
    pub done: Vec<Done>,
    pub payload: Payload,
}

/// `count` POSTs `r0`, `r1`, …, so many at once.
pub async fn posts(client: &Client, server: &Server, count: usize, at_once: usize, payload: Payload) -> Run {
    posts_named("r", client, server, count, at_once, payload).await
}

/// The same under another name.
pub async fn posts_named(
    name: &'static str,
    client: &Client,
    server: &Server,
    count: usize,
    at_once: usize,
    payload: Payload,
) -> Run {
    let next = Arc::new(AtomicUsize::new(0));
    let url = server.url("/");
    let workers: Vec<_> = (0..at_once)
        .map(|_| {
            let (client, next, url) = (client.clone(), next.clone(), url.clone());
            tokio::spawn(async move {
                let mut done = Vec::new();
                loop {
                    let n = next.fetch_add(1, Ordering::Relaxed);
                    if n >= count {
                        return done;
                    }
                    let id = format!("{name}{n}");
                    let request = Request::post(&url).header("x-request-id", &id).body(payload.body()).unwrap();
                    let result = client.send_collected(request, CallOptions::new()).await;
                    done.push(Done { id, result });
                }
            })
        })
        .collect();
    let all = async {
        let mut done = Vec::new();
        for worker in workers {
            done.extend(worker.await.unwrap());
        }
        done
    };
    let done = tokio::time::timeout(LONG, all).await.unwrap_or_else(|_| panic!("some calls never end"));
    assert_eq!(done.len(), count);
    Run { done, payload }
}

impl Run {
    /// The ids of the calls that failed, sorted.
    pub fn failed(&self) -> Vec<&str> {
        let failed = self.done.iter().filter(|done| !matches!(&done.result, Ok(response) if response.status() == 200));
        let mut ids: Vec<_> = failed.map(|done| done.id.as_str()).collect();
        ids.sort_unstable();
        ids
    }

    /// How often each text ended a call that failed.
    pub fn errors(&self) -> BTreeMap<String, usize> {
        let mut texts = BTreeMap::new();
        for done in &self.done {
            match &done.result {
                Ok(response) if response.status() == 200 => {}
                Ok(response) => *texts.entry(response.status().to_string()).or_default() += 1,
                Err(error) => *texts.entry(error.to_string()).or_default() += 1,
            }
        }
        texts
    }

    /// Every call succeeded, was processed exactly once and whole, and was sent again no more than `replays` times.
    #[track_caller]
    pub fn assert_all_done_once(&self, server: &Server, replays: u64) {
        self.assert_histories_agree(server);
        self.assert_done_once(server, replays);
    }

    /// The same, where a proxy may deliver what was sent on one connection after what was sent later on another.
    #[track_caller]
    pub fn assert_done_once(&self, server: &Server, replays: u64) {
        assert!(self.failed().is_empty(), "{:#?}", self.errors());
        let log = server.log();
        assert_eq!(log.doubled(), []);
        assert_eq!(log.totals().violations, 0, "streams too many, or what else HTTP/2 forbids");
        let digest = oncebox_faults::digest(&self.payload.bytes());
        for done in &self.done {
            let tries = log.tries(&done.id);
            let processed: Vec<_> = tries.iter().filter(|a_try| a_try.processed).collect();
            assert_eq!(processed.len(), 1, "{}: {tries:#?}", done.id);
            assert_eq!(processed[0].body_digest, digest, "{}: the body came whole", done.id);
            assert!(tries.len() as u64 <= 1 + replays, "{}: {} tries", done.id, tries.len());
        }
    }

    /// The history of each call is what the server saw of it: each attempt that says it was sent came as the server's
    /// log has it, in this order, and no other did. Heads that a dying connection swallowed are none.
    #[track_caller]
    pub fn assert_histories_agree(&self, server: &Server) {
        for done in &self.done {
            let tries = server.log().tries(&done.id);
            let outcomes = done.outcomes();
            assert!(agree(&outcomes, &tries), "{}\nhistory: {outcomes:#?}\nlog: {tries:#?}", done.id);
        }
    }
}

/// Whether a call's outcomes are what the server saw of it, and nothing else: in this order on each connection. Between two
/// connections there is none: what was refused on one may be read there after it was sent again on the other.
pub fn agree(outcomes: &[Outcome], tries: &[TryRecord]) -> bool {
    let Some((outcome, later)) = outcomes.split_first() else { return tries.is_empty() };
    // What was sent need not have come: a connection that dies swallows heads.
    let may_be_unseen = match outcome {
        Outcome::NotSent(_) | Outcome::TimedOut { sent: false } | Outcome::Cancelled { sent: false } => {
            return agree(later, tries);
        }
        Outcome::Refused(Refusal::GoAway { .. })
        | Outcome::SentUnknown(_)
        | Outcome::TimedOut { .. }
        | Outcome::Cancelled { .. } => true,
        Outcome::Refused(_) | Outcome::Responded(_) => false,
    };
    let seen = tries.iter().enumerate().any(|(at, a_try)| {
        // An answer, or a reset of its own, comes of a head that was read: only what ended without one can be overtaken.
        let may_be_next = at == 0 || may_be_unseen;
        let is_next = may_be_next && !tries[..at].iter().any(|before| before.connection == a_try.connection);
        is_next && fits(outcome, a_try) && agree(later, &[&tries[..at], &tries[at + 1..]].concat())
    });
    seen || (may_be_unseen && agree(later, tries))
}

/// The same where what is sent on one connection may arrive after what is sent later on another: a network that is slow
/// or held delivers heads that the client has long given up.
pub fn agree_in_some_order(outcomes: &[Outcome], tries: &[TryRecord]) -> bool {
    if agree(outcomes, tries) {
        return true;
    }
    (1..tries.len()).any(|late| {
        let mut sooner = tries.to_vec();
        let moved = sooner.remove(late);
        (0..late).any(|place| {
            let mut tries = sooner.clone();
            // On one connection nothing is overtaken.
            let overtakes = tries[place..late].iter().all(|other| other.connection != moved.connection);
            tries.insert(place, moved.clone());
            overtakes && agree(outcomes, &tries)
        })
    })
}

fn fits(outcome: &Outcome, a_try: &TryRecord) -> bool {
    match outcome {
        Outcome::Refused(Refusal::RefusedStream { stream_id }) => {
            a_try.stream == *stream_id && !a_try.processed && a_try.reset_sent.is_some_and(|code| code.0 == 7)
        }
        Outcome::Refused(Refusal::GoAway { stream_id, .. }) => a_try.stream == *stream_id && !a_try.processed,
        Outcome::Responded(response) => a_try.status == Some(response.status),
        Outcome::SentUnknown(unknown) => unknown.stream_id.is_none_or(|stream| stream == a_try.stream),
        _ => true,
    }
}

impl fmt::Debug for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} calls, {} failed: {:#?}", self.done.len(), self.failed().len(), self.errors())
    }
}
