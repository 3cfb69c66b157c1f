//! Commands and terminals of a sandbox.

mod followed;
mod following;
mod input;

pub(crate) use following::Following;
pub(crate) use input::Input;

use std::time::Duration;

use bytes::Bytes;
use oncebox::{Command, StreamOptions, TerminalSize, WhenFull};
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::convert;
use crate::errors::{self, Subject, invalid};
use crate::options::Options;
use crate::pending::{Pending, begin};
use crate::sandbox::Sandbox;

/// How what a command writes is gathered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Gather {
    pub(crate) retain: bool,
    /// When this side stops following; `None`: never.
    pub(crate) limit: Option<Duration>,
}

#[pymethods]
impl Sandbox {
    /// Runs a line in a login shell to its end. The result is how it ended.
    fn run(&self, py: Python<'_>, line: &str, options: &Bound<'_, PyDict>) -> PyResult<Pending> {
        let options = Options::new(Some(options), py)?;
        let (command, gather) = command(py, Command::shell(line), &options)?;
        options.finish()?;
        let sandbox = self.inner.clone();
        let run = async move {
            let handle = sandbox.commands().start(command).await?;
            Following::plain(&sandbox, handle, gather).wait().await
        };
        begin(py, Subject::Process, run, |py, ended| ended.object(py))
    }

    /// Starts a line in a login shell, and returns once it runs.
    fn start(&self, py: Python<'_>, line: &str, options: &Bound<'_, PyDict>) -> PyResult<Pending> {
        let options = Options::new(Some(options), py)?;
        let (command, gather) = command(py, Command::shell(line), &options)?;
        options.finish()?;
        self.begin_command(py, command, gather)
    }

    /// Starts a login shell on a terminal.
    fn start_terminal(
        &self,
        py: Python<'_>,
        cols: &Bound<'_, PyAny>,
        rows: &Bound<'_, PyAny>,
        options: &Bound<'_, PyDict>,
    ) -> PyResult<Pending> {
        let options = Options::new(Some(options), py)?;
        let (command, gather) = command(py, Command::login_shell(size(py, cols, rows)?), &options)?;
        options.finish()?;
        self.begin_command(py, command, gather)
    }

    /// Starts a durable command, or attaches to the one that has this id already.
    fn start_durable(&self, py: Python<'_>, line: &str, options: &Bound<'_, PyDict>) -> PyResult<Pending> {
        let options = Options::new(Some(options), py)?;
        let id = options.text("id")?;
        let limit: Option<u64> = options.whole("spool_limit", 0..=u64::MAX)?;
        let full = match options.text("when_full")?.as_deref() {
            None | Some("block") => WhenFull::Block,
            Some("kill") => WhenFull::Kill,
            Some(other) => return Err(invalid(py, format!("when_full: {other:?} is neither block nor kill"))),
        };
        let (command, gather) = command(py, Command::shell(line), &options)?;
        options.finish()?;
        let sandbox = self.inner.clone();
        let started = async move {
            let commands = sandbox.commands();
            let mut start = commands.durable(command).when_full(full);
            if let Some(id) = id {
                start = start.id(id);
            }
            if let Some(limit) = limit {
                start = start.spool_limit(limit);
            }
            start.await.map(|started| Following::durable(started, gather))
        };
        begin(py, Subject::Process, started, Following::object)
    }

    /// Attaches to a durable command by its id.
    fn attach(&self, py: Python<'_>, id: String, options: &Bound<'_, PyDict>) -> PyResult<Pending> {
        let options = Options::new(Some(options), py)?;
        let offsets = oncebox::Offsets {
            stdout: options.whole("stdout_offset", 0..=u64::MAX)?.unwrap_or_default(),
            stderr: options.whole("stderr_offset", 0..=u64::MAX)?.unwrap_or_default(),
        };
        let user = options.text("user")?;
        let gather = gather(&options)?;
        options.finish()?;
        let sandbox = self.inner.clone();
        let attached = async move {
            let mut attach = sandbox.commands().attach(id).from(offsets);
            if let Some(user) = user {
                attach = attach.user(user);
            }
            attach.await.map(|attached| Following::durable(attached, gather))
        };
        begin(py, Subject::Process, attached, Following::object)
    }

    /// Removes what is kept of a durable command. `False`: there is nothing.
    fn forget(&self, py: Python<'_>, id: String, user: Option<String>) -> PyResult<Pending> {
        let sandbox = self.inner.clone();
        let forgotten = async move {
            let mut attach = sandbox.commands().attach(id);
            if let Some(user) = user {
                attach = attach.user(user);
            }
            attach.forget().await
        };
        begin(py, Subject::Process, forgotten, convert::flag)
    }

    /// Attaches to a running command, or to one on a terminal: what it does from now on.
    fn connect_command(
        &self,
        py: Python<'_>,
        pid: &Bound<'_, PyAny>,
        terminal: bool,
        options: &Bound<'_, PyDict>,
    ) -> PyResult<Pending> {
        let pid = process(pid)?;
        let options = Options::new(Some(options), py)?;
        let gather = gather(&options)?;
        options.finish()?;
        let sandbox = self.inner.clone();
        let connected = async move {
            let handle = match terminal {
                true => sandbox.pty().connect(pid, StreamOptions::new()).await,
                false => sandbox.commands().connect(pid).await,
            };
            handle.map(|handle| Following::plain(&sandbox, handle, gather))
        };
        begin(py, Subject::Process, connected, Following::object)
    }

    fn list_commands(&self, py: Python<'_>) -> PyResult<Pending> {
        let sandbox = self.inner.clone();
        begin(py, Subject::Process, async move { sandbox.commands().list().await }, |py, all| {
            convert::list(py, all, convert::process)
        })
    }

    /// `False`: there was no such process.
    fn kill_command(&self, py: Python<'_>, pid: &Bound<'_, PyAny>) -> PyResult<Pending> {
        let (sandbox, pid) = (self.inner.clone(), process(pid)?);
        begin(py, Subject::Process, async move { sandbox.commands().kill(pid).await }, convert::flag)
    }

    fn send_stdin(&self, py: Python<'_>, pid: &Bound<'_, PyAny>, data: Vec<u8>, terminal: bool) -> PyResult<Pending> {
        let (sandbox, pid, data) = (self.inner.clone(), process(pid)?, Bytes::from(data));
        let sent = async move {
            match terminal {
                true => sandbox.pty().send(pid, data).await,
                false => sandbox.commands().send_stdin(pid, data).await,
            }
        };
        begin(py, Subject::Process, sent, |py, ()| Ok(py.None()))
    }

    /// Opens a stream into a process's standard input, or onto its terminal. `limit`: seconds that it may be open.
    fn stream_input(
        &self,
        py: Python<'_>,
        pid: &Bound<'_, PyAny>,
        terminal: bool,
        limit: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Input> {
        let limit = limit.map(|limit| crate::options::seconds("timeout", limit)).transpose()?;
        Input::open(py, &self.inner, process(pid)?, terminal, limit.filter(|limit| !limit.is_zero()))
    }

    fn close_stdin(&self, py: Python<'_>, pid: &Bound<'_, PyAny>) -> PyResult<Pending> {
        let (sandbox, pid) = (self.inner.clone(), process(pid)?);
        begin(py, Subject::Process, async move { sandbox.commands().close_stdin(pid).await }, |py, ()| Ok(py.None()))
    }

    fn resize(
        &self,
        py: Python<'_>,
        pid: &Bound<'_, PyAny>,
        cols: &Bound<'_, PyAny>,
        rows: &Bound<'_, PyAny>,
    ) -> PyResult<Pending> {
        let (sandbox, pid, size) = (self.inner.clone(), process(pid)?, size(py, cols, rows)?);
        begin(py, Subject::Process, async move { sandbox.pty().resize(pid, size).await }, |py, ()| Ok(py.None()))
    }
}

impl Sandbox {
    fn begin_command(&self, py: Python<'_>, command: Command, gather: Gather) -> PyResult<Pending> {
        let sandbox = self.inner.clone();
        let started = async move {
            let handle = sandbox.commands().start(command).await;
            handle.map(|handle| Following::plain(&sandbox, handle, gather))
        };
        begin(py, Subject::Process, started, Following::object)
    }
}

/// What all commands have: `envs`, `user`, `cwd`, `stdin`, `timeout` (seconds; zero and `None` are none), `retain_output`.
fn command(py: Python<'_>, command: Command, options: &Options<'_>) -> PyResult<(Command, Gather)> {
    let mut command = command;
    for (name, value) in options.pairs("envs")? {
        command = command.env(name, value);
    }
    if let Some(user) = options.text("user")? {
        command = command.user(user);
    }
    if let Some(cwd) = options.text("cwd")? {
        command = command.cwd(cwd);
    }
    if let Some(stdin) = options.flag("stdin")? {
        command = command.stdin(stdin);
    }
    // The sandbox keeps this time, and its end is told: this side needs no limit of its own.
    command = command.timeout(options.seconds("timeout")?.unwrap_or_default());
    let retain = options.flag("retain_output")?.unwrap_or(true);
    command.validate().map_err(|error| errors::raise(py, &error, Subject::Process))?;
    Ok((command, Gather { retain, limit: None }))
}

/// What all that is attached to has: `timeout` and `retain_output`.
fn gather(options: &Options<'_>) -> PyResult<Gather> {
    let limit = options.seconds("timeout")?.filter(|limit| !limit.is_zero());
    Ok(Gather { retain: options.flag("retain_output")?.unwrap_or(true), limit })
}

/// A process, by its number.
fn process(pid: &Bound<'_, PyAny>) -> PyResult<u32> {
    crate::options::count("pid", pid)
}

fn size(py: Python<'_>, cols: &Bound<'_, PyAny>, rows: &Bound<'_, PyAny>) -> PyResult<TerminalSize> {
    let number = |name: &str, value: &Bound<'_, PyAny>| {
        let number = crate::options::count(name, value)?;
        u16::try_from(number).map_err(|_| invalid(py, format!("{name}: {number} is more than 65535")))
    };
    Ok(TerminalSize::new(number("cols", cols)?, number("rows", rows)?))
}

/// What a command did, as Python takes it: a word and a value.
pub(crate) fn told<'py, V: IntoPyObject<'py>>(py: Python<'py>, word: &str, value: V) -> PyResult<Bound<'py, PyTuple>> {
    PyTuple::new(py, [word.into_pyobject(py)?.into_any(), value.into_bound_py_any(py)?])
}
