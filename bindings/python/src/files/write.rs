//! Writing files: what is at hand, and what is read while it is sent.

use bytes::Bytes;
use oncebox::transport::Body;
use oncebox::{WriteFile, WrittenFile};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::files;
use crate::convert;
use crate::errors::Subject;
use crate::options::Options;
use crate::pending::{Pending, begin};
use crate::pieces::Writing;
use crate::sandbox::Sandbox;

#[pymethods]
impl Sandbox {
    /// Writes a file. Options: `user`, `gzip`, `use_octet_stream`, `metadata`.
    fn write_file(
        &self,
        py: Python<'_>,
        path: String,
        data: Vec<u8>,
        options: &Bound<'_, PyDict>,
    ) -> PyResult<Pending> {
        let write = write(&self.inner, path, Bytes::from(data).into(), Options::new(Some(options), py)?)?;
        begin(py, Subject::File, async move { write.await }, |py, file| Ok(written(py, file)?.into_any().unbind()))
    }

    /// Writes many files, each with its bytes. Options: `user`, `metadata`.
    fn write_files(
        &self,
        py: Python<'_>,
        given: Vec<(String, Vec<u8>)>,
        options: &Bound<'_, PyDict>,
    ) -> PyResult<Pending> {
        let options = Options::new(Some(options), py)?;
        let user = options.text("user")?;
        let given = given.into_iter().map(|(path, data)| (path, Bytes::from(data)));
        let mut write = files(&self.inner, &user).write_files(given);
        for (name, value) in options.pairs("metadata")? {
            write = write.metadata(name, value);
        }
        options.finish()?;
        begin(py, Subject::File, async move { write.await }, |py, all| convert::list(py, all, written))
    }

    /// Begins to write a file whose bytes come piece by piece. Options: as `write_file`.
    fn upload(&self, py: Python<'_>, path: String, options: &Bound<'_, PyDict>) -> PyResult<FileUpload> {
        let options = Options::new(Some(options), py)?;
        Ok(FileUpload { inner: Writing::begin(py, |body| write(&self.inner, path, body, options))? })
    }
}

fn write(sandbox: &oncebox::Sandbox, path: String, data: Body, options: Options<'_>) -> PyResult<WriteFile> {
    let user = options.text("user")?;
    let mut write = files(sandbox, &user).write(path, data);
    for (name, value) in options.pairs("metadata")? {
        write = write.metadata(name, value);
    }
    if let Some(gzip) = options.flag("gzip")? {
        write = write.gzip(gzip);
    }
    if let Some(plain) = options.flag("use_octet_stream")? {
        write = write.form(!plain);
    }
    options.finish()?;
    Ok(write)
}

fn written(py: Python<'_>, file: WrittenFile) -> PyResult<Bound<'_, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("name", file.name)?;
    dict.set_item("type", file.r#type)?;
    dict.set_item("path", file.path)?;
    dict.set_item("metadata", file.metadata)?;
    Ok(dict)
}

/// A file that is being written. Dropped, it is given up: the file stays as it was.
#[pyclass(frozen, module = "oncebox._core")]
pub(crate) struct FileUpload {
    inner: Writing<WrittenFile>,
}

#[pymethods]
impl FileUpload {
    /// Passes a piece on, and returns when there is room for more. `False`: it has ended already; `finish` tells how.
    fn send(&self, py: Python<'_>, data: Vec<u8>) -> PyResult<Pending> {
        self.inner.send(py, data)
    }

    /// Says that it was all, and waits for the file to be there.
    fn finish(&self, py: Python<'_>) -> PyResult<Pending> {
        self.inner.finish(py, Subject::File, |py, file| Ok(written(py, file)?.into_any().unbind()))
    }

    /// Gives it up.
    fn abort(&self) {
        self.inner.abort();
    }
}
