//! What comes for somebody who may have gone meanwhile.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;

/// Results that nobody took, for the next one who asks. An operation that was cancelled when it had ended already would lose
/// its result, and who asks again would get what comes after it.
pub(crate) struct Kept<T>(Arc<Mutex<VecDeque<T>>>);

impl<T> Default for Kept<T> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<T> Clone for Kept<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> Kept<T> {
    /// The result of an operation: dropped without having been taken, it is kept.
    pub(crate) fn unless_taken(&self, value: T) -> Untaken<T> {
        Untaken { value: Some(value), kept: self.clone() }
    }

    /// Forgets what was kept.
    pub(crate) fn clear(&self) {
        self.0.lock().clear();
    }

    /// What was kept, the oldest first.
    pub(crate) fn again(&self) -> Option<Untaken<T>> {
        let value = self.0.lock().pop_front();
        value.map(|value| self.unless_taken(value))
    }
}

/// A result on its way.
pub(crate) struct Untaken<T> {
    /// There until it is taken.
    value: Option<T>,
    kept: Kept<T>,
}

impl<T> Untaken<T> {
    /// It has come to who asked for it. It is there.
    pub(crate) fn take(mut self) -> Option<T> {
        self.value.take()
    }
}

impl<T> Drop for Untaken<T> {
    fn drop(&mut self) {
        if let Some(value) = self.value.take() {
            self.kept.0.lock().push_front(value);
        }
    }
}
