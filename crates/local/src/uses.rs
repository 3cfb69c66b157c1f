//! What is in use, so that it is not removed from under whoever uses it.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;

/// How often each thing of one kind is in use, by its id.
#[derive(Debug, Clone, Default)]
pub(crate) struct Uses(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    counts: Mutex<HashMap<String, usize>>,
    released: Notify,
}

/// A use, until it is dropped.
#[derive(Debug)]
pub(crate) struct Use {
    of: Uses,
    id: String,
}

impl Uses {
    pub(crate) fn take(&self, id: &str) -> Use {
        *self.0.counts.lock().entry(id.to_owned()).or_default() += 1;
        Use { of: self.clone(), id: id.to_owned() }
    }

    pub(crate) fn has(&self, id: &str) -> bool {
        self.0.counts.lock().contains_key(id)
    }

    /// Waits until it is not in use.
    pub(crate) async fn ended(&self, id: &str) {
        loop {
            let released = self.0.released.notified();
            tokio::pin!(released);
            released.as_mut().enable();
            if !self.has(id) {
                return;
            }
            released.await;
        }
    }
}

impl Drop for Use {
    fn drop(&mut self) {
        let mut counts = self.of.0.counts.lock();
        if let Some(count) = counts.get_mut(&self.id) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.id);
                self.of.0.released.notify_waiters();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_last_use_ends_it() {
        let uses = Uses::default();
        uses.ended("a").await;
        let (one, other) = (uses.take("a"), uses.take("a"));
        drop(one);
        assert!(uses.has("a") && !uses.has("b"));
        let ended = tokio::spawn({
            let uses = uses.clone();
            async move { uses.ended("a").await }
        });
        tokio::task::yield_now().await;
        assert!(!ended.is_finished());
        drop(other);
        ended.await.unwrap();
    }
}
