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
use crate::errors::{Subject, plain};
use crate::options;
use crate::pending::{Pending, begin, begin_with};

/// A volume's file that is read. Dropped, it is closed.
#[pyclass(frozen, module = "oncebox._core")]
pub(crate) struct VolumeReading {
    body: Arc<Mutex<Option<ResponseBody>>>,
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
            let reading = VolumeReading { body: Arc::new(Mutex::new(Some(body))), idle };
            Ok(Py::new(py, reading)?.into_any())
        })
    }
}

/// Why there is no next piece.
enum End {
    Cut(String),
    Idle(Duration),
}

#[pymethods]
impl VolumeReading {
    /// The next piece; `None` at the end.
    fn next(&self, py: Python<'_>) -> PyResult<Pending> {
        let (body, idle) = (Arc::clone(&self.body), self.idle);
        let next = async move {
            let mut body = body.lock().await;
            let Some(open) = body.as_mut() else { return Ok(None) };
            let piece = match idle {
                None => piece(open).await,
                Some(limit) => tokio::time::timeout(limit, piece(open)).await.unwrap_or_else(|_| Err(End::Idle(limit))),
            };
            if !matches!(piece, Ok(Some(_))) {
                *body = None;
            }
            piece
        };
        begin_with(py, next, |py, piece| match piece {
            Ok(None) => Ok(py.None()),
            Ok(Some(piece)) => Ok(PyBytes::new(py, &piece).into_any().unbind()),
            Err(End::Cut(why)) => {
                Err(plain(py, ErrorKind::ConnectionLost, format!("could not read the volume's file: {why}")))
            }
            Err(End::Idle(limit)) => {
                let message = format!("nothing of the volume's file came for its `stream_idle_timeout` of {limit:?}");
                Err(plain(py, ErrorKind::Timeout, message))
            }
        })
    }

    /// Closes it.
    fn close(&self, py: Python<'_>) -> PyResult<Pending> {
        let body = Arc::clone(&self.body);
        begin_with(py, async move { *body.lock().await = None }, |py, ()| Ok(py.None()))
    }
}

async fn piece(body: &mut ResponseBody) -> Result<Option<Bytes>, End> {
    loop {
        match body.frame().await.transpose().map_err(|error| End::Cut(error.to_string()))? {
            None => return Ok(None),
            Some(frame) => match frame.into_data() {
                Ok(data) if !data.is_empty() => return Ok(Some(data)),
                _ => {}
            },
        }
    }
}
