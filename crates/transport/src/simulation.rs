//! A simulated network in place of sockets, for this repository's own tests.
//!
//! It is set for a thread, since a simulation runs on one: everything that is dialled there goes through it, and
//! without TLS.

use std::cell::RefCell;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWrite};

/// A byte stream of the simulated network.
pub trait Io: AsyncRead + AsyncWrite + Send + Unpin + 'static {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin + 'static> Io for T {}

/// A connection that is being made.
pub type Connecting = Pin<Box<dyn Future<Output = io::Result<Box<dyn Io>>> + Send>>;

type Network = Arc<dyn Fn(&str, u16) -> Connecting>;

thread_local! {
    static NETWORK: RefCell<Option<Network>> = const { RefCell::new(None) };
}

/// From now on this thread dials through `connect`, which is given a host and a port.
pub fn on_this_thread(connect: impl Fn(&str, u16) -> Connecting + 'static) {
    NETWORK.with_borrow_mut(|network| *network = Some(Arc::new(connect)));
}

/// Dials through this thread's simulated network; `None`: it has none.
pub(crate) fn connect(host: &str, port: u16) -> Option<Connecting> {
    NETWORK.with_borrow(|network| network.as_ref().map(|connect| connect(host, port)))
}
