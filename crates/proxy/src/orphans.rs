//! Creates whose SDK has gone, or was told that nobody knows: the next one like it takes over.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use oncebox::forward::ForwardedAnswer;
use parking_lot::Mutex;
use tokio::sync::oneshot;

/// How many wait at a time; more are given up at once.
const MOST: usize = 4096;

/// What makes two creates alike: whose they are, the path, and the body to the byte.
pub(crate) type Likeness = [u8; 32];

/// A create without anybody who waits for it.
#[derive(Debug)]
pub(crate) enum Orphan {
    /// It is under way.
    Running(oneshot::Receiver<ForwardedAnswer>),
    /// It is over, and nobody got its answer.
    Done(Box<ForwardedAnswer>),
    /// Nobody knows what it did; its intent.
    Unknown(String),
}

impl Orphan {
    /// Nobody came: what it made is killed, and what it may make is looked for.
    pub(crate) fn give_up(self) {
        match self {
            // Its task sees that nobody listens, unless it was done already.
            Self::Running(mut answer) => {
                answer.close();
                if let Ok(answer) = answer.try_recv() {
                    answer.abandon();
                }
            }
            Self::Done(answer) => answer.abandon(),
            Self::Unknown(_) => {}
        }
    }
}

/// All of them, each for as long as it may be taken over.
#[derive(Debug)]
pub(crate) struct Orphans {
    settle: Duration,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    /// The one that waits longest first.
    waiting: HashMap<Likeness, VecDeque<(u64, Orphan)>>,
    count: usize,
    next: u64,
    closed: bool,
}

impl Orphans {
    pub(crate) fn new(settle: Duration) -> Arc<Self> {
        Arc::new(Self { settle, inner: Mutex::default() })
    }

    /// Leaves one for the next that is like it, for `settle`.
    pub(crate) fn leave(self: &Arc<Self>, of: Likeness, orphan: Orphan) {
        let mut inner = self.inner.lock();
        if inner.closed || inner.count >= MOST {
            drop(inner);
            return orphan.give_up();
        }
        let number = inner.next;
        inner.next += 1;
        inner.count += 1;
        inner.waiting.entry(of).or_default().push_back((number, orphan));
        drop(inner);
        let orphans = Arc::clone(self);
        tokio::spawn(async move {
            tokio::time::sleep(orphans.settle).await;
            if let Some(orphan) = orphans.remove(&of, |waiting| waiting.iter().position(|(left, _)| *left == number)) {
                orphan.give_up();
            }
        });
    }

    /// Takes the one that waits longest: one for one.
    pub(crate) fn take(&self, of: &Likeness) -> Option<Orphan> {
        self.remove(of, |waiting| (!waiting.is_empty()).then_some(0))
    }

    /// How many wait now.
    pub(crate) fn count(&self) -> usize {
        self.inner.lock().count
    }

    /// Gives all up, and whatever is left from now on.
    pub(crate) fn close(&self) {
        let mut inner = self.inner.lock();
        inner.closed = true;
        inner.count = 0;
        let all = std::mem::take(&mut inner.waiting);
        drop(inner);
        all.into_values().flatten().for_each(|(_, orphan)| orphan.give_up());
    }

    fn remove(&self, of: &Likeness, which: impl FnOnce(&VecDeque<(u64, Orphan)>) -> Option<usize>) -> Option<Orphan> {
        let mut inner = self.inner.lock();
        let waiting = inner.waiting.get_mut(of)?;
        let (_, orphan) = which(waiting).and_then(|index| waiting.remove(index))?;
        if waiting.is_empty() {
            inner.waiting.remove(of);
        }
        inner.count -= 1;
        Some(orphan)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unknown(intent: &str) -> Orphan {
        Orphan::Unknown(intent.to_owned())
    }

    fn intent(orphan: Option<Orphan>) -> Option<String> {
        match orphan? {
            Orphan::Unknown(intent) => Some(intent),
            _ => None,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn one_takes_over_from_one_and_only_within_settle() {
        let orphans = Orphans::new(Duration::from_secs(10));
        let (this, other) = ([1; 32], [2; 32]);
        orphans.leave(this, unknown("a"));
        orphans.leave(this, unknown("b"));
        orphans.leave(other, unknown("c"));
        assert_eq!(intent(orphans.take(&this)).as_deref(), Some("a"));
        assert_eq!(intent(orphans.take(&this)).as_deref(), Some("b"));
        assert_eq!((intent(orphans.take(&this)), orphans.count()), (None, 1));
        tokio::time::sleep(Duration::from_millis(10_001)).await;
        assert_eq!((intent(orphans.take(&other)), orphans.count()), (None, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn what_nobody_takes_over_hears_of_it() {
        let orphans = Orphans::new(Duration::from_secs(10));
        let (mut sender, answer) = oneshot::channel();
        orphans.leave([1; 32], Orphan::Running(answer));
        sender.closed().await;
        let (mut sender, answer) = oneshot::channel();
        orphans.leave([1; 32], Orphan::Running(answer));
        orphans.close();
        sender.closed().await;
        let (mut sender, answer) = oneshot::channel();
        orphans.leave([1; 32], Orphan::Running(answer));
        sender.closed().await;
        assert_eq!(orphans.count(), 0);
    }
}
