//! What a call's body is read from, and what is kept of it.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::HeaderMap;
use http_body::{Body as _, Frame, SizeHint};
use http_body_util::combinators::UnsyncBoxBody;
use tokio::time::Instant;

use super::super::{BoxError, Opener};
use super::BodyUse;

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

/// The stream of a call, and what was read of it.
pub(super) struct Source {
    /// `None` once it ended, failed, or is not needed any more.
    body: Option<UnsyncBoxBody<Bytes, BoxError>>,
    /// Where it can be had from its first byte again, as long as that may be needed.
    open: Option<Opener>,
    /// What was read beyond the last byte of the body's length.
    ahead: Option<Piece>,
    /// `None` once more was read than may be kept.
    mirror: Option<Vec<Piece>>,
    /// Of the whole; what the stream yields has to keep to it.
    pub(super) hint: SizeHint,
    limit: u64,
    read: u64,
    /// The newest attempt; only it may read.
    pub(super) attempt: u64,
    failed: bool,
    pub(super) upload: Upload,
}

/// How many empty pieces in a row are looked behind for what a body has beyond its length.
const MOST_EMPTY: usize = 64;

#[derive(Clone)]
/// A frame that can be sent more than once.
pub(super) enum Piece {
    Data(Bytes),
    Trailers(HeaderMap),
}

impl Piece {
    pub(super) fn into_frame(self) -> Frame<Bytes> {
        match self {
            Self::Data(data) => Frame::data(data),
            Self::Trailers(trailers) => Frame::trailers(trailers),
        }
    }
}

impl Source {
    /// What can be read once, and is mirrored up to `limit` bytes.
    pub(super) fn once(body: UnsyncBoxBody<Bytes, BoxError>, limit: usize) -> Self {
        let hint = body.size_hint();
        Self { body: Some(body), mirror: Some(Vec::new()), limit: limit as u64, ..Self::empty(hint) }
    }

    /// What can be had anew for each attempt.
    pub(super) fn rewindable(length: Option<u64>, open: Opener) -> Self {
        Self { open: Some(open), ..Self::empty(length.map_or_else(SizeHint::new, SizeHint::with_exact)) }
    }

    fn empty(hint: SizeHint) -> Self {
        Self {
            body: None,
            open: None,
            ahead: None,
            mirror: None,
            hint,
            limit: 0,
            read: 0,
            attempt: 0,
            failed: false,
            upload: Upload::NotBegun,
        }
    }

    pub(super) fn usage(&self) -> BodyUse {
        match &self.mirror {
            _ if self.failed => BodyUse::Consumed(self.read),
            _ if self.open.is_some() => BodyUse::Bytes,
            Some(mirror) if mirror.is_empty() => BodyUse::Unread,
            Some(_) => BodyUse::Mirrored(self.read),
            None => BodyUse::Consumed(self.read),
        }
    }

    /// Begins the next attempt; what is to be sent before more is read.
    pub(super) fn begin(&mut self) -> VecDeque<Piece> {
        self.attempt += 1;
        self.upload = Upload::NotBegun;
        self.rewind();
        self.mirror.iter().flatten().cloned().collect()
    }

    /// No further attempt will begin.
    pub(super) fn commit(&mut self) {
        self.mirror = None;
        self.open = None;
    }

    /// Whether the stream came to its own end.
    pub(super) fn has_ended(&self) -> bool {
        self.body.is_none() && self.ahead.is_none() && !self.failed
    }

    fn rewind(&mut self) {
        if let Some(open) = self.open.as_ref().filter(|_| !self.failed) {
            self.body = Some(open());
            self.ahead = None;
            self.read = 0;
        }
    }

    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let piece = match self.ahead.take() {
            Some(piece) => piece,
            None => match ready!(self.next(cx)) {
                Some(Ok(piece)) => piece,
                Some(Err(error)) => return self.fail(error),
                None => return self.end(),
            },
        };
        match &piece {
            // Sent on, and not kept: nothing bounds how many of these a stream yields.
            Piece::Data(data) if data.is_empty() => return Poll::Ready(Some(Ok(piece.into_frame()))),
            Piece::Data(data) => {
                self.read += data.len() as u64;
                if let Err(error) = self.look_for_more(cx) {
                    return self.fail(error);
                }
            }
            Piece::Trailers(_) if self.is_short() => return self.end(),
            Piece::Trailers(_) => {}
        }
        if self.read > self.limit {
            self.mirror = None;
        } else if let Some(mirror) = &mut self.mirror {
            mirror.push(piece.clone());
        }
        Poll::Ready(Some(Ok(piece.into_frame())))
    }

    /// What the stream yields next, nothing of it counted.
    fn next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Piece, BoxError>>> {
        let Some(body) = &mut self.body else {
            // Its end must not be taken for the body's.
            return Poll::Ready(self.failed.then(|| Err("the request's body failed before".into())));
        };
        let Some(frame) = ready!(Pin::new(body).poll_frame(cx)) else {
            self.body = None;
            return Poll::Ready(None);
        };
        Poll::Ready(Some(frame.map(|frame| match frame.into_data() {
            Ok(data) => Piece::Data(data),
            // A kind of frame that is neither has no place in HTTP.
            Err(frame) => frame.into_trailers().map_or_else(|_| Piece::Data(Bytes::new()), Piece::Trailers),
        })))
    }

    /// Whether the stream has more than its length says. Looked at before its last byte goes out: a connection that knows the
    /// length would take that for the whole.
    fn look_for_more(&mut self, cx: &mut Context<'_>) -> Result<(), BoxError> {
        let Some(length) = self.hint.exact().filter(|length| self.read >= *length) else { return Ok(()) };
        let more = || Err(format!("its content-length is {length}, and the body goes on").into());
        if self.read > length {
            return more();
        }
        // A stream that yields nothing for ever must not hold its thread.
        for _ in 0..MOST_EMPTY {
            match self.next(cx) {
                Poll::Ready(Some(Ok(Piece::Data(data)))) if data.is_empty() => {}
                Poll::Ready(Some(Ok(Piece::Data(data)))) => {
                    self.read += data.len() as u64;
                    return more();
                }
                Poll::Ready(Some(Ok(trailers))) => {
                    self.ahead = Some(trailers);
                    break;
                }
                Poll::Ready(Some(Err(error))) => return Err(error),
                Poll::Ready(None) | Poll::Pending => break,
            }
        }
        Ok(())
    }

    fn is_short(&self) -> bool {
        self.hint.exact().is_some_and(|length| self.read < length)
    }

    fn end(&mut self) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        match self.hint.exact().filter(|_| self.is_short()) {
            Some(length) => {
                let why = format!("its content-length is {length}, and the body ended after {}", self.read);
                self.fail(why.into())
            }
            None => Poll::Ready(None),
        }
    }

    fn fail(&mut self, error: BoxError) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        self.body = None;
        self.failed = true;
        Poll::Ready(Some(Err(error)))
    }
}
