//! The HTTP/1.1 connections of one origin: one exchange each, kept alive in between.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use oncebox_policy::{Connection, Phase};
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use super::bound::most_connections;
use super::counted::{Counts, What};
use super::progress::Progress;
use super::registry::next_connection_id;
use crate::body::Held;
use crate::conn::{Failure, H1Connection};
use crate::dial::Dialer;
use crate::io::Stream;
use crate::observe::Shown;
use crate::options::{Limits, TrafficClass};
use crate::tls::Offer;

/// See the module.
pub(crate) struct Http1Pool {
    dialer: Arc<Dialer>,
    limits: Limits,
    /// One for each connection that may be in use; first come, first served.
    room: Arc<Semaphore>,
    /// One for each that bulk transfers may use: all but one, where there are several.
    room_for_bulk: Arc<Semaphore>,
    idle: Mutex<Idle>,
    /// Connections are given back from anywhere, also from where there is no runtime.
    runtime: Handle,
    failed_dials: AtomicU32,
    counts: Arc<Counts>,
}

/// Those that nobody uses.
#[derive(Default)]
struct Idle {
    /// Since when each is idle; the most recently used one is at the end.
    connections: Vec<(H1Connection, Instant)>,
    /// A task closes those whose time is over.
    is_watched: bool,
}

/// A connection in use.
pub(crate) struct Leased {
    pub(crate) connection: H1Connection,
    room: Room,
}

/// The right to use one connection. What is no bulk transfer needs no more than the first.
pub(crate) struct Room {
    _any: OwnedSemaphorePermit,
    _bulk: Option<OwnedSemaphorePermit>,
}

impl Http1Pool {
    pub(super) fn new(dialer: Arc<Dialer>, limits: Limits, shown: Arc<Shown>) -> Arc<Self> {
        let for_bulk = most_connections(limits.max_connections, TrafficClass::Bulk);
        Arc::new(Self {
            dialer,
            limits,
            room: Arc::new(Semaphore::new(limits.max_connections)),
            room_for_bulk: Arc::new(Semaphore::new(for_bulk)),
            idle: Mutex::default(),
            runtime: Handle::current(),
            failed_dials: AtomicU32::new(0),
            counts: Counts::new(shown),
        })
    }

    /// An idle connection, or a new one; waits while as many as are allowed are in use.
    pub(crate) async fn acquire(
        &self,
        wanted: Connection,
        class: TrafficClass,
        progress: &Progress,
    ) -> Result<Leased, Failure> {
        progress.waits();
        let bulk = match class {
            TrafficClass::Interactive => None,
            TrafficClass::Bulk => Some(self.wait_for(&self.room_for_bulk).await?),
        };
        let room = Room { _any: self.wait_for(&self.room).await?, _bulk: bulk };
        let idle = if wanted == Connection::Fresh { None } else { self.take_idle() };
        let connection = match idle {
            Some(connection) => connection,
            None => {
                progress.dials();
                // In a box: few attempts dial, and all have room for it otherwise.
                Box::pin(self.dial()).await?
            }
        };
        Ok(Leased { connection, room })
    }

    async fn wait_for(&self, room: &Arc<Semaphore>) -> Result<OwnedSemaphorePermit, Failure> {
        if let Ok(permit) = room.clone().try_acquire_owned() {
            return Ok(permit);
        }
        let _waiting = self.counts.one(What::Waiting);
        room.clone().acquire_owned().await.map_err(|_| Failure::not_sent("the pool was closed"))
    }

    /// Takes over a new socket.
    pub(super) async fn open(&self, socket: Stream) -> Result<H1Connection, Failure> {
        H1Connection::open(socket, next_connection_id(), self.counts.one(What::Open))
            .await
            .map_err(|error| Failure::dial(Phase::Connect, error))
    }

    /// Tells observers what there is now.
    pub(super) fn show(&self) {
        self.counts.show();
    }

    async fn dial(&self) -> Result<H1Connection, Failure> {
        let round = self.failed_dials();
        let opened = match self.dialer.dial(Offer::Http1).await {
            Ok(dialled) => self.open(dialled.stream).await,
            Err(failure) => Err(failure),
        };
        if opened.is_err() {
            self.dial_failed(round);
        }
        opened
    }

    /// A dial failed that began when so many had. Those of the same round count as one: the origin failed once, however
    /// many asked.
    pub(super) fn dial_failed(&self, round: u32) {
        let next = round.saturating_add(1);
        let _ = self.failed_dials.compare_exchange(round, next, Ordering::AcqRel, Ordering::Acquire);
    }

    /// A request was answered: the origin can be reached.
    pub(super) fn served(&self) {
        self.failed_dials.store(0, Ordering::Release);
    }

    /// How many dials have failed in a row.
    pub(super) fn failed_dials(&self) -> u32 {
        self.failed_dials.load(Ordering::Acquire)
    }

    /// The most recently used connection that is still good; the others are dropped as they are found to be over.
    fn take_idle(&self) -> Option<H1Connection> {
        let mut idle = self.idle.lock();
        while let Some((connection, since)) = idle.connections.pop() {
            if !connection.is_closed() && since.elapsed() < self.limits.http1_keepalive_expiry() {
                return Some(connection);
            }
        }
        None
    }

    pub(super) fn put_idle(self: &Arc<Self>, connection: H1Connection) {
        if connection.is_closed() {
            return;
        }
        let mut idle = self.idle.lock();
        let now = Instant::now();
        idle.drop_expired(now, self.limits.http1_keepalive_expiry());
        idle.connections.push((connection, now));
        // A fresh connection is dialled though others are idle, and would be one too many with them.
        let surplus = idle.connections.len().saturating_sub(self.limits.max_connections);
        idle.connections.drain(..surplus);
        if !std::mem::replace(&mut idle.is_watched, true) {
            self.runtime.spawn(close_expired(Arc::downgrade(self)));
        }
    }

    /// Closes those that were idle for too long. When the next one will have been; `None`: there is none, and nobody
    /// watches from here on.
    fn close_expired(&self) -> Option<Instant> {
        let expiry = self.limits.http1_keepalive_expiry();
        let mut idle = self.idle.lock();
        idle.drop_expired(Instant::now(), expiry);
        let next = idle.connections.first().map(|(_, since)| *since + expiry);
        idle.is_watched = next.is_some();
        next
    }
}

impl Idle {
    fn drop_expired(&mut self, now: Instant, expiry: Duration) {
        self.connections
            .retain(|(connection, since)| !connection.is_closed() && now.saturating_duration_since(*since) < expiry);
    }
}

/// Closes idle connections when their time is over, though nobody asks for another: the server would do so later, and
/// keep the socket until then. It wakes when the oldest may expire, and ends with the last.
async fn close_expired(pool: Weak<Http1Pool>) {
    loop {
        let Some(next) = pool.upgrade().and_then(|pool| pool.close_expired()) else { return };
        tokio::time::sleep_until(next).await;
    }
}

/// What a response body holds of its connection.
pub(crate) struct HeldHttp1 {
    pub(crate) pool: Arc<Http1Pool>,
    pub(crate) connection: H1Connection,
    pub(crate) room: Room,
}

impl Leased {
    pub(crate) fn into_parts(self) -> (H1Connection, Room) {
        (self.connection, self.room)
    }
}

impl Held for HeldHttp1 {
    fn finish(self: Box<Self>) {
        let Self { pool, connection, room } = *self;
        if let Some(connection) = connection.if_sent() {
            pool.put_idle(connection);
        }
        // Whoever waits for room finds the connection there.
        drop(room);
    }
}
