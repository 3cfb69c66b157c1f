//! What the proxy did: counted, the last calls listed, shown as a page and as JSON.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use jiff::Timestamp;
use maud::{DOCTYPE, html};
use parking_lot::Mutex;
use serde::Serialize;

/// How many calls are listed.
const LISTED: usize = 50;

/// What a proxy did since it was started.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Status {
    /// Since when.
    pub since: Timestamp,
    /// Where the control plane is.
    pub api: String,
    /// What was counted.
    pub counts: Counts,
    /// Creates that wait for another one like them to take over.
    pub waiting_creates: usize,
    /// The last calls, newest first, at most 50.
    pub calls: Vec<CallStatus>,
}

/// What a proxy counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Counts {
    /// Calls that were answered or given up.
    pub calls: u64,
    /// Attempts at servers that they took, look-ups included.
    pub attempts: u64,
    /// The most that one call took.
    pub most_attempts: u64,
    /// Calls that took more than one attempt and were answered with success.
    pub saved: u64,
    /// Calls that were answered with a status of 400 or more.
    pub failed: u64,
    /// Calls whose SDK hung up before its answer.
    pub hung_up: u64,
    /// Creates answered with a sandbox.
    pub created: u64,
    /// Creates of which nobody knows what they did.
    pub unknown_creates: u64,
    /// Creates that took over from another one.
    pub taken_over: u64,
    /// Calls under way now.
    pub under_way: u64,
    /// Connections that changed their protocol and go on now: WebSockets, say.
    pub tunnels: u64,
    /// Connections and calls that were too many, and were turned away.
    pub crowded: u64,
}

/// One call.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct CallStatus {
    /// When it came.
    pub at: Timestamp,
    /// For whom: `api`, `volumes`, or a sandbox's id and port.
    pub to: String,
    /// Its method.
    pub method: String,
    /// Its path, without the query.
    pub path: String,
    /// What it was answered; `None`: its SDK hung up.
    pub status: Option<u16>,
    /// Attempts that it took, look-ups included.
    pub attempts: usize,
    /// How long it took until its answer began.
    pub milliseconds: u64,
}

/// Counts.
pub(crate) struct Tally {
    since: Timestamp,
    api: String,
    inner: Mutex<(Counts, VecDeque<CallStatus>)>,
}

impl Tally {
    pub(crate) fn new(api: String) -> Arc<Self> {
        Arc::new(Self { since: Timestamp::now(), api, inner: Mutex::default() })
    }

    /// A call begins.
    pub(crate) fn begin(self: &Arc<Self>, to: String, method: &http::Method, path: &str) -> Watch {
        self.count(|counts| counts.under_way += 1);
        let call = CallStatus {
            at: Timestamp::now(),
            to,
            method: method.to_string(),
            path: path.to_owned(),
            status: None,
            attempts: 0,
            milliseconds: 0,
        };
        Watch { tally: Arc::clone(self), call, began: Instant::now() }
    }

    /// A connection changes its protocol.
    pub(crate) fn tunnel(self: &Arc<Self>) -> TunnelWatch {
        self.count(|counts| counts.tunnels += 1);
        TunnelWatch(Arc::clone(self))
    }

    pub(crate) fn count(&self, change: impl FnOnce(&mut Counts)) {
        change(&mut self.inner.lock().0);
    }

    pub(crate) fn status(&self, waiting_creates: usize) -> Status {
        let inner = self.inner.lock();
        let calls = inner.1.iter().rev().cloned().collect();
        Status { since: self.since, api: self.api.clone(), counts: inner.0, waiting_creates, calls }
    }
}

/// A connection that changed its protocol.
pub(crate) struct TunnelWatch(Arc<Tally>);

impl Drop for TunnelWatch {
    fn drop(&mut self) {
        self.0.count(|counts| counts.tunnels -= 1);
    }
}

/// A call under way. Dropped without an answer, its SDK hung up.
pub(crate) struct Watch {
    tally: Arc<Tally>,
    call: CallStatus,
    began: Instant,
}

impl Watch {
    pub(crate) fn answered(mut self, status: http::StatusCode, attempts: usize) {
        self.call.status = Some(status.as_u16());
        self.call.attempts = attempts;
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.call.milliseconds = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        let mut inner = self.tally.inner.lock();
        let (counts, calls) = &mut *inner;
        let attempts = self.call.attempts as u64;
        counts.under_way -= 1;
        counts.calls += 1;
        counts.attempts += attempts;
        counts.most_attempts = counts.most_attempts.max(attempts);
        match self.call.status {
            None => counts.hung_up += 1,
            Some(status) if status >= 400 => counts.failed += 1,
            Some(_) if attempts > 1 => counts.saved += 1,
            Some(_) => {}
        }
        if calls.len() == LISTED {
            calls.pop_front();
        }
        calls.push_back(self.call.clone());
    }
}

const STYLE: &str = "body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:60rem;padding:0 1rem;\
    color:#1d1d1f;background:#fff}table{border-collapse:collapse;width:100%}td,th{text-align:left;padding:.2rem .6rem;\
    border-bottom:1px solid #8884}td{font-variant-numeric:tabular-nums}.bad{color:#b3261e}\
    @media(prefers-color-scheme:dark){body{color:#eee;background:#161618}.bad{color:#ff8a80}}";

/// The page.
pub(crate) fn page(status: &Status) -> String {
    let counts = status.counts;
    let rows = [
        ("calls", counts.calls),
        ("under way", counts.under_way),
        ("connections of another protocol", counts.tunnels),
        ("turned away: too many", counts.crowded),
        ("attempts", counts.attempts),
        ("most attempts of one call", counts.most_attempts),
        ("saved by another attempt", counts.saved),
        ("failed", counts.failed),
        ("hung up", counts.hung_up),
        ("sandboxes created", counts.created),
        ("creates of unknown outcome", counts.unknown_creates),
        ("creates taken over", counts.taken_over),
        ("creates waiting to be taken over", status.waiting_creates as u64),
    ];
    html! {
        (DOCTYPE)
        html lang="en" {
            head { meta charset="utf-8"; title { "oncebox proxy" } style { (maud::PreEscaped(STYLE)) } }
            body {
                h1 { "oncebox proxy" }
                p { "To " (status.api) " since " (status.since.strftime("%F %T UTC")) ". The same in JSON: "
                    a href="/oncebox/status" { "/oncebox/status" } "." }
                table { @for (name, count) in rows { tr { th { (name) } td { (count) } } } }
                h2 { "Last calls" }
                table {
                    tr { th { "at" } th { "to" } th { "request" } th { "answer" } th { "attempts" } th { "ms" } }
                    @for call in &status.calls {
                        tr {
                            td { (call.at.strftime("%T")) }
                            td { (call.to) }
                            td { (call.method) " " (call.path) }
                            @match call.status {
                                Some(status) if status < 400 => td { (status) },
                                Some(status) => td.bad { (status) },
                                None => td.bad { "hung up" },
                            }
                            td { (call.attempts) }
                            td { (call.milliseconds) }
                        }
                    }
                }
            }
        }
    }
    .into_string()
}

#[cfg(test)]
mod tests {
    use http::{Method, StatusCode};

    use super::*;

    #[test]
    fn calls_are_counted_by_how_they_end() {
        let tally = Tally::new("http://x".to_owned());
        for (status, attempts) in [(200, 1), (201, 4), (503, 7)] {
            tally.begin("api".into(), &Method::GET, "/<p>").answered(StatusCode::from_u16(status).unwrap(), attempts);
        }
        drop(tally.begin("iabc:49983".into(), &Method::POST, "/hung"));
        let running = tally.begin("api".into(), &Method::GET, "/running");
        let status = tally.status(2);
        assert_eq!(
            status.counts,
            Counts {
                calls: 4,
                attempts: 12,
                most_attempts: 7,
                saved: 1,
                failed: 1,
                hung_up: 1,
                under_way: 1,
                ..Counts::default()
            }
        );
        assert_eq!((status.calls[0].path.as_str(), status.calls[0].status), ("/hung", None));
        assert!(page(&status).contains("/&lt;p&gt;") && !page(&status).contains("/<p>"));
        for _ in 0..LISTED {
            drop(tally.begin("api".into(), &Method::GET, "/"));
        }
        assert_eq!(tally.status(0).calls.len(), LISTED);
        drop(running);
    }
}
