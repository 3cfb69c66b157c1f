//! `Idempotency-Key`: of requests with one key, one is carried out, and all get its answer.
//!
//! The record of a key says which request it belongs to and how that was answered. While there is no answer, others are
//! told to come again (409); when there will be none, because the server ended meanwhile, they are told that nobody knows
//! (422), and the request is not carried out again. Answers are kept as they came, refusals included.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use http_body_util::BodyExt;
use jiff::{SignedDuration, Timestamp};
use oncebox_protocol::api::{NewSandbox, NewSandboxV1};
use oncebox_protocol::codes;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::Control;
use super::body::read;
use crate::dispatch::Call;
use crate::ids::hex;
use crate::refusal::Refusal;
use crate::store::{Draft, Records, Store, StoreError};

/// The header.
const KEY: &str = "idempotency-key";
/// How long an answer is kept. A retry does not prolong it.
const KEPT: SignedDuration = SignedDuration::from_hours(24);
/// How long a request may go without an answer before nobody is told to come again.
const ANSWER_LIMIT: SignedDuration = SignedDuration::from_secs(65);
/// Most keys that are kept.
const MAX_KEYS: usize = 100_000;
/// Largest answer that is kept: those of keyed operations are far smaller.
const MAX_ANSWER: usize = 1 << 20;

/// What is known of a key.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct KeyRecord {
    fingerprint: String,
    begun_at: Timestamp,
    state: KeyState,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
enum KeyState {
    Running,
    Answered(Answer),
    /// The server ended before it was answered.
    Unknown,
}

/// An answer, as it is given again.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Answer {
    status: u16,
    content_type: Option<String>,
    /// In base64.
    body: String,
}

/// The keys that the store has. Those without an answer will have none. Blocks.
pub(super) fn open(store: &Store) -> Result<Records<KeyRecord>, StoreError> {
    let records: Records<KeyRecord> = Records::open(store, "idempotency")?;
    records.change_blocking(|draft| {
        let running: Vec<_> = draft
            .all()
            .filter(|(_, record)| matches!(record.state, KeyState::Running))
            .map(|(key, record)| (key.clone(), record.clone()))
            .collect();
        for (key, mut record) in running {
            record.state = KeyState::Unknown;
            draft.put(key, record);
        }
        Ok::<_, StoreError>(())
    })?;
    Ok(records)
}

/// Answers a request with a key from the record of that key, or carries it out and records the answer.
pub(super) async fn keyed(State(control): State<Control>, request: Request, next: Next) -> Response {
    let call = request.extensions().get::<Call>().and_then(|call| call.operation);
    if !call.is_some_and(|operation| operation.accepts_idempotency_key) || !request.headers().contains_key(KEY) {
        return next.run(request).await;
    }
    match once(control, request, next).await {
        Ok(response) => response,
        Err(refusal) => refusal.into_response(),
    }
}

async fn once(control: Control, request: Request, next: Next) -> Result<Response, Refusal> {
    let key = hex(&Sha256::digest(key(request.headers())?));
    let (parts, body) = request.into_parts();
    let bytes = read(body).await?;
    let fingerprint = fingerprint(&parts, &bytes);
    // In a task of its own: what the record says is begun is carried out to its end, and recorded, even if the client goes
    // away.
    let answered = tokio::spawn(async move {
        let begun = {
            let key = key.clone();
            control.keys.change(move |draft| begin(draft, key, fingerprint, Timestamp::now())).await?
        };
        if let Some(answer) = begun {
            return answer.into_response();
        }
        let request = Request::from_parts(parts, Body::from(bytes));
        let response = next.run(request).await;
        record(&control.keys, key, response).await
    });
    answered.await.map_err(Refusal::internal)?
}

/// The one key of a request.
fn key(headers: &HeaderMap) -> Result<String, Refusal> {
    let mut values = headers.get_all(KEY).iter();
    let (first, more) = (values.next(), values.next());
    let key = first.and_then(|value| value.to_str().ok()).filter(|_| more.is_none());
    let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    key.filter(|key| (1..=255).contains(&key.len()) && key.bytes().all(allowed))
        .map(str::to_owned)
        .ok_or_else(|| Refusal::bad_request("Idempotency-Key must be one value of 1 to 255 of a-z, 0-9 and -"))
}

/// What makes two requests the same: the method, where it goes, and what the server knows of the body.
fn fingerprint(parts: &http::request::Parts, body: &[u8]) -> String {
    let known =
        if parts.uri.path().starts_with("/v2/") { known::<NewSandbox>(body) } else { known::<NewSandboxV1>(body) };
    let uri = parts.uri.path_and_query().map_or("", http::uri::PathAndQuery::as_str);
    let mut hash = Sha256::new();
    for part in [parts.method.as_str().as_bytes(), uri.as_bytes(), &known] {
        hash.update(u64::try_from(part.len()).unwrap_or(u64::MAX).to_be_bytes());
        hash.update(part);
    }
    hex(&hash.finalize())
}

/// The fields of a body that mean something; all of a body that means nothing.
fn known<T: Serialize + for<'de> Deserialize<'de>>(body: &[u8]) -> Vec<u8> {
    let parsed = serde_json::from_slice::<T>(body).ok();
    parsed.and_then(|parsed| serde_json::to_vec(&parsed).ok()).unwrap_or_else(|| body.to_vec())
}

/// Begins a request, unless the key's record says what to answer.
fn begin(
    draft: &mut Draft<'_, KeyRecord>,
    key: String,
    fingerprint: String,
    now: Timestamp,
) -> Result<Option<Answer>, Refusal> {
    let unknown = || {
        Refusal::new(
            StatusCode::UNPROCESSABLE_ENTITY,
            "what became of the request with this Idempotency-Key is not known",
        )
        .with_code(codes::IDEMPOTENCY_OUTCOME_UNKNOWN)
    };
    let known = draft.get(&key).filter(|record| now.duration_since(record.begun_at) < KEPT);
    if let Some(record) = known {
        if record.fingerprint != fingerprint {
            return Err(Refusal::conflict("this Idempotency-Key belongs to another request")
                .with_code(codes::IDEMPOTENCY_REQUEST_MISMATCH));
        }
        return match &record.state {
            KeyState::Answered(answer) => Ok(Some(answer.clone())),
            KeyState::Unknown => Err(unknown()),
            KeyState::Running if now.duration_since(record.begun_at) > ANSWER_LIMIT => Err(unknown()),
            KeyState::Running => {
                Err(Refusal::conflict("the request with this Idempotency-Key is still being carried out")
                    .with_code(codes::IDEMPOTENCY_IN_PROGRESS))
            }
        };
    }
    if draft.len() >= MAX_KEYS {
        let over: Vec<String> = draft
            .all()
            .filter(|(_, record)| now.duration_since(record.begun_at) >= KEPT)
            .map(|(key, _)| key.clone())
            .collect();
        if over.is_empty() {
            let message = format!("{MAX_KEYS} idempotency keys are kept, the limit; come again with the same key");
            return Err(Refusal::new(StatusCode::SERVICE_UNAVAILABLE, message));
        }
        for key in over {
            draft.take(&key);
        }
    }
    draft.put(key, KeyRecord { fingerprint, begun_at: now, state: KeyState::Running });
    Ok(None)
}

async fn record(keys: &Records<KeyRecord>, key: String, response: Response) -> Result<Response, Refusal> {
    let (parts, body) = response.into_parts();
    let bytes = body.collect().await.map_err(Refusal::internal)?.to_bytes();
    if bytes.len() > MAX_ANSWER {
        return Err(Refusal::internal("the answer is too large to be recorded"));
    }
    let content_type = parts.headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let answer = Answer {
        status: parts.status.as_u16(),
        content_type: content_type.map(str::to_owned),
        body: STANDARD.encode(&bytes),
    };
    // Nobody is told what is not recorded: the same key would be told something else.
    let recorded = keys.change(move |draft| {
        if let Some(mut record) = draft.get(&key).cloned() {
            record.state = KeyState::Answered(answer);
            draft.put(key, record);
        }
        Ok::<_, StoreError>(())
    });
    // It was carried out: the 503 of a record that was not written would say that nothing was.
    recorded.await.map_err(|error| Refusal::internal(format!("it was carried out, and not recorded: {error}")))?;
    Ok(Response::from_parts(parts, Body::from(bytes)))
}

impl Answer {
    fn into_response(self) -> Result<Response, Refusal> {
        let body = STANDARD.decode(&self.body).map_err(Refusal::internal)?;
        let mut response = Response::new(Body::from(body));
        *response.status_mut() = StatusCode::from_u16(self.status).map_err(Refusal::internal)?;
        if let Some(content_type) = self.content_type {
            let value = HeaderValue::try_from(content_type).map_err(Refusal::internal)?;
            response.headers_mut().insert(header::CONTENT_TYPE, value);
        }
        Ok(response)
    }
}

/// Removes keys that are over, every so often, for as long as there is somebody else who has the records.
pub(super) async fn forget(keys: Arc<Records<KeyRecord>>) {
    const EVERY: Duration = Duration::from_secs(3600);
    let weak = Arc::downgrade(&keys);
    drop(keys);
    loop {
        tokio::time::sleep(EVERY).await;
        let Some(keys) = weak.upgrade() else { return };
        let now = Timestamp::now();
        let forgotten = keys.change(move |draft| {
            let over: Vec<String> = draft
                .all()
                .filter(|(_, record)| now.duration_since(record.begun_at) >= KEPT)
                .map(|(key, _)| key.clone())
                .collect();
            for key in over {
                draft.take(&key);
            }
            Ok::<_, StoreError>(())
        });
        if let Err(error) = forgotten.await {
            tracing::warn!(%error, "idempotency keys that are over were not removed");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begin_at(keys: &Records<KeyRecord>, key: &str, fingerprint: &str, now: Timestamp) -> Result<bool, u16> {
        let (key, fingerprint) = (key.to_owned(), fingerprint.to_owned());
        keys.change_blocking(move |draft| begin(draft, key, fingerprint, now))
            .map(|answer| answer.is_none())
            .map_err(|refusal| refusal.status().as_u16())
    }

    #[test]
    fn a_key_is_begun_once_and_belongs_to_one_request_until_it_is_over() {
        let keys = open(&Store::default()).unwrap();
        let now = Timestamp::now();
        assert_eq!(begin_at(&keys, "k", "one", now), Ok(true));
        assert_eq!(begin_at(&keys, "k", "one", now), Err(409));
        assert_eq!(begin_at(&keys, "k", "other", now), Err(409));
        assert_eq!(begin_at(&keys, "k", "one", now + SignedDuration::from_secs(66)), Err(422));
        assert_eq!(begin_at(&keys, "k", "one", now + KEPT), Ok(true), "its time is over");
    }

    #[tokio::test]
    async fn a_server_that_starts_again_does_not_know_what_became_of_running_requests() {
        let folder = tempfile::tempdir().unwrap();
        let now = Timestamp::now();
        {
            let store = Store::open(&folder.path().join("records")).unwrap();
            let keys = open(&store).unwrap();
            assert_eq!(begin_at(&keys, "running", "one", now), Ok(true));
            assert_eq!(begin_at(&keys, "answered", "one", now), Ok(true));
            record(&keys, "answered".to_owned(), StatusCode::CREATED.into_response()).await.unwrap();
        }
        let store = Store::open(&folder.path().join("records")).unwrap();
        let keys = open(&store).unwrap();
        assert_eq!(begin_at(&keys, "running", "one", now), Err(422));
        assert_eq!(begin_at(&keys, "answered", "one", now), Ok(false));
    }

    #[test]
    fn fields_that_nobody_knows_do_not_make_another_request() {
        let parts = |uri: &str| Request::post(uri).body(()).unwrap().into_parts().0;
        let of = |uri: &str, body: &str| fingerprint(&parts(uri), body.as_bytes());
        let plain = of("/v2/sandboxes", r#"{"templateID":"base"}"#);
        assert_eq!(plain, of("/v2/sandboxes", r#"{ "extra": 1, "templateID": "base" }"#));
        assert_ne!(plain, of("/v2/sandboxes", r#"{"templateID":"base","timeout":1}"#));
        assert_ne!(plain, of("/sandboxes", r#"{"templateID":"base"}"#));
        assert_ne!(of("/v2/sandboxes", "{"), of("/v2/sandboxes", "["));
    }

    #[test]
    fn keys_are_one_value_of_few_letters() {
        let headers = |values: &[&str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(KEY, HeaderValue::from_str(value).unwrap());
            }
            headers
        };
        assert!(key(&headers(&["a-1"])).is_ok());
        for bad in [&[][..], &[""], &["A"], &["a b"], &["a", "a"], &["ü"], &["a".repeat(256).as_str()]] {
            assert!(key(&headers(bad)).is_err(), "{bad:?}");
        }
    }
}
