//! The one place that starts children and waits for them.
//!
//! Process 1 of a pid namespace must reap orphans too, so it waits for any child. Waiting for any child takes away exit
//! statuses that another waiter in the same process wants. So there is no other waiter: children started here are
//! registered under the same lock that the reaper holds, and get their status from it.

use std::collections::HashMap;
use std::io;
use std::process::{Child, Command};
use std::sync::Arc;

use parking_lot::Mutex;
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;

/// Starts children and hands out how they ended.
#[derive(Debug, Default)]
pub(in crate::envd) struct Reaper {
    waiting: Mutex<HashMap<i32, oneshot::Sender<WaitStatus>>>,
}

impl Reaper {
    /// Starts reaping on the current runtime.
    pub(super) fn start() -> io::Result<Arc<Self>> {
        let mut children = signal(SignalKind::child())?;
        let reaper = Arc::new(Self::default());
        let reaping = Arc::clone(&reaper);
        tokio::spawn(async move {
            while children.recv().await.is_some() {
                reaping.reap();
            }
        });
        Ok(reaper)
    }

    /// Starts a child; its status arrives on the channel.
    pub(in crate::envd) fn spawn(&self, command: &mut Command) -> io::Result<(Child, oneshot::Receiver<WaitStatus>)> {
        // Held while the child starts: the child of a failed start is waited for by `spawn` itself, and that of a good
        // one may end before it is registered.
        let mut waiting = self.waiting.lock();
        let child = command.spawn()?;
        let (sender, receiver) = oneshot::channel();
        waiting.insert(child.id().cast_signed(), sender);
        Ok((child, receiver))
    }

    /// Signals a child that has not been reaped; `false` if it has, and its pid may be another's by now.
    pub(in crate::envd) fn signal(&self, pid: u32, signal: Signal) -> io::Result<bool> {
        let waiting = self.waiting.lock();
        let pid = pid.cast_signed();
        match Pid::from_raw(pid).filter(|_| waiting.contains_key(&pid)) {
            Some(pid) => Ok(rustix::process::kill_process(pid, signal).map(|()| true)?),
            None => Ok(false),
        }
    }

    /// Whether a child has not ended yet, as far as is known.
    pub(in crate::envd) fn has(&self, pid: u32) -> bool {
        self.waiting.lock().contains_key(&pid.cast_signed())
    }

    fn reap(&self) {
        let mut waiting = self.waiting.lock();
        while let Ok(Some((pid, status))) = rustix::process::wait(WaitOptions::NOHANG) {
            if let Some(sender) = waiting.remove(&pid.as_raw_nonzero().get()) {
                // Nobody may wish to know any more.
                let _ = sender.send(status);
            }
        }
    }
}
