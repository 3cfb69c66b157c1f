//! Running git, and what its failures mean.

use super::Git;
use super::credentials::Credentials;
use crate::commands::{Command, CommandOutput};
use crate::error::{Error, ErrorKind};

/// The most of git's words that an error repeats, in characters.
const MAX_WORDS: usize = 2000;

/// How git says that the server wants other credentials.
const AUTHENTICATION: [&str; 9] = [
    "authentication failed",
    "terminal prompts disabled",
    "could not read username",
    "could not read password",
    "invalid username or password",
    "invalid credentials",
    "access denied",
    "permission denied (publickey",
    "the requested url returned error: 403",
];

/// How git says that a branch has no upstream.
const UPSTREAM: [&str; 5] = [
    "has no upstream branch",
    "no upstream branch",
    "no upstream configured",
    "no tracking information",
    "no configured push destination",
];

impl Git<'_> {
    /// Runs git; ending with another code than 0 is an error.
    pub(super) async fn run(&self, action: &str, args: &[&str]) -> Result<CommandOutput, Error> {
        let output = self.try_run(action, args).await?;
        if output.exit_code() == 0 { Ok(output) } else { Err(failed(action, &output)) }
    }

    /// Runs git to its end, whatever that is.
    pub(super) async fn try_run(&self, action: &str, args: &[&str]) -> Result<CommandOutput, Error> {
        self.to_end(action, self.command("git").args(args.iter().copied()), None).await
    }

    /// A program with what is set here.
    pub(super) fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        // Nobody would answer. Messages are read, in English.
        for (name, value) in [("GIT_TERMINAL_PROMPT", "0"), ("LC_MESSAGES", "C"), ("LANGUAGE", "")] {
            command = command.env(name, value);
        }
        for (name, value) in &self.envs {
            command = command.env(name, value);
        }
        if let Some(user) = &self.user {
            command = command.user(user);
        }
        if let Some(cwd) = &self.cwd {
            command = command.cwd(cwd);
        }
        if let Some(timeout) = self.timeout {
            command = command.timeout(timeout);
        }
        command
    }

    /// Runs a program to its end. It reads credentials from its standard input, where it has some.
    pub(super) async fn to_end(
        &self,
        action: &str,
        command: Command,
        credentials: Option<&Credentials>,
    ) -> Result<CommandOutput, Error> {
        let commands = self.sandbox.commands();
        let started = commands.start(command.stdin(credentials.is_some())).await;
        let handle = started.map_err(|error| not_started(action, error))?;
        if let Some(credentials) = credentials
            && let Err(error) = commands.send_stdin(handle.pid(), credentials.lines()).await
        {
            // Without them it waits for ever.
            let _ = commands.kill(handle.pid()).await;
            return Err(error.partly());
        }
        let output = handle.wait().await?;
        if output.exit.timed_out {
            let message = "git was killed, since it did not end in time (timeout)";
            return Err(Error::new(ErrorKind::Timeout, action, message));
        }
        Ok(output)
    }
}

/// What git's end means.
pub(super) fn failed(action: &str, output: &CommandOutput) -> Error {
    let (stderr, stdout) = (output.stderr_text(), output.stdout_text());
    let words = if stderr.trim().is_empty() { stdout.trim() } else { stderr.trim() };
    let lower = format!("{stderr}\n{stdout}").to_lowercase();
    let says = |texts: &[&str]| texts.iter().any(|text| lower.contains(text));
    let kind = if says(&AUTHENTICATION) {
        ErrorKind::GitAuthentication
    } else if says(&UPSTREAM) {
        ErrorKind::GitUpstream
    } else {
        ErrorKind::CommandFailed
    };
    let mut letters = words.chars().filter(|c| !c.is_control() || *c == '\n');
    let mut shown: String = letters.by_ref().take(MAX_WORDS).collect();
    if letters.next().is_some() {
        shown.push('…');
    }
    let message = match shown.as_str() {
        "" => format!("git ended with {}", output.exit.status),
        shown => format!("git ended with {}: {shown}", output.exit.status),
    };
    Error::new(kind, action, message).with_output(output.clone())
}

/// envd says in words only that there is no such program.
fn not_started(action: &str, error: Error) -> Error {
    let text = error.to_string().to_lowercase();
    if error.kind() == ErrorKind::InvalidArgument && text.contains("not found") && !text.contains("cwd") {
        return Error::new(ErrorKind::Unsupported, action, "there is no git in the sandbox; its template must have it");
    }
    error
}

/// An argument that git takes for nothing else, such as an option.
pub(super) fn check<'a>(what: &str, text: &'a str) -> Result<&'a str, Error> {
    let rule = if text.trim().is_empty() {
        "is empty"
    } else if text.starts_with('-') {
        "begins with a hyphen, which git would take for an option"
    } else if text.contains(['\0', '\n']) {
        "holds a character that it cannot"
    } else {
        return Ok(text);
    };
    Err(Error::invalid(format!("{what}: {text:?} {rule}")))
}
