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
            let watch = Arc::new(tokio::sync::Mutex::new(Watch::Open(changes)));
            Ok(Py::new(py, Changes { watch, until, new: Arc::default() })?.into_any())
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
    watch: Arc<tokio::sync::Mutex<Watch>>,
    until: Option<(Instant, Duration)>,
    new: Arc<Mutex<VecDeque<FileEvent>>>,
}

enum Watch {
    Open(DirWatch),
    /// What it failed of is there for who asks later: it may have come with changes, which are told first.
    Over(Result<(), Failure>),
}

impl Watch {
    fn fail(&mut self, failure: Failure) -> Result<(), Failure> {
        *self = Self::Over(Err(failure.clone()));
        Err(failure)
    }
}

#[pymethods]
impl Changes {
    /// What changed since the last time. Empty: the watch has ended.
    fn next(&self, py: Python<'_>) -> PyResult<Pending> {
        let (watch, new, taking, until) =
            (Arc::clone(&self.watch), Arc::clone(&self.new), Arc::clone(&self.new), self.until);
        let next = async move {
            let mut watch = watch.lock().await;
            if !new.lock().is_empty() {
                return Ok(());
            }
            let changes = match &mut *watch {
                Watch::Open(changes) => changes,
                Watch::Over(how) => return how.clone(),
            };
            let first = match until {
                None => changes.next().await,
                Some((until, limit)) => match tokio::time::timeout_at(until, changes.next()).await {
                    Ok(first) => first,
                    Err(_) => {
                        let message = format!("the directory was watched for its `timeout` of {limit:?}; 0 is none");
                        return watch.fail(Failure::Plain(ErrorKind::Timeout, message));
                    }
                },
            };
            let mut event = first;
            loop {
                match event {
                    None => {
                        *watch = Watch::Over(Ok(()));
                        return Ok(());
                    }
                    Some(Err(error)) => return watch.fail(Failure::Sdk(error)),
                    Some(Ok(change)) => new.lock().push_back(change),
                }
                let Watch::Open(changes) = &mut *watch else { return Ok(()) };
                if new.lock().len() >= BATCH {
                    return Ok(());
                }
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
        let watch = Arc::clone(&self.watch);
        // A task of its own: it is carried out, whoever waits for that.
        let stopped = runtime::handle(py)?.spawn(async move { *watch.lock().await = Watch::Over(Ok(())) });
        begin_with(py, async move { drop(stopped.await) }, |py, ()| Ok(py.None()))
    }
}
