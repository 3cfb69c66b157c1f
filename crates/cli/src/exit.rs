//! Exit codes, and how failures are shown.

use std::fmt;
use std::io::{self, Write};
use std::process::ExitCode;

use oncebox::{Error, ErrorKind};
use serde_json::json;

/// Wrong use: an option, an argument, a file that cannot be read, a port that is taken.
pub(crate) const USAGE: u8 = 2;

/// `probe`: some requests failed, or nobody knows what they did.
pub(crate) const PROBE_FAILED: u8 = 3;

/// The command was killed because `--timeout` passed, as `timeout(1)` has it.
pub(crate) const TIMED_OUT: u8 = 124;

/// The sandbox, the network or the service failed, as `docker run` has it: the command's own code is not known.
pub(crate) const INFRASTRUCTURE: u8 = 125;

/// The command could not be executed.
pub(crate) const NOT_EXECUTABLE: u8 = 126;

/// The command was not found.
pub(crate) const NOT_FOUND: u8 = 127;

/// A command ended by signal n ends with 128 + n, and so does this program when a signal ends it.
pub(crate) const SIGNAL: u8 = 128;

/// What the codes mean, as help, man pages and the reference have it.
pub(crate) const EXIT_CODES: [(&str, &str); 8] = [
    ("0-255", "`run`, `exec` and `shell` pass the command's own exit code through; 128+n: signal n ended it"),
    ("1", "`fleet run`: a command failed in some sandbox; `template delete`: there was no such template"),
    ("2", "wrong use: an option, an argument, a file that cannot be read, a port that is taken"),
    ("3", "`probe`: some requests failed, or nobody knows what they did"),
    ("124", "the command was killed because --timeout passed"),
    ("125", "the sandbox, the network or the service failed"),
    ("126", "the command could not be executed; 127: it was not found"),
    ("128+n", "signal n ended this program: 130 is Ctrl-C"),
];

/// Why the program ends without the command's own exit code.
#[derive(Debug)]
pub(crate) struct Failure {
    code: u8,
    message: String,
    /// Shown as one JSON object on standard output rather than as text.
    json: Option<serde_json::Value>,
}

impl Failure {
    pub(crate) fn usage(message: impl fmt::Display) -> Self {
        Self { code: USAGE, message: message.to_string(), json: None }
    }

    pub(crate) fn infrastructure(message: impl fmt::Display) -> Self {
        Self { code: INFRASTRUCTURE, message: message.to_string(), json: None }
    }

    /// A file that the command line names and that cannot be read. `what` is the option or argument.
    pub(crate) fn unreadable(what: &str, path: &std::path::Path, error: &io::Error) -> Self {
        let way_out = match error.kind() {
            io::ErrorKind::NotFound => "; give the path of a file that is there",
            io::ErrorKind::PermissionDenied => "; give one that this user may read",
            _ => "",
        };
        let why = error.to_string();
        let why = why.split(" (os error").next().unwrap_or_default();
        Self::usage(format!("{what} {:?} cannot be read: {why}{way_out}", path.display().to_string()))
    }

    pub(crate) fn with_code(mut self, code: u8) -> Self {
        self.code = code;
        self
    }

    /// Shows the error as JSON where that is asked for.
    pub(crate) fn of(error: &Error, as_json: bool) -> Self {
        let wrong_use = error.kind() == ErrorKind::InvalidArgument && error.attempts().is_empty();
        let json = as_json.then(|| {
            json!({"error": {
                "kind": format!("{:?}", error.kind()),
                "message": error.to_string(),
                "status": error.status(),
                "intent": error.intent(),
                "candidates": error.candidates(),
                "retry_after_seconds": error.retry_after().map(|wait| wait.as_secs_f64()),
                "may_have_been_processed": error.may_have_been_processed(),
                "attempts": error.attempts().iter().map(ToString::to_string).collect::<Vec<_>>(),
            }})
        });
        let mut message = error.to_string();
        if wrong_use && message.contains("is no sandbox id") {
            message.push_str("; `oncebox sandbox ls` lists them");
        }
        Self { code: if wrong_use { USAGE } else { INFRASTRUCTURE }, message, json }
    }
}

/// Says something on standard error. Nobody listening there is no reason to fail, nor to leave anything undone.
pub(crate) fn say(text: impl fmt::Display) {
    let _ = writeln!(io::stderr(), "oncebox: {text}");
}

/// Prints a line that the program was asked for.
pub(crate) fn print(text: impl fmt::Display) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    writeln!(stdout, "{text}")
        .and_then(|()| stdout.flush())
        .map_err(|error| Failure::infrastructure(format!("the output could not be written: {error}")))
}

/// Shows a failure and turns the end into an exit code.
pub(crate) fn end(result: Result<u8, Failure>) -> ExitCode {
    match result {
        Ok(code) => ExitCode::from(code),
        Err(failure) => {
            match &failure.json {
                Some(json) => {
                    if print(json).is_err() {
                        say(&failure.message);
                    }
                }
                None => say(&failure.message),
            }
            ExitCode::from(failure.code)
        }
    }
}
