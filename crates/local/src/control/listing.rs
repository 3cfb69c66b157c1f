//! Lists of sandboxes: filtered, ordered, and cut into pages.

use std::cmp::Ordering;
use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::{HeaderMap, HeaderValue};
use jiff::Timestamp;
use oncebox_protocol::api::ListedSandbox;
use serde::Deserialize;

use super::sandboxes::listed;
use super::{Control, metadata, paging};
use crate::refusal::Refusal;
use crate::registry::Sandbox;

/// The query of a list.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ListQuery {
    metadata: Option<String>,
    state: Option<String>,
    order: Option<Order>,
    started_after: Option<Timestamp>,
    template: Option<String>,
    next_token: Option<String>,
    limit: Option<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Order {
    Asc,
    /// The newest first.
    #[default]
    Desc,
}

type QueryResult = Result<Query<ListQuery>, QueryRejection>;
type Page = (HeaderMap, Json<Vec<ListedSandbox>>);

/// `GET /v2/sandboxes`.
pub(super) async fn list(State(control): State<Control>, query: QueryResult) -> Result<Page, Refusal> {
    let Query(query) = query?;
    let limit = paging::limit(query.limit)?;
    let order = query.order.unwrap_or_default();
    let after = query.next_token.as_deref().filter(|token| !token.is_empty()).map(Cursor::parse).transpose()?;
    let mut found = select(&control, &query)?;
    let total = found.iter().filter(|sandbox| sandbox.is_running()).count();
    found.sort_by(|a, b| order.compare(&Cursor::of(a), &Cursor::of(b)));
    if let Some(after) = after {
        found.retain(|sandbox| order.compare(&Cursor::of(sandbox), &after) == Ordering::Greater);
    }
    let mut headers = HeaderMap::new();
    headers.insert("x-total-running", HeaderValue::from(total));
    if found.len() > limit {
        found.truncate(limit);
        if let Some(last) = found.last() {
            let token = HeaderValue::try_from(Cursor::of(last).to_token()).map_err(Refusal::internal)?;
            headers.insert("x-next-token", token);
        }
    }
    Ok((headers, Json(found.iter().map(|sandbox| listed(sandbox, &control)).collect())))
}

/// `GET /sandboxes`: all that run, on one page. Paused ones were not listed by this version.
pub(super) async fn list_v1(
    State(control): State<Control>,
    query: QueryResult,
) -> Result<Json<Vec<ListedSandbox>>, Refusal> {
    let Query(query) = query?;
    let mut found = select(&control, &query)?;
    found.retain(|sandbox| sandbox.is_running());
    found.sort_by(|a, b| Order::Desc.compare(&Cursor::of(a), &Cursor::of(b)));
    Ok(Json(found.iter().map(|sandbox| listed(sandbox, &control)).collect()))
}

/// Those that the filters let through.
fn select(control: &Control, query: &ListQuery) -> Result<Vec<Arc<Sandbox>>, Refusal> {
    let wanted = metadata::parse(query.metadata.as_deref().unwrap_or_default())
        .map_err(|error| Refusal::bad_request(format!("metadata: {error}")))?;
    let states = States::parse(query.state.as_deref().unwrap_or_default())?;
    let template = match query.template.as_deref() {
        Some(template) if template.contains(':') => {
            return Err(Refusal::bad_request("template: a tag cannot be filtered by"));
        }
        Some(template) => Some(control.templates.id_of(template)),
        None => None,
    };
    let mut all = control.registry.all();
    all.retain(|sandbox| {
        let record = sandbox.record();
        states.have(record.paused.is_some())
            && wanted.iter().all(|(key, value)| record.metadata.get(key) == Some(value))
            && template.as_ref().is_none_or(|template| template.as_ref() == Some(&record.template_id))
            && query.started_after.is_none_or(|time| record.started_at > time)
    });
    Ok(all)
}

/// The states that are asked for.
#[derive(Debug, PartialEq, Eq)]
struct States {
    running: bool,
    paused: bool,
}

impl States {
    fn parse(states: &str) -> Result<Self, Refusal> {
        let all = states.is_empty();
        let mut wanted = Self { running: all, paused: all };
        for state in states.split(',').filter(|state| !state.is_empty()) {
            match state {
                "running" => wanted.running = true,
                "paused" => wanted.paused = true,
                other => {
                    let other = other.escape_debug();
                    return Err(Refusal::bad_request(format!("state '{other}' is neither running nor paused")));
                }
            }
        }
        Ok(wanted)
    }

    fn have(&self, paused: bool) -> bool {
        if paused { self.paused } else { self.running }
    }
}

/// A place in a list.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Cursor {
    started_at: Timestamp,
    id: String,
}

impl Cursor {
    fn of(sandbox: &Sandbox) -> Self {
        Self { started_at: sandbox.record().started_at, id: sandbox.id.clone() }
    }

    fn to_token(&self) -> String {
        URL_SAFE_NO_PAD.encode(format!("{}__{}", self.started_at, self.id))
    }

    fn parse(token: &str) -> Result<Self, Refusal> {
        let text = URL_SAFE_NO_PAD.decode(token).ok().and_then(|bytes| String::from_utf8(bytes).ok());
        let cursor = text.and_then(|text| {
            let (time, id) = text.split_once("__")?;
            Some(Self { started_at: time.parse().ok()?, id: id.to_owned() })
        });
        cursor.ok_or_else(|| Refusal::bad_request("nextToken is not one that this server gave"))
    }
}

impl Order {
    fn compare(self, a: &Cursor, b: &Cursor) -> Ordering {
        match self {
            Self::Asc => a.cmp(b),
            Self::Desc => b.cmp(a),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_survives_its_token() {
        let cursor = Cursor { started_at: Timestamp::now(), id: "iabc".to_owned() };
        assert_eq!(Cursor::parse(&cursor.to_token()).unwrap(), cursor);
        assert!(Cursor::parse("???").is_err());
        assert!(Cursor::parse("eA").is_err());
    }

    #[test]
    fn states_are_running_or_paused() {
        let (running, paused) = (true, true);
        for all in ["", "paused,running"] {
            assert_eq!(States::parse(all).unwrap(), States { running, paused });
        }
        assert_eq!(States::parse("paused").unwrap(), States { running: false, paused });
        assert!(States::parse("dead").is_err());
    }
}
