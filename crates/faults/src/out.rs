//! What waits to be written on a connection, and how the connection is to end.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

/// Above this much in the queue, bodies wait.
const ROOM: usize = 256 * 1024;

/// Above this much in the queue, nothing more is read either: a client that sends and never reads cannot make the
/// queue grow for ever.
const FULL: usize = 4 * ROOM;

/// How long a client may take nothing of what is queued before a reset: more than a busy machine keeps one from reading.
const PATIENCE: Duration = Duration::from_millis(100);

/// How a connection ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    Close,
    CloseUnread,
    CloseWithoutNotify,
    Reset,
}

impl Ending {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Close => "closed",
            Self::CloseUnread => "closed unread",
            Self::CloseWithoutNotify => "closed without notify",
            Self::Reset => "reset",
        }
    }
}

/// The next thing for the writer to do.
pub(crate) enum Step {
    Write(Vec<u8>),
    End(Ending),
}

#[derive(Default)]
struct Queue {
    bytes: Vec<u8>,
    ending: Option<Ending>,
    silent: bool,
    stalled_until: Option<Instant>,
}

#[derive(Default)]
pub(crate) struct Out {
    queue: Mutex<Queue>,
    /// For the writer: there is something to do.
    wake: Notify,
    /// For bodies: there is room.
    room: Notify,
}

impl Out {
    /// Appends bytes; once the connection is ending they are dropped.
    pub(crate) fn put(&self, write: impl FnOnce(&mut Vec<u8>)) {
        let mut queue = self.queue.lock();
        if queue.ending.is_none() {
            write(&mut queue.bytes);
            drop(queue);
            self.wake.notify_one();
        }
    }

    /// Ends the connection after what is queued; with a reset, after what the client takes of it. The first ending counts.
    pub(crate) fn end(&self, ending: Ending) {
        self.queue.lock().ending.get_or_insert(ending);
        self.wake.notify_one();
        self.room.notify_waiters();
    }

    pub(crate) fn is_ending(&self) -> bool {
        self.queue.lock().ending.is_some()
    }

    pub(crate) fn is_resetting(&self) -> bool {
        self.queue.lock().ending == Some(Ending::Reset)
    }

    /// Waits until the connection is to be reset, and then until there is no more of this progress: a reset waits for no client
    /// that does not read, and takes nothing from one that does.
    pub(crate) async fn reset_without(&self, progress: impl Fn() -> u64) {
        loop {
            let ended = self.room.notified();
            tokio::pin!(ended);
            ended.as_mut().enable();
            if self.is_resetting() {
                break;
            }
            ended.await;
        }
        loop {
            let before = progress();
            tokio::time::sleep(PATIENCE).await;
            if progress() == before {
                return;
            }
        }
    }

    pub(crate) fn silence(&self) {
        self.queue.lock().silent = true;
    }

    /// Whether nothing more may be read either.
    pub(crate) fn is_deaf(&self) -> bool {
        let queue = self.queue.lock();
        queue.silent || matches!(queue.ending, Some(Ending::CloseUnread | Ending::Reset))
    }

    pub(crate) fn stall(&self, time: Duration) {
        self.queue.lock().stalled_until = Some(Instant::now() + time);
    }

    /// Waits until a body may queue more; `false`: the connection is ending.
    pub(crate) async fn room(&self) -> bool {
        self.below(ROOM).await
    }

    /// Waits until more may be read.
    pub(crate) async fn not_full(&self) {
        self.below(FULL).await;
    }

    async fn below(&self, limit: usize) -> bool {
        loop {
            let room = self.room.notified();
            tokio::pin!(room);
            room.as_mut().enable();
            {
                let queue = self.queue.lock();
                if queue.ending.is_some() {
                    return false;
                }
                if queue.bytes.len() < limit {
                    return true;
                }
            }
            room.await;
        }
    }

    /// For the writer: waits for something to do.
    pub(crate) async fn next(&self) -> Step {
        loop {
            let stalled = {
                let mut queue = self.queue.lock();
                let stalled = queue.stalled_until.filter(|until| *until > Instant::now());
                if queue.silent {
                    None
                } else if stalled.is_some() {
                    stalled
                } else if !queue.bytes.is_empty() {
                    let bytes = std::mem::take(&mut queue.bytes);
                    drop(queue);
                    self.room.notify_waiters();
                    return Step::Write(bytes);
                } else if let Some(ending) = queue.ending {
                    return Step::End(ending);
                } else {
                    None
                }
            };
            match stalled {
                Some(until) => tokio::time::sleep_until(until).await,
                None => self.wake.notified().await,
            }
        }
    }
}
