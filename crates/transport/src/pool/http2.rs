//! The HTTP/2 connections of one origin.

use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use arc_swap::ArcSwap;
use oncebox_policy::{Outcome, Phase, ShortText, dial_backoff};
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::growth::{Demand, dials};
use super::http1::Http1Pool;
use super::learned::Learned;
use super::origin::Authority;
use super::permit::Permit;
use super::pick::{Load, pick};
use super::queue::{Place, Queue};
use super::registry::next_connection_id;
use crate::conn::{Failure, H1Connection, H2Connection, Liveness, Owner};
use crate::dial::dial;
use crate::options::Limits;
use crate::tls::{Offer, Tls};

/// A worn connection that is idle for this long and was not retired lives longer than was thought.
const OUTLIVED_AFTER: Duration = Duration::from_secs(1);

/// How long a connection must have been superfluous before it is put aside.
const PEAK_WINDOW: Duration = Duration::from_secs(60);

/// Connections are kept for the peak of the last minute, at this much of their cap.
const SATURATION: f64 = 0.7;

/// What a request wants of the pool.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Want {
    /// A replay goes to the head of the queue.
    pub(crate) is_replay: bool,
    /// The connection that refused it.
    pub(crate) avoid: Option<u64>,
    /// Only a connection that is dialled for it will do.
    pub(crate) fresh: bool,
    /// Failed connects and refusals are not repeated: before the peer's SETTINGS one stream at a time is risked.
    pub(crate) cautious: bool,
    /// The server may choose HTTP/1.1.
    pub(crate) may_choose: bool,
}

/// Why there is no stream.
#[derive(Debug)]
pub(crate) enum Unserved {
    Failed(Failure),
    /// The server chose HTTP/1.1.
    ChoseHttp1,
}

/// See the module.
pub(crate) struct Http2Pool {
    authority: Authority,
    limits: Limits,
    tls: Tls,
    /// Takes the connections of servers that choose HTTP/1.1.
    http1: Arc<Http1Pool>,
    /// Active and cold connections.
    connections: ArcSwap<Vec<Arc<H2Connection>>>,
    waiting: AtomicUsize,
    connecting: AtomicUsize,
    failed_dials: AtomicU32,
    slow: Mutex<Slow>,
    this: Weak<Self>,
}

struct Slow {
    queue: Queue<Waiter>,
    learned: Learned,
    draining: Vec<u64>,
    /// No dial starts before, since earlier ones failed.
    not_before: Option<Instant>,
    /// Whether somebody will look again then.
    look_planned: bool,
    peak: Peak,
}

struct Waiter {
    want: Want,
    served: oneshot::Sender<Result<Permit, Unavailable>>,
}

/// Why there is no connection, for all who waited for one.
#[derive(Clone, Copy, Debug)]
struct Unavailable {
    phase: Phase,
    detail: ShortText,
    chose_http1: bool,
}

impl Unavailable {
    fn new(phase: Phase, detail: ShortText) -> Self {
        Self { phase, detail, chose_http1: false }
    }

    fn into_unserved(self) -> Unserved {
        if self.chose_http1 {
            Unserved::ChoseHttp1
        } else {
            Unserved::Failed(Failure::no_connection(self.phase, self.detail))
        }
    }
}

impl Http2Pool {
    pub(super) fn new(authority: Authority, limits: Limits, tls: Tls, http1: Arc<Http1Pool>) -> Arc<Self> {
        Arc::new_cyclic(|this| Self {
            authority,
            limits,
            tls,
            http1,
            connections: ArcSwap::default(),
            waiting: AtomicUsize::new(0),
            connecting: AtomicUsize::new(0),
            failed_dials: AtomicU32::new(0),
            slow: Mutex::new(Slow {
                queue: Queue::default(),
                learned: Learned::default(),
                draining: Vec::new(),
                not_before: None,
                look_planned: false,
                peak: Peak::default(),
            }),
            this: this.clone(),
        })
    }

    /// A stream. Dropping the future leaves the queue.
    pub(crate) async fn acquire(self: &Arc<Self>, want: Want) -> Result<Permit, Unserved> {
        if want.fresh {
            return self.dial_for_one(want.may_choose).await;
        }
        if self.waiting.load(Ordering::SeqCst) == 0
            && let Some(permit) = self.try_pick(want)
        {
            return Ok(permit);
        }
        let (served, handed) = oneshot::channel();
        let _waiting = {
            let mut slow = self.slow.lock();
            let place = slow.queue.join(Waiter { want, served }, want.is_replay);
            // Announced before the look: a stream that is given back from here on is handed over, and one that was
            // given back before is found.
            self.waiting.store(slow.queue.len(), Ordering::SeqCst);
            self.hand_over(&mut slow);
            self.grow(&mut slow, 0);
            Waiting { pool: self, place }
        };
        match handed.await {
            Ok(Ok(permit)) => Ok(permit),
            Ok(Err(unavailable)) => Err(unavailable.into_unserved()),
            Err(_) => Err(Unserved::Failed(Failure::not_sent("the pool was closed"))),
        }
    }

    /// Whether a connection is open or being dialled, other than this.
    pub(super) fn has_other(&self, connection: Option<u64>) -> bool {
        self.connecting.load(Ordering::Acquire) > 0
            || self.connections.load().iter().any(|open| Some(open.id()) != connection)
    }

    /// How many dials have failed in a row.
    pub(super) fn failed_dials(&self) -> u32 {
        self.failed_dials.load(Ordering::Acquire)
    }

    /// A permit was dropped.
    pub(super) fn release(&self, connection: &Arc<H2Connection>) {
        if connection.load().give_back() == 0 {
            connection.mark_idle();
        }
        if self.waiting.load(Ordering::SeqCst) > 0 {
            let mut slow = self.slow.lock();
            self.hand_over(&mut slow);
            self.grow(&mut slow, 0);
        }
    }

    /// A stream of the connection was answered.
    pub(super) fn served(&self, connection: &Arc<H2Connection>) {
        if connection.mark_served() && self.failed_dials.swap(0, Ordering::AcqRel) > 0 {
            self.slow.lock().not_before = None;
        }
    }

    /// The connection takes no more streams.
    pub(super) fn retire(&self, connection: &Arc<H2Connection>) {
        if !connection.drain() {
            return;
        }
        let mut slow = self.slow.lock();
        self.unlist(connection.id());
        slow.draining.push(connection.id());
        // A GOAWAY on an idle connection tells nothing of how long connections live.
        if connection.load().active() > 0
            && let Some(last) = connection.goaway_last_stream_id()
        {
            slow.learned.retired_at(last);
            let lifetime = slow.learned.lifetime();
            for open in self.connections.load().iter() {
                open.load().set_lifetime(lifetime);
            }
        }
        if !connection.has_served() && connection.load().opened() > 0 {
            let detail = match connection.goaway_last_stream_id() {
                Some(last) => ShortText::new(&format!("GOAWAY with last stream id {last} before it served anything")),
                None => ShortText::new("the connection ended before it served anything"),
            };
            self.dial_failed(&mut slow, self.failed_dials(), Unavailable::new(Phase::Connect, detail));
        }
        // What a GOAWAY refuses comes back at once.
        self.grow(&mut slow, connection.refused_streams() as usize);
    }

    /// Without a lock, from the snapshot.
    fn try_pick(self: &Arc<Self>, want: Want) -> Option<Permit> {
        let connection = self.pick(want)?;
        if connection.load().is_worn() {
            // Its successor is dialled before it is missed.
            let mut slow = self.slow.lock();
            self.grow(&mut slow, 0);
        }
        Some(Permit::new(connection, self.clone()))
    }

    fn pick(&self, want: Want) -> Option<Arc<H2Connection>> {
        let connections = self.connections.load();
        if want.cautious
            && !connections.iter().any(|c| c.announced_cap().is_some())
            && connections.iter().any(|c| c.load().active() > 0)
        {
            return None;
        }
        let picked = pick(&connections, want.avoid, want.is_replay, false);
        if picked.is_some() || self.connecting.load(Ordering::Acquire) > 0 {
            return picked;
        }
        // Worn connections go on being used when there is nothing else.
        let all_worn = connections.iter().all(|c| c.load().is_worn());
        if all_worn { pick(&connections, want.avoid, want.is_replay, true) } else { None }
    }

    /// Hands free streams to those who wait.
    fn hand_over(&self, slow: &mut Slow) {
        let Some(this) = self.this.upgrade() else { return };
        while let Some(want) = slow.queue.front().map(|waiter| waiter.want) {
            let Some(mut connection) = self.pick(want) else { break };
            loop {
                let Some(waiter) = slow.queue.pop() else {
                    connection.load().untake();
                    break;
                };
                match waiter.served.send(Ok(Permit::new(connection, this.clone()))) {
                    Ok(()) => break,
                    // It left just now: its stream is the next one's.
                    Err(Ok(permit)) => connection = permit.disarm(),
                    Err(Err(_)) => break,
                }
            }
        }
        self.waiting.store(slow.queue.len(), Ordering::SeqCst);
    }

    /// Dials what the streams that are short need. `returning` requests are not in the queue yet, but will be.
    fn grow(&self, slow: &mut Slow, returning: usize) {
        let wanted = slow.queue.len() + returning;
        let connections = self.connections.load();
        // The peer's SETTINGS themselves, since whoever read them may be waiting for the lock to make them known.
        let cap_of = |c: &H2Connection| c.announced_cap().unwrap_or_else(|| slow.learned.cap());
        let free_of = |c: &Arc<H2Connection>| if c.is_active() { c.load().free(cap_of(c)) as usize } else { 0 };
        let demand = Demand {
            wanted,
            free: connections.iter().map(free_of).sum(),
            connecting: self.connecting.load(Ordering::Acquire),
            per_connection: slow.learned.per_connection(),
            open: connections.len(),
            draining: slow.draining.len(),
            max_connections: self.limits.max_connections,
        };
        let mut count = dials(demand);
        if slow.learned.lifetime() < u32::MAX {
            // Each stream that is open now will soon want another; connections at their end have none to give.
            let active: usize = connections.iter().map(|c| c.load().active() as usize).sum();
            let left = connections.iter().map(|c| c.load().free(u32::MAX) as usize).sum();
            count = count.max(dials(Demand { wanted: active + wanted, free: left, ..demand }));
        }
        for connection in connections.iter() {
            if count > 0 && connection.warm(cap_of(connection)) {
                count -= 1;
            }
        }
        if count == 0 {
            return;
        }
        if let Some(at) = slow.not_before.filter(|at| *at > Instant::now()) {
            self.look_again(slow, at);
            return;
        }
        let may_choose = slow.queue.front().is_some_and(|waiter| waiter.want.may_choose);
        for _ in 0..count {
            self.connecting.fetch_add(1, Ordering::AcqRel);
            let Some(pool) = self.this.upgrade() else { return };
            tokio::spawn(async move {
                // Counted down also when the runtime ends and drops this.
                let connecting = Connecting { pool: &pool, round: pool.failed_dials() };
                let opened = pool.open(may_choose).await;
                connecting.end(opened);
            });
        }
    }

    async fn open(&self, may_choose: bool) -> Result<Arc<H2Connection>, Unavailable> {
        let offer = if may_choose { Offer::Either } else { Offer::Http2 };
        let dialled = dial(&self.authority, &self.tls, offer).await.map_err(unavailable)?;
        if self.authority.is_https() && !dialled.chose_http2 {
            if !may_choose {
                let detail = "the server does not speak HTTP/2 (http_version)".into();
                return Err(Unavailable::new(Phase::Tls, detail));
            }
            let connection = H1Connection::open(dialled.stream, next_connection_id()).await;
            let connection = connection.map_err(|error| unavailable(Failure::dial(Phase::Connect, error)))?;
            self.http1.put_idle(connection);
            return Err(Unavailable { chose_http1: true, ..Unavailable::new(Phase::Tls, ShortText::EMPTY) });
        }
        let load = {
            let slow = self.slow.lock();
            let known = slow.learned.is_announced();
            let cap = if known { slow.learned.cap() } else { self.limits.initial_streams };
            Load::new(cap, slow.learned.lifetime())
        };
        let liveness = Liveness { interval: self.limits.ping_interval, timeout: self.limits.ping_timeout };
        H2Connection::open(dialled.stream, next_connection_id(), load, liveness, self.this.clone())
            .await
            .map_err(|error| unavailable(Failure::dial(Phase::Connect, error)))
    }

    fn opened(&self, slow: &mut Slow, connection: Arc<H2Connection>) {
        // A GOAWAY may have come already.
        if !connection.is_draining() {
            self.connections.rcu(|list| {
                let mut list = Vec::clone(list);
                list.push(connection.clone());
                list
            });
            if connection.is_draining() {
                self.unlist(connection.id());
            }
        }
        self.hand_over(slow);
        self.grow(slow, 0);
    }

    /// Takes note of a failed dial, and tells all who wait when nothing else can help them.
    ///
    /// Dials that began in the same round count as one: the origin failed once, however many asked.
    fn dial_failed(&self, slow: &mut Slow, round: u32, why: Unavailable) {
        let failed = round.saturating_add(1);
        let _ = self.failed_dials.compare_exchange(round, failed, Ordering::AcqRel, Ordering::Acquire);
        // The shortest wait that those who try again may draw: whoever is first dials for all.
        let at = Instant::now() + dial_backoff(failed, 0.0);
        slow.not_before = Some(at);
        if self.connections.load().is_empty() && self.connecting.load(Ordering::Acquire) == 0 {
            self.dismiss(slow, why);
        } else if !slow.queue.is_empty() {
            self.look_again(slow, at);
        }
    }

    /// Tells all who wait that there will be no stream.
    fn dismiss(&self, slow: &mut Slow, why: Unavailable) {
        for waiter in slow.queue.drain() {
            // One that left in the meantime needs no answer.
            let _ = waiter.served.send(Err(why));
        }
        self.waiting.store(0, Ordering::SeqCst);
    }

    fn look_again(&self, slow: &mut Slow, at: Instant) {
        if std::mem::replace(&mut slow.look_planned, true) {
            return;
        }
        let pool = self.this.clone();
        tokio::spawn(async move {
            tokio::time::sleep_until(at).await;
            if let Some(pool) = pool.upgrade() {
                let mut slow = pool.slow.lock();
                slow.look_planned = false;
                pool.grow(&mut slow, 0);
            }
        });
    }

    /// A connection of its own, for a request that may use no other.
    async fn dial_for_one(self: &Arc<Self>, may_choose: bool) -> Result<Permit, Unserved> {
        let connection = self.open(may_choose).await.map_err(Unavailable::into_unserved)?;
        let taken = connection.load().take();
        let mut slow = self.slow.lock();
        self.opened(&mut slow, connection.clone());
        drop(slow);
        if taken {
            Ok(Permit::new(connection, self.clone()))
        } else {
            Err(Unserved::Failed(Failure::not_sent("the new connection takes no streams")))
        }
    }

    fn unlist(&self, id: u64) {
        self.connections.rcu(|list| list.iter().filter(|open| open.id() != id).cloned().collect::<Vec<_>>());
    }

    /// Puts aside what the last minute did not need.
    fn shrink(&self, slow: &mut Slow) {
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

impl Owner for Http2Pool {
    fn announced(&self, connection: &Arc<H2Connection>, cap: u32) {
        let mut slow: MutexGuard<'_, Slow> = self.slow.lock();
        slow.learned.announced(cap);
        connection.set_cap(cap);
        self.hand_over(&mut slow);
        self.grow(&mut slow, 0);
    }

    fn retire(&self, connection: &Arc<H2Connection>) {
        Self::retire(self, connection);
    }

    fn tick(&self, connection: &Arc<H2Connection>) {
        let expired = connection.idle_for() >= self.limits.keepalive_expiry;
        let age = self.limits.max_connection_age;
        let old = !age.is_zero() && connection.is_older_than(age);
        if expired {
            self.retire(connection);
            return;
        }
        let mut slow = self.slow.lock();
        if old {
            // Its successor comes first; it is retired once there is one, or nobody needs it.
            connection.load().set_lifetime(connection.load().opened());
            let alone = !self.has_other(Some(connection.id()));
            if !alone || connection.load().active() == 0 {
                drop(slow);
                self.retire(connection);
                return;
            }
            self.grow(&mut slow, connection.load().active() as usize);
        } else if connection.load().is_worn() && connection.idle_for() >= OUTLIVED_AFTER {
            slow.learned.outlived(connection.load().opened());
            connection.load().extend_lifetime();
        }
        self.shrink(&mut slow);
    }

    fn ended(&self, id: u64) {
        let mut slow = self.slow.lock();
        slow.draining.retain(|draining| *draining != id);
        self.hand_over(&mut slow);
        self.grow(&mut slow, 0);
    }
}

fn unavailable(failure: Failure) -> Unavailable {
    match failure.outcome {
        Outcome::NotSent(not_sent) => Unavailable::new(not_sent.phase, not_sent.detail),
        _ => Unavailable::new(Phase::Connect, ShortText::new(&failure.source.to_string())),
    }
}

/// A place in the queue that is given up when the future is dropped.
struct Waiting<'a> {
    pool: &'a Http2Pool,
    place: Place,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut slow = self.pool.slow.lock();
        if slow.queue.leave(self.place).is_some() {
            self.pool.waiting.store(slow.queue.len(), Ordering::SeqCst);
        }
    }
}

/// A dial under way.
struct Connecting<'a> {
    pool: &'a Http2Pool,
    /// How many rounds of dials had failed when it began.
    round: u32,
}

impl Connecting<'_> {
    fn end(self, opened: Result<Arc<H2Connection>, Unavailable>) {
        let (pool, round) = (self.pool, self.round);
        let mut slow = pool.slow.lock();
        // Under the lock: nobody may see neither the dial nor its connection, and dial for it once more.
        drop(self);
        match opened {
            Ok(connection) => pool.opened(&mut slow, connection),
            // The dial did not fail: whoever waits goes on over HTTP/1.1.
            Err(why) if why.chose_http1 => pool.dismiss(&mut slow, why),
            Err(why) => pool.dial_failed(&mut slow, round, why),
        }
    }
}

impl Drop for Connecting<'_> {
    fn drop(&mut self) {
        self.pool.connecting.fetch_sub(1, Ordering::AcqRel);
    }
}

/// The most streams at once in the last minute or two.
#[derive(Debug, Default)]
struct Peak {
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
