//! Sandboxes: made, found, described, ended.

use oncebox::Killed;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use tokio::runtime::Handle;

use crate::client::Client;
use crate::errors::Subject;
use crate::options::Options;
use crate::pending::{Pending, begin};
use crate::runtime;

/// A sandbox.
#[pyclass(frozen, module = "oncebox._core")]
pub(crate) struct Sandbox {
    pub(crate) inner: oncebox::Sandbox,
}

#[pymethods]
impl Client {
    /// Makes a sandbox. A create that is given up, even at its very end, leaves none.
    #[pyo3(signature = (options=None))]
    fn create(&self, py: Python<'_>, options: Option<&Bound<'_, PyDict>>) -> PyResult<Pending> {
        let options = Options::new(options, py)?;
        let mut create = oncebox::Sandbox::create(&self.inner);
        if let Some(template) = options.text("template")? {
            create = create.template(template);
        }
        if let Some(lifetime) = options.seconds("timeout")? {
            create = create.lifetime(lifetime);
        }
        options.finish()?;
        let handle = runtime::handle(py)?;
        let made = async move { Ok(Unclaimed { sandbox: Some(create.await?), handle }) };
        begin(py, Subject::Sandbox, made, |py, made| Sandbox::object(py, made.claim()?))
    }
}

#[pymethods]
impl Sandbox {
    /// Its id.
    #[getter]
    fn id(&self) -> &str {
        self.inner.id()
    }

    /// Ends it. `False`: there was no such running sandbox.
    fn kill(&self, py: Python<'_>) -> PyResult<Pending> {
        let sandbox = self.inner.clone();
        begin(py, Subject::Sandbox, async move { sandbox.kill().await }, |py, killed| {
            Ok((killed != Killed::Already).into_pyobject(py)?.to_owned().into_any().unbind())
        })
    }
}

impl Sandbox {
    fn object(py: Python<'_>, inner: oncebox::Sandbox) -> PyResult<Py<PyAny>> {
        Ok(Py::new(py, Self { inner })?.into_any())
    }
}

/// A new sandbox that nobody has taken yet. Dropped like that, it is killed: its caller went away between its answer and the
/// moment of taking it.
struct Unclaimed {
    sandbox: Option<oncebox::Sandbox>,
    handle: Handle,
}

impl Unclaimed {
    fn claim(mut self) -> PyResult<oncebox::Sandbox> {
        let gone = || pyo3::exceptions::PyRuntimeError::new_err("oncebox: the sandbox was taken already");
        self.sandbox.take().ok_or_else(gone)
    }
}

impl Drop for Unclaimed {
    fn drop(&mut self) {
        if let Some(sandbox) = self.sandbox.take() {
            self.handle.spawn(async move { sandbox.kill().await });
        }
    }
}
