//! A byte stream to a server: plain, inside TLS, through TLS to a proxy, or to a socket of this host.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
#[cfg(unix)]
use tokio::net::UnixStream;
use tokio_rustls::client::TlsStream;

use super::{Below, CheckStale, LeftBelow};
use crate::tls::explain;

/// See the module.
pub(crate) enum Stream {
    Plain(TcpStream),
    Tls(Box<TlsStream<Below<TcpStream>>>),
    #[cfg(feature = "simulation")]
    Simulated(Box<dyn crate::simulation::Io>),
    #[cfg(unix)]
    Unix(UnixStream),
    /// TLS inside anything but a plain TCP connection.
    Nested(Box<TlsStream<Below<Stream>>>),
}

impl AsyncRead for Stream {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match &mut *self {
            Self::Plain(socket) => Pin::new(socket).poll_read(cx, buf),
            Self::Tls(stream) => Pin::new(stream).poll_read(cx, buf).map_err(explain),
            #[cfg(feature = "simulation")]
            Self::Simulated(stream) => Pin::new(stream).poll_read(cx, buf),
            #[cfg(unix)]
            Self::Unix(socket) => Pin::new(socket).poll_read(cx, buf),
            Self::Nested(stream) => Pin::new(stream).poll_read(cx, buf).map_err(explain),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        match &mut *self {
            Self::Plain(socket) => Pin::new(socket).poll_write(cx, buf),
            Self::Tls(stream) => Pin::new(stream).poll_write(cx, buf),
            #[cfg(feature = "simulation")]
            Self::Simulated(stream) => Pin::new(stream).poll_write(cx, buf),
            #[cfg(unix)]
            Self::Unix(socket) => Pin::new(socket).poll_write(cx, buf),
            Self::Nested(stream) => Pin::new(stream).poll_write(cx, buf),
        }
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match &mut *self {
            Self::Plain(socket) => Pin::new(socket).poll_write_vectored(cx, bufs),
            Self::Tls(stream) => Pin::new(stream).poll_write_vectored(cx, bufs),
            #[cfg(feature = "simulation")]
            Self::Simulated(stream) => Pin::new(stream).poll_write_vectored(cx, bufs),
            #[cfg(unix)]
            Self::Unix(socket) => Pin::new(socket).poll_write_vectored(cx, bufs),
            Self::Nested(stream) => Pin::new(stream).poll_write_vectored(cx, bufs),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Plain(socket) => socket.is_write_vectored(),
            Self::Tls(stream) => stream.is_write_vectored(),
            #[cfg(feature = "simulation")]
            Self::Simulated(stream) => stream.is_write_vectored(),
            #[cfg(unix)]
            Self::Unix(socket) => socket.is_write_vectored(),
            Self::Nested(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut *self {
            Self::Plain(socket) => Pin::new(socket).poll_flush(cx),
            Self::Tls(stream) => Pin::new(stream).poll_flush(cx),
            #[cfg(feature = "simulation")]
            Self::Simulated(stream) => Pin::new(stream).poll_flush(cx),
            #[cfg(unix)]
            Self::Unix(socket) => Pin::new(socket).poll_flush(cx),
            Self::Nested(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut *self {
            Self::Plain(socket) => Pin::new(socket).poll_shutdown(cx),
            Self::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
            #[cfg(feature = "simulation")]
            Self::Simulated(stream) => Pin::new(stream).poll_shutdown(cx),
            #[cfg(unix)]
            Self::Unix(socket) => Pin::new(socket).poll_shutdown(cx),
            Self::Nested(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}

impl LeftBelow for Stream {
    fn left_below(&self) -> u64 {
        match self {
            Self::Tls(stream) => stream.left_below(),
            Self::Nested(stream) => stream.left_below(),
            Self::Plain(_) => 0,
            #[cfg(feature = "simulation")]
            Self::Simulated(_) => 0,
            #[cfg(unix)]
            Self::Unix(_) => 0,
        }
    }
}

impl CheckStale for Stream {
    fn check_stale(&self) -> io::Result<()> {
        match self {
            Self::Plain(socket) => socket.check_stale(),
            // Session tickets that nobody has read yet look like an end, too; that costs a new connection and no more.
            Self::Tls(stream) => stream.get_ref().0.check_stale(),
            #[cfg(feature = "simulation")]
            Self::Simulated(_) => Ok(()),
            #[cfg(unix)]
            Self::Unix(socket) => socket.check_stale(),
            Self::Nested(stream) => stream.get_ref().0.check_stale(),
        }
    }
}
