//! Everything that was received, and what became of it.

mod records;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::Notify;

pub use records::{ConnectionRecord, Direction, Event, Happening, Report, Totals, TryRecord};

use crate::engine::Request;
use crate::script::{ErrorCode, Version};

/// What a server received, by connection, stream and request id, and what it *processed*: a request is processed when
/// its effect would have happened, whether or not the client ever hears of it.
///
/// Details are kept for the first so many tries and events ([`Builder::log_limit`](crate::Builder::log_limit)); what
/// counts is counted beyond that too, except by request id.
#[derive(Clone)]
pub struct Log(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
    changed: Notify,
    started: Instant,
    limit: usize,
}

#[derive(Default)]
struct State {
    connections: Vec<ConnectionRecord>,
    tries: Vec<TryRecord>,
    /// Where the tries of a stream are: (connection, stream).
    by_stream: HashMap<(u64, u32), usize>,
    by_id: HashMap<Arc<str>, ById>,
    events: Vec<Event>,
    order: Vec<usize>,
    fired: HashMap<String, u64>,
    totals: Totals,
}

#[derive(Default)]
struct ById {
    heads: u64,
    processed: u64,
    tries: Vec<usize>,
}

impl Log {
    pub(crate) fn new(limit: usize) -> Self {
        let state = Mutex::new(State::default());
        Self(Arc::new(Shared { state, changed: Notify::new(), started: Instant::now(), limit }))
    }

    /// How often a request was processed.
    pub fn processed(&self, id: &str) -> u64 {
        self.0.state.lock().by_id.get(id).map_or(0, |by_id| by_id.processed)
    }

    /// How many heads of a request came: its tries as the server saw them.
    pub fn heads(&self, id: &str) -> u64 {
        self.0.state.lock().by_id.get(id).map_or(0, |by_id| by_id.heads)
    }

    /// The tries of a request, in the order their heads came.
    pub fn tries(&self, id: &str) -> Vec<TryRecord> {
        let state = self.0.state.lock();
        let Some(by_id) = state.by_id.get(id) else { return Vec::new() };
        by_id.tries.iter().map(|index| state.tries[*index].clone()).collect()
    }

    /// All tries of all requests, in the order their heads came.
    pub fn all_tries(&self) -> Vec<TryRecord> {
        self.0.state.lock().tries.clone()
    }

    /// All request ids, sorted.
    pub fn request_ids(&self) -> Vec<String> {
        let mut ids: Vec<String> = self.0.state.lock().by_id.keys().map(|id| id.to_string()).collect();
        ids.sort_unstable();
        ids
    }

    /// Requests that were processed more than once, with how often, sorted.
    pub fn doubled(&self) -> Vec<(String, u64)> {
        let state = self.0.state.lock();
        let more = state.by_id.iter().filter(|(_, by_id)| by_id.processed > 1);
        let mut more: Vec<_> = more.map(|(id, by_id)| (id.to_string(), by_id.processed)).collect();
        more.sort_unstable();
        more
    }

    /// What was processed, in this order.
    pub fn processed_in_order(&self) -> Vec<TryRecord> {
        let state = self.0.state.lock();
        state.order.iter().map(|index| state.tries[*index].clone()).collect()
    }

    /// Streams whose HEADERS came after a GOAWAY was sent on their connection: (connection, stream). A client that has
    /// not read it yet may open such streams; whether it had, a [`Fault::Ping`](crate::Fault::Ping) sent after the
    /// GOAWAY tells: see [`TryRecord::after_goaway_was_seen`].
    pub fn streams_after_goaway(&self) -> Vec<(u64, u32)> {
        let state = self.0.state.lock();
        state.tries.iter().filter(|a_try| a_try.after_goaway).map(|a_try| (a_try.connection, a_try.stream)).collect()
    }

    /// The connections, in the order they were accepted.
    pub fn connections(&self) -> Vec<ConnectionRecord> {
        self.0.state.lock().connections.clone()
    }

    /// What happened, in order.
    pub fn events(&self) -> Vec<Event> {
        self.0.state.lock().events.clone()
    }

    /// How often each rule's faults happened: by the rule's name, else `rules[n]`.
    pub fn fired(&self, rule: &str) -> u64 {
        self.0.state.lock().fired.get(rule).copied().unwrap_or(0)
    }

    /// Sums over everything.
    pub fn totals(&self) -> Totals {
        self.0.state.lock().totals.clone()
    }

    /// All of it but the events, to be written to a file.
    pub fn report(&self) -> Report {
        let state = self.0.state.lock();
        let mut requests: Vec<_> = state
            .by_id
            .iter()
            .map(|(id, by_id)| records::RequestRecord {
                id: id.to_string(),
                heads: by_id.heads,
                processed: by_id.processed,
                tries: by_id.tries.iter().map(|index| state.tries[*index].clone()).collect(),
            })
            .collect();
        requests.sort_unstable_by(|a, b| a.id.cmp(&b.id));
        Report {
            totals: state.totals.clone(),
            fired: state.fired.iter().map(|(rule, times)| (rule.clone(), *times)).collect(),
            connections: state.connections.clone(),
            requests,
            without_id: state.tries.iter().filter(|a_try| a_try.request_id.is_none()).cloned().collect(),
        }
    }

    /// Waits until something holds of the log; whether it came to hold within the time.
    pub async fn wait_until(&self, at_most: Duration, holds: impl Fn(&Self) -> bool) -> bool {
        let wait = async {
            loop {
                let changed = self.0.changed.notified();
                tokio::pin!(changed);
                changed.as_mut().enable();
                if holds(self) {
                    return;
                }
                changed.await;
            }
        };
        tokio::time::timeout(at_most, wait).await.is_ok()
    }

    fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let changed = change(&mut self.0.state.lock());
        self.0.changed.notify_waiters();
        changed
    }

    fn event(&self, state: &mut State, connection: u64, stream: u32, what: Happening) {
        if state.events.len() < self.0.limit {
            let at_us = u64::try_from(self.0.started.elapsed().as_micros()).unwrap_or(u64::MAX);
            state.events.push(Event { at_us, connection, stream, what });
        } else {
            state.totals.events_not_kept += 1;
        }
    }

    pub(crate) fn happened(&self, connection: u64, stream: u32, what: Happening) {
        self.change(|state| self.event(state, connection, stream, what));
    }

    pub(crate) fn accepted(&self) -> u64 {
        self.change(|state| {
            state.totals.connections += 1;
            state.totals.connections_open += 1;
            let open = state.totals.connections_open;
            state.totals.most_connections_open = state.totals.most_connections_open.max(open);
            let number = state.totals.connections;
            if state.connections.len() < self.0.limit {
                state.connections.push(ConnectionRecord::new(number));
            }
            self.event(state, number, 0, Happening::Accepted);
            number
        })
    }

    pub(crate) fn connection(&self, number: u64, change: impl FnOnce(&mut ConnectionRecord)) {
        self.change(|state| {
            if let Some(record) = state.connections.get_mut(number as usize - 1) {
                change(record);
            }
        });
    }

    pub(crate) fn ended(&self, number: u64, how: &str, bytes_in: u64, bytes_out: u64) {
        self.change(|state| {
            state.totals.connections_open -= 1;
            if let Some(record) = state.connections.get_mut(number as usize - 1) {
                record.ended = Some(how.to_owned());
                (record.bytes_in, record.bytes_out) = (bytes_in, bytes_out);
            }
            self.event(state, number, 0, Happening::Ended(how.to_owned()));
        });
    }

    /// A request's head came. Returns which try of its id it is.
    pub(crate) fn head(
        &self,
        version: Version,
        connection: u64,
        request: &mut Request,
        accepted: bool,
        after_goaway: bool,
        seen: bool,
    ) {
        self.change(|state| {
            state.totals.heads += 1;
            state.totals.heads_after_goaway += u64::from(after_goaway);
            if let Some(record) = state.connections.get_mut(connection as usize - 1) {
                record.version = Some(version);
                record.heads += 1;
                record.heads_after_goaway += u64::from(after_goaway);
                // One that is refused at once was open until then, as the client sees it.
                if !after_goaway || accepted {
                    record.most_open = record.most_open.max(record.open + 1);
                }
                record.open += u64::from(accepted);
            }
            let room = state.tries.len() < self.0.limit;
            let index = state.tries.len();
            if let Some(id) = &request.id {
                let known = state.by_id.len();
                let by_id = match state.by_id.get_mut(id) {
                    Some(by_id) => Some(by_id),
                    None if known < self.0.limit => Some(state.by_id.entry(id.clone()).or_default()),
                    None => None,
                };
                if let Some(by_id) = by_id {
                    by_id.heads += 1;
                    request.attempt = by_id.heads;
                    if room {
                        by_id.tries.push(index);
                    }
                }
            }
            if room {
                state.by_stream.insert((connection, request.stream), index);
                state.tries.push(TryRecord::new(connection, request, after_goaway, seen));
            } else {
                state.totals.tries_not_kept += 1;
            }
            self.event(state, connection, request.stream, Happening::Head { attempt: request.attempt });
        });
    }

    pub(crate) fn processed_now(&self, connection: u64, request: &Request) {
        self.change(|state| {
            state.totals.processed += 1;
            if let Some(by_id) = request.id.as_ref().and_then(|id| state.by_id.get_mut(id)) {
                by_id.processed += 1;
                if by_id.processed == 2 {
                    state.totals.doubled += 1;
                }
            }
            if let Some(record) = state.connections.get_mut(connection as usize - 1) {
                record.processed += 1;
            }
            if let Some(index) = state.by_stream.get(&(connection, request.stream)).copied() {
                state.tries[index].processed = true;
                state.order.push(index);
            }
            self.event(state, connection, request.stream, Happening::Processed);
        });
    }

    pub(crate) fn a_try(&self, connection: u64, stream: u32, change: impl FnOnce(&mut TryRecord)) {
        self.change(|state| {
            if let Some(index) = state.by_stream.get(&(connection, stream)).copied() {
                change(&mut state.tries[index]);
            }
        });
    }

    /// One of a connection's requests is no longer open.
    pub(crate) fn closed(&self, connection: u64) {
        self.connection(connection, |record| record.open = record.open.saturating_sub(1));
    }

    /// A request is over, however.
    pub(crate) fn over(&self, connection: u64, stream: u32, status: Option<u16>) {
        self.change(|state| {
            if let Some(status) = status {
                state.totals.answered += 1;
                if let Some(index) = state.by_stream.get(&(connection, stream)).copied() {
                    state.tries[index].answered = true;
                }
                self.event(state, connection, stream, Happening::Answered { status });
            }
        });
    }

    pub(crate) fn reset_sent(&self, connection: u64, stream: u32, code: ErrorCode) {
        self.change(|state| {
            state.totals.resets_sent += 1;
            state.totals.refused += u64::from(code == ErrorCode::REFUSED_STREAM);
            if let Some(index) = state.by_stream.get(&(connection, stream)).copied() {
                state.tries[index].reset_sent = Some(code);
            }
        });
    }

    pub(crate) fn fault(&self, connection: u64, stream: u32, rule: &str, fault: &'static str) {
        self.change(|state| {
            *state.fired.entry(rule.to_owned()).or_default() += 1;
            self.event(state, connection, stream, Happening::Fault { rule: rule.to_owned(), fault });
        });
    }

    /// The client broke a rule of HTTP.
    pub(crate) fn violation(&self, connection: u64, stream: u32, what: &str) {
        self.change(|state| {
            state.totals.violations += 1;
            self.event(state, connection, stream, Happening::Violation(what.to_owned()));
        });
    }
}

impl std::fmt::Debug for Log {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Log").field(&self.totals()).finish()
    }
}
