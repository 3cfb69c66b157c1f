//! The listening port, which can be closed for a while.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::time::Instant;

/// Connections that the system may hold for us before we accept them.
const BACKLOG: i32 = 4096;

/// Closes the port from anywhere.
#[derive(Debug, Clone, Default)]
pub(crate) struct Gate(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    refuse_until: Mutex<Option<Instant>>,
    changed: Notify,
}

impl Gate {
    pub(crate) fn refuse_for(&self, time: Duration) {
        *self.0.refuse_until.lock() = Some(Instant::now() + time);
        self.0.changed.notify_one();
    }

    fn refused_until(&self) -> Option<Instant> {
        self.0.refuse_until.lock().filter(|until| *until > Instant::now())
    }
}

/// Either listens, or holds the port without listening, so that the system refuses connections.
pub(crate) struct Port {
    gate: Gate,
    pub(crate) address: SocketAddr,
    listener: Option<TcpListener>,
    held: Option<Socket>,
}

impl Port {
    pub(crate) fn open(address: SocketAddr, gate: Gate) -> io::Result<Self> {
        let socket = bound(address)?;
        let address = socket.local_addr()?.as_socket().unwrap_or(address);
        let mut port = Self { gate, address, listener: None, held: Some(socket) };
        if port.gate.refused_until().is_none() {
            port.listen()?;
        }
        Ok(port)
    }

    fn listen(&mut self) -> io::Result<()> {
        let socket = match self.held.take() {
            Some(socket) => socket,
            None => bound(self.address)?,
        };
        socket.listen(BACKLOG)?;
        self.listener = Some(TcpListener::from_std(socket.into())?);
        Ok(())
    }

    pub(crate) async fn accept(&mut self) -> io::Result<TcpStream> {
        loop {
            if let Some(until) = self.gate.refused_until() {
                if self.listener.take().is_some() {
                    self.held = Some(bound(self.address)?);
                }
                tokio::time::sleep_until(until).await;
                continue;
            }
            if self.listener.is_none() {
                self.listen()?;
            }
            let gate = self.gate.clone();
            let Some(listener) = &self.listener else { continue };
            tokio::select! {
                accepted = listener.accept() => return accepted.map(|(stream, _)| stream),
                () = gate.0.changed.notified() => {}
            }
        }
    }
}

/// An address at which connecting neither succeeds nor fails: the port's backlog is full and is never emptied, so the
/// system drops further attempts, as a firewall would. For timeouts of the connect phase.
#[derive(Debug)]
pub struct Blackhole {
    address: SocketAddr,
    _listener: Socket,
    _filling: Vec<TcpStream>,
}

impl Blackhole {
    /// Opens one on 127.0.0.1. The error also tells that a system's backlog does not fill up.
    pub async fn open() -> io::Result<Self> {
        let listener = bound(SocketAddr::from(([127, 0, 0, 1], 0)))?;
        listener.listen(0)?;
        let address = listener.local_addr()?.as_socket().ok_or(io::ErrorKind::AddrNotAvailable)?;
        let mut filling = Vec::new();
        for _ in 0..MOST_FILLING {
            match tokio::time::timeout(Duration::from_millis(100), TcpStream::connect(address)).await {
                Ok(connected) => filling.push(connected?),
                Err(_) => return Ok(Self { address, _listener: listener, _filling: filling }),
            }
        }
        Err(io::Error::other(format!("{MOST_FILLING} connections did not fill a backlog of 0")))
    }

    /// Where it is.
    pub fn addr(&self) -> SocketAddr {
        self.address
    }
}

/// How many connections may be needed to fill the smallest backlog.
const MOST_FILLING: usize = 16;

fn bound(address: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    // The port is taken again while connections accepted on it live on.
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    Ok(socket)
}
