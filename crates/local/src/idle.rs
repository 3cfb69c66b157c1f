//! Bodies that must keep moving, and connections that have no request.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use parking_lot::Mutex;
use tokio::time::{Instant, Sleep};

type BoxError = Box<dyn std::error::Error + Send + Sync>;

pin_project_lite::pin_project! {
    /// A body that fails when nothing of it arrives for some time while it is waited for.
    pub(crate) struct Moving<B> {
        #[pin]
        body: B,
        limit: Duration,
        #[pin]
        timer: Sleep,
        waiting: bool,
    }
}

impl<B> Moving<B> {
    pub(crate) fn new(body: B, limit: Duration) -> Self {
        Self { body, limit, timer: tokio::time::sleep(limit), waiting: false }
    }
}

impl<B: Body<Data = Bytes, Error: Into<BoxError>>> Body for Moving<B> {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let mut this = self.project();
        if let Poll::Ready(frame) = this.body.poll_frame(cx) {
            *this.waiting = false;
            return Poll::Ready(frame.map(|frame| frame.map_err(Into::into)));
        }
        if !*this.waiting {
            // The time in which nobody asked for more does not count.
            this.timer.as_mut().reset(Instant::now() + *this.limit);
            *this.waiting = true;
        }
        ready!(this.timer.poll(cx));
        let message = format!("nothing of the body arrived for {:?}", this.limit);
        Poll::Ready(Some(Err(io::Error::new(io::ErrorKind::TimedOut, message).into())))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// How many requests a connection has, or since when it has none.
#[derive(Clone)]
pub(crate) struct Requests(Arc<Mutex<(usize, Instant)>>);

impl Requests {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Mutex::new((0, Instant::now()))))
    }

    /// One more, until the answer is dropped.
    pub(crate) fn hold(&self) -> Hold {
        self.0.lock().0 += 1;
        Hold(self.clone())
    }

    /// How long there has been none, if there is none.
    pub(crate) fn idle_for(&self) -> Option<Duration> {
        let (requests, since) = *self.0.lock();
        (requests == 0).then(|| since.elapsed())
    }
}

/// A request that is under way.
pub(crate) struct Hold(Requests);

impl Drop for Hold {
    fn drop(&mut self) {
        let mut requests = self.0.0.lock();
        *requests = (requests.0.saturating_sub(1), Instant::now());
    }
}

pin_project_lite::pin_project! {
    /// A body with something that is dropped with it: what lasts as long as the request does.
    pub(crate) struct Held<B, H> {
        #[pin]
        body: B,
        _hold: H,
    }
}

impl<B, H> Held<B, H> {
    pub(crate) fn new(body: B, hold: H) -> Self {
        Self { body, _hold: hold }
    }
}

impl<B: Body, H> Body for Held<B, H> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        self.project().body.poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::{BodyExt, StreamBody};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_body_that_stands_still_fails_and_a_slow_one_does_not() {
        let (sender, mut receiver) = tokio::sync::mpsc::channel(1);
        let stream = async_stream::stream! {
            while let Some(data) = receiver.recv().await {
                yield Ok::<_, io::Error>(Frame::data(data));
            }
        };
        let limit = Duration::from_secs(10);
        let mut body = Box::pin(Moving::new(StreamBody::new(stream), limit));
        tokio::spawn(async move {
            for _ in 0..5 {
                tokio::time::sleep(limit - Duration::from_secs(1)).await;
                sender.send(Bytes::from_static(b"x")).await.unwrap();
            }
            tokio::time::sleep(limit * 2).await;
            drop(sender);
        });
        for _ in 0..5 {
            assert!(body.frame().await.unwrap().is_ok());
            // A reader that is slow itself is not held against the body.
            tokio::time::sleep(limit * 2).await;
        }
        assert!(body.frame().await.is_none());

        let (_held, mut receiver) = tokio::sync::mpsc::channel::<Bytes>(1);
        let stream = async_stream::stream! {
            while let Some(data) = receiver.recv().await {
                yield Ok::<_, io::Error>(Frame::data(data));
            }
        };
        let mut body = Box::pin(Moving::new(StreamBody::new(stream), limit));
        let error = body.frame().await.unwrap().unwrap_err();
        assert!(error.to_string().contains("nothing of the body arrived for 10s"));
    }
}
