//! What a command line asks to be run, and why it was not.

use std::io;
use std::path::Path;
use std::time::Duration;

use oncebox::{Command, Error, ErrorKind};

use crate::bounded::read_text;
use crate::exit::{self, Failure};

/// The largest file of environment variables.
const MAX_ENV_FILE: u64 = 1 << 20;

/// A command as command lines give it.
pub(crate) struct Program<'a> {
    /// The program and its arguments.
    pub(crate) command: &'a [String],
    pub(crate) timeout: Duration,
    pub(crate) env_file: Option<&'a Path>,
    pub(crate) env: &'a [(String, String)],
    pub(crate) cwd: Option<&'a str>,
    pub(crate) user: Option<&'a str>,
}

impl Program<'_> {
    /// The command; wrong use where there cannot be one.
    pub(crate) fn command(&self) -> Result<Command, Failure> {
        let Some((program, arguments)) = self.command.split_first() else {
            return Err(Failure::usage("the command is empty"));
        };
        let mut command = Command::new(program).args(arguments).timeout(self.timeout);
        if let Some(path) = self.env_file {
            let text = read_env_file(path).map_err(|error| Failure::unreadable("--env-file", path, &error))?;
            for (number, line) in text.lines().enumerate() {
                let line = line.trim();
                if line.is_empty() || line.starts_with('#') {
                    continue;
                }
                let Some((name, value)) = line.split_once('=') else {
                    return Err(Failure::usage(format!(
                        "--env-file {}, line {}: it must look like NAME=VALUE",
                        path.display(),
                        number + 1
                    )));
                };
                command = command.env(name.trim(), value);
            }
        }
        for (name, value) in self.env {
            command = command.env(name, value);
        }
        if let Some(cwd) = self.cwd {
            command = command.cwd(cwd);
        }
        if let Some(user) = self.user {
            command = command.user(user);
        }
        command.validate().map_err(|error| Failure::of(&error, false))?;
        Ok(command)
    }
}

fn read_env_file(path: &Path) -> io::Result<String> {
    let text = read_text(std::fs::File::open(path)?, MAX_ENV_FILE)?;
    Ok(text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text))
}

/// envd says what went wrong in words only.
pub(crate) fn not_started(error: &Error, json: bool) -> Failure {
    let failure = Failure::of(error, json);
    if error.kind() != ErrorKind::InvalidArgument {
        return failure;
    }
    let text = error.to_string().to_lowercase();
    if !text.contains("invalid_argument") {
        // It was this side that refused it.
        return failure;
    }
    let missing = text.contains("not found") || text.contains("no such file");
    failure.with_code(if missing { exit::NOT_FOUND } else { exit::NOT_EXECUTABLE })
}
