//! Which connections an origin has, as far as observers are told.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use super::{Hook, Told};

/// An origin's connections at a moment, over all versions of HTTP and all traffic classes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Connections {
    /// Connections that requests may be sent on, busy or idle.
    pub open: usize,
    /// Connections that take no more requests, and finish those that they have.
    pub draining: usize,
    /// Calls that wait for a stream or a connection.
    pub waiting: usize,
}

/// Tells observers of an origin's connections. Its callers tell it whenever something has changed.
pub(crate) struct Shown {
    /// Scheme, host and port.
    origin: String,
    is_watched: AtomicBool,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    /// One for each that counts.
    parts: Vec<Connections>,
    watchers: Vec<Watcher>,
}

struct Watcher {
    told: Weak<Told>,
    /// What it knows: pools outlive clients, and each observer is to see a history without gaps.
    knows: Connections,
}

impl Shown {
    pub(crate) fn new(origin: String) -> Arc<Self> {
        Arc::new(Self { origin, is_watched: AtomicBool::new(false), inner: Mutex::default() })
    }

    /// Nobody needs to count while this is so.
    pub(crate) fn is_watched(&self) -> bool {
        self.is_watched.load(Ordering::Acquire)
    }

    /// Tells this observer too, from now on. `false`: it is told already.
    pub(crate) fn watched_by(self: &Arc<Self>, hook: &Hook) -> bool {
        let mut inner = self.inner.lock();
        let told = Arc::downgrade(&hook.0);
        if inner.watchers.iter().any(|watcher| watcher.told.ptr_eq(&told)) {
            return false;
        }
        inner.watchers.retain(|watcher| watcher.told.strong_count() > 0);
        inner.watchers.push(Watcher { told, knows: Connections::default() });
        self.is_watched.store(true, Ordering::Release);
        drop(inner);
        let mut watching = hook.0.watching.lock();
        watching.retain(|shown| shown.strong_count() > 0);
        watching.push(Arc::downgrade(self));
        true
    }

    /// What one of those who count has now. `count` is called under the lock, so that the last to tell is right.
    pub(crate) fn set(&self, part: usize, count: impl FnOnce() -> Connections) {
        // Whoever was the last to hold an observer must not drop it under the lock.
        let mut held = Vec::new();
        let mut inner = self.inner.lock();
        if inner.parts.len() <= part {
            inner.parts.resize(part + 1, Connections::default());
        }
        inner.parts[part] = count();
        let now = inner.parts.iter().fold(Connections::default(), |sum, part| Connections {
            open: sum.open + part.open,
            draining: sum.draining + part.draining,
            waiting: sum.waiting + part.waiting,
        });
        for watcher in inner.watchers.iter_mut().filter(|watcher| watcher.knows != now) {
            if let Some(told) = watcher.told.upgrade() {
                let before = std::mem::replace(&mut watcher.knows, now);
                told.observer.connections_changed(&self.origin, before, now);
                held.push(told);
            }
        }
        drop(inner);
    }

    /// An observer goes: what it knows ends with that.
    pub(super) fn forget(&self, told: &Told) {
        let mut inner = self.inner.lock();
        let Some(at) = inner.watchers.iter().position(|watcher| std::ptr::eq(watcher.told.as_ptr(), told)) else {
            return;
        };
        let knows = inner.watchers.swap_remove(at).knows;
        self.is_watched.store(!inner.watchers.is_empty(), Ordering::Release);
        drop(inner);
        if knows != Connections::default() {
            told.observer.connections_changed(&self.origin, knows, Connections::default());
        }
    }
}

impl Drop for Shown {
    /// The origin is forgotten, and its connections close.
    fn drop(&mut self) {
        for Watcher { told, knows } in std::mem::take(&mut self.inner.get_mut().watchers) {
            if let Some(told) = told.upgrade().filter(|_| knows != Connections::default()) {
                told.observer.connections_changed(&self.origin, knows, Connections::default());
            }
        }
    }
}
