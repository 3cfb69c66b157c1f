//! The client: options, credentials, and the way to the servers.

use std::fmt;
use std::sync::Arc;
#[cfg(feature = "local")]
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, HOST, USER_AGENT};
use http::{HeaderMap, HeaderValue, Request, Response};
use oncebox_protocol::Operation;
use oncebox_protocol::headers::X_API_KEY;
use oncebox_transport::policy::IdempotencyKeys;
use oncebox_transport::policy::Policy;
use oncebox_transport::policy::create::Intent;
use oncebox_transport::{Body, BoxError, History, HttpVersion};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::config::{Config, Credentials, Given, VARIABLES, api_key};
use crate::endpoint::Endpoint;
use crate::error::{Error, ErrorKind};
use crate::once::{CreateOptions, Creates, Leftover, Order, Origin, lock};
use crate::options::{CallOptions, Own};
use crate::sandbox::Sandbox;

pub(crate) static AGENT: HeaderValue = HeaderValue::from_static(concat!("oncebox-rust/", env!("CARGO_PKG_VERSION")));

/// A connection to one sandbox provider. Clones are cheap and share everything.
///
/// ```no_run
/// # async fn example() -> Result<(), oncebox::Error> {
/// use oncebox::{Client, Sandbox};
///
/// let client = Client::from_env()?; // E2B_API_KEY, E2B_DOMAIN, E2B_API_URL, …
/// let sandbox = Sandbox::create(&client).await?;
/// let output = sandbox.commands().run("echo hello").await?;
/// assert_eq!(output.stdout_text(), "hello\n");
/// sandbox.kill().await?;
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Client {
    inner: Arc<Inner>,
    /// Options over those of the client that it comes from.
    own: Arc<Own>,
}

struct Inner {
    config: Config,
    creates: Creates,
    minting: tokio::sync::Mutex<()>,
    #[cfg(feature = "local")]
    local: Mutex<Option<oncebox_local::LocalServer>>,
}

impl Client {
    /// A client with options from the environment: `E2B_API_KEY`, `E2B_DOMAIN`, `E2B_API_URL`, `E2B_SANDBOX_URL`,
    /// `E2B_VOLUME_API_URL`, `E2B_DEBUG`, `E2B_CONNECTION_RETRIES`, `E2B_HTTP_VERSION`, `E2B_MAX_CONNECTIONS`, `E2B_KEEPALIVE_EXPIRY`.
    ///
    /// # Errors
    ///
    /// When there is no API key, or a variable makes no sense.
    pub fn from_env() -> Result<Self, Error> {
        Self::builder().build()
    }

    /// Sets options; what is not set comes from the environment as in [`from_env`](Self::from_env), then from the
    /// defaults.
    pub fn builder() -> ClientBuilder {
        ClientBuilder::default()
    }

    /// A client of an embedded sandbox host that is started for it, on the caller's tokio runtime. Needs no account.
    ///
    /// The host ends, with all its sandboxes, on [`close`](Self::close) or when the last clone of the client is
    /// dropped.
    ///
    /// # Errors
    ///
    /// When this machine's kernel does not allow sandboxes to be isolated, or the host's helper program is not found;
    /// the message says what to do.
    #[cfg(feature = "local")]
    pub async fn local() -> Result<Self, Error> {
        let server = oncebox_local::LocalServer::start()
            .await
            .map_err(|error| Error::new(ErrorKind::Unsupported, "start the local sandbox host", error.to_string()))?;
        Self::of(server)
    }

    /// A client of an embedded sandbox host that is already running. The host ends with the client.
    ///
    /// # Errors
    ///
    /// None in practice: the host's own address is always a good one.
    #[cfg(feature = "local")]
    pub fn of(server: oncebox_local::LocalServer) -> Result<Self, Error> {
        let given = Given {
            // The local host takes any key.
            api_key: Some("local".into()),
            api_url: Some(server.url()),
            sandbox_url: Some(server.url()),
            volume_api_url: Some(server.url()),
            http_version: Some(HttpVersion::Http1),
            ..Given::default()
        };
        // Nothing of the environment: it speaks of another server.
        let config = Config::resolve(given, &|_| None)?;
        Ok(Self {
            inner: Arc::new(Inner {
                config,
                creates: Creates::default(),
                minting: tokio::sync::Mutex::default(),
                local: Mutex::new(Some(server)),
            }),
            own: Arc::default(),
        })
    }

    /// Finds out what became of a create: the sandbox that carries this intent, or `None` when none was made. From any
    /// process that has the intent, which an [`OutcomeUnknown`](crate::ErrorKind::OutcomeUnknown) error names. It makes
    /// and kills nothing. That none was made is only believed when look-ups stayed empty for `settle`.
    ///
    /// # Errors
    ///
    /// [`InvalidArgument`](crate::ErrorKind::InvalidArgument) for a text that is no intent, before any I/O;
    /// [`OutcomeUnknown`](crate::ErrorKind::OutcomeUnknown) when it could not be found out in time.
    pub async fn resolve(&self, intent: &str) -> Result<Option<Sandbox>, Error> {
        let intent = Intent::parse(intent).map_err(|error| Error::invalid(format!("intent: {intent:?}: {error}")))?;
        let order = Order {
            intent,
            origin: Origin::Resolve,
            body: oncebox_protocol::api::NewSandbox::default(),
            idempotency_key: None,
            request_timeout: None,
            pacer: None,
        };
        self.creates().make(self, order).await
    }

    /// Ends what the client started: waits for what creates still clear away in the background, bounded by their
    /// `cleanup_timeout`, and ends the embedded host, where there is one. Returns what may live on although nobody wants
    /// it, which is nothing unless the servers could not be reached; it is also logged.
    pub async fn close(&self) -> Vec<Leftover> {
        let left = self.creates().close(self.create_options().cleanup_timeout).await;
        for left in &left {
            tracing::warn!("{left}");
        }
        #[cfg(feature = "local")]
        {
            // Taken in a statement of its own: the lock is not held while the server stops.
            let server = self.inner.local.lock().unwrap_or_else(PoisonError::into_inner).take();
            if let Some(server) = server {
                server.stop().await;
                // Its sandboxes ended with it.
                return Vec::new();
            }
        }
        left
    }

    /// The same client, whose calls have these options in place of its own. It shares everything with this one: pool,
    /// creates under way, the embedded host.
    ///
    /// ```no_run
    /// # async fn example(client: oncebox::Client) -> Result<(), oncebox::Error> {
    /// use oncebox::{CallOptions, Sandbox};
    ///
    /// let once = client.with(CallOptions::new().retries(0).header("x-team", "blue"))?;
    /// let running = Sandbox::list(&once).await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// [`InvalidArgument`](crate::ErrorKind::InvalidArgument) for an option that makes no sense.
    pub fn with(&self, options: CallOptions) -> Result<Self, Error> {
        Ok(Self { inner: Arc::clone(&self.inner), own: Arc::new(self.own.with(options)?) })
    }

    pub(crate) fn own(&self) -> &Own {
        &self.own
    }

    /// What decides about repeats.
    pub(crate) fn policy(&self) -> Policy {
        let mut policy = self.transport().policy().clone();
        policy.retries = self.own.retries.unwrap_or(policy.retries);
        policy.connection_retries = self.own.connection_retries.unwrap_or(policy.connection_retries);
        policy
    }

    /// The deadline of a call; `None`: there is none.
    pub(crate) fn request_timeout(&self) -> Option<Duration> {
        match self.own.request_timeout {
            Some(own) => (!own.is_zero()).then_some(own),
            None => self.transport().request_timeout(),
        }
    }

    /// Held by whoever makes a thing that is found again by its name: what is new must not be another call's.
    pub(crate) fn minting(&self) -> &tokio::sync::Mutex<()> {
        &self.inner.minting
    }

    pub(crate) fn creates(&self) -> &Creates {
        &self.inner.creates
    }

    pub(crate) fn create_options(&self) -> CreateOptions {
        self.inner.config.creates
    }

    pub(crate) fn endpoint(&self) -> &Endpoint {
        &self.inner.config.endpoint
    }

    pub(crate) fn transport(&self) -> &oncebox_transport::Client {
        &self.inner.config.transport
    }

    /// A control-plane request.
    pub(crate) async fn request(&self, call: ApiCall<'_>) -> Result<Request<Body>, Error> {
        let key = match self.key() {
            Some(key) => key,
            None => self.new_key(call.action, None).await?,
        };
        let path = call
            .operation
            .path_for(&call.parameters)
            .map_err(|e| Error::invalid(format!("{}: {e}", call.operation.id)))?;
        let mut request = Request::builder()
            .method(call.operation.method.clone())
            .uri(self.endpoint().api(&format!("{path}{}", call.query)))
            .body(Body::from(call.body.unwrap_or_default()))
            .map_err(|e| Error::invalid(format!("{}: {e}", call.operation.id)))?;
        let headers = request.headers_mut();
        headers.extend(self.inner.config.headers.clone());
        headers.extend(self.own.headers.clone());
        headers.extend(call.headers);
        headers.insert(X_API_KEY, key);
        if let Some(host) = self.endpoint().host_of_api() {
            headers.insert(HOST, host.clone());
        }
        headers.insert(USER_AGENT, AGENT.clone());
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        if !matches!(request.method(), &http::Method::GET | &http::Method::DELETE) {
            request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        Ok(request)
    }

    fn key(&self) -> Option<HeaderValue> {
        if self.own.api_key.is_some() {
            return self.own.api_key.clone();
        }
        lock(&self.inner.config.api_key).clone()
    }

    /// Whether another key can be had than the one that was refused.
    pub(crate) fn can_ask_for_a_key(&self) -> bool {
        self.inner.config.credentials.is_some() && self.own.api_key.is_none()
    }

    /// Asks for a key, unless somebody else has replaced the refused one already.
    pub(crate) async fn new_key(&self, action: &str, refused: Option<HeaderValue>) -> Result<HeaderValue, Error> {
        if let Some(key) = self.key().filter(|_| refused.is_some() && self.key() != refused) {
            return Ok(key);
        }
        let Some(credentials) = &self.inner.config.credentials else {
            return Err(Error::new(ErrorKind::Authentication, action, "there is no API key"));
        };
        let asked = (credentials.0)().await;
        let key = asked.map_err(|e| Error::new(ErrorKind::Authentication, action, format!("no new API key: {e}")))?;
        let key = api_key(Some(key))?;
        *lock(&self.inner.config.api_key) = Some(key.clone());
        Ok(key)
    }

    /// Makes a control-plane call and reads its answer.
    pub(crate) async fn call(&self, call: ApiCall<'_>) -> Result<Response<Bytes>, Error> {
        let (operation, action) = (call.operation, call.action);
        let mut options = self.own.apply(oncebox_transport::CallOptions::new().mints(operation.mints));
        if let Some(permit) = operation.permit() {
            options = options.permit(permit);
        }
        if let Some(timeout) = call.request_timeout {
            options = options.request_timeout(timeout);
        }
        let again = self.can_ask_for_a_key().then(|| call.clone());
        let request = self.request(call).await?;
        let refused = request.headers().get(X_API_KEY).cloned();
        let failed = |error| Error::transport(action, error);
        let mut response = self.transport().send_collected(request, options.clone()).await.map_err(failed)?;
        // A key that has run out: with the next one it is another request.
        if response.status() == http::StatusCode::UNAUTHORIZED
            && let Some(call) = again
        {
            self.new_key(action, refused).await?;
            let request = self.request(call).await?;
            response = self.transport().send_collected(request, options).await.map_err(failed)?;
        }
        let response = response.into_http();
        if response.status().is_success() {
            return Ok(response);
        }
        Err(Error::answer(action, response.status().as_u16(), response.body(), response.extensions().get::<History>()))
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("endpoint", self.endpoint()).finish_non_exhaustive()
    }
}

/// One control-plane call.
#[derive(Clone)]
pub(crate) struct ApiCall<'a> {
    pub(crate) operation: &'static Operation,
    pub(crate) action: &'a str,
    pub(crate) parameters: Vec<&'a str>,
    /// With its question mark.
    pub(crate) query: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Option<Vec<u8>>,
    pub(crate) request_timeout: Option<Duration>,
}

impl<'a> ApiCall<'a> {
    pub(crate) fn new<const N: usize>(
        operation: &'static Operation,
        action: &'a str,
        parameters: [&'a str; N],
    ) -> Self {
        Self {
            operation,
            action,
            parameters: parameters.to_vec(),
            query: String::new(),
            headers: HeaderMap::new(),
            body: None,
            request_timeout: None,
        }
    }

    pub(crate) fn json(mut self, body: &impl Serialize) -> Result<Self, Error> {
        self.body = Some(serde_json::to_vec(body).map_err(|e| Error::invalid(format!("{}: {e}", self.action)))?);
        Ok(self)
    }
}

/// Reads an answer's JSON.
pub(crate) fn parse<T: DeserializeOwned>(action: &str, response: &Response<Bytes>) -> Result<T, Error> {
    serde_json::from_slice(response.body()).map_err(|error| Error::malformed(action, error))
}

/// Options of a [`Client`].
#[derive(Clone, Default)]
pub struct ClientBuilder {
    given: Given,
}

impl ClientBuilder {
    /// The API key. Default: `E2B_API_KEY`.
    #[must_use]
    pub fn api_key(mut self, key: impl Into<String>) -> Self {
        self.given.api_key = Some(key.into());
        self
    }

    /// The provider's domain, perhaps with a port. Default: `E2B_DOMAIN`, else `e2b.app`.
    #[must_use]
    pub fn domain(mut self, domain: impl Into<String>) -> Self {
        self.given.domain = Some(domain.into());
        self
    }

    /// Where the control plane is, in place of `https://api.<domain>`. Default: `E2B_API_URL`.
    #[must_use]
    pub fn api_url(mut self, url: impl Into<String>) -> Self {
        self.given.api_url = Some(url.into());
        self
    }

    /// Where all sandboxes are reached, told apart by headers. Default: `E2B_SANDBOX_URL`.
    #[must_use]
    pub fn sandbox_url(mut self, url: impl Into<String>) -> Self {
        self.given.sandbox_url = Some(url.into());
        self
    }

    /// Where the content of volumes is, in place of `https://api.<domain>`. Default: `E2B_VOLUME_API_URL`.
    #[must_use]
    pub fn volume_api_url(mut self, url: impl Into<String>) -> Self {
        self.given.volume_api_url = Some(url.into());
        self
    }

    /// Where everything is, in place of `domain`, `api_url`, `sandbox_url` and `volume_api_url`.
    #[must_use]
    pub fn endpoint(mut self, endpoint: Endpoint) -> Self {
        self.given.endpoint = Some(endpoint);
        self
    }

    /// Trusts these certificates (PEM, several may be in one) besides the platform's: a private authority's.
    #[must_use]
    pub fn root_certificates(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.given.root_certificates.push(pem.into());
        self
    }

    /// Asks for the API key: before the first call where none was given, and again when the server refused the last one
    /// (401); the call is then made once more. For keys that run out.
    #[must_use]
    pub fn credentials<F, Fut>(mut self, ask: F) -> Self
    where
        F: Fn() -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<String, BoxError>> + Send + 'static,
    {
        self.given.credentials = Some(Credentials(Arc::new(move || Box::pin(ask()))));
        self
    }

    /// Single attempts that a create may spend on finding out what an unknown outcome did. Default 16.
    #[must_use]
    pub fn lookups(mut self, lookups: u32) -> Self {
        self.given.lookups = Some(lookups);
        self
    }

    /// The deadline of a call over all its attempts; zero means none. Default 60 s.
    #[must_use]
    pub fn request_timeout(mut self, timeout: Duration) -> Self {
        self.given.request_timeout = Some(timeout);
        self
    }

    /// Retries of a control-plane call after an answer or an unknown outcome, at most 1000. Default 3. Calls to a
    /// sandbox itself are only replayed when they were provably not processed.
    #[must_use]
    pub fn retries(mut self, retries: u32) -> Self {
        self.given.retries = Some(retries);
        self
    }

    /// Repeats after failed connects and refusals, at most 1000. Default: `E2B_CONNECTION_RETRIES`, else 3.
    #[must_use]
    pub fn connection_retries(mut self, retries: u32) -> Self {
        self.given.connection_retries = Some(retries);
        self
    }

    /// Whether the server is taken to honour idempotency keys on creates. Default: not before it has shown that it does.
    #[must_use]
    pub fn idempotency_keys(mut self, keys: IdempotencyKeys) -> Self {
        self.given.creates.idempotency_keys = keys;
        self
    }

    /// How long look-ups must stay empty, counted from the loss, before a create counts as not carried out. It must be
    /// longer than an effect may come late plus what lists lag. Default 10 s.
    #[must_use]
    pub fn settle(mut self, settle: Duration) -> Self {
        self.given.creates.settle = settle;
        self
    }

    /// The bound of what goes on after a create has ended: sweeping doubles, clearing away what was given up. Default
    /// 30 s.
    #[must_use]
    pub fn cleanup_timeout(mut self, timeout: Duration) -> Self {
        self.given.creates.cleanup_timeout = timeout;
        self
    }

    /// A header for every request to the control plane.
    #[must_use]
    pub fn api_header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.given.headers.push((name.into(), value.into()));
        self
    }

    /// Which HTTP version to speak. Default: `E2B_HTTP_VERSION` ("1.1" or "2"), else HTTP/1.1.
    #[must_use]
    pub fn http_version(mut self, version: HttpVersion) -> Self {
        self.given.http_version = Some(version);
        self
    }

    /// The client. No connection is opened yet.
    ///
    /// # Errors
    ///
    /// When there is no API key, or an option or variable makes no sense; nothing was sent.
    pub fn build(self) -> Result<Client, Error> {
        for name in VARIABLES {
            if let Err(std::env::VarError::NotUnicode(_)) = std::env::var(name) {
                return Err(Error::invalid(format!("{name}: its value is not UTF-8")));
            }
        }
        let config = Config::resolve(self.given, &|name| std::env::var(name).ok())?;
        Ok(Client {
            inner: Arc::new(Inner {
                config,
                creates: Creates::default(),
                minting: tokio::sync::Mutex::default(),
                #[cfg(feature = "local")]
                local: Mutex::default(),
            }),
            own: Arc::default(),
        })
    }
}

impl fmt::Debug for ClientBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientBuilder").finish_non_exhaustive()
    }
}
