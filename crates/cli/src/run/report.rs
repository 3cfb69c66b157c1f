//! What a command did: its exit code for the shell, and the object that `--json` prints.

use std::io;
use std::time::{Duration, Instant};

use oncebox::{Exit, Sandbox};
use serde_json::json;

use crate::exit::{self, Failure};

/// The most output that the JSON object holds, each stream apart.
const MAX_OUTPUT: usize = 64 << 20;

/// How a command's end is passed on.
pub(super) struct Ended {
    pub(super) code: u8,
    /// The sandbox killed it, since its time was up.
    pub(super) timed_out: bool,
}

pub(super) struct Report {
    wanted: bool,
    started: Instant,
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    exit: Option<(Exit, u8)>,
}

impl Report {
    pub(super) fn new(wanted: bool) -> Self {
        Self { wanted, started: Instant::now(), stdout: Vec::new(), stderr: Vec::new(), exit: None }
    }

    /// Whether output is gathered for the object.
    pub(super) fn is_wanted(&self) -> bool {
        self.wanted
    }

    pub(super) fn stdout(&mut self, bytes: &[u8]) -> io::Result<()> {
        gather(&mut self.stdout, bytes)
    }

    pub(super) fn stderr(&mut self, bytes: &[u8]) -> io::Result<()> {
        gather(&mut self.stderr, bytes)
    }

    /// Takes note of the end. `timeout` is the command's, zero for none.
    pub(super) fn exit(&mut self, exit: Exit, timeout: Duration) -> Ended {
        let timed_out = !timeout.is_zero() && self.started.elapsed() >= timeout && signal(&exit) == Some(9);
        let code = if timed_out { exit::TIMED_OUT } else { exit_code(&exit) };
        self.exit = Some((exit, code));
        Ended { code, timed_out }
    }

    pub(super) fn print(&self, sandbox: &Sandbox) -> Result<(), Failure> {
        let (true, Some((exit, code))) = (self.wanted, &self.exit) else { return Ok(()) };
        let object = json!({
            "sandbox_id": sandbox.id(),
            "intent": sandbox.intent(),
            "exit_code": code,
            "status": exit.status,
            "error": exit.error,
            "stdout": String::from_utf8_lossy(&self.stdout),
            "stderr": String::from_utf8_lossy(&self.stderr),
            "seconds": self.started.elapsed().as_secs_f64(),
        });
        exit::print(object)
    }
}

fn gather(to: &mut Vec<u8>, bytes: &[u8]) -> io::Result<()> {
    if to.len() + bytes.len() > MAX_OUTPUT {
        return Err(io::Error::other(format!("it is longer than {MAX_OUTPUT} bytes; leave --json out")));
    }
    to.extend_from_slice(bytes);
    Ok(())
}

/// As a shell has it: the command's own, or 128 + the signal that ended it.
fn exit_code(exit: &Exit) -> u8 {
    match signal(exit) {
        Some(number) => exit::SIGNAL.saturating_add(number),
        // Exit codes are a byte everywhere but on the wire.
        None => exit.code as u8,
    }
}

/// The signal that ended a process, from envd's words (protocol fact: those of Go's `ProcessState`).
fn signal(exit: &Exit) -> Option<u8> {
    let name = exit.status.strip_prefix("signal: ").filter(|_| !exit.exited)?;
    let name = name.strip_suffix(" (core dumped)").unwrap_or(name);
    Some(match name {
        "hangup" => 1,
        "interrupt" => 2,
        "quit" => 3,
        "illegal instruction" => 4,
        "trace/breakpoint trap" => 5,
        "aborted" => 6,
        "bus error" => 7,
        "floating point exception" => 8,
        "user defined signal 1" => 10,
        "segmentation fault" => 11,
        "user defined signal 2" => 12,
        "broken pipe" => 13,
        "alarm clock" => 14,
        "terminated" => 15,
        // "killed", and "signal 34" for those without a name.
        other => other.strip_prefix("signal ").and_then(|number| number.parse().ok()).unwrap_or(9),
    })
}
