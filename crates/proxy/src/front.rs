//! What every request goes through first, and the connections it comes on.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderValue, Request, Response};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use oncebox::forward::Forward;
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::time::timeout;

use crate::answer::{AnswerBody, whole};
use crate::carry::{carry, is_create, refuse};
use crate::create::{Keys, create};
use crate::domains::Domains;
use crate::gate::{Gate, Target};
use crate::orphans::Orphans;
use crate::room::{Calls, Room, holding};
use crate::status::{Status, Tally, page};
use crate::tunnel::Place;

/// Largest head of a request.
const MAX_HEAD: usize = 64 << 10;

/// How long a connection may be without a complete head, between requests too: above the 300 seconds that clients keep idle
/// connections, so that they close them and do not run into ours.
const HEAD_LIMIT: Duration = Duration::from_secs(330);

/// Requests at a time on one HTTP/2 connection.
const MAX_STREAMS: u32 = 250;

/// How long a connection may be without a call while more than half of those allowed are in use, and how long one may take to
/// hear that it is one too many.
const CROWDED_LIMIT: Duration = Duration::from_secs(5);

/// The proxy's front.
pub(crate) struct Front {
    pub(crate) forward: Forward,
    pub(crate) gate: Gate,
    pub(crate) sandbox_retries: u32,
    pub(crate) domains: Domains,
    pub(crate) orphans: Arc<Orphans>,
    pub(crate) keys: Keys,
    pub(crate) tally: Arc<Tally>,
    pub(crate) room: Room,
}

impl Front {
    pub(crate) fn status(&self) -> Status {
        self.tally.status(self.orphans.count())
    }

    /// Serves one connection to its end, HTTP/1.1 or HTTP/2 as it begins, or whatever its protocol changes to. Where there are
    /// many, it ends when it is idle.
    pub(crate) async fn serve(self: Arc<Self>, connection: TcpStream) {
        let (front, place, calls) = (Arc::clone(&self), Place::default(), Calls::new());
        let (held, placed) = (calls.clone(), place.clone());
        let service = service_fn(move |mut request: Request<Incoming>| {
            let (front, call) = (Arc::clone(&front), held.one());
            request.extensions_mut().insert(placed.clone());
            async move { Ok::<_, Infallible>(holding(front.take(request).await, call)) }
        });
        let http = http(true);
        let connection = TokioIo::new(prompt(connection));
        let mut connection = std::pin::pin!(http.serve_connection_with_upgrades(connection, service));
        let too_long = || self.room.is_crowded() && calls.idle_for().is_some_and(|idle| idle >= CROWDED_LIMIT);
        let mut told = false;
        loop {
            match timeout(CROWDED_LIMIT / 2, connection.as_mut()).await {
                Ok(Ok(())) => break,
                Ok(Err(error)) => {
                    tracing::debug!(%error, "a connection ended with an error");
                    return;
                }
                Err(_) if !too_long() => {}
                // It did not end: it sent a part of a head, or does not read.
                Err(_) if told => return,
                Err(_) => {
                    connection.as_mut().graceful_shutdown();
                    told = true;
                }
            }
        }
        place.run().await;
    }

    /// Answers what comes on a connection that is one too many, and ends it.
    pub(crate) async fn turn_away(self: Arc<Self>, connection: TcpStream) {
        self.tally.count(|counts| counts.crowded += 1);
        let (front, answered) = (Arc::clone(&self), Arc::new(Notify::new()));
        let answers = Arc::clone(&answered);
        let service = service_fn(move |request: Request<Incoming>| {
            let (front, answers) = (Arc::clone(&front), Arc::clone(&answers));
            async move {
                crate::body::drain(request.into_body()).await;
                answers.notify_one();
                Ok::<_, Infallible>(front.room.no_connection())
            }
        });
        let http = http(false);
        let serving = async {
            let connection = TokioIo::new(prompt(connection));
            let mut connection = std::pin::pin!(http.serve_connection(connection, service));
            tokio::select! {
                _ = connection.as_mut() => return,
                () = answered.notified() => connection.as_mut().graceful_shutdown(),
            }
            let _ = connection.await;
        };
        let _ = timeout(CROWDED_LIMIT, serving).await;
    }

    /// Answers a request for which there is room.
    async fn take(self: &Arc<Self>, request: Request<Incoming>) -> Response<AnswerBody> {
        match self.room.call() {
            Some(permit) => holding(self.answer(request).await, permit),
            None => {
                self.tally.count(|counts| counts.crowded += 1);
                crate::body::drain(request.into_body()).await;
                self.room.no_call()
            }
        }
    }

    async fn answer(self: &Arc<Self>, request: Request<Incoming>) -> Response<AnswerBody> {
        let (mut parts, body) = request.into_parts();
        let target = match self.gate.admit(&mut parts) {
            Ok(target) => target,
            Err(refusal) => {
                crate::body::drain(body).await;
                return refusal.into_response();
            }
        };
        let to = match &target {
            Target::Status { json } => return self.told(*json),
            Target::Api => "api".to_owned(),
            Target::Volumes => "volumes".to_owned(),
            Target::SignedFiles => "files".to_owned(),
            Target::Sandbox { id, port } => format!("{id}:{port}"),
        };
        let watch = self.tally.begin(to, &parts.method, parts.uri.path());
        if !matches!(parts.uri.path().as_bytes(), [b'/', ..]) {
            let refusal =
                crate::answer::Refusal::bad_request("this is no forward proxy: set E2B_API_URL to its address");
            return refuse(refusal, watch, Some(body)).await;
        }
        match is_create(&parts.method, parts.uri.path()).filter(|_| target == Target::Api) {
            Some(is_v1) => create(self, parts, body, is_v1, watch).await,
            None => carry(self, target, parts, body, watch).await,
        }
    }

    fn told(&self, json: bool) -> Response<AnswerBody> {
        let status = self.status();
        let (text, kind) = if json {
            (serde_json::to_string(&status).unwrap_or_default(), "application/json")
        } else {
            (page(&status), "text/html; charset=utf-8")
        };
        let mut response = Response::new(whole(text.into()));
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
        response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        response
    }
}

/// How connections are served. `keeps`: after an answer another request may come.
fn http(keeps: bool) -> auto::Builder<TokioExecutor> {
    let mut http = auto::Builder::new(TokioExecutor::new());
    http.http1().timer(TokioTimer::new()).header_read_timeout(HEAD_LIMIT).max_buf_size(MAX_HEAD).keep_alive(keeps);
    http.http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(MAX_STREAMS)
        .max_header_list_size(u32::try_from(MAX_HEAD).unwrap_or(u32::MAX));
    http
}

/// Small answers should not wait for more.
fn prompt(connection: TcpStream) -> TcpStream {
    let _ = connection.set_nodelay(true);
    connection
}
