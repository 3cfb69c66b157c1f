//! A thread for I/O, for programs that have no runtime of their own.

use std::future::Future;
use std::sync::{Arc, mpsc};
use std::thread::{Builder, JoinHandle};
use std::{fmt, io, mem, process, thread};

use parking_lot::Mutex;
use tokio::runtime::{self, Handle};
use tokio::sync::oneshot;

/// The one that all blocking clients of the process use.
static SHARED: Mutex<Option<Arc<IoRuntime>>> = Mutex::new(None);

/// A tokio runtime on one thread of its own. Connections belong to the runtime that their calls run on: all calls that
/// are to share connections go through one of these. It ends, with all that runs on it, when it is dropped.
pub struct IoRuntime {
    handle: Handle,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
    /// Threads do not survive `fork`: in another process than this one there is none.
    process: u32,
}

impl IoRuntime {
    /// Starts one.
    ///
    /// # Errors
    ///
    /// When the system gives no thread, or no descriptor to wait with.
    pub fn start() -> io::Result<Self> {
        Self::start_in(process::id())
    }

    /// The process's own, which is started when it is first asked for; after `fork` the child's is another.
    ///
    /// # Errors
    ///
    /// When it has to be started and [`IoRuntime::start`] fails.
    pub fn shared() -> io::Result<Arc<Self>> {
        shared_in(&SHARED, process::id())
    }

    fn start_in(process: u32) -> io::Result<Self> {
        let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
        let (handle, (stop, stopped)) = (runtime.handle().clone(), oneshot::channel());
        let thread = Builder::new().name("oncebox-io".into()).spawn(move || {
            // Ends when the sender is dropped.
            let _ = runtime.block_on(stopped);
        })?;
        Ok(Self { handle, stop: Some(stop), thread: Some(thread), process })
    }

    /// The runtime, to spawn on.
    pub fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Runs a future on the I/O thread, and waits for its result on this one. `None`: the runtime has ended, or the
    /// future has panicked. On the I/O thread itself it would wait for ever.
    pub fn run<T: Send + 'static>(&self, future: impl Future<Output = T> + Send + 'static) -> Option<T> {
        let (tell, told) = mpsc::sync_channel(1);
        self.handle.spawn(async move {
            // Whoever waits does so until it is told.
            let _ = tell.send(future.await);
        });
        told.recv().ok()
    }
}

fn shared_in(shared: &Mutex<Option<Arc<IoRuntime>>>, process: u32) -> io::Result<Arc<IoRuntime>> {
    let mut shared = shared.lock();
    if let Some(runtime) = shared.as_ref().filter(|runtime| runtime.process == process) {
        return Ok(runtime.clone());
    }
    let runtime = Arc::new(IoRuntime::start_in(process)?);
    // What came over a fork is the parent's: to give it up would take its sockets from the parent's epoll instance.
    mem::forget(shared.replace(runtime.clone()));
    Ok(runtime)
}

impl Drop for IoRuntime {
    fn drop(&mut self) {
        let (stop, thread) = (self.stop.take(), self.thread.take());
        if self.process != process::id() {
            mem::forget((stop, thread));
            return;
        }
        drop(stop);
        if let Some(thread) = thread.filter(|thread| thread.thread().id() != thread::current().id()) {
            // It can only have panicked, and has said so.
            let _ = thread.join();
        }
    }
}

impl fmt::Debug for IoRuntime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IoRuntime").field("runtime", &self.handle.id()).field("process", &self.process).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_process_has_another_one_and_leaves_its_parents_alone() {
        let shared = Mutex::new(None);
        let parent = shared_in(&shared, 1).unwrap();
        assert!(Arc::ptr_eq(&parent, &shared_in(&shared, 1).unwrap()));
        let child = shared_in(&shared, 2).unwrap();
        assert_ne!(parent.handle().id(), child.handle().id(), "the pool tells them apart by this");
        assert_eq!(parent.run(async { 1 }), Some(1));
        assert_eq!(child.run(async { 2 }), Some(2));
        // One is held by this test and one was forgotten: nobody ends the parent's.
        assert_eq!(Arc::strong_count(&parent), 2);
    }

    #[test]
    fn what_panics_is_told() {
        let runtime = IoRuntime::start().unwrap();
        assert_eq!(runtime.run(async { "a".parse::<u32>().unwrap() }), None);
        assert_eq!(runtime.run(async { 1 }), Some(1), "and the others go on");
    }
}
