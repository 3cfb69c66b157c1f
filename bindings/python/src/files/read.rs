//! Reading files.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use oncebox::{ErrorKind, FileStream};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use tokio::sync::Mutex;

use super::files;
use crate::errors::{Failure, Subject};
use crate::kept::Kept;
use crate::options;
use crate::pending::{Pending, begin, begin_with};
use crate::runtime;
use crate::sandbox::Sandbox;

#[pymethods]
impl Sandbox {
    /// A file, whole.
    fn read_file(&self, py: Python<'_>, path: String, user: Option<String>) -> PyResult<Pending> {
        let sandbox = self.inner.clone();
        let read = async move { files(&sandbox, &user).read(&path).await };
        begin(py, Subject::File, read, |py, bytes| Ok(PyBytes::new(py, &bytes).into_any().unbind()))
    }

    /// A file as a stream. `idle`: seconds without a byte after which it is given up.
    fn stream_file(
        &self,
        py: Python<'_>,
        path: String,
        user: Option<String>,
        idle: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Pending> {
        let idle = idle.map(|idle| options::seconds("stream_idle_timeout", idle)).transpose()?;
        let idle = idle.filter(|idle| !idle.is_zero());
        let sandbox = self.inner.clone();
        let opened = async move { files(&sandbox, &user).read_stream(&path).await };
        begin(py, Subject::File, opened, move |py, stream| {
            let reading = Reading { stream: Arc::new(Mutex::new(Some(stream))), kept: Kept::default(), idle };
            Ok(Py::new(py, reading)?.into_any())
        })
    }
}

/// A file that is read. Dropped, it is closed.
#[pyclass(frozen, module = "oncebox._core")]
pub(crate) struct Reading {
    stream: Arc<Mutex<Option<FileStream>>>,
    /// What had come when who waited for it was gone.
    kept: Kept<Result<Option<Bytes>, Failure>>,
    idle: Option<Duration>,
}

#[pymethods]
impl Reading {
    /// The next piece; `None` at the end. Who asks and goes away before it came has not had it.
    fn next(&self, py: Python<'_>) -> PyResult<Pending> {
        let (stream, kept, idle) = (Arc::clone(&self.stream), self.kept.clone(), self.idle);
        let next = async move {
            let mut stream = stream.lock().await;
            match kept.again() {
                Some(piece) => piece,
                None => kept.unless_taken(piece(&mut stream, idle).await),
            }
        };
        begin_with(py, next, |py, piece| match piece.take().unwrap_or(Ok(None)) {
            Ok(Some(piece)) => Ok(PyBytes::new(py, &piece).into_any().unbind()),
            Ok(None) => Ok(py.None()),
            Err(failure) => Err(failure.raise(py, Subject::File)),
        })
    }

    /// Gives up what was not read.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let (stream, kept) = (Arc::clone(&self.stream), self.kept.clone());
        runtime::handle(py)?.spawn(async move {
            *stream.lock().await = None;
            kept.clear();
        });
        Ok(())
    }
}

/// The next piece of a file that is open.
async fn piece(stream: &mut Option<FileStream>, idle: Option<Duration>) -> Result<Option<Bytes>, Failure> {
    let Some(open) = stream.as_mut() else { return Ok(None) };
    let piece = match idle {
        None => open.next().await,
        Some(limit) => match tokio::time::timeout(limit, open.next()).await {
            Ok(piece) => piece,
            Err(_) => {
                *stream = None;
                let message = format!("nothing of the file came for its `stream_idle_timeout` of {limit:?}");
                return Err(Failure::Plain(ErrorKind::Timeout, message));
            }
        },
    };
    piece.transpose().map_err(Failure::Sdk)
}
