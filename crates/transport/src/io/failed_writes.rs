//! A socket that takes a part of what it is given and then fails. Inside TLS that is one write which failed, and what left
//! before may be a whole request: it must not count as not written. What did not leave must not leave later either.

#![allow(clippy::unwrap_used)]

use std::future::poll_fn;
use std::io::{self, ErrorKind, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Method, Request};
use oncebox_policy::Outcome;
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, ReadBuf, duplex};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use super::{LeftBelow, Observed, Protocol, Stream, Wire, frames};
use crate::body::Body;
use crate::conn::H1Connection;
use crate::pool::Counted;
use crate::tls::{Offer, Tls};

/// One write: more than a TLS record holds, so that records of it leave on their own.
const WRITE: usize = 40_000;

/// How much of it the socket takes for each layer of TLS: one record, and a part of the next.
const TAKEN: usize = 20_000;

/// Any number of bytes.
const ALL: usize = usize::MAX;

/// Takes as many bytes as it has room for, and then fails. Its room is shared with the test.
struct Breaking {
    io: DuplexStream,
    room: Arc<AtomicUsize>,
    fails: Fails,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Fails {
    Always,
    /// And has all the room there is from then on.
    Once,
    /// Not now, and is then broken.
    Later,
}

impl AsyncWrite for Breaking {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let room = self.room.load(Ordering::SeqCst);
        if room == 0 {
            match self.fails {
                Fails::Always => {}
                Fails::Once => self.room.store(ALL, Ordering::SeqCst),
                Fails::Later => {
                    self.fails = Fails::Always;
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
            }
            return Poll::Ready(Err(ErrorKind::ConnectionReset.into()));
        }
        let begin: Vec<u8> = bufs.iter().flat_map(|buf| buf.iter().copied()).take(room).collect();
        let taken = Pin::new(&mut self.io).poll_write(cx, &begin);
        if let (Poll::Ready(Ok(taken)), true) = (&taken, room < ALL) {
            self.room.store(room - taken, Ordering::SeqCst);
        }
        taken
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}

impl AsyncRead for Breaking {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(cx, buf)
    }
}

trait Peer: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Peer for T {}

/// What the peer could make of all that reached it.
async fn came(mut peer: Box<dyn Peer>) -> Vec<u8> {
    let (mut came, mut piece) = (Vec::new(), [0; 4096]);
    while let Ok(n @ 1..) = peer.read(&mut piece).await {
        came.extend_from_slice(&piece[..n]);
    }
    came
}

/// A server's side of TLS, and a client's that trusts it.
fn both_sides() -> (TlsAcceptor, Tls) {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
    let server = ServerConfig::builder().with_no_client_auth();
    let acceptor = TlsAcceptor::from(Arc::new(server.with_single_cert(vec![made.cert.der().clone()], key).unwrap()));
    let mut tls = Tls::default();
    tls.accept_invalid(true);
    (acceptor, tls)
}

/// A connection inside so many layers of TLS, whose socket has this much room from now on.
async fn connected(layers: usize, room: usize, fails: Fails) -> (Stream, Box<dyn Peer>) {
    let (acceptor, tls) = both_sides();
    let (ours, theirs) = duplex(1 << 20);
    let left = Arc::new(AtomicUsize::new(ALL));
    let mut ours = Stream::Simulated(Box::new(Breaking { io: ours, room: left.clone(), fails }));
    let mut theirs: Box<dyn Peer> = Box::new(theirs);
    for _ in 0..layers {
        let accepted = acceptor.accept(theirs);
        let (connected, accepted) = tokio::join!(tls.connect(ours, "localhost", Offer::Http1), accepted);
        (ours, theirs) = (connected.unwrap().0, Box::new(accepted.unwrap()));
    }
    left.store(room, Ordering::SeqCst);
    (ours, theirs)
}

/// HEADERS of streams 1, 3, 5 and so on, each with DATA behind it: 400 bytes a stream.
fn requests() -> Vec<u8> {
    let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    for stream in (1..=199_u32).step_by(2) {
        for (kind, payload) in [(frames::HEADERS, 20), (0, 362)] {
            bytes.extend(&(payload as u32).to_be_bytes()[1..]);
            bytes.extend([kind, 0]);
            bytes.extend(stream.to_be_bytes());
            bytes.extend(vec![0x82; payload]);
        }
    }
    assert_eq!(bytes.len(), WRITE + 24);
    bytes
}

/// The highest stream whose HEADERS are within these bytes.
fn last_stream(bytes: usize) -> u32 {
    (bytes.saturating_sub(24 + 9).div_euclid(400) * 2 + 1) as u32
}

/// One write of all of it: at once, or from buffers that are cut at odd places.
async fn write(io: &mut (impl AsyncWrite + Unpin), bytes: &[u8], is_vectored: bool) -> io::Result<usize> {
    if !is_vectored {
        return io.write(bytes).await;
    }
    let bufs: Vec<_> = bytes.chunks(7_001).map(IoSlice::new).collect();
    poll_fn(|cx| Pin::new(&mut *io).poll_write_vectored(cx, &bufs)).await
}

async fn wrote(layers: usize, room: usize, protocol: Protocol, is_vectored: bool) -> (Arc<Wire>, Vec<u8>) {
    let (ours, theirs) = connected(layers, room, Fails::Always).await;
    let (mut observed, wire) = Observed::new(ours, protocol);
    let bytes = requests();
    let mut rest = &bytes[..];
    // A socket without TLS fails behind what it took. HTTP/2 is not told that it did.
    while !wire.write_failed()
        && let Ok(taken) = write(&mut observed, rest, is_vectored).await
    {
        rest = &rest[taken..];
    }
    assert!(wire.write_failed());
    drop(observed);
    (wire, came(theirs).await)
}

#[tokio::test]
async fn streams_whose_heads_left_before_a_write_inside_tls_failed_count_as_written_and_no_others() {
    for (layers, is_vectored) in [(1, false), (1, true), (2, false), (2, true)] {
        let (wire, came) = wrote(layers, TAKEN * layers, Protocol::Http2, is_vectored).await;
        assert!(came.len() > 16_000 && requests().starts_with(&came), "{} bytes came", came.len());
        let (highest, reached) = (wire.highest_headers(), last_stream(came.len()));
        assert!(highest >= reached, "{layers} layers: stream {reached} came, {highest} was the last to be counted");
        if layers == 1 {
            // No byte of a stream that began behind these can have left.
            assert!(highest <= last_stream(TAKEN), "{highest}");
        }
    }
}

#[tokio::test]
async fn an_http1_request_of_which_a_part_left_before_a_write_inside_tls_failed_counts_as_written() {
    for (layers, is_vectored) in [(1, false), (1, true), (2, false), (2, true)] {
        let (wire, came) = wrote(layers, TAKEN * layers, Protocol::Http1, is_vectored).await;
        let (counted, came) = (wire.bytes_written(), came.len());
        assert!(came > 16_000, "{came} bytes came");
        assert!(counted >= came as u64, "{layers} layers: {came} bytes came, {counted} were counted");
    }
}

#[tokio::test]
async fn a_write_inside_tls_of_which_nothing_left_counts_as_nothing() {
    for layers in [1, 2] {
        for protocol in [Protocol::Http1, Protocol::Http2] {
            let (wire, came) = wrote(layers, 0, protocol, true).await;
            assert_eq!((wire.bytes_written(), wire.highest_headers(), came.len()), (0, 0, 0), "{layers} {protocol:?}");
        }
    }
}

#[tokio::test]
async fn without_tls_what_the_socket_took_is_what_counts() {
    for is_vectored in [false, true] {
        let (wire, came) = wrote(0, TAKEN, Protocol::Http2, is_vectored).await;
        assert_eq!((wire.bytes_written(), came.len()), (TAKEN as u64, TAKEN));
        assert_eq!(wire.highest_headers(), last_stream(TAKEN));
        let (wire, came) = wrote(0, 0, Protocol::Http2, is_vectored).await;
        assert_eq!((wire.bytes_written(), wire.highest_headers(), came.len()), (0, 0, 0));
    }
}

#[tokio::test]
async fn what_leaves_below_is_counted_inside_tls_over_tcp_and_not_without() {
    let (acceptor, tls) = both_sides();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let ours = Stream::Plain(TcpStream::connect(listener.local_addr().unwrap()).await.unwrap());
    assert_eq!(ours.left_below(), 0);
    let accepted = async { acceptor.accept(listener.accept().await.unwrap().0).await.unwrap() };
    let (connected, mut theirs) = tokio::join!(tls.connect(ours, "localhost", Offer::Http1), accepted);
    let mut ours = connected.unwrap().0;
    let before = ours.left_below();
    ours.write_all(b"GET").await.unwrap();
    ours.flush().await.unwrap();
    assert!(ours.left_below() > before + 3);
    theirs.read_exact(&mut [0; 3]).await.unwrap();
}

#[tokio::test]
async fn what_tls_took_for_later_counts_as_written_when_its_flush_fails() {
    let (ours, theirs) = connected(1, TAKEN, Fails::Later).await;
    let (mut observed, wire) = Observed::new(ours, Protocol::Http1);
    let taken = observed.write(&requests()).await.unwrap();
    observed.flush().await.unwrap_err();
    assert_eq!(wire.bytes_written(), taken as u64);
    drop(observed);
    assert!(came(theirs).await.len() > 16_000);
}

/// TLS keeps the records of a write that failed, and sends them with whatever comes next: its farewell, an alert.
#[tokio::test]
async fn a_write_that_was_judged_not_to_have_left_does_not_leave_when_the_connection_is_closed() {
    for layers in [1, 2] {
        let (ours, theirs) = connected(layers, 0, Fails::Once).await;
        let (mut observed, wire) = Observed::new(ours, Protocol::Http1);
        write(&mut observed, &requests(), false).await.unwrap_err();
        assert_eq!(wire.bytes_written(), 0);
        let _ = observed.shutdown().await;
        drop(observed);
        assert_eq!(came(theirs).await.len(), 0, "{layers} layers");
    }
}

/// A connection's first request, and what became of it.
async fn posted(room: usize) -> (Outcome, Vec<u8>) {
    let (ours, theirs) = connected(1, room, Fails::Always).await;
    let connection = H1Connection::open(ours, 1, Counted::alone()).await.unwrap();
    let body = Body::from(Bytes::from(vec![b'x'; 2 * WRITE])).into_replay(ALL);
    let request = Request::builder().method(Method::POST).uri("/made-once").header("host", "localhost");
    let Err(failure) = connection.send(request.body(body.attempt()).unwrap()).await else { panic!("no answer came") };
    (failure.outcome, came(theirs).await)
}

#[tokio::test]
async fn a_post_whose_head_left_before_the_write_inside_tls_failed_is_unknown_not_unsent() {
    let (outcome, came) = posted(TAKEN).await;
    assert!(came.starts_with(b"POST /made-once"), "{} bytes came", came.len());
    assert!(matches!(outcome, Outcome::SentUnknown(_)), "{outcome:?}");
    let (outcome, came) = posted(0).await;
    assert_eq!(came.len(), 0);
    assert!(matches!(outcome, Outcome::NotSent(_)), "{outcome:?}");
}
