//! The requests of a create, one attempt each, and what their answers say.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use http::header::DATE;
use http::{HeaderMap, HeaderValue, Response};
use jiff::Timestamp;
use oncebox_protocol::headers::IDEMPOTENCY_KEY;
use oncebox_protocol::{ErrorBody, ErrorCode, Operation, api, operations};
use oncebox_transport::policy::create::{
    ApiVersion, Failure, INTENT_METADATA, Intent, IntentTag, ListedSandbox, Send, ServerError,
};
use oncebox_transport::policy::{LOOKUP_PAGES, Outcome};
use oncebox_transport::{Attempted, CallOptions, Place};
use serde_json::Value;

use super::{ACTION, Asked};
use crate::Client;
use crate::client::ApiCall;
use crate::error::Error;
use crate::rpc::{header, query};
use crate::sandbox::metadata_filter;

/// Makes single attempts within a time that is left; `None`: no limit.
pub(super) struct Wire<'a> {
    pub(super) client: &'a Client,
    pub(super) left: Option<Duration>,
}

impl Wire<'_> {
    async fn attempt(&self, call: ApiCall<'_>, place: Place) -> Result<Attempted, Error> {
        let options = CallOptions::new()
            .mints(call.operation.mints)
            .request_timeout(self.left.map_or(Duration::ZERO, |left| left.max(Duration::from_nanos(1))));
        let request = self.client.request(call).await?;
        let attempted = self.client.transport().attempt(request, options, place).await;
        attempted.map_err(|error| Error::transport(ACTION, error))
    }

    pub(super) async fn send(&self, send: &Send, body: &Asked, place: Place) -> Result<Attempted, Error> {
        let operation = match send.version {
            ApiVersion::V2 => &operations::CREATE_SANDBOX,
            ApiVersion::V1 => &operations::CREATE_SANDBOX_V1,
        };
        // v1 takes the same body.
        let mut call = ApiCall::new(operation, ACTION, []).json(body)?;
        call.headers = header(IDEMPOTENCY_KEY, &send.key)?;
        self.attempt(call, place).await
    }

    pub(super) async fn probe(&self) -> Result<Attempted, Error> {
        let mut call = ApiCall::new(&operations::LIST_SANDBOXES, ACTION, []);
        call.query = query([("limit", "1")]);
        self.attempt(call, Place::default()).await
    }

    /// One page. v1 has one only.
    pub(super) async fn page(&self, version: ApiVersion, intent: &Intent, token: &str) -> Result<Attempted, Error> {
        let filter = metadata_filter(&[(INTENT_METADATA.to_owned(), intent.to_string())].into());
        let (operation, pairs): (&'static Operation, &[(&str, &str)]) = match version {
            ApiVersion::V2 => (
                &operations::LIST_SANDBOXES,
                &[("metadata", &filter), ("state", "running,paused"), ("limit", "100"), ("nextToken", token)],
            ),
            ApiVersion::V1 => (&operations::LIST_SANDBOXES_V1, &[("metadata", &filter)]),
        };
        let mut call = ApiCall::new(operation, ACTION, []);
        call.query = query(pairs.iter().copied().filter(|(_, value)| !value.is_empty()));
        self.attempt(call, Place::default()).await
    }

    /// Fetches a sandbox with its tokens; a paused one is resumed by it.
    pub(super) async fn adopt(&self, version: ApiVersion, id: &str, lifetime: i64) -> Result<Attempted, Error> {
        let operation = match version {
            ApiVersion::V2 => &operations::CONNECT_SANDBOX,
            ApiVersion::V1 => &operations::CONNECT_SANDBOX_V1,
        };
        let body = api::ConnectSandbox { timeout: Some(lifetime), ..Default::default() };
        self.attempt(ApiCall::new(operation, ACTION, [id]).json(&body)?, Place::default()).await
    }

    pub(super) async fn kill(&self, id: &str) -> Result<Attempted, Error> {
        self.attempt(ApiCall::new(&operations::KILL_SANDBOX, ACTION, [id]), Place::default()).await
    }
}

/// The most pages that one look-up follows.
pub(super) const MAX_PAGES: u32 = LOOKUP_PAGES;

/// A page's sandboxes; `None` when it makes no sense.
pub(super) fn listed(body: &[u8]) -> Option<Vec<ListedSandbox>> {
    let Ok(Value::Array(items)) = serde_json::from_slice(body) else { return None };
    items.iter().map(listed_one).collect()
}

fn listed_one(item: &Value) -> Option<ListedSandbox> {
    let started: Timestamp = item.get("startedAt")?.as_str()?.parse().ok()?;
    let intent = match item.get("metadata") {
        None | Some(Value::Null) => IntentTag::NoMetadata,
        Some(metadata) => match metadata.get(INTENT_METADATA).and_then(Value::as_str) {
            Some(intent) => IntentTag::Value(intent.to_owned()),
            None => IntentTag::None,
        },
    };
    Some(ListedSandbox {
        id: item.get("sandboxID")?.as_str()?.to_owned(),
        started_at: Duration::try_from(started.as_duration()).unwrap_or_default(),
        intent,
        paused: item.get("state").and_then(Value::as_str) == Some("paused"),
    })
}

/// The server's clock, since 1970.
pub(crate) fn date(headers: &HeaderMap) -> Option<Duration> {
    http_date(headers.get(DATE)?)
}

/// A date of HTTP, since 1970.
pub(crate) fn http_date(value: &HeaderValue) -> Option<Duration> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_secs());
    oncebox_transport::policy::http_date(value.as_bytes(), now).map(Duration::from_secs)
}

/// An error of E2B's shape: a JSON object with a number for a code and a text for a message.
pub(super) fn server_error(response: &Response<Bytes>) -> Option<ServerError> {
    if response.status().is_success() {
        return None;
    }
    let body = ErrorBody::parse(response.body());
    match (body.code, body.message) {
        (Some(ErrorCode::Number(_)), Some(message)) => Some(ServerError { error_code: body.error_code, message }),
        _ => None,
    }
}

/// A request that brought nothing to go by.
pub(super) fn failure(attempted: &Attempted) -> Failure {
    Failure {
        status: attempted.attempt.outcome.status(),
        retry_after: match attempted.attempt.outcome {
            Outcome::Responded(response) => response.retry_after,
            _ => None,
        },
        date: attempted.response.as_ref().and_then(|response| date(response.headers())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listed_sandbox_says_whether_it_carries_an_intent() {
        let page = br#"[
            {"sandboxID": "i1", "startedAt": "1970-01-01T00:00:01.5Z", "metadata": {"oncebox.intent": "x"}, "new": 1},
            {"sandboxID": "i2", "startedAt": "1970-01-01T00:00:02Z", "metadata": {}, "state": "paused"},
            {"sandboxID": "i3", "startedAt": "1970-01-01T00:00:03+00:00", "metadata": null}
        ]"#;
        let page = listed(page).unwrap();
        assert_eq!(page[0].started_at, Duration::from_millis(1500));
        assert_eq!(page[0].intent, IntentTag::Value("x".to_owned()));
        assert!(page[1].paused && page[1].intent == IntentTag::None);
        assert!(!page[2].paused && page[2].intent == IntentTag::NoMetadata);
    }

    #[test]
    fn a_page_that_makes_no_sense_is_none() {
        for body in [&b"{}"[..], b"<html>", br#"[{"sandboxID": "i1"}]"#, br#"[{"startedAt": "1970-01-01T00:00:01Z"}]"#]
        {
            assert_eq!(listed(body), None);
        }
        assert_eq!(listed(b"[]"), Some(Vec::new()));
    }
}
