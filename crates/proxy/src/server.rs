//! The proxy as its owner sees it: built, started, stopped.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use http::Uri;
use oncebox::forward::Forward;
use oncebox::{Client, Leftover, SecretString};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::task::{JoinHandle, JoinSet};

use crate::create::Keys;
use crate::domains::Domains;
use crate::front::Front;
use crate::gate::Gate;
use crate::orphans::Orphans;
use crate::room::Room;
use crate::status::{Status, Tally};

/// Connections served at a time, unless another number is given; and calls.
const DEFAULT_CLIENTS: usize = 1024;
const DEFAULT_CALLS: usize = 4096;

/// The most that may be given for [`max_clients`](ProxyBuilder::max_clients) and [`max_calls`](ProxyBuilder::max_calls).
pub const MOST_AT_A_TIME: usize = 1 << 20;

/// Connections too many that are told so at a time; more wait to be accepted.
const TURNED_AWAY: usize = 64;

/// Shortest token, in bytes.
const MIN_TOKEN: usize = 16;

/// The most that may be given for `sandbox_retries`.
const MAX_RETRIES: u32 = oncebox_transport::policy::MAX_RETRIES;

/// A running proxy. Dropped, it ends without waiting for what it clears away.
#[derive(Debug)]
pub struct Proxy {
    addr: SocketAddr,
    client: Client,
    running: Running,
}

struct Running {
    front: Arc<Front>,
    accepting: JoinHandle<()>,
}

impl std::fmt::Debug for Running {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Running").finish_non_exhaustive()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.accepting.abort();
        self.front.orphans.close();
    }
}

impl Proxy {
    /// A proxy that forwards as this client calls: to its servers, with its retries, deadline and policy. The client's own API
    /// key is not used: SDKs send theirs.
    pub fn builder(client: &Client) -> ProxyBuilder {
        ProxyBuilder {
            client: client.clone(),
            ip: IpAddr::V4(Ipv4Addr::LOCALHOST),
            port: 0,
            token: None,
            names: Vec::new(),
            sandbox_retries: 0,
            max_clients: DEFAULT_CLIENTS,
            max_calls: DEFAULT_CALLS,
        }
    }

    /// Where it listens.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Its URL, for `E2B_API_URL`, `E2B_SANDBOX_URL` and `E2B_VOLUME_API_URL`.
    pub fn url(&self) -> String {
        format!("http://{}", self.addr)
    }

    /// What it did so far.
    pub fn status(&self) -> Status {
        self.running.front.status()
    }

    /// Closes the port, gives up what is under way, and waits, within the client's `cleanup_timeout`, until what creates left
    /// is cleared away. Returns what may live on although nobody wants it.
    pub async fn stop(self) -> Vec<Leftover> {
        let Self { client, running, .. } = self;
        running.accepting.abort();
        running.front.orphans.close();
        // Those who were served see it at their next turn, and leave what they waited for.
        tokio::task::yield_now().await;
        drop(running);
        client.close().await
    }
}

/// Sets up a [`Proxy`].
#[derive(Debug, Clone)]
#[must_use = "a builder does nothing until it is started"]
pub struct ProxyBuilder {
    client: Client,
    ip: IpAddr,
    port: u16,
    token: Option<SecretString>,
    names: Vec<String>,
    sandbox_retries: u32,
    max_clients: usize,
    max_calls: usize,
}

impl ProxyBuilder {
    /// The address to listen on. The default is 127.0.0.1. Any other than a loopback one lets other machines in, so that
    /// [`token`](Self::token) must be set; what they send, API keys included, is not encrypted.
    pub fn listen(mut self, ip: impl Into<IpAddr>) -> Self {
        self.ip = ip.into();
        self
    }

    /// The port to listen on. The default, 0, is any free one.
    pub fn port(mut self, port: u16) -> Self {
        self.port = port;
        self
    }

    /// What every request must come with, in the header `Oncebox-Proxy-Token` or in the URL, as
    /// `http://HOST:PORT/oncebox-token/TOKEN`. It has at least 16 bytes, of letters, digits, `-`, `.`, `_` and `~`. By default
    /// none is asked for, since the port is a loopback one.
    pub fn token(mut self, token: impl Into<String>) -> Self {
        self.token = Some(token.into().into());
        self
    }

    /// Another name by which SDKs reach the proxy, without scheme, port or path. By default it answers to loopback names only, and to addresses when it
    /// listens on others than loopback ones.
    pub fn allow_host(mut self, name: impl Into<String>) -> Self {
        self.names.push(name.into().to_ascii_lowercase());
        self
    }

    /// Retries of calls to sandboxes and to the content of volumes, at most 1000, after answers and unknown outcomes that may
    /// be repeated. The default is 0: only what was provably not processed is sent again.
    pub fn sandbox_retries(mut self, retries: u32) -> Self {
        self.sandbox_retries = retries;
        self
    }

    /// Connections of SDKs at a time, at most 1,048,576. The default is 1024. What comes on one more is answered 503, which says
    /// so and may be repeated; connections without a call are closed while more than half are in use.
    pub fn max_clients(mut self, connections: usize) -> Self {
        self.max_clients = connections;
        self
    }

    /// Calls under way at a time, until their answers have ended, at most 1,048,576. The default is 4096. One more is answered
    /// 503, which says so and may be repeated.
    pub fn max_calls(mut self, calls: usize) -> Self {
        self.max_calls = calls;
        self
    }

    /// Starts it on the caller's tokio runtime.
    ///
    /// # Errors
    /// When an option makes no sense, before anything else; when the port cannot be had.
    pub async fn start(self) -> Result<Proxy, StartError> {
        self.check()?;
        let addr = SocketAddr::new(self.ip, self.port);
        let bound = TcpListener::bind(addr).await.and_then(|listener| Ok((listener.local_addr()?, listener)));
        let (addr, listener) = bound.map_err(|source| StartError::Bind { addr, source })?;
        let forward = Forward::new(&self.client);
        let api = forward.api("").0;
        if is_at(&api, addr) {
            return Err(StartError::Itself { url: api });
        }
        let front = Arc::new(Front {
            gate: Gate { token: self.token, names: self.names, addresses: !self.ip.is_loopback() },
            sandbox_retries: self.sandbox_retries,
            domains: Domains::default(),
            orphans: Orphans::new(forward.settle()),
            keys: Keys::default(),
            tally: Tally::new(api),
            room: Room::new(self.max_clients, self.max_calls),
            forward,
        });
        let accepting = tokio::spawn(accept(listener, Arc::clone(&front)));
        Ok(Proxy { addr, client: self.client, running: Running { front, accepting } })
    }

    fn check(&self) -> Result<(), StartError> {
        if self.sandbox_retries > MAX_RETRIES {
            return Err(StartError::SandboxRetries { given: self.sandbox_retries });
        }
        for (option, given) in [("max_clients", self.max_clients), ("max_calls", self.max_calls)] {
            if !(1..=MOST_AT_A_TIME).contains(&given) {
                return Err(StartError::Room { option, given });
            }
        }
        if let Some(name) = self.names.iter().find(|name| !is_name(name)) {
            return Err(StartError::Host { name: name.clone() });
        }
        let Some(token) = &self.token else {
            return if self.ip.is_loopback() { Ok(()) } else { Err(StartError::TokenMissing { ip: self.ip }) };
        };
        let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
        if token.expose().len() < MIN_TOKEN || !token.expose().bytes().all(is_allowed) {
            return Err(StartError::Token { length: token.expose().len() });
        }
        Ok(())
    }
}

/// Why a proxy did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The address cannot be listened on.
    #[error("{addr} cannot be listened on: {source}")]
    Bind {
        /// The address.
        addr: SocketAddr,
        /// Why not.
        source: io::Error,
    },
    /// Other machines would be let in without a token.
    #[error(
        "listen is {ip}, which lets other machines in: set a token of at least {MIN_TOKEN} bytes, or listen on 127.0.0.1"
    )]
    TokenMissing {
        /// The address.
        ip: IpAddr,
    },
    /// The token is too short, or cannot be part of a URL.
    #[error(
        "the token of {length} bytes will not do: it must have at least {MIN_TOKEN}, of letters, digits and -._~, so that a \
         header and a URL can hold it"
    )]
    Token {
        /// How long it is.
        length: usize,
    },
    /// It would forward to itself.
    #[error(
        "the control plane at {url} is this proxy itself: give the server behind it, and leave E2B_API_URL to the SDKs that \
         use the proxy"
    )]
    Itself {
        /// The control plane's URL.
        url: String,
    },
    /// A value of `allow_host` is not a name.
    #[error(
        "allow_host is {name:?}: it must be a host name without scheme, port or path, such as build-box.internal; addresses are \
         let in by the address to listen on"
    )]
    Host {
        /// The value.
        name: String,
    },
    /// Room for nothing, or for more than any machine has.
    #[error("{option} is {given}: it must be a whole number from 1 to {MOST_AT_A_TIME}")]
    Room {
        /// The option.
        option: &'static str,
        /// What was given.
        given: usize,
    },
    /// More retries than anything needs.
    #[error("sandbox_retries is {given}: it must be a whole number from 0 to {MAX_RETRIES}")]
    SandboxRetries {
        /// What was given.
        given: u32,
    },
}

/// Whether it is a name as a request's host can have it. What is no name would be allowed in vain.
fn is_name(name: &str) -> bool {
    let is_label = |label: &str| {
        let letters = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-' || byte == b'_';
        (1..=63).contains(&label.len())
            && label.bytes().all(letters)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    name.len() <= 253 && name.split('.').all(is_label) && name.parse::<IpAddr>().is_err()
}

/// Whether a URL is that of an address of this machine.
fn is_at(url: &str, addr: SocketAddr) -> bool {
    let Ok(uri) = url.parse::<Uri>() else { return false };
    let host = uri.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
    let is_local = host == "localhost"
        || host.parse::<IpAddr>().is_ok_and(|ip| ip == addr.ip() || (ip.is_loopback() && addr.ip().is_unspecified()));
    is_local && uri.scheme_str() == Some("http") && uri.port_u16().unwrap_or(80) == addr.port()
}

async fn accept(listener: TcpListener, front: Arc<Front>) {
    let turned_away = Arc::new(Semaphore::new(TURNED_AWAY));
    let mut connections = JoinSet::new();
    loop {
        match listener.accept().await {
            Ok((connection, _)) => {
                let served = Arc::clone(&front);
                if let Some(permit) = front.room.connection() {
                    connections.spawn(async move {
                        served.serve(connection).await;
                        drop(permit);
                    });
                } else {
                    let Ok(permit) = Arc::clone(&turned_away).acquire_owned().await else { return };
                    connections.spawn(async move {
                        served.turn_away(connection).await;
                        drop(permit);
                    });
                }
            }
            Err(error) => {
                // Out of descriptors, most likely: others will be closed.
                tracing::warn!(%error, "a connection was not accepted");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
        while connections.try_join_next().is_some() {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proxy_knows_its_own_address() {
        let addr = SocketAddr::from(([127, 0, 0, 1], 3100));
        let any = SocketAddr::from(([0, 0, 0, 0], 3100));
        assert!(is_at("http://127.0.0.1:3100/x", addr) && is_at("http://localhost:3100", addr));
        assert!(is_at("http://127.0.0.1:3100", any));
        for other in ["http://127.0.0.1:3000", "https://127.0.0.1:3100", "http://10.0.0.1:3100", "nonsense"] {
            assert!(!is_at(other, addr), "{other}");
        }
    }
}
