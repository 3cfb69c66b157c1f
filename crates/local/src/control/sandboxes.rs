//! One sandbox: told of, connected to, kept alive, paused, ended.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use http::StatusCode;
use oncebox_protocol::api::{
    ConnectSandbox, ConnectSandboxV1, ListedSandbox, NetworkUpdate, OnTimeout, PauseSandbox, RefreshSandbox,
    ResumeSandbox, Sandbox as SandboxAnswer, SandboxDetail, SandboxLifecycle, SandboxNetwork, SandboxState, SetTimeout,
};

use super::body::JsonBody;
use super::create::{answer, check_network, create_refusal, lifetime};
use super::{Control, ENVD_VERSION};
use crate::events::Event;
use crate::refusal::Refusal;
use crate::registry::{PauseError, Sandbox, SandboxRecord};

/// How much longer a sandbox lives when it is connected to and nothing is said.
const DEFAULT_CONNECT: i64 = 300;
/// The same for the older ways to wake and to keep alive it.
const DEFAULT_RESUME: i64 = 15;
/// Longest time by which one refresh keeps a sandbox alive, in seconds.
const MAX_REFRESH: i64 = 3600;

/// What a path names, as the routes of a thing with an id take it.
pub(super) type IdResult = Result<Path<String>, PathRejection>;

/// `GET /sandboxes/{id}`.
pub(super) async fn info(State(control): State<Control>, id: IdResult) -> Result<Json<SandboxDetail>, Refusal> {
    let sandbox = find(&control, id)?;
    Ok(Json(detail(&sandbox, &control)))
}

/// `POST /v2/sandboxes/{id}/connect`: finds it and prolongs its life, and wakes it when it is paused.
pub(super) async fn connect(
    State(control): State<Control>,
    id: IdResult,
    JsonBody(connect): JsonBody<ConnectSandbox>,
) -> Result<(StatusCode, Json<SandboxAnswer>), Refusal> {
    let lifetime = lifetime(connect.timeout.unwrap_or(DEFAULT_CONNECT))?;
    wake(&control, id, lifetime, connect.memory, None).await
}

/// `POST /sandboxes/{id}/connect`: the same, where the timeout must be given.
pub(super) async fn connect_v1(
    State(control): State<Control>,
    id: IdResult,
    JsonBody(connect): JsonBody<ConnectSandboxV1>,
) -> Result<(StatusCode, Json<SandboxAnswer>), Refusal> {
    wake(&control, id, lifetime(connect.timeout)?, connect.memory, None).await
}

/// `POST /sandboxes/{id}/resume`. Superseded; it refuses one that runs.
pub(super) async fn resume(
    State(control): State<Control>,
    id: IdResult,
    JsonBody(resume): JsonBody<ResumeSandbox>,
) -> Result<(StatusCode, Json<SandboxAnswer>), Refusal> {
    let lifetime = lifetime(resume.timeout.unwrap_or(DEFAULT_RESUME))?;
    let sandbox = find(&control, id)?;
    if sandbox.is_running() {
        return Err(Refusal::conflict(format!("Sandbox \"{}\" is already running", sandbox.id)));
    }
    let memory = resume.memory.unwrap_or(true);
    control.registry.resume(&sandbox, lifetime, memory, resume.auto_pause).await.map_err(create_refusal)?;
    Ok((StatusCode::CREATED, Json(answer(&sandbox, &control))))
}

async fn wake(
    control: &Control,
    id: IdResult,
    lifetime: Duration,
    memory: Option<bool>,
    auto_pause: Option<bool>,
) -> Result<(StatusCode, Json<SandboxAnswer>), Refusal> {
    let sandbox = find(control, id)?;
    let woken = control.registry.resume(&sandbox, lifetime, memory.unwrap_or(true), auto_pause).await;
    let status = if woken.map_err(create_refusal)? { StatusCode::CREATED } else { StatusCode::OK };
    if control.registry.look_up(&sandbox.id).is_none() {
        return Err(not_found(&sandbox.id));
    }
    Ok((status, Json(answer(&sandbox, control))))
}

/// `POST /sandboxes/{id}/pause`.
pub(super) async fn pause(
    State(control): State<Control>,
    id: IdResult,
    JsonBody(pause): JsonBody<PauseSandbox>,
) -> Result<StatusCode, Refusal> {
    let sandbox = find(&control, id)?;
    match control.registry.pause(&sandbox, pause.memory.unwrap_or(true)).await {
        Ok(()) => Ok(StatusCode::NO_CONTENT),
        Err(PauseError::Paused) => {
            Err(Refusal::conflict(format!("Sandbox \"{}\" cannot be paused: it is paused already", sandbox.id)))
        }
        Err(PauseError::Processes(error)) => {
            Err(Refusal::internal(format!("the sandbox goes on: its processes could not be stopped: {error}")))
        }
        Err(PauseError::Store(error)) => Err(error.into()),
    }
}

/// `POST /sandboxes/{id}/timeout`.
pub(super) async fn set_timeout(
    State(control): State<Control>,
    id: IdResult,
    JsonBody(set): JsonBody<SetTimeout>,
) -> Result<StatusCode, Refusal> {
    let sandbox = running(&control, id)?;
    // Zero and less end it now; above that, the same bounds as at its making.
    let lifetime = if set.timeout <= 0 { Duration::ZERO } else { lifetime(set.timeout)? };
    control.registry.edit(&sandbox, move |record| record.end_in(lifetime)).await?;
    control.registry.tell(&sandbox, Event::UPDATED);
    Ok(StatusCode::NO_CONTENT)
}

/// `POST /sandboxes/{id}/refreshes`: keeps it alive, and never shortens its life.
pub(super) async fn refresh(
    State(control): State<Control>,
    id: IdResult,
    JsonBody(refresh): JsonBody<RefreshSandbox>,
) -> Result<StatusCode, Refusal> {
    let duration = refresh.duration.unwrap_or(DEFAULT_RESUME);
    if !(0..=MAX_REFRESH).contains(&duration) {
        return Err(Refusal::bad_request(format!("duration {duration} is not between 0 and {MAX_REFRESH} seconds")));
    }
    let sandbox = running(&control, id)?;
    let lifetime = Duration::from_secs(duration.unsigned_abs());
    control.registry.edit(&sandbox, move |record| record.live_at_least(lifetime)).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// `PUT /sandboxes/{id}/network`: replaces all of it.
pub(super) async fn set_network(
    State(control): State<Control>,
    id: IdResult,
    JsonBody(update): JsonBody<NetworkUpdate>,
) -> Result<StatusCode, Refusal> {
    let sandbox = running(&control, id)?;
    let network = SandboxNetwork {
        allow_out: update.allow_out,
        deny_out: update.deny_out,
        dns_servers: update.dns_servers,
        egress_proxy: update.egress_proxy,
        rules: update.rules,
        // What is not about egress stays.
        ..sandbox.record().network.unwrap_or_default()
    };
    check_network(Some(&network), update.allow_internet_access, control.registry.network_is_confined())?;
    let change = move |record: &mut SandboxRecord| {
        record.network = Some(network);
        record.allow_internet_access = update.allow_internet_access;
    };
    control.registry.edit(&sandbox, change).await?;
    // What is no longer granted ends before it is answered.
    let granted = control.registry.grants_egress(&sandbox.record());
    if let Ok(confined) = sandbox.confined() {
        let failed = |error| Refusal::internal(format!("written down, and not in force yet: {error}"));
        confined.set_egress(granted).await.map_err(failed)?;
    }
    control.registry.tell(&sandbox, Event::UPDATED);
    Ok(StatusCode::NO_CONTENT)
}

/// `DELETE /sandboxes/{id}`. Answers when nothing is left of it.
pub(super) async fn kill(State(control): State<Control>, id: IdResult) -> Result<StatusCode, Refusal> {
    let sandbox = find(&control, id)?;
    if control.registry.kill(&sandbox.id).await? { Ok(StatusCode::NO_CONTENT) } else { Err(not_found(&sandbox.id)) }
}

/// The sandbox that a path names, running or paused.
pub(super) fn find(control: &Control, id: IdResult) -> Result<Arc<Sandbox>, Refusal> {
    let Path(given) = id?;
    // Old clients put a suffix behind the id.
    let id = given.split('-').next().unwrap_or_default();
    control.registry.look_up(id).ok_or_else(|| not_found(&given))
}

/// The running sandbox that a path names.
fn running(control: &Control, id: IdResult) -> Result<Arc<Sandbox>, Refusal> {
    let sandbox = find(control, id)?;
    if sandbox.is_running() { Ok(sandbox) } else { Err(not_found(&sandbox.id)) }
}

fn not_found(id: &str) -> Refusal {
    Refusal::not_found(format!("Sandbox \"{}\" doesn't exist or you don't have access to it", id.escape_debug()))
}

/// A sandbox as lists show it.
pub(super) fn listed(sandbox: &Sandbox, control: &Control) -> ListedSandbox {
    let (record, limits) = (sandbox.record(), control.registry.limits());
    ListedSandbox {
        volume_mounts: record.volume_mounts(),
        template_id: record.template_id,
        alias: record.alias,
        sandbox_id: sandbox.id.clone(),
        client_id: "local".to_owned(),
        started_at: record.started_at,
        end_at: record.end_at,
        cpu_count: i32::try_from(limits.cpu_count()).unwrap_or(i32::MAX),
        // None is told as 0.
        memory_mb: limits.memory.map_or(0, |bytes| i32::try_from(bytes >> 20).unwrap_or(i32::MAX)),
        disk_size_mb: 0,
        metadata: Some(record.metadata),
        state: if record.paused.is_some() { SandboxState::Paused } else { SandboxState::Running },
        envd_version: ENVD_VERSION.to_owned(),
        envd_unresponsive_at_pause: None,
    }
}

fn detail(sandbox: &Sandbox, control: &Control) -> SandboxDetail {
    let (listed, record) = (listed(sandbox, control), sandbox.record());
    let on_timeout = if record.lifecycle.auto_pause { OnTimeout::Pause } else { OnTimeout::Kill };
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
        volume_mounts: listed.volume_mounts,
        envd_access_token: Some(sandbox.access_token.clone()),
        // As it was asked for: what is granted hangs on the server's network too.
        allow_internet_access: record.allow_internet_access,
        domain: Some(control.domain()),
        network: record.network,
        lifecycle: Some(SandboxLifecycle { auto_resume: record.lifecycle.auto_resume, on_timeout }),
        pause_mode: record.paused,
    }
}
