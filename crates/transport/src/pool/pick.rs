//! Which connection takes the next stream.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::conn::H2Connection;

/// How many connections are looked at for the least loaded. In a small pool that is all of them; in a large one it is
/// at least as good as the better of two random ones.
const LOOKED_AT: usize = 8;

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
        Self { active: 0.into(), cap: cap.into(), opened: 0.into(), lifetime: lifetime.into() }
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

/// Takes a stream of the least loaded connection. `avoid` names a connection to be used only where there is no other.
/// A replay goes where the fewest streams were opened: there a retirement is farthest.
pub(super) fn pick(
    connections: &[Arc<H2Connection>],
    avoid: Option<u64>,
    is_replay: bool,
    worn: bool,
) -> Option<Arc<H2Connection>> {
    let count = connections.len();
    let start = if count > 1 { fastrand::usize(..count) } else { 0 };
    loop {
        let mut best: Option<(&Arc<H2Connection>, (bool, u32))> = None;
        for (seen, index) in (start..count).chain(0..start).enumerate() {
            let connection = &connections[index];
            let load = connection.load();
            let active = load.active();
            if active < load.cap() && (worn || !load.is_worn()) {
                let rank = (Some(connection.id()) == avoid, if is_replay { load.opened() } else { active });
                if best.is_none_or(|(_, least)| rank < least) {
                    best = Some((connection, rank));
                }
            }
            if seen + 1 >= LOOKED_AT && best.is_some_and(|(_, (avoided, _))| !avoided) {
                break;
            }
        }
        let (connection, _) = best?;
        if connection.load().take() {
            return Some(connection.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_is_taken_up_to_the_cap_and_counted_over_the_lifetime() {
        let load = Load::new(2, 3);
        assert!(load.take() && load.take() && !load.take());
        assert_eq!((load.active(), load.free(2)), (2, 0));
        assert_eq!(load.give_back(), 1);
        assert_eq!(load.free(2), 1);
        assert!(load.take() && load.is_worn());
        load.give_back();
        assert_eq!(load.free(2), 0);
        load.extend_lifetime();
        assert!(!load.is_worn());
        load.set_cap(0);
        assert!(!load.take());
    }
}
