//! From a process's pipes, or its terminal, to whoever listens.
//!
//! What nobody listens to is read and dropped, so a process never stops for want of a listener. A listener that is too
//! slow stops it: each has [`QUEUE`] chunks of room, then the pipe is not read until it catches up, and the process's next
//! write waits, as with a slow reader of any pipe. All listeners of a process get all of its output, so the slowest sets
//! the pace. Nothing is ever dropped between a process and a listener that is still there.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::{mpsc, watch};

/// The largest chunk; what envd uses for pipes.
const CHUNK: usize = 32 << 10;
/// And for terminals.
const TERMINAL_CHUNK: usize = 16 << 10;
/// How long a terminal that somebody still holds may be silent after its process ended, to count as read to the end. What
/// was written may be on its way inside the kernel, which does not tell how much that is.
const TERMINAL_SETTLES: Duration = Duration::from_millis(50);
/// Chunks a listener may be behind.
const QUEUE: usize = 8;

/// Which stream a chunk came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Source {
    Stdout,
    Stderr,
    Terminal,
}

/// A piece of output.
#[derive(Debug, Clone)]
pub(super) struct Chunk {
    pub(super) source: Source,
    pub(super) bytes: Bytes,
}

/// The listeners of one process.
#[derive(Debug, Default)]
pub(super) struct Listeners {
    /// `None` once the output is complete.
    open: Mutex<Option<Vec<mpsc::Sender<Chunk>>>>,
}

impl Listeners {
    pub(super) fn new() -> Self {
        Self { open: Mutex::new(Some(Vec::new())) }
    }

    /// Listens from now on. The channel ends when the output is complete.
    pub(super) fn join(&self) -> mpsc::Receiver<Chunk> {
        let (sender, receiver) = mpsc::channel(QUEUE);
        if let Some(senders) = self.open.lock().as_mut() {
            senders.push(sender);
        }
        receiver
    }

    /// Tells the listeners that nothing more comes.
    pub(super) fn close(&self) {
        *self.open.lock() = None;
    }

    async fn send(&self, chunk: Chunk) {
        let senders = self.open.lock().clone().unwrap_or_default();
        let mut gone = false;
        for sender in senders {
            gone |= sender.send(chunk.clone()).await.is_err();
        }
        if gone && let Some(senders) = self.open.lock().as_mut() {
            senders.retain(|sender| !sender.is_closed());
        }
    }
}

/// A descriptor that is read and written without blocking.
#[derive(Debug)]
pub(super) struct Channel(AsyncFd<OwnedFd>);

impl Channel {
    #[allow(deprecated, reason = "its fault needs a type whose descriptor can change; an owned descriptor's cannot")]
    pub(super) fn new(descriptor: OwnedFd) -> io::Result<Self> {
        rustix::io::ioctl_fionbio(&descriptor, true)?;
        Ok(Self(AsyncFd::new(descriptor)?))
    }

    pub(super) fn descriptor(&self) -> &OwnedFd {
        self.0.get_ref()
    }

    /// Reads something; 0 at the end, which a terminal that nobody holds any more tells by an error.
    async fn read(&self, buffer: &mut [u8]) -> usize {
        let read = self.0.async_io(Interest::READABLE, |descriptor| Ok(rustix::io::read(descriptor, &mut *buffer)?));
        read.await.unwrap_or(0)
    }

    /// Writes all of it, as fast as the other end reads.
    pub(super) async fn write_all(&self, mut data: &[u8]) -> io::Result<()> {
        while !data.is_empty() {
            let written =
                self.0.async_io(Interest::WRITABLE, |descriptor| Ok(rustix::io::write(descriptor, data)?)).await?;
            data = data.get(written..).unwrap_or_default();
        }
        Ok(())
    }
}

/// Reads one pipe to its end. `ended` turns true when the process is gone; `complete` is dropped when all it wrote has
/// been handed on. The pipe is read beyond that, to nobody, because background children may hold it and would be killed
/// by a closed one.
pub(super) async fn pump(
    pipe: Arc<Channel>,
    source: Source,
    listeners: Arc<Listeners>,
    mut ended: watch::Receiver<bool>,
    complete: mpsc::Sender<()>,
) {
    let mut buffer = vec![0; if source == Source::Terminal { TERMINAL_CHUNK } else { CHUNK }];
    loop {
        tokio::select! {
            read = pipe.read(&mut buffer) => match read {
                0 => return,
                length => listeners.send(chunk(source, &buffer, length)).await,
            },
            () = has_ended(&mut ended) => break,
        }
    }
    if source == Source::Terminal {
        while let Ok(length @ 1..) = tokio::time::timeout(TERMINAL_SETTLES, pipe.read(&mut buffer)).await {
            listeners.send(chunk(source, &buffer, length)).await;
        }
    } else {
        read_what_is_left(&pipe, source, &listeners, &mut buffer).await;
    }
    drop(complete);
    drop(listeners);
    while pipe.read(&mut buffer).await > 0 {}
}

/// Exactly what is in the pipe now was written before the end; a child that writes on and on does not delay it.
async fn read_what_is_left(pipe: &Channel, source: Source, listeners: &Listeners, buffer: &mut [u8]) {
    let mut left = usize::try_from(rustix::io::ioctl_fionread(pipe.descriptor()).unwrap_or(0)).unwrap_or(0);
    while left > 0 {
        let most = left.min(buffer.len());
        match rustix::io::read(pipe.descriptor(), buffer.get_mut(..most).unwrap_or_default()) {
            Ok(length) if length > 0 => {
                listeners.send(chunk(source, buffer, length)).await;
                left = left.saturating_sub(length);
            }
            _ => break,
        }
    }
}

async fn has_ended(ended: &mut watch::Receiver<bool>) {
    // An error means that the sender is gone, which comes to the same.
    let _ = ended.wait_for(|ended| *ended).await;
}

fn chunk(source: Source, buffer: &[u8], length: usize) -> Chunk {
    Chunk { source, bytes: Bytes::copy_from_slice(buffer.get(..length).unwrap_or_default()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn listeners_hear_what_comes_after_they_joined_until_the_end() {
        let listeners = Listeners::new();
        let say = |text: &'static str| Chunk { source: Source::Stdout, bytes: Bytes::from_static(text.as_bytes()) };
        listeners.send(say("before")).await;
        let mut heard = listeners.join();
        listeners.send(say("during")).await;
        listeners.close();
        listeners.send(say("after")).await;
        assert_eq!(heard.recv().await.unwrap().bytes, "during");
        assert!(heard.recv().await.is_none());
        assert!(listeners.join().recv().await.is_none());
    }

    #[tokio::test]
    async fn a_listener_that_left_does_not_block() {
        let listeners = Listeners::new();
        drop(listeners.join());
        for _ in 0..2 * QUEUE {
            listeners.send(Chunk { source: Source::Stderr, bytes: Bytes::new() }).await;
        }
        assert_eq!(listeners.open.lock().as_ref().map(Vec::len), Some(0));
    }
}
