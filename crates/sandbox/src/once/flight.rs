//! A create under way, and those who wait for it.

use std::sync::{Arc, Mutex};

use tokio::sync::{Notify, watch};

use super::{Asked, Ended, Fate, Order, lock};

/// A create under way.
pub(super) struct Flight {
    body: Asked,
    idempotency_key: Option<String>,
    result: watch::Sender<Option<Ended>>,
    over: watch::Sender<bool>,
    waiting: Mutex<Waiting>,
    changed: Notify,
    /// That of the sandbox which comes of it.
    fate: Arc<Fate>,
}

#[derive(Default)]
struct Waiting {
    waiters: usize,
    /// Somebody has the result.
    taken: bool,
    /// Somebody has left it to its end, and knows its intent.
    left: bool,
    /// Nothing is sent any more, since nobody waits.
    stopped: bool,
}

impl Waiting {
    fn is_given_up(&self) -> bool {
        self.waiters == 0 && !self.taken && !self.left
    }
}

impl Flight {
    pub(super) fn new(order: &Order) -> Self {
        Self {
            body: order.body.clone(),
            idempotency_key: order.idempotency_key.clone(),
            result: watch::Sender::new(None),
            over: watch::Sender::new(false),
            waiting: Mutex::default(),
            changed: Notify::new(),
            fate: Arc::default(),
        }
    }

    pub(super) fn fate(&self) -> &Arc<Fate> {
        &self.fate
    }

    pub(super) fn is_of(&self, order: &Order) -> bool {
        self.body == order.body && self.idempotency_key == order.idempotency_key
    }

    /// The first who waits.
    pub(super) fn wait_for(self: &Arc<Self>, order: &Order) -> Waiter {
        lock(&self.waiting).waiters += 1;
        Waiter { flight: Arc::clone(self), leaves: order.leaves }
    }

    /// One more who waits; `None` when it was given up, what came of it was killed, or it failed already: whoever asks after
    /// that wants it tried again.
    pub(super) fn join(self: &Arc<Self>, order: &Order) -> Option<Waiter> {
        let has_failed = self.result.borrow().as_ref().is_some_and(|ended| ended.ending.is_err());
        let mut waiting = lock(&self.waiting);
        if has_failed || self.fate.is_unwanted() || waiting.stopped || waiting.is_given_up() {
            return None;
        }
        waiting.waiters += 1;
        Some(Waiter { flight: Arc::clone(self), leaves: order.leaves })
    }

    /// Before something is sent: whether nothing is to be sent any more, since all who waited have left it to its end.
    pub(super) fn stops(&self) -> bool {
        let mut waiting = lock(&self.waiting);
        waiting.stopped |= waiting.waiters == 0 && !waiting.taken && waiting.left;
        waiting.stopped
    }

    pub(super) fn publish(&self, ended: Ended) {
        self.result.send_replace(Some(ended));
    }

    /// Comes back when nobody waits any more and nobody has the result.
    pub(super) async fn given_up(&self) {
        while !lock(&self.waiting).is_given_up() {
            self.changed.notified().await;
        }
    }

    /// Comes back when the result is somebody's, who may look for it by its intent, or nobody's for good; then `false`.
    pub(super) async fn is_taken(&self) -> bool {
        loop {
            {
                let waiting = lock(&self.waiting);
                if waiting.taken || waiting.waiters == 0 {
                    return waiting.taken || waiting.left;
                }
            }
            self.changed.notified().await;
        }
    }

    pub(super) fn finish(&self) {
        self.over.send_replace(true);
    }

    pub(super) async fn over(&self) {
        // The sender is part of this.
        let _ = self.over.subscribe().wait_for(|over| *over).await;
    }
}

/// Waits for a create. Dropped before it has the result, it gives up its part, or leaves it to its end.
pub(super) struct Waiter {
    flight: Arc<Flight>,
    leaves: bool,
}

impl Waiter {
    pub(super) async fn result(self) -> Ended {
        let mut results = self.flight.result.subscribe();
        let result = match results.wait_for(Option::is_some).await {
            Ok(result) => result.clone(),
            Err(_) => None,
        };
        // Nothing is awaited from here on: whoever has got so far has it.
        lock(&self.flight.waiting).taken = true;
        result.unwrap_or_else(|| Ended::without_answer(Ok(None)))
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        {
            let mut waiting = lock(&self.flight.waiting);
            waiting.waiters -= 1;
            waiting.left |= self.leaves;
        }
        // One task at most waits for this; a permit is kept for it.
        self.flight.changed.notify_one();
    }
}
