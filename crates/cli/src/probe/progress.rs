//! A bar on the terminal while requests are sent.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::task::JoinHandle;

const WIDTH: u64 = 40;
const REDRAW: Duration = Duration::from_millis(100);

/// Drawn until it is dropped.
pub(super) struct Progress {
    done: Arc<AtomicU64>,
    task: JoinHandle<()>,
}

impl Progress {
    pub(super) fn start(total: u64) -> Self {
        let done = Arc::new(AtomicU64::new(0));
        let counted = done.clone();
        let task = tokio::spawn(async move {
            let mut ticks = tokio::time::interval(REDRAW);
            loop {
                ticks.tick().await;
                draw(counted.load(Ordering::Relaxed), total);
            }
        });
        Self { done, task }
    }

    /// Counts requests that have ended.
    pub(super) fn counter(&self) -> Arc<AtomicU64> {
        self.done.clone()
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.task.abort();
        let _ = write!(std::io::stderr(), "\r\x1b[2K");
    }
}

fn draw(done: u64, total: u64) {
    let filled = done * WIDTH / total.max(1);
    let bar: String = (0..WIDTH).map(|i| if i < filled { '#' } else { '.' }).collect();
    // A terminal that is gone needs no bar.
    let mut stderr = std::io::stderr();
    let _ = write!(stderr, "\r[{bar}] {done}/{total}").and_then(|()| stderr.flush());
}
