//! Commands in a sandbox.

mod command;
mod dispatch;
mod durable;
mod exit;
mod handle;
mod input;
mod known;
mod pty;
mod reattach;
mod stream;
mod text;

pub use command::Command;
pub use durable::{AttachDurable, DurableCommand, DurableControl, Offsets, StartDurable, WhenFull};
pub use exit::{CommandOutput, Exit};
pub use handle::{CommandEvent, CommandHandle};
pub use pty::{Pty, TerminalSize};
pub use stream::StreamOptions;
pub use text::Utf8Decoder;

use std::collections::BTreeMap;

use bytes::Bytes;
use futures_util::Stream;
use oncebox_protocol::envd::process::{
    CloseStdinRequest, ListRequest, ProcessSelector, SendSignalRequest, Signal, process_selector,
};

use crate::error::{Error, ErrorKind};
use crate::rpc::RpcCall;
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
    /// [`OutcomeUnknown`](ErrorKind::OutcomeUnknown) when nobody knows whether it was started: its process was looked for,
    /// and is not there, or not any more. [`OutputLost`](ErrorKind::OutputLost) when it ended, and its output was cut in
    /// between. As [`CommandHandle::next`] when its output was cut for good.
    pub async fn run(&self, command: impl Into<Command>) -> Result<CommandOutput, Error> {
        self.start(command).await?.wait().await
    }

    /// As [`run`](Self::run), and hands each event to `see` as it comes.
    ///
    /// ```no_run
    /// # async fn example(sandbox: oncebox::Sandbox) -> Result<(), oncebox::Error> {
    /// use oncebox::{CommandEvent, Utf8Decoder};
    ///
    /// let mut text = Utf8Decoder::new();
    /// let see = |event: &CommandEvent| {
    ///     if let CommandEvent::Stdout(bytes) = event {
    ///         print!("{}", text.push(bytes));
    ///     }
    /// };
    /// let output = sandbox.commands().run_with("make", see).await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`run`](Self::run).
    pub async fn run_with(
        &self,
        command: impl Into<Command>,
        see: impl FnMut(&CommandEvent),
    ) -> Result<CommandOutput, Error> {
        self.start(command).await?.wait_with(see).await
    }

    /// Starts a command and returns once it runs, with a handle on its output.
    ///
    /// # Errors
    ///
    /// As [`run`](Self::run).
    pub async fn start(&self, command: impl Into<Command>) -> Result<CommandHandle, Error> {
        let command = command.into();
        let values = command.values();
        let started = dispatch::start(self.sandbox, command).await;
        started.map_err(|error| error.without_values(values.iter().map(String::as_str)))
    }

    /// Starts a command whose outputs and end are kept in the sandbox until they are taken: cut the connection anywhere, any
    /// number of times, pause and resume the sandbox, start the client anew ([`attach`](Self::attach)), and every byte comes
    /// once, in order, with the true exit code. Set options on what this returns, and await it.
    ///
    /// ```no_run
    /// # async fn example(sandbox: oncebox::Sandbox) -> Result<(), oncebox::Error> {
    /// use std::time::Duration;
    /// use oncebox::Command;
    ///
    /// let build = sandbox.commands().durable(Command::shell("make").timeout(Duration::ZERO)).await?;
    /// println!("{}", build.id()); // enough for another process to attach
    /// let output = build.wait().await?;
    /// # Ok(()) }
    /// ```
    ///
    /// It needs a POSIX shell and the usual small programs in the sandbox, and costs a few processes there. The first thing
    /// that happens is to claim the id, so that a start may be repeated and the command is run once all the same. The wrapper
    /// keeps the `timeout`, and kills the whole process group. A program that cannot be run ends with 126 or 127, as in a
    /// shell. Output is kept up to [`spool_limit`](StartDurable::spool_limit); order between the two outputs is not. A fork
    /// of the sandbox goes on with its own copy. There is no terminal.
    ///
    /// # Errors
    ///
    /// [`InvalidArgument`](ErrorKind::InvalidArgument) before any I/O; [`ConnectionLost`](ErrorKind::ConnectionLost),
    /// [`SandboxUnreachable`](ErrorKind::SandboxUnreachable) or [`SandboxNotRunning`](ErrorKind::SandboxNotRunning) when the
    /// wrapper could not be reached: a start with the same [`id`](StartDurable::id) then finds out.
    pub fn durable(&self, command: impl Into<Command>) -> StartDurable<'a> {
        StartDurable::new(*self, command.into())
    }

    /// Attaches to a durable command by its id, from any client, while it runs or up to a day after its end. Set options on
    /// what this returns, and await it.
    ///
    /// # Errors
    ///
    /// [`NotFound`](ErrorKind::NotFound) when the sandbox has none of this id and user.
    pub fn attach(&self, id: impl Into<String>) -> AttachDurable<'a> {
        AttachDurable::new(*self, id.into())
    }

    /// Attaches to a running command: its output from now on. What it wrote before is not repeated.
    ///
    /// # Errors
    ///
    /// [`NotFound`](ErrorKind::NotFound) when there is no such process.
    pub async fn connect(&self, pid: u32) -> Result<CommandHandle, Error> {
        self.connect_with(pid, StreamOptions::new()).await
    }

    /// As [`connect`](Self::connect), with options.
    ///
    /// # Errors
    ///
    /// As [`connect`](Self::connect); [`InvalidArgument`](ErrorKind::InvalidArgument) for options that make no sense,
    /// before any I/O.
    pub async fn connect_with(&self, pid: u32, options: StreamOptions) -> Result<CommandHandle, Error> {
        options.validate()?;
        match stream::Attached::connect(self.sandbox, "connect to the command", pid, options.watch()).await {
            Ok(attached) => Ok(CommandHandle::connected(self.sandbox, attached, options, false)),
            Err(error) => Err(self.sandbox.after_loss(error).await),
        }
    }

    /// Lists the running processes that were started as commands.
    ///
    /// # Errors
    ///
    /// When the sandbox cannot be asked.
    pub async fn list(&self) -> Result<Vec<ProcessInfo>, Error> {
        match self.list_raw().await {
            Ok(processes) => Ok(processes),
            Err(error) => Err(self.sandbox.after_loss(error).await),
        }
    }

    /// The same, for whoever finds out by himself what an error means.
    async fn list_raw(&self) -> Result<Vec<ProcessInfo>, Error> {
        let client = self.sandbox.envd().process(RpcCall::default())?;
        let response = client.list(ListRequest::default()).await.map_err(|e| Error::rpc("list processes", e))?;
        Ok(response.into_owned().processes.into_iter().map(ProcessInfo::from).collect())
    }

    /// Kills a process (SIGKILL). `false`: there was no such process.
    ///
    /// envd signals the process itself, not its group: what a shell has started may go on. To end all of it, start the
    /// command as a [durable](Self::durable) one, or kill the group yourself: a command leads a group of its own in most
    /// versions of envd, so that `kill -9 -- -PID` in the sandbox ends it.
    ///
    /// # Errors
    ///
    /// When the sandbox cannot be asked.
    pub async fn kill(&self, pid: u32) -> Result<bool, Error> {
        self.signal(pid, Signal::SIGNAL_SIGKILL, "kill the process").await
    }

    /// Asks a process to end (SIGTERM); the process itself, as [`kill`](Self::kill) does. `false`: there was no such process.
    ///
    /// # Errors
    ///
    /// When the sandbox cannot be asked.
    pub async fn terminate(&self, pid: u32) -> Result<bool, Error> {
        self.signal(pid, Signal::SIGNAL_SIGTERM, "terminate the process").await
    }

    async fn signal(&self, pid: u32, signal: Signal, action: &str) -> Result<bool, Error> {
        let request = SendSignalRequest { process: selector(pid).into(), signal: signal.into(), ..Default::default() };
        let client = self.sandbox.envd().process(RpcCall::default())?;
        match client.send_signal(request).await.map_err(|error| Error::rpc(action, error)) {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            Err(error) => Err(self.sandbox.after_loss(error).await),
        }
    }

    /// Writes to a process's standard input. Not repeated when its outcome is unknown: the bytes could arrive twice. What
    /// is longer than 512 KiB goes in several messages.
    ///
    /// # Errors
    ///
    /// [`NotFound`](ErrorKind::NotFound) when there is no such process.
    pub async fn send_stdin(&self, pid: u32, data: impl Into<Bytes>) -> Result<(), Error> {
        input::send_input(self.sandbox, pid, data.into(), false).await
    }

    /// Passes a stream on to a process's standard input, in one call, as fast as the process reads; returns when the stream
    /// has ended and all of it was written. The input stays open. However long the process does not read, no limit of ours
    /// ends the call.
    ///
    /// # Errors
    ///
    /// [`NotFound`](ErrorKind::NotFound) when there is no such process. When the outcome is unknown, so is how much was
    /// written.
    pub async fn stream_stdin<S>(&self, pid: u32, data: S) -> Result<(), Error>
    where
        S: Stream<Item = Bytes> + Send + 'static,
    {
        input::stream_input(self.sandbox, pid, data, false).await
    }

    /// Closes a process's standard input, so that it reads end-of-file.
    ///
    /// # Errors
    ///
    /// [`NotFound`](ErrorKind::NotFound) when there is no such process;
    /// [`Unsupported`](ErrorKind::Unsupported) where envd is older than 0.5.2.
    pub async fn close_stdin(&self, pid: u32) -> Result<(), Error> {
        let request = CloseStdinRequest { process: selector(pid).into(), ..Default::default() };
        let client = self.sandbox.envd().process(RpcCall::default())?;
        match client.close_stdin(request).await {
            Ok(_) => Ok(()),
            Err(error) => Err(self.sandbox.after_loss(Error::rpc("close the command's stdin", error)).await),
        }
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
