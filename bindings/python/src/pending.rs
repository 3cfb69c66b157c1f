//! An operation under way.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use tokio::task::AbortHandle;

use crate::completions::{Completions, Queue};
use crate::errors::{Failure, Subject};
use crate::runtime;

/// How often the main thread looks for signals (Ctrl-C) while it waits. Other threads never have any: they wait undisturbed.
const SIGNAL_INTERVAL: Duration = Duration::from_millis(50);

/// An operation that goes on on the IO thread. Dropped, it is given up.
///
/// Either [`wait`](Pending::wait) for it, or have a loop told by [`notify`](Pending::notify) and [`take`](Pending::take) its
/// result.
#[pyclass(frozen, module = "oncebox._core")]
pub(crate) struct Pending {
    shared: Arc<Shared>,
    abort: AbortHandle,
    /// The process in which it was begun.
    generation: u64,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    phase: Phase,
    listener: Option<(Arc<Queue>, u64)>,
}

#[derive(Default)]
enum Phase {
    #[default]
    Running,
    Done(Finished),
    /// Its result was handed out, or nobody wants it any more.
    Over,
}

/// Makes the result's Python object.
type Finished = Box<dyn FnOnce(Python<'_>) -> PyResult<Py<PyAny>> + Send>;

/// Begins an operation whose errors are about `subject`. `convert` is called by who takes the result.
pub(crate) fn begin<T, E, F>(
    py: Python<'_>,
    subject: Subject,
    operation: F,
    convert: impl FnOnce(Python<'_>, T) -> PyResult<Py<PyAny>> + Send + 'static,
) -> PyResult<Pending>
where
    T: Send + 'static,
    E: Into<Failure> + Send + 'static,
    F: Future<Output = Result<T, E>> + Send + 'static,
{
    begin_with(py, operation, move |py, ended| match ended {
        Ok(value) => convert(py, value),
        Err(error) => Err(error.into().raise(py, subject)),
    })
}

/// Begins an operation that cannot fail, or whose failures `convert` knows.
pub(crate) fn begin_with<T, F>(
    py: Python<'_>,
    operation: F,
    convert: impl FnOnce(Python<'_>, T) -> PyResult<Py<PyAny>> + Send + 'static,
) -> PyResult<Pending>
where
    T: Send + 'static,
    F: Future<Output = T> + Send + 'static,
{
    let shared = Arc::new(Shared::default());
    let end = End(Some(Arc::clone(&shared)));
    let task = runtime::handle(py)?.spawn(async move {
        let end = end;
        let value = operation.await;
        end.with(Box::new(move |py| convert(py, value)));
    });
    Ok(Pending { shared, abort: task.abort_handle(), generation: runtime::generation(py) })
}

impl Shared {
    fn end(&self, finished: Finished) {
        let mut state = self.state.lock();
        if matches!(state.phase, Phase::Over) {
            // Dropped when the lock is released: what it holds may do something then.
            drop(state);
            return;
        }
        state.phase = Phase::Done(finished);
        let listener = state.listener.take();
        drop(state);
        self.changed.notify_all();
        if let Some((queue, token)) = listener {
            queue.push(token);
        }
    }

    fn result(&self) -> Option<Finished> {
        let mut state = self.state.lock();
        match std::mem::replace(&mut state.phase, Phase::Over) {
            Phase::Done(finished) => Some(finished),
            other => {
                state.phase = other;
                None
            }
        }
    }
}

/// Ends the operation whatever happens, so that nobody waits for what will never come.
struct End(Option<Arc<Shared>>);

impl End {
    fn with(mut self, finished: Finished) {
        if let Some(shared) = self.0.take() {
            shared.end(finished);
        }
    }
}

impl Drop for End {
    fn drop(&mut self) {
        if let Some(shared) = self.0.take() {
            shared.end(Box::new(|_| {
                let why = "oncebox: the operation ended without a result: it was cancelled, the interpreter is ending, \
                           or its thread has said why it panicked";
                Err(PyRuntimeError::new_err(why))
            }));
        }
    }
}

#[pymethods]
impl Pending {
    /// Waits for the end and returns the result, or raises. Other threads run meanwhile. A signal whose handler raises, such
    /// as Ctrl-C in the main thread, gives the operation up.
    fn wait(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.check_process(py)?;
        let mut looks_for_signals = true;
        loop {
            let is_over = py.detach(|| {
                let mut state = self.shared.state.lock();
                if matches!(state.phase, Phase::Running) {
                    if looks_for_signals {
                        self.shared.changed.wait_for(&mut state, SIGNAL_INTERVAL);
                    } else {
                        self.shared.changed.wait(&mut state);
                    }
                }
                !matches!(state.phase, Phase::Running)
            });
            if is_over {
                return self.take(py);
            }
            // Asked once it takes long: a hundred threads that wait would want the interpreter's lock all the time. A handler
            // may run, and raise, while it is asked.
            let looks = py.check_signals().and_then(|()| Ok(looks_for_signals && runtime::is_main_thread(py)?));
            looks_for_signals = looks.inspect_err(|_| self.cancel())?;
        }
    }

    /// Has `completions` told of the end, under this number. `True`: it has ended already, and nothing will be told.
    fn notify(&self, py: Python<'_>, completions: &Completions, token: u64) -> PyResult<bool> {
        self.check_process(py)?;
        let mut state = self.shared.state.lock();
        let is_over = !matches!(state.phase, Phase::Running);
        if !is_over {
            state.listener = Some((completions.queue(), token));
        }
        Ok(is_over)
    }

    /// Whether it has ended, or was given up.
    fn is_over(&self) -> bool {
        !matches!(self.shared.state.lock().phase, Phase::Running)
    }

    /// The result of what has ended, once.
    fn take(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        // A loop in a thread of its own is told of ends that are the interpreter's.
        runtime::stand_still_at_the_end(py);
        match self.shared.result() {
            Some(finished) => finished(py),
            None => Err(PyRuntimeError::new_err("oncebox: this operation has no result to be taken")),
        }
    }

    /// Gives it up: its stream and its slot are free at once. What was sent may still be carried out.
    fn cancel(&self) {
        self.abort.abort();
        let unwanted = {
            let mut state = self.shared.state.lock();
            state.listener = None;
            std::mem::replace(&mut state.phase, Phase::Over)
        };
        // Outside of the lock: a result that nobody took may have something to undo.
        drop(unwanted);
        self.shared.changed.notify_all();
    }
}

impl Pending {
    fn check_process(&self, py: Python<'_>) -> PyResult<()> {
        if self.generation == runtime::generation(py) {
            return Ok(());
        }
        Err(PyRuntimeError::new_err("oncebox: this operation was begun before the process forked: its parent has it"))
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        // A child process is free to drop what it has of its parent's: the task is not there to be aborted.
        if Python::try_attach(|py| runtime::generation(py) == self.generation).unwrap_or(false) {
            self.cancel();
        }
    }
}
