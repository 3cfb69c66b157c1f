//! What leaves below TLS. TLS fails a write as a whole, although records of it may have left before.

use std::io::{self, ErrorKind, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

use super::CheckStale;

/// A stream that tells how much of a failed write may have left.
pub(crate) trait LeftBelow {
    /// A count that rises, while a write goes on, by no less than what leaves of it. It stays 0 where a write that fails
    /// has written nothing, as the kernel's do.
    fn left_below(&self) -> u64 {
        0
    }
}

impl LeftBelow for TcpStream {}

impl<T: LeftBelow> LeftBelow for TlsStream<Below<T>> {
    fn left_below(&self) -> u64 {
        let below = self.get_ref().0;
        // Below TLS may be TLS again, whose own writes fail in the same way.
        below.taken + below.io.left_below()
    }
}

/// The stream below TLS: it counts what leaves.
///
/// Its first failed write is its last. TLS keeps the records of a write that failed and would send them with whatever
/// comes next, an alert or its farewell; by then the request in them may have been judged as not sent.
pub(crate) struct Below<T> {
    io: T,
    taken: u64,
    failed: bool,
}

impl<T> Below<T> {
    pub(crate) fn new(io: T) -> Self {
        Self { io, taken: 0, failed: false }
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Below<T> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(cx, buf)
    }
}

impl<T: AsyncWrite + Unpin> Below<T> {
    fn write(&mut self, write: impl FnOnce(Pin<&mut T>) -> Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if self.failed {
            return Poll::Ready(Err(io::Error::new(ErrorKind::BrokenPipe, "an earlier write failed")));
        }
        let written = ready!(write(Pin::new(&mut self.io)));
        match &written {
            Ok(written) => self.taken += *written as u64,
            Err(_) => self.failed = true,
        }
        Poll::Ready(written)
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Below<T> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.write(|io| io.poll_write(cx, buf))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.write(|io| io.poll_write_vectored(cx, bufs))
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}

impl<T: CheckStale> CheckStale for Below<T> {
    fn check_stale(&self) -> io::Result<()> {
        self.io.check_stale()
    }
}
