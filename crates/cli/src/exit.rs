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

/// Whoever read the output has gone, of which other programs are told by SIGPIPE.
const CLOSED: u8 = SIGNAL + 13;

/// What the codes mean, as help, man pages and the reference have it.
pub(crate) const EXIT_CODES: [(&str, &str); 8] = [
    ("0-255", "`run`, `exec` and `shell` pass the command's own exit code through; 128+n: signal n ended it"),
    ("1", "`fleet run`: a command failed in some sandbox"),
    ("2", "wrong use: an option, an argument, a file that cannot be read, a port that is taken"),
    ("3", "`probe`: some requests failed, or nobody knows what they did"),
    ("124", "the command was killed because --timeout passed"),
    ("125", "the sandbox, the network or the service failed"),
    ("126", "the command could not be executed; 127: it was not found"),
    ("128+n", "signal n ended this program: 130 is Ctrl-C; 141: whoever read its output had gone"),
];

/// Why the program ends without the command's own exit code.
#[derive(Debug)]
pub(crate) struct Failure {
    code: u8,
    /// Nothing is said where it is empty.
    message: String,
    /// Shown rather than the message where JSON is asked for.
    json: Option<serde_json::Value>,
}

impl Failure {
    pub(crate) fn usage(message: impl fmt::Display) -> Self {
        Self { code: USAGE, message: message.to_string(), json: None }
    }

    pub(crate) fn infrastructure(message: impl fmt::Display) -> Self {
        Self { code: INFRASTRUCTURE, message: message.to_string(), json: None }
    }

    /// Output that could not be written. That nobody reads it any more is nobody's concern.
    pub(crate) fn unwritten(error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self { code: CLOSED, message: String::new(), json: None },
            _ => Self::infrastructure(format!("the output could not be written: {error}")),
        }
    }

    /// Whether nothing failed but that nobody reads the output any more.
    pub(crate) fn is_closed(&self) -> bool {
        self.code == CLOSED && self.message.is_empty()
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
        let message = error.to_string();
        let message = if wrong_use { by_its_flag(message, typed()) } else { message };
        let json = as_json.then(|| {
            json!({"error": {
                "kind": format!("{:?}", error.kind()),
                "message": message,
                "status": error.status(),
                "intent": error.intent(),
                "candidates": error.candidates(),
                "retry_after_seconds": error.retry_after().map(|wait| wait.as_secs_f64()),
                "may_have_been_processed": error.may_have_been_processed(),
                "attempts": error.attempts().iter().map(ToString::to_string).collect::<Vec<_>>(),
            }})
        });
        Self { code: if wrong_use { USAGE } else { INFRASTRUCTURE }, message, json }
    }
}

/// The words of the command line, the program's first.
pub(crate) fn typed() -> impl Iterator<Item = String> {
    std::env::args_os().map(|word| word.to_string_lossy().into_owned())
}

/// What a library says of an option by its name, said of the flag by which it was given.
fn by_its_flag(message: String, words: impl Iterator<Item = String>) -> String {
    let Some((name, rest)) = message.split_once(": ") else { return message };
    let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
    let flag = format!("--{}", name.replace('_', "-"));
    let mut words = words.take_while(|word| word != "--");
    let is_given = is_name && words.any(|word| word.split('=').next() == Some(flag.as_str()));
    if is_given { format!("{flag}: {rest}") } else { message }
}

/// Says something on standard error. Nobody listening there is no reason to fail, nor to leave anything undone.
pub(crate) fn say(text: impl fmt::Display) {
    let _ = writeln!(io::stderr(), "oncebox: {text}");
}

/// Prints a line that the program was asked for.
pub(crate) fn print(text: impl fmt::Display) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    writeln!(stdout, "{text}").and_then(|()| stdout.flush()).map_err(|error| Failure::unwritten(&error))
}

/// Shows a failure and turns the end into an exit code. As JSON, what came of a call goes to standard output, where what it
/// was asked for would have gone; a wrong use, of which nothing came, to standard error.
pub(crate) fn end(result: Result<u8, Failure>, as_json: bool) -> ExitCode {
    let failure = match result {
        Ok(code) => return ExitCode::from(code),
        Err(failure) => failure,
    };
    if failure.is_closed() {
        return ExitCode::from(failure.code);
    }
    let json = as_json.then(|| failure.json.unwrap_or_else(|| plain(failure.code, &failure.message)));
    match json {
        Some(json) if failure.code == USAGE => complain(&json),
        Some(json) if print(&json).is_ok() => {}
        _ => say(&failure.message),
    }
    ExitCode::from(failure.code)
}

/// Shows a command line that is wrong.
pub(crate) fn refuse(message: &str, as_json: bool) -> ExitCode {
    end(Err(Failure::usage(message)), as_json)
}

/// The object of a failure of which no call tells more.
fn plain(code: u8, message: &str) -> serde_json::Value {
    json!({"error": {
        "kind": if code == USAGE { "InvalidArgument" } else { "Failed" },
        "message": message,
        "status": null,
        "intent": null,
        "candidates": [],
        "retry_after_seconds": null,
        "may_have_been_processed": false,
        "attempts": [],
    }})
}

/// One line on standard error, as it is.
fn complain(line: impl fmt::Display) {
    let _ = writeln!(io::stderr(), "{line}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_option_is_told_by_its_flag_where_that_was_given() {
        for (message, line, said) in [
            ("user: \"a:b\" is none", "run --user a:b -- true", "--user: \"a:b\" is none"),
            ("spool_limit: 1 is less", "exec --spool-limit=1", "--spool-limit: 1 is less"),
            ("user: \"a:b\" is none", "run -- x --user", "user: \"a:b\" is none"),
            ("the name: no", "--the name", "the name: no"),
        ] {
            assert_eq!(by_its_flag(message.to_owned(), line.split(' ').map(str::to_owned)), said);
        }
    }
}
