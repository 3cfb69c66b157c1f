//! One sandbox: told of, connected to, kept alive, ended.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use http::StatusCode;
use oncebox_protocol::api::{
    ConnectSandbox, ListedSandbox, OnTimeout, Sandbox as SandboxAnswer, SandboxDetail, SandboxLifecycle, SandboxState,
    SetTimeout,
};

use super::body::JsonBody;
use super::create::{answer, lifetime};
use super::{Control, ENVD_VERSION};
use crate::refusal::Refusal;
use crate::registry::Sandbox;

/// How much longer a sandbox lives when it is connected to and nothing is said.
const DEFAULT_CONNECT: i64 = 300;

type IdResult = Result<Path<String>, PathRejection>;

/// `GET /sandboxes/{id}`.
pub(super) async fn info(State(control): State<Control>, id: IdResult) -> Result<Json<SandboxDetail>, Refusal> {
    Ok(Json(detail(&find(&control, id)?.1, &control)))
}

/// `POST /v2/sandboxes/{id}/connect`. Nothing is ever paused here, so this finds and prolongs.
pub(super) async fn connect(
    State(control): State<Control>,
    id: IdResult,
    JsonBody(connect): JsonBody<ConnectSandbox>,
) -> Result<Json<SandboxAnswer>, Refusal> {
    let lifetime = lifetime(connect.timeout.unwrap_or(DEFAULT_CONNECT))?;
    let (_, sandbox) = find(&control, id)?;
    sandbox.live_at_least(lifetime);
    Ok(Json(answer(&sandbox, &control)))
}

/// `POST /sandboxes/{id}/timeout`.
pub(super) async fn set_timeout(
    State(control): State<Control>,
    id: IdResult,
    JsonBody(set): JsonBody<SetTimeout>,
) -> Result<StatusCode, Refusal> {
    let (_, sandbox) = find(&control, id)?;
    // Zero and less end it now; above that, the same bounds as at its making.
    let lifetime = if set.timeout <= 0 { Duration::ZERO } else { lifetime(set.timeout)? };
    sandbox.end_in(lifetime);
    Ok(StatusCode::NO_CONTENT)
}

/// `DELETE /sandboxes/{id}`. Answers when nothing is left of it.
pub(super) async fn kill(State(control): State<Control>, id: IdResult) -> Result<StatusCode, Refusal> {
    let (id, sandbox) = find(&control, id)?;
    if control.registry.kill(&sandbox.id).await { Ok(StatusCode::NO_CONTENT) } else { Err(not_found(&id)) }
}

fn find(control: &Control, id: IdResult) -> Result<(String, Arc<Sandbox>), Refusal> {
    let Path(given) = id.map_err(|error| Refusal::bad_request(error.body_text()))?;
    // Old clients put a suffix behind the id.
    let id = given.split('-').next().unwrap_or_default();
    match control.registry.find(id) {
        Some(sandbox) => Ok((given, sandbox)),
        None => Err(not_found(&given)),
    }
}

fn not_found(id: &str) -> Refusal {
    let message = format!("Sandbox \"{}\" doesn't exist or you don't have access to it", id.escape_debug());
    Refusal::new(StatusCode::NOT_FOUND, message)
}

/// A sandbox as lists show it.
pub(super) fn listed(sandbox: &Sandbox) -> ListedSandbox {
    ListedSandbox {
        template_id: sandbox.template_id.clone(),
        alias: Some(sandbox.template_id.clone()),
        sandbox_id: sandbox.id.clone(),
        client_id: "local".to_owned(),
        started_at: sandbox.started_at,
        end_at: sandbox.end_at(),
        cpu_count: cpu_count(),
        memory_mb: 0,
        disk_size_mb: 0,
        metadata: Some(sandbox.metadata.clone()),
        state: SandboxState::Running,
        envd_version: ENVD_VERSION.to_owned(),
        envd_unresponsive_at_pause: None,
        volume_mounts: None,
    }
}

fn detail(sandbox: &Sandbox, control: &Control) -> SandboxDetail {
    let listed = listed(sandbox);
    SandboxDetail {
        template_id: listed.template_id,
        alias: listed.alias,
        sandbox_id: listed.sandbox_id,
        client_id: listed.client_id,
        started_at: listed.started_at,
        end_at: listed.end_at,
        cpu_count: listed.cpu_count,
        memory_mb: listed.memory_mb,
        disk_size_mb: listed.disk_size_mb,
        metadata: listed.metadata,
        state: listed.state,
        envd_version: listed.envd_version,
        envd_unresponsive_at_pause: None,
        volume_mounts: None,
        envd_access_token: Some(sandbox.access_token.clone()),
        allow_internet_access: sandbox.allow_internet_access,
        domain: Some(control.domain()),
        network: None,
        lifecycle: Some(SandboxLifecycle { auto_resume: false, on_timeout: OnTimeout::Kill }),
        pause_mode: None,
    }
}

/// Sandboxes have no limits of their own yet: their processors are the machine's, and memory and disk say 0.
fn cpu_count() -> i32 {
    let count = std::thread::available_parallelism().map_or(1, usize::from);
    i32::try_from(count).unwrap_or(i32::MAX)
}
