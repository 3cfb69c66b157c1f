//! The body of an error answer.

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

/// The body of an error answer, read leniently: a proxy, an older server or a page of HTML may have answered instead of the
/// one that the specification means.
///
/// ```
/// use oncebox_protocol::{ErrorBody, ErrorCode};
///
/// let body = ErrorBody::parse(br#"{"code": 404, "message": "no such sandbox"}"#);
/// assert_eq!(body.code, Some(ErrorCode::Number(404)));
/// assert_eq!(body.message.as_deref(), Some("no such sandbox"));
///
/// let text = ErrorBody::parse(b"upstream connect error");
/// assert_eq!(text.message.as_deref(), Some("upstream connect error"));
/// ```
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct ErrorBody {
    /// Repeats the HTTP status as a number; the volume content API uses a word.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<ErrorCode>,
    /// What went wrong, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// What went wrong, for programs; see [`codes`] for the values known. New ones may appear at any time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_code: Option<String>,
}

/// The `code` of an error body.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
#[serde(untagged)]
#[non_exhaustive]
pub enum ErrorCode {
    /// A number, on the control plane and in envd: the HTTP status.
    Number(i64),
    /// A word, in the volume content API.
    Text(String),
}

/// Values of [`ErrorBody::error_code`] that a client acts upon.
pub mod codes {
    /// The idempotency key was used for another request.
    pub const IDEMPOTENCY_REQUEST_MISMATCH: &str = "idempotency_request_mismatch";
    /// The first request with this idempotency key is still running.
    pub const IDEMPOTENCY_IN_PROGRESS: &str = "idempotency_in_progress";
    /// The idempotency key is known, but not what became of its request, and it will not be run again.
    pub const IDEMPOTENCY_OUTCOME_UNKNOWN: &str = "idempotency_outcome_unknown";
    /// What all codes about idempotency keys begin with. A server that sends one honours keys.
    pub const IDEMPOTENCY_PREFIX: &str = "idempotency_";
    /// No room for another sandbox.
    pub const SANDBOX_CAPACITY_UNAVAILABLE: &str = "sandbox_capacity_unavailable";
    /// No machine was found for a sandbox in time.
    pub const SANDBOX_PLACEMENT_TIMEOUT: &str = "sandbox_placement_timeout";
    /// No machine can run such a sandbox.
    pub const SANDBOX_NO_COMPATIBLE_NODE: &str = "sandbox_no_compatible_node";
    /// A sandbox could not be created.
    pub const SANDBOX_CREATE_FAILED: &str = "sandbox_create_failed";
    /// The machine refused to create a sandbox.
    pub const SANDBOX_CREATE_REFUSED: &str = "sandbox_create_refused";
    /// The daemon inside a sandbox did not answer before its snapshot.
    pub const GUEST_UNRESPONSIVE: &str = "sandbox_snapshot_guest_agent_unresponsive";
    /// The team has as many secrets as it may have.
    pub const SECRET_LIMIT_REACHED: &str = "secret_limit_reached";
    /// The server failed.
    pub const INTERNAL_SERVER_ERROR: &str = "internal_server_error";
}

/// How much of a body that is no JSON becomes a message.
const MESSAGE_LIMIT: usize = 512;

impl ErrorBody {
    /// A body as servers of the protocol write it: the status as code, and a message.
    pub fn new(status: u16, message: impl Into<String>) -> Self {
        Self { code: Some(ErrorCode::Number(status.into())), message: Some(message.into()), error_code: None }
    }

    /// Adds the code for programs.
    #[must_use]
    pub fn with_error_code(mut self, error_code: impl Into<String>) -> Self {
        self.error_code = Some(error_code.into());
        self
    }

    /// Reads whatever came. Never fails: what is no JSON object becomes the message, cut to a length fit for one.
    pub fn parse(body: &[u8]) -> Self {
        let text = match serde_json::from_slice(body) {
            Ok(value @ Value::Object(_)) => return Self::from_value(value),
            Ok(Value::String(text)) => text,
            _ => String::from_utf8_lossy(body).into_owned(),
        };
        let text = text.trim();
        let cut = text.char_indices().nth(MESSAGE_LIMIT).map_or(text, |(end, _)| &text[..end]);
        Self { message: (!cut.is_empty()).then(|| cut.to_owned()), ..Self::default() }
    }

    /// Whether the server says that it honours idempotency keys, by complaining about one.
    pub fn is_about_idempotency(&self) -> bool {
        self.error_code.as_deref().is_some_and(|code| code.starts_with(codes::IDEMPOTENCY_PREFIX))
    }

    fn from_value(value: Value) -> Self {
        let text = |key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
        Self {
            code: match value.get("code") {
                Some(Value::Number(number)) => number.as_i64().map(ErrorCode::Number),
                Some(Value::String(text)) => Some(ErrorCode::Text(text.clone())),
                _ => None,
            },
            message: text("message"),
            error_code: text("error_code"),
        }
    }
}

// By hand, so that one part of a strange type does not lose the others.
impl<'de> Deserialize<'de> for ErrorBody {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Value::deserialize(deserializer).map(Self::from_value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_a_code_too() {
        let body = ErrorBody::parse(br#"{"code":"not_found","message":"gone"}"#);
        assert_eq!(body.code, Some(ErrorCode::Text("not_found".to_owned())));
    }

    #[test]
    fn every_part_may_be_missing_or_strange() {
        assert_eq!(ErrorBody::parse(b"{}"), ErrorBody::default());
        assert_eq!(ErrorBody::parse(b""), ErrorBody::default());
        let body = ErrorBody::parse(br#"{"code":null,"message":["x"],"error_code":"secret_limit_reached","extra":1}"#);
        assert_eq!(body.code, None);
        assert_eq!(body.message, None);
        assert_eq!(body.error_code.as_deref(), Some(codes::SECRET_LIMIT_REACHED));
    }

    #[test]
    fn what_is_no_object_is_the_message() {
        assert_eq!(ErrorBody::parse(br#""busy""#).message.as_deref(), Some("busy"));
        assert_eq!(ErrorBody::parse(b"[1]").message.as_deref(), Some("[1]"));
        assert_eq!(ErrorBody::parse(b" <html> ").message.as_deref(), Some("<html>"));
        let long = "ä".repeat(MESSAGE_LIMIT + 1);
        assert_eq!(ErrorBody::parse(long.as_bytes()).message, Some("ä".repeat(MESSAGE_LIMIT)));
    }

    #[test]
    fn it_is_written_as_servers_write_it() {
        let body = ErrorBody::new(409, "in progress").with_error_code(codes::IDEMPOTENCY_IN_PROGRESS);
        assert!(body.is_about_idempotency());
        assert_eq!(
            serde_json::to_string(&body).unwrap(),
            r#"{"code":409,"message":"in progress","error_code":"idempotency_in_progress"}"#
        );
    }
}
