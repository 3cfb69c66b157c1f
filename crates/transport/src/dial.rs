//! Opens sockets.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use oncebox_policy::Phase;
use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;

use crate::conn::Failure;
use crate::pool::Authority;

/// How long one address may take to answer (protocol fact: 30 s in the official SDK).
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);

/// Resolves the host and connects to the first of its addresses that answers.
pub(crate) async fn dial(authority: &Authority) -> Result<TcpStream, Failure> {
    let addresses: Vec<SocketAddr> = lookup_host((authority.host(), authority.port()))
        .await
        .map_err(|error| Failure::dial(Phase::Dns, error))?
        .collect();
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in addresses {
        match timeout(CONNECT_TIMEOUT, TcpStream::connect(address)).await {
            Ok(Ok(socket)) => match socket.set_nodelay(true) {
                Ok(()) => return Ok(socket),
                Err(error) => last = error,
            },
            Ok(Err(error)) => last = io::Error::new(error.kind(), format!("{address}: {error}")),
            Err(_) => {
                last = io::Error::new(io::ErrorKind::TimedOut, format!("{address}: no answer in {CONNECT_TIMEOUT:?}"));
            }
        }
    }
    Err(Failure::dial(Phase::Connect, last))
}
