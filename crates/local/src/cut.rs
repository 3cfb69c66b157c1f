//! Connections into a sandbox end when it is paused: its side of them stands still.

use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Either, select};
use http::StatusCode;
use http_body::{Frame, SizeHint};

use crate::registry::Sandbox;

/// The answer, unless the sandbox is paused before it comes; its body is cut when the sandbox is paused before it ends.
pub(crate) async fn unless(
    cut: impl Future<Output = ()> + Send + 'static,
    sandbox: &Sandbox,
    answer: impl Future<Output = Response>,
) -> Response {
    let cut = cut.boxed();
    match select(cut, std::pin::pin!(answer)).await {
        Either::Left(_) => paused(&sandbox.id),
        Either::Right((response, cut)) => response.map(|body| Body::new(Cut { body, cut: Some(cut) })),
    }
}

/// The words that clients look for.
fn paused(id: &str) -> Response {
    let body = serde_json::json!({ "sandboxId": id, "message": "The sandbox was not found", "code": 502 });
    (StatusCode::BAD_GATEWAY, axum::Json(body)).into_response()
}

/// A body that fails when it is cut, so that nobody takes its beginning for the whole.
struct Cut {
    body: Body,
    cut: Option<BoxFuture<'static, ()>>,
}

impl http_body::Body for Cut {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if let Some(cut) = &mut self.cut
            && cut.poll_unpin(cx).is_ready()
        {
            self.cut = None;
            self.body = Body::empty();
            return Poll::Ready(Some(Err(axum::Error::new(std::io::Error::other("the sandbox was paused")))));
        }
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
