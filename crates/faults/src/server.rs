//! A server that follows a script.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::task::{JoinHandle, JoinSet};

use crate::conn::{self, Conn, Flow};
use crate::engine::Engine;
use crate::gate::{Gate, Port};
use crate::log::{Log, Report};
use crate::script::{Moment, Script, ScriptError};
use crate::socket::Socket;

/// How many tries, and how many events, the log keeps unless told otherwise.
const LOG_LIMIT: usize = 200_000;

/// How many connections are open at once unless told otherwise.
const MAX_CONNECTIONS: usize = 20_000;

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
}

/// How a server is started. See [`Server::builder`].
#[derive(Debug, Clone)]
pub struct Builder {
    script: Script,
    port: u16,
    log_limit: usize,
    max_connections: usize,
    refusing: Duration,
}

impl Builder {
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
        let address = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), self.port);
        let gate = Gate::default();
        if !self.refusing.is_zero() {
            gate.refuse_for(self.refusing);
        }
        let port = Port::open(address, gate.clone()).map_err(|error| StartError::Listen { address, error })?;
        let address = port.address;
        let log = Log::new(self.log_limit);
        let shared = Shared { engine: Arc::new(Engine::new(self.script)), log: log.clone(), gate: gate.clone() };
        let task = tokio::spawn(accept(port, shared, self.max_connections));
        Ok(Server { address, log, gate, task })
    }
}

/// A server that follows a script, on 127.0.0.1. It stops when it is dropped.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    log: Log,
    gate: Gate,
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
        }
    }

    /// Where it listens.
    pub fn addr(&self) -> SocketAddr {
        self.address
    }

    /// The URL of a path on it: `server.url("/things")`.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// What it received and processed so far.
    pub fn log(&self) -> &Log {
        &self.log
    }

    /// The log in one piece, to be written to a file.
    pub fn report(&self) -> Report {
        self.log.report()
    }

    /// Refuses new connections for so long, from now.
    pub fn refuse_connects_for(&self, time: Duration) {
        self.gate.refuse_for(time);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

#[derive(Clone)]
struct Shared {
    engine: Arc<Engine>,
    log: Log,
    gate: Gate,
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
    let conn = Arc::new(Conn::new(number, shared.engine, shared.log, shared.gate, stream.clone()));
    drop::<Flow>(conn.happen(Moment::Connect, None).await);
    let (reader, writer) = (Box::new(Socket::new(stream.clone())), Box::new(Socket::new(stream)));
    conn::run(conn, reader, writer, None).await;
}
