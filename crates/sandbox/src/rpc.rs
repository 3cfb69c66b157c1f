//! Connect RPCs to a sandbox's envd over our transport, and plain requests to it.

mod transport;
mod watch;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use connectrpc::client::ClientConfig;
use http::header::{AUTHORIZATION, HeaderName, USER_AGENT};
use http::{HeaderMap, HeaderValue, Request, Response, Uri};
use http_body_util::{BodyExt, Limited};
use oncebox_protocol::envd::filesystem::FilesystemClient;
use oncebox_protocol::envd::process::ProcessClient;
use oncebox_protocol::headers::{CONNECT_TIMEOUT_MS, KEEPALIVE_PING_INTERVAL, X_ACCESS_TOKEN};
use oncebox_protocol::{Operation, SecretString, answers, operations};
use oncebox_transport::{Body, CallOptions, History, ResponseBody, TrafficClass};
use tokio::time::Instant;

use crate::client::AGENT;
use crate::endpoint::ENVD_PORT;
use crate::once::Fate;
use crate::sandbox::check_fate;
use crate::{Client, Error};

use transport::RpcTransport;
pub(crate) use watch::CutWatch;

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
        successful(action, response, Error::sandbox_answer).await
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

/// Calls to a sandbox are replayed when they were provably not processed, and not otherwise: what came back is for
/// the caller to judge.
pub(crate) fn sandbox_options(operation: &Operation) -> CallOptions {
    data_options(operation).answer_reader(answers::read)
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

/// An answer, or the error that `explain` makes of one that is no success.
pub(crate) async fn successful(
    action: &str,
    response: Response<ResponseBody>,
    explain: fn(&str, u16, &[u8], Option<&History>) -> Error,
) -> Result<Response<ResponseBody>, Error> {
    if response.status().is_success() {
        return Ok(response);
    }
    let (head, body) = response.into_parts();
    let body = read_error(body).await;
    Err(explain(action, head.status.as_u16(), &body, head.extensions.get::<History>()))
}

async fn read_error(body: ResponseBody) -> Bytes {
    Limited::new(body, MAX_ERROR_BODY).collect().await.map(|body| body.to_bytes()).unwrap_or_default()
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
