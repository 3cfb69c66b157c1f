//! Making sandboxes.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use http::StatusCode;
use oncebox_protocol::api::{
    EnvVars, ForkResult, ForkSandbox, LogLevel, NewSandbox, NewSandboxV1, Sandbox as SandboxAnswer, SandboxNetwork,
    VolumeMount,
};
use oncebox_protocol::codes;

use super::body::JsonBody;
use super::sandboxes::{IdResult, find};
use super::{Control, ENVD_VERSION, templates};
use crate::confined::Isolation;
use crate::refusal::Refusal;
use crate::registry::{Blueprint, CreateError, Lifecycle, MountedVolume, Sandbox, SandboxRecord, after, remove};
use crate::rpc::Envd;
use crate::uses::Use;

const DEFAULT_LIFETIME: i64 = 300;
const DEFAULT_LIFETIME_V1: i64 = 15;
const DEFAULT_FORK: i64 = 15;
/// Longest lifetime that can be asked for, in seconds: a year.
const MAX_LIFETIME: i64 = 365 * 24 * 3600;
/// Most copies that one fork makes.
const MAX_FORKS: i32 = 100;
/// Most volumes of a sandbox.
const MAX_VOLUMES: usize = 16;

/// `POST /v2/sandboxes`.
pub(super) async fn create(
    State(control): State<Control>,
    JsonBody(new): JsonBody<NewSandbox>,
) -> Result<(StatusCode, Json<SandboxAnswer>), Refusal> {
    refuse_unsupported(&new)?;
    check_network(new.network.as_ref(), new.allow_internet_access, control.registry.network_is_confined())?;
    let lifetime = lifetime(new.timeout.unwrap_or(DEFAULT_LIFETIME))?;
    let lifecycle = lifecycle(&new, lifetime)?;
    let env = new.env_vars.unwrap_or_default();
    check_env(&env)?;
    let (volumes, mut uses) = volumes(&control, &new.volume_mounts.unwrap_or_default()).await?;
    let source = control.templates.resolve(&new.template_id)?;
    let mut record = SandboxRecord::new(source.template_id.clone(), lifecycle);
    record.alias.clone_from(&source.alias);
    record.metadata = new.metadata.unwrap_or_default();
    record.env = env;
    record.defaults = source.settings.defaults();
    record.allow_internet_access = new.allow_internet_access;
    record.network = new.network;
    record.volumes = volumes;
    let files = source.build.as_ref().map(|build| control.registry.state().template(build));
    uses.extend(source.used.clone());
    let made = control.registry.create(Blueprint { record, files, uses }).await;
    let sandbox = made.map_err(create_refusal)?;
    if let Err(why) = boot(&sandbox, &source.settings).await {
        // Not the 503 that says that nothing was changed: the sandbox is there.
        control.registry.kill(&sandbox.id).await.map_err(|error| Refusal::internal(format!("{why}; {error}")))?;
        return Err(Refusal::internal(why).with_code(codes::SANDBOX_CREATE_FAILED));
    }
    control.templates.spawned(&source.template_id).await;
    Ok((StatusCode::CREATED, Json(answer(&sandbox, &control))))
}

/// Starts in a new sandbox what its template starts, and waits until it is ready.
async fn boot(sandbox: &Sandbox, settings: &templates::Settings) -> Result<(), String> {
    if settings.start_cmd.is_none() && settings.ready_cmd.is_none() {
        return Ok(());
    }
    let confined = sandbox.confined().map_err(|error| error.to_string())?;
    let envd = Envd { confined: &confined, token: &sandbox.access_token };
    templates::boot(envd, settings, &|message| sandbox.note(LogLevel::Info, message)).await
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

/// `POST /sandboxes/{id}/fork`: sandboxes that begin with copies of this one's files. Its processes are not copied.
pub(super) async fn fork(
    State(control): State<Control>,
    id: IdResult,
    JsonBody(fork): JsonBody<ForkSandbox>,
) -> Result<(StatusCode, Json<Vec<ForkResult>>), Refusal> {
    let lifetime = lifetime(fork.timeout.unwrap_or(DEFAULT_FORK))?;
    let count = fork.count.unwrap_or(1);
    if !(1..=MAX_FORKS).contains(&count) {
        return Err(Refusal::bad_request(format!("count {count} is not between 1 and {MAX_FORKS}")));
    }
    let sandbox = find(&control, id)?;
    let mut record = sandbox.record();
    record.lifecycle.lifetime = lifetime;
    record.paused = None;
    let registry = Arc::clone(&control.registry);
    let names = record.volumes.iter().map(|volume| volume.name.clone()).collect();
    let uses: Vec<Arc<Use>> = control.volumes.named(names).await?.into_iter().map(|(_, used)| Arc::new(used)).collect();
    // In a task of its own: the copy is removed even if the client goes away.
    let forked = tokio::spawn(async move {
        let files = registry.copy_files(&sandbox).await?;
        let mut made = Vec::new();
        for _ in 0..count {
            let mut record = record.clone();
            record.started_at = jiff::Timestamp::now();
            record.end_at = after(lifetime);
            made.push(registry.create(Blueprint { record, files: Some(files.clone()), uses: uses.clone() }).await);
        }
        remove(files).await;
        Ok::<_, Refusal>(made)
    });
    let made = forked.await.map_err(Refusal::internal)??;
    let results = made.into_iter().map(|made| match made {
        Ok(sandbox) => ForkResult { sandbox: Some(answer(&sandbox, &control)), error: None },
        Err(error) => ForkResult { sandbox: None, error: Some(create_refusal(error).body()) },
    });
    Ok((StatusCode::CREATED, Json(results.collect())))
}

/// What a client is told when a sandbox was not made or did not start.
pub(super) fn create_refusal(error: CreateError) -> Refusal {
    match error {
        CreateError::Full(_) => Refusal::new(StatusCode::TOO_MANY_REQUESTS, error.to_string()),
        CreateError::Stopping => Refusal::new(StatusCode::SERVICE_UNAVAILABLE, error.to_string()),
        CreateError::Launch(_) => Refusal::internal(error).with_code(codes::SANDBOX_CREATE_FAILED),
        CreateError::Store(error) => error.into(),
    }
}

fn lifecycle(new: &NewSandbox, lifetime: Duration) -> Result<Lifecycle, Refusal> {
    let auto_pause = new.auto_pause.unwrap_or(false);
    let auto_pause_memory = new.auto_pause_memory.unwrap_or(true);
    let auto_resume = new.auto_resume.as_ref().is_some_and(|resume| resume.enabled);
    if !auto_pause_memory && !auto_pause {
        return Err(Refusal::bad_request("autoPauseMemory false needs autoPause"));
    }
    if !auto_pause_memory && auto_resume {
        return Err(Refusal::bad_request("autoPauseMemory false excludes autoResume"));
    }
    Ok(Lifecycle { lifetime, auto_pause, auto_pause_memory, auto_resume })
}

fn check_env(env: &EnvVars) -> Result<(), Refusal> {
    if let Some(name) = env.keys().find(|name| name.is_empty() || name.contains(['=', '\0'])) {
        let name = name.escape_debug();
        return Err(Refusal::bad_request(format!("'{name}' cannot be the name of an environment variable")));
    }
    match env.iter().find(|(_, value)| value.expose().contains('\0')) {
        Some((name, _)) => {
            Err(Refusal::bad_request(format!("the environment variable {} contains a NUL byte", name.escape_debug())))
        }
        None => Ok(()),
    }
}

async fn volumes(control: &Control, mounts: &[VolumeMount]) -> Result<(Vec<MountedVolume>, Vec<Arc<Use>>), Refusal> {
    if mounts.is_empty() {
        return Ok((Vec::new(), Vec::new()));
    }
    if control.registry.isolation() == Isolation::None {
        return Err(Refusal::bad_request("volumeMounts need isolated sandboxes: this server was started without"));
    }
    if mounts.len() > MAX_VOLUMES {
        return Err(Refusal::bad_request(format!("a sandbox has at most {MAX_VOLUMES} volumes")));
    }
    let found = control.volumes.named(mounts.iter().map(|mount| mount.name.clone()).collect()).await?;
    let (mut volumes, mut uses) = (Vec::<MountedVolume>::new(), Vec::new());
    for (mount, (volume, used)) in mounts.iter().zip(found) {
        uses.push(Arc::new(used));
        let path = mount_path(&mount.path)
            .ok_or_else(|| Refusal::bad_request(format!("'{}' is no place for a volume", mount.path.escape_debug())))?;
        if volumes.iter().any(|other| other.path == path) {
            return Err(Refusal::bad_request(format!("two volumes at '{path}'")));
        }
        volumes.push(MountedVolume { volume_id: volume.id, name: mount.name.clone(), path });
    }
    Ok((volumes, uses))
}

/// An absolute path of names only, outside what a sandbox must have.
fn mount_path(path: &str) -> Option<String> {
    let names: Vec<&str> = path.strip_prefix('/')?.split('/').filter(|name| !name.is_empty()).collect();
    let first = names.first()?;
    let taken = ["usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32", "opt", "etc", "dev", "proc", "sys", "run"];
    if names.iter().any(|name| matches!(*name, "." | "..") || name.contains('\0') || name.len() > 255)
        || path.len() > 4000
        || taken.contains(first)
    {
        return None;
    }
    Some(format!("/{}", names.join("/")))
}

/// Refuses what would silently not be done.
fn refuse_unsupported(new: &NewSandbox) -> Result<(), Refusal> {
    let unsupported = [
        (new.mcp.is_some(), "mcp"),
        (new.iam.as_ref().is_some_and(|iam| iam.tokens.as_ref().is_some_and(|tokens| !tokens.is_empty())), "iam"),
    ];
    match unsupported.iter().find(|(asked, _)| *asked) {
        Some((_, what)) => Err(Refusal::bad_request(format!("the local server does not support {what} yet"))),
        None => Ok(()),
    }
}

/// Checks what is asked of the network. In a network of its own (`confined`) a sandbox that asks for less than all reaches
/// nothing, which is stricter than anything asked.
pub(super) fn check_network(
    network: Option<&SandboxNetwork>,
    allow_internet_access: Option<bool>,
    confined: bool,
) -> Result<(), Refusal> {
    let none = SandboxNetwork::default();
    let network = network.unwrap_or(&none);
    let list = |list: &Option<Vec<String>>| list.clone().unwrap_or_default();
    let (allow, deny, dns) = (list(&network.allow_out), list(&network.deny_out), list(&network.dns_servers));
    if dns.len() > 10 || dns.iter().any(|server| server.parse::<Ipv4Addr>().is_err()) {
        return Err(Refusal::bad_request("network.dnsServers takes at most 10 IPv4 addresses"));
    }
    let ports = network.https_ports.as_deref().unwrap_or_default();
    if ports.len() > 128 || ports.contains(&crate::lifeline::ENVD_PORT) {
        return Err(Refusal::bad_request("network.httpsPorts takes at most 128 ports, and not that of envd"));
    }
    let is_address = |rule: &String| rule.split('/').next().is_some_and(|ip| ip.parse::<std::net::IpAddr>().is_ok());
    if allow.iter().any(|rule| !is_address(rule)) && !deny.iter().any(|rule| rule == "0.0.0.0/0") {
        return Err(Refusal::bad_request("network.allowOut takes domains only when denyOut has 0.0.0.0/0"));
    }
    // Whoever asks for a limit is let out nowhere, which keeps every limit.
    if confined {
        return Ok(());
    }
    let asked = [
        (allow_internet_access == Some(false), "allow_internet_access without a network of the sandbox's own"),
        (!deny.is_empty(), "network.denyOut without a network of the sandbox's own"),
        (network.egress_proxy.is_some(), "network.egressProxy without a network of the sandbox's own"),
    ];
    match asked.iter().find(|(asked, _)| *asked) {
        Some((_, what)) => Err(Refusal::bad_request(format!("the local server does not support {what}"))),
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
    let record = sandbox.record();
    SandboxAnswer {
        template_id: record.template_id,
        sandbox_id: sandbox.id.clone(),
        alias: record.alias,
        client_id: "local".to_owned(),
        envd_version: ENVD_VERSION.to_owned(),
        envd_access_token: Some(sandbox.access_token.clone()),
        traffic_access_token: None,
        domain: Some(control.domain()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn volumes_go_where_nothing_else_is() {
        assert_eq!(mount_path("/data").as_deref(), Some("/data"));
        assert_eq!(mount_path("/home/user//v/").as_deref(), Some("/home/user/v"));
        for bad in ["", "/", "data", "/usr", "/etc/x", "/data/../etc", "/./a", "/proc", "/a\0"] {
            assert_eq!(mount_path(bad), None, "{bad}");
        }
    }

    #[test]
    fn domains_are_allowed_only_where_all_else_is_denied() {
        let network = |allow: &str, deny: &[&str]| SandboxNetwork {
            allow_out: Some(vec![allow.to_owned()]),
            deny_out: Some(deny.iter().map(|rule| (*rule).to_owned()).collect()),
            ..SandboxNetwork::default()
        };
        let check = |network: &SandboxNetwork| check_network(Some(network), None, true).is_ok();
        assert!(check(&network("example.com", &["0.0.0.0/0"])) && check(&network("1.2.3.0/24", &[])));
        assert!(!check(&network("example.com", &[])));
    }
}
