//! What became of a create's sandbox after its handle was given out.

use std::sync::{Arc, OnceLock};

use tokio::sync::watch;

/// Shared by a handle and the task of its create.
#[derive(Debug)]
pub(crate) struct Fate {
    /// The sandbox that stays in place of the handle's own.
    successor: OnceLock<String>,
    /// Whether a sweep may still kill doubles.
    sweeping: watch::Sender<bool>,
    /// Whether the handle's sandbox was killed, or is not wanted any more.
    unwanted: watch::Sender<bool>,
}

impl Default for Fate {
    /// Of a sandbox that no create of this process looks after.
    fn default() -> Self {
        Self { successor: OnceLock::new(), sweeping: watch::Sender::new(false), unwanted: watch::Sender::new(false) }
    }
}

impl Fate {
    /// Where the handle's sandbox lost to another one of its intent: the id of that one.
    pub(crate) fn successor(&self) -> Option<&str> {
        self.successor.get().map(String::as_str)
    }

    pub(super) fn lost_to(&self, other: String) {
        let _ = self.successor.set(other);
    }

    /// Nobody wants the sandbox any more: no double of it may stay in its place.
    pub(crate) fn unwant(&self) {
        self.unwanted.send_replace(true);
    }

    pub(super) fn is_unwanted(&self) -> bool {
        *self.unwanted.borrow()
    }

    /// Comes back when nobody wants the sandbox any more.
    pub(super) async fn unwanted(&self) {
        // The sender is part of this.
        let _ = self.unwanted.subscribe().wait_for(|unwanted| *unwanted).await;
    }

    /// Comes back when nothing is swept any more: from then on a copy of the sandbox, which copies its tag, is no double.
    pub(crate) async fn swept(&self) {
        // The sender is part of this.
        let _ = self.sweeping.subscribe().wait_for(|sweeping| !sweeping).await;
    }
}

/// A create whose doubles may still be swept. However its task ends, also with its runtime, the sweep has ended with it.
pub(super) struct UnderWay(Arc<Fate>);

impl UnderWay {
    pub(super) fn new(fate: Arc<Fate>) -> Self {
        fate.sweeping.send_replace(true);
        Self(fate)
    }

    pub(super) fn fate(&self) -> &Arc<Fate> {
        &self.0
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.sweeping.send_replace(false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_sweep_ends_with_its_task() {
        Fate::default().swept().await;
        let under_way = UnderWay::new(Arc::default());
        let fate = Arc::clone(under_way.fate());
        let mut swept = std::pin::pin!(fate.swept());
        assert!(futures_util::FutureExt::now_or_never(swept.as_mut()).is_none());
        drop(under_way);
        swept.await;
    }
}
