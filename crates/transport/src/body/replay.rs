//! A body that outlives the attempts which send it.

mod attempt;
mod source;

use std::sync::Arc;

use bytes::Bytes;
use http_body::SizeHint;
use http_body_util::combinators::UnsyncBoxBody;
use parking_lot::Mutex;

use super::{BoxError, Opener};

pub(crate) use attempt::AttemptBody;
use source::Source;
pub(crate) use source::Upload;

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
        Self { kind: Kind::Stream(Arc::new(Mutex::new(Source::once(body, limit)))) }
    }

    pub(super) fn rewindable(length: Option<u64>, open: Opener) -> Self {
        Self { kind: Kind::Stream(Arc::new(Mutex::new(Source::rewindable(length, open)))) }
    }

    /// A view for the next attempt, from the first byte. Earlier views yield nothing any more.
    pub(crate) fn attempt(&self) -> AttemptBody {
        match &self.kind {
            Kind::Bytes(bytes) => AttemptBody::bytes(bytes.clone()),
            Kind::Stream(source) => AttemptBody::next(source),
        }
    }

    /// Its length in bytes, where it is known.
    pub(crate) fn length(&self) -> Option<u64> {
        match &self.kind {
            Kind::Bytes(bytes) => Some(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64)),
            Kind::Stream(source) => source.lock().hint.exact(),
        }
    }

    /// Has a stream of unknown length keep to this one, which its request tells.
    pub(crate) fn keep_to(&self, length: u64) {
        if let Kind::Stream(source) = &self.kind {
            source.lock().hint = SizeHint::with_exact(length);
        }
    }

    pub(crate) fn usage(&self) -> BodyUse {
        match &self.kind {
            Kind::Bytes(None) => BodyUse::None,
            Kind::Bytes(Some(_)) => BodyUse::Bytes,
            Kind::Stream(source) => source.lock().usage(),
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
            source.lock().commit();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Body;
    use super::*;
    use futures_util::FutureExt;
    use http_body::{Body as _, Frame};
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
    fn a_stream_of_empty_pieces_takes_no_memory() {
        let replay = stream_of(vec![Vec::new(); 1000]).into_replay(10);
        let mut attempt = replay.attempt();
        assert!(read(&mut attempt, 999).is_empty());
        assert_eq!(replay.usage(), BodyUse::Unread);
        let Kind::Stream(source) = &replay.kind else { panic!() };
        assert!(source.lock().begin().is_empty());
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
