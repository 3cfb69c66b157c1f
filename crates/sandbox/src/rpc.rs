//! Connect RPCs to a sandbox's envd over our transport, and plain requests to it.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use connectrpc::client::{BoxFuture, ClientBody, ClientConfig, ClientTransport};
use http::header::{AUTHORIZATION, CONTENT_TYPE, HeaderName, USER_AGENT};
use http::{HeaderMap, HeaderValue, Request, Response, Uri};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use oncebox_protocol::envd::filesystem::FilesystemClient;
use oncebox_protocol::envd::process::ProcessClient;
use oncebox_protocol::headers::{CONNECT_TIMEOUT_MS, KEEPALIVE_PING_INTERVAL, X_ACCESS_TOKEN};
use oncebox_protocol::{Operation, SecretString, Table, operations};
use oncebox_transport::{Body, BodyError, BoxError, CallOptions, History, ResponseBody, TrafficClass};

use tokio::time::Instant;

use crate::answers::SandboxAnswers;
use crate::client::AGENT;
use crate::endpoint::ENVD_PORT;
use crate::once::Fate;
use crate::sandbox::check_fate;
use crate::{Client, Error};

/// How often envd shows that a silent stream is alive, in seconds (protocol fact: what the official SDKs ask for; it
/// has to be below the 60 s after which proxies cut idle streams).
const KEEPALIVE_SECONDS: u16 = 50;

/// The same as a time.
pub(crate) const KEEPALIVE: Duration = Duration::from_secs(KEEPALIVE_SECONDS as u64);

/// A stream on which nothing came for this many keepalive intervals is dead.
pub(crate) const MISSED_KEEPALIVES: f64 = 2.5;

/// The largest error body that is read.
const MAX_ERROR_BODY: usize = 64 << 10;

/// The way to one sandbox's envd.
#[derive(Clone, Debug)]
pub(crate) struct Envd {
    client: Client,
    base: String,
    headers: HeaderMap,
    fate: Arc<Fate>,
}

impl Envd {
    pub(crate) fn new(
        client: &Client,
        sandbox_id: &str,
        domain: Option<&str>,
        token: Option<&SecretString>,
    ) -> Result<Self, Error> {
        let (base, mut headers) = client.endpoint().sandbox(sandbox_id, ENVD_PORT, domain)?;
        headers.insert(USER_AGENT, AGENT.clone());
        if let Some(token) = token {
            headers.insert(X_ACCESS_TOKEN, secret(token.expose(), "the sandbox's access token")?);
        }
        Ok(Self { client: client.clone(), base, headers, fate: Arc::default() })
    }

    /// Where it is told that the sandbox lost to another one of its intent.
    pub(crate) fn shares(self, fate: Arc<Fate>) -> Self {
        Self { fate, ..self }
    }

    /// The same way with another client's options.
    pub(crate) fn of(&self, client: &Client) -> Self {
        Self { client: client.clone(), ..self.clone() }
    }

    pub(crate) fn process(&self, call: RpcCall<'_>) -> Result<ProcessClient<RpcTransport>, Error> {
        let (transport, config) = self.rpc(call)?;
        Ok(ProcessClient::new(transport, config))
    }

    pub(crate) fn filesystem(&self, call: RpcCall<'_>) -> Result<FilesystemClient<RpcTransport>, Error> {
        let (transport, config) = self.rpc(call)?;
        Ok(FilesystemClient::new(transport, config))
    }

    fn rpc(&self, call: RpcCall<'_>) -> Result<(RpcTransport, ClientConfig), Error> {
        check_fate(&self.fate, "call the sandbox")?;
        let base: Uri = self.base.parse().map_err(|e| Error::invalid(format!("sandbox_url: {e}")))?;
        let mut headers = self.headers.clone();
        let keepalive = call.stream.as_ref().map_or(KEEPALIVE, |watch| watch.keepalive);
        headers.insert(KEEPALIVE_PING_INTERVAL, HeaderValue::from(keepalive.as_secs()));
        if let Some(user) = call.user {
            headers.insert(AUTHORIZATION, basic(user)?);
        }
        if let Some(limit) = call.remote_timeout {
            let milliseconds = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
            headers.insert(CONNECT_TIMEOUT_MS, HeaderValue::from(milliseconds));
        }
        let transport =
            RpcTransport { client: self.client.clone(), headers, stream: call.stream, uploads: call.uploads };
        Ok((transport, ClientConfig::new(base).json()))
    }

    /// A plain request to envd, `/files` for one.
    pub(crate) async fn send(
        &self,
        action: &str,
        operation: &'static Operation,
        query: &str,
        headers: HeaderMap,
        body: Body,
    ) -> Result<Response<ResponseBody>, Error> {
        check_fate(&self.fate, action)?;
        let mut request = Request::builder()
            .method(operation.method.clone())
            .uri(format!("{}{}{query}", self.base, operation.path))
            .body(body)
            .map_err(|e| Error::invalid(format!("{action}: {e}")))?;
        *request.headers_mut() = self.client.headers();
        request.headers_mut().extend(self.headers.clone());
        request.headers_mut().extend(headers);
        let mut options = self.client.own().apply(sandbox_options(operation));
        if is_bulk(operation) {
            options = options.class(TrafficClass::Bulk);
        }
        let began = Instant::now();
        let ended = self.client.transport().send(request, options).await;
        self.client.note(began, &ended);
        let response = ended.map_err(|error| Error::transport(action, error))?.into_http();
        if response.status().is_success() {
            return Ok(response);
        }
        let status = response.status().as_u16();
        let history = response.extensions().get::<History>().cloned();
        let body = read_error(response.into_body()).await;
        Err(Error::sandbox_answer(action, status, &body, history.as_ref()))
    }
}

/// How one RPC is made.
#[derive(Clone, Debug, Default)]
pub(crate) struct RpcCall<'a> {
    /// As whom; `None` is the sandbox's default user.
    pub(crate) user: Option<&'a str>,
    /// The time after which the server ends what the call started.
    pub(crate) remote_timeout: Option<Duration>,
    /// The response is a stream that lives as long as what it tells of, and this is told when it is cut.
    pub(crate) stream: Option<CutWatch>,
    /// The request is a stream that is sent as it comes, for as long as it takes.
    pub(crate) uploads: bool,
}

/// Watches a stream that shows at intervals that it is alive, and learns how its body was cut. The RPC library keeps of
/// that only a text, in which a lost connection looks like an error of the server's.
#[derive(Clone, Debug)]
pub(crate) struct CutWatch {
    /// How often the server is asked to show that it is there. Whole seconds.
    keepalive: Duration,
    /// A stream on which nothing came for this long is dead; zero: never.
    silence: Duration,
    seen: Arc<Mutex<Seen>>,
}

#[derive(Debug, Default)]
struct Seen {
    cut: Option<String>,
    history: Option<History>,
}

impl CutWatch {
    pub(crate) fn new(keepalive: Duration, silence: Duration) -> Self {
        Self { keepalive, silence, seen: Arc::default() }
    }

    /// How the body was cut; `None` when the server ended the stream itself.
    pub(crate) fn cut(&self) -> Option<String> {
        self.lock().cut.clone()
    }

    /// The attempts of the call whose answer the stream is.
    pub(crate) fn history(&self) -> Option<History> {
        self.lock().history.clone()
    }

    fn note(&self, how: String) {
        self.lock().cut.get_or_insert(how);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for CutWatch {
    fn default() -> Self {
        Self::new(KEEPALIVE, KEEPALIVE.mul_f64(MISSED_KEEPALIVES))
    }
}

/// A response body whose end is watched. The library stops reading once the stream's own end has come, so whatever ends
/// the body before that cuts it.
struct Watched {
    body: ResponseBody,
    watch: CutWatch,
}

impl http_body::Body for Watched {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = &mut *self;
        let frame = ready!(Pin::new(&mut this.body).poll_frame(cx));
        match &frame {
            Some(Ok(_)) => {}
            Some(Err(error)) if error.is_idle_timeout() => {
                let silence = this.watch.silence;
                this.watch.note(format!("nothing came, not even a keepalive, for {silence:?} (silence)"));
            }
            Some(Err(error)) => this.watch.note(error.to_string()),
            None => this.watch.note("the stream ended too early".to_owned()),
        }
        Poll::Ready(frame)
    }
}

/// Carries Connect RPCs over [`oncebox_transport`].
#[derive(Clone, Debug)]
pub(crate) struct RpcTransport {
    client: Client,
    headers: HeaderMap,
    stream: Option<CutWatch>,
    uploads: bool,
}

impl ClientTransport for RpcTransport {
    type ResponseBody = UnsyncBoxBody<Bytes, BoxError>;
    type Error = Error;

    fn send(&self, request: Request<ClientBody>) -> BoxFuture<'static, Result<Response<Self::ResponseBody>, Error>> {
        let this = self.clone();
        Box::pin(async move { this.carry(request).await })
    }
}

impl RpcTransport {
    async fn carry(self, request: Request<ClientBody>) -> Result<Response<UnsyncBoxBody<Bytes, BoxError>>, Error> {
        let (mut head, body) = request.into_parts();
        let action = "call the sandbox";
        let body = if self.uploads {
            Body::stream(body)
        } else {
            // Unary and server-streaming calls have their one message at hand.
            Body::from(body.collect().await.map_err(|error| Error::rpc(action, error))?.to_bytes())
        };
        let mut headers = self.client.headers();
        headers.extend(std::mem::take(&mut head.headers));
        headers.extend(self.headers);
        head.headers = headers;
        let table = Table::envd();
        let options = match table.find(&head.method, head.uri.path()) {
            Some(operation) => self.client.own().apply(sandbox_options(operation)),
            None => CallOptions::new().retries(0),
        };
        // How fast a stream is taken is up to the command that reads it.
        let options = if self.uploads { options.write_idle_timeout(Duration::ZERO) } else { options };
        let request = Request::from_parts(head, body);
        let transport = self.client.transport();
        let failed = |error| Error::transport(action, error);
        let began = Instant::now();

        if let Some(watch) = self.stream {
            // A silent command is not a dead connection: keepalives tell the two apart.
            let options = options.read_idle_timeout(watch.silence);
            let ended = transport.send(request, options).await;
            self.client.note(began, &ended);
            let response = ended.map_err(failed)?;
            watch.lock().history = Some(response.history().clone());
            let response = response.into_http();
            if response.status().is_success() {
                return Ok(response.map(|body| Watched { body, watch }.map_err(BoxError::from).boxed_unsync()));
            }
            let (head, body) = response.into_parts();
            let body = read_error(body).await;
            return connect_error_or_ours(action, Response::from_parts(head, body));
        }
        let ended = transport.send_collected(request, options).await;
        self.client.note(began, &ended);
        let response = ended.map_err(failed)?.into_http();
        if response.status().is_success() {
            return Ok(response.map(whole));
        }
        connect_error_or_ours(action, response)
    }
}

/// An answer that is no success is either a Connect error, whose `code` is a word, or comes from something in
/// between, such as the sandbox edge.
fn connect_error_or_ours(
    action: &str,
    response: Response<Bytes>,
) -> Result<Response<UnsyncBoxBody<Bytes, BoxError>>, Error> {
    let is_connect = serde_json::from_slice::<serde_json::Value>(response.body())
        .is_ok_and(|body| body.get("code").is_some_and(serde_json::Value::is_string));
    let is_stream =
        response.headers().get(CONTENT_TYPE).is_some_and(|t| t.as_bytes().starts_with(b"application/connect"));
    if is_connect && !is_stream {
        return Ok(response.map(whole));
    }
    let history = response.extensions().get::<History>();
    Err(Error::sandbox_answer(action, response.status().as_u16(), response.body(), history))
}

fn whole(body: Bytes) -> UnsyncBoxBody<Bytes, BoxError> {
    Full::new(body).map_err(|never| match never {}).boxed_unsync()
}

/// Calls to a sandbox are replayed when they were provably not processed, and not otherwise: what came back is for
/// the caller to judge.
pub(crate) fn sandbox_options(operation: &Operation) -> CallOptions {
    data_options(operation).answer_reader(&SandboxAnswers)
}

/// The same where no sandbox answers.
pub(crate) fn data_options(operation: &Operation) -> CallOptions {
    let options = CallOptions::new().retries(0).mints(operation.mints);
    match operation.permit() {
        Some(permit) => options.permit(permit),
        None => options,
    }
}

/// Whether what is carried may be large, or read slowly: commands must not wait behind it.
fn is_bulk(operation: &Operation) -> bool {
    operation.id == operations::READ_FILE.id || operation.id == operations::WRITE_FILES.id
}

pub(crate) async fn read_error(body: ResponseBody) -> Bytes {
    let limited = http_body_util::Limited::new(body, MAX_ERROR_BODY);
    limited.collect().await.map(|body| body.to_bytes()).unwrap_or_default()
}

pub(crate) fn is_user_name(user: &str) -> bool {
    !user.is_empty() && !user.contains(':') && !user.chars().any(char::is_control)
}

/// `Basic` credentials with a user and no password (protocol fact: how a call names its user).
fn basic(user: &str) -> Result<HeaderValue, Error> {
    if !is_user_name(user) {
        return Err(Error::invalid(format!("user: {user:?} is no user name")));
    }
    secret(&format!("Basic {}", base64(format!("{user}:").as_bytes())), "user")
}

pub(crate) fn secret(text: &str, what: &str) -> Result<HeaderValue, Error> {
    let mut value = HeaderValue::try_from(text)
        .map_err(|_| Error::invalid(format!("{what} holds characters that a header cannot carry")))?;
    value.set_sensitive(true);
    Ok(value)
}

fn base64(bytes: &[u8]) -> String {
    use base64::Engine;
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

/// `?name=value&…`, percent-encoded.
pub(crate) fn query<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let mut serializer = url::form_urlencoded::Serializer::new(String::new());
    serializer.extend_pairs(pairs);
    match serializer.finish() {
        empty if empty.is_empty() => empty,
        // A plus sign stands for a space only in forms; %20 does everywhere.
        query => format!("?{}", query.replace('+', "%20")),
    }
}

/// A header for a request.
pub(crate) fn header(name: HeaderName, value: &str) -> Result<HeaderMap, Error> {
    let value = HeaderValue::try_from(value).map_err(|_| Error::invalid(format!("{value:?} is no header value")))?;
    Ok(HeaderMap::from_iter([(name, value)]))
}
