//! Commands in a sandbox.

mod command;
mod handle;

pub use command::Command;
pub use handle::{CommandEvent, CommandHandle, CommandOutput, Exit};

use std::collections::BTreeMap;

use bytes::Bytes;
use oncebox_protocol::envd::process::ProcessInput;
use oncebox_protocol::envd::process::{
    CloseStdinRequest, ConnectRequest, ListRequest, ProcessSelector, SendInputRequest, SendSignalRequest, Signal,
    process_input, process_selector,
};

use crate::error::{Error, ErrorKind};
use crate::rpc::{CutWatch, RpcCall};
use crate::sandbox::Sandbox;

/// The commands of a sandbox: see [`Sandbox::commands`].
#[derive(Clone, Copy, Debug)]
pub struct Commands<'a> {
    sandbox: &'a Sandbox,
}

/// A running process of a sandbox.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProcessInfo {
    /// Process id inside the sandbox.
    pub pid: u32,
    /// The tag it was started with.
    pub tag: Option<String>,
    /// The program.
    pub program: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// Its working directory, where one was asked for.
    pub cwd: Option<String>,
    /// The environment variables it was started with, beyond the sandbox's own.
    pub envs: BTreeMap<String, String>,
}

impl<'a> Commands<'a> {
    pub(crate) fn new(sandbox: &'a Sandbox) -> Self {
        Self { sandbox }
    }

    /// Runs a command to its end and gathers its output. Text runs in a login shell; see [`Command`] for arguments
    /// and options. An exit code other than 0 is no error.
    ///
    /// The command is started at most once: what is repeated is only a start that provably did not arrive.
    ///
    /// # Errors
    ///
    /// [`OutcomeUnknown`](ErrorKind::OutcomeUnknown) when nobody knows whether it was started,
    /// [`ConnectionLost`](ErrorKind::ConnectionLost) when its output was cut: it may go on running.
    pub async fn run(&self, command: impl Into<Command>) -> Result<CommandOutput, Error> {
        self.start(command).await?.wait().await
    }

    /// Starts a command and returns once it runs, with a handle on its output.
    ///
    /// # Errors
    ///
    /// As [`run`](Self::run).
    pub async fn start(&self, command: impl Into<Command>) -> Result<CommandHandle, Error> {
        const ACTION: &str = "start the command";
        let command = command.into();
        command.validate()?;
        let watch = CutWatch::default();
        let call = RpcCall {
            user: command.user_name(),
            remote_timeout: command.remote_timeout(),
            stream: Some(watch.clone()),
        };
        let stream = self.sandbox.envd().process(call)?.start(command.request()).await;
        let stream = stream.map_err(|error| Error::rpc(ACTION, error))?;
        CommandHandle::started(self.sandbox, ACTION, stream, watch, command.max_output_bytes()).await
    }

    /// Attaches to a running command: its output from now on. What it wrote before is not repeated.
    ///
    /// # Errors
    ///
    /// [`NotFound`](ErrorKind::NotFound) when there is no such process.
    pub async fn connect(&self, pid: u32) -> Result<CommandHandle, Error> {
        const ACTION: &str = "connect to the command";
        let watch = CutWatch::default();
        let call = RpcCall { stream: Some(watch.clone()), ..RpcCall::default() };
        let request = ConnectRequest { process: selector(pid).into(), ..Default::default() };
        let stream = self.sandbox.envd().process(call)?.connect(request).await;
        let stream = stream.map_err(|error| Error::rpc(ACTION, error))?;
        CommandHandle::attached(self.sandbox, ACTION, stream, watch).await
    }

    /// Lists the running processes that were started as commands.
    ///
    /// # Errors
    ///
    /// When the sandbox cannot be asked.
    pub async fn list(&self) -> Result<Vec<ProcessInfo>, Error> {
        let client = self.sandbox.envd().process(RpcCall::default())?;
        let response = client.list(ListRequest::default()).await.map_err(|e| Error::rpc("list processes", e))?;
        Ok(response.into_owned().processes.into_iter().map(ProcessInfo::from).collect())
    }

    /// Kills a process (SIGKILL). `false`: there was no such process.
    ///
    /// # Errors
    ///
    /// When the sandbox cannot be asked.
    pub async fn kill(&self, pid: u32) -> Result<bool, Error> {
        let request = SendSignalRequest {
            process: selector(pid).into(),
            signal: Signal::SIGNAL_SIGKILL.into(),
            ..Default::default()
        };
        let client = self.sandbox.envd().process(RpcCall::default())?;
        match client.send_signal(request).await.map_err(|error| Error::rpc("kill the process", error)) {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Writes to a process's standard input. Not repeated when its outcome is unknown: the bytes could arrive twice.
    ///
    /// # Errors
    ///
    /// [`NotFound`](ErrorKind::NotFound) when there is no such process.
    pub async fn send_stdin(&self, pid: u32, data: impl Into<Bytes>) -> Result<(), Error> {
        let input = ProcessInput { input: Some(process_input::Input::Stdin(data.into().into())), ..Default::default() };
        let request = SendInputRequest { process: selector(pid).into(), input: input.into(), ..Default::default() };
        let client = self.sandbox.envd().process(RpcCall::default())?;
        client.send_input(request).await.map(drop).map_err(|error| Error::rpc("write to the command's stdin", error))
    }

    /// Closes a process's standard input, so that it reads end-of-file.
    ///
    /// # Errors
    ///
    /// [`NotFound`](ErrorKind::NotFound) when there is no such process.
    pub async fn close_stdin(&self, pid: u32) -> Result<(), Error> {
        let request = CloseStdinRequest { process: selector(pid).into(), ..Default::default() };
        let client = self.sandbox.envd().process(RpcCall::default())?;
        client.close_stdin(request).await.map(drop).map_err(|error| Error::rpc("close the command's stdin", error))
    }
}

fn selector(pid: u32) -> ProcessSelector {
    ProcessSelector { selector: Some(process_selector::Selector::Pid(pid)), ..Default::default() }
}

impl From<oncebox_protocol::envd::process::ProcessInfo> for ProcessInfo {
    fn from(info: oncebox_protocol::envd::process::ProcessInfo) -> Self {
        let config = info.config.into_option().unwrap_or_default();
        Self {
            pid: info.pid,
            tag: info.tag,
            program: config.cmd,
            args: config.args,
            cwd: config.cwd,
            envs: config.envs.into_iter().collect(),
        }
    }
}
