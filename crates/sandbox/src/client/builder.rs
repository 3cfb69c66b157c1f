//! Setting a client's options.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use oncebox_transport::policy::{IdempotencyKeys, Policy};
use oncebox_transport::{BoxError, HttpVersion, Proxy};

use super::{Client, Inner};
use crate::config::{Config, Credentials, Given, VARIABLES};
use crate::endpoint::Endpoint;
use crate::error::Error;

#[cfg(test)]
mod parity;

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

    /// A header for every request, to the control plane, to volumes and to sandboxes. What runs in a sandbox may see it.
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.given.headers.push((name.into(), value.into()));
        self
    }

    /// A header for every request to the control plane.
    #[must_use]
    pub fn api_header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.given.api_headers.push((name.into(), value.into()));
        self
    }

    /// All that decides about repeats. `retries`, `connection_retries` and `lookups` that are given take the place of its
    /// own. Default: [`Policy::default`].
    #[must_use]
    pub fn policy(mut self, policy: Policy) -> Self {
        self.given.policy = Some(policy);
        self
    }

    /// The longest that one attempt may take; zero means as long as the call. Default zero.
    #[must_use]
    pub fn attempt_timeout(mut self, timeout: Duration) -> Self {
        self.given.transport = self.given.transport.attempt_timeout(timeout);
        self
    }

    /// Ends a file that is read as a stream when nothing came for this long; zero means never. Commands have a watchdog of
    /// their own. Default 60 s.
    #[must_use]
    pub fn read_idle_timeout(mut self, timeout: Duration) -> Self {
        self.given.transport = self.given.transport.read_idle_timeout(timeout);
        self
    }

    /// How much of a streamed request body is kept to be sent again, in bytes. Default 65,536.
    #[must_use]
    pub fn replay_buffer_limit(mut self, bytes: usize) -> Self {
        self.given.transport = self.given.transport.replay_buffer_limit(bytes);
        self
    }

    /// Streams that are opened on an origin's first HTTP/2 connection before its SETTINGS have come. Default 10.
    #[must_use]
    pub fn initial_streams(mut self, streams: u32) -> Self {
        self.given.transport = self.given.transport.initial_streams(streams);
        self
    }

    /// Connections to one origin that are open or being dialled, at most. At least 1. Default: `E2B_MAX_CONNECTIONS`, else
    /// 200.
    #[must_use]
    pub fn max_connections(mut self, connections: usize) -> Self {
        self.given.max_connections = Some(connections);
        self
    }

    /// How long an idle connection is kept. Default: `E2B_KEEPALIVE_EXPIRY` (seconds), else 300 s, and for HTTP/1.1 4 s,
    /// below what common servers allow.
    #[must_use]
    pub fn keepalive_expiry(mut self, expiry: Duration) -> Self {
        self.given.keepalive_expiry = Some(expiry);
        self
    }

    /// Which HTTP version to speak. Default: `E2B_HTTP_VERSION` ("1.1" or "2"), else what the server chooses in the TLS
    /// handshake; without TLS HTTP/1.1.
    #[must_use]
    pub fn http_version(mut self, version: HttpVersion) -> Self {
        self.given.http_version = Some(version);
        self
    }

    /// Shows this certificate to servers that ask for one. `chain` and `key` are in PEM form, the client's own certificate
    /// first.
    #[must_use]
    pub fn client_certificate(mut self, chain: impl Into<Vec<u8>>, key: impl Into<Vec<u8>>) -> Self {
        self.given.client_certificate = Some((chain.into(), key.into()));
        self
    }

    /// Accepts any certificate. For tests: whoever sits in between can read and change everything, the API key included.
    /// Default off.
    #[must_use]
    pub fn danger_accept_invalid_certificates(mut self, accept: bool) -> Self {
        self.given.transport = self.given.transport.danger_accept_invalid_certificates(accept);
        self
    }

    /// Reaches all servers through this proxy, but for its [exceptions](Proxy::except), whatever the environment says.
    /// Default: what `HTTP_PROXY`, `HTTPS_PROXY`, `ALL_PROXY` and `NO_PROXY` say; loopback addresses and `localhost` then
    /// need no proxy.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use oncebox::{Client, Proxy};
    ///
    /// let proxy = Proxy::new("socks5h://127.0.0.1:1080")?.credentials("user", "secret")?.except("10.0.0.0/8");
    /// let client = Client::builder().api_key("key").proxy(proxy).build()?;
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn proxy(mut self, proxy: Proxy) -> Self {
        self.given.transport = self.given.transport.proxy(proxy);
        self
    }

    /// Reaches all servers without a proxy, whatever the environment says.
    #[must_use]
    pub fn no_proxy(mut self) -> Self {
        self.given.transport = self.given.transport.no_proxy();
        self
    }

    /// How long a name's addresses may take to come; zero means any time. Default 10 s.
    #[must_use]
    pub fn dns_timeout(mut self, timeout: Duration) -> Self {
        self.given.transport = self.given.transport.dns_timeout(timeout);
        self
    }

    /// How long it may take until one of a host's addresses answers, over all of them; zero means any time. Default 30 s.
    #[must_use]
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.given.transport = self.given.transport.connect_timeout(timeout);
        self
    }

    /// How long a TLS handshake may take, with a server or with a proxy; zero means any time. Default 10 s.
    #[must_use]
    pub fn tls_timeout(mut self, timeout: Duration) -> Self {
        self.given.transport = self.given.transport.tls_timeout(timeout);
        self
    }

    /// How long a proxy may take to open a tunnel; zero means any time. Default 30 s: it waits for the server itself.
    #[must_use]
    pub fn proxy_timeout(mut self, timeout: Duration) -> Self {
        self.given.transport = self.given.transport.proxy_timeout(timeout);
        self
    }

    /// What the transport offers beyond the options here: an observer, a resolver, trace context, a Unix socket. It takes the
    /// place of what was given of proxies, limits of phases, and `danger_accept_invalid_certificates` before.
    ///
    /// ```
    /// # fn main() -> Result<(), oncebox::Error> {
    /// use oncebox::{Client, transport};
    ///
    /// let transport = transport::Client::builder().trace_context(true);
    /// let client = Client::builder().api_key("key").transport(transport).build()?;
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn transport(mut self, transport: oncebox_transport::ClientBuilder) -> Self {
        self.given.transport = transport;
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
        Ok(Client { inner: Arc::new(Inner::new(config)), own: Arc::default() })
    }
}

impl fmt::Debug for ClientBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientBuilder").finish_non_exhaustive()
    }
}
