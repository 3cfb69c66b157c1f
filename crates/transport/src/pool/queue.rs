//! Those who wait for a stream, in the order in which they are served.

use std::collections::BTreeMap;

/// A place in a [`Queue`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place(i64);

/// First come, first served, with a head for what is replayed. Leaving takes no longer than joining.
#[derive(Debug)]
pub(super) struct Queue<T> {
    places: BTreeMap<Place, T>,
    next: i64,
    /// Replays stand before all others, and among themselves in the order in which they came back.
    next_replay: i64,
}

impl<T> Default for Queue<T> {
    fn default() -> Self {
        Self { places: BTreeMap::new(), next: 0, next_replay: i64::MIN }
    }
}

impl<T> Queue<T> {
    /// Joins at the end, or behind the last replay.
    pub(super) fn join(&mut self, waiter: T, is_replay: bool) -> Place {
        let next = if is_replay { &mut self.next_replay } else { &mut self.next };
        let place = Place(*next);
        *next += 1;
        self.places.insert(place, waiter);
        place
    }

    /// Leaves. `None`: it was served already.
    pub(super) fn leave(&mut self, place: Place) -> Option<T> {
        self.places.remove(&place)
    }

    /// Who is served next, still in place.
    pub(super) fn front(&self) -> Option<&T> {
        self.places.first_key_value().map(|(_, waiter)| waiter)
    }

    /// Who is served next.
    pub(super) fn pop(&mut self) -> Option<T> {
        self.places.pop_first().map(|(_, waiter)| waiter)
    }

    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    /// All of them, in order.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = T> + use<T> {
        std::mem::take(&mut self.places).into_values()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_come_first_served_and_replays_before_all() {
        let mut queue = Queue::default();
        queue.join("a", false);
        let b = queue.join("b", false);
        queue.join("r1", true);
        queue.join("c", false);
        queue.join("r2", true);
        assert_eq!(queue.leave(b), Some("b"));
        assert_eq!(queue.leave(b), None);
        let order: Vec<_> = std::iter::from_fn(|| queue.pop()).collect();
        assert_eq!(order, ["r1", "r2", "a", "c"]);
    }
}
