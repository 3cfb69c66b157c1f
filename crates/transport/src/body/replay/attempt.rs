//! One attempt's view of a call's body.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use parking_lot::Mutex;
use tokio::time::Instant;

use super::super::BoxError;
use super::source::{Piece, Source, Upload};

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
    pub(crate) fn bytes(bytes: Option<Bytes>) -> Self {
        Self { kind: View::Bytes(bytes) }
    }

    /// The next attempt's view of a stream; it alone may read from now on.
    pub(super) fn next(source: &Arc<Mutex<Source>>) -> Self {
        let mut locked = source.lock();
        let replay = locked.begin();
        let reader = Reader { source: source.clone(), attempt: locked.attempt };
        Self { kind: View::Stream { replay, hint: locked.hint, reader, ended: false } }
    }

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
                        *ended = source.has_ended();
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
