//! Signals a process that outlives them, and one that faults; programs it starts are as ever.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)]

use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Output};

/// What the process that a test starts, which is this very program, is told to do.
const ROLE: &str = "ONCEBOX_TEST_ROLE";

fn in_a_process(role: &str) -> Output {
    Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "a_process_that_outlives", "--nocapture"])
        .env(ROLE, role)
        .output()
        .unwrap()
}

#[test]
#[ignore = "a process that other tests start"]
fn a_process_that_outlives() {
    let Some(role) = std::env::var_os(ROLE) else { return };
    oncebox_signals::outlive().unwrap();
    if role == "fault" {
        // Those that are sent do no harm, and leave the handler as it is.
        let script = "kill -SEGV $PPID; kill -BUS $PPID";
        assert!(Command::new("sh").args(["-c", script]).status().unwrap().success());
        // A true one.
        overflow(0);
    }
    // By another process, all but KILL, STOP, and the program's own end.
    let script = "for s in $(seq 1 64); do case $s in 9|19) ;; *) kill -$s $PPID || exit 1;; esac; done";
    assert!(Command::new("sh").args(["-c", script]).status().unwrap().success());
    let program = Command::new("cat").arg("/proc/self/status").output().unwrap();
    println!("{}", String::from_utf8(program.stdout).unwrap());
}

/// Fills the stack.
#[allow(unconditional_recursion, reason = "its end is the point")]
fn overflow(depth: u64) -> u64 {
    let held = std::hint::black_box([depth; 512]);
    held.iter().sum::<u64>() + overflow(std::hint::black_box(depth + 1)) + held[0]
}

#[test]
fn no_signal_ends_it_and_its_programs_know_nothing_of_that() {
    let output = in_a_process("signals");
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let mask = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_else(|| panic!("{text}"));
        u64::from_str_radix(line.trim(), 16).unwrap()
    };
    assert_eq!((mask("SigBlk:"), mask("SigCgt:")), (0, 0), "{text}");
    // The C library's own are ignored until it says otherwise.
    assert_eq!(mask("SigIgn:") & !(0b111 << 31), 0, "{text}");
}

#[test]
fn a_true_fault_ends_it_as_ever() {
    let output = in_a_process("fault");
    assert_eq!(output.status.signal(), Some(11), "{output:?}");
}
