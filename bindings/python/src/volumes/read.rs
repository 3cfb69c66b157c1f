//! Reading a volume's files.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt;
use oncebox::{ErrorKind, ResponseBody};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use tokio::sync::Mutex;

use super::Volume;
use crate::errors::{Failure, Subject};
use crate::kept::Kept;
use crate::options;
use crate::pending::{Pending, begin, begin_with};
use crate::runtime;

/// A volume's file that is read. Dropped, it is closed.
#[pyclass(frozen, module = "oncebox._core")]
pub(crate) struct VolumeReading {
    body: Arc<Mutex<Option<ResponseBody>>>,
    /// What had come when who waited for it was gone.
    kept: Kept<Result<Option<Bytes>, Failure>>,
    /// The longest time without a byte.
    idle: Option<Duration>,
}

#[pymethods]
impl Volume {
    /// A file, whole.
    fn read_file(&self, py: Python<'_>, path: String) -> PyResult<Pending> {
        let volume = self.inner.clone();
        begin(py, Subject::VolumePath, async move { volume.read_file(&path).await }, |py, bytes| {
            Ok(PyBytes::new(py, &bytes).into_any().unbind())
        })
    }

    /// A file as a stream. `idle`: seconds without a byte after which it is given up; 0 is never.
    fn stream_file(&self, py: Python<'_>, path: String, idle: Option<&Bound<'_, PyAny>>) -> PyResult<Pending> {
        let idle = idle.map(|idle| options::seconds("stream_idle_timeout", idle)).transpose()?;
        let idle = idle.filter(|idle| !idle.is_zero());
        let volume = self.inner.clone();
        begin(py, Subject::VolumePath, async move { volume.read_stream(&path).await }, move |py, body| {
            let reading = VolumeReading { body: Arc::new(Mutex::new(Some(body))), kept: Kept::default(), idle };
            Ok(Py::new(py, reading)?.into_any())
        })
    }
}

#[pymethods]
impl VolumeReading {
    /// The next piece; `None` at the end. Who asks and goes away before it came has not had it.
    fn next(&self, py: Python<'_>) -> PyResult<Pending> {
        let (body, kept, idle) = (Arc::clone(&self.body), self.kept.clone(), self.idle);
        let next = async move {
            let mut body = body.lock().await;
            match kept.again() {
                Some(piece) => piece,
                None => kept.unless_taken(next(&mut body, idle).await),
            }
        };
        begin_with(py, next, |py, piece| match piece.take().unwrap_or(Ok(None)) {
            Ok(Some(piece)) => Ok(PyBytes::new(py, &piece).into_any().unbind()),
            Ok(None) => Ok(py.None()),
            Err(failure) => Err(failure.raise(py, Subject::VolumePath)),
        })
    }

    /// Gives up what was not read.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let (body, kept) = (Arc::clone(&self.body), self.kept.clone());
        runtime::handle(py)?.spawn(async move {
            *body.lock().await = None;
            kept.clear();
        });
        Ok(())
    }
}

/// The next piece of a file that is open.
async fn next(body: &mut Option<ResponseBody>, idle: Option<Duration>) -> Result<Option<Bytes>, Failure> {
    let Some(open) = body.as_mut() else { return Ok(None) };
    let piece = match idle {
        None => piece(open).await,
        Some(limit) => tokio::time::timeout(limit, piece(open)).await.unwrap_or_else(|_| {
            let message = format!("nothing of the volume's file came for its `stream_idle_timeout` of {limit:?}");
            Err(Failure::Plain(ErrorKind::Timeout, message))
        }),
    };
    if !matches!(piece, Ok(Some(_))) {
        *body = None;
    }
    piece
}

async fn piece(body: &mut ResponseBody) -> Result<Option<Bytes>, Failure> {
    loop {
        let cut =
            |error| Failure::Plain(ErrorKind::ConnectionLost, format!("could not read the volume's file: {error}"));
        match body.frame().await.transpose().map_err(cut)? {
            None => return Ok(None),
            Some(frame) => match frame.into_data() {
                Ok(data) if !data.is_empty() => return Ok(Some(data)),
                _ => {}
            },
        }
    }
}
