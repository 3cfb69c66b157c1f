//! What an operation tells on its way: a task on the IO thread that is ahead of its listener by a few events at most.

use std::future::Future;
use std::sync::Arc;

use pyo3::prelude::*;
use tokio::sync::{Mutex, mpsc};
use tokio::task::AbortHandle;

use crate::pending::{Pending, begin_with};
use crate::runtime;

/// Events that wait to be taken, at most: a task that has more waits.
const WAITING: usize = 64;

/// The events of a task. Dropped, the task is given up.
pub(crate) struct Feed<T> {
    events: Arc<Mutex<mpsc::Receiver<T>>>,
    task: AbortHandle,
    /// The process in which it was begun.
    generation: u64,
}

impl<T: Send + 'static> Feed<T> {
    /// Begins the task that tells.
    pub(crate) fn begin<F>(py: Python<'_>, task: impl FnOnce(mpsc::Sender<T>) -> F) -> PyResult<Self>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let (tell, events) = mpsc::channel(WAITING);
        let task = runtime::handle(py)?.spawn(task(tell)).abort_handle();
        Ok(Self { events: Arc::new(Mutex::new(events)), task, generation: runtime::generation(py) })
    }

    /// What was told since the last time, once there is something; empty when the task is over. `convert` is called by who
    /// takes it.
    pub(crate) fn next(
        &self,
        py: Python<'_>,
        convert: impl FnOnce(Python<'_>, Vec<T>) -> PyResult<Py<PyAny>> + Send + 'static,
    ) -> PyResult<Pending> {
        let events = Arc::clone(&self.events);
        let next = async move {
            let mut told = Vec::new();
            events.lock().await.recv_many(&mut told, WAITING).await;
            told
        };
        begin_with(py, next, convert)
    }

    /// Gives the task up.
    pub(crate) fn give_up(&self) {
        self.task.abort();
    }
}

impl<T> Drop for Feed<T> {
    fn drop(&mut self) {
        // In a child process the task is not there to be aborted.
        if Python::try_attach(|py| runtime::generation(py) == self.generation).unwrap_or(false) {
            self.task.abort();
        }
    }
}
