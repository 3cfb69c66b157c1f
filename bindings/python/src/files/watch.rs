//! Watching directories.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use oncebox::{DirWatch, ErrorKind, FileEvent};
use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use tokio::time::Instant;

use super::files;
use crate::convert;
use crate::errors::{Failure, Subject};
use crate::options::Options;
use crate::pending::{Pending, begin, begin_with};
use crate::runtime;
use crate::sandbox::Sandbox;

/// Changes that are handed to Python at a time, as far as they have come.
const BATCH: usize = 1000;

#[pymethods]
impl Sandbox {
    /// Lets the sandbox gather changes until they are fetched. Options: `user`, `recursive`, `include_entry`,
    /// `allow_network_mounts`.
    fn watch(&self, py: Python<'_>, path: String, options: &Bound<'_, PyDict>) -> PyResult<Pending> {
        let options = Options::new(Some(options), py)?;
        let watch = watch(&self.inner, path, &options)?;
        options.finish()?;
        begin(py, Subject::File, watch.poll(), |py, watcher| Ok(Py::new(py, Watcher { inner: watcher })?.into_any()))
    }

    /// The changes as they come. Options: as `watch`, and `timeout`, seconds after which it ends.
    fn follow(&self, py: Python<'_>, path: String, options: &Bound<'_, PyDict>) -> PyResult<Pending> {
        let options = Options::new(Some(options), py)?;
        let watch = watch(&self.inner, path, &options)?;
        let limit = options.seconds("timeout")?.filter(|limit| !limit.is_zero());
        options.finish()?;
        begin(py, Subject::File, async move { watch.await }, move |py, changes| {
            let until = limit.and_then(|limit| Some((Instant::now().checked_add(limit)?, limit)));
            let open = Arc::new(tokio::sync::Mutex::new(Some(changes)));
            Ok(Py::new(py, Changes { open, until, new: Arc::default() })?.into_any())
        })
    }
}

fn watch(sandbox: &oncebox::Sandbox, path: String, options: &Options<'_>) -> PyResult<oncebox::WatchDir> {
    let user = options.text("user")?;
    Ok(files(sandbox, &user)
        .watch(path)
        .recursive(options.flag("recursive")?.unwrap_or(false))
        .entries(options.flag("include_entry")?.unwrap_or(false))
        .network_mounts(options.flag("allow_network_mounts")?.unwrap_or(false)))
}

/// A directory whose changes the sandbox gathers.
#[pyclass(frozen, module = "oncebox._core")]
pub(crate) struct Watcher {
    inner: oncebox::Watcher,
}

#[pymethods]
impl Watcher {
    fn events(&self, py: Python<'_>) -> PyResult<Pending> {
        let watcher = self.inner.clone();
        begin(py, Subject::File, async move { watcher.events().await }, |py, events| {
            convert::list(py, events, convert::event)
        })
    }

    fn stop(&self, py: Python<'_>) -> PyResult<Pending> {
        let watcher = self.inner.clone();
        begin(py, Subject::File, async move { watcher.stop().await }, |py, ()| Ok(py.None()))
    }
}

/// The changes of a directory, as they come. Dropped, the watch ends.
#[pyclass(frozen, module = "oncebox._core")]
pub(crate) struct Changes {
    open: Arc<tokio::sync::Mutex<Option<DirWatch>>>,
    until: Option<(Instant, Duration)>,
    new: Arc<Mutex<VecDeque<FileEvent>>>,
}

#[pymethods]
impl Changes {
    /// What changed since the last time. Empty: the watch has ended.
    fn next(&self, py: Python<'_>) -> PyResult<Pending> {
        let (open, new, taking, until) =
            (Arc::clone(&self.open), Arc::clone(&self.new), Arc::clone(&self.new), self.until);
        let next = async move {
            let mut open = open.lock().await;
            let Some(changes) = open.as_mut() else { return Ok(()) };
            if !new.lock().is_empty() {
                return Ok(());
            }
            let first = match until {
                None => changes.next().await,
                Some((until, limit)) => match tokio::time::timeout_at(until, changes.next()).await {
                    Ok(first) => first,
                    Err(_) => {
                        *open = None;
                        let message = format!("the directory was watched for its `timeout` of {limit:?}; 0 is none");
                        return Err(Failure::Plain(ErrorKind::Timeout, message));
                    }
                },
            };
            let mut event = first;
            loop {
                match event {
                    None => {
                        *open = None;
                        return Ok(());
                    }
                    Some(Err(error)) => {
                        *open = None;
                        return Err(Failure::Sdk(error));
                    }
                    Some(Ok(change)) => new.lock().push_back(change),
                }
                let Some(changes) = open.as_mut().filter(|_| new.lock().len() < BATCH) else { return Ok(()) };
                match changes.next().now_or_never() {
                    Some(more) => event = more,
                    None => return Ok(()),
                }
            }
        };
        begin_with(py, next, move |py, turned: Result<(), Failure>| {
            let new = std::mem::take(&mut *taking.lock());
            if new.is_empty() {
                turned.map_err(|failure| failure.raise(py, Subject::File))?;
            }
            convert::list(py, new, convert::event)
        })
    }

    fn stop(&self, py: Python<'_>) -> PyResult<Pending> {
        let open = Arc::clone(&self.open);
        // A task of its own: it is carried out, whoever waits for that.
        let stopped = runtime::handle(py)?.spawn(async move { *open.lock().await = None });
        begin_with(py, async move { drop(stopped.await) }, |py, ()| Ok(py.None()))
    }
}
