//! The HTTP/2 connections of one origin.

mod dialling;
mod ending;
mod sharing;
mod upkeep;

use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use oncebox_policy::{Phase, ShortText};
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::bound::Bound;
use super::http1::Http1Pool;
use super::learned::Learned;
use super::line::{Line, Locked};
use super::permit::Permit;
use super::pick::pick;
use super::queue::Place;
use super::snapshot::Snapshot;
use crate::conn::{Failure, H2Connection};
use crate::dial::{DialError, Dialer};
use crate::observe::Shown;
use crate::options::{Limits, TrafficClass};

use ending::Draining;
use upkeep::Peak;

/// What a request wants of the pool.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Want {
    /// A replay goes to the head of the queue.
    pub(crate) is_replay: bool,
    /// The connection that refused it.
    pub(crate) avoid: Option<u64>,
    /// Only a connection that is dialled for it will do, where there is room for one.
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
    class: TrafficClass,
    /// What all classes of the origin use together.
    bound: Arc<Bound>,
    dialer: Arc<Dialer>,
    limits: Limits,
    /// Takes the connections of servers that choose HTTP/1.1.
    http1: Arc<Http1Pool>,
    /// Active and cold connections. Changed under the line's lock only.
    connections: Snapshot<Vec<Arc<H2Connection>>>,
    connecting: AtomicUsize,
    failed_dials: AtomicU32,
    line: Line<Waiter, State>,
    shown: Arc<Shown>,
    /// Streams are given back from anywhere, also from where there is no runtime.
    runtime: Handle,
    this: Weak<Self>,
}

/// What only happens under the lock.
#[derive(Default)]
struct State {
    learned: Learned,
    draining: Vec<Draining>,
    /// No dial starts before, since earlier ones failed.
    not_before: Option<Instant>,
    /// Whether somebody will look again then.
    look_planned: bool,
    peak: Peak,
}

type Slow<'a> = Locked<'a, Waiter, State>;

struct Waiter {
    want: Want,
    served: oneshot::Sender<Result<Permit, Unavailable>>,
}

/// Why there is no connection, for all who waited for one.
#[derive(Clone, Debug)]
struct Unavailable {
    phase: Phase,
    detail: ShortText,
    chose_http1: bool,
    /// The whole text, where a dial failed.
    error: Option<DialError>,
}

impl Unavailable {
    fn new(phase: Phase, detail: ShortText) -> Self {
        Self { phase, detail, chose_http1: false, error: None }
    }

    fn into_unserved(self) -> Unserved {
        if self.chose_http1 {
            Unserved::ChoseHttp1
        } else {
            Unserved::Failed(match self.error {
                Some(error) => Failure::dial(self.phase, error),
                None => Failure::no_connection(self.phase, self.detail),
            })
        }
    }
}

impl Http2Pool {
    pub(super) fn new(
        class: TrafficClass,
        bound: Arc<Bound>,
        dialer: Arc<Dialer>,
        limits: Limits,
        http1: Arc<Http1Pool>,
        shown: Arc<Shown>,
    ) -> Arc<Self> {
        Arc::new_cyclic(|this| Self {
            class,
            bound,
            dialer,
            limits,
            http1,
            connections: Snapshot::default(),
            connecting: AtomicUsize::new(0),
            failed_dials: AtomicU32::new(0),
            line: Line::new(State::default()),
            shown,
            runtime: Handle::current(),
            this: this.clone(),
        })
    }

    /// A stream, where one is free and nobody waits for it.
    pub(crate) fn try_acquire(self: &Arc<Self>, want: Want) -> Option<Permit> {
        // Those who are cautious look under the lock, so that two of them never see the same last chance.
        if want.fresh || want.cautious || self.line.is_anyone_waiting() {
            return None;
        }
        self.try_pick(want)
    }

    /// A stream, when there is none at once. Dropping the future leaves the queue.
    pub(crate) async fn acquire(self: &Arc<Self>, want: Want) -> Result<Permit, Unserved> {
        if want.fresh
            // In a box: few attempts dial, and all have room for it otherwise.
            && let Some(served) = Box::pin(self.dial_for_one(want.may_choose)).await
        {
            return served;
        }
        let (served, handed) = oneshot::channel();
        let _waiting = {
            let mut slow = self.line.lock();
            let place = slow.join(Waiter { want, served }, want.is_replay);
            self.settle(&mut slow, 0);
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

    /// Whether who waits here waits for a dial, rather than for those who hold what there is.
    pub(super) fn waits_for_dial(&self) -> bool {
        let is_dialling = self.connecting.load(Ordering::Acquire) > 0;
        self.connections.load().is_empty() && (is_dialling || !self.bound.is_full(self.class))
    }

    /// Whether somebody waits and nothing is open or coming that could help.
    fn is_starving(&self) -> bool {
        self.line.is_anyone_waiting()
            && self.connecting.load(Ordering::Acquire) == 0
            && self.connections.load().is_empty()
    }

    /// How many dials have failed in a row.
    pub(super) fn failed_dials(&self) -> u32 {
        self.failed_dials.load(Ordering::Acquire)
    }

    /// A permit was dropped.
    pub(super) fn release(&self, connection: &Arc<H2Connection>) {
        if connection.load().give_back() == 0 {
            connection.mark_idle();
            if self.bound.is_crowded() && self.bound.others(self.class).any(|other| other.is_starving()) {
                self.make_room(&mut self.line.lock(), Duration::ZERO);
            }
        }
        if self.line.is_anyone_waiting() {
            self.settle(&mut self.line.lock(), 0);
        }
    }

    /// A stream was answered: the origin can be reached.
    pub(super) fn served(&self) {
        if self.failed_dials.load(Ordering::Acquire) > 0 {
            let mut slow = self.line.lock();
            self.failed_dials.store(0, Ordering::Release);
            slow.not_before = None;
            self.settle(&mut slow, 0);
        }
    }

    /// Without a lock, from the snapshot.
    fn try_pick(self: &Arc<Self>, want: Want) -> Option<Permit> {
        let connection = self.pick(want, false)?;
        if connection.load().is_worn() {
            // Its successor is dialled before it is missed.
            self.grow(&mut self.line.lock(), 0);
        }
        Some(Permit::new(connection, self.clone()))
    }

    fn pick(&self, want: Want, worn: bool) -> Option<Arc<H2Connection>> {
        self.connections.read(|connections| {
            if want.cautious
                && !connections.iter().any(|c| c.announced_cap().is_some())
                && connections.iter().any(|c| c.load().active() > 0)
            {
                return None;
            }
            pick(connections, want.avoid, want.is_replay, worn)
        })
    }
}

/// A place in the line that is given up when the future is dropped.
struct Waiting<'a> {
    pool: &'a Http2Pool,
    place: Place,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut slow = self.pool.line.lock();
        if slow.leave(self.place).is_some() {
            self.pool.show(&slow);
        }
    }
}
