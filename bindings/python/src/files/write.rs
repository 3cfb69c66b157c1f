//! Writing files: what is at hand, and what is read while it is sent.

use std::convert::Infallible;

use bytes::Bytes;
use futures_util::stream;
use oncebox::transport::Body;
use oncebox::{Error, WriteFile, WrittenFile};
use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use tokio::sync::{mpsc, watch};

use super::files;
use crate::convert;
use crate::errors::{Failure, Subject};
use crate::options::Options;
use crate::pending::{Pending, begin, begin_with};
use crate::runtime;
use crate::sandbox::Sandbox;

/// Pieces that wait to be sent, at most: who gives more waits.
const WAITING: usize = 4;

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
        let write = write(&self.inner, path, Bytes::from(data).into(), &Options::new(Some(options), py)?)?;
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
        let (pieces, given) = mpsc::channel::<Bytes>(WAITING);
        let data =
            stream::unfold(given, |mut given| async move { Some((Ok::<_, Infallible>(given.recv().await?), given)) });
        let body = Body::stream(http_body_util::StreamBody::new(futures_util::TryStreamExt::map_ok(
            data,
            http_body::Frame::data,
        )));
        let write = write(&self.inner, path, body, &Options::new(Some(options), py)?)?;
        let (tell, ended) = watch::channel(None);
        let task = runtime::handle(py)?.spawn(async move {
            let ended = write.await;
            tell.send_replace(Some(ended));
        });
        Ok(FileUpload { pieces: Mutex::new(Some(pieces)), ended, task: task.abort_handle() })
    }
}

fn write(sandbox: &oncebox::Sandbox, path: String, data: Body, options: &Options<'_>) -> PyResult<WriteFile> {
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
    pieces: Mutex<Option<mpsc::Sender<Bytes>>>,
    ended: watch::Receiver<Option<Result<WrittenFile, Error>>>,
    task: tokio::task::AbortHandle,
}

#[pymethods]
impl FileUpload {
    /// Passes a piece on, and returns when there is room for more. `False`: it has ended already; `finish` tells how.
    fn send(&self, py: Python<'_>, data: Vec<u8>) -> PyResult<Pending> {
        let pieces = self.pieces.lock().clone();
        let sent = async move {
            match pieces {
                Some(pieces) => pieces.send(data.into()).await.is_ok(),
                None => false,
            }
        };
        begin_with(py, sent, convert::flag)
    }

    /// Says that it was all, and waits for the file to be there.
    fn finish(&self, py: Python<'_>) -> PyResult<Pending> {
        drop(self.pieces.lock().take());
        let mut ended = self.ended.clone();
        let finished = async move {
            let ended = ended.wait_for(Option::is_some).await.ok().and_then(|ended| ended.clone());
            let given_up = || Failure::Plain(oncebox::ErrorKind::NotDone, "the upload was given up".to_owned());
            ended.ok_or_else(given_up)?.map_err(Failure::Sdk)
        };
        begin(py, Subject::File, finished, |py, file| Ok(written(py, file)?.into_any().unbind()))
    }

    /// Gives it up.
    fn abort(&self) {
        self.task.abort();
    }
}

impl Drop for FileUpload {
    fn drop(&mut self) {
        self.task.abort();
    }
}
