//! One sandbox: what is known of it, and what there is of it.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use oncebox_protocol::SecretString;
use oncebox_protocol::api::{EnvVars, LogLevel, Metadata, PauseMode, SandboxMetric, SandboxNetwork, VolumeMount};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::net::UnixStream;
use tokio::sync::{OwnedSemaphorePermit, watch};

use crate::confined::{Confined, ProgramConnection};
use crate::lifeline::Defaults;

/// What is written down of a sandbox.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct SandboxRecord {
    pub(crate) template_id: String,
    /// The template's name.
    pub(crate) alias: Option<String>,
    pub(crate) metadata: Metadata,
    pub(crate) env: EnvVars,
    /// What its template says of commands.
    #[serde(default)]
    pub(crate) defaults: Defaults,
    pub(crate) allow_internet_access: Option<bool>,
    pub(crate) network: Option<SandboxNetwork>,
    pub(crate) volumes: Vec<MountedVolume>,
    pub(crate) lifecycle: Lifecycle,
    pub(crate) started_at: Timestamp,
    pub(crate) end_at: Timestamp,
    /// How it is paused, if it is.
    pub(crate) paused: Option<PauseMode>,
}

/// What happens at the end of a sandbox's lifetime, and on use after that.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Lifecycle {
    pub(crate) lifetime: Duration,
    pub(crate) auto_pause: bool,
    /// Whether that pause keeps the processes.
    pub(crate) auto_pause_memory: bool,
    pub(crate) auto_resume: bool,
}

impl Default for Lifecycle {
    fn default() -> Self {
        Self { lifetime: Duration::ZERO, auto_pause: false, auto_pause_memory: true, auto_resume: false }
    }
}

/// A volume in a sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct MountedVolume {
    pub(crate) volume_id: String,
    pub(crate) name: String,
    pub(crate) path: String,
}

impl SandboxRecord {
    /// A sandbox of the base template that begins now.
    pub(crate) fn new(template_id: String, lifecycle: Lifecycle) -> Self {
        Self {
            alias: Some(template_id.clone()),
            template_id,
            metadata: Metadata::new(),
            env: EnvVars::new(),
            defaults: Defaults::default(),
            allow_internet_access: None,
            network: None,
            volumes: Vec::new(),
            lifecycle,
            started_at: Timestamp::now(),
            end_at: after(lifecycle.lifetime),
            paused: None,
        }
    }

    /// Sets the end of its lifetime.
    pub(crate) fn end_in(&mut self, lifetime: Duration) {
        self.end_at = after(lifetime);
        // One that is to end now, and is paused then, has the lifetime it had when it is resumed on use.
        if !lifetime.is_zero() {
            self.lifecycle.lifetime = lifetime;
        }
    }

    /// Moves the end of its lifetime, later only.
    pub(crate) fn live_at_least(&mut self, lifetime: Duration) {
        self.end_at = self.end_at.max(after(lifetime));
    }

    pub(crate) fn volume_mounts(&self) -> Option<Vec<VolumeMount>> {
        let mounts: Vec<VolumeMount> = self
            .volumes
            .iter()
            .map(|volume| VolumeMount { name: volume.name.clone(), path: volume.path.clone() })
            .collect();
        (!mounts.is_empty()).then_some(mounts)
    }
}

/// A sandbox.
#[derive(Debug)]
pub(crate) struct Sandbox {
    pub(crate) id: String,
    pub(crate) access_token: SecretString,
    record: Mutex<SandboxRecord>,
    /// The end of its lifetime, for those who wait for it. The record says the same.
    pub(super) end_at: watch::Sender<Timestamp>,
    pub(super) body: Mutex<Body>,
    /// Held by who changes what there is of it.
    pub(super) turn: tokio::sync::Mutex<()>,
    /// Held by who changes its record, in the store and here.
    pub(super) editing: tokio::sync::Mutex<()>,
    /// Counts how often its connections were cut.
    pub(super) cuts: watch::Sender<u64>,
    log: Mutex<VecDeque<LogLine>>,
    metrics: Mutex<VecDeque<SandboxMetric>>,
}

/// What there is of a sandbox besides its files.
#[derive(Debug)]
pub(crate) enum Body {
    /// It runs.
    Running(Live),
    /// Its processes are stopped where they are.
    Frozen(Live),
    /// Nothing.
    Stored,
}

/// A sandbox's processes, and its place among those that may have some.
#[derive(Debug)]
pub(crate) struct Live {
    pub(crate) confined: Arc<Confined>,
    pub(crate) place: OwnedSemaphorePermit,
}

/// A line of a sandbox's log.
#[derive(Debug, Clone)]
pub(crate) struct LogLine {
    pub(crate) timestamp: Timestamp,
    pub(crate) level: LogLevel,
    pub(crate) message: String,
}

/// Lines that a sandbox's log keeps.
const MAX_LOG: usize = 1000;
/// Measurements that a sandbox keeps: half an hour of one every five seconds.
const MAX_METRICS: usize = 360;

impl Sandbox {
    pub(super) fn new(id: String, access_token: SecretString, record: SandboxRecord, body: Body) -> Self {
        Self {
            id,
            access_token,
            end_at: watch::Sender::new(record.end_at),
            record: Mutex::new(record),
            body: Mutex::new(body),
            turn: tokio::sync::Mutex::default(),
            editing: tokio::sync::Mutex::default(),
            cuts: watch::Sender::new(0),
            log: Mutex::default(),
            metrics: Mutex::default(),
        }
    }

    /// What is known of it.
    pub(crate) fn record(&self) -> SandboxRecord {
        self.record.lock().clone()
    }

    /// Sets what is known of it, which [`Registry::edit`](super::Registry::edit) has written down.
    pub(super) fn set(&self, record: SandboxRecord) {
        let end_at = record.end_at;
        *self.record.lock() = record;
        self.end_at.send_replace(end_at);
    }

    /// Keeps others from changing what there is of it.
    #[cfg(test)]
    pub(crate) async fn hold_turn(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.turn.lock().await
    }

    /// Its lifetime is over.
    #[cfg(test)]
    pub(crate) fn is_over(&self) {
        let mut record = self.record();
        record.end_at = Timestamp::now();
        self.set(record);
    }

    pub(crate) fn is_running(&self) -> bool {
        matches!(*self.body.lock(), Body::Running(_))
    }

    /// Its processes, if it runs.
    pub(crate) fn confined(&self) -> io::Result<Arc<Confined>> {
        match &*self.body.lock() {
            Body::Running(live) => Ok(Arc::clone(&live.confined)),
            Body::Frozen(_) | Body::Stored => Err(io::Error::new(io::ErrorKind::NotConnected, "it is paused")),
        }
    }

    /// Its processes, running or stopped.
    pub(crate) fn processes(&self) -> Option<Arc<Confined>> {
        match &*self.body.lock() {
            Body::Running(live) | Body::Frozen(live) => Some(Arc::clone(&live.confined)),
            Body::Stored => None,
        }
    }

    /// Opens a connection to one of its ports.
    pub(crate) async fn open(&self, port: u16) -> io::Result<UnixStream> {
        self.confined()?.open(port).await
    }

    /// Opens a connection to a program that listens on one of its ports; `None` if none does.
    pub(crate) async fn open_program(&self, port: u16) -> io::Result<Option<ProgramConnection>> {
        self.confined()?.open_program(port).await
    }

    /// Returns when its connections are to be cut, which they are when it is paused.
    pub(crate) fn cut(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut cuts = self.cuts.subscribe();
        async move {
            // The sender goes with the sandbox, whose connections then end by themselves.
            if cuts.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// Adds a line to its log.
    pub(crate) fn note(&self, level: LogLevel, message: impl Into<String>) {
        let mut log = self.log.lock();
        if log.len() >= MAX_LOG {
            log.pop_front();
        }
        log.push_back(LogLine { timestamp: Timestamp::now(), level, message: message.into() });
    }

    /// Its log, oldest first.
    pub(crate) fn log(&self) -> Vec<LogLine> {
        self.log.lock().iter().cloned().collect()
    }

    pub(super) fn measure(&self, metric: SandboxMetric) {
        let mut metrics = self.metrics.lock();
        if metrics.len() >= MAX_METRICS {
            metrics.pop_front();
        }
        metrics.push_back(metric);
    }

    /// What was measured, oldest first.
    pub(crate) fn metrics(&self) -> Vec<SandboxMetric> {
        self.metrics.lock().iter().cloned().collect()
    }
}

/// A point in time from now; the end of time where there is none.
pub(crate) fn after(lifetime: Duration) -> Timestamp {
    let lifetime = SignedDuration::try_from(lifetime).unwrap_or(SignedDuration::MAX);
    Timestamp::now().checked_add(lifetime).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_at_once_leaves_the_lifetime_that_is_given_when_it_is_resumed() {
        let lifecycle = Lifecycle { lifetime: Duration::from_secs(300), ..Lifecycle::default() };
        let mut record = SandboxRecord::new("base".to_owned(), lifecycle);
        record.end_in(Duration::ZERO);
        assert!(record.end_at <= Timestamp::now());
        assert_eq!(record.lifecycle.lifetime, Duration::from_secs(300));
        record.end_in(Duration::from_secs(60));
        assert_eq!(record.lifecycle.lifetime, Duration::from_secs(60));
        let end = record.end_at;
        record.live_at_least(Duration::from_secs(1));
        assert_eq!(record.end_at, end);
    }
}
