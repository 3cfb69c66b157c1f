//! The programs that a desktop is worked by.

use std::time::Duration;

use super::Desktop;
use crate::commands::{Command, CommandOutput};
use crate::error::{Error, ErrorKind};

/// The most of a program's words that an error repeats, in characters.
const MAX_WORDS: usize = 2000;

/// A program about to be run on the display.
pub(super) struct Tool<'a> {
    desktop: &'a Desktop<'a>,
    program: String,
    command: Command,
}

impl<'a> Tool<'a> {
    pub(super) fn new(desktop: &'a Desktop<'a>, program: &str) -> Self {
        let mut command = Command::new(program).env("DISPLAY", &desktop.display);
        if let Some(user) = &desktop.user {
            command = command.user(user);
        }
        Self { desktop, program: program.to_owned(), command }
    }

    pub(super) fn args<S: Into<String>>(mut self, args: impl IntoIterator<Item = S>) -> Self {
        self.command = self.command.args(args);
        self
    }

    pub(super) fn timeout(mut self, timeout: Duration) -> Self {
        self.command = self.command.timeout(timeout);
        self
    }

    /// Runs it to its end; another exit code than 0 is an error.
    pub(super) async fn run(self, action: &str) -> Result<CommandOutput, Error> {
        let program = self.program.clone();
        let output = self.ended(action, None).await?;
        if output.success() { Ok(output) } else { Err(failed(action, &program, output)) }
    }

    /// As [`run`](Self::run), with this as its standard input.
    pub(super) async fn run_with_input(self, action: &str, input: &str) -> Result<CommandOutput, Error> {
        let program = self.program.clone();
        let output = self.ended(action, Some(input)).await?;
        if output.success() { Ok(output) } else { Err(failed(action, &program, output)) }
    }

    /// Runs it to its end, whatever that is.
    pub(super) async fn ended(self, action: &str, input: Option<&str>) -> Result<CommandOutput, Error> {
        let commands = self.desktop.sandbox.commands();
        let started = commands.start(self.command.stdin(input.is_some())).await;
        let handle = started.map_err(|error| not_started(action, &self.program, error))?;
        if let Some(input) = input {
            let pid = handle.pid();
            let sent = async {
                if !input.is_empty() {
                    commands.send_stdin(pid, input.to_owned()).await?;
                }
                commands.close_stdin(pid).await
            };
            match sent.await {
                // One that has ended says why by itself.
                Err(error) if !error.is_not_found() => {
                    let _ = commands.kill(pid).await;
                    return Err(error.partly());
                }
                _ => {}
            }
        }
        let output = handle.wait().await?;
        if output.exit.timed_out {
            let message = format!("{} was killed, since it did not end in time", self.program);
            return Err(Error::new(ErrorKind::Timeout, action, message));
        }
        Ok(output)
    }

    /// Starts it, and leaves it running.
    pub(super) async fn leave(self, action: &str) -> Result<(), Error> {
        let started = self.desktop.sandbox.commands().start(self.command.timeout(Duration::ZERO)).await;
        started.map(drop).map_err(|error| not_started(action, &self.program, error))
    }
}

/// The error of a program that did not do what it was to, with [what it wrote](Error::output).
pub(super) fn failed(action: &str, program: &str, output: CommandOutput) -> Error {
    let stderr = output.stderr_text();
    let shown: String = stderr.trim().chars().filter(|c| !c.is_control() || *c == '\n').take(MAX_WORDS).collect();
    if output.exit_code() == 127 {
        return missing(action, &shown);
    }
    let message = match shown.as_str() {
        "" => format!("{program} ended with {}", output.exit.status),
        shown => format!("{program} ended with {}: {shown}", output.exit.status),
    };
    Error::new(ErrorKind::CommandFailed, action, message).with_output(output)
}

/// envd says in words only that there is no such program.
fn not_started(action: &str, program: &str, error: Error) -> Error {
    let text = error.to_string().to_lowercase();
    let is_missing = text.contains("not found") || text.contains("no such file");
    if error.kind() == ErrorKind::InvalidArgument && is_missing {
        return missing(action, &format!("{program} is not there"));
    }
    error
}

fn missing(action: &str, what: &str) -> Error {
    let message = format!("{what}; the sandbox's template must have it, as E2B's desktop template has");
    Error::new(ErrorKind::Unsupported, action, message)
}
