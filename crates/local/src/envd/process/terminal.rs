//! Pseudo-terminals: a process that has one is the leader of a session whose terminal it is.
//!
//! A child becomes that by two calls between its start and its program, for which the standard library offers no safe
//! place. So the helper starts itself in between: it leads a session, takes its standard input for its terminal, and
//! becomes the program ([`become_program`]). Its standard error is a pipe until then, on which it says why it could not.

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use oncebox_protocol::envd::process::PTY;
use rustix::pty::OpenptFlags;
use rustix::termios::Winsize;

use crate::envd::{INIT, ON_TERMINAL, PLAIN};

/// The size of a terminal whose client names none.
const DEFAULT_SIZE: (u16, u16) = (80, 24);

/// What a terminal's client asks for: columns and rows.
pub(super) fn size_of(pty: &PTY) -> Result<(u16, u16), String> {
    let Some(size) = pty.size.as_option() else { return Ok(DEFAULT_SIZE) };
    match (u16::try_from(size.cols), u16::try_from(size.rows)) {
        (Ok(0), _) | (_, Ok(0)) => Ok(DEFAULT_SIZE),
        (Ok(columns), Ok(rows)) => Ok((columns, rows)),
        _ => Err(format!("a terminal of {} columns and {} rows: 65535 is the most", size.cols, size.rows)),
    }
}

/// Our end of a terminal, and the process's.
pub(super) fn open((columns, rows): (u16, u16)) -> io::Result<(OwnedFd, OwnedFd)> {
    let ours = rustix::pty::openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
    rustix::pty::grantpt(&ours)?;
    rustix::pty::unlockpt(&ours)?;
    // By the descriptor and not by the name, which another mount may cover.
    let theirs = rustix::pty::ioctl_tiocgptpeer(&ours, OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
    resize(&ours, (columns, rows))?;
    Ok((ours, theirs))
}

/// Changes a terminal's size, of which its foreground processes are told.
pub(super) fn resize(terminal: impl AsFd, (columns, rows): (u16, u16)) -> io::Result<()> {
    let size = Winsize { ws_col: columns, ws_row: rows, ws_xpixel: 0, ws_ypixel: 0 };
    Ok(rustix::termios::tcsetwinsize(terminal, size)?)
}

/// Makes `command` start on the terminal `theirs`. The returned pipe tells of a program that could not be started.
pub(super) fn on_terminal(command: &Command, theirs: OwnedFd) -> io::Result<(Command, io::PipeReader)> {
    let (problem, writer) = io::pipe()?;
    let mut wrapped = Command::new("/proc/self/exe");
    let mut arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    // One says what this process is, and those after it into what it was put; see `helper_main`.
    if let Some(mode) = arguments.iter().rposition(|argument| argument == INIT || argument == PLAIN) {
        arguments.truncate(mode);
    }
    wrapped.args(arguments).arg(ON_TERMINAL).arg(command.get_program()).args(command.get_args());
    wrapped.env_clear();
    wrapped.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    if let Some(directory) = command.get_current_dir() {
        wrapped.current_dir(directory);
    }
    wrapped.stdin(theirs.try_clone()?).stdout(theirs).stderr(writer);
    Ok((wrapped, problem))
}

/// Waits until the program runs, or returns why it does not.
pub(super) fn started(mut problem: io::PipeReader) -> io::Result<()> {
    let mut code = Vec::new();
    problem.by_ref().take(4).read_to_end(&mut code)?;
    match code.try_into() {
        Ok(code) => Err(io::Error::from_raw_os_error(i32::from_ne_bytes(code))),
        // It is closed by the start of the program.
        Err(_) => Ok(()),
    }
}

/// The helper between a terminal and its program: `arguments` are the program and its own. Returns only if it cannot be
/// started.
pub(in crate::envd) fn become_program(arguments: &[OsString]) -> ExitCode {
    let Some((program, arguments)) = arguments.split_first() else { return ExitCode::from(2) };
    let Ok(problem) = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stderr(), 3) else { return ExitCode::from(2) };
    let taken = rustix::process::setsid()
        .and_then(|_| rustix::process::ioctl_tiocsctty(rustix::stdio::stdin()))
        .and_then(|()| rustix::stdio::dup2_stderr(rustix::stdio::stdin()));
    let error = match taken {
        Ok(()) => Command::new(program).args(arguments).exec(),
        Err(error) => error.into(),
    };
    let code = error.raw_os_error().unwrap_or(rustix::io::Errno::INVAL.raw_os_error());
    // If nobody reads it, nobody waits for it.
    let _ = std::fs::File::from(problem).write_all(&code.to_ne_bytes());
    ExitCode::from(127)
}

#[cfg(test)]
mod tests {
    use buffa::MessageField;
    use oncebox_protocol::envd::process::pty::Size;

    use super::*;

    #[test]
    fn a_terminal_has_the_size_that_was_asked_for() {
        let of = |cols, rows| {
            size_of(&PTY { size: MessageField::some(Size { cols, rows, ..Size::default() }), ..PTY::default() })
        };
        assert_eq!(of(100, 30), Ok((100, 30)));
        assert_eq!(of(0, 30), Ok(DEFAULT_SIZE));
        assert_eq!(size_of(&PTY::default()), Ok(DEFAULT_SIZE));
        assert!(of(65_536, 30).unwrap_err().contains("65536"));

        let (ours, theirs) = open((100, 30)).unwrap();
        resize(&ours, (90, 20)).unwrap();
        let size = rustix::termios::tcgetwinsize(&theirs).unwrap();
        assert_eq!((size.ws_col, size.ws_row), (90, 20));
    }
}
