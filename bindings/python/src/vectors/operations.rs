//! The operation tables, and the table of what JavaScript's `fetch` throws.

use http::Method;
use oncebox_protocol::runtime_errors::{Outcome, classify_thrown};
use oncebox_protocol::{Plane, Table};
use serde_json::{Value, json};

use super::read;
use crate::http::permit_word;

/// Which operation a request is, and why it may be repeated.
pub(super) fn run(vector: &Value) -> Result<Value, String> {
    let (table, plane) = match vector["plane"].as_str() {
        Some("control_plane") => (Table::control_plane(), Plane::ControlPlane),
        Some("volume_content") => (Table::volume_content(), Plane::VolumeContent),
        Some("envd") => (Table::envd(), Plane::Envd),
        Some("code_interpreter") => (Table::code_interpreter(), Plane::CodeInterpreter),
        other => return Err(format!("there is no plane {other:?}")),
    };
    let (method, path): (String, String) = (read(&vector["method"])?, read(&vector["path"])?);
    let method = Method::from_bytes(method.as_bytes()).map_err(|error| error.to_string())?;
    let found = table.find(&method, &path);
    if let Some(stray) = found.filter(|found| found.plane != plane) {
        return Err(format!("{} is of another plane", stray.id));
    }
    Ok(json!({
        "operation": found.map(|found| &found.id),
        "permit": table.permit(&method, &path).map(permit_word),
        "mints": found.is_some_and(|found| found.mints),
        "idempotency_key": found.is_some_and(|found| found.accepts_idempotency_key),
    }))
}

/// What an error of `fetch` proves. Python meets none; the table is the one that its extension module has, too.
pub(super) fn thrown(vector: &Value) -> Value {
    let is_aborted = vector["aborted"].as_bool().unwrap_or(false);
    match classify_thrown(is_aborted, &vector["thrown"]) {
        Outcome::Cancelled => json!({"outcome": "cancelled"}),
        Outcome::Rethrown => json!({"outcome": "rethrown"}),
        Outcome::NotSent { phase } => json!({"outcome": "not_sent", "phase": phase}),
        Outcome::Refused => json!({"outcome": "refused"}),
        Outcome::SentUnknown => json!({"outcome": "sent_unknown"}),
        other => json!({"outcome": format!("{other:?}, which has no word")}),
    }
}
