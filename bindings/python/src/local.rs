//! The embedded sandbox host, on the process's IO thread.

use std::path::PathBuf;

use oncebox::ErrorKind;
use oncebox::local::{Helper, Isolation, LocalServer, StartError};
use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::errors::{invalid, plain};
use crate::options::Options;
use crate::pending::{Pending, begin_with};
use crate::runtime;

/// The subcommand by which the `oncebox` program is the process inside a sandbox.
const HELPER_TASK: &str = "envd-helper";

/// A running local server. Dropped, it ends with all its sandboxes, but for the copy that a forked child has.
#[pyclass(frozen, module = "oncebox._core")]
pub(crate) struct Server {
    url: String,
    running: Mutex<Option<LocalServer>>,
    generation: u64,
}

#[pymethods]
impl Server {
    /// Starts one. Options: `helper` (the program inside each sandbox), `program` (an `oncebox`, which is that too), `faults`
    /// (a JSON document), `isolation` (`False`: none), `port`, `state`, `code_interpreter` (a Python that has ipykernel).
    #[staticmethod]
    #[pyo3(signature = (options=None))]
    fn start(py: Python<'_>, options: Option<&Bound<'_, PyDict>>) -> PyResult<Pending> {
        let options = Options::new(options, py)?;
        let mut builder = LocalServer::builder();
        if let Some(program) = options.text("helper")? {
            builder = builder.helper(Helper::new(PathBuf::from(program)));
        }
        if let Some(program) = options.text("program")? {
            builder = builder.helper(Helper::new(PathBuf::from(program)).arg(HELPER_TASK));
        }
        if let Some(faults) = options.text("faults")? {
            builder = builder.faults(faults);
        }
        if options.flag("isolation")? == Some(false) {
            builder = builder.isolation(Isolation::None);
        }
        if let Some(port) = options.count("port")? {
            let port = u16::try_from(port).map_err(|_| invalid(py, format!("port: {port} is none")))?;
            builder = builder.port(port);
        }
        if let Some(python) = options.path("code_interpreter")? {
            builder = builder.code_interpreter(PathBuf::from(python));
        }
        if let Some(folder) = options.text("state")? {
            builder = builder.state(PathBuf::from(folder));
        }
        options.finish()?;
        let generation = runtime::generation(py);
        begin_with(py, builder.no_isolation_hint("`isolation=False`").start(), move |py, started| {
            let server = started.map_err(|error| refusal(py, &error))?;
            let server = Self { url: server.url(), running: Mutex::new(Some(server)), generation };
            Ok(Py::new(py, server)?.into_any())
        })
    }

    /// Where it listens: for the control plane, sandboxes and volumes alike.
    #[getter]
    fn url(&self) -> &str {
        &self.url
    }

    /// Ends all sandboxes, waits until nothing is left of them, and closes the port.
    fn stop(&self, py: Python<'_>) -> PyResult<Pending> {
        let server = self.running.lock().take();
        let stop = async move {
            if let Some(server) = server {
                server.stop().await;
            }
        };
        begin_with(py, stop, |py, ()| Ok(py.None()))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let is_own = Python::try_attach(|py| runtime::generation(py) == self.generation).unwrap_or(true);
        if !is_own {
            // The parent's sandboxes are the parent's.
            std::mem::forget(self.running.lock().take());
        }
    }
}

fn refusal(py: Python<'_>, error: &StartError) -> PyErr {
    plain(py, ErrorKind::Unsupported, format!("could not start the local sandbox host: {error}"))
}
