//! How sandboxes are shown.

use oncebox::{Came, Sandbox, SandboxInfo, SandboxState};
use serde_json::{Value, json};

use crate::exit::{self, Failure};
use crate::style::Colour;

pub(super) fn list(sandboxes: &[SandboxInfo], as_json: bool) -> Result<u8, Failure> {
    if as_json {
        exit::print(json!(sandboxes.iter().map(described).collect::<Vec<_>>()))?;
        return Ok(0);
    }
    if sandboxes.is_empty() {
        exit::say("there is no such sandbox");
        return Ok(0);
    }
    let head = format!("{:<24} {:<20} {:<8} {:<21} {:<21} METADATA", "ID", "TEMPLATE", "STATE", "STARTED", "ENDS");
    exit::print(Colour::Faint.paint(head))?;
    for sandbox in sandboxes {
        let template = sandbox.alias.as_deref().unwrap_or(&sandbox.template);
        exit::print(format!(
            "{:<24} {:<20} {:<8} {:<21} {:<21} {}",
            sandbox.id,
            template,
            state(&sandbox.state),
            sandbox.started_at.strftime("%FT%TZ").to_string(),
            sandbox.end_at.strftime("%FT%TZ").to_string(),
            labels(sandbox)
        ))?;
    }
    Ok(0)
}

pub(super) fn one(sandbox: &SandboxInfo, as_json: bool) -> Result<u8, Failure> {
    if as_json {
        exit::print(described(sandbox))?;
        return Ok(0);
    }
    let rows = [
        ("id", sandbox.id.clone()),
        ("template", sandbox.alias.clone().unwrap_or_else(|| sandbox.template.clone())),
        ("state", state(&sandbox.state).to_string()),
        ("started", sandbox.started_at.to_string()),
        ("ends", sandbox.end_at.to_string()),
        ("cpus", sandbox.cpu_count.to_string()),
        ("memory", format!("{} MiB", sandbox.memory_mb)),
        ("disk", format!("{} MiB", sandbox.disk_size_mb)),
        ("envd", sandbox.envd_version.clone()),
        ("metadata", labels(sandbox)),
    ];
    for (name, value) in rows {
        exit::print(format!("{:<9} {value}", Colour::Faint.paint(name)))?;
    }
    Ok(0)
}

pub(super) fn made(sandbox: &Sandbox, as_json: bool) -> Result<u8, Failure> {
    if as_json {
        exit::print(json!({
            "id": sandbox.id(),
            "template": sandbox.template(),
            "intent": sandbox.intent(),
            "adopted": sandbox.came() == Came::Adopted,
            "envd_version": sandbox.envd_version(),
        }))?;
    } else {
        exit::print(sandbox.id())?;
    }
    Ok(0)
}

fn described(sandbox: &SandboxInfo) -> Value {
    json!({
        "id": sandbox.id,
        "template": sandbox.template,
        "alias": sandbox.alias,
        "state": sandbox.state,
        "metadata": sandbox.metadata,
        "started_at": sandbox.started_at.to_string(),
        "end_at": sandbox.end_at.to_string(),
        "cpu_count": sandbox.cpu_count,
        "memory_mb": sandbox.memory_mb,
        "disk_size_mb": sandbox.disk_size_mb,
        "envd_version": sandbox.envd_version,
    })
}

fn state(state: &SandboxState) -> crate::style::Painted<'static> {
    match state {
        SandboxState::Running => Colour::Good.paint("running"),
        SandboxState::Paused => Colour::Warning.paint("paused"),
        other => Colour::Faint.paint(format!("{other:?}").to_lowercase()),
    }
}

fn labels(sandbox: &SandboxInfo) -> String {
    let pairs: Vec<String> = sandbox.metadata.iter().map(|(name, value)| format!("{name}={value}")).collect();
    pairs.join(" ")
}
