//! Request bodies on their way through.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::StatusCode;
use http_body::{Body as HttpBody, Frame};
use http_body_util::BodyExt;
use oncebox::{Body, BoxError};
use tokio::time::timeout;

use crate::answer::Refusal;

/// How long an SDK may send nothing of a body that is read first.
const IDLE_LIMIT: Duration = Duration::from_secs(60);

/// What is read and thrown away of a body that nobody wants, so that its sender reads the answer; and for how long.
const MAX_DRAINED: usize = 1 << 20;
const DRAIN_LIMIT: Duration = Duration::from_secs(2);

/// Takes a body for a request: at hand where it has a length of at most `limit` bytes, or where it turns out to be no longer
/// than that and `eager` allows to wait for its end; else as a stream. A stream's sender may wait for an answer first.
pub(crate) async fn take<B>(mut body: B, limit: usize, eager: bool) -> Result<Body, Refusal>
where
    B: HttpBody<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<BoxError>,
{
    if body.is_end_stream() {
        return Ok(Body::empty());
    }
    match body.size_hint().exact() {
        Some(length) if length <= limit as u64 => {}
        None if eager => {}
        _ => return Ok(Body::stream(body)),
    }
    let mut read = BytesMut::new();
    while let Some(data) = next(&mut body).await? {
        read.extend_from_slice(&data);
        if read.len() > limit {
            return Ok(Body::stream(Begun { begin: Some(read.freeze()), rest: body }));
        }
    }
    Ok(Body::from(read.freeze()))
}

/// Reads all of a body.
pub(crate) async fn whole<B>(mut body: B, limit: usize) -> Result<Bytes, Refusal>
where
    B: HttpBody<Data = Bytes> + Unpin,
    B::Error: Into<BoxError>,
{
    let mut read = BytesMut::new();
    while let Some(data) = next(&mut body).await? {
        read.extend_from_slice(&data);
        if read.len() > limit {
            return Err(Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, format!("the body is longer than {limit} bytes")));
        }
    }
    Ok(read.freeze())
}

/// Reads on after a refusal, within bounds: a server that closes at once destroys its answer on the way.
pub(crate) async fn drain<B: HttpBody<Data = Bytes> + Unpin>(mut body: B) {
    let read = async {
        let mut drained = 0;
        while let Some(Ok(frame)) = body.frame().await {
            drained += frame.data_ref().map_or(0, Bytes::len);
            if drained > MAX_DRAINED {
                return;
            }
        }
    };
    let _ = timeout(DRAIN_LIMIT, read).await;
}

async fn next<B>(body: &mut B) -> Result<Option<Bytes>, Refusal>
where
    B: HttpBody<Data = Bytes> + Unpin,
    B::Error: Into<BoxError>,
{
    loop {
        let frame = timeout(IDLE_LIMIT, body.frame()).await.map_err(|_| {
            let message = format!("nothing of the request's body came for {IDLE_LIMIT:?}; nothing was sent on");
            Refusal::new(StatusCode::REQUEST_TIMEOUT, message)
        })?;
        match frame.transpose() {
            Ok(None) => return Ok(None),
            // Trailers say nothing here.
            Ok(Some(frame)) => {
                if let Ok(data) = frame.into_data() {
                    return Ok(Some(data));
                }
            }
            Err(error) => {
                let error: BoxError = error.into();
                return Err(Refusal::bad_request(format!("the request's body was cut: {error}; nothing was sent on")));
            }
        }
    }
}

/// A body whose beginning was read already.
struct Begun<B> {
    begin: Option<Bytes>,
    rest: B,
}

impl<B: HttpBody<Data = Bytes> + Unpin> HttpBody for Begun<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        match self.begin.take() {
            Some(begin) => Poll::Ready(Some(Ok(Frame::data(begin)))),
            None => Pin::new(&mut self.rest).poll_frame(cx),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use http_body_util::{Full, StreamBody};

    use super::*;

    fn stream(
        parts: &'static [&'static str],
    ) -> impl HttpBody<Data = Bytes, Error = Infallible> + Send + Unpin + 'static {
        StreamBody::new(futures_util::stream::iter(
            parts.iter().map(|part| Ok(Frame::data(Bytes::from_static(part.as_bytes())))),
        ))
    }

    async fn taken(body: Body) -> (bool, Bytes) {
        (body.is_stream(), body.collect().await.unwrap())
    }

    #[tokio::test]
    async fn what_is_short_and_says_so_is_at_hand() {
        let with_length = || Full::new(Bytes::from_static(b"12345"));
        assert_eq!(taken(take(with_length(), 5, false).await.unwrap()).await, (false, "12345".into()));
        assert_eq!(taken(take(with_length(), 4, false).await.unwrap()).await, (true, "12345".into()));
        // Its sender may be waiting for an answer.
        assert_eq!(taken(take(stream(&["12", "345"]), 5, false).await.unwrap()).await, (true, "12345".into()));
        assert_eq!(taken(take(stream(&["12", "345"]), 5, true).await.unwrap()).await, (false, "12345".into()));
        assert_eq!(taken(take(stream(&["12", "345", "6"]), 4, true).await.unwrap()).await, (true, "123456".into()));
    }

    #[tokio::test]
    async fn what_is_too_long_to_be_whole_is_refused() {
        assert_eq!(whole(stream(&["12", "345"]), 5).await.unwrap(), "12345");
        assert_eq!(whole(stream(&["12", "345"]), 4).await.unwrap_err().status, StatusCode::PAYLOAD_TOO_LARGE);
    }
}
