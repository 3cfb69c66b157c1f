//! `max_connections`, counted over all traffic classes of an origin.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use super::http2::Http2Pool;
use crate::options::TrafficClass;

/// Counts the connections of an origin that are being dialled or take streams, in whatever class.
pub(super) struct Bound {
    max: usize,
    used: AtomicUsize,
    /// The pool of each class.
    pools: OnceLock<Vec<(TrafficClass, Weak<Http2Pool>)>>,
}

impl Bound {
    pub(super) fn new(max: usize) -> Arc<Self> {
        Arc::new(Self { max, used: AtomicUsize::new(0), pools: OnceLock::new() })
    }

    /// Whose connections are counted.
    pub(super) fn is_of(&self, pools: &[(TrafficClass, Arc<Http2Pool>)]) {
        let pools = pools.iter().map(|(class, pool)| (*class, Arc::downgrade(pool))).collect();
        // Said once, where the pools are made.
        let _ = self.pools.set(pools);
    }

    fn max_of(&self, class: TrafficClass) -> usize {
        most_connections(self.max, class)
    }

    /// Takes a place for a connection, before it is dialled.
    pub(super) fn take(&self, class: TrafficClass) -> bool {
        let max = self.max_of(class);
        let one_more = |used| (used < max).then_some(used + 1);
        self.used.fetch_update(Ordering::AcqRel, Ordering::Acquire, one_more).is_ok()
    }

    pub(super) fn give_back(&self) {
        self.used.fetch_sub(1, Ordering::AcqRel);
    }

    /// Whether there is no place left for this class.
    pub(super) fn is_full(&self, class: TrafficClass) -> bool {
        self.used.load(Ordering::Acquire) >= self.max_of(class)
    }

    /// Whether some class finds no place.
    pub(super) fn is_crowded(&self) -> bool {
        self.is_full(TrafficClass::Bulk)
    }

    /// The pools of the other classes.
    pub(super) fn others(&self, class: TrafficClass) -> impl Iterator<Item = Arc<Http2Pool>> {
        let pools = self.pools.get().into_iter().flatten();
        pools.filter(move |(other, _)| *other != class).filter_map(|(_, pool)| pool.upgrade())
    }
}

/// How many of `max` connections this class may use: others than the commands' leave one to those.
pub(super) fn most_connections(max: usize, class: TrafficClass) -> usize {
    match class {
        TrafficClass::Interactive => max,
        TrafficClass::Bulk => max.saturating_sub(1).max(1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bulk_leaves_a_place_to_commands() {
        let bound = Bound::new(3);
        assert!(bound.take(TrafficClass::Bulk) && bound.take(TrafficClass::Bulk));
        assert!(!bound.take(TrafficClass::Bulk) && bound.is_crowded());
        assert!(!bound.is_full(TrafficClass::Interactive));
        assert!(bound.take(TrafficClass::Interactive) && !bound.take(TrafficClass::Interactive));
        bound.give_back();
        assert!(!bound.take(TrafficClass::Bulk) && bound.take(TrafficClass::Interactive));
    }
}
