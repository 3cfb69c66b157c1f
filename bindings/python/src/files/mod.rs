//! The files of a sandbox.

mod read;
mod watch;
mod write;

pub(crate) use read::Reading;
pub(crate) use watch::{Changes, Watcher};
pub(crate) use write::FileUpload;

use oncebox::Files;
use pyo3::prelude::*;

use crate::convert;
use crate::errors::Subject;
use crate::pending::{Pending, begin};
use crate::sandbox::Sandbox;

/// The files as this user sees them.
fn files<'a>(sandbox: &'a oncebox::Sandbox, user: &'a Option<String>) -> Files<'a> {
    match user {
        Some(user) => sandbox.files().user(user),
        None => sandbox.files(),
    }
}

#[pymethods]
impl Sandbox {
    fn list_files(
        &self,
        py: Python<'_>,
        path: String,
        depth: &Bound<'_, PyAny>,
        user: Option<String>,
    ) -> PyResult<Pending> {
        let (sandbox, depth) = (self.inner.clone(), crate::options::count("depth", depth)?);
        let listed = async move { files(&sandbox, &user).list(&path, depth).await };
        begin(py, Subject::File, listed, |py, entries| convert::list(py, entries, convert::entry))
    }

    fn file_exists(&self, py: Python<'_>, path: String, user: Option<String>) -> PyResult<Pending> {
        let sandbox = self.inner.clone();
        begin(py, Subject::File, async move { files(&sandbox, &user).exists(&path).await }, convert::flag)
    }

    fn file_info(&self, py: Python<'_>, path: String, user: Option<String>) -> PyResult<Pending> {
        let sandbox = self.inner.clone();
        let told = async move { files(&sandbox, &user).info(&path).await };
        begin(py, Subject::File, told, |py, entry| Ok(convert::entry(py, entry)?.into_any().unbind()))
    }

    fn remove_file(&self, py: Python<'_>, path: String, user: Option<String>) -> PyResult<Pending> {
        let sandbox = self.inner.clone();
        let removed = async move { files(&sandbox, &user).remove(&path).await };
        begin(py, Subject::File, removed, |py, ()| Ok(py.None()))
    }

    fn rename_file(&self, py: Python<'_>, old: String, new: String, user: Option<String>) -> PyResult<Pending> {
        let sandbox = self.inner.clone();
        let renamed = async move { files(&sandbox, &user).rename(&old, &new).await };
        begin(py, Subject::File, renamed, |py, entry| Ok(convert::entry(py, entry)?.into_any().unbind()))
    }

    /// `False`: it was there already.
    fn make_dir(&self, py: Python<'_>, path: String, user: Option<String>) -> PyResult<Pending> {
        let sandbox = self.inner.clone();
        begin(py, Subject::File, async move { files(&sandbox, &user).make_dir(&path).await }, convert::flag)
    }
}
