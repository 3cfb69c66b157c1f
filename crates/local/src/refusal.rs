//! Error answers of the server: JSON objects whose `code` is the status, because clients read one or the other.

use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use oncebox_protocol::ErrorBody;

use crate::store::StoreError;

/// An error answer.
#[derive(Debug)]
pub(crate) struct Refusal {
    status: StatusCode,
    message: String,
    error_code: Option<&'static str>,
}

impl Refusal {
    pub(crate) fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self { status, message: message.into(), error_code: None }
    }

    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, message)
    }

    pub(crate) fn not_found(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, message)
    }

    pub(crate) fn conflict(message: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, message)
    }

    /// The same with the code by which clients tell it from others of its status.
    pub(crate) fn with_code(mut self, code: &'static str) -> Self {
        self.error_code = Some(code);
        self
    }

    #[cfg(test)]
    pub(crate) fn status(&self) -> StatusCode {
        self.status
    }

    /// The answer's body.
    pub(crate) fn body(&self) -> ErrorBody {
        let body = ErrorBody::new(self.status.as_u16(), self.message.clone());
        match self.error_code {
            Some(code) => body.with_error_code(code),
            None => body,
        }
    }

    pub(crate) fn internal(error: impl std::fmt::Display) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string())
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        (self.status, axum::Json(self.body())).into_response()
    }
}

/// A path or a query that is not what the operation takes.
impl From<PathRejection> for Refusal {
    fn from(error: PathRejection) -> Self {
        Self::bad_request(error.body_text())
    }
}

impl From<QueryRejection> for Refusal {
    fn from(error: QueryRejection) -> Self {
        Self::bad_request(error.body_text())
    }
}

impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, format!("{error}; nothing was changed"))
    }
}

impl From<std::io::Error> for Refusal {
    fn from(error: std::io::Error) -> Self {
        Self::internal(error)
    }
}
