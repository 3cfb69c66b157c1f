//! The begin of an answer's body is read before the answer is judged, and goes on to the caller unchanged.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::BytesMut;
use http::response::Parts;
use http_body::Body as _;
use oncebox_policy::Reading;

use crate::answer::AnswerReader;
use crate::body::{Begun, ResponseBody, Rest};

/// How much of an answer's body is looked at.
const MOST: usize = 64 << 10;

/// An answer that is being looked at.
pub(super) struct Peek {
    reader: AnswerReader,
    head: Parts,
    body: Option<ResponseBody>,
    begun: BytesMut,
}

impl Peek {
    pub(super) fn new(reader: AnswerReader, head: Parts, body: ResponseBody) -> Self {
        Self { reader, head, body: Some(body), begun: BytesMut::new() }
    }

    fn done(&mut self, reading: Reading, body: ResponseBody, rest: Rest) -> Poll<Peeked> {
        let body = body.begins_with(Begun { data: std::mem::take(&mut self.begun).freeze(), rest });
        let head = std::mem::replace(&mut self.head, http::Response::new(()).into_parts().0);
        Poll::Ready(Peeked { head, body, reading })
    }
}

/// An answer that was looked at. Its body is whole again.
pub(super) struct Peeked {
    pub(super) head: Parts,
    pub(super) body: ResponseBody,
    pub(super) reading: Reading,
}

impl Future for Peek {
    type Output = Peeked;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Peeked> {
        let this = &mut *self;
        // Polled after it was done, it has nothing more to say.
        let Some(mut body) = this.body.take() else { return Poll::Pending };
        loop {
            let rest = match Pin::new(&mut body).poll_frame(cx) {
                Poll::Pending => {
                    this.body = Some(body);
                    return Poll::Pending;
                }
                Poll::Ready(None) => Rest::Ended,
                Poll::Ready(Some(Err(error))) => Rest::Failed(error),
                Poll::Ready(Some(Ok(frame))) => match frame.into_data() {
                    Ok(data) => {
                        this.begun.extend_from_slice(&data);
                        Rest::Comes
                    }
                    Err(frame) => Rest::Trailers(frame),
                },
            };
            // What was cut says nothing, whatever it began with.
            if matches!(rest, Rest::Failed(_)) {
                return this.done(Reading::Nothing, body, rest);
            }
            let ended = !matches!(rest, Rest::Comes) || this.begun.len() >= MOST;
            match (this.reader)(&this.head, &this.begun, ended) {
                Reading::More if !ended => {}
                reading => return this.done(reading, body, rest),
            }
        }
    }
}
