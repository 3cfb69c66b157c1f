//! How much of a connection is in use.

use super::sync::{AtomicU32, Ordering};

/// A connection's streams, counted without a lock.
#[derive(Debug)]
pub(crate) struct Load {
    active: AtomicU32,
    /// 0: takes no streams, whatever the reason.
    cap: AtomicU32,
    opened: AtomicU32,
    /// How many streams it is expected to live.
    lifetime: AtomicU32,
}

impl Load {
    pub(crate) fn new(cap: u32, lifetime: u32) -> Self {
        Self {
            active: AtomicU32::new(0),
            cap: AtomicU32::new(cap),
            opened: AtomicU32::new(0),
            lifetime: AtomicU32::new(lifetime),
        }
    }

    /// Streams that are open.
    pub(crate) fn active(&self) -> u32 {
        self.active.load(Ordering::SeqCst)
    }

    /// Streams that were ever opened.
    pub(crate) fn opened(&self) -> u32 {
        self.opened.load(Ordering::Acquire)
    }

    pub(crate) fn cap(&self) -> u32 {
        self.cap.load(Ordering::SeqCst)
    }

    pub(crate) fn set_cap(&self, cap: u32) {
        self.cap.store(cap, Ordering::SeqCst);
    }

    /// Whether it has opened as many streams as connections of its origin live.
    pub(crate) fn is_worn(&self) -> bool {
        self.opened() >= self.lifetime.load(Ordering::Acquire)
    }

    /// It lives longer than was thought: it may open half as many streams again.
    pub(crate) fn extend_lifetime(&self) {
        let lifetime = self.lifetime.load(Ordering::Acquire);
        self.lifetime.store(lifetime.saturating_add((lifetime / 2).max(1)), Ordering::Release);
    }

    pub(crate) fn set_lifetime(&self, lifetime: u32) {
        self.lifetime.store(lifetime, Ordering::Release);
    }

    /// Streams that it can still take, with `cap` at once.
    pub(crate) fn free(&self, cap: u32) -> u32 {
        let left = self.lifetime.load(Ordering::Acquire).saturating_sub(self.opened());
        cap.saturating_sub(self.active()).min(left)
    }

    /// Takes a stream.
    pub(crate) fn take(&self) -> bool {
        let taken = self
            .active
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |active| (active < self.cap()).then_some(active + 1))
            .is_ok();
        if taken {
            self.opened.fetch_add(1, Ordering::AcqRel);
        }
        taken
    }

    /// Gives a stream back. Returns how many are left.
    pub(crate) fn give_back(&self) -> u32 {
        self.active.fetch_sub(1, Ordering::SeqCst) - 1
    }

    /// Gives a stream back that was never opened.
    pub(crate) fn untake(&self) {
        self.opened.fetch_sub(1, Ordering::AcqRel);
        self.active.fetch_sub(1, Ordering::SeqCst);
    }
}
