//! Lists of sandboxes and snapshots, a page at a time.

use jiff::Timestamp;
use oncebox::{Error, Order, SandboxInfo, SandboxState, Snapshot};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};

use crate::client::Client;
use crate::convert;
use crate::errors::{Subject, invalid};
use crate::options::{Options, text};
use crate::pages::{Pages, Place, Turn};
use crate::pending::{Pending, begin};

#[pymethods]
impl Client {
    /// Options: `metadata`, `state` (a list), `started_after` (microseconds since 1970), `template`, `limit`, `next_token`,
    /// `order`.
    #[pyo3(signature = (options=None))]
    fn list_sandboxes(&self, py: Python<'_>, options: Option<&Bound<'_, PyDict>>) -> PyResult<SandboxPages> {
        let options = Options::new(options, py)?;
        let mut listing = oncebox::Sandbox::list(&self.inner);
        for (name, value) in options.pairs("metadata")? {
            listing = listing.metadata(name, value);
        }
        if let Some(states) = options.take("state")? {
            let all: Vec<Bound<'_, PyAny>> = match states.is_instance_of::<PyString>() {
                true => vec![states],
                false => states.try_iter()?.collect::<PyResult<_>>()?,
            };
            for state in all {
                listing = listing.state(match text("state", &state)?.as_str() {
                    "running" => SandboxState::Running,
                    "paused" => SandboxState::Paused,
                    other => return Err(invalid(py, format!("state: {other:?} is neither running nor paused"))),
                });
            }
        }
        if let Some(at) = options.take("started_after")? {
            let at: i64 = at.extract()?;
            let wrong = |_| invalid(py, "started_after: there is no such moment");
            listing = listing.started_after(Timestamp::from_microsecond(at).map_err(wrong)?);
        }
        if let Some(template) = options.text("template")? {
            listing = listing.template(template);
        }
        match options.text("order")?.as_deref() {
            None => {}
            Some("asc") => listing = listing.order(Order::Asc),
            Some("desc") => listing = listing.order(Order::Desc),
            Some(other) => return Err(invalid(py, format!("order: {other:?} is neither asc nor desc"))),
        }
        if let Some(limit) = options.count("limit")? {
            listing = listing.page_size(page_size(py, limit)?);
        }
        if let Some(token) = options.text("next_token")? {
            listing = listing.next_token(token);
        }
        options.finish()?;
        Ok(SandboxPages(Pages::new(listing.pages(), Subject::Other)))
    }

    /// Options: `sandbox_id`, `name`, `limit`, `next_token`.
    #[pyo3(signature = (options=None))]
    fn list_snapshots(&self, py: Python<'_>, options: Option<&Bound<'_, PyDict>>) -> PyResult<SnapshotPages> {
        let options = Options::new(options, py)?;
        let mut listing = self.inner.list_snapshots();
        if let Some(id) = options.text("sandbox_id")? {
            listing = listing.sandbox(id);
        }
        if let Some(name) = options.text("name")? {
            listing = listing.name(name);
        }
        if let Some(limit) = options.count("limit")? {
            listing = listing.page_size(page_size(py, limit)?);
        }
        if let Some(token) = options.text("next_token")? {
            listing = listing.next_token(token);
        }
        options.finish()?;
        Ok(SnapshotPages(Pages::new(listing.pages(), Subject::Other)))
    }

    /// `False`: there is no such snapshot.
    fn delete_snapshot(&self, py: Python<'_>, id: String) -> PyResult<Pending> {
        let client = self.inner.clone();
        begin(py, Subject::Other, async move { client.delete_snapshot(&id).await }, convert::flag)
    }
}

fn page_size(py: Python<'_>, limit: u32) -> PyResult<u32> {
    if (1..=100).contains(&limit) {
        return Ok(limit);
    }
    Err(invalid(py, format!("limit: {limit} is not from 1 to 100")))
}

impl Turn for oncebox::Pages {
    type Item = SandboxInfo;
    async fn turn(&mut self) -> Result<Option<Vec<SandboxInfo>>, Error> {
        self.next().await
    }
    fn place(&self) -> Place {
        Place { has_next: self.has_next(), next_token: self.next_token().map(str::to_owned) }
    }
    fn ask_with(&mut self, client: &oncebox::Client) {
        self.use_client(client);
    }
}

impl Turn for oncebox::SnapshotPages {
    type Item = Snapshot;
    async fn turn(&mut self) -> Result<Option<Vec<Snapshot>>, Error> {
        self.next().await
    }
    fn place(&self) -> Place {
        Place { has_next: self.has_next(), next_token: self.next_token().map(str::to_owned) }
    }
    fn ask_with(&mut self, client: &oncebox::Client) {
        self.use_client(client);
    }
}

/// The pages of a list of sandboxes.
#[pyclass(frozen, module = "oncebox._core")]
pub(crate) struct SandboxPages(Pages<oncebox::Pages>);

#[pymethods]
impl SandboxPages {
    #[getter]
    fn has_next(&self) -> bool {
        self.0.place().has_next
    }

    #[getter]
    fn next_token(&self) -> Option<String> {
        self.0.place().next_token
    }

    fn next(&self, py: Python<'_>, client: &Client) -> PyResult<Pending> {
        self.0.next(py, client, convert::sandbox_info)
    }
}

/// The pages of a list of snapshots.
#[pyclass(frozen, module = "oncebox._core")]
pub(crate) struct SnapshotPages(Pages<oncebox::SnapshotPages>);

#[pymethods]
impl SnapshotPages {
    #[getter]
    fn has_next(&self) -> bool {
        self.0.place().has_next
    }

    #[getter]
    fn next_token(&self) -> Option<String> {
        self.0.place().next_token
    }

    fn next(&self, py: Python<'_>, client: &Client) -> PyResult<Pending> {
        self.0.next(py, client, convert::snapshot)
    }
}
