//! Secrets: named values that can be set and never read back.

use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, State};
use http::StatusCode;
use jiff::Timestamp;
use oncebox_protocol::api::{Metadata, NewSecret, Secret, UpdateSecret};
use oncebox_protocol::{SecretString, codes};
use serde::{Deserialize, Serialize};

use super::Control;
use super::body::JsonBody;
use super::paging::{Page, PageQuery, page};
use super::sandboxes::IdResult;
use crate::ids;
use crate::refusal::Refusal;
use crate::store::Draft;

/// Most secrets of a server.
const MAX_SECRETS: usize = 1000;
const MAX_VALUE: usize = 64 << 10;

/// A secret, with its latest value.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct SecretRecord {
    secret: Secret,
    value: SecretString,
}

/// `GET /secrets`.
pub(super) async fn list(
    State(control): State<Control>,
    query: Result<Query<PageQuery>, QueryRejection>,
) -> Result<Page<Secret>, Refusal> {
    let Query(query) = query?;
    page(control.secrets.all(), &query, |record| record.secret.secret_id.clone(), |record| record.secret)
}

/// `POST /secrets`.
pub(super) async fn create(
    State(control): State<Control>,
    JsonBody(new): JsonBody<NewSecret>,
) -> Result<(StatusCode, Json<Secret>), Refusal> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    if !(1..=128).contains(&new.name.len()) || !new.name.bytes().all(allowed) {
        return Err(Refusal::bad_request("a secret's name has 1 to 128 letters, digits, - and _"));
    }
    let metadata = new.metadata.unwrap_or_default();
    check(&new.value, &metadata)?;
    let now = Timestamp::now();
    let secret = Secret {
        secret_id: ids::uuid()?,
        name: new.name.to_ascii_lowercase(),
        current_version: 1,
        metadata,
        created_at: now,
        updated_at: now,
    };
    let record = SecretRecord { secret: secret.clone(), value: new.value };
    let add = move |draft: &mut Draft<'_, SecretRecord>| {
        if draft.all().any(|(_, other)| other.secret.name == record.secret.name) {
            return Err(Refusal::conflict(format!("a secret of the name '{}' exists", record.secret.name)));
        }
        if draft.len() >= MAX_SECRETS {
            let message = format!("there are {MAX_SECRETS} secrets, the limit");
            return Err(Refusal::conflict(message).with_code(codes::SECRET_LIMIT_REACHED));
        }
        draft.put(record.secret.secret_id.clone(), record);
        Ok(())
    };
    control.secrets.change(add).await?;
    Ok((StatusCode::CREATED, Json(secret)))
}

/// `GET /secrets/{id}`, by id or name.
pub(super) async fn get(State(control): State<Control>, id: IdResult) -> Result<Json<Secret>, Refusal> {
    Ok(Json(find(&control, id)?.secret))
}

/// `POST /secrets/{id}`: another version of it.
pub(super) async fn update(
    State(control): State<Control>,
    id: IdResult,
    JsonBody(update): JsonBody<UpdateSecret>,
) -> Result<Json<Secret>, Refusal> {
    let found = find(&control, id)?;
    check(&update.value, update.metadata.as_ref().unwrap_or(&Metadata::new()))?;
    let change = move |draft: &mut Draft<'_, SecretRecord>| {
        let id = found.secret.secret_id;
        let mut record = draft.get(&id).cloned().ok_or_else(|| not_found(&id))?;
        record.secret.current_version += 1;
        record.secret.updated_at = Timestamp::now();
        if let Some(metadata) = update.metadata {
            record.secret.metadata = metadata;
        }
        record.value = update.value;
        let secret = record.secret.clone();
        draft.put(id, record);
        Ok::<_, Refusal>(secret)
    };
    Ok(Json(control.secrets.change(change).await?))
}

/// `DELETE /secrets/{id}`.
pub(super) async fn delete(State(control): State<Control>, id: IdResult) -> Result<StatusCode, Refusal> {
    let found = find(&control, id)?;
    match control.secrets.take(&found.secret.secret_id).await? {
        Some(_) => Ok(StatusCode::NO_CONTENT),
        None => Err(not_found(&found.secret.secret_id)),
    }
}

fn find(control: &Control, id: IdResult) -> Result<SecretRecord, Refusal> {
    let Path(id) = id?;
    let named = || control.secrets.find(|record| record.secret.name == id);
    control.secrets.get(&id).or_else(named).ok_or_else(|| not_found(&id))
}

fn not_found(id: &str) -> Refusal {
    Refusal::not_found(format!("secret '{}' not found", id.escape_debug()))
}

fn check(value: &SecretString, metadata: &Metadata) -> Result<(), Refusal> {
    if value.expose().is_empty() || value.expose().len() > MAX_VALUE {
        return Err(Refusal::bad_request(format!("a secret's value has 1 to {MAX_VALUE} bytes")));
    }
    let total: usize = metadata.iter().map(|(key, value)| key.len() + value.len()).sum();
    let fits = metadata.iter().all(|(key, value)| (1..=128).contains(&key.len()) && value.len() <= 1024);
    if metadata.len() > 32 || !fits || total > 8192 {
        return Err(Refusal::bad_request(
            "metadata has at most 32 entries, keys of 1 to 128 bytes, values of at most 1024, and 8192 bytes in all",
        ));
    }
    Ok(())
}
