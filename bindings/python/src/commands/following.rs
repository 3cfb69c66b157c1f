//! A running command that is followed: what it wrote so far, and how it ended.

use std::sync::Arc;

use oncebox::{CommandHandle, DurableCommand, DurableControl};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};

use super::followed::{Ended, Followed, Piece, Source};
use super::{Gather, told};
use crate::convert;
use crate::errors::{Failure, Subject};
use crate::pending::{Pending, begin, begin_with};
use crate::runtime;

/// A running command.
#[pyclass(frozen, module = "oncebox._core")]
pub(crate) struct Following {
    sandbox: Option<oncebox::Sandbox>,
    pid: Option<u32>,
    durable: Option<(String, DurableControl)>,
    shared: Arc<Followed>,
}

impl Following {
    pub(crate) fn plain(sandbox: &oncebox::Sandbox, handle: CommandHandle, gather: Gather) -> Self {
        let pid = Some(handle.pid());
        Self::new(Some(sandbox.clone()), pid, None, Source::Plain(Box::new(handle)), gather)
    }

    pub(crate) fn durable(command: DurableCommand, gather: Gather) -> Self {
        let control = (command.id().to_owned(), command.control());
        Self::new(None, None, Some(control), Source::Durable(Box::new(command)), gather)
    }

    fn new(
        sandbox: Option<oncebox::Sandbox>,
        pid: Option<u32>,
        durable: Option<(String, DurableControl)>,
        source: Source,
        gather: Gather,
    ) -> Self {
        Self { sandbox, pid, durable, shared: Arc::new(Followed::new(source, gather)) }
    }

    pub(crate) fn object(py: Python<'_>, following: Self) -> PyResult<Py<PyAny>> {
        Ok(Py::new(py, following)?.into_any())
    }

    /// Follows it to its end.
    pub(crate) async fn wait(self) -> Result<Ended, Failure> {
        self.shared.to_the_end().await
    }
}

#[pymethods]
impl Following {
    /// Its process; a durable command has none that can be told.
    #[getter]
    fn pid(&self) -> Option<u32> {
        self.pid
    }

    /// The id of a durable command.
    #[getter]
    fn id(&self) -> Option<&str> {
        self.durable.as_ref().map(|(id, _)| id.as_str())
    }

    /// What it wrote to its standard output, as far as that has come; empty where it is not retained.
    #[getter]
    fn stdout(&self) -> String {
        self.shared.said.lock().stdout.clone()
    }

    #[getter]
    fn stderr(&self) -> String {
        self.shared.said.lock().stderr.clone()
    }

    /// How it ended, once that is known.
    #[getter]
    fn ended<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        let Some(ended) = self.shared.said.lock().ended.clone() else { return Ok(None) };
        let dict = PyDict::new(py);
        dict.set_item("exit_code", ended.exit.code)?;
        dict.set_item("error", ended.exit.error)?;
        Ok(Some(dict))
    }

    /// What it wrote since the last time, a list of `("stdout" | "stderr" | "pty", what)`. Empty: it has ended.
    fn next(&self, py: Python<'_>) -> PyResult<Pending> {
        let (shared, taking) = (Arc::clone(&self.shared), Arc::clone(&self.shared));
        let next = async move {
            let mut follow = shared.follow.lock().await;
            if !shared.said.lock().new.is_empty() {
                return Ok(());
            }
            follow.batch(&shared).await
        };
        // What has come stays there until it is taken: a caller who goes away in between loses nothing.
        begin_with(py, next, move |py, turned: Result<(), Failure>| {
            let new = std::mem::take(&mut taking.said.lock().new);
            if new.is_empty() {
                turned.map_err(|failure| failure.raise(py, Subject::Process))?;
            }
            let list = PyList::empty(py);
            for piece in new {
                list.append(match piece {
                    Piece::Stdout(text) => told(py, "stdout", text)?,
                    Piece::Stderr(text) => told(py, "stderr", text)?,
                    Piece::Pty(bytes) => told(py, "pty", PyBytes::new(py, &bytes))?,
                })?;
            }
            Ok(list.into_any().unbind())
        })
    }

    /// Waits for its end. The result is how it ended; what was not handed on is dropped, but for what is retained.
    fn wait_for_end(&self, py: Python<'_>) -> PyResult<Pending> {
        let shared = Arc::clone(&self.shared);
        begin_with(py, async move { shared.to_the_end().await }, |py, ended: Result<Ended, Failure>| {
            ended.map_err(|failure| failure.raise(py, Subject::Process))?.object(py)
        })
    }

    /// Follows it in the background, so that it is not held up by nobody taking what it writes.
    fn pump(&self, py: Python<'_>) -> PyResult<()> {
        let shared = Arc::clone(&self.shared);
        // Its end, or failure, is there for who asks later.
        runtime::handle(py)?.spawn(async move { drop(shared.to_the_end().await) });
        Ok(())
    }

    /// Stops following it. It goes on running.
    fn disconnect(&self, py: Python<'_>) -> PyResult<Pending> {
        let shared = Arc::clone(&self.shared);
        shared.closed.cancel();
        let closed = async move { shared.follow.lock().await.source = Source::Closed };
        begin_with(py, closed, |py, ()| Ok(py.None()))
    }

    /// Stops following it without waiting for that. It goes on running.
    fn give_up(&self, py: Python<'_>) {
        let shared = Arc::clone(&self.shared);
        shared.closed.cancel();
        // Where the interpreter is ending, all of it ends anyway.
        if let Ok(runtime) = runtime::handle(py) {
            runtime.spawn(async move { shared.follow.lock().await.source = Source::Closed });
        }
    }

    /// `False`: it had ended already.
    fn kill(&self, py: Python<'_>) -> PyResult<Pending> {
        let (durable, sandbox, pid) = (self.control(), self.sandbox.clone(), self.pid);
        let killed = async move {
            match (durable, sandbox, pid) {
                (Some(control), ..) => control.kill().await,
                (None, Some(sandbox), Some(pid)) => sandbox.commands().kill(pid).await,
                _ => Ok(false),
            }
        };
        begin(py, Subject::Process, killed, convert::flag)
    }

    fn send_stdin(&self, py: Python<'_>, data: Vec<u8>, terminal: bool) -> PyResult<Pending> {
        let (durable, sandbox, pid) = (self.control(), self.sandbox.clone(), self.pid);
        let sent = async move {
            match (durable, sandbox, pid) {
                (Some(control), ..) => control.send_stdin(data).await,
                (None, Some(sandbox), Some(pid)) if terminal => sandbox.pty().send(pid, data).await,
                (None, Some(sandbox), Some(pid)) => sandbox.commands().send_stdin(pid, data).await,
                _ => Ok(()),
            }
        };
        begin(py, Subject::Process, sent, |py, ()| Ok(py.None()))
    }

    fn close_stdin(&self, py: Python<'_>) -> PyResult<Pending> {
        let (durable, sandbox, pid) = (self.control(), self.sandbox.clone(), self.pid);
        let closed = async move {
            match (durable, sandbox, pid) {
                (Some(control), ..) => control.close_stdin().await,
                (None, Some(sandbox), Some(pid)) => sandbox.commands().close_stdin(pid).await,
                _ => Ok(()),
            }
        };
        begin(py, Subject::Process, closed, |py, ()| Ok(py.None()))
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        self.shared.closed.cancel();
    }
}

impl Following {
    fn control(&self) -> Option<DurableControl> {
        self.durable.as_ref().map(|(_, control)| control.clone())
    }
}
