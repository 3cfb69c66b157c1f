//! Commands whose output outlives connections.

mod attached;
mod control;
mod frames;
mod spool;

pub use attached::DurableCommand;
pub use control::DurableControl;

use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::time::Duration;

use super::dispatch::random_hex;
use super::stream::StreamOptions;
use super::{Command, Commands};
use crate::error::Error;
use crate::rpc::is_user_name;
use spool::Spool;

/// What a spool holds at most, by default.
const SPOOL_LIMIT: u64 = 64 << 20;

/// The smallest bound of a spool.
const SMALLEST_SPOOL: u64 = 1 << 20;

/// How much of a durable command's outputs is known: where to go on reading.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Offsets {
    /// Bytes of standard output.
    pub stdout: u64,
    /// Bytes of standard error.
    pub stderr: u64,
}

/// What becomes of a durable command whose spool is full, because nobody reads what it writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum WhenFull {
    /// Its next write waits until somebody has read.
    #[default]
    Block,
    /// It is killed, and its end is [`SpoolFull`](crate::ErrorKind::SpoolFull).
    Kill,
}

/// A durable command that is to be started: set options, and await it. See [`Commands::durable`].
#[derive(Clone, Debug)]
#[must_use = "nothing is started before it is awaited"]
pub struct StartDurable<'a> {
    commands: Commands<'a>,
    command: Command,
    id: Option<String>,
    limit: u64,
    full: WhenFull,
    shell: Vec<String>,
}

/// A durable command that is to be attached to: set options, and await it. See [`Commands::attach`].
#[derive(Clone, Debug)]
#[must_use = "nothing is attached to before it is awaited"]
pub struct AttachDurable<'a> {
    commands: Commands<'a>,
    id: String,
    offsets: Offsets,
    user: Option<String>,
    stream: StreamOptions,
    shell: Vec<String>,
}

impl<'a> StartDurable<'a> {
    pub(super) fn new(commands: Commands<'a>, command: Command) -> Self {
        Self { commands, command, id: None, limit: SPOOL_LIMIT, full: WhenFull::Block, shell: vec!["sh".to_owned()] }
    }

    /// Its id: 1 to 64 of a-z, 0-9 and hyphens. Default: 32 random hex digits. An id stands for one command: a start with an
    /// id that was used already attaches to that command, and starts nothing.
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.id = Some(id.into());
        self
    }

    /// What its spool holds at most, both outputs together, in bytes, at least 1 MiB. Default 64 MiB. What all readers have
    /// taken makes room when it is needed.
    pub fn spool_limit(mut self, bytes: u64) -> Self {
        self.limit = bytes;
        self
    }

    /// What becomes of it when the spool is full. Default: its writes wait.
    pub fn when_full(mut self, full: WhenFull) -> Self {
        self.full = full;
        self
    }

    /// The POSIX shell that runs the wrapper, with arguments. Default: `sh`.
    pub fn shell<S: Into<String>>(mut self, shell: impl IntoIterator<Item = S>) -> Self {
        self.shell = shell.into_iter().map(Into::into).collect();
        self
    }

    async fn start(self) -> Result<DurableCommand, Error> {
        self.command.validate()?;
        if self.command.has_terminal() {
            return Err(Error::invalid("terminal: a durable command has none"));
        }
        if self.limit < SMALLEST_SPOOL {
            let limit = self.limit;
            return Err(Error::invalid(format!("spool_limit: {limit} bytes is less than {SMALLEST_SPOOL}")));
        }
        check_shell(&self.shell)?;
        let id = match self.id {
            Some(id) => checked(id)?,
            None => format!("{}{}", random_hex()?, random_hex()?),
        };
        let full = match self.full {
            WhenFull::Block => "block",
            WhenFull::Kill => "kill",
        };
        let timeout = self.command.remote_timeout().unwrap_or(Duration::ZERO);
        let seconds =
            if timeout.is_zero() { "0".to_owned() } else { format!("{:.3}", timeout.as_secs_f64().max(0.001)) };
        let mut args =
            vec![self.limit.to_string(), full.to_owned(), seconds, u8::from(self.command.has_stdin()).to_string()];
        args.extend(self.command.argv().map(str::to_owned));
        let spool = Spool {
            sandbox: self.commands.sandbox.clone(),
            id,
            user: self.command.user_name().map(str::to_owned),
            shell: self.shell,
            stream: self.command.stream_options().clone(),
        };
        DurableCommand::begin(spool, Offsets::default(), Some((self.command, args))).await
    }
}

impl AttachDurable<'_> {
    /// Reads its outputs from here on: what was taken already is not told again. Default: from their beginning.
    pub fn from(mut self, offsets: Offsets) -> Self {
        self.offsets = offsets;
        self
    }

    /// Whom it runs as: its spool is that user's. Default: the sandbox's default user.
    pub fn user(mut self, name: impl Into<String>) -> Self {
        self.user = Some(name.into());
        self
    }

    /// How its stream is kept.
    pub fn stream(mut self, options: StreamOptions) -> Self {
        self.stream = options;
        self
    }

    /// The POSIX shell that runs the wrapper, with arguments. Default: `sh`.
    pub fn shell<S: Into<String>>(mut self, shell: impl IntoIterator<Item = S>) -> Self {
        self.shell = shell.into_iter().map(Into::into).collect();
        self
    }

    fn spool(&self) -> Result<Spool, Error> {
        self.stream.validate()?;
        check_shell(&self.shell)?;
        if let Some(user) = self.user.as_ref().filter(|user| !is_user_name(user)) {
            return Err(Error::invalid(format!("user: {user:?} is no user name")));
        }
        Ok(Spool {
            sandbox: self.commands.sandbox.clone(),
            id: checked(self.id.clone())?,
            user: self.user.clone(),
            shell: self.shell.clone(),
            stream: self.stream.clone(),
        })
    }

    /// Removes what is kept of it, instead of attaching. `false`: there is nothing. Its id is not used again for a day.
    ///
    /// # Errors
    ///
    /// [`Conflict`](crate::ErrorKind::Conflict) while it runs; when the sandbox cannot be asked.
    pub async fn forget(self) -> Result<bool, Error> {
        self.spool()?.forget().await
    }

    /// Kills it with all that it started, instead of attaching: see [`DurableControl::kill`].
    ///
    /// # Errors
    ///
    /// [`NotFound`](crate::ErrorKind::NotFound) when there is none; when the sandbox cannot be asked.
    pub async fn kill(self) -> Result<bool, Error> {
        self.spool()?.signal(9).await
    }
}

impl<'a> IntoFuture for StartDurable<'a> {
    type Output = Result<DurableCommand, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send + 'a>>;

    fn into_future(self) -> Self::IntoFuture {
        let values = self.command.values();
        Box::pin(async move {
            let started = self.start().await;
            started.map_err(|error| error.without_values(values.iter().map(String::as_str)))
        })
    }
}

impl<'a> IntoFuture for AttachDurable<'a> {
    type Output = Result<DurableCommand, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send + 'a>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move { DurableCommand::begin(self.spool()?, self.offsets, None).await })
    }
}

impl<'a> AttachDurable<'a> {
    pub(super) fn new(commands: Commands<'a>, id: String) -> Self {
        let (offsets, stream) = (Offsets::default(), StreamOptions::new());
        Self { commands, id, offsets, user: None, stream, shell: vec!["sh".to_owned()] }
    }
}

fn checked(id: String) -> Result<String, Error> {
    let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    if id.is_empty() || id.len() > 64 || !id.bytes().all(fits) {
        return Err(Error::invalid(format!("id: {id:?} must be 1 to 64 of a-z, 0-9 and hyphens")));
    }
    Ok(id)
}

fn check_shell(shell: &[String]) -> Result<(), Error> {
    // The wrapper starts itself again by these words.
    let fits = |word: &String| {
        !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/._+-".contains(&byte))
    };
    if shell.is_empty() || !shell.iter().all(fits) {
        return Err(Error::invalid(format!("shell: {shell:?} must be words of letters, digits and /._+-")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_and_shells_are_checked() {
        for id in ["", "A", "a/b", "..", "a b", &"a".repeat(65)] {
            assert!(checked(id.to_owned()).is_err(), "{id}");
        }
        assert!(checked("a-0".to_owned()).is_ok());
        for shell in [&[][..], &[""], &["sh", "; rm"], &["$(x)"]] {
            let shell: Vec<String> = shell.iter().map(|&word| word.to_owned()).collect();
            assert!(check_shell(&shell).is_err(), "{shell:?}");
        }
        assert!(check_shell(&["/bin/busybox".to_owned(), "sh".to_owned()]).is_ok());
    }
}
