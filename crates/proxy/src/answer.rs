//! What an SDK is answered.

use bytes::Bytes;
use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use oncebox::BoxError;
use oncebox_protocol::headers::{ONCEBOX_ATTEMPTS, ONCEBOX_RETRY_AFTER, SHOULD_RETRY};
use serde_json::json;

/// An answer's body.
pub(crate) type AnswerBody = UnsyncBoxBody<Bytes, BoxError>;

/// An answer of the proxy's own: something is wrong with a request, or nothing came of it.
#[derive(Debug)]
pub(crate) struct Refusal {
    pub(crate) status: StatusCode,
    pub(crate) message: String,
    /// For programs; of the form of the server's own.
    pub(crate) error_code: &'static str,
    pub(crate) attempts: usize,
}

impl Refusal {
    pub(crate) fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self { status, message: message.into(), error_code: "oncebox_refused", attempts: 0 }
    }

    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, message)
    }

    pub(crate) fn with_code(self, error_code: &'static str) -> Self {
        Self { error_code, ..self }
    }

    /// A call that ended without an answer. For the control plane an unknown outcome is a 504, which no SDK repeats where it is
    /// told not to, and older ones never do; for a sandbox a 502, on which SDKs ask whether it still runs.
    pub(crate) fn failed(error: &oncebox_transport::Error, is_sandbox: bool) -> Self {
        let (status, error_code) = if error.may_have_been_processed() {
            (StatusCode::GATEWAY_TIMEOUT, "oncebox_outcome_unknown")
        } else if error.is_timeout() {
            (StatusCode::GATEWAY_TIMEOUT, "oncebox_timeout")
        } else {
            (StatusCode::BAD_GATEWAY, "oncebox_not_sent")
        };
        let status = if is_sandbox { StatusCode::BAD_GATEWAY } else { status };
        Self { status, message: error.to_string(), error_code, attempts: error.attempts().len() }
    }

    pub(crate) fn into_response(self) -> Response<AnswerBody> {
        tracing::debug!(status = self.status.as_u16(), message = self.message, "refused");
        let body = json!({"code": self.status.as_u16(), "message": self.message, "error_code": self.error_code});
        let mut response = Response::new(whole(body.to_string().into()));
        *response.status_mut() = self.status;
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        finish(self.status, response.headers_mut(), self.attempts);
        response
    }
}

/// Marks what was decided for good, so that no SDK goes on where the proxy has stopped.
pub(crate) fn finish(status: StatusCode, headers: &mut HeaderMap, attempts: usize) {
    if attempts > 0 {
        headers.insert(ONCEBOX_ATTEMPTS, HeaderValue::from(attempts));
    }
    if !status.is_client_error() && !status.is_server_error() {
        return;
    }
    headers.insert(SHOULD_RETRY, HeaderValue::from_static("false"));
    // SDKs that know no Should-Retry repeat a 429 that names a time.
    if status == StatusCode::TOO_MANY_REQUESTS
        && let Some(wait) = headers.remove(RETRY_AFTER)
    {
        headers.insert(ONCEBOX_RETRY_AFTER, wait);
    }
}

/// A body that is at hand.
pub(crate) fn whole(bytes: Bytes) -> AnswerBody {
    Full::new(bytes).map_err(|never| match never {}).boxed_unsync()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_final_and_a_success_says_nothing() {
        let with = |status: u16| {
            let mut headers = HeaderMap::from_iter([
                (RETRY_AFTER, HeaderValue::from_static("1")),
                (SHOULD_RETRY, HeaderValue::from_static("true")),
            ]);
            finish(StatusCode::from_u16(status).unwrap(), &mut headers, 3);
            assert_eq!(headers["oncebox-attempts"], "3");
            let text = |name: &str| headers.get(name).map(|value| value.to_str().unwrap().to_owned());
            (text("should-retry").unwrap(), text("retry-after"), text("oncebox-retry-after"))
        };
        assert_eq!(with(429), ("false".into(), None, Some("1".into())));
        assert_eq!(with(503), ("false".into(), Some("1".into()), None));
        assert_eq!(with(404).0, "false");
        assert_eq!(with(200).0, "true");
    }
}
