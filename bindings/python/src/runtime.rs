//! The process's own IO thread: made at the first operation, parked while the process forks, ended with the interpreter.
//!
//! Nothing that runs on it takes the interpreter's lock, so that neither can wait for the other.

use std::sync::mpsc;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{JoinHandle, ThreadId};
use std::time::Duration;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;
use tokio_util::task::TaskTracker;

/// How long the end of the interpreter waits for threads that resolve names or touch files.
const BLOCKING_LIMIT: Duration = Duration::from_secs(1);

/// How long the end of the interpreter waits for what undoes results that nobody took. As a client's `cleanup_timeout`.
const UNDO_LIMIT: Duration = Duration::from_secs(30);

/// How long a fork waits for the IO thread to stand still. It answers within a turn of its loop; a thread that does not is
/// stuck, and a fork is better than a hang.
const PARK_LIMIT: Duration = Duration::from_secs(5);

/// Only locked by who holds the interpreter's lock, and never while it is released: no thread is in it while another forks.
static PROCESS: Mutex<Process> = Mutex::new(Process { io: None, parked: None, generation: 0, ended: None });

struct Process {
    io: Option<Io>,
    /// Dropped, the IO thread goes on.
    parked: Option<mpsc::Sender<()>>,
    /// How many forks lie between this process and the one that imported the module.
    generation: u64,
    /// The thread that ended the IO thread.
    ended: Option<ThreadId>,
}

struct Io {
    handle: Handle,
    undoing: TaskTracker,
    stop: oneshot::Sender<()>,
    thread: JoinHandle<()>,
}

fn process() -> MutexGuard<'static, Process> {
    PROCESS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Where operations run.
///
/// # Errors
///
/// When the interpreter ends, or no thread can be made.
pub(crate) fn handle(py: Python<'_>) -> PyResult<Handle> {
    stand_still_at_the_end(py);
    let mut process = process();
    if process.ended.is_some() {
        return Err(PyRuntimeError::new_err("oncebox: the interpreter is ending; nothing new can be begun"));
    }
    if let Some(io) = &process.io {
        return Ok(io.handle.clone());
    }
    let io = start().map_err(|error| PyRuntimeError::new_err(format!("oncebox: no IO thread: {error}")))?;
    Ok(process.io.insert(io).handle.clone())
}

/// Keeps a daemon thread where it is once the interpreter ends, as the interpreter itself does with one that wants its lock:
/// it would only print an error that is none.
pub(crate) fn stand_still_at_the_end(py: Python<'_>) {
    let ended = process().ended;
    if ended.is_some_and(|by| by != std::thread::current().id()) {
        py.detach(|| {
            loop {
                std::thread::park();
            }
        });
    }
}

/// Undoes what came of operations whose results nobody took. The end of the interpreter waits for it.
#[derive(Clone)]
pub(crate) struct Undo {
    handle: Handle,
    undoing: TaskTracker,
}

impl Undo {
    pub(crate) fn spawn(&self, undoing: impl Future<Output = ()> + Send + 'static) {
        self.undoing.spawn_on(undoing, &self.handle);
    }
}

/// For an operation whose result has to be undone where nobody takes it.
///
/// # Errors
///
/// As [`handle`].
pub(crate) fn undo(py: Python<'_>) -> PyResult<Undo> {
    let handle = handle(py)?;
    let undoing = process().io.as_ref().map(|io| io.undoing.clone()).unwrap_or_default();
    Ok(Undo { handle, undoing })
}

/// Which process this is: what was begun before a fork belongs to the parent.
pub(crate) fn generation(_: Python<'_>) -> u64 {
    process().generation
}

/// Whether this is the thread in which signals are handled.
pub(crate) fn is_main_thread(py: Python<'_>) -> PyResult<bool> {
    let threading = py.import("threading")?;
    let main = threading.call_method0("main_thread")?.getattr("ident")?;
    main.eq(threading.call_method0("get_ident")?)
}

fn start() -> std::io::Result<Io> {
    let runtime = Builder::new_current_thread().enable_all().thread_name("oncebox-blocking").build()?;
    let handle = runtime.handle().clone();
    let undoing = TaskTracker::new();
    let undone = undoing.clone();
    let (stop, stopped) = oneshot::channel();
    let thread = std::thread::Builder::new().name("oncebox-io".into()).spawn(move || {
        // Ends when it is told to, or when nobody is left who could tell it.
        runtime.block_on(async {
            let _ = stopped.await;
            undone.close();
            let _ = tokio::time::timeout(UNDO_LIMIT, undone.wait()).await;
        });
        runtime.shutdown_timeout(BLOCKING_LIMIT);
    })?;
    Ok(Io { handle, undoing, stop, thread })
}

/// Has the IO thread stand still, outside of any lock, so that a child's copies of those locks are free.
#[pyfunction]
pub(crate) fn before_fork(_py: Python<'_>) {
    let mut process = process();
    let Some(io) = &process.io else { return };
    let (go, wait) = mpsc::channel::<()>();
    let (tell, parked) = mpsc::channel();
    io.handle.spawn(async move {
        let _ = tell.send(());
        let _ = wait.recv();
    });
    let _ = parked.recv_timeout(PARK_LIMIT);
    process.parked = Some(go);
}

/// Lets the IO thread go on.
#[pyfunction]
pub(crate) fn after_fork_in_parent(_py: Python<'_>) {
    process().parked = None;
}

/// Leaves the parent's IO thread, which a child does not have, and all that belongs to it: nothing of it is dropped, since
/// that would say goodbye on the parent's connections.
#[pyfunction]
pub(crate) fn after_fork_in_child(_py: Python<'_>) {
    let mut process = process();
    std::mem::forget((process.io.take(), process.parked.take()));
    process.generation += 1;
    process.ended = None;
}

/// Whether the IO thread was needed yet.
#[pyfunction]
pub(crate) fn is_running(_py: Python<'_>) -> bool {
    process().io.is_some()
}

/// Ends the IO thread, and with it all that is under way.
#[pyfunction]
pub(crate) fn shut_down(py: Python<'_>) {
    let io = {
        let mut process = process();
        process.ended = Some(std::thread::current().id());
        process.io.take()
    };
    if let Some(Io { stop, thread, .. }) = io {
        drop(stop);
        // A thread that panicked has said so.
        py.detach(|| drop(thread.join()));
    }
}
