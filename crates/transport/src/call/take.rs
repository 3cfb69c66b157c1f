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

    fn take(&self, body: ResponseBody) -> Self::Reading {
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
        Collecting { body, first: Bytes::new(), rest: Vec::new(), left: self.limit }
    }

    fn limit(&self) -> usize {
        self.limit
    }
}

/// A body that is read whole. What came in one piece is not copied.
pub(crate) struct Collecting {
    body: ResponseBody,
    first: Bytes,
    rest: Vec<Bytes>,
    /// How many bytes may still come.
    left: usize,
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
            if this.first.is_empty() {
                this.first = data;
            } else {
                this.rest.push(data);
            }
        }
        let first = std::mem::take(&mut this.first);
        if this.rest.is_empty() {
            return Poll::Ready(Ok(first));
        }
        let mut whole = BytesMut::with_capacity(first.len() + this.rest.iter().map(Bytes::len).sum::<usize>());
        whole.extend_from_slice(&first);
        this.rest.drain(..).for_each(|piece| whole.extend_from_slice(&piece));
        Poll::Ready(Ok(whole.freeze()))
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
