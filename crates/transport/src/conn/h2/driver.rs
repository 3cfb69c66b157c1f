//! The task that drives one connection.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use h2::{Ping, PingPong};
use tokio::time::{Instant, Interval, MissedTickBehavior};

use super::{Facts, H2Connection, Liveness, Owner, UNLIMITED};
use crate::io::{Observed, Stream};

/// How long a connection whose writes fail is still read, for what has already arrived.
const READ_AFTER_WRITE_ERROR: Duration = Duration::from_millis(250);

/// How often a connection looks at its age and idleness, and at the deadlines of its calls.
pub(super) const TICK: Duration = Duration::from_secs(1);

/// Runs one connection: keeps the cap current, drains it on GOAWAY, asks whether a silent peer lives.
pub(super) struct Driver<O> {
    driver: h2::client::Connection<Observed<Stream>, Bytes>,
    facts: Arc<Facts>,
    connection: Weak<H2Connection>,
    owner: Weak<O>,
    id: u64,
    cap: Option<u32>,
    /// What was known when the owner was told last that the connection drains.
    told: Option<KnownEnd>,
    pinger: Option<Pinger>,
    ticks: Interval,
    grace: Option<Pin<Box<tokio::time::Sleep>>>,
}

/// What is known of a connection's end.
#[derive(Clone, Copy, PartialEq, Eq)]
struct KnownEnd {
    /// That of the GOAWAYs so far.
    last_stream_id: Option<u32>,
    /// Nothing more can come.
    ended: bool,
}

impl<O: Owner> Driver<O> {
    pub(super) fn new(
        mut driver: h2::client::Connection<Observed<Stream>, Bytes>,
        facts: Arc<Facts>,
        (connection, id): (Weak<H2Connection>, u64),
        owner: Weak<O>,
        liveness: Liveness,
    ) -> Self {
        let pinger = driver.ping_pong().map(|ping_pong| Pinger::new(ping_pong, liveness));
        Self { driver, facts, connection, owner, id, cap: None, told: None, pinger, ticks: ticks(), grace: None }
    }

    pub(super) async fn run(mut self) {
        let ended = poll_fn(|cx| self.poll(cx)).await;
        if let Err(error) = ended {
            tracing::debug!(connection = self.id, %error, "HTTP/2 connection ended with an error");
        }
        self.lost();
        self.facts.deadlines.end();
        let (owner, id) = (self.owner.clone(), self.id);
        // The socket is closed before the owner hears that there is room for another.
        drop(self);
        if let Some(owner) = owner.upgrade() {
            owner.ended(id);
        }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), h2::Error>> {
        let polled = Pin::new(&mut self.driver).poll(cx);
        self.report();
        if polled.is_ready() {
            return polled;
        }
        if self.facts.wire.write_failed() {
            self.lost();
            let grace = self
                .grace
                .get_or_insert_with(|| Box::pin(tokio::time::sleep_until(Instant::now() + READ_AFTER_WRITE_ERROR)));
            return grace.as_mut().poll(cx).map(|()| Ok(()));
        }
        while self.ticks.poll_tick(cx).is_ready() {
            self.facts.deadlines.tick(Instant::now());
            if let (Some(owner), Some(connection)) = (self.owner.upgrade(), self.connection.upgrade()) {
                let read = self.facts.wire.bytes_read();
                if let Some(pinger) = &mut self.pinger {
                    pinger.tick(read, connection.load.active() > 0, connection.load.opened());
                }
                owner.tick(&connection);
            }
        }
        if let Some(pinger) = &mut self.pinger
            && pinger.poll_overdue(cx)
        {
            self.facts.ping_failed.store(true, Ordering::Release);
            // Dropping the connection ends its streams, which then find the reason.
            return Poll::Ready(Ok(()));
        }
        Poll::Pending
    }

    /// Tells the owner what the bytes just read have said.
    fn report(&mut self) {
        let cap = self.facts.wire.max_concurrent_streams();
        if let Some(cap) = cap.map(|cap| cap.unwrap_or(UNLIMITED))
            && self.cap != Some(cap)
        {
            self.cap = Some(cap);
            if let (Some(owner), Some(connection)) = (self.owner.upgrade(), self.connection.upgrade()) {
                owner.announced(&connection, cap);
            }
        }
        if self.facts.wire.is_going_away() {
            self.lost();
        }
    }

    fn lost(&mut self) {
        let wire = &self.facts.wire;
        let known = KnownEnd { last_stream_id: wire.goaway_last_stream_id(), ended: wire.ended() };
        if self.told.replace(known) != Some(known)
            && let (Some(owner), Some(connection)) = (self.owner.upgrade(), self.connection.upgrade())
        {
            owner.lost(&connection);
        }
    }
}

/// Asks a silent peer whether it lives (RFC 9113 §6.7). Any byte counts as life.
struct Pinger {
    ping_pong: PingPong,
    liveness: Liveness,
    read: u64,
    /// Streams opened until the last tick.
    opened: u32,
    /// A stream was open, or was opened and given up, since anything was read: the peer owes an answer.
    owed: bool,
    silent_since: Instant,
    sent: Option<Instant>,
}

impl Pinger {
    fn new(ping_pong: PingPong, liveness: Liveness) -> Self {
        Self { ping_pong, liveness, read: 0, opened: 0, owed: false, silent_since: Instant::now(), sent: None }
    }

    fn tick(&mut self, read: u64, busy: bool, opened: u32) {
        let news = read != self.read;
        // Streams that ran into a timeout count: a dead connection would else look idle between two of them, and time
        // out whoever comes next, for ever.
        self.owed = busy || (!news && (self.owed || opened != self.opened));
        (self.read, self.opened) = (read, opened);
        if news || !self.owed {
            self.silent_since = Instant::now();
            self.sent = None;
        } else if self.sent.is_none()
            && !self.liveness.interval.is_zero()
            && self.silent_since.elapsed() >= self.liveness.interval
            && self.ping_pong.send_ping(Ping::opaque()).is_ok()
        {
            self.sent = Some(Instant::now());
        }
    }

    /// Whether a PING was not answered in time.
    fn poll_overdue(&mut self, cx: &mut Context<'_>) -> bool {
        // The answer itself was a byte that was read; this only clears it for the next PING.
        let _ = self.ping_pong.poll_pong(cx);
        self.sent.is_some_and(|sent| sent.elapsed() >= self.liveness.timeout)
    }
}

fn ticks() -> Interval {
    let mut ticks = tokio::time::interval_at(Instant::now() + TICK, TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}
