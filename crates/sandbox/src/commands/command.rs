//! What to execute, and how.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use oncebox_protocol::envd::process::{ProcessConfig, StartRequest};

use super::dispatch::Marker;
use super::pty::TerminalSize;
use super::stream::StreamOptions;
use crate::error::Error;
use crate::rpc::is_user_name;
use crate::sandbox::is_env_name;

/// How long a command may run (protocol fact: 60 s in the official SDK).
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(60);

/// What programs on a terminal need (protocol fact: what the official SDKs set).
const TERMINAL_VARIABLES: [(&str, &str); 3] = [("TERM", "xterm-256color"), ("LANG", "C.UTF-8"), ("LC_ALL", "C.UTF-8")];

/// Output that [`Commands::run`](super::Commands::run) gathers.
const DEFAULT_MAX_OUTPUT: usize = 64 << 20;

/// A command: a program with arguments, or a line for a shell.
///
/// ```
/// use std::time::Duration;
/// use oncebox::Command;
///
/// // A line for a login shell, as the official SDKs run it.
/// let line = Command::shell("cd /tmp && ls | wc -l");
/// // A program with its arguments, which no shell looks at.
/// let program = Command::new("python3").arg("-c").arg("print('hi')").env("LANG", "C.UTF-8").timeout(Duration::ZERO);
/// ```
#[derive(Clone)]
pub struct Command {
    program: String,
    args: Vec<String>,
    envs: BTreeMap<String, String>,
    cwd: Option<String>,
    user: Option<String>,
    timeout: Duration,
    stdin: bool,
    tag: Option<String>,
    max_output: usize,
    terminal: Option<TerminalSize>,
    stream: StreamOptions,
}

impl Command {
    /// A program: a path, or a name that is looked up in the sandbox's PATH.
    pub fn new(program: impl Into<String>) -> Self {
        Self {
            program: program.into(),
            args: Vec::new(),
            envs: BTreeMap::new(),
            cwd: None,
            user: None,
            timeout: DEFAULT_TIMEOUT,
            stdin: false,
            tag: None,
            max_output: DEFAULT_MAX_OUTPUT,
            terminal: None,
            stream: StreamOptions::new(),
        }
    }

    /// A login shell on a terminal, as the official SDKs start it.
    pub fn login_shell(size: TerminalSize) -> Self {
        Self::new("/bin/bash").arg("-i").arg("-l").terminal(size)
    }

    /// A line for `/bin/bash -l -c`.
    pub fn shell(line: impl Into<String>) -> Self {
        Self::new("/bin/bash").arg("-l").arg("-c").arg(line)
    }

    /// Adds an argument.
    #[must_use]
    pub fn arg(mut self, arg: impl Into<String>) -> Self {
        self.args.push(arg.into());
        self
    }

    /// Adds arguments.
    #[must_use]
    pub fn args<S: Into<String>>(mut self, args: impl IntoIterator<Item = S>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// Sets an environment variable.
    #[must_use]
    pub fn env(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.envs.insert(name.into(), value.into());
        self
    }

    /// The working directory. Default: the user's home.
    #[must_use]
    pub fn cwd(mut self, path: impl Into<String>) -> Self {
        self.cwd = Some(path.into());
        self
    }

    /// Whom it runs as. Default: the sandbox's default user.
    #[must_use]
    pub fn user(mut self, name: impl Into<String>) -> Self {
        self.user = Some(name.into());
        self
    }

    /// When the sandbox kills it, counted from its start; zero means never. Default 60 s. It is the sandbox that
    /// keeps this time, also when nobody is connected any more, and no limit on this side: what it kills has ended, by
    /// "signal: killed" ([`Exit::timed_out`](super::Exit::timed_out)). envd kills the process itself; what that has
    /// started goes on.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Gives it a standard input to write to. Default: none, it reads end-of-file.
    #[must_use]
    pub fn stdin(mut self, open: bool) -> Self {
        self.stdin = open;
        self
    }

    /// A name by which its process can be recognised in the process list. Default: one of ours, unique to the start.
    #[must_use]
    pub fn tag(mut self, tag: impl Into<String>) -> Self {
        self.tag = Some(tag.into());
        self
    }

    /// The most output that is gathered, both streams together, in bytes. Default 64 MiB.
    #[must_use]
    pub fn max_output(mut self, bytes: usize) -> Self {
        self.max_output = bytes;
        self
    }

    /// Runs it on a terminal of this size. `TERM`, `LANG` and `LC_ALL` are set to what terminals need, unless they are
    /// given.
    #[must_use]
    pub fn terminal(mut self, size: TerminalSize) -> Self {
        self.terminal = Some(size);
        self
    }

    /// How the stream of its output is kept: keepalives, and what is done when it is cut.
    #[must_use]
    pub fn stream(mut self, options: StreamOptions) -> Self {
        self.stream = options;
        self
    }

    pub(super) fn stream_options(&self) -> &StreamOptions {
        &self.stream
    }

    pub(super) fn has_terminal(&self) -> bool {
        self.terminal.is_some()
    }

    pub(super) fn tag_name(&self) -> Option<&str> {
        self.tag.as_deref()
    }

    pub(super) fn has_stdin(&self) -> bool {
        self.stdin
    }

    /// The program and its arguments.
    pub(super) fn argv(&self) -> impl Iterator<Item = &str> {
        std::iter::once(&self.program).chain(&self.args).map(String::as_str)
    }

    /// Its variables and its directory.
    pub(super) fn surroundings(&self) -> (BTreeMap<String, String>, Option<String>) {
        (self.envs.clone(), self.cwd.clone())
    }

    /// What its variables hold, which no error tells.
    pub(super) fn values(&self) -> Vec<String> {
        self.envs.values().cloned().collect()
    }

    pub(super) fn user_name(&self) -> Option<&str> {
        self.user.as_deref()
    }

    pub(super) fn remote_timeout(&self) -> Option<Duration> {
        (!self.timeout.is_zero()).then_some(self.timeout)
    }

    pub(super) fn max_output_bytes(&self) -> usize {
        self.max_output
    }

    /// Checks what no server could start. [`Commands::start`](super::Commands::start) does so too, before any I/O.
    ///
    /// # Errors
    ///
    /// [`InvalidArgument`](crate::ErrorKind::InvalidArgument), naming the value and the rule.
    pub fn validate(&self) -> Result<(), Error> {
        if self.program.is_empty() {
            return Err(Error::invalid("the command is empty"));
        }
        if self.program.contains('\0') || self.args.iter().any(|arg| arg.contains('\0')) {
            return Err(Error::invalid("the command holds a NUL character, which no program can be given"));
        }
        if let Some(user) = self.user.as_ref().filter(|user| !is_user_name(user)) {
            return Err(Error::invalid(format!("user: {user:?} is no user name")));
        }
        if let Some(name) = self.envs.keys().find(|name| !is_env_name(name)) {
            return Err(Error::invalid(format!("env: {name:?} is no name for an environment variable")));
        }
        if let Some((name, _)) = self.envs.iter().find(|(_, value)| value.contains('\0')) {
            return Err(Error::invalid(format!("env: the value of {name} holds a NUL character")));
        }
        if let Some(size) = self.terminal {
            size.validate()?;
        }
        self.stream.validate()
    }

    pub(super) fn request(&self, marker: &Marker) -> StartRequest {
        let mut envs = self.envs.clone();
        if self.terminal.is_some() {
            for (name, value) in TERMINAL_VARIABLES {
                envs.entry(name.to_owned()).or_insert_with(|| value.to_owned());
            }
        }
        if let Some((name, value)) = marker.variable() {
            envs.insert(name.to_owned(), value.to_owned());
        }
        let config = ProcessConfig {
            cmd: self.program.clone(),
            args: self.args.clone(),
            envs: envs.into_iter().collect(),
            cwd: self.cwd.clone(),
            ..Default::default()
        };
        let tag = self.tag.as_deref().or(marker.tag()).map(str::to_owned);
        let pty = self.terminal.map(TerminalSize::message).into();
        StartRequest { process: config.into(), tag, stdin: Some(self.stdin), pty, ..Default::default() }
    }
}

impl From<&str> for Command {
    fn from(line: &str) -> Self {
        Self::shell(line)
    }
}

impl From<String> for Command {
    fn from(line: String) -> Self {
        Self::shell(line)
    }
}

impl fmt::Debug for Command {
    // Arguments and variables may be secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Command")
            .field("program", &self.program)
            .field("args", &self.args.len())
            .field("timeout", &self.timeout)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_program_can_be_given_is_refused() {
        for (command, rule) in [
            (Command::new(""), "the command is empty"),
            (Command::new("a").arg("b\0"), "NUL"),
            (Command::new("a").env("", "x"), "no name for an environment variable"),
            (Command::new("a").env("B", "x\0"), "the value of B holds a NUL"),
            (Command::new("a").terminal(TerminalSize::new(0, 1)), "0 columns"),
            (Command::new("a").stream(StreamOptions::new().keepalive(Duration::ZERO)), "keepalive"),
        ] {
            let error = command.validate().unwrap_err().to_string();
            assert!(error.contains(rule), "{error}");
        }
    }

    #[test]
    fn text_runs_in_a_login_shell_and_arguments_are_left_alone() {
        let command = Command::from("echo $HOME");
        let request = command.request(&Marker::new(&command).unwrap());
        let config = request.process.into_option().unwrap();
        assert_eq!(
            (config.cmd.as_str(), config.args),
            ("/bin/bash", vec!["-l".into(), "-c".into(), "echo $HOME".into()])
        );
        assert_eq!(request.stdin, Some(false));
    }
}
