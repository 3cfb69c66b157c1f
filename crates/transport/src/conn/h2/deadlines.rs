//! Deadlines that are far away.

use std::task::Waker;
use std::time::Duration;

use parking_lot::Mutex;
use slab::Slab;
use tokio::time::Instant;

use super::driver::TICK;

/// From here on a deadline is far away. The connection ticks at least twice before one that is.
pub(crate) const FAR: Duration = TICK.saturating_mul(3);

/// The calls on a connection whose deadlines are far away.
///
/// Most are answered long before, and a place in this list costs less than a timer of the runtime. The connection looks
/// at all of them whenever it ticks, and wakes whose deadline has come near: such a call sets a timer of its own.
#[derive(Debug, Default)]
pub(super) struct Deadlines(Mutex<Slab<Entry>>);

#[derive(Debug)]
struct Entry {
    at: Instant,
    /// `None`: the deadline has come near.
    waker: Option<Waker>,
}

/// A call's place in the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place(usize);

impl Deadlines {
    /// Takes a place. Whoever has one [leaves](Self::leave) it.
    pub(super) fn join(&self, at: Instant, waker: &Waker) -> Place {
        Place(self.0.lock().insert(Entry { at, waker: Some(waker.clone()) }))
    }

    /// Whether the deadline has come near. If not, this waker is woken when it has.
    pub(super) fn is_near(&self, place: Place, waker: &Waker) -> bool {
        match self.0.lock().get_mut(place.0).and_then(|entry| entry.waker.as_mut()) {
            Some(last) => {
                last.clone_from(waker);
                false
            }
            None => true,
        }
    }

    pub(super) fn leave(&self, place: Place) {
        // Dropped outside the lock: with the last waker of a task goes all that the task holds.
        let _left = self.0.lock().try_remove(place.0);
    }

    /// Wakes those whose deadline may come before the connection has ticked once more.
    pub(super) fn tick(&self, now: Instant) {
        self.wake(|at| at < now + TICK.saturating_mul(2));
    }

    /// The connection ticks no more.
    pub(super) fn end(&self) {
        self.wake(|_| true);
    }

    fn wake(&self, is_near: impl Fn(Instant) -> bool) {
        let near: Vec<_> = {
            let mut entries = self.0.lock();
            entries.iter_mut().filter(|(_, entry)| is_near(entry.at)).filter_map(|(_, e)| e.waker.take()).collect()
        };
        near.into_iter().for_each(Waker::wake);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    use super::*;

    #[derive(Default)]
    struct Woken(AtomicUsize);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    impl Woken {
        fn times(&self) -> usize {
            self.0.load(Ordering::Relaxed)
        }
    }

    #[test]
    fn who_is_near_is_woken_once_by_the_waker_that_it_had_last() {
        let deadlines = Deadlines::default();
        let (first, last, later) = (Arc::new(Woken::default()), Arc::new(Woken::default()), Arc::new(Woken::default()));
        let now = Instant::now();
        let near = deadlines.join(now + FAR, &first.clone().into());
        let far = deadlines.join(now + 2 * FAR, &later.clone().into());
        deadlines.tick(now);
        assert!(!deadlines.is_near(near, &last.clone().into()) && !deadlines.is_near(far, &later.clone().into()));
        for _ in 0..2 {
            deadlines.tick(now + TICK + Duration::from_millis(1));
        }
        assert_eq!((first.times(), last.times(), later.times()), (0, 1, 0));
        assert!(deadlines.is_near(near, &first.into()) && !deadlines.is_near(far, &later.into()));
    }

    #[test]
    fn nobody_is_left_waiting_when_the_connection_ends() {
        let deadlines = Deadlines::default();
        let woken = Arc::new(Woken::default());
        let far = deadlines.join(Instant::now() + 100 * FAR, &woken.clone().into());
        deadlines.end();
        assert_eq!(woken.times(), 1);
        assert!(deadlines.is_near(far, &woken.into()));
    }

    #[test]
    fn who_has_left_takes_no_room_and_is_not_woken() {
        let deadlines = Deadlines::default();
        let woken = Arc::new(Woken::default());
        for _ in 0..100 {
            deadlines.leave(deadlines.join(Instant::now() + FAR, &woken.clone().into()));
        }
        deadlines.end();
        let entries = deadlines.0.lock();
        assert_eq!((woken.times(), entries.len()), (0, 0));
        assert!(entries.capacity() < 8, "{}", entries.capacity());
        assert_eq!(Arc::strong_count(&woken), 1);
    }
}
