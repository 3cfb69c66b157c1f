//! A stream into a command's standard input.

use std::time::Duration;

use bytes::Bytes;
use futures_util::stream;
use oncebox::ErrorKind;
use parking_lot::Mutex;
use pyo3::prelude::*;
use tokio::sync::{mpsc, watch};

use crate::errors::{Failure, Subject};
use crate::pending::{Pending, begin_with};
use crate::runtime;

/// Pieces that wait to be sent, at most: who sends more waits.
const WAITING: usize = 4;

/// An open stream. Dropped, it is given up.
#[pyclass(frozen, module = "oncebox._core")]
pub(crate) struct Input {
    pieces: Mutex<Option<mpsc::Sender<Bytes>>>,
    ended: watch::Receiver<Option<Result<(), Failure>>>,
    task: tokio::task::AbortHandle,
    /// The process in which it was begun.
    generation: u64,
}

impl Input {
    pub(crate) fn open(
        py: Python<'_>,
        sandbox: &oncebox::Sandbox,
        pid: u32,
        terminal: bool,
        limit: Option<Duration>,
    ) -> PyResult<Self> {
        let (pieces, given) = mpsc::channel::<Bytes>(WAITING);
        let (tell, ended) = watch::channel(None);
        let sandbox = sandbox.clone();
        let data = stream::unfold(given, |mut given| async move { Some((given.recv().await?, given)) });
        let task = runtime::handle(py)?.spawn(async move {
            let sent = async {
                match terminal {
                    true => sandbox.pty().stream(pid, data).await,
                    false => sandbox.commands().stream_stdin(pid, data).await,
                }
            };
            let ended = match limit {
                None => sent.await.map_err(Failure::Sdk),
                Some(limit) => match tokio::time::timeout(limit, sent).await {
                    Ok(sent) => sent.map_err(Failure::Sdk),
                    Err(_) => {
                        let message = format!("the input was open for its `timeout` of {limit:?}; 0 is none");
                        Err(Failure::Plain(ErrorKind::Timeout, message))
                    }
                },
            };
            tell.send_replace(Some(ended));
        });
        let (task, generation) = (task.abort_handle(), runtime::generation(py));
        Ok(Self { pieces: Mutex::new(Some(pieces)), ended, task, generation })
    }
}

#[pymethods]
impl Input {
    /// Passes a piece on; returns when there is room for more.
    fn send(&self, py: Python<'_>, data: Vec<u8>) -> PyResult<Pending> {
        let (pieces, ended) = (self.pieces.lock().clone(), self.ended.clone());
        let sent = async move {
            let is_sent = match pieces {
                Some(pieces) => pieces.send(data.into()).await.is_ok(),
                None => false,
            };
            // Nobody takes it any more: the stream has ended, and said why.
            if is_sent { Ok(()) } else { end(ended).await.and(Err(closed())) }
        };
        begin_with(py, sent, |py, sent: Result<(), Failure>| {
            sent.map(|()| py.None()).map_err(|failure| failure.raise(py, Subject::Process))
        })
    }

    /// Gives it up: what was passed on and not written yet is not. The standard input stays open.
    fn give_up(&self) {
        drop(self.pieces.lock().take());
        self.task.abort();
    }

    /// Ends the stream, and waits until all of it was written. The standard input stays open.
    fn finish(&self, py: Python<'_>) -> PyResult<Pending> {
        drop(self.pieces.lock().take());
        begin_with(py, end(self.ended.clone()), |py, ended: Result<(), Failure>| {
            ended.map(|()| py.None()).map_err(|failure| failure.raise(py, Subject::Process))
        })
    }
}

async fn end(mut ended: watch::Receiver<Option<Result<(), Failure>>>) -> Result<(), Failure> {
    match ended.wait_for(Option::is_some).await {
        Ok(ended) => ended.clone().unwrap_or(Ok(())),
        Err(_) => Err(closed()),
    }
}

fn closed() -> Failure {
    Failure::Plain(ErrorKind::InvalidArgument, "the input was closed already".to_owned())
}

impl Drop for Input {
    fn drop(&mut self) {
        // In a child process the task is not there to be aborted.
        if Python::try_attach(|py| runtime::generation(py) == self.generation).unwrap_or(false) {
            self.task.abort();
        }
    }
}
