//! Webhooks: who is told of events.

use axum::Json;
use axum::extract::State;
use http::StatusCode;
use jiff::Timestamp;
use oncebox_protocol::SecretString;
use serde::Deserialize;
use serde_json::{Value, json};

use super::Control;
use super::body::JsonBody;
use super::sandboxes::IdResult;
use crate::events::{Delivery, Event, TEAM, Webhook, target};
use crate::ids;
use crate::refusal::Refusal;
use crate::store::Draft;

/// Most webhooks of a server.
const MAX_WEBHOOKS: usize = 100;

/// A new webhook, as clients describe it.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct NewWebhook {
    name: String,
    url: String,
    events: Vec<String>,
    #[serde(default = "yes")]
    enabled: bool,
    #[serde(default)]
    signature_secret: SecretString,
}

fn yes() -> bool {
    true
}

/// What changes of a webhook.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct WebhookChange {
    name: Option<String>,
    url: Option<String>,
    events: Option<Vec<String>>,
    enabled: Option<bool>,
    signature_secret: Option<SecretString>,
}

/// A webhook, without its secret.
fn show(webhook: &Webhook) -> Value {
    json!({
        "id": webhook.id,
        "teamId": TEAM,
        "name": webhook.name,
        "createdAt": webhook.created_at,
        "enabled": webhook.enabled,
        "url": webhook.url,
        "events": webhook.events,
    })
}

fn check(webhook: &Webhook) -> Result<(), Refusal> {
    target(&webhook.url).map_err(Refusal::bad_request)?;
    if webhook.name.is_empty() || webhook.name.len() > 256 {
        return Err(Refusal::bad_request("a webhook's name has 1 to 256 bytes"));
    }
    if webhook.events.is_empty() {
        return Err(Refusal::bad_request("a webhook needs events"));
    }
    match webhook.events.iter().find(|kind| !Event::KINDS.contains(&kind.as_str())) {
        Some(kind) => Err(Refusal::bad_request(format!("there is no event '{}'", kind.escape_debug()))),
        None => Ok(()),
    }
}

fn id(id: IdResult) -> Result<String, Refusal> {
    Ok(id?.0)
}

fn not_found(id: &str) -> Refusal {
    Refusal::not_found(format!("webhook '{}' not found", id.escape_debug()))
}

/// `GET /events/webhooks`.
pub(super) async fn list(State(control): State<Control>) -> Json<Vec<Value>> {
    Json(control.registry.events.webhooks.all().iter().map(show).collect())
}

/// `POST /events/webhooks`.
pub(super) async fn create(
    State(control): State<Control>,
    JsonBody(new): JsonBody<NewWebhook>,
) -> Result<(StatusCode, Json<Value>), Refusal> {
    let webhook = Webhook {
        id: ids::uuid()?,
        name: new.name,
        url: new.url,
        events: new.events,
        enabled: new.enabled,
        secret: new.signature_secret,
        created_at: Timestamp::now(),
    };
    check(&webhook)?;
    let shown = show(&webhook);
    let add = move |draft: &mut Draft<'_, Webhook>| {
        if draft.len() >= MAX_WEBHOOKS {
            let message = format!("there are {MAX_WEBHOOKS} webhooks, the limit");
            return Err(Refusal::new(StatusCode::TOO_MANY_REQUESTS, message));
        }
        draft.put(webhook.id.clone(), webhook);
        Ok(())
    };
    control.registry.events.webhooks.change(add).await?;
    Ok((StatusCode::CREATED, Json(shown)))
}

/// `GET /events/webhooks/{id}`.
pub(super) async fn get(State(control): State<Control>, path: IdResult) -> Result<Json<Value>, Refusal> {
    let id = id(path)?;
    control.registry.events.webhooks.get(&id).map(|webhook| Json(show(&webhook))).ok_or_else(|| not_found(&id))
}

/// `PATCH /events/webhooks/{id}`.
pub(super) async fn update(
    State(control): State<Control>,
    path: IdResult,
    JsonBody(change): JsonBody<WebhookChange>,
) -> Result<Json<Value>, Refusal> {
    let id = id(path)?;
    let apply = move |draft: &mut Draft<'_, Webhook>| {
        let mut webhook = draft.get(&id).cloned().ok_or_else(|| not_found(&id))?;
        webhook.name = change.name.unwrap_or(webhook.name);
        webhook.url = change.url.unwrap_or(webhook.url);
        webhook.events = change.events.unwrap_or(webhook.events);
        webhook.enabled = change.enabled.unwrap_or(webhook.enabled);
        webhook.secret = change.signature_secret.unwrap_or(webhook.secret);
        check(&webhook)?;
        let shown = show(&webhook);
        draft.put(id, webhook);
        Ok::<_, Refusal>(shown)
    };
    Ok(Json(control.registry.events.webhooks.change(apply).await?))
}

/// `DELETE /events/webhooks/{id}`.
pub(super) async fn delete(State(control): State<Control>, path: IdResult) -> Result<StatusCode, Refusal> {
    let id = id(path)?;
    match control.registry.events.webhooks.take(&id).await? {
        Some(_) => Ok(StatusCode::OK),
        None => Err(not_found(&id)),
    }
}

/// `GET /events/webhooks/{id}/deliveries`, the latest first.
pub(super) async fn deliveries(State(control): State<Control>, path: IdResult) -> Result<Json<Vec<Delivery>>, Refusal> {
    let id = id(path)?;
    control.registry.events.webhooks.get(&id).ok_or_else(|| not_found(&id))?;
    let mut deliveries = control.registry.events.deliveries(&id);
    deliveries.reverse();
    Ok(Json(deliveries))
}

/// `GET /events/webhooks/{id}/stats`.
pub(super) async fn stats(State(control): State<Control>, path: IdResult) -> Result<Json<Value>, Refusal> {
    let id = id(path)?;
    control.registry.events.webhooks.get(&id).ok_or_else(|| not_found(&id))?;
    let deliveries = control.registry.events.deliveries(&id);
    let success = deliveries.iter().filter(|delivery| delivery.success).count();
    Ok(Json(json!({ "total": deliveries.len(), "success": success, "failed": deliveries.len() - success })))
}
