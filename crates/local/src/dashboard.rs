//! The page at `/`: what the server has, what it did, and what clients tried, for people.
//!
//! It is whole without scripts; with them it asks for itself again, once a second. All text that comes from outside goes
//! through `maud`, which escapes it; and no script runs but the page's own, by its digest.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use futures_util::StreamExt;
use http::{HeaderValue, header};
use jiff::Timestamp;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::misbehave::{Attempt, End, Misbehaviour, joined};
use crate::refusal::Refusal;
use crate::registry::{Registry, Sandbox};

const STYLE: &str = include_str!("dashboard.css");
const SCRIPT: &str = include_str!("dashboard.js");

/// Rows that a table shows.
const MAX_ROWS: usize = 100;
/// Sandboxes that are asked for their commands, at a time, and how long each may take to answer.
const ASKED_AT_ONCE: usize = 16;
const ASKED_FOR: Duration = Duration::from_millis(500);
/// The width of a timeline, in its own units.
const WIDTH: f64 = 1000.0;

/// Nothing from elsewhere, in no frame, and no script but ours.
static POLICY: LazyLock<HeaderValue> = LazyLock::new(|| {
    let digest = |text: &str| STANDARD.encode(Sha256::digest(text));
    let policy = format!(
        "default-src 'none'; connect-src 'self'; style-src 'sha256-{}'; script-src 'sha256-{}'; frame-ancestors 'none'; \
         base-uri 'none'; form-action 'none'",
        digest(STYLE),
        digest(SCRIPT)
    );
    HeaderValue::try_from(policy).unwrap_or(HeaderValue::from_static("default-src 'none'"))
});

/// The page.
pub(crate) async fn page(registry: &Arc<Registry>, misbehaviour: &Misbehaviour) -> Response {
    let mut sandboxes = registry.all();
    sandboxes.sort_by_key(|sandbox| std::cmp::Reverse(sandbox.record().started_at));
    let asked = sandboxes.iter().take(MAX_ROWS).cloned().map(commands);
    let commands: Vec<_> = futures_util::stream::iter(asked).buffered(ASKED_AT_ONCE).collect().await;
    let calls = joined(misbehaviour.attempts());
    let (effects, (faults, fired)) = (misbehaviour.effects(), misbehaviour.faults());
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width";
                title { "Oncebox: local server" }
                style { (PreEscaped(STYLE)) }
            }
            body {
                h1 { "Oncebox " span.faint { "local server" } }
                main {
                    (tiles(&sandboxes, &commands, &effects, &calls))
                    (sandboxes_table(&sandboxes, &commands))
                    (calls_table(&calls))
                    (effects_table(&effects))
                    (faults_card(&faults, &fired))
                }
                script { (PreEscaped(SCRIPT)) }
            }
        }
    };
    let mut response = axum::response::Html(page.into_string()).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_SECURITY_POLICY, POLICY.clone());
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    response
}

/// Has a browser ask its user for the token, as a password.
pub(crate) fn ask_for_token(refusal: Refusal) -> Response {
    let mut response = refusal.into_response();
    response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Basic realm=\"oncebox\""));
    response
}

/// The commands that run in a sandbox; `None`: it could not be asked.
async fn commands(sandbox: Arc<Sandbox>) -> Option<Vec<String>> {
    if !sandbox.is_running() {
        return Some(Vec::new());
    }
    let confined = sandbox.confined().ok()?;
    let envd = crate::rpc::Envd { confined: &confined, token: &sandbox.access_token };
    let listed = tokio::time::timeout(ASKED_FOR, envd.processes()).await.ok()?.ok()?;
    let line = |process: &Value| {
        let config = &process["config"];
        let args = config["args"].as_array().into_iter().flatten().filter_map(Value::as_str);
        config["cmd"].as_str().into_iter().chain(args).collect::<Vec<_>>().join(" ")
    };
    Some(listed.iter().map(line).collect())
}

fn tiles(
    sandboxes: &[Arc<Sandbox>],
    commands: &[Option<Vec<String>>],
    effects: &Value,
    calls: &[Vec<Attempt>],
) -> Markup {
    let running = sandboxes.iter().filter(|sandbox| sandbox.is_running()).count();
    let commands: usize = commands.iter().flatten().map(Vec::len).sum();
    let happened: u64 =
        effects["counts"].as_object().into_iter().flatten().filter_map(|(_, count)| count.as_u64()).sum();
    let doubled = effects["doubled"].as_object().map_or(0, |doubled| doubled.len());
    let repeats: usize = calls.iter().map(|call| call.len() - 1).sum();
    html! {
        div.tiles {
            div { b { (running) } "sandboxes run" }
            div { b { (sandboxes.len() - running) } "are paused" }
            div { b { (commands) } "commands run" }
            div { b { (happened) } "effects" }
            div { b { (repeats) } "attempts repeated" }
            div.alarm[doubled > 0] { b { (doubled) } "creates doubled" }
        }
    }
}

fn sandboxes_table(sandboxes: &[Arc<Sandbox>], commands: &[Option<Vec<String>>]) -> Markup {
    html! {
        h2 { "Sandboxes " small { (of(sandboxes.len())) } }
        div.card {
            @if sandboxes.is_empty() {
                p { "None. " code { "oncebox run -- echo hello" } " makes one, with E2B_API_URL and E2B_SANDBOX_URL set to this server." }
            } @else {
                table {
                    tr { th { "Sandbox" } th { "Template" } th { "State" } th { "Started" } th { "Ends" } th { "Commands" } }
                    @for (sandbox, commands) in sandboxes.iter().zip(commands) {
                        @let record = sandbox.record();
                        tr {
                            td { code { (sandbox.id) } }
                            td { (record.alias.as_deref().unwrap_or(&record.template_id)) }
                            td { @if record.paused.is_some() { span.odd { "paused" } } @else { span.good { "running" } } }
                            td { (time(record.started_at)) }
                            td { @if record.paused.is_some() { span.faint { "–" } } @else { (time(record.end_at)) } }
                            td.wide {
                                @match commands {
                                    None => span.faint { "does not answer" },
                                    Some(commands) => @for command in commands { code { (short(command)) } br; },
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn calls_table(calls: &[Vec<Attempt>]) -> Markup {
    html! {
        h2 { "Calls " small { "the last " (calls.len().min(MAX_ROWS)) ", newest first; attempts of one call are joined by intent, key or number" } }
        div.card {
            @if calls.is_empty() {
                p { "Nobody has asked for anything." }
            } @else {
                table {
                    tr { th { "Time" } th { "Operation" } th { "Intent or key" } th { "Test" } th.number { "Attempts" } th { "End" } th { "Timeline" } }
                    @for call in calls.iter().rev().take(MAX_ROWS) {
                        (call_row(call))
                    }
                }
            }
        }
    }
}

fn call_row(call: &[Attempt]) -> Markup {
    let (Some(first), Some(last)) = (call.first(), call.last()) else { return html! {} };
    let name = call.iter().find_map(|attempt| attempt.name.as_deref()).unwrap_or_default();
    html! {
        tr {
            td { (time(first.at)) }
            td { (first.operation) @if let Some(sandbox) = &first.sandbox { " " code.faint { (sandbox) } } }
            td { code { (name) } }
            td { (first.test.as_deref().unwrap_or_default()) }
            td.number { (call.len()) }
            td { span class=(class(last)) { (end(last)) } }
            td.wide { (timeline(call)) }
        }
    }
}

/// Bars from the first attempt's begin to the last one's end.
fn timeline(call: &[Attempt]) -> Markup {
    let Some(first) = call.first() else { return html! {} };
    let offset = |attempt: &Attempt| attempt.at.duration_since(first.at).as_secs_f64().max(0.0);
    let ends = call.iter().map(|attempt| offset(attempt) + attempt.took().as_secs_f64());
    let span = ends.fold(0.001, f64::max);
    html! {
        svg viewBox="0 0 1000 20" preserveAspectRatio="none" role="img" aria-label={ (call.len()) " attempts in " (format!("{span:.3}")) " s" } {
            @for attempt in call {
                @let x = offset(attempt) / span * WIDTH;
                @let width = (attempt.took().as_secs_f64() / span * WIDTH).clamp(4.0, (WIDTH - x).max(4.0));
                rect class=(class(attempt)) x=(format!("{:.1}", x.min(WIDTH - 4.0))) y="4" width=(format!("{width:.1}")) height="12" rx="2" {
                    title { "attempt " (attempt.number) ": " (end(attempt)) ", " (format!("{:.3}", attempt.took().as_secs_f64())) " s" }
                }
            }
        }
    }
}

fn class(attempt: &Attempt) -> &'static str {
    match attempt.end {
        None => "open",
        Some((End::Answered(status), _)) if status < 400 && attempt.fault.is_none() => "good",
        Some((End::Answered(status), _)) if status < 500 => "odd",
        Some((End::Left, _)) => "odd",
        Some(_) => "bad",
    }
}

fn end(attempt: &Attempt) -> String {
    let end = match attempt.end {
        None => "under way".to_owned(),
        Some((End::Answered(status), _)) => status.to_string(),
        Some((End::Cut, _)) => "cut".to_owned(),
        Some((End::Left, _)) => "client left".to_owned(),
    };
    match attempt.fault {
        Some(fault) if fault != end => format!("{end} (fault: {fault})"),
        _ => end,
    }
}

fn effects_table(effects: &Value) -> Markup {
    let all = effects["effects"].as_array().map(Vec::as_slice).unwrap_or_default();
    let text = |effect: &Value, name: &str| effect[name].as_str().unwrap_or_default().to_owned();
    html! {
        h2 { "Effects " small { (of(all.len())) ", newest first: what really happened, whatever clients were told" } }
        div.card {
            @for (name, made) in effects["doubled"].as_object().into_iter().flatten() {
                p.doubled { code { (name) } " made " (made.as_array().map_or(0, Vec::len)) " sandboxes" }
            }
            @if all.is_empty() {
                p { "None so far." }
            } @else {
                table {
                    tr { th.number { "Count" } th { "Operation" } th { "Sandbox" } th { "Intent or key" } th { "Test" } th { "First" } }
                    @for effect in all.iter().rev().take(MAX_ROWS) {
                        tr {
                            td.number { (effect["count"].as_u64().unwrap_or_default()) }
                            td { (text(effect, "operation")) }
                            td { code { (text(effect, "sandbox")) } }
                            td { code { (effect["intent"].as_str().or(effect["key"].as_str()).unwrap_or_default()) } }
                            td { (text(effect, "test")) }
                            td { (effect["first"].as_str().and_then(|at| at.parse().ok()).map(time).unwrap_or_default()) }
                        }
                    }
                }
            }
        }
    }
}

fn faults_card(faults: &Value, fired: &[u64]) -> Markup {
    let rules = faults["rules"].as_array().map(Vec::as_slice).unwrap_or_default();
    let mut rest = faults.clone();
    if let Some(rest) = rest.as_object_mut() {
        rest.remove("rules");
    }
    html! {
        h2 { "Faults " small { "by " code { "oncebox faults set FILE" } } }
        div.card {
            @if rules.is_empty() {
                p { "No rules." }
            } @else {
                table {
                    tr { th.number { "Fired" } th { "Rule" } }
                    @for (rule, fired) in rules.iter().zip(fired) {
                        tr { td.number { (fired) } td.wide { code { (rule) } } }
                    }
                }
            }
            pre { (rest) }
        }
    }
}

fn of(count: usize) -> String {
    if count > MAX_ROWS { format!("{MAX_ROWS} of {count}") } else { count.to_string() }
}

/// Time of day, UTC; the page is of what happens now.
fn time(at: Timestamp) -> String {
    at.strftime("%H:%M:%S").to_string()
}

fn short(text: &str) -> String {
    const MOST: usize = 120;
    match text.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
