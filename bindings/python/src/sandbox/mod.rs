//! Sandboxes: made, found, described, ended.

mod create;
mod list;
mod unclaimed;

pub(crate) use create::order;
pub(crate) use list::{SandboxPages, SnapshotPages};

use jiff::Timestamp;
use oncebox::{Error, Killed, Pause, Paused};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use crate::client::call_options;
use crate::convert;
use crate::errors::{self, Subject, invalid};
use crate::options::{self, Options};
use crate::pending::{Pending, begin};
use crate::runtime;
use unclaimed::Unclaimed;

/// A sandbox. It belongs to no thread and no loop.
#[pyclass(frozen, module = "oncebox._core")]
pub(crate) struct Sandbox {
    pub(crate) inner: oncebox::Sandbox,
}

impl Sandbox {
    pub(crate) fn object(py: Python<'_>, inner: oncebox::Sandbox) -> PyResult<Py<PyAny>> {
        Ok(Py::new(py, Self { inner })?.into_any())
    }
}

#[pymethods]
impl Sandbox {
    #[getter]
    fn id(&self) -> &str {
        self.inner.id()
    }

    #[getter]
    fn domain(&self) -> Option<&str> {
        self.inner.domain()
    }

    #[getter]
    fn traffic_access_token(&self) -> Option<&str> {
        self.inner.traffic_access_token().map(|token| token.expose())
    }

    #[getter]
    fn intent(&self) -> Option<&str> {
        self.inner.intent()
    }

    #[getter]
    fn superseded_by(&self) -> Option<&str> {
        self.inner.superseded_by()
    }

    fn host(&self, port: &Bound<'_, PyAny>) -> PyResult<String> {
        Ok(self.inner.host(number(port)?))
    }

    fn port_url(&self, py: Python<'_>, port: &Bound<'_, PyAny>) -> PyResult<String> {
        self.inner.port_url(number(port)?).map_err(|error| errors::raise(py, &error, Subject::Sandbox))
    }

    fn direct_url(&self, py: Python<'_>, port: &Bound<'_, PyAny>) -> PyResult<String> {
        self.inner.direct_url(number(port)?).map_err(|error| errors::raise(py, &error, Subject::Sandbox))
    }

    /// A URL for one file: `upload` or download.
    fn file_url(
        &self,
        py: Python<'_>,
        upload: bool,
        path: &str,
        user: Option<&str>,
        valid: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<String> {
        let valid = valid.map(|valid| options::seconds("use_signature_expiration", valid)).transpose()?;
        let user = user.unwrap_or_default();
        let url = match upload {
            true => self.inner.upload_url_as(user, path, valid),
            false => self.inner.download_url_as(user, path, valid),
        };
        url.map_err(|error| errors::raise(py, &error, Subject::Sandbox))
    }

    /// The same sandbox whose calls have these options in place of its own.
    #[pyo3(signature = (options=None))]
    fn with_options(&self, py: Python<'_>, options: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
        let options = call_options(Options::new(options, py)?)?;
        let inner = self.inner.with(options).map_err(|error| errors::raise(py, &error, Subject::Sandbox))?;
        Ok(Self { inner })
    }

    /// Ends it. `False`: there was no such running sandbox.
    fn kill(&self, py: Python<'_>) -> PyResult<Pending> {
        let sandbox = self.inner.clone();
        begin(py, Subject::Sandbox, async move { sandbox.kill().await }, |py, killed| {
            convert::flag(py, killed != Killed::Already)
        })
    }

    fn info(&self, py: Python<'_>) -> PyResult<Pending> {
        let sandbox = self.inner.clone();
        begin(py, Subject::Sandbox, async move { sandbox.info().await }, |py, info| {
            Ok(convert::sandbox_info(py, info)?.into_any().unbind())
        })
    }

    fn set_timeout(&self, py: Python<'_>, timeout: &Bound<'_, PyAny>) -> PyResult<Pending> {
        let (sandbox, lifetime) = (self.inner.clone(), options::seconds("timeout", timeout)?);
        begin(py, Subject::Sandbox, async move { sandbox.set_timeout(lifetime).await }, |py, ()| Ok(py.None()))
    }

    /// `False`: it was paused already, or was changing (409).
    fn pause(&self, py: Python<'_>, filesystem: bool, strict: bool) -> PyResult<Pending> {
        let mut how = if filesystem { Pause::filesystem() } else { Pause::full() };
        if strict {
            how = how.strict();
        }
        let sandbox = self.inner.clone();
        begin(py, Subject::Sandbox, async move { sandbox.pause(how).await }, |py, paused| {
            convert::flag(py, paused != Paused::Already)
        })
    }

    /// Sandboxes, or the exception of each fork that failed.
    fn fork(&self, py: Python<'_>, count: &Bound<'_, PyAny>, timeout: Option<&Bound<'_, PyAny>>) -> PyResult<Pending> {
        let lifetime = timeout.map(|timeout| options::seconds("timeout", timeout)).transpose()?;
        let (sandbox, count, undo) = (self.inner.clone(), options::count("count", count)?, runtime::undo(py)?);
        let made = async move {
            let forks = sandbox.fork(count, lifetime).await?;
            let unclaimed = |fork: Result<_, Error>| fork.map(|made| Unclaimed::new(made, undo.clone()));
            Ok::<_, Error>(forks.into_iter().map(unclaimed).collect::<Vec<_>>())
        };
        begin(py, Subject::Sandbox, made, |py, forks| {
            let list = PyList::empty(py);
            for fork in forks {
                match fork {
                    Ok(made) => list.append(Self::object(py, made.claim()?)?)?,
                    Err(error) => list.append(errors::raise(py, &error, Subject::Sandbox).into_value(py))?,
                }
            }
            Ok(list.into_any().unbind())
        })
    }

    fn create_snapshot(&self, py: Python<'_>, name: Option<String>, filesystem: bool) -> PyResult<Pending> {
        let sandbox = self.inner.clone();
        let take = async move {
            match filesystem {
                true => sandbox.snapshot_files(name.as_deref()).await,
                false => sandbox.snapshot(name.as_deref()).await,
            }
        };
        begin(py, Subject::Sandbox, take, |py, taken| Ok(convert::snapshot(py, taken)?.into_any().unbind()))
    }

    /// `start` and `end` in microseconds since 1970.
    fn metrics(&self, py: Python<'_>, start: Option<i64>, end: Option<i64>) -> PyResult<Pending> {
        let at = |name: &str, at: Option<i64>| {
            let wrong = |_| invalid(py, format!("{name}: there is no such moment"));
            at.map(|at| Timestamp::from_microsecond(at).map_err(wrong)).transpose()
        };
        let (sandbox, start, end) = (self.inner.clone(), at("start", start)?, at("end", end)?);
        begin(py, Subject::Sandbox, async move { sandbox.metrics(start, end).await }, |py, metrics| {
            convert::list(py, metrics, convert::metric)
        })
    }

    /// `network` is the protocol's JSON.
    fn update_network(&self, py: Python<'_>, network: &str) -> PyResult<Pending> {
        let update = options::json("network", network, py)?;
        let sandbox = self.inner.clone();
        begin(py, Subject::Sandbox, async move { sandbox.update_network(&update).await }, |py, ()| Ok(py.None()))
    }

    fn is_running(&self, py: Python<'_>) -> PyResult<Pending> {
        let sandbox = self.inner.clone();
        begin(py, Subject::Process, async move { sandbox.is_running().await }, convert::flag)
    }
}

/// A port's.
fn number(port: &Bound<'_, PyAny>) -> PyResult<u16> {
    options::whole("port", port, 0..=u16::MAX.into())
}
