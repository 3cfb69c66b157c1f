//! The line of those who wait for a stream, and how a stream that is free comes to who waits longest.
//!
//! Nobody takes a lock while nobody waits. What keeps a free stream and a waiter from missing one another: a waiter
//! announces itself *before* it looks for a free stream, and whoever frees one looks *afterwards* whether somebody
//! waits. All four are sequentially consistent, so at least one of the two sees the other.

use std::ops::{Deref, DerefMut};

use super::queue::{Place, Queue};
use super::sync::{AtomicUsize, Mutex, MutexGuard, Ordering};

/// A line of waiters `W`, and a state `S` under the same lock.
#[derive(Debug)]
pub(super) struct Line<W, S> {
    /// The queue's length.
    waiting: AtomicUsize,
    inner: Mutex<Inner<W, S>>,
}

#[derive(Debug)]
struct Inner<W, S> {
    queue: Queue<W>,
    state: S,
}

impl<W, S> Line<W, S> {
    pub(super) fn new(state: S) -> Self {
        Self { waiting: AtomicUsize::new(0), inner: Mutex::new(Inner { queue: Queue::default(), state }) }
    }

    /// Whether somebody waits. Whoever frees a stream asks this afterwards, and hands it over if so; whoever wants one
    /// asks this before, so as not to push in.
    pub(super) fn is_anyone_waiting(&self) -> bool {
        self.waiting.load(Ordering::SeqCst) > 0
    }

    pub(super) fn lock(&self) -> Locked<'_, W, S> {
        Locked { waiting: &self.waiting, inner: self.inner.lock() }
    }
}

/// The line, locked.
pub(super) struct Locked<'a, W, S> {
    waiting: &'a AtomicUsize,
    inner: MutexGuard<'a, Inner<W, S>>,
}

impl<W, S> Locked<'_, W, S> {
    /// Joins at the end, or behind the last replay. Free streams must be handed over next: what was freed before this
    /// is nobody else's to hand over.
    pub(super) fn join(&mut self, waiter: W, is_replay: bool) -> Place {
        let place = self.inner.queue.join(waiter, is_replay);
        self.announce();
        place
    }

    /// Leaves. `None`: it was served already.
    pub(super) fn leave(&mut self, place: Place) -> Option<W> {
        let waiter = self.inner.queue.leave(place);
        self.announce();
        waiter
    }

    /// Gives free streams to those who wait, in order. `serve` gives a stream back whose waiter has left just now; it
    /// is then the next one's, or given back for good.
    pub(super) fn hand_over<T>(
        &mut self,
        mut pick: impl FnMut(&W) -> Option<T>,
        mut serve: impl FnMut(W, T) -> Result<(), T>,
        mut give_back: impl FnMut(T),
    ) {
        while let Some(waiter) = self.inner.queue.front() {
            let Some(mut stream) = pick(waiter) else { break };
            loop {
                let Some(waiter) = self.inner.queue.pop() else {
                    give_back(stream);
                    break;
                };
                match serve(waiter, stream) {
                    Ok(()) => break,
                    Err(unwanted) => stream = unwanted,
                }
            }
        }
        self.announce();
    }

    /// How many wait.
    pub(super) fn len(&self) -> usize {
        self.inner.queue.len()
    }

    /// Who is served next.
    pub(super) fn front(&self) -> Option<&W> {
        self.inner.queue.front()
    }

    /// All who wait, in order. The line is empty afterwards.
    pub(super) fn dismiss(&mut self) -> impl Iterator<Item = W> + use<W, S> {
        let all = self.inner.queue.drain();
        self.announce();
        all
    }

    fn announce(&self) {
        self.waiting.store(self.inner.queue.len(), Ordering::SeqCst);
    }
}

impl<W, S> Deref for Locked<'_, W, S> {
    type Target = S;

    fn deref(&self) -> &S {
        &self.inner.state
    }
}

impl<W, S> DerefMut for Locked<'_, W, S> {
    fn deref_mut(&mut self) -> &mut S {
        &mut self.inner.state
    }
}
