//! The client: options, credentials, and the way to the servers.

mod builder;
mod call;

pub use builder::ClientBuilder;
pub(crate) use call::{AGENT, ApiCall, parse};

use std::fmt;
use std::sync::Arc;
#[cfg(feature = "local")]
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

#[cfg(feature = "local")]
use oncebox_transport::HttpVersion;
use oncebox_transport::policy::Policy;
use oncebox_transport::policy::create::Intent;
use tokio::time::Instant;

use crate::config::Config;
#[cfg(feature = "local")]
use crate::config::Given;
use crate::endpoint::Endpoint;
use crate::error::Error;
#[cfg(feature = "local")]
use crate::error::ErrorKind;
use crate::once::{Asked, CreateOptions, Creates, Leftover, Order, Origin};
use crate::options::{CallOptions, Own};
use crate::sandbox::Sandbox;
use crate::trail::Trail;

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

impl Inner {
    fn new(config: Config) -> Self {
        Self {
            config,
            creates: Creates::default(),
            minting: tokio::sync::Mutex::default(),
            #[cfg(feature = "local")]
            local: Mutex::default(),
        }
    }
}

impl Client {
    /// A client with options from the environment: `E2B_API_KEY`, `E2B_DOMAIN`, `E2B_API_URL`, `E2B_SANDBOX_URL`,
    /// `E2B_VOLUME_API_URL`, `E2B_DEBUG`, `E2B_CONNECTION_RETRIES`, `E2B_HTTP_VERSION`, `E2B_MAX_CONNECTIONS`,
    /// `E2B_KEEPALIVE_EXPIRY`; `HTTP_PROXY`, `HTTPS_PROXY`, `ALL_PROXY`, `NO_PROXY`; `SSL_CERT_FILE`, `SSL_CERT_DIR`.
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
            transport: oncebox_transport::Client::builder().no_proxy(),
            ..Given::default()
        };
        // Nothing of the environment: it speaks of another server.
        let config = Config::resolve(given, &|_| None)?;
        let inner = Inner { local: Mutex::new(Some(server)), ..Inner::new(config) };
        Ok(Self { inner: Arc::new(inner), own: Arc::default() })
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
            body: Asked::Ours(Box::default()),
            idempotency_key: None,
            request_timeout: None,
            pacer: None,
            version: None,
            scope: 0,
            leaves: false,
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

    /// The same client with exactly these options of its own.
    pub(crate) fn with_own(&self, own: Own) -> Self {
        Self { inner: Arc::clone(&self.inner), own: Arc::new(own) }
    }

    pub(crate) fn own(&self) -> &Own {
        &self.own
    }

    /// The same client, whose calls are noted there, too.
    pub(crate) fn gathering(&self, trail: Trail) -> Self {
        Self { inner: Arc::clone(&self.inner), own: Arc::new(self.own.gathering(trail)) }
    }

    /// Notes a call that began then, where calls are gathered.
    pub(crate) fn note<B>(
        &self,
        began: Instant,
        ended: &Result<oncebox_transport::Response<B>, oncebox_transport::Error>,
    ) {
        if let Some(trail) = &self.own.trail {
            match ended {
                Ok(response) => trail.note(began, response.history().ledger()),
                Err(error) => trail.note(began, error.ledger()),
            }
        }
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
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("endpoint", self.endpoint()).finish_non_exhaustive()
    }
}
