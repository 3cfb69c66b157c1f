//! Runs other programs and says what was run.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

/// Whether a program can be started at all.
pub(crate) fn is_present(program: &str) -> bool {
    Command::new(program)
        .arg("--version")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok()
}

/// Runs a command to its end, its output passing through.
pub(crate) fn run(command: &mut Command) -> Result<(), String> {
    let shown = shown(command);
    eprintln!("$ {shown}");
    match command.stdin(Stdio::null()).status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("`{shown}` ended with {status}")),
        Err(error) => Err(format!("`{shown}` could not be started: {error}")),
    }
}

/// Like [`run`], and hands each line of its standard output to `see` before printing it.
pub(crate) fn run_watched(command: &mut Command, mut see: impl FnMut(&str)) -> Result<(), String> {
    let shown = shown(command);
    eprintln!("$ {shown}");
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|e| format!("`{shown}` could not be started: {e}"))?;
    if let Some(stdout) = child.stdout.take() {
        for line in BufReader::new(stdout).split(b'\n') {
            let line = line.map_err(|e| format!("`{shown}`: reading its output: {e}"))?;
            let line = String::from_utf8_lossy(&line);
            see(&line);
            println!("{line}");
        }
    }
    match child.wait() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("`{shown}` ended with {status}")),
        Err(error) => Err(format!("`{shown}`: {error}")),
    }
}

/// Runs a command that must succeed, and returns what it printed.
pub(crate) fn output(command: &mut Command) -> Result<String, String> {
    eprintln!("$ {}", shown(command));
    let ended = command.stdin(Stdio::null()).output().map_err(|error| format!("{}: {error}", shown(command)))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if ended.status.success() {
        return Ok(text(&ended.stdout));
    }
    let (printed, complained) = (text(&ended.stdout), text(&ended.stderr));
    Err(format!("{} ended with {}\n{printed}{complained}", shown(command), ended.status))
}

/// `cargo` in the repository's root.
pub(crate) fn cargo(root: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root).args(args);
    command
}

/// The words of a command.
pub(crate) fn shown(command: &Command) -> String {
    std::iter::once(command.get_program())
        .chain(command.get_args())
        .map(OsStr::to_string_lossy)
        .collect::<Vec<_>>()
        .join(" ")
}
