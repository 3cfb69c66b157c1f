//! A body that outlives the attempts which send it.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::HeaderMap;
use http_body::{Body as _, Frame, SizeHint};
use http_body_util::combinators::UnsyncBoxBody;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::{BoxError, Opener};

/// The body of one call. Each attempt gets a view of it by [`Replay::attempt`].
pub(crate) struct Replay {
    kind: Kind,
}

enum Kind {
    Bytes(Option<Bytes>),
    Stream(Arc<Mutex<Source>>),
}

/// How much of a body was used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodyUse {
    /// There is none.
    None,
    /// All of it is at hand.
    Bytes,
    /// A stream that no attempt has read.
    Unread,
    /// A stream whose read part, in bytes, is mirrored.
    Mirrored(u64),
    /// A stream of which more was read than is mirrored, or which failed: what it did not yield is gone.
    Consumed(u64),
}

impl Replay {
    pub(super) fn bytes(bytes: Option<Bytes>) -> Self {
        Self { kind: Kind::Bytes(bytes) }
    }

    pub(super) fn stream(body: UnsyncBoxBody<Bytes, BoxError>, limit: usize) -> Self {
        let source = Source {
            hint: body.size_hint(),
            body: Some(body),
            open: None,
            mirror: Some(Mirror::default()),
            limit: limit as u64,
            read: 0,
            attempt: 0,
            failed: false,
            upload: Upload::NotBegun,
        };
        Self { kind: Kind::Stream(Arc::new(Mutex::new(source))) }
    }

    pub(super) fn rewindable(length: Option<u64>, open: Opener) -> Self {
        let source = Source {
            hint: length.map_or_else(SizeHint::new, SizeHint::with_exact),
            body: None,
            open: Some(open),
            mirror: None,
            limit: 0,
            read: 0,
            attempt: 0,
            failed: false,
            upload: Upload::NotBegun,
        };
        Self { kind: Kind::Stream(Arc::new(Mutex::new(source))) }
    }

    /// A view for the next attempt, from the first byte. Earlier views yield nothing any more.
    pub(crate) fn attempt(&self) -> AttemptBody {
        match &self.kind {
            Kind::Bytes(bytes) => AttemptBody { kind: View::Bytes(bytes.clone()) },
            Kind::Stream(source) => {
                let mut locked = source.lock();
                locked.attempt += 1;
                locked.upload = Upload::NotBegun;
                locked.rewind();
                let replay = locked.mirror.as_ref().map(|m| m.frames.iter().cloned().collect()).unwrap_or_default();
                let view = View::Stream {
                    replay,
                    hint: locked.hint,
                    reader: Reader { source: source.clone(), attempt: locked.attempt },
                    ended: false,
                };
                drop(locked);
                AttemptBody { kind: view }
            }
        }
    }

    pub(crate) fn usage(&self) -> BodyUse {
        match &self.kind {
            Kind::Bytes(None) => BodyUse::None,
            Kind::Bytes(Some(_)) => BodyUse::Bytes,
            Kind::Stream(source) => {
                let source = source.lock();
                match (&source.mirror, source.read) {
                    (_, read) if source.failed => BodyUse::Consumed(read),
                    _ if source.open.is_some() => BodyUse::Bytes,
                    (Some(mirror), _) if mirror.frames.is_empty() => BodyUse::Unread,
                    (Some(_), read) => BodyUse::Mirrored(read),
                    (None, read) => BodyUse::Consumed(read),
                }
            }
        }
    }

    /// How far the running attempt has come with a stream.
    pub(crate) fn upload(&self) -> Upload {
        match &self.kind {
            Kind::Bytes(_) => Upload::NotBegun,
            Kind::Stream(source) => source.lock().upload,
        }
    }

    pub(crate) fn is_stream(&self) -> bool {
        matches!(self.kind, Kind::Stream(_))
    }

    /// No further attempt will be made: what is mirrored is let go. The running attempt goes on reading.
    pub(crate) fn commit(&self) {
        if let Kind::Stream(source) = &self.kind {
            let mut source = source.lock();
            source.mirror = None;
            source.open = None;
        }
    }
}

/// How far an attempt has come with a body that is read as it is sent, and since when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Upload {
    /// Nobody has asked for a byte of it.
    NotBegun,
    /// The caller's stream is to yield more.
    Source,
    /// What it yielded waits to be taken by the connection.
    Peer(Instant),
    /// The connection has taken all of it, or wants no more.
    Over(Instant),
}

struct Source {
    /// `None` once it ended, failed, or is not needed any more.
    body: Option<UnsyncBoxBody<Bytes, BoxError>>,
    /// Where it can be had from its first byte again, as long as that may be needed.
    open: Option<Opener>,
    /// `None` once more was read than may be kept.
    mirror: Option<Mirror>,
    hint: SizeHint,
    limit: u64,
    read: u64,
    /// The newest attempt; only it may read.
    attempt: u64,
    failed: bool,
    upload: Upload,
}

#[derive(Default)]
struct Mirror {
    frames: Vec<Piece>,
}

#[derive(Clone)]
enum Piece {
    Data(Bytes),
    Trailers(HeaderMap),
}

impl Piece {
    fn into_frame(self) -> Frame<Bytes> {
        match self {
            Self::Data(data) => Frame::data(data),
            Self::Trailers(trailers) => Frame::trailers(trailers),
        }
    }
}

impl Source {
    fn rewind(&mut self) {
        if let Some(open) = self.open.as_ref().filter(|_| !self.failed) {
            self.body = Some(open());
            self.read = 0;
        }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let Some(body) = &mut self.body else {
            // Its end must not be taken for the body's.
            return Poll::Ready(self.failed.then(|| Err("the request's body failed before".into())));
        };
        let piece = match ready!(Pin::new(body).poll_frame(cx)) {
            None => {
                self.body = None;
                return Poll::Ready(None);
            }
            Some(Err(error)) => {
                self.body = None;
                self.failed = true;
                return Poll::Ready(Some(Err(error)));
            }
            Some(Ok(frame)) => match frame.into_data() {
                Ok(data) => Piece::Data(data),
                Err(frame) => match frame.into_trailers() {
                    Ok(trailers) => Piece::Trailers(trailers),
                    // A kind of frame that HTTP has no place for.
                    Err(_) => return Poll::Ready(Some(Ok(Frame::data(Bytes::new())))),
                },
            },
        };
        if let Piece::Data(data) = &piece {
            self.read += data.len() as u64;
        }
        if self.read > self.limit {
            self.mirror = None;
        } else if let Some(mirror) = &mut self.mirror {
            mirror.frames.push(piece.clone());
        }
        Poll::Ready(Some(Ok(piece.into_frame())))
    }
}

/// One attempt's view of the call's body.
pub(crate) struct AttemptBody {
    kind: View,
}

enum View {
    Bytes(Option<Bytes>),
    Stream {
        /// What earlier attempts read, to be sent first.
        replay: VecDeque<Piece>,
        hint: SizeHint,
        reader: Reader,
        ended: bool,
    },
}

/// One attempt's hold on the stream.
struct Reader {
    source: Arc<Mutex<Source>>,
    attempt: u64,
}

impl Drop for Reader {
    fn drop(&mut self) {
        let mut source = self.source.lock();
        // A connection that knows the length lets go after the last byte, and never asks for the end.
        if source.attempt == self.attempt && !matches!(source.upload, Upload::Over(_)) {
            source.upload = Upload::Over(Instant::now());
        }
    }
}

impl AttemptBody {
    /// The whole body, where it is at hand; a stream comes back as it was.
    pub(crate) fn into_whole(self) -> Result<Option<Bytes>, Self> {
        match self.kind {
            View::Bytes(bytes) => Ok(bytes),
            stream => Err(Self { kind: stream }),
        }
    }
}

impl http_body::Body for AttemptBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        match &mut self.kind {
            View::Bytes(bytes) => Poll::Ready(bytes.take().map(|b| Ok(Frame::data(b)))),
            View::Stream { replay, reader, ended, .. } => {
                let mut source = reader.source.lock();
                if source.attempt != reader.attempt {
                    return Poll::Ready(Some(Err("a later attempt has taken over this body".into())));
                }
                let polled = match replay.pop_front() {
                    Some(piece) => Poll::Ready(Some(Ok(piece.into_frame()))),
                    None => {
                        let polled = source.poll(cx);
                        *ended = source.body.is_none() && !source.failed;
                        polled
                    }
                };
                source.upload = match &polled {
                    Poll::Pending => Upload::Source,
                    Poll::Ready(Some(Ok(_))) => Upload::Peer(Instant::now()),
                    Poll::Ready(_) => Upload::Over(Instant::now()),
                };
                polled
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.kind {
            View::Bytes(bytes) => bytes.is_none(),
            View::Stream { replay, ended, .. } => *ended && replay.is_empty(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.kind {
            View::Bytes(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, |b| b.len() as u64)),
            View::Stream { hint, .. } => *hint,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Body;
    use super::*;
    use futures_util::FutureExt;
    use http_body_util::{BodyExt, StreamBody};
    use proptest::prelude::*;
    use std::sync::atomic::{AtomicBool, Ordering};

    fn stream_of(chunks: Vec<Vec<u8>>) -> Body {
        let frames = chunks.into_iter().map(|c| Ok::<_, BoxError>(Frame::data(Bytes::from(c))));
        Body::stream(StreamBody::new(futures_util::stream::iter(frames)))
    }

    /// Reads at most `limit` frames.
    fn read(body: &mut AttemptBody, limit: usize) -> Vec<u8> {
        let mut out = Vec::new();
        for _ in 0..limit {
            match body.frame().now_or_never().expect("these bodies never wait") {
                Some(frame) => out.extend(frame.unwrap().into_data().unwrap()),
                None => break,
            }
        }
        out
    }

    #[test]
    fn at_the_limit_a_stream_is_replayed_and_one_byte_above_it_is_not() {
        let replay = stream_of(vec![vec![1; 65_536]]).into_replay(65_536);
        assert_eq!(replay.usage(), BodyUse::Unread);
        read(&mut replay.attempt(), 9);
        assert_eq!(replay.usage(), BodyUse::Mirrored(65_536));
        assert_eq!(read(&mut replay.attempt(), 9).len(), 65_536);

        let replay = stream_of(vec![vec![1; 65_536], vec![2]]).into_replay(65_536);
        read(&mut replay.attempt(), 9);
        assert_eq!(replay.usage(), BodyUse::Consumed(65_537));
    }

    #[test]
    fn an_abandoned_view_can_no_longer_take_bytes_from_its_successor() {
        let replay = stream_of(vec![vec![1], vec![2]]).into_replay(10);
        let mut old = replay.attempt();
        assert_eq!(read(&mut old, 1), [1]);
        let mut new = replay.attempt();
        let refused = old.frame().now_or_never().unwrap().unwrap();
        assert!(refused.unwrap_err().to_string().contains("later attempt"));
        assert_eq!(read(&mut new, 9), [1, 2]);
    }

    #[test]
    fn a_stream_that_failed_never_ends_as_if_it_were_whole() {
        for before in [0, 2] {
            let pieces = (0..before).map(|_| Ok(Frame::data(Bytes::from_static(b"x"))));
            let frames = pieces.chain([Err(BoxError::from("gone"))]);
            let replay = Body::stream(StreamBody::new(futures_util::stream::iter(frames))).into_replay(100);
            let mut attempt = replay.attempt();
            assert_eq!(read(&mut attempt, before).len(), before);
            assert!(attempt.frame().now_or_never().unwrap().unwrap().is_err());
            assert_eq!(replay.usage(), BodyUse::Consumed(before as u64));

            let mut again = replay.attempt();
            assert_eq!(read(&mut again, before).len(), before);
            assert!(!http_body::Body::is_end_stream(&again));
            assert!(again.frame().now_or_never().unwrap().unwrap().is_err());
        }
    }

    #[test]
    fn what_can_be_rewound_is_sent_whole_by_each_attempt_whatever_its_size() {
        let open = || StreamBody::new(futures_util::stream::iter([1, 2, 3].map(|n| Ok::<_, BoxError>(frame(n)))));
        let replay = Body::rewindable(Some(3), open).into_replay(0);
        let mut first = replay.attempt();
        assert_eq!((read(&mut first, 2), replay.usage()), (vec![1, 2], BodyUse::Bytes));
        let mut second = replay.attempt();
        assert!(first.frame().now_or_never().unwrap().unwrap().is_err(), "it is the second's now");
        assert_eq!((second.size_hint().exact(), read(&mut second, 9)), (Some(3), vec![1, 2, 3]));
        assert!(http_body::Body::is_end_stream(&second));
        replay.commit();
        assert_ne!(replay.usage(), BodyUse::Bytes, "nothing is sent after the commit");

        let failing = || StreamBody::new(futures_util::stream::iter([Ok(frame(1)), Err(BoxError::from("gone"))]));
        let replay = Body::rewindable(None, failing).into_replay(100);
        let mut attempt = replay.attempt();
        assert_eq!(read(&mut attempt, 1), [1]);
        assert!(attempt.frame().now_or_never().unwrap().unwrap().is_err());
        assert_eq!(replay.usage(), BodyUse::Consumed(1));
    }

    fn frame(byte: u8) -> Frame<Bytes> {
        Frame::data(Bytes::copy_from_slice(&[byte]))
    }

    struct DropFlag(Arc<AtomicBool>);
    impl Drop for DropFlag {
        fn drop(&mut self) {
            self.0.store(true, Ordering::SeqCst);
        }
    }

    #[test]
    fn dropping_an_attempt_keeps_the_source_and_dropping_the_call_closes_it() {
        let closed = Arc::new(AtomicBool::new(false));
        let flag = DropFlag(closed.clone());
        let frames = std::iter::repeat_with(move || {
            let _ = &flag;
            Ok::<_, BoxError>(Frame::data(Bytes::from_static(b"x")))
        });
        let replay = Body::stream(StreamBody::new(futures_util::stream::iter(frames))).into_replay(100);
        let mut attempt = replay.attempt();
        read(&mut attempt, 3);
        drop(attempt);
        assert!(!closed.load(Ordering::SeqCst));
        let attempt = replay.attempt();
        drop(replay);
        assert!(!closed.load(Ordering::SeqCst), "the running attempt still reads");
        drop(attempt);
        assert!(closed.load(Ordering::SeqCst));
    }

    proptest! {
        /// Whatever attempts read before they were abandoned, the last one sends the original bytes, and the mirror
        /// never holds more than its limit.
        #[test]
        fn replayed_bytes_equal_the_original(
            chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..50), 0..20),
            reads in prop::collection::vec(0_usize..25, 0..4),
            limit in 0_usize..600,
        ) {
            let original: Vec<u8> = chunks.concat();
            let replay = stream_of(chunks).into_replay(limit);
            for frames in reads {
                let partial = read(&mut replay.attempt(), frames);
                prop_assert!(original.starts_with(&partial));
                if let BodyUse::Consumed(bytes) = replay.usage() {
                    prop_assert!(bytes > limit as u64);
                    return Ok(());
                }
                if let BodyUse::Mirrored(bytes) = replay.usage() {
                    prop_assert!(bytes <= limit as u64);
                }
            }
            prop_assert_eq!(read(&mut replay.attempt(), usize::MAX), original);
        }
    }
}
