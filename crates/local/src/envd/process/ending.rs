//! How a process ended, in the protocol's words.

use oncebox_protocol::envd::process::process_event::EndEvent;
use rustix::process::WaitStatus;

/// The end event of a process that was waited for with `status`. `None` if the status is lost.
pub(super) fn end_event(status: Option<WaitStatus>) -> EndEvent {
    let mut event = EndEvent { exit_code: -1, ..EndEvent::default() };
    if let Some(code) = status.and_then(WaitStatus::exit_status) {
        event.exit_code = code;
        event.exited = true;
        event.status = format!("exit status {code}");
    } else if let Some(signal) = status.and_then(WaitStatus::terminating_signal) {
        // The kernel's flag for a dump of memory is in the status, but not in every wrapper of it.
        let dumped = status.is_some_and(|status| status.as_raw() & 0x80 != 0);
        event.status = format!("signal: {}{}", signal_name(signal), if dumped { " (core dumped)" } else { "" });
    } else {
        event.status = "the exit status was lost".to_owned();
    }
    event.error = (event.exit_code != 0).then(|| event.status.clone());
    event
}

/// The names envd prints, which are those of its language's library.
fn signal_name(signal: i32) -> String {
    let name = match signal {
        1 => "hangup",
        2 => "interrupt",
        3 => "quit",
        4 => "illegal instruction",
        5 => "trace/breakpoint trap",
        6 => "aborted",
        7 => "bus error",
        8 => "floating point exception",
        9 => "killed",
        10 => "user defined signal 1",
        11 => "segmentation fault",
        12 => "user defined signal 2",
        13 => "broken pipe",
        14 => "alarm clock",
        15 => "terminated",
        24 => "CPU time limit exceeded",
        25 => "file size limit exceeded",
        31 => "bad system call",
        other => return format!("signal {other}"),
    };
    name.to_owned()
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use rustix::process::{Pid, WaitOptions, waitpid};

    use super::*;

    #[allow(clippy::zombie_processes, reason = "it is waited for by its pid")]
    fn end_of(script: &str) -> EndEvent {
        let child = Command::new("sh").args(["-c", script]).spawn().unwrap();
        let pid = Pid::from_raw(child.id().cast_signed()).unwrap();
        let (_, status) = waitpid(Some(pid), WaitOptions::empty()).unwrap().unwrap();
        end_event(Some(status))
    }

    #[test]
    fn exit_codes_and_signals_are_told_apart() {
        let zero = end_of("exit 0");
        assert_eq!((zero.exit_code, zero.exited, zero.status.as_str(), zero.error), (0, true, "exit status 0", None));
        let seven = end_of("exit 7");
        assert_eq!((seven.exit_code, seven.exited), (7, true));
        assert_eq!(seven.error.as_deref(), Some("exit status 7"));
        let killed = end_of("kill -9 $$");
        assert_eq!((killed.exit_code, killed.exited, killed.status.as_str()), (-1, false, "signal: killed"));
        assert_eq!(end_of("kill -15 $$").status, "signal: terminated");
    }
}
