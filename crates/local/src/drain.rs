//! What a client still sends after it has been answered is read and thrown away, within bounds.
//!
//! A server that answers early and closes makes the kernel reset the connection, which destroys the answer on its way: the
//! client sees a lost connection where it was refused.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use http::Request;
use http_body::{Body as _, Frame, SizeHint};
use http_body_util::BodyExt;
use parking_lot::Mutex;

/// How much of a body is read for no other reason, and for how long.
const MAX_DRAINED: usize = 64 << 20;
const DRAIN_LIMIT: Duration = Duration::from_secs(10);

/// The answer to a request, once what the answer did not need of the request's body is out of the way.
pub(crate) async fn answered<T, F: Future<Output = T>>(
    request: Request<Body>,
    answer: impl FnOnce(Request<Body>) -> F,
) -> T {
    if request.body().is_end_stream() {
        return answer(request).await;
    }
    let (parts, body) = request.into_parts();
    let body = Shared(Arc::new(Mutex::new(body)));
    let rest = Shared(Arc::clone(&body.0));
    let response = answer(Request::from_parts(parts, Body::new(body))).await;
    // Whoever sends more than this, or slower, was told as well as can be.
    let _ = tokio::time::timeout(DRAIN_LIMIT, drain(rest)).await;
    response
}

async fn drain(mut rest: Shared) {
    let mut drained = 0;
    while let Some(Ok(frame)) = rest.frame().await {
        drained += frame.data_ref().map_or(0, Bytes::len);
        if drained > MAX_DRAINED {
            return;
        }
    }
}

/// A body that can be read on when whoever had it is done.
struct Shared(Arc<Mutex<Body>>);

impl http_body::Body for Shared {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut *self.0.lock()).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.0.lock().is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.0.lock().size_hint()
    }
}
