//! HTTP/2 connections, driven directly over the `h2` crate.
//!
//! What `h2` does not tell comes from the shim below it ([`crate::io`]): the highest stream id whose HEADERS were
//! written, and GOAWAY with its last stream id.

mod deadlines;
mod driver;
mod exchange;
mod upload;

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use h2::client::SendRequest;
use oncebox_policy::{Cause, ShortText};
use tokio::time::Instant;

use super::Failure;
use crate::io::{Observed, Protocol, Stream, Wire};
use crate::pool::Load;

use deadlines::Deadlines;
pub(crate) use deadlines::FAR;
use driver::Driver;
pub(crate) use exchange::{Exchange, H2Response, H2Stream};

/// Stream window: how much of one response may wait unread.
const STREAM_WINDOW: u32 = 1 << 20;

/// Connection window. As large as it can be, so that responses which nobody reads cannot starve the others.
///
/// `h2` also takes half of it for the memory that small unread frames may cost beyond their bytes, and ends a
/// connection that costs more: a gigabyte, which is millions of frames on several streams, and a bound that there
/// should be.
const CONNECTION_WINDOW: u32 = (1 << 31) - 1;

/// Streams assumed to be allowed by a peer whose SETTINGS name no limit.
const UNLIMITED: u32 = u32::MAX;

/// The id in the first GOAWAY of a graceful shutdown (RFC 9113 §6.8).
const NO_LAST_STREAM: u32 = (1 << 31) - 1;

/// Who is told what happens to a connection: the pool.
pub(crate) trait Owner: Send + Sync + 'static {
    /// The peer announced how many streams it allows.
    fn announced(&self, connection: &Arc<H2Connection>, cap: u32);
    /// It ended, or lets no more streams in. Said again when more is known of that.
    fn lost(&self, connection: &Arc<H2Connection>);
    /// Time passed.
    fn tick(&self, connection: &Arc<H2Connection>);
    /// It is gone.
    fn ended(&self, id: u64);
}

/// When a silent connection is asked whether it lives.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Liveness {
    /// Silence before a PING, while streams are open; zero for never.
    pub(crate) interval: Duration,
    /// How long its answer may take.
    pub(crate) timeout: Duration,
}

/// An HTTP/2 connection. It closes when the last reference to it and its last stream are gone.
pub(crate) struct H2Connection {
    sender: SendRequest<Bytes>,
    facts: Arc<Facts>,
    load: Load,
    id: u64,
    opened_at: Instant,
    /// Milliseconds after `opened_at` when the last stream ended.
    idle_since: AtomicU64,
    /// Each connection expires a little earlier or later than the others, in thousandths.
    jitter: u16,
    phase: AtomicU8,
    round: u32,
}

/// What the driver and the streams both know.
#[derive(Debug, Default)]
struct Facts {
    wire: Arc<Wire>,
    ping_failed: AtomicBool,
    deadlines: Deadlines,
}

const ACTIVE: u8 = 0;
const COLD: u8 = 1;
const DRAINING: u8 = 2;

impl H2Connection {
    /// Takes over a new socket. `load` says how many streams may be open before the peer's first SETTINGS, `round` how
    /// many rounds of dials had failed.
    pub(crate) async fn open(
        socket: Stream,
        id: u64,
        round: u32,
        load: Load,
        liveness: Liveness,
        owner: Weak<impl Owner>,
    ) -> Result<Arc<Self>, h2::Error> {
        let (io, wire) = Observed::new(socket, Protocol::Http2);
        let (sender, driver) = h2::client::Builder::new()
            .enable_push(false)
            .initial_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            // Late answers to cancelled streams must not end the connection for everyone else.
            .max_local_error_reset_streams(None)
            .max_concurrent_reset_streams(1024)
            .handshake::<_, Bytes>(io)
            .await?;
        let facts = Arc::new(Facts { wire, ..Facts::default() });
        let connection = Arc::new(Self {
            sender,
            facts: facts.clone(),
            load,
            id,
            opened_at: Instant::now(),
            idle_since: AtomicU64::new(0),
            jitter: fastrand::u16(900..=1100),
            phase: AtomicU8::new(ACTIVE),
            round,
        });
        let weak = Arc::downgrade(&connection);
        tokio::spawn(Driver::new(driver, facts, (weak, id), owner, liveness).run());
        Ok(connection)
    }

    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    pub(crate) fn load(&self) -> &Load {
        &self.load
    }

    /// How many streams the peer allows at once, once its SETTINGS have come.
    pub(crate) fn announced_cap(&self) -> Option<u32> {
        self.facts.wire.max_concurrent_streams().map(|cap| cap.unwrap_or(UNLIMITED))
    }

    /// The peer's GOAWAY, if one came: its last stream id.
    pub(crate) fn goaway_last_stream_id(&self) -> Option<u32> {
        self.facts.wire.goaway_last_stream_id()
    }

    /// The same, where it is the last stream that the peer served. The first GOAWAY of a graceful shutdown names the
    /// highest id there is, and the exact one comes later (RFC 9113 §6.8).
    pub(crate) fn retired_at(&self) -> Option<u32> {
        self.goaway_last_stream_id().filter(|last| *last < NO_LAST_STREAM)
    }

    /// How many open streams a GOAWAY refuses, at most.
    pub(crate) fn refused_streams(&self) -> u32 {
        let Some(last) = self.goaway_last_stream_id() else { return 0 };
        let above = (self.facts.wire.highest_headers().saturating_sub(last)) / 2;
        above.min(self.load.active())
    }

    /// Whether it takes no more streams and was of no use: no request was answered, and none that was sent will be by
    /// the promise of a GOAWAY.
    pub(crate) fn served_nothing(&self) -> bool {
        let wire = &self.facts.wire;
        let will_serve = || {
            let is_promised = self.goaway_last_stream_id().is_some_and(|last| last > 0);
            is_promised && wire.highest_headers() > 0 && !wire.ended()
        };
        !wire.answered() && !will_serve()
    }

    /// How it ended that [served nothing](Self::served_nothing).
    pub(crate) fn ended_unused(&self) -> ShortText {
        match self.goaway_last_stream_id() {
            Some(last) => ShortText::new(&format!("GOAWAY with last stream id {last} before it served anything")),
            None => ShortText::new("the connection ended before it served anything"),
        }
    }

    /// How many rounds of dials had failed when it was dialled.
    pub(crate) fn round(&self) -> u32 {
        self.round
    }

    /// Takes no more streams from here on. `false`: that was so before.
    pub(crate) fn drain(&self) -> bool {
        let first = self.phase.swap(DRAINING, Ordering::AcqRel) != DRAINING;
        self.load.set_cap(0);
        first
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.phase.load(Ordering::Acquire) == DRAINING
    }

    /// Takes no streams until it is [warmed](Self::warm). `false`: it is draining.
    pub(crate) fn cool(&self) -> bool {
        let cooled = self.phase.compare_exchange(ACTIVE, COLD, Ordering::AcqRel, Ordering::Acquire).is_ok();
        if cooled {
            self.load.set_cap(0);
        }
        cooled
    }

    /// Takes streams again. `false`: it was not cold.
    pub(crate) fn warm(&self, cap: u32) -> bool {
        let warmed = self.phase.compare_exchange(COLD, ACTIVE, Ordering::AcqRel, Ordering::Acquire).is_ok();
        if warmed {
            self.load.set_cap(cap);
            // It may have begun to drain in between, and then the cap is 0 for good.
            if self.is_draining() {
                self.load.set_cap(0);
            }
        }
        warmed
    }

    pub(crate) fn is_active(&self) -> bool {
        self.phase.load(Ordering::Acquire) == ACTIVE
    }

    /// The cap that holds: the peer's.
    pub(crate) fn set_cap(&self, cap: u32) {
        if self.is_active() {
            self.load.set_cap(cap);
            if !self.is_active() {
                self.load.set_cap(0);
            }
        }
    }

    /// The last stream ended just now.
    pub(crate) fn mark_idle(&self) {
        let since = u64::try_from(self.opened_at.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.idle_since.store(since, Ordering::Release);
    }

    /// How long no stream was open.
    pub(crate) fn idle_for(&self) -> Duration {
        if self.load.active() > 0 {
            return Duration::ZERO;
        }
        let since = Duration::from_millis(self.idle_since.load(Ordering::Acquire));
        self.opened_at.elapsed().saturating_sub(since)
    }

    /// Whether it is older than this, give or take a tenth.
    pub(crate) fn is_older_than(&self, age: Duration) -> bool {
        self.opened_at.elapsed() >= age.mul_f64(f64::from(self.jitter) / 1000.0)
    }

    /// What is known of a request whose head was not written before the connection ended.
    fn unsent(&self, error: h2::Error) -> Failure {
        if self.served_nothing() { Failure::unserved(self.ended_unused(), error) } else { Failure::not_sent(error) }
    }

    /// What is known of a request whose stream ended in an error before the response. An interim one (1xx) is none.
    fn classify(&self, error: h2::Error, stream_id: u32) -> Failure {
        let wire = &self.facts.wire;
        if wire.highest_headers() < stream_id {
            return self.unsent(error);
        }
        let goaway = wire.goaway().filter(|goaway| stream_id > goaway.last_stream_id);
        if error.is_reset() && error.is_remote() {
            let code = error.reason().map_or(0, u32::from);
            let failure = Failure::reset(stream_id, code, error);
            // Whatever the reset was for, a GOAWAY that is known by now may tell that nothing came of the stream.
            return match goaway {
                Some(goaway) if !failure.is_refused() => Failure::goaway(stream_id, &goaway, failure.source),
                _ => failure,
            };
        }
        match goaway {
            Some(goaway) => Failure::goaway(stream_id, &goaway, error),
            _ if self.facts.ping_failed.load(Ordering::Acquire) => {
                Failure::unknown(Cause::PingTimeout, Some(stream_id), error)
            }
            _ if error.is_library() => Failure::unknown(Cause::Protocol, Some(stream_id), error),
            _ => Failure::unknown(Cause::ConnectionLost, Some(stream_id), error),
        }
    }
}
