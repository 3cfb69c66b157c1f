//! What every request goes through first: checks, then the way to the control plane or into a sandbox.

use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::Query;
use axum::response::{IntoResponse, Response};
use futures_util::future::BoxFuture;
use http::header::{self, HeaderValue};
use http::{Method, Request, StatusCode};
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use oncebox_protocol::api::LogLevel;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tower::ServiceExt;

use crate::control::Control;
use crate::cut;
use crate::dashboard;
use crate::dispatch::{self, Call};
use crate::drain;
use crate::gate::{self, Hosts, Target};
use crate::idle::{Held, Requests};
use crate::lifeline::ENVD_PORT;
use crate::misbehave::{Cutter, How, Misbehaviour};
use crate::proxy;
use crate::refusal::Refusal;
use crate::registry::Registry;
use crate::signature::{FilesQuery, Operation};

/// Largest head of a request.
const MAX_HEAD: usize = 64 << 10;
/// How long a connection may be without a complete head, between requests too: above the 300 seconds that clients keep
/// idle connections, so that they close them and do not run into ours.
const HEAD_LIMIT: Duration = Duration::from_secs(330);
/// How long a connection may be without a request while more than half of the server's connections are in use.
const CROWDED_LIMIT: Duration = Duration::from_secs(5);
/// Requests at a time on one HTTP/2 connection.
const MAX_STREAMS: u32 = 250;

/// The server's front.
pub(crate) struct Front {
    pub(crate) registry: Arc<Registry>,
    pub(crate) control: Control,
    pub(crate) routes: Router,
    pub(crate) allowed_origins: Vec<String>,
    pub(crate) misbehaviour: Arc<Misbehaviour>,
    pub(crate) hosts: Hosts,
}

impl Front {
    /// Serves one connection to its end, HTTP/1.1 or HTTP/2 as it begins. While `crowded` says so, it ends when it is idle.
    pub(crate) async fn serve(self: Arc<Self>, connection: TcpStream, crowded: impl Fn() -> bool) {
        // Small answers should not wait for more.
        let _ = connection.set_nodelay(true);
        let mut http = auto::Builder::new(TokioExecutor::new());
        http.http1().timer(TokioTimer::new()).header_read_timeout(HEAD_LIMIT).max_buf_size(MAX_HEAD);
        http.http2()
            .timer(TokioTimer::new())
            .max_concurrent_streams(MAX_STREAMS)
            .max_header_list_size(u32::try_from(MAX_HEAD).unwrap_or(u32::MAX));
        let requests = Requests::new();
        let held = requests.clone();
        let cutter = Cutter::default();
        let cutting = cutter.clone();
        let service = hyper::service::service_fn(move |request: Request<Incoming>| {
            let (front, held) = (Arc::clone(&self), held.hold());
            let cutting = cutting.clone();
            async move {
                let mut request = request.map(Body::new);
                request.extensions_mut().insert(cutting.clone());
                let response = match front.serve_one(request).await {
                    Ok(response) => response,
                    Err(how) => {
                        cutting.cut(how);
                        std::future::pending().await
                    }
                };
                Ok::<_, Infallible>(response.map(|body| Body::new(Held::new(body, held))))
            }
        });
        let connection = TokioIo::new(Resettable { stream: connection, reset: cutter.resets() });
        let mut connection = std::pin::pin!(http.serve_connection_with_upgrades(connection, service));
        let too_long = || requests.idle_for().is_some_and(|idle| idle >= CROWDED_LIMIT) && crowded();
        let mut told = false;
        loop {
            let served = tokio::select! {
                served = tokio::time::timeout(CROWDED_LIMIT / 2, connection.as_mut()) => served,
                // Without a word: what it still carried is lost.
                () = cutter.notified() => return,
            };
            match served {
                Ok(Ok(())) => return,
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
    }

    async fn serve_one(self: &Arc<Self>, request: Request<Body>) -> Result<Response, How> {
        // A sandbox may answer before all was said, and go on listening.
        if matches!(gate::target(request.uri(), request.headers(), &self.hosts), Ok(Target::Sandbox { .. })) {
            return self.answer(request).await;
        }
        drain::answered(request, |request| self.answer(request)).await
    }

    async fn answer(self: &Arc<Self>, request: Request<Body>) -> Result<Response, How> {
        let origin = match gate::check_origin(request.headers(), &self.allowed_origins) {
            Ok(origin) => origin.cloned(),
            Err(refusal) => return Ok(refusal.into_response()),
        };
        match origin {
            None => self.route(request).await,
            Some(origin) if request.method() == Method::OPTIONS => Ok(preflight(&request, origin)),
            Some(origin) => {
                let mut response = self.route(request).await?;
                response.headers_mut().insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
                response.headers_mut().append(header::VARY, HeaderValue::from_static("Origin"));
                response.headers_mut().insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED);
                Ok(response)
            }
        }
    }

    /// The one place through which all requests go: around it are the faults, and the effects are counted.
    async fn route(self: &Arc<Self>, request: Request<Body>) -> Result<Response, How> {
        let target = match gate::target(request.uri(), request.headers(), &self.hosts) {
            Ok(target) => target,
            Err(refusal) => return Ok(refusal.into_response()),
        };
        if target == Target::Server && request.uri().path() == "/" && request.method() == Method::GET {
            if let Err(refusal) = self.control.check_visitor(request.headers()) {
                return Ok(dashboard::ask_for_token(refusal));
            }
            return Ok(dashboard::page(&self.registry, &self.misbehaviour).await);
        }
        if target == Target::Server && Misbehaviour::is_for(request.uri().path()) {
            // Whoever can make the server misbehave can do anything with it.
            if let Err(refusal) = self.control.check_token(request.headers()) {
                return Ok(refusal.into_response());
            }
            return Ok(self.misbehaviour.manage(request).await);
        }
        let call = Call::of(&target, request.method(), request.uri().path());
        let sandbox = match &target {
            Target::Sandbox { id, .. } => Some(id.clone()),
            Target::Server => None,
        };
        let front = Arc::clone(self);
        let handle = Box::new(move |request| {
            Box::pin(async move { dispatch::around(call, request, |request| front.handle(target, request)).await })
                as BoxFuture<'static, Response>
        });
        self.misbehaviour.answer(call, sandbox.as_deref(), request, handle).await
    }

    async fn handle(&self, target: Target, request: Request<Body>) -> Response {
        match target {
            Target::Sandbox { id, port } => {
                self.registry.wake(&id).await;
                let call = request.extensions().get::<Call>().copied();
                let Some(sandbox) = self.registry.find(&id) else {
                    return proxy::answer(&self.registry, &id, port, request).await;
                };
                let cut = sandbox.cut();
                let response = cut::unless(cut, &sandbox, proxy::answer(&self.registry, &id, port, request)).await;
                if let Some(Call { operation: Some(operation) }) = call {
                    sandbox.note(LogLevel::Debug, format!("{}: {}", operation.id, response.status().as_u16()));
                }
                response
            }
            Target::Server if request.uri().path() == "/files" => self.signed_files(request).await,
            Target::Server => {
                let answered: Result<Response, Infallible> = self.routes.clone().oneshot(request).await;
                answered.unwrap_or_else(|never| match never {})
            }
        }
    }

    /// A signed URL of a server that is addressed by one name for all sandboxes does not say which one it is for.
    async fn signed_files(&self, request: Request<Body>) -> Response {
        let query = Query::<FilesQuery>::try_from_uri(request.uri()).map(|Query(query)| query);
        let sandbox = match (query, Operation::of(request.method())) {
            (Ok(query), Some(operation)) => self.registry.find_signed(&query, operation),
            _ => None,
        };
        match sandbox {
            Some(sandbox) => proxy::answer(&self.registry, &sandbox.id, ENVD_PORT, request).await,
            None => Refusal::new(
                StatusCode::UNAUTHORIZED,
                "no running sandbox signed this: name the sandbox in E2b-Sandbox-Id, or sign the URL",
            )
            .into_response(),
        }
    }
}

/// What pages of allowed origins may read.
const EXPOSED: HeaderValue = HeaderValue::from_static(
    "Date, Retry-After, Should-Retry, RateLimit-Limit, RateLimit-Remaining, RateLimit-Reset, X-Next-Token, X-Total-Running, \
     X-E2B-Trace-ID",
);

fn preflight(request: &Request<Body>, origin: HeaderValue) -> Response {
    let mut response = StatusCode::NO_CONTENT.into_response();
    let headers = response.headers_mut();
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    headers.insert(header::VARY, HeaderValue::from_static("Origin, Access-Control-Request-Headers"));
    headers
        .insert(header::ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("GET, HEAD, POST, PUT, PATCH, DELETE"));
    // Whatever the page wishes to send: its origin is allowed to use all of this server.
    if let Some(asked) = request.headers().get(header::ACCESS_CONTROL_REQUEST_HEADERS) {
        headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, asked.clone());
    }
    headers.insert(header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("600"));
    response
}

/// A connection that can end with a RST in place of a FIN.
struct Resettable {
    stream: TcpStream,
    reset: Arc<AtomicBool>,
}

impl Drop for Resettable {
    fn drop(&mut self) {
        if self.reset.load(Ordering::Relaxed) {
            let _ = self.stream.set_zero_linger();
        }
    }
}

impl AsyncRead for Resettable {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Resettable {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
