//! Tells from an answer whether the request had its effect.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http_body::Frame;
use http_body_util::BodyExt;

use super::Misbehaviour;
use super::effects::What;

/// The bit of an envelope's first byte that says it is the stream's end (Connect protocol).
const END_OF_STREAM: u8 = 2;

/// Counts the effect that an answer tells of. Of a create's answer the sandbox is read; a stream tells with its first
/// message whether anything began.
pub(super) async fn effect(response: Response, mut what: What, mints: bool, to: &Arc<Misbehaviour>) -> Response {
    if !response.status().is_success() {
        return response;
    }
    if mints {
        let (head, body) = response.into_parts();
        let Ok(body) = body.collect().await else { return Response::from_parts(head, Body::empty()) };
        let body = body.to_bytes();
        let made: Option<serde_json::Value> = serde_json::from_slice(&body).ok();
        what.sandbox = made.and_then(|made| Some(made.get("sandboxID")?.as_str()?.to_owned()));
        to.effects.add(what, true);
        return Response::from_parts(head, Body::from(body));
    }
    let is_stream = response
        .headers()
        .get(CONTENT_TYPE)
        .is_some_and(|content| content.as_bytes().starts_with(b"application/connect"));
    if !is_stream {
        to.effects.add(what, false);
        return response;
    }
    response.map(|body| Body::new(Begun { body, watch: Some((what, Arc::clone(to))) }))
}

/// A stream that is looked at until its first message has come.
struct Begun {
    body: Body,
    watch: Option<(What, Arc<Misbehaviour>)>,
}

impl http_body::Body for Begun {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        if let Some(Ok(frame)) = &frame
            && let Some(flags) = frame.data_ref().and_then(|data| data.first())
            && let Some((what, to)) = self.watch.take()
            && flags & END_OF_STREAM == 0
        {
            to.effects.add(what, false);
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }
}
