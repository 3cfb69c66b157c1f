//! Opens sockets.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use oncebox_policy::Phase;
use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;

use crate::conn::Failure;
use crate::io::Stream;
use crate::pool::Authority;
use crate::tls::{Offer, Tls, chose_http2};

/// How long one address may take to answer (protocol fact: 30 s in the official SDK).
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);

/// How long a TLS handshake may take.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(30);

/// A connection to the server, and whether it chose HTTP/2 where it had the choice.
pub(crate) struct Dialled {
    pub(crate) stream: Stream,
    pub(crate) chose_http2: bool,
}

/// Connects to the server, inside TLS where its scheme asks for that.
pub(crate) async fn dial(authority: &Authority, tls: &Tls, offer: Offer) -> Result<Dialled, Failure> {
    #[cfg(feature = "simulation")]
    if let Some(connecting) = crate::simulation::connect(authority.host(), authority.port()) {
        let connected = timeout(CONNECT_TIMEOUT, connecting).await;
        let connected =
            connected.map_err(|_| Failure::dial(Phase::Connect, format!("no answer in {CONNECT_TIMEOUT:?}")))?;
        let stream = connected.map_err(|error| Failure::dial(Phase::Connect, error))?;
        return Ok(Dialled { stream: Stream::Simulated(stream), chose_http2: false });
    }
    let socket = connect(authority).await?;
    if !authority.is_https() {
        return Ok(Dialled { stream: Stream::Plain(socket), chose_http2: false });
    }
    let handshake = timeout(HANDSHAKE_TIMEOUT, tls.connect(socket, authority.host(), offer));
    let stream = handshake
        .await
        .map_err(|_| Failure::dial(Phase::Tls, format!("the handshake was not over in {HANDSHAKE_TIMEOUT:?}")))??;
    Ok(Dialled { chose_http2: chose_http2(&stream), stream: Stream::Tls(Box::new(stream)) })
}

/// Resolves the host and connects to the first of its addresses that answers.
async fn connect(authority: &Authority) -> Result<TcpStream, Failure> {
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
