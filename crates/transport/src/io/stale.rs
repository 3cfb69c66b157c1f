//! Asks the kernel, just before a kept-alive connection is used again, whether the peer has already ended it.

use std::io::{self, ErrorKind};
use std::mem::MaybeUninit;

use socket2::SockRef;
use tokio::net::TcpStream;

/// A stream that can tell whether something arrived which nobody asked for.
pub(crate) trait CheckStale {
    /// `Ok` if nothing waits to be read. An idle HTTP/1.1 connection on which something does is ended or out of step
    /// (an unsolicited 408, for one): the next request must not be written to it (RFC 9112 §9.3.1).
    fn check_stale(&self) -> io::Result<()>;
}

impl CheckStale for TcpStream {
    fn check_stale(&self) -> io::Result<()> {
        peek(SockRef::from(self))
    }
}

#[cfg(unix)]
impl CheckStale for tokio::net::UnixStream {
    fn check_stale(&self) -> io::Result<()> {
        peek(SockRef::from(self))
    }
}

fn peek(socket: SockRef<'_>) -> io::Result<()> {
    // Asked of the socket itself: the runtime's idea of readiness may lag behind a FIN that the kernel has.
    let mut byte = [MaybeUninit::uninit()];
    match socket.peek(&mut byte) {
        Ok(0) => Err(io::Error::new(ErrorKind::UnexpectedEof, "the peer closed the idle connection")),
        Ok(_) => Err(io::Error::new(ErrorKind::InvalidData, "the peer sent bytes on the idle connection")),
        Err(e) if e.kind() == ErrorKind::WouldBlock => Ok(()),
        Err(e) => Err(e),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    async fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        (client, listener.accept().await.unwrap().0)
    }

    #[tokio::test]
    async fn a_quiet_connection_is_fresh_and_stays_readable() {
        let (mut client, mut server) = pair().await;
        client.check_stale().unwrap();
        client.check_stale().unwrap();
        server.write_all(b"hi").await.unwrap();
        let mut read = [0; 2];
        client.read_exact(&mut read).await.unwrap();
        assert_eq!(&read, b"hi");
    }

    #[tokio::test]
    async fn a_closed_or_talking_peer_is_noticed_at_once() {
        let (client, server) = pair().await;
        drop(server);
        client.readable().await.unwrap();
        assert_eq!(client.check_stale().unwrap_err().kind(), ErrorKind::UnexpectedEof);

        let (client, mut server) = pair().await;
        server.write_all(b"HTTP/1.1 408 Request Timeout\r\n\r\n").await.unwrap();
        client.readable().await.unwrap();
        assert_eq!(client.check_stale().unwrap_err().kind(), ErrorKind::InvalidData);
    }
}
