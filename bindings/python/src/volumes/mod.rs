//! Volumes: made, found, and their content.

/// Owner, group and permissions, where they are given.
macro_rules! attributes {
    ($builder:ident, $options:ident) => {{
        let mut builder = $builder;
        if let Some(uid) = $options.count("uid")? {
            builder = builder.uid(uid);
        }
        if let Some(gid) = $options.count("gid")? {
            builder = builder.gid(gid);
        }
        if let Some(mode) = $options.count("mode")? {
            builder = builder.mode(mode);
        }
        builder
    }};
}
mod read;
mod write;

pub(crate) use read::VolumeReading;
pub(crate) use write::VolumeWriting;

use oncebox::{VolumeEntry, VolumeInfo};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use crate::client::Client;
use crate::convert;
use crate::errors::Subject;
use crate::options::{self, Options};
use crate::pending::{Pending, begin};

/// A volume.
#[pyclass(frozen, module = "oncebox._core")]
pub(crate) struct Volume {
    inner: oncebox::Volume,
}

#[pymethods]
impl Client {
    fn create_volume(&self, py: Python<'_>, name: &Bound<'_, PyAny>) -> PyResult<Pending> {
        let (client, name) = (self.inner.clone(), options::text("name", name)?);
        let made = async move { oncebox::Volume::create(&client, &name).await };
        begin(py, Subject::Volume, made, Volume::object)
    }

    fn connect_volume(&self, py: Python<'_>, id: &Bound<'_, PyAny>) -> PyResult<Pending> {
        let (client, id) = (self.inner.clone(), options::text("volume_id", id)?);
        begin(py, Subject::Volume, async move { oncebox::Volume::connect(&client, &id).await }, Volume::object)
    }

    /// A volume whose token is known; nobody is asked.
    fn known_volume(&self, id: String, name: String, token: String, domain: Option<String>) -> Volume {
        Volume { inner: oncebox::Volume::known(&self.inner, id, name, token, domain) }
    }

    fn volumes(&self, py: Python<'_>) -> PyResult<Pending> {
        let client = self.inner.clone();
        begin(py, Subject::Volume, async move { oncebox::Volume::list(&client).await }, |py, all: Vec<VolumeInfo>| {
            let list = PyList::empty(py);
            for volume in all {
                list.append((volume.id, volume.name))?;
            }
            Ok(list.into_any().unbind())
        })
    }

    fn destroy_volume(&self, py: Python<'_>, id: &Bound<'_, PyAny>) -> PyResult<Pending> {
        let (client, id) = (self.inner.clone(), options::text("volume_id", id)?);
        begin(py, Subject::Volume, async move { oncebox::Volume::destroy(&client, &id).await }, convert::flag)
    }
}

#[pymethods]
impl Volume {
    #[getter]
    fn id(&self) -> &str {
        self.inner.id()
    }

    #[getter]
    fn name(&self) -> &str {
        self.inner.name()
    }

    #[getter]
    fn token(&self) -> &str {
        self.inner.token()
    }

    #[getter]
    fn domain(&self) -> Option<&str> {
        self.inner.domain()
    }

    fn list(&self, py: Python<'_>, path: String, depth: Option<&Bound<'_, PyAny>>) -> PyResult<Pending> {
        let depth = depth.map(|depth| options::count("depth", depth)).transpose()?.unwrap_or(1);
        let volume = self.inner.clone();
        let listed = async move { volume.list_dir(&path, depth).await };
        begin(py, Subject::VolumePath, listed, |py, entries| {
            let list = PyList::empty(py);
            for entry in entries {
                list.append(shown(py, entry)?)?;
            }
            Ok(list.into_any().unbind())
        })
    }

    fn exists(&self, py: Python<'_>, path: String) -> PyResult<Pending> {
        let volume = self.inner.clone();
        begin(py, Subject::VolumePath, async move { volume.exists(&path).await }, convert::flag)
    }

    fn entry(&self, py: Python<'_>, path: String) -> PyResult<Pending> {
        let volume = self.inner.clone();
        begin(py, Subject::VolumePath, async move { volume.entry(&path).await }, entry)
    }

    /// Options: `uid`, `gid`, `mode`, `force`.
    fn make_dir(&self, py: Python<'_>, path: String, options: Option<&Bound<'_, PyDict>>) -> PyResult<Pending> {
        let options = Options::new(options, py)?;
        let mut make = self.inner.make_dir(path);
        make = attributes!(make, options);
        if let Some(force) = options.flag("force")? {
            make = make.force(force);
        }
        options.finish()?;
        begin(py, Subject::VolumePath, async move { make.await }, entry)
    }

    /// Options: `uid`, `gid`, `mode`.
    fn update_metadata(&self, py: Python<'_>, path: String, options: Option<&Bound<'_, PyDict>>) -> PyResult<Pending> {
        let options = Options::new(options, py)?;
        let mut update = self.inner.update_metadata(path);
        update = attributes!(update, options);
        options.finish()?;
        begin(py, Subject::VolumePath, async move { update.await }, entry)
    }

    fn remove(&self, py: Python<'_>, path: String) -> PyResult<Pending> {
        let volume = self.inner.clone();
        begin(py, Subject::VolumePath, async move { volume.remove(&path).await }, |py, ()| Ok(py.None()))
    }
}

impl Volume {
    fn object(py: Python<'_>, inner: oncebox::Volume) -> PyResult<Py<PyAny>> {
        Ok(Py::new(py, Self { inner })?.into_any())
    }
}

fn entry(py: Python<'_>, entry: VolumeEntry) -> PyResult<Py<PyAny>> {
    Ok(shown(py, entry)?.into_any().unbind())
}

fn shown(py: Python<'_>, entry: VolumeEntry) -> PyResult<Bound<'_, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("name", entry.name)?;
    dict.set_item("type", entry.kind.as_str())?;
    dict.set_item("path", entry.path)?;
    dict.set_item("size", entry.size)?;
    dict.set_item("mode", entry.mode)?;
    dict.set_item("uid", entry.uid)?;
    dict.set_item("gid", entry.gid)?;
    dict.set_item("atime", entry.accessed_at.as_microsecond())?;
    dict.set_item("mtime", entry.modified_at.as_microsecond())?;
    dict.set_item("ctime", entry.changed_at.as_microsecond())?;
    dict.set_item("target", entry.target)?;
    Ok(dict)
}
