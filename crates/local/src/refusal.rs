//! Error answers of the server: JSON objects whose `code` is the status, because clients read one or the other.

use axum::response::{IntoResponse, Response};
use http::StatusCode;
use oncebox_protocol::ErrorBody;

/// An error answer.
#[derive(Debug)]
pub(crate) struct Refusal {
    status: StatusCode,
    message: String,
}

impl Refusal {
    pub(crate) fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self { status, message: message.into() }
    }

    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, message)
    }

    pub(crate) fn internal(error: impl std::fmt::Display) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string())
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        (self.status, axum::Json(ErrorBody::new(self.status.as_u16(), self.message))).into_response()
    }
}
