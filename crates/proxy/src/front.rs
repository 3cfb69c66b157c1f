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

use crate::answer::{AnswerBody, whole};
use crate::carry::{carry, is_create, refuse};
use crate::create::{Keys, create};
use crate::domains::Domains;
use crate::gate::{Gate, Target};
use crate::orphans::Orphans;
use crate::status::{Status, Tally, page};

/// Largest head of a request.
const MAX_HEAD: usize = 64 << 10;

/// How long a connection may be without a complete head, between requests too: above the 300 seconds that clients keep idle
/// connections, so that they close them and do not run into ours.
const HEAD_LIMIT: Duration = Duration::from_secs(330);

/// Requests at a time on one HTTP/2 connection.
const MAX_STREAMS: u32 = 250;

/// The proxy's front.
pub(crate) struct Front {
    pub(crate) forward: Forward,
    pub(crate) gate: Gate,
    pub(crate) sandbox_retries: u32,
    pub(crate) domains: Domains,
    pub(crate) orphans: Arc<Orphans>,
    pub(crate) keys: Keys,
    pub(crate) tally: Arc<Tally>,
}

impl Front {
    pub(crate) fn status(&self) -> Status {
        self.tally.status(self.orphans.count())
    }

    /// Serves one connection to its end, HTTP/1.1 or HTTP/2 as it begins.
    pub(crate) async fn serve(self: Arc<Self>, connection: TcpStream) {
        // Small answers should not wait for more.
        let _ = connection.set_nodelay(true);
        let mut http = auto::Builder::new(TokioExecutor::new());
        http.http1().timer(TokioTimer::new()).header_read_timeout(HEAD_LIMIT).max_buf_size(MAX_HEAD);
        http.http2()
            .timer(TokioTimer::new())
            .max_concurrent_streams(MAX_STREAMS)
            .max_header_list_size(u32::try_from(MAX_HEAD).unwrap_or(u32::MAX));
        let service = service_fn(move |request| {
            let front = Arc::clone(&self);
            async move { Ok::<_, Infallible>(front.answer(request).await) }
        });
        if let Err(error) = http.serve_connection(TokioIo::new(connection), service).await {
            tracing::debug!(%error, "a connection ended with an error");
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
