//! What to execute, and how.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use oncebox_protocol::envd::process::{ProcessConfig, StartRequest};

use crate::error::Error;
use crate::rpc::is_user_name;
use crate::sandbox::is_env_name;

/// How long a command may run (protocol fact: 60 s in the official SDK).
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(60);

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
        }
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
    /// keeps this time, also when nobody is connected any more.
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

    /// A name by which its process can be recognised in the process list.
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
        Ok(())
    }

    pub(super) fn request(&self) -> StartRequest {
        let config = ProcessConfig {
            cmd: self.program.clone(),
            args: self.args.clone(),
            envs: self.envs.clone().into_iter().collect(),
            cwd: self.cwd.clone(),
            ..Default::default()
        };
        StartRequest { process: config.into(), tag: self.tag.clone(), stdin: Some(self.stdin), ..Default::default() }
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
        ] {
            let error = command.validate().unwrap_err().to_string();
            assert!(error.contains(rule), "{error}");
        }
    }

    #[test]
    fn text_runs_in_a_login_shell_and_arguments_are_left_alone() {
        let request = Command::from("echo $HOME").request();
        let config = request.process.into_option().unwrap();
        assert_eq!(
            (config.cmd.as_str(), config.args),
            ("/bin/bash", vec!["-l".into(), "-c".into(), "echo $HOME".into()])
        );
        assert_eq!(request.stdin, Some(false));
    }
}
