//! The response body: it holds its stream or connection until it ends or is dropped.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;
use tokio::time::{Instant, Sleep, sleep};

use crate::conn::H2Stream;
use crate::error::{BodyError, BodyErrorKind};

/// A response body, read from the network as it is polled.
///
/// While it lives it occupies its stream (HTTP/2) or connection (HTTP/1.1). Reading it to the end or dropping it
/// frees that; dropping it early cancels the stream.
pub struct ResponseBody {
    source: Source,
    idle: Option<IdleLimit>,
    received: u64,
    /// What was read of it before it was handed on. In a box, since few are looked at.
    begun: Option<Box<Begun>>,
    /// Freed after `source`, so that a slot is never handed on before the stream that filled it is gone.
    exchange: Option<Exchange>,
}

/// The part of a body that was read before it was handed on.
pub(crate) struct Begun {
    pub(crate) data: Bytes,
    pub(crate) rest: Rest,
}

/// What follows it.
pub(crate) enum Rest {
    /// What still comes.
    Comes,
    /// Nothing.
    Ended,
    Trailers(Frame<Bytes>),
    Failed(BodyError),
}

/// A frame, or the end.
type NextFrame = Option<Result<Frame<Bytes>, BodyError>>;

/// What a response holds on to. That of HTTP/2 is small, and so many are made that no box is made for it.
enum Exchange {
    Http1(Box<dyn Held>),
    Http2 { _stream: H2Stream },
}

enum Source {
    Empty,
    Http1(hyper::body::Incoming),
    Http2 { stream: h2::RecvStream, data_ended: bool },
}

/// What a response over HTTP/1.1 holds on to. `finish` is called when the body ended well; dropping it without that call means
/// that the exchange was cut short.
pub(crate) trait Held: Send {
    fn finish(self: Box<Self>);
}

impl ResponseBody {
    pub(crate) fn http1(body: hyper::body::Incoming, exchange: Box<dyn Held>) -> Self {
        let exchange = Some(Exchange::Http1(exchange));
        Self { source: Source::Http1(body), idle: None, received: 0, begun: None, exchange }
    }

    pub(crate) fn http2(stream: h2::RecvStream, held: H2Stream) -> Self {
        let source = Source::Http2 { stream, data_ended: false };
        let exchange = Some(Exchange::Http2 { _stream: held });
        Self { source, idle: None, received: 0, begun: None, exchange }
    }

    /// The same body, of which this was read already.
    pub(crate) fn begins_with(self, begun: Begun) -> Self {
        Self { begun: Some(Box::new(begun)), ..self }
    }

    /// Frees what it occupies where nothing of it is to come, for those who may never read it.
    pub(crate) fn finish_if_ended(&mut self) {
        if self.is_end_stream() {
            self.finish();
        }
    }

    /// Ends the body with an error when nothing arrives for this long. `None` waits for ever.
    pub(crate) fn set_read_idle_timeout(&mut self, limit: Option<Duration>) {
        self.idle = limit.map(|limit| IdleLimit { limit, silence: None });
    }

    fn finish(&mut self) {
        self.source = Source::Empty;
        // That of HTTP/2 is over when it is dropped, whatever became of it.
        if let Some(Exchange::Http1(held)) = self.exchange.take() {
            held.finish();
        }
    }

    /// What was read before. `None`: nothing is left of it, and the rest comes.
    #[cold]
    fn take_begun(&mut self, Begun { data, rest }: Begun) -> Option<NextFrame> {
        if !data.is_empty() {
            if !matches!(rest, Rest::Comes) {
                self.begun = Some(Box::new(Begun { data: Bytes::new(), rest }));
            }
            return Some(Some(Ok(Frame::data(data))));
        }
        match rest {
            Rest::Comes => None,
            Rest::Ended => Some(None),
            Rest::Trailers(frame) => Some(Some(Ok(frame))),
            Rest::Failed(error) => Some(Some(Err(error))),
        }
    }

    #[cold]
    fn failed(&mut self, kind: BodyErrorKind) -> BodyError {
        self.source = Source::Empty;
        self.exchange = None;
        BodyError::new(kind, self.received)
    }

    fn poll_source(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyErrorKind>>> {
        match &mut self.source {
            Source::Empty => Poll::Ready(None),
            Source::Http1(body) => {
                Pin::new(body).poll_frame(cx).map(|frame| frame.map(|r| r.map_err(|e| BodyErrorKind::Cut(e.into()))))
            }
            Source::Http2 { stream, data_ended } => {
                if !*data_ended {
                    match ready!(stream.poll_data(cx)) {
                        Some(Ok(data)) => {
                            if stream.is_end_stream() {
                                // Its slot is free at once, and nobody asks `h2` once more for what will not come.
                                // With the stream goes what it had taken of the connection's window.
                                self.finish();
                            } else {
                                // Fails only for more than was received, or for a stream that is gone.
                                let _ = stream.flow_control().release_capacity(data.len());
                            }
                            return Poll::Ready(Some(Ok(Frame::data(data))));
                        }
                        // Whatever the code: after a whole response, as where the server only stops an upload (RFC 9113
                        // §8.1), `h2` tells the end.
                        Some(Err(e)) => return Poll::Ready(Some(Err(BodyErrorKind::Cut(e.into())))),
                        None => *data_ended = true,
                    }
                }
                match ready!(stream.poll_trailers(cx)) {
                    Ok(Some(trailers)) => {
                        self.finish();
                        Poll::Ready(Some(Ok(Frame::trailers(trailers))))
                    }
                    Ok(None) => Poll::Ready(None),
                    Err(e) => Poll::Ready(Some(Err(BodyErrorKind::Cut(e.into())))),
                }
            }
        }
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = &mut *self;
        if let Some(begun) = this.begun.take()
            && let Some(next) = this.take_begun(*begun)
        {
            return Poll::Ready(next);
        }
        let failure = match this.poll_source(cx) {
            Poll::Pending => match this.idle.as_mut().map(|idle| idle.poll(cx)) {
                Some(Poll::Ready(limit)) => BodyErrorKind::Idle(limit),
                _ => return Poll::Pending,
            },
            Poll::Ready(Some(Ok(frame))) => {
                if let Some(idle) = &mut this.idle {
                    idle.is_broken();
                }
                this.received += frame.data_ref().map_or(0, |d| d.len() as u64);
                return Poll::Ready(Some(Ok(frame)));
            }
            Poll::Ready(Some(Err(kind))) => kind,
            Poll::Ready(None) => {
                this.finish();
                return Poll::Ready(None);
            }
        };
        Poll::Ready(Some(Err(this.failed(failure))))
    }

    fn is_end_stream(&self) -> bool {
        if self.begun.is_some() {
            return false;
        }
        match &self.source {
            Source::Empty => true,
            Source::Http1(body) => body.is_end_stream(),
            Source::Http2 { stream, .. } => stream.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        let mut hint = match &self.source {
            Source::Http1(body) => body.size_hint(),
            Source::Empty => SizeHint::with_exact(0),
            Source::Http2 { .. } => SizeHint::default(),
        };
        if let Some(begun) = &self.begun {
            let more = begun.data.len() as u64;
            if let Some(upper) = hint.upper() {
                hint.set_upper(upper.saturating_add(more));
            }
            hint.set_lower(hint.lower().saturating_add(more));
        }
        hint
    }
}

impl fmt::Debug for ResponseBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseBody").field("ended", &self.is_end_stream()).field("received", &self.received).finish()
    }
}

struct IdleLimit {
    limit: Duration,
    /// Made when nothing is there for the first time. In a box: many responses come at once.
    silence: Option<Pin<Box<Silence>>>,
}

pin_project! {
    #[project = SilenceParts]
    struct Silence {
        // Since when nothing arrives.
        since: Option<Instant>,
        // Left to run while something arrives, and set again only when it goes off too early.
        #[pin]
        sleep: Sleep,
    }
}

impl IdleLimit {
    /// Something arrived.
    fn is_broken(&mut self) {
        if let Some(silence) = &mut self.silence {
            *silence.as_mut().project().since = None;
        }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Duration> {
        let limit = self.limit;
        let silence =
            self.silence.get_or_insert_with(|| Box::pin(Silence { since: None, sleep: sleep(limit) })).as_mut();
        let SilenceParts { since, mut sleep } = silence.project();
        let end = *since.get_or_insert_with(Instant::now) + limit;
        loop {
            ready!(sleep.as_mut().poll(cx));
            if sleep.deadline() >= end {
                return Poll::Ready(limit);
            }
            sleep.as_mut().reset(end);
        }
    }
}
