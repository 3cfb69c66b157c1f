//! Who waits and what is free, brought together; and how many connections that takes.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::{Http2Pool, Slow};
use crate::conn::H2Connection;
use crate::observe::Connections;
use crate::pool::growth::{Demand, missing, room};
use crate::pool::permit::Permit;

/// A connection that is idle for this long is given up for another class that has some, but too few.
const SPARE_AFTER: Duration = Duration::from_secs(1);

impl Http2Pool {
    /// Brings together those who wait and what can serve them. After each change that may matter to either, so that
    /// free capacity never stays beside a waiter. `returning` requests are not in the line yet, but will be.
    pub(super) fn settle(&self, slow: &mut Slow<'_>, returning: usize) {
        self.hand_over(slow, false);
        self.grow(slow, returning);
        if slow.len() > 0 {
            // What was cold takes streams again. Worn connections go on being used where no other is to be had.
            self.hand_over(slow, self.connecting.load(Ordering::Acquire) == 0);
        }
        self.show(slow);
    }

    /// Tells observers what there is now.
    pub(super) fn show(&self, slow: &Slow<'_>) {
        if self.shown.is_watched() {
            // The first part is that of HTTP/1.1.
            self.shown.set(1 + self.class as usize, || Connections {
                open: self.connections.load().len(),
                draining: slow.draining.len(),
                waiting: slow.len(),
            });
        }
    }

    pub(in crate::pool) fn show_now(&self) {
        self.show(&self.line.lock());
    }

    /// Hands free streams to those who wait.
    fn hand_over(&self, slow: &mut Slow<'_>, worn: bool) {
        let Some(this) = self.this.upgrade() else { return };
        slow.hand_over(
            |waiter| self.pick(waiter.want, worn),
            |waiter, connection| match waiter.served.send(Ok(Permit::new(connection, this.clone()))) {
                Err(Ok(permit)) => Err(permit.disarm()),
                Ok(()) | Err(Err(_)) => Ok(()),
            },
            |connection| connection.load().untake(),
        );
    }

    /// Warms and dials what the streams that are short need.
    pub(super) fn grow(&self, slow: &mut Slow<'_>, returning: usize) {
        let wanted = slow.len() + returning;
        let connections = self.connections.load();
        // The peer's SETTINGS themselves, since whoever read them may be waiting for the lock to make them known.
        let cap_of = |c: &H2Connection| c.announced_cap().unwrap_or(slow.learned.cap());
        let active = || connections.iter().filter(|c| c.is_active());
        let demand = Demand {
            wanted,
            free: active().map(|c| c.load().free(cap_of(c)) as usize).sum(),
            connecting: self.connecting.load(Ordering::Acquire),
            per_connection: slow.learned.per_connection(),
            open: connections.len(),
            draining: slow.draining.len(),
            max_connections: self.limits.max_connections,
        };
        let mut count = missing(demand);
        if slow.learned.lifetime() < u32::MAX {
            // Each stream that is open now will soon want another; connections at their end have none to give.
            let busy: usize = connections.iter().map(|c| c.load().active() as usize).sum();
            let left = active().map(|c| c.load().free(u32::MAX) as usize).sum();
            count = count.max(missing(Demand { wanted: busy + wanted, free: left, ..demand }));
        }
        for connection in connections.iter() {
            if count > 0 && connection.warm(cap_of(connection)) {
                count -= 1;
            }
        }
        self.dial(slow, count.min(room(demand)));
        if count > 0 && self.bound.is_full(self.class) {
            let min_idle = if self.is_starving() { Duration::ZERO } else { SPARE_AFTER };
            for other in self.bound.others(self.class).filter(|other| !other.connections.load().is_empty()) {
                // Not from here: nobody holds the locks of two classes.
                self.runtime.spawn(async move { other.make_room(&mut other.line.lock(), min_idle) });
            }
        }
    }

    /// Gives up a connection that nobody has used for so long, for a class that finds no place.
    pub(super) fn make_room(&self, slow: &mut Slow<'_>, min_idle: Duration) {
        let is_spare = |open: &&Arc<H2Connection>| open.load().active() == 0 && open.idle_for() >= min_idle;
        let spare = self.connections.load().iter().find(is_spare).cloned();
        if let Some(spare) = spare {
            self.drain(slow, &spare);
            self.show(slow);
        }
    }

    /// A connection is no longer counted: another class may have waited for its place.
    pub(super) fn give_place_back(&self) {
        self.bound.give_back();
        for other in self.bound.others(self.class).filter(|other| other.line.is_anyone_waiting()) {
            self.runtime.spawn(async move { other.settle(&mut other.line.lock(), 0) });
        }
    }
}
