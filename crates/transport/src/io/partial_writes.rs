//! A socket that takes a part of what it is given: no byte is lost or sent twice, plain or inside TLS, and the shim counts
//! what was taken.

#![allow(clippy::unwrap_used)]

use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use parking_lot::Mutex;
use rustls::pki_types::{PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, ReadBuf, duplex};
use tokio_rustls::client::TlsStream;
use tokio_rustls::{TlsAcceptor, TlsConnector};

use super::{Below, CheckStale, LeftBelow, Observed, Protocol, frames};

/// Takes as many bytes as its script says, over and over; 0: not now.
struct Scripted {
    io: DuplexStream,
    script: &'static [usize],
    next: usize,
    /// How often it took less than it was given, and how often that ended within the second buffer or a later one.
    partial: Arc<Mutex<[usize; 2]>>,
}

const SCRIPTS: [&[usize]; 5] =
    [&[1, 1, 1, 1, 2900], &[3, 0, 1, 0, 0, 8, 3000], &[9, 10, 0, 1500], &[0, 16_384, 1, 70_000, 0, 333], &[usize::MAX]];

impl AsyncWrite for Scripted {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let most = self.script[self.next % self.script.len()];
        self.next += 1;
        if most == 0 {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let begin: Vec<u8> = bufs.iter().flat_map(|buf| buf.iter().copied()).take(most).collect();
        let taken = Pin::new(&mut self.io).poll_write(cx, &begin);
        if let Poll::Ready(Ok(taken)) = taken
            && taken < bufs.iter().map(|buf| buf.len()).sum()
        {
            let mut partial = self.partial.lock();
            partial[0] += 1;
            partial[1] += usize::from(taken > bufs[0].len());
        }
        taken
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}

impl AsyncRead for Scripted {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(cx, buf)
    }
}

impl CheckStale for Scripted {
    fn check_stale(&self) -> io::Result<()> {
        Ok(())
    }
}

impl LeftBelow for Scripted {}

impl CheckStale for TlsStream<Below<Scripted>> {
    fn check_stale(&self) -> io::Result<()> {
        Ok(())
    }
}

/// A preface, and then a HEADERS frame of each stream with DATA behind it, cut into pieces at odd places. With it, after how
/// many bytes each stream's HEADERS have begun.
fn sent() -> (Vec<Vec<u8>>, Vec<(u64, u32)>) {
    let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    let mut headers = Vec::new();
    for n in 0..60_u32 {
        let stream = 2 * n + 1;
        headers.push((bytes.len() as u64 + 9, stream));
        for (kind, payload) in [(frames::HEADERS, vec![0x82; 20]), (0, vec![n as u8; (n * 97) as usize])] {
            bytes.extend(&(payload.len() as u32).to_be_bytes()[1..]);
            bytes.extend([kind, 0]);
            bytes.extend(stream.to_be_bytes());
            bytes.extend(payload);
        }
    }
    let mut pieces = Vec::new();
    let mut rest = bytes.as_slice();
    for size in [1, 0, 23, 9, 2000, 7, 40_000].into_iter().cycle() {
        let piece;
        (piece, rest) = rest.split_at(rest.len().min(size));
        pieces.push(piece.to_vec());
        if rest.is_empty() {
            return (pieces, headers);
        }
    }
    unreachable!("a cycle has no end")
}

/// As HTTP implementations do: all buffers at once, and what was not taken again. `wrote` is told how much was taken.
async fn write_all(io: &mut (impl AsyncWrite + Unpin), pieces: &[Vec<u8>], mut wrote: impl FnMut(u64)) {
    let mut all = 0;
    let mut slices: Vec<_> = pieces.iter().map(|piece| IoSlice::new(piece)).collect();
    let mut left = &mut slices[..];
    IoSlice::advance_slices(&mut left, 0);
    while !left.is_empty() {
        let taken = poll_fn(|cx| Pin::new(&mut *io).poll_write_vectored(cx, left)).await.unwrap();
        assert!(taken > 0);
        all += taken as u64;
        wrote(all);
        IoSlice::advance_slices(&mut left, taken);
    }
    io.flush().await.unwrap();
    io.shutdown().await.unwrap();
}

async fn check<T: AsyncRead + AsyncWrite + CheckStale + LeftBelow + Unpin>(
    ours: T,
    mut theirs: impl AsyncRead + Unpin,
) {
    let (pieces, headers) = sent();
    let all = pieces.concat();
    let (mut observed, wire) = Observed::new(ours, Protocol::Http2);
    let wrote = |taken| {
        let begun = headers.iter().take_while(|(at, _)| *at <= taken).last();
        assert_eq!((wire.bytes_written(), wire.highest_headers()), (taken, begun.map_or(0, |(_, stream)| *stream)));
    };
    let mut came = Vec::new();
    let (_, read) = tokio::join!(write_all(&mut observed, &pieces, wrote), theirs.read_to_end(&mut came));
    read.unwrap();
    assert!(came == all, "{} bytes came of {}", came.len(), all.len());
    assert_eq!(wire.bytes_written(), all.len() as u64);
}

fn scripted(script: &'static [usize]) -> (Scripted, DuplexStream, Arc<Mutex<[usize; 2]>>) {
    let (ours, theirs) = duplex(20_000);
    let partial = Arc::default();
    (Scripted { io: ours, script, next: 0, partial: Arc::clone(&partial) }, theirs, partial)
}

#[tokio::test]
async fn what_a_socket_takes_in_parts_comes_whole() {
    for script in SCRIPTS {
        let (ours, theirs, partial) = scripted(script);
        check(ours, theirs).await;
        let [partial, beyond_the_first] = *partial.lock();
        assert!(partial > 0, "{script:?}");
        assert_eq!(beyond_the_first > 0, script.iter().any(|most| *most > 1), "{script:?}");
    }
}

#[tokio::test]
async fn so_it_does_inside_tls() {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(made.cert.der().clone()).unwrap();
    let server = ServerConfig::builder().with_no_client_auth();
    let acceptor = TlsAcceptor::from(Arc::new(server.with_single_cert(vec![made.cert.der().clone()], key).unwrap()));
    let client = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    let connector = TlsConnector::from(Arc::new(client));
    for script in SCRIPTS {
        let (ours, theirs, partial) = scripted(script);
        let name = ServerName::try_from("localhost").unwrap();
        let (ours, theirs) = tokio::join!(connector.connect(name, Below::new(ours)), acceptor.accept(theirs));
        let ours = ours.unwrap();
        assert!(ours.is_write_vectored());
        check(ours, theirs.unwrap()).await;
        assert!(partial.lock()[0] > 0, "{script:?}");
    }
}
