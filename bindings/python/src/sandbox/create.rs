//! Making a sandbox, connecting to one, and finding out what became of a create.

use oncebox::{ConnectSandbox, CreateSandbox, Pause};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::Sandbox;
use super::unclaimed::Unclaimed;
use crate::client::Client;
use crate::errors::{self, Subject, invalid};
use crate::options::{self, Options};
use crate::pending::{Pending, begin};
use crate::runtime;

#[pymethods]
impl Client {
    /// Makes a sandbox. A create that is given up, even at its very end, leaves none.
    #[pyo3(signature = (options=None))]
    fn create(&self, py: Python<'_>, options: Option<&Bound<'_, PyDict>>) -> PyResult<Pending> {
        let create = order(py, oncebox::Sandbox::create(&self.inner), Options::new(options, py)?)?;
        let undo = runtime::undo(py)?;
        let made = async move { create.await.map(|made| Unclaimed::new(made, undo)) };
        begin(py, Subject::Sandbox, made, |py, made| Sandbox::object(py, made.claim()?))
    }

    /// Connects to a sandbox, and resumes it where it is paused. Options: `timeout`, `on_resume`.
    #[pyo3(signature = (id, options=None))]
    fn connect(&self, py: Python<'_>, id: String, options: Option<&Bound<'_, PyDict>>) -> PyResult<Pending> {
        let options = Options::new(options, py)?;
        let mut connect = ConnectSandbox::new();
        if let Some(lifetime) = options.seconds("timeout")? {
            connect = connect.lifetime(lifetime);
        }
        match options.text("on_resume")?.as_deref() {
            None | Some("restore") => {}
            Some("reboot") => connect = connect.reboot(true),
            Some(other) => return Err(invalid(py, format!("on_resume: {other:?} is neither restore nor reboot"))),
        }
        options.finish()?;
        let client = self.inner.clone();
        let connected = async move { oncebox::Sandbox::connect_with(&client, &id, connect).await };
        begin(py, Subject::Sandbox, connected, Sandbox::object)
    }

    /// A handle by the id alone; nobody is asked.
    fn by_id(&self, py: Python<'_>, id: &str) -> PyResult<Sandbox> {
        let named = oncebox::Sandbox::by_id(&self.inner, id);
        Ok(Sandbox { inner: named.map_err(|error| errors::raise(py, &error, Subject::Sandbox))? })
    }

    /// The sandbox that carries this intent; `None`: none was made.
    fn resolve(&self, py: Python<'_>, intent: String) -> PyResult<Pending> {
        let client = self.inner.clone();
        begin(py, Subject::Sandbox, async move { client.resolve(&intent).await }, |py, found| {
            found.map_or_else(|| Ok(py.None()), |sandbox| Sandbox::object(py, sandbox))
        })
    }
}

pub(crate) fn order(py: Python<'_>, create: CreateSandbox, options: Options<'_>) -> PyResult<CreateSandbox> {
    let mut create = create;
    if let Some(template) = options.text("template")? {
        create = create.template(template);
    }
    if let Some(lifetime) = options.seconds("timeout")? {
        create = create.lifetime(lifetime);
    }
    for (name, value) in options.pairs("metadata")? {
        create = create.metadata(name, value);
    }
    for (name, value) in options.pairs("envs")? {
        create = create.env(name, value);
    }
    if let Some(allow) = options.flag("allow_internet_access")? {
        create = create.allow_internet_access(allow);
    }
    if let Some(network) = options.text("network")? {
        create = create.network(options::json("network", &network, py)?);
    }
    if let Some(iam) = options.text("iam")? {
        create = create.iam(options::json("iam", &iam, py)?);
    }
    if let Some(mcp) = options.text("mcp")? {
        create = create.mcp(options::json("mcp", &mcp, py)?);
    }
    match options.text("pause_at_end")?.as_deref() {
        None => {}
        Some("full") => create = create.pause_at_end(Pause::full()),
        Some("filesystem") => create = create.pause_at_end(Pause::filesystem()),
        Some(other) => return Err(invalid(py, format!("lifecycle: mode {other:?} is neither full nor filesystem"))),
    }
    if let Some(resume) = options.flag("auto_resume")? {
        create = create.resume_on_traffic(resume);
    }
    for (path, name) in options.pairs("volume_mounts")? {
        create = create.volume(name, path);
    }
    if let Some(key) = options.text("idempotency_key")? {
        create = create.idempotency_key(key);
    }
    if let Some(intent) = options.text("intent")? {
        create = create.intent(intent);
    }
    options.finish()?;
    Ok(create)
}
