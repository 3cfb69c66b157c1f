//! Answers that the server makes up.

use axum::Json;
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode};
use oncebox_protocol::ErrorBody;
use serde_json::Value;

use super::document::Answer;
use super::plan::Allowance;
use crate::refusal::Refusal;

pub(super) fn made_up(answer: &Answer) -> Response {
    let mut response = match &answer.body {
        None => {
            let words = answer.status().canonical_reason().unwrap_or("made up");
            Json(ErrorBody::new(answer.code, words)).into_response()
        }
        Some(Value::String(text)) => text.clone().into_response(),
        Some(value) => Json(value).into_response(),
    };
    *response.status_mut() = answer.status();
    response.headers_mut().extend(answer.header_map());
    response
}

pub(super) fn limited(allowance: Allowance) -> Response {
    let mut response = Refusal::new(StatusCode::TOO_MANY_REQUESTS, "Rate limit exceeded").into_response();
    response.headers_mut().insert(http::header::RETRY_AFTER, HeaderValue::from(allowance.reset));
    with_limits(response, allowance)
}

/// Says what is left in both forms: the protocol's three fields, and the two of the RateLimit draft.
pub(super) fn with_limits(mut response: Response, allowance: Allowance) -> Response {
    let Allowance { limit, window, remaining, reset, .. } = allowance;
    let headers = response.headers_mut();
    headers.insert("ratelimit-limit", HeaderValue::from(limit));
    headers.insert("ratelimit-remaining", HeaderValue::from(remaining));
    headers.insert("ratelimit-reset", HeaderValue::from(reset));
    for (name, value) in [
        ("ratelimit-policy", format!("\"create\";q={limit};w={window}")),
        ("ratelimit", format!("\"create\";r={remaining};t={reset}")),
    ] {
        if let Ok(value) = HeaderValue::try_from(value) {
            headers.insert(name, value);
        }
    }
    response
}
