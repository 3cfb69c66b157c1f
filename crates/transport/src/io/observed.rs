//! The shim between an HTTP implementation and its socket.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::frames::{EmptyDataFilter, FrameReader};
use super::wire::Wire;
use super::{CheckStale, LeftBelow};

/// Reads with less room than this go through a buffer of our own.
const SMALL_READ: usize = 64;

/// Which protocol's bytes pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    Http1,
    Http2,
}

/// A byte stream whose traffic is recorded in a [`Wire`].
///
/// Over HTTP/2 a write error is remembered and not reported: `h2` would stop reading, and a GOAWAY that has already
/// arrived, with its promise about unprocessed streams, would be lost. The read side ends soon after and tells.
pub(crate) struct Observed<T> {
    io: T,
    wire: Arc<Wire>,
    protocol: Protocol,
    outbound: FrameReader,
    inbound: FrameReader,
    filter: EmptyDataFilter,
    /// What passed the filter and found no room.
    passed: Vec<u8>,
}

impl<T> Observed<T> {
    pub(crate) fn new(io: T, protocol: Protocol) -> (Self, Arc<Wire>) {
        let wire = Arc::new(Wire::default());
        let observed = Self {
            io,
            wire: wire.clone(),
            protocol,
            outbound: FrameReader::outbound(),
            inbound: FrameReader::inbound(),
            filter: EmptyDataFilter::new(),
            passed: Vec::new(),
        };
        (observed, wire)
    }

    fn wrote(&mut self, bufs: &[IoSlice<'_>], written: usize) {
        if self.protocol == Protocol::Http2 {
            let mut left = written;
            for buf in bufs {
                let n = left.min(buf.len());
                self.outbound.feed(&buf[..n], |frame| self.wire.outbound(&frame));
                left -= n;
            }
        }
        self.wire.bytes_written.fetch_add(written as u64, Ordering::AcqRel);
    }

    fn write_error<R>(&mut self, error: io::Error, pretend: R) -> Poll<io::Result<R>> {
        self.wire.write_failed.store(true, Ordering::Release);
        if self.protocol == Protocol::Http2 { Poll::Ready(Ok(pretend)) } else { Poll::Ready(Err(error)) }
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Observed<T> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if this.protocol == Protocol::Http1 {
            return this.poll_http1(cx, buf);
        }
        loop {
            if !this.passed.is_empty() {
                let n = this.passed.len().min(buf.remaining());
                buf.put_slice(&this.passed[..n]);
                this.passed.drain(..n);
                return Poll::Ready(Ok(()));
            }
            if buf.remaining() >= SMALL_READ {
                if ready!(this.poll_http2(cx, buf))? {
                    return Poll::Ready(Ok(()));
                }
            } else {
                // With a frame's head held back there may be no room for one more byte.
                let mut small = [0; SMALL_READ];
                let mut small = ReadBuf::new(&mut small);
                if ready!(this.poll_http2(cx, &mut small))? {
                    if small.filled().is_empty() {
                        return Poll::Ready(Ok(()));
                    }
                    this.passed.extend_from_slice(small.filled());
                }
            }
        }
    }
}

impl<T: AsyncRead + Unpin> Observed<T> {
    fn poll_http1(&mut self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let read = ready!(Pin::new(&mut self.io).poll_read(cx, buf));
        let got = buf.filled().len() - before;
        self.wire.bytes_read.fetch_add(got as u64, Ordering::AcqRel);
        if read.is_err() || (got == 0 && buf.remaining() > 0) {
            self.wire.ended.store(true, Ordering::Release);
        }
        Poll::Ready(read)
    }

    /// Reads, takes empty DATA frames out, and reports the others. `false`: nothing passed, read again. `true` with
    /// nothing added is the end.
    fn poll_http2(&mut self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<bool>> {
        let before = buf.filled().len();
        let (held, len) = self.filter.take_held();
        buf.put_slice(&held[..len]);
        let start = buf.filled().len();
        let read = Pin::new(&mut self.io).poll_read(cx, buf);
        let got = buf.filled().len() - start;
        if matches!(&read, Poll::Ready(Ok(()))) && got == 0 {
            // The end. A head that will never be complete passes as it is: h2 reports it.
            self.wire.ended.store(true, Ordering::Release);
            return Poll::Ready(Ok(true));
        }
        self.wire.bytes_read.fetch_add(got as u64, Ordering::AcqRel);
        let fresh = &mut buf.filled_mut()[before..];
        let passed = self.filter.filter(fresh);
        self.inbound.feed(&fresh[..passed], |frame| self.wire.inbound(&frame));
        buf.set_filled(before + passed);
        match read {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Ok(())) => Poll::Ready(Ok(passed > 0)),
            Poll::Ready(Err(error)) => {
                self.wire.ended.store(true, Ordering::Release);
                Poll::Ready(Err(error))
            }
        }
    }
}

impl<T: AsyncWrite + CheckStale + LeftBelow + Unpin> AsyncWrite for Observed<T> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[IoSlice::new(buf)])
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = &mut *self;
        let all = bufs.iter().map(|b| b.len()).sum();
        if this.protocol == Protocol::Http2 && this.wire.write_failed() {
            return Poll::Ready(Ok(all));
        }
        if this.wire.check_before_write.swap(false, Ordering::AcqRel)
            && let Err(stale) = this.io.check_stale()
        {
            this.wire.ended.store(true, Ordering::Release);
            return this.write_error(stale, all);
        }
        let before = this.io.left_below();
        match ready!(Pin::new(&mut this.io).poll_write_vectored(cx, bufs)) {
            Ok(written) => {
                this.wrote(bufs, written);
                Poll::Ready(Ok(written))
            }
            Err(error) => {
                // A part may have left before TLS failed: never more bytes than left below it, and from the front.
                let left = this.io.left_below() - before;
                this.wrote(bufs, usize::try_from(left).map_or(all, |left| left.min(all)));
                this.write_error(error, all)
            }
        }
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if this.protocol == Protocol::Http2 && this.wire.write_failed() {
            return Poll::Ready(Ok(()));
        }
        match ready!(Pin::new(&mut this.io).poll_flush(cx)) {
            Ok(()) => Poll::Ready(Ok(())),
            Err(error) => this.write_error(error, ()),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::super::frames;
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    impl LeftBelow for tokio::io::DuplexStream {}

    impl CheckStale for tokio::io::DuplexStream {
        fn check_stale(&self) -> io::Result<()> {
            Ok(())
        }
    }

    fn goaway(last: u32, code: u32, debug: &[u8]) -> Vec<u8> {
        let mut out = (8 + debug.len() as u32).to_be_bytes()[1..].to_vec();
        out.extend([frames::GOAWAY, 0, 0, 0, 0, 0]);
        out.extend(last.to_be_bytes());
        out.extend(code.to_be_bytes());
        out.extend(debug);
        out
    }

    #[tokio::test]
    async fn a_goaways_last_id_never_rises_and_its_newest_reason_is_kept() {
        let (ours, mut theirs) = tokio::io::duplex(1024);
        let (mut observed, wire) = Observed::new(ours, Protocol::Http2);
        for (last, code) in [(i32::MAX as u32, 0), (41, 0), (99, 11)] {
            theirs.write_all(&goaway(last, code, b"max_age")).await.unwrap();
        }
        drop(theirs);
        observed.read_to_end(&mut Vec::new()).await.unwrap();
        let seen = wire.goaway().unwrap();
        assert_eq!((seen.last_stream_id, seen.code), (41, 11));
        assert_eq!(seen.debug_data, b"max_age");
        assert!(wire.ended());
    }

    #[tokio::test]
    async fn the_stream_cap_is_unknown_until_settings_come_and_zero_is_a_cap() {
        let (ours, mut theirs) = tokio::io::duplex(1024);
        let (mut observed, wire) = Observed::new(ours, Protocol::Http2);
        assert_eq!(wire.max_concurrent_streams(), None);
        let mut byte = [0; 64];
        theirs.write_all(&[0, 0, 0, 4, 0, 0, 0, 0, 0]).await.unwrap();
        let _ = observed.read(&mut byte).await.unwrap();
        assert_eq!(wire.max_concurrent_streams(), Some(None));
        theirs.write_all(&[0, 0, 6, 4, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0]).await.unwrap();
        let _ = observed.read(&mut byte).await.unwrap();
        assert_eq!(wire.max_concurrent_streams(), Some(Some(0)));
    }

    #[tokio::test]
    async fn after_a_failed_write_a_goaway_that_came_before_is_still_read() {
        let (ours, mut theirs) = tokio::io::duplex(1024);
        theirs.write_all(&goaway(0, 0, b"")).await.unwrap();
        drop(theirs);
        let (mut observed, wire) = Observed::new(ours, Protocol::Http2);
        observed.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await.unwrap();
        observed.flush().await.unwrap();
        observed.read_to_end(&mut Vec::new()).await.unwrap();
        assert_eq!(wire.goaway().map(|g| g.last_stream_id), Some(0));
        assert_eq!(wire.bytes_written(), 0);
    }

    #[tokio::test]
    async fn however_little_room_a_reader_offers_all_bytes_come_and_it_never_spins() {
        let mut sent = Vec::new();
        for stream in 0..200_u8 {
            // An empty DATA frame, and one with a byte.
            sent.extend([0, 0, 0, 0, 0, 0, 0, 0, stream]);
            sent.extend([0, 0, 1, 0, 0, 0, 0, 0, stream, stream]);
        }
        let want: Vec<u8> = (0..200_u8).flat_map(|stream| [0, 0, 1, 0, 0, 0, 0, 0, stream, stream]).collect();
        for room in [1, 8, 9, 10, 63, 64, 65, 4096] {
            let (ours, mut theirs) = tokio::io::duplex(17);
            let (mut observed, _) = Observed::new(ours, Protocol::Http2);
            let sent = sent.clone();
            let writer = tokio::spawn(async move { theirs.write_all(&sent).await });
            let (mut got, mut piece) = (Vec::new(), vec![0; room]);
            loop {
                match observed.read(&mut piece).await.unwrap() {
                    0 => break,
                    n => got.extend_from_slice(&piece[..n]),
                }
            }
            writer.await.unwrap().unwrap();
            assert_eq!(got, want, "room for {room}");
        }
    }

    #[tokio::test]
    async fn http1_write_errors_are_told_and_no_byte_counted() {
        let (ours, theirs) = tokio::io::duplex(16);
        drop(theirs);
        let (mut observed, wire) = Observed::new(ours, Protocol::Http1);
        observed.write_all(b"GET").await.unwrap_err();
        assert_eq!(wire.bytes_written(), 0);
    }
}
