//! How much of a response belongs to the attempt.

use std::fmt;
use std::future::{Future, Ready, ready};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use http_body::Body as _;

use crate::body::{BoxError, ResponseBody};

/// Takes a response's body as the caller wants it.
pub(crate) trait Take: Send + Sync {
    /// What the caller gets.
    type Body: Send;

    /// What is read within the attempt: a cut in it is the attempt's.
    type Reading: Future<Output = Result<Self::Body, BoxError>> + Send + Unpin;

    /// Begins to read.
    fn take(&self, body: ResponseBody) -> Self::Reading;

    /// How many bytes are read at most.
    fn limit(&self) -> usize;
}

/// Nothing is read: the caller gets the response as soon as its head has come.
pub(crate) struct Streaming;

impl Take for Streaming {
    type Body = ResponseBody;
    type Reading = Ready<Result<ResponseBody, BoxError>>;

    fn take(&self, mut body: ResponseBody) -> Self::Reading {
        body.finish_if_ended();
        ready(Ok(body))
    }

    fn limit(&self) -> usize {
        usize::MAX
    }
}

/// All of it is read.
pub(crate) struct Collected {
    pub(crate) limit: usize,
}

impl Take for Collected {
    type Body = Bytes;
    type Reading = Collecting;

    fn take(&self, body: ResponseBody) -> Collecting {
        Collecting { body, read: Read::Nothing, left: self.limit }
    }

    fn limit(&self) -> usize {
        self.limit
    }
}

/// A body that is read whole. What came in one piece is not copied.
pub(crate) struct Collecting {
    body: ResponseBody,
    read: Read,
    /// How many bytes may still come.
    left: usize,
}

enum Read {
    Nothing,
    One(Bytes),
    More(Vec<Bytes>),
}

impl Future for Collecting {
    type Output = Result<Bytes, BoxError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        while let Some(frame) = ready!(Pin::new(&mut this.body).poll_frame(cx)) {
            let Ok(data) = frame?.into_data() else { continue };
            let Some(left) = this.left.checked_sub(data.len()) else {
                return Poll::Ready(Err(TooLarge.into()));
            };
            this.left = left;
            this.read.push(data);
        }
        Poll::Ready(Ok(std::mem::replace(&mut this.read, Read::Nothing).into_whole()))
    }
}

impl Read {
    fn push(&mut self, data: Bytes) {
        match self {
            Self::Nothing => *self = Self::One(data),
            Self::One(first) => *self = Self::More(vec![std::mem::take(first), data]),
            Self::More(pieces) => pieces.push(data),
        }
    }

    fn into_whole(self) -> Bytes {
        match self {
            Self::Nothing => Bytes::new(),
            Self::One(whole) => whole,
            Self::More(pieces) => {
                let mut whole = BytesMut::with_capacity(pieces.iter().map(Bytes::len).sum());
                // One after the other, so that each is freed as soon as it is copied.
                pieces.into_iter().for_each(|piece| whole.extend_from_slice(&piece));
                whole.freeze()
            }
        }
    }
}

/// The response is larger than may be read whole.
#[derive(Debug)]
pub(super) struct TooLarge;

impl fmt::Display for TooLarge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the response is larger than may be read whole")
    }
}

impl std::error::Error for TooLarge {}
