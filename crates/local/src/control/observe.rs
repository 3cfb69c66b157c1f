//! What sandboxes use, and what they did: metrics, logs and events.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use oncebox_protocol::api::{
    LogLevel, LogsDirection, SandboxLog, SandboxLogEntry, SandboxLogs, SandboxLogsV1, SandboxMetric, SandboxesMetrics,
};
use serde::Deserialize;
use serde_json::Value;

use super::Control;
use super::sandboxes::{IdResult, find};
use crate::refusal::Refusal;
use crate::registry::LogLine;

/// Most lines of a log that one request answers.
const MAX_LINES: usize = 1000;
/// Most sandboxes whose metrics one request answers.
const MAX_IDS: usize = 100;
const MAX_EVENTS: usize = 100;

/// A stretch of time, in seconds since 1970.
#[derive(Debug, Deserialize)]
pub(super) struct Span {
    start: Option<i64>,
    end: Option<i64>,
}

/// `GET /sandboxes/{id}/metrics`.
pub(super) async fn metrics(
    State(control): State<Control>,
    id: IdResult,
    span: Result<Query<Span>, QueryRejection>,
) -> Result<Json<Vec<SandboxMetric>>, Refusal> {
    let Query(span) = span?;
    if let (Some(start), Some(end)) = (span.start, span.end)
        && start > end
    {
        return Err(Refusal::bad_request(format!("start {start} is after end {end}")));
    }
    let sandbox = find(&control, id)?;
    let mut metrics = control.registry.metrics(&sandbox).await;
    let (start, end) = (span.start.unwrap_or(i64::MIN), span.end.unwrap_or(i64::MAX));
    metrics.retain(|metric| (start..=end).contains(&metric.timestamp_unix));
    Ok(Json(metrics))
}

#[derive(Debug, Deserialize)]
pub(super) struct IdsQuery {
    sandbox_ids: String,
}

/// `GET /sandboxes/metrics`: the latest of several sandboxes.
pub(super) async fn metrics_of_many(
    State(control): State<Control>,
    query: Result<Query<IdsQuery>, QueryRejection>,
) -> Result<Json<SandboxesMetrics>, Refusal> {
    let Query(query) = query?;
    let ids: Vec<&str> = query.sandbox_ids.split(',').filter(|id| !id.is_empty()).collect();
    if ids.len() > MAX_IDS {
        return Err(Refusal::bad_request(format!("sandbox_ids names more than {MAX_IDS} sandboxes")));
    }
    let mut sandboxes = BTreeMap::new();
    for id in ids {
        let Some(sandbox) = control.registry.find(id) else { continue };
        if let Some(latest) = control.registry.metrics(&sandbox).await.pop() {
            sandboxes.insert(id.to_owned(), latest);
        }
    }
    Ok(Json(SandboxesMetrics { sandboxes }))
}

#[derive(Debug, Deserialize)]
pub(super) struct LogsV1Query {
    /// Milliseconds since 1970.
    start: Option<i64>,
    limit: Option<usize>,
}

/// `GET /sandboxes/{id}/logs`. What the server did with the sandbox; programs' output is theirs.
pub(super) async fn logs_v1(
    State(control): State<Control>,
    id: IdResult,
    query: Result<Query<LogsV1Query>, QueryRejection>,
) -> Result<Json<SandboxLogsV1>, Refusal> {
    let Query(query) = query?;
    let limit = lines(query.limit)?;
    let mut log = find(&control, id)?.log();
    log.retain(|line| query.start.is_none_or(|start| line.timestamp.as_millisecond() >= start));
    log.truncate(limit);
    Ok(Json(SandboxLogsV1 {
        logs: log.iter().map(|line| SandboxLog { timestamp: line.timestamp, line: json_line(line) }).collect(),
        log_entries: log.into_iter().map(entry).collect(),
    }))
}

#[derive(Debug, Deserialize)]
pub(super) struct LogsQuery {
    /// Milliseconds since 1970.
    cursor: Option<i64>,
    limit: Option<usize>,
    direction: Option<LogsDirection>,
    level: Option<LogLevel>,
    search: Option<String>,
}

/// `GET /v2/sandboxes/{id}/logs`.
pub(super) async fn logs(
    State(control): State<Control>,
    id: IdResult,
    query: Result<Query<LogsQuery>, QueryRejection>,
) -> Result<Json<SandboxLogs>, Refusal> {
    let Query(query) = query?;
    let limit = lines(query.limit)?;
    let backward = query.direction == Some(LogsDirection::Backward);
    let least = query.level.as_ref().map_or(0, severity);
    let mut log = find(&control, id)?.log();
    log.retain(|line| {
        let at = line.timestamp.as_millisecond();
        query.cursor.is_none_or(|cursor| if backward { at <= cursor } else { at >= cursor })
            && severity(&line.level) >= least
            && query.search.as_deref().is_none_or(|text| line.message.contains(text))
    });
    if backward {
        log.reverse();
    }
    log.truncate(limit);
    Ok(Json(SandboxLogs { logs: log.into_iter().map(entry).collect() }))
}

fn lines(asked: Option<usize>) -> Result<usize, Refusal> {
    match asked.unwrap_or(MAX_LINES) {
        limit if limit <= MAX_LINES => Ok(limit),
        limit => Err(Refusal::bad_request(format!("limit {limit} is more than {MAX_LINES}"))),
    }
}

/// A line as the first version of the API has it: JSON, which clients parse.
fn json_line(line: &LogLine) -> String {
    serde_json::json!({ "level": line.level, "logger": "envd", "message": line.message }).to_string()
}

fn entry(line: LogLine) -> SandboxLogEntry {
    SandboxLogEntry { timestamp: line.timestamp, message: line.message, level: line.level, fields: BTreeMap::new() }
}

pub(super) fn severity(level: &LogLevel) -> u8 {
    match level {
        LogLevel::Debug => 0,
        LogLevel::Warn => 2,
        LogLevel::Error => 3,
        _ => 1,
    }
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct EventsQuery {
    offset: Option<usize>,
    limit: Option<usize>,
    order_asc: Option<bool>,
    types: Option<String>,
}

type EventsResult = Result<Query<EventsQuery>, QueryRejection>;

/// `GET /events/sandboxes`.
pub(super) async fn events(State(control): State<Control>, query: EventsResult) -> Result<Json<Vec<Value>>, Refusal> {
    select(&control, None, query)
}

/// `GET /events/sandboxes/{id}`: of a sandbox that is gone, too.
pub(super) async fn events_of_one(
    State(control): State<Control>,
    id: IdResult,
    query: EventsResult,
) -> Result<Json<Vec<Value>>, Refusal> {
    let axum::extract::Path(id) = id?;
    select(&control, Some(&id), query)
}

fn select(control: &Control, id: Option<&str>, query: EventsResult) -> Result<Json<Vec<Value>>, Refusal> {
    let Query(query) = query?;
    let limit = query.limit.unwrap_or(10);
    if !(1..=MAX_EVENTS).contains(&limit) {
        return Err(Refusal::bad_request(format!("limit {limit} is not between 1 and {MAX_EVENTS}")));
    }
    let types: Vec<&str> =
        query.types.as_deref().unwrap_or_default().split(',').filter(|kind| !kind.is_empty()).collect();
    let mut found = control.registry.events.select(|event| {
        id.is_none_or(|id| event.sandbox_id == id) && (types.is_empty() || types.contains(&event.kind))
    });
    if !query.order_asc.unwrap_or(false) {
        found.reverse();
    }
    let shown = found.into_iter().skip(query.offset.unwrap_or(0)).take(limit);
    Ok(Json(shown.map(|event| event.body).collect()))
}
