//! The HTTP/1.1 connections of one origin: one exchange each, kept alive in between.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use oncebox_policy::{Connection, Phase};
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use super::origin::Progress;
use super::registry::next_connection_id;
use crate::body::Held;
use crate::conn::{Failure, H1Connection};
use crate::dial::Dialer;
use crate::options::Limits;
use crate::tls::Offer;

/// See the module.
pub(crate) struct Http1Pool {
    dialer: Arc<Dialer>,
    limits: Limits,
    /// One for each connection that may be in use; first come, first served.
    room: Arc<Semaphore>,
    /// The most recently used one is at the end.
    idle: Mutex<Vec<(H1Connection, Instant)>>,
    failed_dials: AtomicU32,
}

/// A connection in use.
pub(crate) struct Leased {
    pub(crate) connection: H1Connection,
    room: OwnedSemaphorePermit,
}

impl Http1Pool {
    pub(super) fn new(dialer: Arc<Dialer>, limits: Limits) -> Arc<Self> {
        Arc::new(Self {
            dialer,
            limits,
            room: Arc::new(Semaphore::new(limits.max_connections)),
            idle: Mutex::default(),
            failed_dials: AtomicU32::new(0),
        })
    }

    /// An idle connection, or a new one; waits while as many as are allowed are in use.
    pub(crate) async fn acquire(&self, wanted: Connection, progress: &Progress) -> Result<Leased, Failure> {
        progress.waits();
        let room = Arc::clone(&self.room).acquire_owned().await;
        let room = room.map_err(|_| Failure::not_sent("the pool was closed"))?;
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

    async fn dial(&self) -> Result<H1Connection, Failure> {
        let round = self.failed_dials();
        let opened = match self.dialer.dial(Offer::Http1).await {
            Ok(dialled) => H1Connection::open(dialled.stream, next_connection_id())
                .await
                .map_err(|error| Failure::dial(Phase::Connect, error)),
            Err(failure) => Err(failure),
        };
        match &opened {
            Ok(_) => self.failed_dials.store(0, Ordering::Release),
            // Dials that began in the same round count as one: the origin failed once, however many asked.
            Err(_) => {
                let next = round.saturating_add(1);
                let _ = self.failed_dials.compare_exchange(round, next, Ordering::AcqRel, Ordering::Acquire);
            }
        }
        opened
    }

    /// How many dials have failed in a row.
    pub(super) fn failed_dials(&self) -> u32 {
        self.failed_dials.load(Ordering::Acquire)
    }

    /// The most recently used connection that is still good; the others are dropped as they are found to be over.
    fn take_idle(&self) -> Option<H1Connection> {
        let mut idle = self.idle.lock();
        while let Some((connection, since)) = idle.pop() {
            if !connection.is_closed() && since.elapsed() < self.limits.http1_keepalive_expiry() {
                return Some(connection);
            }
        }
        None
    }

    pub(super) fn put_idle(&self, connection: H1Connection) {
        if connection.is_closed() {
            return;
        }
        let mut idle = self.idle.lock();
        let now = Instant::now();
        idle.retain(|(connection, since)| {
            !connection.is_closed() && now.saturating_duration_since(*since) < self.limits.http1_keepalive_expiry()
        });
        idle.push((connection, now));
    }
}

/// What a response body holds of its connection.
pub(crate) struct HeldHttp1 {
    pub(crate) pool: Arc<Http1Pool>,
    pub(crate) connection: H1Connection,
    pub(crate) room: OwnedSemaphorePermit,
}

impl Leased {
    pub(crate) fn into_parts(self) -> (H1Connection, OwnedSemaphorePermit) {
        (self.connection, self.room)
    }
}

impl Held for HeldHttp1 {
    fn finish(self: Box<Self>) {
        let Self { pool, connection, room } = *self;
        pool.put_idle(connection);
        // Whoever waits for room finds the connection there.
        drop(room);
    }
}
