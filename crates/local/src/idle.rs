//! Bodies that must keep moving.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
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
