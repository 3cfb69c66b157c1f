//! The options of a client.

use std::sync::Arc;
use std::time::Duration;

use oncebox_policy::{MAX_TIMEOUT, OptionError, Policy, check_at_least_one, check_duration};
use parking_lot::Mutex;

use super::{Client, Inner, Known};
use crate::dial::{Keepalive, Resolve, Resolver, Route, Via};
use crate::error::Error;
use crate::observe::{Hook, Observer};
use crate::options::{Defaults, HttpVersion, Limits};
use crate::proxy::{Proxies, Proxy};

#[cfg(test)]
mod parity;

/// Options of a [`Client`].
#[derive(Clone, Debug)]
pub struct ClientBuilder {
    defaults: Defaults,
    limits: Limits,
    version: HttpVersion,
    route: Route,
    proxies: Proxies,
    max_response_size: usize,
    seed: Option<u64>,
    observer: Option<Hook>,
    traces: bool,
}

/// The largest response that is read whole.
const DEFAULT_MAX_RESPONSE_SIZE: usize = 64 << 20;

impl Default for ClientBuilder {
    fn default() -> Self {
        Self {
            defaults: Defaults::default(),
            limits: Limits::default(),
            version: HttpVersion::default(),
            route: Route::default(),
            proxies: Proxies::default(),
            max_response_size: DEFAULT_MAX_RESPONSE_SIZE,
            seed: None,
            observer: None,
            traces: false,
        }
    }
}

impl ClientBuilder {
    /// All that decides about repeats. Default: [`Policy::default`].
    #[must_use]
    pub fn policy(mut self, policy: Policy) -> Self {
        self.defaults.policy = policy;
        self
    }

    /// Retries of a call after an answer or an unknown outcome. Default 3.
    #[must_use]
    pub fn retries(mut self, retries: u32) -> Self {
        self.defaults.policy.retries = retries;
        self
    }

    /// Repeats of a call after failed connects and refusals. Default 3.
    #[must_use]
    pub fn connection_retries(mut self, retries: u32) -> Self {
        self.defaults.policy.connection_retries = retries;
        self
    }

    /// The deadline of a call, from its begin to the response's head (or its end, when it is read whole); zero means
    /// none. Default 60 s.
    #[must_use]
    pub fn request_timeout(mut self, timeout: Duration) -> Self {
        self.defaults.request_timeout = timeout;
        self
    }

    /// The longest that one attempt may take; zero means as long as the call. Default zero.
    #[must_use]
    pub fn attempt_timeout(mut self, timeout: Duration) -> Self {
        self.defaults.attempt_timeout = timeout;
        self
    }

    /// Ends a streaming response when nothing came for this long; zero means never. Default 60 s.
    #[must_use]
    pub fn read_idle_timeout(mut self, timeout: Duration) -> Self {
        self.defaults.read_idle_timeout = timeout;
        self
    }

    /// Ends a call when a part of its streamed request body was at hand and the server took none of it for this long;
    /// zero means never. How long the stream itself takes to yield more is not limited. Default 60 s.
    #[must_use]
    pub fn write_idle_timeout(mut self, timeout: Duration) -> Self {
        self.defaults.write_idle_timeout = timeout;
        self
    }

    /// How much of a streamed request body is kept to be sent again, in bytes. Default 65,536.
    #[must_use]
    pub fn replay_buffer_limit(mut self, bytes: usize) -> Self {
        self.defaults.replay_buffer_limit = bytes;
        self
    }

    /// The largest response that [`Client::send_collected`] reads, in bytes. Default 64 MiB.
    #[must_use]
    pub fn max_response_size(mut self, bytes: usize) -> Self {
        self.max_response_size = bytes;
        self
    }

    /// Which HTTP version to speak. Default: what the server chooses in the TLS handshake; without TLS HTTP/1.1.
    #[must_use]
    pub fn http_version(mut self, version: HttpVersion) -> Self {
        self.version = version;
        self
    }

    /// Connections to one origin that are open or being dialled, at most; those that drain have a bound of the same
    /// size. At least 1. Default 200.
    #[must_use]
    pub fn max_connections(mut self, connections: usize) -> Self {
        self.limits.max_connections = connections;
        self
    }

    /// How long an idle connection is kept. Default 300 s, and for HTTP/1.1 4 s, below what common servers allow.
    #[must_use]
    pub fn keepalive_expiry(mut self, expiry: Duration) -> Self {
        self.limits.keepalive_expiry = expiry;
        self.limits.keepalive_expiry_is_set = true;
        self
    }

    /// When an HTTP/2 connection is replaced, give or take a tenth; zero means never. Its successor is opened first.
    /// Default zero.
    #[must_use]
    pub fn max_connection_age(mut self, age: Duration) -> Self {
        self.limits.max_connection_age = age;
        self
    }

    /// Streams that are opened on an origin's first HTTP/2 connection before its SETTINGS have come. At least 1. Default 10.
    #[must_use]
    pub fn initial_streams(mut self, streams: u32) -> Self {
        self.limits.initial_streams = streams;
        self
    }

    /// Asks an HTTP/2 peer whether it lives when it was silent for `interval` while streams were open, and gives it up
    /// when it does not answer within `timeout`. An interval of zero means never. Default 20 s and 10 s.
    #[must_use]
    pub fn ping(mut self, interval: Duration, timeout: Duration) -> Self {
        self.limits.ping_interval = interval;
        self.limits.ping_timeout = timeout;
        self
    }

    /// Trusts these certificates besides the platform's. `SSL_CERT_FILE` and `SSL_CERT_DIR` are read as well: in place
    /// of the platform's on Linux and the BSDs, as OpenSSL does, and besides them elsewhere. `pem` may hold several.
    ///
    /// # Errors
    ///
    /// When `pem` holds no certificate.
    pub fn add_root_certificates(mut self, pem: &[u8]) -> Result<Self, Error> {
        self.route.tls.add_roots(pem)?;
        Ok(self)
    }

    /// Accepts any certificate. For tests: whoever sits in between can read and change everything. Default off.
    #[must_use]
    pub fn danger_accept_invalid_certificates(mut self, accept: bool) -> Self {
        self.route.tls.accept_invalid(accept);
        self
    }

    /// Shows this certificate to servers that ask for one. `chain` and `key` are in PEM form, the client's own
    /// certificate first.
    ///
    /// # Errors
    ///
    /// When either cannot be read, or the key is not the certificate's.
    pub fn client_certificate(mut self, chain: &[u8], key: &[u8]) -> Result<Self, Error> {
        self.route.tls.client_certificate(chain, key)?;
        Ok(self)
    }

    /// Reaches all targets through this proxy, but for its [exceptions](Proxy::except), whatever the environment says.
    ///
    /// Default: what `HTTP_PROXY`, `HTTPS_PROXY`, `ALL_PROXY` and `NO_PROXY` said when the client was built, in lower
    /// case first; loopback addresses and `localhost` then need no proxy. A variable that cannot be read fails the
    /// calls that it is for, before anything is sent.
    #[must_use]
    pub fn proxy(mut self, proxy: Proxy) -> Self {
        self.proxies = Proxies::Always(Arc::new(proxy));
        self
    }

    /// Reaches all targets without a proxy, whatever the environment says.
    #[must_use]
    pub fn no_proxy(mut self) -> Self {
        self.proxies = Proxies::Never;
        self
    }

    /// Reaches all targets over this Unix socket, without a proxy. A URL's scheme, host and port then only say what the
    /// server is told (`Host`, `:authority`, and the name in its certificate).
    #[cfg(unix)]
    #[must_use]
    pub fn unix_socket(mut self, path: impl AsRef<std::path::Path>) -> Self {
        self.route.via = Via::Unix(path.as_ref().into());
        self
    }

    /// How names become addresses. Default: the system's `getaddrinfo`, on a thread of its own.
    #[must_use]
    pub fn resolver(mut self, resolver: impl Resolve + 'static) -> Self {
        self.route.resolver = Resolver::Own(Arc::new(resolver));
        self
    }

    /// How long a name's addresses may take to come; zero means any time. Default 10 s.
    #[must_use]
    pub fn dns_timeout(mut self, timeout: Duration) -> Self {
        self.route.timeouts.dns = timeout;
        self
    }

    /// How long it may take until one of a host's addresses answers, over all of them; zero means any time. Default
    /// 30 s.
    #[must_use]
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.route.timeouts.connect = timeout;
        self
    }

    /// How long a TLS handshake may take, with the server or with a proxy; zero means any time. Default 10 s.
    #[must_use]
    pub fn tls_timeout(mut self, timeout: Duration) -> Self {
        self.route.timeouts.tls = timeout;
        self
    }

    /// How long a proxy may take to open a tunnel; zero means any time. Default 30 s: it waits for the server itself.
    #[must_use]
    pub fn proxy_timeout(mut self, timeout: Duration) -> Self {
        self.route.timeouts.proxy = timeout;
        self
    }

    /// How long a TCP connection may be silent before the kernel asks whether the peer lives, and between such
    /// questions; zero means never. Default 30 s.
    #[must_use]
    pub fn tcp_keepalive(mut self, interval: Duration) -> Self {
        self.route.keepalive = Keepalive(interval);
        self
    }

    /// Makes the jitter of waits repeatable: the same seed draws the same numbers.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Tells this observer what becomes of calls. Default none.
    #[must_use]
    pub fn observer(mut self, observer: impl Observer) -> Self {
        self.observer = Some(Hook::new(observer));
        self
    }

    /// Sends W3C Trace Context's `traceparent` with each attempt: a span of its own, in the trace that the request's
    /// own `traceparent` names or in a new one. Default off.
    #[must_use]
    pub fn trace_context(mut self, send: bool) -> Self {
        self.traces = send;
        self
    }

    /// Checks every option against its rule: no time is longer than [`MAX_TIMEOUT`](oncebox_policy::MAX_TIMEOUT), and what
    /// has to be at least 1 is. [`build`](Self::build) does not fail: it takes the nearest value that is allowed.
    ///
    /// ```
    /// use std::time::Duration;
    /// use oncebox_transport::Client;
    ///
    /// let error = Client::builder().max_connections(0).validate().unwrap_err();
    /// assert_eq!(error.to_string(), "max_connections: 0 is not a whole number from 1 to 4294967295");
    /// ```
    ///
    /// # Errors
    ///
    /// For the first value that breaks its rule.
    pub fn validate(&self) -> Result<(), OptionError> {
        self.defaults.policy.validate()?;
        // What is not allowed is what would be changed.
        let mut copy = self.clone();
        for (name, time) in copy.times() {
            check_duration(name, *time)?;
        }
        check_at_least_one("max_connections", self.limits.max_connections)?;
        check_at_least_one("initial_streams", self.limits.initial_streams as usize)
    }

    /// Every time, by its option.
    fn times(&mut self) -> [(&'static str, &mut Duration); 13] {
        let (defaults, limits, timeouts) = (&mut self.defaults, &mut self.limits, &mut self.route.timeouts);
        [
            ("request_timeout", &mut defaults.request_timeout),
            ("attempt_timeout", &mut defaults.attempt_timeout),
            ("read_idle_timeout", &mut defaults.read_idle_timeout),
            ("write_idle_timeout", &mut defaults.write_idle_timeout),
            ("keepalive_expiry", &mut limits.keepalive_expiry),
            ("max_connection_age", &mut limits.max_connection_age),
            ("ping_interval", &mut limits.ping_interval),
            ("ping_timeout", &mut limits.ping_timeout),
            ("dns_timeout", &mut timeouts.dns),
            ("connect_timeout", &mut timeouts.connect),
            ("tls_timeout", &mut timeouts.tls),
            ("proxy_timeout", &mut timeouts.proxy),
            ("tcp_keepalive", &mut self.route.keepalive.0),
        ]
    }

    /// The nearest options that are allowed: a longer time could not be added to the clock.
    fn bounded(mut self) -> Self {
        for (_, time) in self.times() {
            *time = (*time).min(MAX_TIMEOUT);
        }
        self.limits.max_connections = self.limits.max_connections.clamp(1, u32::MAX as usize);
        self.limits.initial_streams = self.limits.initial_streams.max(1);
        self
    }

    /// The client. It opens no connection yet.
    pub fn build(self) -> Client {
        self.bounded().into_client()
    }

    fn into_client(self) -> Client {
        Client {
            inner: Arc::new(Inner {
                defaults: self.defaults,
                limits: self.limits,
                version: self.version,
                route: self.route,
                proxies: self.proxies.read(),
                max_response_size: self.max_response_size,
                random: self.seed.map(fastrand::Rng::with_seed).map(Mutex::new),
                observer: self.observer,
                traces: self.traces,
                known: Known::default(),
            }),
        }
    }
}
