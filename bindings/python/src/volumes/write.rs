//! Writing a volume's files: what is at hand, and what is read while it is sent.

use bytes::Bytes;
use oncebox::{Body, VolumeEntry, WriteVolumeFile};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::{Volume, entry};
use crate::errors::Subject;
use crate::options::Options;
use crate::pending::{Pending, begin};
use crate::pieces::Writing;

/// A volume's file that is written piece by piece. Dropped, it is given up: the file stays as it was.
#[pyclass(frozen, module = "oncebox._core")]
pub(crate) struct VolumeWriting {
    inner: Writing<VolumeEntry>,
}

#[pymethods]
impl Volume {
    /// Writes a file. Options: `uid`, `gid`, `mode`, `force`.
    fn write_file(
        &self,
        py: Python<'_>,
        path: String,
        data: Vec<u8>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Pending> {
        let write = self.write(py, path, Bytes::from(data).into(), options)?;
        begin(py, Subject::VolumePath, async move { write.await }, entry)
    }

    /// Begins to write a file whose bytes come piece by piece.
    fn begin_write(
        &self,
        py: Python<'_>,
        path: String,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<VolumeWriting> {
        Ok(VolumeWriting { inner: Writing::begin(py, |body| self.write(py, path, body, options))? })
    }
}

impl Volume {
    fn write(
        &self,
        py: Python<'_>,
        path: String,
        data: Body,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<WriteVolumeFile> {
        let options = Options::new(options, py)?;
        let mut write = self.inner.write_file(path, data);
        write = attributes!(write, options);
        if let Some(force) = options.flag("force")? {
            write = write.force(force);
        }
        options.finish()?;
        Ok(write)
    }
}

#[pymethods]
impl VolumeWriting {
    /// Passes a piece on, and returns when there is room for more. `False`: it has ended already; `finish` tells how.
    fn send(&self, py: Python<'_>, data: Vec<u8>) -> PyResult<Pending> {
        self.inner.send(py, data)
    }

    /// Says that it was all, and waits for the file to be there.
    fn finish(&self, py: Python<'_>) -> PyResult<Pending> {
        self.inner.finish(py, Subject::VolumePath, entry)
    }

    /// Gives it up.
    fn cancel(&self) {
        self.inner.abort();
    }
}
