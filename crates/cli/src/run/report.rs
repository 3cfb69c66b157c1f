//! What a command did: its exit code for the shell, and the object that `--json` prints.

use std::io;
use std::time::Instant;

use oncebox::{Exit, Sandbox};
use serde_json::json;

use crate::exit::{self, Failure};

/// The most output that the JSON object holds, each stream apart.
const MAX_OUTPUT: usize = 64 << 20;

/// How a command's end is passed on.
pub(crate) struct Ended {
    pub(crate) code: u8,
    /// The sandbox killed it, since its time was up.
    pub(crate) timed_out: bool,
}

pub(crate) struct Report {
    wanted: bool,
    started: Instant,
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    exit: Option<(Exit, u8)>,
    gaps: Vec<String>,
}

impl Report {
    pub(crate) fn new(wanted: bool) -> Self {
        Self { wanted, started: Instant::now(), stdout: Vec::new(), stderr: Vec::new(), exit: None, gaps: Vec::new() }
    }

    /// Whether output is gathered for the object.
    pub(crate) fn is_wanted(&self) -> bool {
        self.wanted
    }

    pub(crate) fn stdout(&mut self, bytes: &[u8]) -> io::Result<()> {
        gather(&mut self.stdout, bytes)
    }

    pub(crate) fn stderr(&mut self, bytes: &[u8]) -> io::Result<()> {
        gather(&mut self.stderr, bytes)
    }

    /// Takes note that output may be missing.
    pub(crate) fn gap(&mut self, how: String) {
        self.gaps.push(how);
    }

    /// Takes note of the end.
    pub(crate) fn exit(&mut self, exit: Exit) -> Ended {
        let timed_out = exit.timed_out;
        let code = if timed_out { exit::TIMED_OUT } else { exit_code(&exit) };
        self.exit = Some((exit, code));
        Ended { code, timed_out }
    }

    pub(crate) fn print(&self, sandbox: &Sandbox) -> Result<(), Failure> {
        let (true, Some((exit, code))) = (self.wanted, &self.exit) else { return Ok(()) };
        let object = json!({
            "sandbox_id": sandbox.id(),
            "intent": sandbox.intent(),
            "exit_code": code,
            "status": exit.status,
            "error": exit.error,
            "stdout": String::from_utf8_lossy(&self.stdout),
            "stderr": String::from_utf8_lossy(&self.stderr),
            "gaps": self.gaps,
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
    match exit.signal() {
        Some(number) => exit::SIGNAL.saturating_add(number),
        // What ended it has no name that we know.
        None if !exit.exited => exit::SIGNAL.saturating_add(9),
        // Exit codes are a byte everywhere but on the wire.
        None => exit.code as u8,
    }
}
