//! Commands on terminals.

use bytes::Bytes;
use futures_util::Stream;
use oncebox_protocol::envd::process::{PTY, UpdateRequest, pty};

use super::handle::CommandHandle;
use super::input::{send_input, stream_input};
use super::stream::{Attached, StreamOptions};
use super::{Command, selector};
use crate::error::Error;
use crate::rpc::RpcCall;
use crate::sandbox::Sandbox;

/// The size of a terminal, in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TerminalSize {
    /// Columns, at least 1.
    pub cols: u16,
    /// Rows, at least 1.
    pub rows: u16,
}

impl TerminalSize {
    /// So many columns and rows.
    pub fn new(cols: u16, rows: u16) -> Self {
        Self { cols, rows }
    }

    pub(super) fn validate(self) -> Result<(), Error> {
        let Self { cols, rows } = self;
        if cols == 0 || rows == 0 {
            return Err(Error::invalid(format!("terminal: {cols} columns and {rows} rows: both must be at least 1")));
        }
        Ok(())
    }

    pub(super) fn message(self) -> PTY {
        let size = pty::Size { cols: self.cols.into(), rows: self.rows.into(), ..Default::default() };
        PTY { size: size.into(), ..Default::default() }
    }
}

/// The pseudo-terminals of a sandbox: see [`Sandbox::pty`].
///
/// A command on a terminal has one output, told as [`CommandEvent::Pty`](super::CommandEvent::Pty), and reads what
/// [`CommandHandle::send_stdin`] types. It is started, listed and killed like any other: [`Command::terminal`].
#[derive(Clone, Copy, Debug)]
pub struct Pty<'a> {
    sandbox: &'a Sandbox,
}

impl<'a> Pty<'a> {
    pub(crate) fn new(sandbox: &'a Sandbox) -> Self {
        Self { sandbox }
    }

    /// Starts a login shell on a terminal, for as long as a [`Command`] runs by default; see [`Command::login_shell`] for
    /// options.
    ///
    /// # Errors
    ///
    /// As [`Commands::start`](super::Commands::start).
    pub async fn create(&self, size: TerminalSize) -> Result<CommandHandle, Error> {
        self.sandbox.commands().start(Command::login_shell(size)).await
    }

    /// Attaches to a command on a terminal, as [`Commands::connect`](super::Commands::connect) does to others.
    ///
    /// # Errors
    ///
    /// [`NotFound`](crate::ErrorKind::NotFound) when there is no such process.
    pub async fn connect(&self, pid: u32, options: StreamOptions) -> Result<CommandHandle, Error> {
        options.validate()?;
        match Attached::connect(self.sandbox, "connect to the terminal", pid, options.watch()).await {
            Ok(attached) => Ok(CommandHandle::connected(self.sandbox, attached, options, true)),
            Err(error) => Err(self.sandbox.after_loss(error).await),
        }
    }

    /// Types on a terminal. Not repeated when its outcome is unknown: it could be typed twice.
    ///
    /// # Errors
    ///
    /// [`NotFound`](crate::ErrorKind::NotFound) when there is no such process.
    pub async fn send(&self, pid: u32, data: impl Into<Bytes>) -> Result<(), Error> {
        send_input(self.sandbox, pid, data.into(), true).await
    }

    /// Types what a stream gives, until it ends.
    ///
    /// # Errors
    ///
    /// As [`Commands::stream_stdin`](super::Commands::stream_stdin).
    pub async fn stream<S>(&self, pid: u32, data: S) -> Result<(), Error>
    where
        S: Stream<Item = Bytes> + Send + 'static,
    {
        stream_input(self.sandbox, pid, data, true).await
    }

    /// Sets a terminal's size.
    ///
    /// # Errors
    ///
    /// [`InvalidArgument`](crate::ErrorKind::InvalidArgument) for no columns or rows, before any I/O;
    /// [`NotFound`](crate::ErrorKind::NotFound) when there is no such process.
    pub async fn resize(&self, pid: u32, size: TerminalSize) -> Result<(), Error> {
        size.validate()?;
        let request = UpdateRequest { process: selector(pid).into(), pty: size.message().into(), ..Default::default() };
        let client = self.sandbox.envd().process(RpcCall::default())?;
        match client.update(request).await {
            Ok(_) => Ok(()),
            Err(error) => Err(self.sandbox.after_loss(Error::rpc("resize the terminal", error)).await),
        }
    }

    /// Kills a command on a terminal: [`Commands::kill`](super::Commands::kill).
    ///
    /// # Errors
    ///
    /// When the sandbox cannot be asked.
    pub async fn kill(&self, pid: u32) -> Result<bool, Error> {
        self.sandbox.commands().kill(pid).await
    }
}
