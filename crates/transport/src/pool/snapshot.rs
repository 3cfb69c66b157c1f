//! A value that is read by every request and hardly ever changed.

use std::sync::Arc;

use parking_lot::RwLock;

/// Who reads it is held up by a change no longer than the pointer to the new value takes to write.
#[derive(Debug, Default)]
pub(super) struct Snapshot<T>(RwLock<Arc<T>>);

impl<T> Snapshot<T> {
    /// The value as it is now.
    pub(super) fn load(&self) -> Arc<T> {
        self.0.read().clone()
    }

    /// Looks at the value as it is now: cheaper than [`load`](Self::load). Nothing must wait in `look`.
    pub(super) fn read<R>(&self, look: impl FnOnce(&T) -> R) -> R {
        look(&self.0.read())
    }

    /// Changes the value. Of two changes at once one may be lost: those who make them hold another lock.
    pub(super) fn change(&self, to: impl FnOnce(&T) -> T) {
        let new = Arc::new(to(&self.load()));
        let old = std::mem::replace(&mut *self.0.write(), new);
        // Outside the lock: the last of what it held may go with it.
        drop(old);
    }
}
