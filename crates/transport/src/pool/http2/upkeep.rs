//! What the connections report, and what time brings.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::Instant;

use super::{Http2Pool, Slow};
use crate::conn::{H2Connection, Owner};

/// A worn connection that is idle for this long and was not retired lives longer than was thought.
const OUTLIVED_AFTER: Duration = Duration::from_secs(1);

/// How long a connection must have been superfluous before it is put aside.
const PEAK_WINDOW: Duration = Duration::from_secs(60);

/// Connections are kept for the peak of the last minute, at this much of their cap.
const SATURATION: f64 = 0.7;

impl Owner for Http2Pool {
    fn announced(&self, connection: &Arc<H2Connection>, cap: u32) {
        let mut slow = self.line.lock();
        slow.learned.announced(cap);
        connection.set_cap(cap);
        self.settle(&mut slow, 0);
    }

    fn lost(&self, connection: &Arc<H2Connection>) {
        Self::lost(self, connection);
    }

    fn tick(&self, connection: &Arc<H2Connection>) {
        let mut slow = self.line.lock();
        let load = connection.load();
        let age = self.limits.max_connection_age;
        if connection.idle_for() >= self.limits.keepalive_expiry {
            self.drain(&mut slow, connection);
        } else if !age.is_zero() && connection.is_older_than(age) {
            // It gets no more streams, and its successor comes first.
            load.set_lifetime(load.opened());
            if load.active() == 0 || self.has_successor(connection) {
                self.drain(&mut slow, connection);
            }
            self.settle(&mut slow, load.active() as usize);
        } else if load.is_worn() && connection.idle_for() >= OUTLIVED_AFTER {
            slow.learned.outlived(load.opened());
            load.extend_lifetime();
            self.settle(&mut slow, 0);
        }
        self.shrink(&mut slow);
        self.show(&slow);
    }

    fn ended(&self, id: u64) {
        let mut slow = self.line.lock();
        slow.draining.retain(|draining| draining.id != id);
        self.settle(&mut slow, 0);
    }
}

impl Http2Pool {
    /// Whether another connection can take over from one that is too old, or none will come before it is drained.
    fn has_successor(&self, connection: &H2Connection) -> bool {
        let connections = self.connections.load();
        let others = || connections.iter().filter(|other| other.id() != connection.id());
        let open = connections.len() + self.connecting.load(Ordering::Acquire);
        others().any(|other| other.is_active() && !other.load().is_worn())
            || (open >= self.limits.max_connections && self.connecting.load(Ordering::Acquire) == 0)
    }

    /// Puts aside what the last minute did not need.
    fn shrink(&self, slow: &mut Slow<'_>) {
        let connections = self.connections.load();
        let active: Vec<_> = connections.iter().filter(|c| c.is_active()).collect();
        let streams = active.iter().map(|c| c.load().active()).sum();
        let peak = slow.peak.observe(streams, Instant::now());
        let per_connection = f64::from(slow.learned.per_connection().max(1)) * SATURATION;
        let needed = ((f64::from(peak) / per_connection).ceil() as usize).max(1);
        for connection in active.iter().skip(needed) {
            if connection.load().active() == 0 {
                connection.cool();
            }
        }
    }
}

/// The most streams at once in the last minute or two.
#[derive(Debug, Default)]
pub(super) struct Peak {
    since: Option<Instant>,
    now: u32,
    before: u32,
}

impl Peak {
    fn observe(&mut self, streams: u32, at: Instant) -> u32 {
        if self.since.is_none_or(|since| at.saturating_duration_since(since) >= PEAK_WINDOW) {
            self.since = Some(at);
            self.before = std::mem::take(&mut self.now);
        }
        self.now = self.now.max(streams);
        self.now.max(self.before)
    }
}
