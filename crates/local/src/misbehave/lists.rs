//! Lists of sandboxes that lag, lack metadata, or were not filtered.

use axum::Json;
use axum::body::Body;
use axum::response::{IntoResponse, Response};
use http::header::CONTENT_LENGTH;
use http::{Request, Uri};
use http_body_util::BodyExt;
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::document::{Document, ListMetadata};

/// Takes the metadata filter out of a request.
pub(super) fn drop_filter(request: &mut Request<Body>) {
    let Some(query) = request.uri().query() else { return };
    let kept: Vec<_> = query.split('&').filter(|pair| !pair.starts_with("metadata=")).collect();
    if let Ok(uri) = format!("{}?{}", request.uri().path(), kept.join("&")).parse::<Uri>() {
        *request.uri_mut() = uri;
    }
}

/// Makes a list say less than it knows.
pub(super) async fn bend(response: Response, document: &Document) -> Response {
    let omits = document.list_metadata == ListMetadata::Omitted;
    if !response.status().is_success() || (document.list_lag == 0.0 && !omits) {
        return response;
    }
    let (mut head, body) = response.into_parts();
    let body = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    let Ok(Value::Array(mut listed)) = serde_json::from_slice::<Value>(&body) else {
        return Response::from_parts(head, Body::from(body));
    };
    let lag = SignedDuration::try_from_secs_f64(document.list_lag).unwrap_or_default();
    let since = Timestamp::now().checked_sub(lag).unwrap_or(Timestamp::MIN);
    listed.retain(|sandbox| {
        let started = sandbox.get("startedAt").and_then(Value::as_str).and_then(|at| at.parse::<Timestamp>().ok());
        started.is_none_or(|started| started <= since)
    });
    if omits {
        for sandbox in &mut listed {
            if let Some(sandbox) = sandbox.as_object_mut() {
                sandbox.remove("metadata");
            }
        }
    }
    head.headers.remove(CONTENT_LENGTH);
    let mut response = Json(listed).into_response();
    *response.status_mut() = head.status;
    response.headers_mut().extend(head.headers);
    response
}
