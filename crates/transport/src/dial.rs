//! Makes connections: name, addresses, socket, proxy, TLS, each step with a limit of its own.
//!
//! Addresses are raced (RFC 8305): those of both families in turn, the next one when the last has not answered for a
//! moment. Names are resolved anew for each dial, and addresses that failed lately come last.

mod dns;
mod error;
mod health;
#[cfg(feature = "hickory-dns")]
mod hickory;
mod pace;
mod race;
mod timeouts;

pub(crate) use dns::Resolver;
pub use dns::{Resolve, Resolving};
pub(crate) use error::DialError;
#[cfg(feature = "hickory-dns")]
pub use hickory::HickoryResolver;
pub(crate) use timeouts::Timeouts;

use std::future::Future;
use std::net::SocketAddr;
#[cfg(unix)]
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use oncebox_policy::Phase;
use parking_lot::Mutex;
use socket2::{SockRef, TcpKeepalive};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::conn::Failure;
use crate::io::Stream;
use crate::pool::Authority;
use crate::proxy::{Proxy, socks, tunnel};
use crate::tls::{Offer, Tls};

use dns::Lookups;
use health::Health;
use pace::Pace;
use race::Race;

/// How a client reaches its origins. Two that are equal share connections.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Route {
    pub(crate) tls: Tls,
    pub(crate) via: Via,
    pub(crate) timeouts: Timeouts,
    pub(crate) resolver: Resolver,
    pub(crate) keepalive: Keepalive,
}

impl Route {
    /// What of it makes a difference to this origin.
    pub(crate) fn for_origin(self, authority: &Authority) -> Self {
        let has_tls = authority.is_https() || matches!(&self.via, Via::Proxy(proxy) if proxy.is_tls());
        // Whom it trusts makes no difference to a plain connection.
        if has_tls { self } else { Self { tls: Tls::default(), ..self } }
    }
}

/// What stands between the client and an origin.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum Via {
    #[default]
    Nothing,
    Proxy(Arc<Proxy>),
    /// Every origin is behind this socket.
    #[cfg(unix)]
    Unix(Arc<Path>),
}

/// How long a TCP connection may be silent before the kernel asks whether the peer lives; zero for never.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Keepalive(pub(crate) Duration);

/// Below the minutes after which address translators forget a connection.
const DEFAULT_KEEPALIVE: Duration = Duration::from_secs(30);

impl Default for Keepalive {
    fn default() -> Self {
        Self(DEFAULT_KEEPALIVE)
    }
}

/// A connection to the server, and whether it chose HTTP/2 where it had the choice.
pub(crate) struct Dialled {
    pub(crate) stream: Stream,
    pub(crate) chose_http2: bool,
}

/// Makes the connections to one origin.
pub(crate) struct Dialer {
    authority: Authority,
    route: Route,
    lookups: Lookups,
    health: Health,
    pace: Pace,
    /// Where the dial is that went a step further last.
    phase: Mutex<Phase>,
}

impl Dialer {
    pub(crate) fn new(authority: Authority, route: Route) -> Self {
        Self {
            lookups: Lookups::new(route.resolver.clone()),
            authority,
            route,
            health: Health::default(),
            pace: Pace::default(),
            phase: Mutex::new(Phase::Connect),
        }
    }

    pub(crate) fn is_https(&self) -> bool {
        self.authority.is_https()
    }

    /// Where the dial is that went a step further last.
    pub(crate) fn phase(&self) -> Phase {
        *self.phase.lock()
    }

    /// The proxy to which requests are sent in absolute form, rather than through a tunnel (RFC 9112 §3.2.2).
    pub(crate) fn forwards(&self) -> Option<&Proxy> {
        match &self.route.via {
            Via::Proxy(proxy) if proxy.is_http() && !self.authority.is_https() => Some(proxy),
            _ => None,
        }
    }

    /// Connects to the server, inside TLS where its scheme asks for that.
    pub(crate) async fn dial(&self, offer: Offer) -> Result<Dialled, Failure> {
        #[cfg(feature = "simulation")]
        if let Some(connecting) = crate::simulation::connect(self.authority.host(), self.authority.port()) {
            return self.simulated(connecting).await;
        }
        self.pace.turn().await;
        let (stream, address) = match &self.route.via {
            Via::Nothing => self.open(self.authority.host(), self.authority.port()).await?,
            Via::Proxy(proxy) => self.open(proxy.host(), proxy.port()).await?,
            #[cfg(unix)]
            Via::Unix(path) => (self.open_unix(path).await?, None),
        };
        let secured = self.secure(stream, offer).await;
        if let (Err(_), Some(address)) = (&secured, address) {
            self.health.failed(address);
        }
        secured
    }

    #[cfg(feature = "simulation")]
    async fn simulated(&self, connecting: crate::simulation::Connecting) -> Result<Dialled, Failure> {
        let limit = self.route.timeouts.connect;
        let late = || format!("no answer in {limit:?} (connect_timeout)");
        let connected = self.within(Phase::Connect, limit, connecting, late).await?;
        let stream = connected.map_err(|error| Failure::dial(Phase::Connect, error))?;
        Ok(Dialled { stream: Stream::Simulated(stream), chose_http2: false })
    }

    /// Through the proxy, and into TLS.
    async fn secure(&self, stream: Stream, offer: Offer) -> Result<Dialled, Failure> {
        let stream = match &self.route.via {
            Via::Proxy(proxy) => self.through(proxy, stream, offer).await?,
            _ => stream,
        };
        if !self.authority.is_https() {
            return Ok(Dialled { stream, chose_http2: false });
        }
        let (stream, chose_http2) = self.handshake(stream, self.authority.host(), offer).await?;
        Ok(Dialled { stream, chose_http2 })
    }

    async fn handshake(&self, stream: Stream, host: &str, offer: Offer) -> Result<(Stream, bool), Failure> {
        let handshake = self.route.tls.connect(stream, host, offer);
        let (limit, option) = (self.route.timeouts.tls, "tls_timeout");
        self.within(Phase::Tls, limit, handshake, || format!("{host}: no handshake in {limit:?} ({option})")).await?
    }

    /// What the proxy opens for this origin.
    async fn through(&self, proxy: &Proxy, mut stream: Stream, offer: Offer) -> Result<Stream, Failure> {
        if proxy.is_tls() {
            (stream, _) = self.handshake(stream, proxy.host(), Offer::Http1).await?;
        }
        // HTTP/2 has no absolute form that a proxy of HTTP/1.1 would understand.
        if self.forwards().is_some() && offer == Offer::Http1 {
            return Ok(stream);
        }
        let (host, port) = (self.authority.host(), self.authority.port());
        let address = match proxy.resolves() {
            true => None,
            false => Some(self.addresses(host, port).await?[0]),
        };
        let opening = async {
            if proxy.is_http() {
                tunnel::open(&mut stream, proxy, host, port).await
            } else {
                socks::open(&mut stream, proxy, host, port, address).await
            }
        };
        let limit = self.route.timeouts.proxy;
        let late = || format!("{}: no tunnel in {limit:?} (proxy_timeout)", proxy.address());
        let opened = self.within(Phase::Proxy, limit, opening, late).await?;
        if let Err(error) = opened {
            address.iter().for_each(|address| self.health.failed(*address));
            return Err(Failure::dial(Phase::Proxy, DialError::new(format!("{}: {error}", proxy.address()))));
        }
        Ok(stream)
    }

    /// Resolves the host and connects to the first of its addresses that answers.
    async fn open(&self, host: &str, port: u16) -> Result<(Stream, Option<SocketAddr>), Failure> {
        let addresses = self.addresses(host, port).await?;
        self.enter(Phase::Connect);
        let mut race = Race::default();
        let limit = self.route.timeouts.connect;
        let connected = bounded(limit, race.run(&addresses, |address| connect(address, self.route.keepalive))).await;
        race.overtaken().for_each(|address| self.health.failed(address));
        match connected {
            Some(Some((address, socket))) => {
                self.health.answered(address);
                Ok((Stream::Plain(socket), Some(address)))
            }
            _ => Err(Failure::dial(Phase::Connect, DialError::new(race.describe(&addresses, limit)))),
        }
    }

    #[cfg(unix)]
    async fn open_unix(&self, path: &Path) -> Result<Stream, Failure> {
        let limit = self.route.timeouts.connect;
        let connecting = tokio::net::UnixStream::connect(path);
        let late = || format!("{}: no answer in {limit:?} (connect_timeout)", path.display());
        match self.within(Phase::Connect, limit, connecting, late).await? {
            Ok(socket) => Ok(Stream::Unix(socket)),
            Err(error) => {
                let error = DialError::new(format!("{}: {error} (unix_socket)", path.display()));
                Err(Failure::dial(Phase::Connect, error))
            }
        }
    }

    /// The host's addresses in the order in which they are tried. There is at least one.
    async fn addresses(&self, host: &str, port: u16) -> Result<Vec<SocketAddr>, Failure> {
        let limit = self.route.timeouts.dns;
        let late = || format!("{host}: no addresses in {limit:?} (dns_timeout)");
        let found = self.within(Phase::Dns, limit, self.lookups.resolve(host), late).await?;
        let found = found
            .and_then(|found| if found.is_empty() { Err("the name has no address".into()) } else { Ok(found) })
            .map_err(|error| Failure::dial(Phase::Dns, DialError::new(format!("{host}: {error}"))))?;
        Ok(self.health.order(found.iter().map(|ip| SocketAddr::new(*ip, port))))
    }

    fn enter(&self, phase: Phase) {
        *self.phase.lock() = phase;
    }

    /// Runs a step of a dial within its limit.
    async fn within<T>(
        &self,
        phase: Phase,
        limit: Duration,
        step: impl Future<Output = T>,
        late: impl FnOnce() -> String,
    ) -> Result<T, Failure> {
        self.enter(phase);
        bounded(limit, step).await.ok_or_else(|| Failure::dial(phase, DialError::new(late())))
    }
}

/// `None`: it took too long. A limit of zero is none.
async fn bounded<T>(limit: Duration, step: impl Future<Output = T>) -> Option<T> {
    if limit.is_zero() { Some(step.await) } else { timeout(limit, step).await.ok() }
}

async fn connect(address: SocketAddr, keepalive: Keepalive) -> std::io::Result<TcpStream> {
    let socket = TcpStream::connect(address).await?;
    socket.set_nodelay(true)?;
    if !keepalive.0.is_zero() {
        let settings = TcpKeepalive::new().with_time(keepalive.0);
        #[cfg(not(any(target_os = "openbsd", target_os = "haiku")))]
        let settings = settings.with_interval(keepalive.0);
        SockRef::from(&socket).set_tcp_keepalive(&settings)?;
    }
    Ok(socket)
}
