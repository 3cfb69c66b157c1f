//! A server that follows a script.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::{JoinHandle, JoinSet};

use crate::conn::{self, Conn, Flow, Line};
use crate::engine::Engine;
use crate::gate::{Gate, Port};
use crate::link;
use crate::log::{Happening, Log, Report};
use crate::script::{Moment, Script, ScriptError, Version};
use crate::socket::Socket;
use crate::tls::{Cut, Identity};
use crate::upstream::{Upstream, UpstreamError};

/// How many tries, and how many events, the log keeps unless told otherwise.
const LOG_LIMIT: usize = 200_000;

/// How many connections are open at once unless told otherwise.
const MAX_CONNECTIONS: usize = 20_000;

/// How long a client may take for the TLS handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// Why a server did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The script is not one.
    #[error("the script is wrong: {0}")]
    Script(#[from] ScriptError),
    /// The port cannot be had.
    #[error("cannot listen on {address}: {error}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the system said.
        error: std::io::Error,
    },
    /// The URL of the upstream is not one.
    #[error(transparent)]
    Upstream(#[from] UpstreamError),
    /// No certificate could be made.
    #[error("no certificate: {0}")]
    Certificate(String),
}

/// How a server is started. See [`Server::builder`].
#[derive(Debug, Clone)]
pub struct Builder {
    script: Script,
    port: u16,
    log_limit: usize,
    max_connections: usize,
    refusing: Duration,
    tls: bool,
    upstream: Option<String>,
    keep_host: bool,
}

impl Builder {
    /// Speaks TLS, with a certificate made for the occasion: see [`Server::ca_pem`].
    pub fn tls(mut self) -> Self {
        self.tls = true;
        self
    }

    /// Passes requests on to this server, such as `http://127.0.0.1:3000`, rather than answering them: a man in the
    /// middle who misbehaves by the script. Without rules it changes nothing. Bodies pass through as they come.
    pub fn proxy_to(mut self, url: &str) -> Self {
        self.upstream = Some(url.to_owned());
        self
    }

    /// For a proxy: passes on the client's Host rather than the upstream's own.
    pub fn keep_host(mut self) -> Self {
        self.keep_host = true;
        self
    }

    /// The port; 0, as it is unless set, takes any free one.
    pub fn port(mut self, port: u16) -> Self {
        self.port = port;
        self
    }

    /// How many tries, and how many events, the log keeps. The first ones are kept.
    pub fn log_limit(mut self, entries: usize) -> Self {
        self.log_limit = entries;
        self
    }

    /// How many connections are open at once; further ones wait in the system's backlog.
    pub fn max_connections(mut self, connections: usize) -> Self {
        self.max_connections = connections.max(1);
        self
    }

    /// Has the port, but refuses connections for so long after the start.
    pub fn refuse_connects_for(mut self, time: Duration) -> Self {
        self.refusing = time;
        self
    }

    /// Starts the server. It listens on 127.0.0.1 only.
    pub async fn start(self) -> Result<Server, StartError> {
        self.script.check()?;
        let upstream = self.upstream.map(|url| Upstream::new(&url, self.keep_host)).transpose()?.map(Arc::new);
        let tls = self.tls.then(|| Identity::new(self.script.protocol)).transpose().map_err(StartError::Certificate)?;
        let address = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), self.port);
        let gate = Gate::default();
        if !self.refusing.is_zero() {
            gate.refuse_for(self.refusing);
        }
        let port = Port::open(address, gate.clone()).map_err(|error| StartError::Listen { address, error })?;
        let address = port.address;
        let log = Log::new(self.log_limit);
        let ca_pem = tls.as_ref().map(|tls| tls.ca_pem.clone());
        let engine = Arc::new(Mutex::new(Arc::new(Engine::new(self.script))));
        let shared = Shared { engine: engine.clone(), log: log.clone(), gate: gate.clone(), upstream, tls };
        let task = tokio::spawn(accept(port, shared, self.max_connections));
        Ok(Server { address, engine, log, gate, ca_pem, task })
    }
}

/// A server that follows a script, on 127.0.0.1. It stops when it is dropped.
pub struct Server {
    address: SocketAddr,
    engine: Arc<Mutex<Arc<Engine>>>,
    log: Log,
    gate: Gate,
    ca_pem: Option<Arc<str>>,
    task: JoinHandle<()>,
}

impl Server {
    /// Begins to start a server with this script.
    pub fn builder(script: Script) -> Builder {
        Builder {
            script,
            port: 0,
            log_limit: LOG_LIMIT,
            max_connections: MAX_CONNECTIONS,
            refusing: Duration::ZERO,
            tls: false,
            upstream: None,
            keep_host: false,
        }
    }

    /// Where it listens.
    pub fn addr(&self) -> SocketAddr {
        self.address
    }

    /// The URL of a path on it: `server.url("/things")`.
    pub fn url(&self, path: &str) -> String {
        let scheme = if self.ca_pem.is_some() { "https" } else { "http" };
        format!("{scheme}://{}{path}", self.address)
    }

    /// The certificate of the authority that a client has to trust, in PEM; `None` without TLS. Each server makes its
    /// own.
    pub fn ca_pem(&self) -> Option<&str> {
        self.ca_pem.as_deref()
    }

    /// What it received and processed so far.
    pub fn log(&self) -> &Log {
        &self.log
    }

    /// The log in one piece, to be written to a file.
    pub fn report(&self) -> Report {
        self.log.report()
    }

    /// Follows another script on connections that are accepted from now on. The log goes on; which HTTP is agreed on in
    /// TLS stays as it was.
    pub fn set_script(&self, script: Script) -> Result<(), ScriptError> {
        script.check()?;
        *self.engine.lock() = Arc::new(Engine::new(script));
        Ok(())
    }

    /// Refuses new connections for so long, from now.
    pub fn refuse_connects_for(&self, time: Duration) {
        self.gate.refuse_for(time);
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("address", &self.address).field("log", &self.log).finish_non_exhaustive()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// What all connections of a server have in common.
#[derive(Clone)]
pub(crate) struct Shared {
    pub(crate) engine: Arc<Mutex<Arc<Engine>>>,
    pub(crate) log: Log,
    pub(crate) gate: Gate,
    pub(crate) upstream: Option<Arc<Upstream>>,
    tls: Option<Identity>,
}

/// A scripted server without a port: it serves byte streams that it is given, such as a simulated network's. Each of
/// them counts as a connection that was accepted.
///
/// Time is tokio's own. What only a port or a socket can do is left out: refusing connects, the quality of
/// the line; a connection that is to be reset is closed.
#[derive(Clone)]
pub struct Peer(Shared);

impl Peer {
    /// A server that follows this script.
    ///
    /// # Errors
    ///
    /// When the script is none.
    pub fn new(script: Script) -> Result<Self, ScriptError> {
        script.check()?;
        let engine = Arc::new(Mutex::new(Arc::new(Engine::new(script))));
        let (log, gate) = (Log::new(LOG_LIMIT), Gate::default());
        Ok(Self(Shared { engine, log, gate, upstream: None, tls: None }))
    }

    /// Serves a connection to its end.
    pub async fn serve(&self, stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static) {
        let number = self.0.log.accepted();
        let conn = Arc::new(Conn::new(number, self.0.clone(), None));
        drop::<Flow>(conn.happen(Moment::Connect, None).await);
        begin(conn, stream, None, None).await;
    }

    /// Follows another script on connections that are accepted from now on. The log goes on.
    ///
    /// # Errors
    ///
    /// When the script is none.
    pub fn set_script(&self, script: Script) -> Result<(), ScriptError> {
        script.check()?;
        *self.0.engine.lock() = Arc::new(Engine::new(script));
        Ok(())
    }

    /// What it received and processed so far.
    pub fn log(&self) -> &Log {
        &self.0.log
    }
}

impl fmt::Debug for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Peer").field("log", &self.0.log).finish_non_exhaustive()
    }
}

async fn accept(mut port: Port, shared: Shared, max_connections: usize) {
    let mut connections = JoinSet::new();
    loop {
        while connections.try_join_next().is_some() {}
        if connections.len() >= max_connections {
            connections.join_next().await;
        }
        match port.accept().await {
            Ok(stream) => drop(connections.spawn(connection(stream, shared.clone()))),
            // Out of descriptors, most likely: some may come back.
            Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    }
}

async fn connection(stream: TcpStream, shared: Shared) {
    let _ = stream.set_nodelay(true);
    let stream = Arc::new(stream);
    let number = shared.log.accepted();
    let tls = shared.tls.clone();
    let conn = Arc::new(Conn::new(number, shared, Some(stream.clone())));
    drop::<Flow>(conn.happen(Moment::Connect, None).await);
    let Line { link, cut_tls } = std::mem::take(&mut *conn.line.lock());
    match link {
        None => begin(conn, Socket::new(stream), tls, cut_tls).await,
        Some(link) => {
            let line = link::lay(stream, link, conn.clone());
            begin(conn, line, tls, cut_tls).await;
        }
    }
}

/// Does the TLS handshake, where there is one to do, and serves the connection.
async fn begin<T>(conn: Arc<Conn>, wire: T, tls: Option<Identity>, cut_tls: Option<u64>)
where
    T: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    // A connection that is ended or silenced at once gets no handshake.
    if tls.is_none() && cut_tls.is_some() {
        conn.log.happened(conn.number, 0, Happening::NotApplicable { fault: "cut_tls" });
    }
    let Some(tls) = tls.filter(|_| !conn.out.is_ending() && !conn.out.is_deaf()) else {
        let (reader, writer) = tokio::io::split(wire);
        return conn::run(conn, Box::new(reader), Box::new(writer), None).await;
    };
    conn.log.connection(conn.number, |record| record.tls = true);
    let handshake = tls.acceptor.accept(Cut::new(wire, cut_tls));
    let Ok(Ok(stream)) = tokio::time::timeout(HANDSHAKE, handshake).await else {
        conn.log.ended(conn.number, "no TLS handshake", 0, 0);
        return;
    };
    let agreed = if stream.get_ref().1.alpn_protocol() == Some(b"h2") { Version::Http2 } else { Version::Http1 };
    let (reader, writer) = tokio::io::split(stream);
    conn::run(conn, Box::new(reader), Box::new(writer), Some(agreed)).await;
}
