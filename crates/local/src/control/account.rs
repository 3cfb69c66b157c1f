//! The account of a server that has one user: API keys, access tokens, and the one team.

use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, State};
use http::{HeaderMap, StatusCode};
use jiff::Timestamp;
use oncebox_protocol::api::{
    ApiKey, CreatedAccessToken, CreatedApiKey, Mask, MaxTeamMetric, NewAccessToken, NewApiKey, Team, TeamMetric,
    UpdateApiKey,
};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::Control;
use super::body::JsonBody;
use super::sandboxes::IdResult;
use crate::events::{Event, TEAM};
use crate::ids;
use crate::refusal::Refusal;
use crate::store::{Draft, Records};

/// Most keys of each kind.
const MAX_KEYS: usize = 1000;
/// Longest name of a key, in bytes.
const MAX_NAME: usize = 256;

/// A key, of which the server keeps no more than is needed to know it again.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct KeyRecord {
    id: String,
    name: String,
    mask: Mask,
    /// SHA-256 of the key, in hexadecimal digits.
    hash: String,
    created_at: Timestamp,
}

/// What is known of a key, to be compared with what is written down.
pub(super) fn hash(key: &str) -> String {
    ids::hex(&Sha256::digest(key))
}

impl KeyRecord {
    /// A new key and its record.
    fn new(name: String, prefix: &str) -> Result<(String, Self), Refusal> {
        if name.trim().is_empty() || name.len() > MAX_NAME {
            return Err(Refusal::bad_request(format!("a name has 1 to {MAX_NAME} bytes")));
        }
        let key = ids::secret(prefix)?;
        let value = key.strip_prefix(prefix).unwrap_or_default();
        let part = |range: std::ops::Range<usize>| value.get(range).unwrap_or_default().to_owned();
        let mask = Mask {
            prefix: prefix.to_owned(),
            value_length: i32::try_from(value.len()).unwrap_or(i32::MAX),
            masked_value_prefix: part(0..2),
            masked_value_suffix: part(value.len().saturating_sub(4)..value.len()),
        };
        let record = Self { id: ids::uuid()?, name, mask, hash: hash(&key), created_at: Timestamp::now() };
        Ok((key, record))
    }

    /// Whether this is the record of a key with that hash.
    pub(super) fn is_of(&self, hash: &str) -> bool {
        crate::signature::same(self.hash.as_bytes(), hash.as_bytes())
    }
}

async fn add(records: &Records<KeyRecord>, record: KeyRecord) -> Result<(), Refusal> {
    let add = move |draft: &mut Draft<'_, KeyRecord>| {
        if draft.len() >= MAX_KEYS {
            return Err(Refusal::new(StatusCode::TOO_MANY_REQUESTS, format!("there are {MAX_KEYS} keys, the limit")));
        }
        draft.put(record.id.clone(), record);
        Ok(())
    };
    records.change(add).await
}

fn not_found(id: &str) -> Refusal {
    Refusal::not_found(format!("key '{}' not found", id.escape_debug()))
}

async fn remove(records: &Records<KeyRecord>, id: IdResult) -> Result<StatusCode, Refusal> {
    let Path(id) = id?;
    match records.take(&id).await? {
        Some(_) => Ok(StatusCode::NO_CONTENT),
        None => Err(not_found(&id)),
    }
}

/// `GET /api-keys`.
pub(super) async fn list_keys(State(control): State<Control>) -> Json<Vec<ApiKey>> {
    let shown = |key: KeyRecord| ApiKey {
        id: key.id,
        name: key.name,
        mask: key.mask,
        created_at: key.created_at,
        created_by: None,
        last_used: None,
    };
    Json(control.api_keys.all().into_iter().map(shown).collect())
}

/// `POST /api-keys`.
pub(super) async fn create_key(
    State(control): State<Control>,
    JsonBody(new): JsonBody<NewApiKey>,
) -> Result<(StatusCode, Json<CreatedApiKey>), Refusal> {
    let (key, record) = KeyRecord::new(new.name, "e2b_")?;
    add(&control.api_keys, record.clone()).await?;
    let KeyRecord { id, name, mask, created_at, .. } = record;
    let made = CreatedApiKey { id, key: key.into(), name, mask, created_at, created_by: None, last_used: None };
    Ok((StatusCode::CREATED, Json(made)))
}

/// `PATCH /api-keys/{id}`.
pub(super) async fn rename_key(
    State(control): State<Control>,
    id: IdResult,
    JsonBody(update): JsonBody<UpdateApiKey>,
) -> Result<StatusCode, Refusal> {
    let Path(id) = id?;
    if update.name.trim().is_empty() || update.name.len() > MAX_NAME {
        return Err(Refusal::bad_request(format!("a name has 1 to {MAX_NAME} bytes")));
    }
    let change = move |draft: &mut Draft<'_, KeyRecord>| {
        let mut key = draft.get(&id).cloned().ok_or_else(|| not_found(&id))?;
        key.name = update.name;
        draft.put(id, key);
        Ok::<_, Refusal>(())
    };
    control.api_keys.change(change).await?;
    Ok(StatusCode::OK)
}

/// `DELETE /api-keys/{id}`.
pub(super) async fn delete_key(State(control): State<Control>, id: IdResult) -> Result<StatusCode, Refusal> {
    remove(&control.api_keys, id).await
}

/// `POST /access-tokens`.
pub(super) async fn create_token(
    State(control): State<Control>,
    JsonBody(new): JsonBody<NewAccessToken>,
) -> Result<(StatusCode, Json<CreatedAccessToken>), Refusal> {
    let (token, record) = KeyRecord::new(new.name, "sk_e2b_")?;
    add(&control.access_tokens, record.clone()).await?;
    let KeyRecord { id, name, mask, created_at, .. } = record;
    Ok((StatusCode::CREATED, Json(CreatedAccessToken { id, name, token: token.into(), mask, created_at })))
}

/// `DELETE /access-tokens/{id}`.
pub(super) async fn delete_token(State(control): State<Control>, id: IdResult) -> Result<StatusCode, Refusal> {
    remove(&control.access_tokens, id).await
}

/// `GET /teams`: the one there is, with the key that the request came with.
pub(super) async fn teams(headers: HeaderMap) -> Json<Vec<Team>> {
    let key = headers.get("x-api-key").and_then(|key| key.to_str().ok()).unwrap_or("local");
    let team = Team { team_id: TEAM.to_owned(), name: "local".to_owned(), api_key: key.into(), is_default: true };
    Json(vec![team])
}

fn check_team(id: IdResult) -> Result<(), Refusal> {
    match id {
        Ok(Path(id)) if id == TEAM => Ok(()),
        Ok(Path(id)) => Err(Refusal::not_found(format!("team '{}' not found", id.escape_debug()))),
        Err(error) => Err(error.into()),
    }
}

/// `GET /teams/{id}/metrics`: as it is now; nothing is kept of before.
pub(super) async fn team_metrics(
    State(control): State<Control>,
    id: IdResult,
) -> Result<Json<Vec<TeamMetric>>, Refusal> {
    check_team(id)?;
    let now = Timestamp::now();
    Ok(Json(vec![TeamMetric {
        timestamp: Some(now),
        timestamp_unix: now.as_second(),
        concurrent_sandboxes: i32::try_from(running(&control)).unwrap_or(i32::MAX),
        sandbox_start_rate: start_rate(&control),
    }]))
}

#[derive(Debug, Deserialize)]
pub(super) struct MaxQuery {
    metric: String,
}

/// `GET /teams/{id}/metrics/max`.
pub(super) async fn max_team_metric(
    State(control): State<Control>,
    id: IdResult,
    query: Result<Query<MaxQuery>, QueryRejection>,
) -> Result<Json<MaxTeamMetric>, Refusal> {
    check_team(id)?;
    let Query(query) = query?;
    let value = match query.metric.as_str() {
        "concurrent_sandboxes" => f64::from(u32::try_from(running(&control)).unwrap_or(u32::MAX)),
        "sandbox_start_rate" => start_rate(&control),
        other => return Err(Refusal::bad_request(format!("there is no metric '{}'", other.escape_debug()))),
    };
    let now = Timestamp::now();
    Ok(Json(MaxTeamMetric { timestamp: Some(now), timestamp_unix: now.as_second(), value }))
}

fn running(control: &Control) -> usize {
    control.registry.all().iter().filter(|sandbox| sandbox.is_running()).count()
}

/// Sandboxes made in the last minute, per second.
fn start_rate(control: &Control) -> f64 {
    let since = Timestamp::now().as_second() - 60;
    let made = control.registry.events.select(|event| {
        event.kind == Event::CREATED
            && event.body["timestamp"]
                .as_str()
                .and_then(|time| time.parse::<Timestamp>().ok())
                .is_some_and(|time| time.as_second() >= since)
    });
    f64::from(u32::try_from(made.len()).unwrap_or(u32::MAX)) / 60.0
}
