//! Counts the streams of one HTTP/2 connection, so that `h2`'s own queue stays empty.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;

/// The connection takes no more streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Draining;

/// See the module.
#[derive(Debug)]
pub(crate) struct Slots {
    state: Mutex<State>,
    freed: Notify,
}

#[derive(Debug)]
struct State {
    cap: u32,
    active: u32,
    draining: bool,
}

impl Slots {
    /// `cap` streams at once, until [`set_cap`](Self::set_cap).
    pub(crate) fn new(cap: u32) -> Arc<Self> {
        Arc::new(Self { state: Mutex::new(State { cap, active: 0, draining: false }), freed: Notify::new() })
    }

    /// The peer changed its cap. Streams above a lowered one run on.
    pub(crate) fn set_cap(&self, cap: u32) {
        let mut state = self.state.lock();
        if state.cap != cap {
            state.cap = cap;
            drop(state);
            self.freed.notify_waiters();
        }
    }

    /// No stream may be opened from now on; those who wait are told.
    pub(crate) fn drain(&self) {
        self.state.lock().draining = true;
        self.freed.notify_waiters();
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.state.lock().draining
    }

    /// Waits until a stream may be opened. Dropping the [`Slot`] frees it.
    pub(crate) async fn acquire(self: &Arc<Self>) -> Result<Slot, Draining> {
        loop {
            let freed = self.freed.notified();
            tokio::pin!(freed);
            // Registered before the look, so that no wake-up falls between the two.
            freed.as_mut().enable();
            {
                let mut state = self.state.lock();
                if state.draining {
                    return Err(Draining);
                }
                if state.active < state.cap {
                    state.active += 1;
                    return Ok(Slot { slots: self.clone() });
                }
            }
            freed.await;
        }
    }
}

/// The right to one stream.
#[derive(Debug)]
pub(crate) struct Slot {
    slots: Arc<Slots>,
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.slots.state.lock().active -= 1;
        self.slots.freed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    #[tokio::test]
    async fn a_freed_slot_goes_to_a_waiter_and_a_dropped_waiter_leaks_none() {
        let slots = Slots::new(1);
        let first = slots.acquire().await.unwrap();
        assert!(slots.acquire().now_or_never().is_none(), "waited, then was dropped");
        drop(first);
        let second = slots.acquire().now_or_never().unwrap().unwrap();
        assert!(slots.acquire().now_or_never().is_none());
        drop(second);
        assert_eq!(slots.state.lock().active, 0);
    }

    #[tokio::test]
    async fn a_cap_of_zero_waits_and_a_raised_one_wakes() {
        let slots = Slots::new(0);
        let waiter = tokio::spawn({
            let slots = slots.clone();
            async move { slots.acquire().await.map(drop) }
        });
        tokio::task::yield_now().await;
        slots.set_cap(1);
        waiter.await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn draining_tells_waiters() {
        let slots = Slots::new(0);
        let waiter = tokio::spawn({
            let slots = slots.clone();
            async move { slots.acquire().await.map(drop) }
        });
        tokio::task::yield_now().await;
        slots.drain();
        assert_eq!(waiter.await.unwrap(), Err(Draining));
    }
}
