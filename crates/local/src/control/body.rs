//! Bodies of requests, read within bounds.

use std::time::Duration;

use axum::body::Body;
use axum::extract::{FromRequest, Request};
use bytes::Bytes;
use http::StatusCode;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde::de::DeserializeOwned;

use crate::refusal::Refusal;

/// Largest body of a control-plane request.
const MAX_BODY: usize = 1 << 20;
/// How long one may take to arrive, and how long a stream may stand still.
pub(super) const BODY_LIMIT: Duration = Duration::from_secs(30);

/// A JSON body. An empty one is an empty object. The content type is not looked at: not every client sends one.
pub(super) struct JsonBody<T>(pub(super) T);

impl<S: Sync, T: DeserializeOwned> FromRequest<S> for JsonBody<T> {
    type Rejection = Refusal;

    async fn from_request(request: Request, _: &S) -> Result<Self, Refusal> {
        let bytes = read(request.into_body()).await?;
        let json: &[u8] = if bytes.trim_ascii().is_empty() { b"{}" } else { &bytes };
        serde_json::from_slice(json).map(Self).map_err(|error| Refusal::bad_request(format!("the body: {error}")))
    }
}

/// All of a body.
pub(super) async fn read(body: Body) -> Result<Bytes, Refusal> {
    let body = Limited::new(body, MAX_BODY).collect();
    let body = tokio::time::timeout(BODY_LIMIT, body).await.map_err(|_| {
        Refusal::new(StatusCode::REQUEST_TIMEOUT, format!("the body did not arrive within {BODY_LIMIT:?}"))
    })?;
    let body = body.map_err(|error| {
        if error.is::<LengthLimitError>() {
            Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, format!("the body is larger than {MAX_BODY} bytes"))
        } else {
            Refusal::bad_request(format!("the body ended early: {error}"))
        }
    })?;
    Ok(body.to_bytes())
}
