//! Bodies that do not go on as they began: answers that are cut or stand still, uploads of which half is stored.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use http::Request;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use http_body::{Frame, SizeHint};
use tokio::sync::Notify;
use tokio::time::Sleep;

use super::document::{CutHow, HalfWrite, How, Place};

/// The bit of an envelope's first byte that says it is the stream's end, and no message (Connect protocol).
const END_OF_STREAM: u8 = 2;
/// The bytes before each message: one of flags, four of its length (Connect protocol).
const ENVELOPE_HEAD: usize = 5;

/// Ends the connection that a request came on. An extension of each request.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cutter {
    cut: Arc<Notify>,
    reset: Arc<AtomicBool>,
}

impl Cutter {
    pub(crate) fn cut(&self, how: How) {
        self.reset.store(how == How::Reset, Ordering::Relaxed);
        self.cut.notify_one();
    }

    /// Waits for a cut.
    pub(crate) async fn notified(&self) {
        self.cut.notified().await;
    }

    /// Whether the socket is to be reset when it is dropped.
    pub(crate) fn resets(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.reset)
    }
}

/// What becomes of an answer in the middle of its body.
#[derive(Debug)]
pub(super) enum Turn {
    Cut(CutHow, Cutter),
    Stall(Duration),
}

/// The answer, which goes on otherwise after a place in its body.
pub(super) fn answer(response: Response, after: Place, turn: Turn) -> Response {
    let content = response.headers().get(CONTENT_TYPE);
    let is_connect = content.is_some_and(|content| content.as_bytes().starts_with(b"application/connect"));
    let counter = Counter::new(after, is_connect);
    response.map(|body| Body::new(Bent { body, counter, turn: Some(turn), state: State::Before }))
}

struct Bent {
    body: Body,
    counter: Counter,
    /// `None` once it was taken.
    turn: Option<Turn>,
    state: State,
}

enum State {
    Before,
    /// What was sent is given the time to be written.
    Reached {
        rest: Bytes,
        flushed: bool,
    },
    Stalled {
        rest: Bytes,
        until: Pin<Box<Sleep>>,
    },
    /// The connection is being ended.
    Cut,
    After,
}

impl http_body::Body for Bent {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let this = &mut *self;
        loop {
            match &mut this.state {
                State::Before if this.counter.is_over() => {
                    this.state = State::Reached { rest: Bytes::new(), flushed: false };
                }
                State::Before => {
                    let frame = match ready!(Pin::new(&mut this.body).poll_frame(cx)) {
                        Some(Ok(frame)) => frame,
                        // It ended before the place.
                        ended => return Poll::Ready(ended),
                    };
                    let mut data = match frame.into_data() {
                        Ok(data) => data,
                        Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
                    };
                    if let Some(taken) = this.counter.take(&data) {
                        let rest = data.split_off(taken);
                        this.state = State::Reached { rest, flushed: false };
                    }
                    return Poll::Ready(Some(Ok(Frame::data(data))));
                }
                State::Reached { flushed, .. } if !*flushed => {
                    *flushed = true;
                    // Who is told to wait writes what there is.
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
                State::Reached { rest, .. } => match this.turn.take() {
                    Some(Turn::Stall(time)) => {
                        let until = Box::pin(tokio::time::sleep(time));
                        this.state = State::Stalled { rest: std::mem::take(rest), until };
                    }
                    Some(Turn::Cut(CutHow::Stream, _)) => {
                        this.state = State::Cut;
                        let cut = std::io::Error::other("cut on demand");
                        return Poll::Ready(Some(Err(axum::Error::new(cut))));
                    }
                    Some(Turn::Cut(how, cutter)) => {
                        cutter.cut(if how == CutHow::Reset { How::Reset } else { How::Close });
                        this.state = State::Cut;
                    }
                    None => this.state = State::After,
                },
                State::Stalled { rest, until } => {
                    ready!(until.as_mut().poll(cx));
                    let rest = std::mem::take(rest);
                    this.state = State::After;
                    if !rest.is_empty() {
                        return Poll::Ready(Some(Ok(Frame::data(rest))));
                    }
                }
                State::Cut => return Poll::Pending,
                State::After => return Pin::new(&mut this.body).poll_frame(cx),
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match self.state {
            State::Before => !self.counter.is_over() && self.body.is_end_stream(),
            State::After => self.body.is_end_stream(),
            _ => false,
        }
    }

    /// What was promised in the answer's head.
    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// What is left until a place.
#[derive(Debug)]
enum Counter {
    Bytes(u64),
    Lines(u64),
    Messages { left: u64, head: Vec<u8>, payload: u64 },
}

impl Counter {
    fn new(after: Place, is_connect: bool) -> Self {
        match after {
            Place::Bytes(bytes) => Self::Bytes(bytes),
            Place::Events(left) if is_connect => Self::Messages { left, head: Vec::new(), payload: 0 },
            Place::Events(left) => Self::Lines(left),
        }
    }

    fn is_over(&self) -> bool {
        matches!(self, Self::Bytes(0) | Self::Lines(0) | Self::Messages { left: 0, .. })
    }

    /// Counts these bytes; how many of them come before the place, if it is among them or at their end.
    fn take(&mut self, data: &[u8]) -> Option<usize> {
        match self {
            Self::Bytes(left) => {
                let size = data.len() as u64;
                let taken = (*left).min(size);
                *left -= taken;
                (*left == 0).then_some(usize::try_from(taken).unwrap_or(data.len()))
            }
            Self::Lines(left) => data.iter().enumerate().filter(|(_, byte)| **byte == b'\n').find_map(|(index, _)| {
                *left -= 1;
                (*left == 0).then_some(index + 1)
            }),
            Self::Messages { left, head, payload } => {
                let mut at = 0;
                while at < data.len() {
                    if *payload > 0 {
                        let size = (*payload).min((data.len() - at) as u64);
                        *payload -= size;
                        at += usize::try_from(size).unwrap_or(data.len());
                    } else {
                        head.push(data[at]);
                        at += 1;
                        let Some(length) = head.get(1..ENVELOPE_HEAD) else { continue };
                        *payload = length.iter().fold(0, |length, byte| (length << 8) | u64::from(*byte));
                    }
                    if *payload == 0 && head.len() == ENVELOPE_HEAD {
                        let is_message = head[0] & END_OF_STREAM == 0;
                        head.clear();
                        *left -= u64::from(is_message);
                        if *left == 0 {
                            return Some(at);
                        }
                    }
                }
                None
            }
        }
    }
}

/// The upload, of which the beginning arrives and the rest is taken from the client and lost.
pub(super) fn upload(mut request: Request<Body>, half: HalfWrite) -> Request<Body> {
    let headers = request.headers();
    let text = |name| headers.get(name).and_then(|value: &http::HeaderValue| value.to_str().ok());
    let length: u64 = text(CONTENT_LENGTH).and_then(|length| length.parse().ok()).unwrap_or_default();
    // A form has to end as one.
    let boundary = text(CONTENT_TYPE).and_then(|content| multer::parse_boundary(content).ok());
    let tail = boundary.map(|boundary| Bytes::from(format!("\r\n--{boundary}--\r\n")));
    let left = half.bytes.unwrap_or(length / 2);
    request.headers_mut().remove(CONTENT_LENGTH);
    request.map(|body| Body::new(Half { body, left, tail }))
}

struct Half {
    body: Body,
    left: u64,
    tail: Option<Bytes>,
}

impl http_body::Body for Half {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        loop {
            let mut data = match ready!(Pin::new(&mut self.body).poll_frame(cx)) {
                // What was shorter than that ends by itself.
                None if self.left > 0 => return Poll::Ready(None),
                None => return Poll::Ready(self.tail.take().map(|tail| Ok(Frame::data(tail)))),
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => data,
                    Err(_) => continue,
                },
            };
            if self.left > 0 {
                data.truncate(usize::try_from(self.left).unwrap_or(usize::MAX));
                self.left -= data.len() as u64;
                return Poll::Ready(Some(Ok(Frame::data(data))));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;

    use super::*;

    fn places(mut counter: Counter, pieces: &[&[u8]]) -> Vec<Option<usize>> {
        pieces.iter().map(|piece| counter.take(piece)).collect()
    }

    #[test]
    fn a_place_is_found_wherever_the_pieces_end() {
        assert_eq!(places(Counter::new(Place::Bytes(3), false), &[b"ab", b"cd"]), [None, Some(1)]);
        assert_eq!(places(Counter::new(Place::Events(2), false), &[b"a\nb", b"\nc"]), [None, Some(1)]);
        let stream = b"\0\0\0\0\x02ab\0\0\0\0\0\0\0\0\0\x01c\x02\0\0\0\x02{}";
        for split in 0..stream.len() {
            let (first, second) = stream.split_at(split);
            let mut counter = Counter::new(Place::Events(3), true);
            let found = counter.take(first).or_else(|| counter.take(second).map(|at| at + split));
            // Two with content and an empty one; the end is none.
            assert_eq!(found, Some(18), "{split}");
            let mut counter = Counter::new(Place::Events(4), true);
            assert_eq!(counter.take(first).or(counter.take(second)), None);
        }
    }

    #[tokio::test]
    async fn of_a_form_half_is_left_and_it_ends_as_a_form() {
        let form = "--b\r\ncontent-disposition: form-data; name=\"file\"\r\n\r\n0123456789\r\n--b--\r\n";
        let request = Request::post("/files").header(CONTENT_TYPE, "multipart/form-data; boundary=b");
        let request = request.header(CONTENT_LENGTH, form.len()).body(Body::from(form)).unwrap();
        let half = upload(request, HalfWrite { bytes: Some(form.find("5").unwrap() as u64) });
        assert!(!half.headers().contains_key(CONTENT_LENGTH));
        let body = half.into_body().collect().await.unwrap().to_bytes();
        assert!(body.ends_with(b"01234\r\n--b--\r\n"), "{body:?}");
    }
}
