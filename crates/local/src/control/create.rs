//! Making sandboxes.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use http::StatusCode;
use oncebox_protocol::api::{NewSandbox, NewSandboxV1, Sandbox as SandboxAnswer};

use super::body::JsonBody;
use super::{Control, ENVD_VERSION, templates};
use crate::confined::Isolation;
use crate::refusal::Refusal;
use crate::registry::{Blueprint, CreateError, Sandbox};

const DEFAULT_LIFETIME: i64 = 300;
const DEFAULT_LIFETIME_V1: i64 = 15;
/// Longest lifetime that can be asked for, in seconds: a year.
const MAX_LIFETIME: i64 = 365 * 24 * 3600;

/// `POST /v2/sandboxes`.
pub(super) async fn create(
    State(control): State<Control>,
    JsonBody(new): JsonBody<NewSandbox>,
) -> Result<(StatusCode, Json<SandboxAnswer>), Refusal> {
    refuse_unsupported(&new, control.registry.isolation())?;
    let blueprint = Blueprint {
        template_id: templates::resolve(&new.template_id)?,
        metadata: new.metadata.unwrap_or_default(),
        env: new.env_vars.unwrap_or_default(),
        allow_internet_access: new.allow_internet_access,
        lifetime: lifetime(new.timeout.unwrap_or(DEFAULT_LIFETIME))?,
    };
    if let Some(name) = blueprint.env.keys().find(|name| name.is_empty() || name.contains(['=', '\0'])) {
        let name = name.escape_debug();
        return Err(Refusal::bad_request(format!("'{name}' cannot be the name of an environment variable")));
    }
    if let Some((name, _)) = blueprint.env.iter().find(|(_, value)| value.expose().contains('\0')) {
        return Err(Refusal::bad_request(format!(
            "the environment variable {} contains a NUL byte",
            name.escape_debug()
        )));
    }
    let sandbox = control.registry.create(blueprint).await.map_err(|error| match error {
        CreateError::Full(_) => Refusal::new(StatusCode::TOO_MANY_REQUESTS, error.to_string()),
        CreateError::Stopping => Refusal::new(StatusCode::SERVICE_UNAVAILABLE, error.to_string()),
        CreateError::Launch(_) => Refusal::internal(error),
    })?;
    Ok((StatusCode::CREATED, Json(answer(&sandbox, &control))))
}

/// `POST /sandboxes`: the same with a shorter default lifetime.
pub(super) async fn create_v1(
    state: State<Control>,
    JsonBody(new): JsonBody<NewSandboxV1>,
) -> Result<(StatusCode, Json<SandboxAnswer>), Refusal> {
    let new = NewSandbox {
        template_id: new.template_id,
        timeout: Some(new.timeout.unwrap_or(DEFAULT_LIFETIME_V1)),
        auto_pause: new.auto_pause,
        auto_pause_memory: new.auto_pause_memory,
        auto_resume: new.auto_resume,
        allow_internet_access: new.allow_internet_access,
        network: new.network,
        metadata: new.metadata,
        env_vars: new.env_vars,
        mcp: new.mcp,
        iam: new.iam,
        volume_mounts: new.volume_mounts,
    };
    create(state, JsonBody(new)).await
}

/// Refuses what would silently not be done.
///
/// Limits on the network are no such thing in an isolated sandbox: it reaches nothing, which is stricter than asked.
fn refuse_unsupported(new: &NewSandbox, isolation: Isolation) -> Result<(), Refusal> {
    let limits =
        new.network.as_ref().is_some_and(|network| network.deny_out.as_ref().is_some_and(|deny| !deny.is_empty()));
    let unsupported = [
        (new.auto_pause == Some(true), "autoPause"),
        (new.auto_resume.as_ref().is_some_and(|resume| resume.enabled), "autoResume"),
        (new.mcp.is_some(), "mcp"),
        (new.iam.as_ref().is_some_and(|iam| iam.tokens.as_ref().is_some_and(|tokens| !tokens.is_empty())), "iam"),
        (new.volume_mounts.as_ref().is_some_and(|mounts| !mounts.is_empty()), "volumeMounts"),
        (
            isolation == Isolation::None && new.allow_internet_access == Some(false),
            "allow_internet_access without isolation",
        ),
        (isolation == Isolation::None && limits, "network.denyOut without isolation"),
    ];
    match unsupported.iter().find(|(asked, _)| *asked) {
        Some((_, what)) => Err(Refusal::bad_request(format!("the local server does not support {what} yet"))),
        None => Ok(()),
    }
}

/// A lifetime in seconds, as requests give it.
pub(super) fn lifetime(seconds: i64) -> Result<Duration, Refusal> {
    match u64::try_from(seconds) {
        Ok(positive) if positive > 0 && seconds <= MAX_LIFETIME => Ok(Duration::from_secs(positive)),
        _ => Err(Refusal::bad_request(format!("timeout {seconds} is not between 1 and {MAX_LIFETIME} seconds"))),
    }
}

/// What create and connect answer.
pub(super) fn answer(sandbox: &Sandbox, control: &Control) -> SandboxAnswer {
    SandboxAnswer {
        template_id: sandbox.template_id.clone(),
        sandbox_id: sandbox.id.clone(),
        alias: Some(sandbox.template_id.clone()),
        client_id: "local".to_owned(),
        envd_version: ENVD_VERSION.to_owned(),
        envd_access_token: Some(sandbox.access_token.clone()),
        traffic_access_token: None,
        domain: Some(control.domain()),
    }
}
