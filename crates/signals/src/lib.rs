//! Makes process 1 of a pid namespace outlive the signals of the programs in it.
//!
//! The kernel drops what a program sends to process 1 of its own pid namespace, with two exceptions that a program may use. A
//! signal that has a handler is delivered: Rust's runtime has one for SIGSEGV and SIGBUS, which ends the process if the address
//! that comes along, which the sender may choose, lies in a guard page. And a signal is not dropped while the thread it is
//! sent to blocks it, as every thread does for a moment when it starts a process or a thread: another thread, which
//! does not block it, then takes it, and if its action is the default one the whole process ends.
//!
//! So no signal keeps its default action. To block them would not do: programs inherit what is blocked, and what is ignored,
//! but not handlers. Setting those is what needs unsafe code.

// MIPS has the fields of its actions in another order, and 127 signals.
#![cfg(all(target_os = "linux", not(any(target_arch = "mips", target_arch = "mips64"))))]

use std::io;
use std::mem;
use std::ptr;

use libc::{c_int, c_long, c_void, siginfo_t};

/// The signals there are.
const ALL: std::ops::RangeInclusive<c_int> = 1..=64;
/// Those the C library keeps for itself and lets no program handle: for the cancellation of threads and for changes of
/// user. The kernel knows nothing of that, so they can be sent.
const RESERVED: &[c_int] = if cfg!(target_env = "musl") { &[32, 33, 34] } else { &[32, 33] };

/// Lets no signal end this process that another sends, but SIGKILL, which the kernel does not take from inside the pid namespace
/// of a process 1. True faults end it as before.
///
/// Programs that it starts have the default actions, but for the signals that the C library keeps for itself: they are
/// ignored there, until the library sets what it needs, as it does before it sends one.
///
/// Must be called before this process starts a thread, since the library then sets handlers of its own that are needed.
///
/// # Errors
/// What the kernel says.
pub fn outlive() -> io::Result<()> {
    for number in RESERVED {
        ignore_reserved(*number)?;
    }
    for number in ALL.filter(|number| !RESERVED.contains(number)) {
        // The first two have no handlers; the third has no effect by default, and is somebody's; the last is ignored by
        // Rust's runtime, which resets it for programs.
        if ![libc::SIGKILL, libc::SIGSTOP, libc::SIGCHLD, libc::SIGPIPE].contains(&number) {
            handle(number)?;
        }
    }
    Ok(())
}

fn handle(number: c_int) -> io::Result<()> {
    // SAFETY: all bytes zero are an action: the default one, without flags, with nothing blocked.
    let mut action: libc::sigaction = unsafe { mem::zeroed() };
    action.sa_sigaction = outlived as *const () as libc::sighandler_t;
    // On the stack that Rust's runtime has for this: a thread whose stack is full must get here too.
    // One at a time: that stack is small.
    // SAFETY: it writes a set of signals into the place for one.
    unsafe { libc::sigfillset(&raw mut action.sa_mask) };
    action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART | libc::SA_ONSTACK;
    // SAFETY: the action lives until the call returns, and nothing is written. `outlived` has the type that `SA_SIGINFO`
    // asks for, and does only what may be done in the middle of anything.
    match unsafe { libc::sigaction(number, &raw const action, ptr::null_mut()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Does nothing about a signal that somebody sent. A true fault happens again at once, and then has its default action.
extern "C" fn outlived(number: c_int, info: *mut siginfo_t, _: *mut c_void) {
    // SAFETY: the kernel passes a valid pointer to a handler that has `SA_SIGINFO`.
    let code = unsafe { (*info).si_code };
    let fault =
        [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE, libc::SIGTRAP, libc::SIGSYS].contains(&number);
    // Codes above zero are the kernel's own; it lets no process send them to another.
    if fault && code > 0 {
        // SAFETY: `signal` may be called in a handler, and the default action runs no code.
        unsafe { libc::signal(number, libc::SIG_DFL) };
    }
}

fn ignore_reserved(number: c_int) -> io::Result<()> {
    let action = Action { handler: libc::SIG_IGN, rest: [0; 4] };
    // SAFETY: the kernel reads an action, which is as long as this at most and lives until the call returns, and writes
    // nothing, the place for the one before being null. The action is to ignore, so no code will run for it.
    let answer = unsafe {
        libc::syscall(libc::SYS_rt_sigaction, number, &raw const action, ptr::null_mut::<Action>(), SET_SIZE)
    };
    if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// `struct sigaction` as the kernel has it: the handler comes first, and flags, mask and, on some processors, the address
/// to return to are nothing here, wherever they lie.
#[repr(C)]
struct Action {
    handler: libc::sighandler_t,
    rest: [c_long; 4],
}

/// Bytes of a set of signals.
const SET_SIZE: usize = 8;
