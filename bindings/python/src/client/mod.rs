//! The client of one provider.

mod build;
mod policy;

use oncebox::CallOptions;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::errors::{self, Subject};
use crate::options::Options;
use crate::pending::{Pending, begin_with};

/// Options, credentials and the way to the servers. No connection is opened yet.
#[pyclass(frozen, module = "oncebox._core")]
pub(crate) struct Client {
    pub(crate) inner: oncebox::Client,
}

#[pymethods]
impl Client {
    #[new]
    #[pyo3(signature = (options=None))]
    fn new(py: Python<'_>, options: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
        let inner = build::client(py, Options::new(options, py)?)?;
        Ok(Self { inner })
    }

    /// The same client whose calls have these options in place of its own.
    #[pyo3(name = "with_options", signature = (options=None))]
    fn with_options(&self, py: Python<'_>, options: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
        let options = call_options(Options::new(options, py)?)?;
        let inner = self.inner.with(options).map_err(|error| errors::raise(py, &error, Subject::Other))?;
        Ok(Self { inner })
    }

    /// Waits for what creates still clear away in the background. The result lists, one text each, what may live on.
    fn close(&self, py: Python<'_>) -> PyResult<Pending> {
        let client = self.inner.clone();
        begin_with(py, async move { client.close().await }, |py, left| {
            let left: Vec<String> = left.iter().map(ToString::to_string).collect();
            Ok(left.into_pyobject(py)?.into_any().unbind())
        })
    }
}

/// The options that one call can have in place of its client's.
pub(crate) fn call_options(options: Options<'_>) -> PyResult<CallOptions> {
    let mut call = CallOptions::new();
    if let Some(retries) = options.whole("retries", policy::RETRIES)? {
        call = call.retries(retries);
    }
    if let Some(retries) = options.whole("connection_retries", policy::RETRIES)? {
        call = call.connection_retries(retries);
    }
    if let Some(timeout) = options.seconds("request_timeout")? {
        call = call.request_timeout(timeout);
    }
    if let Some(key) = options.text("api_key")? {
        call = call.api_key(key);
    }
    for name in ["headers", "api_headers"] {
        for (header, value) in options.headers(name)? {
            call = call.api_header(header, value);
        }
    }
    for (header, value) in options.headers("request_headers")? {
        call = call.header(header, value);
    }
    options.finish()?;
    Ok(call)
}
