//! envd's error answers: JSON objects whose `code` is the status.

use std::io;

use axum::response::{IntoResponse, Response};
use http::StatusCode;

/// An error answer of a REST endpoint.
#[derive(Debug)]
pub(super) struct Refusal {
    status: StatusCode,
    message: String,
}

impl Refusal {
    pub(super) fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self { status, message: message.into() }
    }

    /// What a failed file operation means to the client that asked for it.
    pub(super) fn of_io(action: &str, path: &str, error: &io::Error) -> Self {
        let status = match error.kind() {
            io::ErrorKind::NotFound => {
                return Self::new(StatusCode::NOT_FOUND, format!("path '{path}' does not exist"));
            }
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => StatusCode::INSUFFICIENT_STORAGE,
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => StatusCode::FORBIDDEN,
            io::ErrorKind::AlreadyExists
            | io::ErrorKind::NotADirectory
            | io::ErrorKind::IsADirectory
            | io::ErrorKind::InvalidInput
            | io::ErrorKind::InvalidFilename => StatusCode::BAD_REQUEST,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Self::new(status, format!("error {action} '{path}': {error}"))
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let body = serde_json::json!({ "code": self.status.as_u16(), "message": self.message });
        (self.status, axum::Json(body)).into_response()
    }
}
