//! The kernel's keys: those of the server's session stay outside.

use std::io;

use keyutils::{Keyring, SpecialKeyring};
use rustix::io::Errno;

use super::{IsolationError, Step};

/// Gives this process, and those it starts, a new session keyring.
pub(super) fn leave_session() -> Result<(), IsolationError> {
    let step = || "joining a new session keyring (/proc/sys/kernel/keys/maxkeys is how many keys a user may have)";
    match Keyring::join_anonymous_session() {
        Ok(_) => Ok(()),
        Err(error) => {
            let error = io::Error::from(error);
            // Kernels without keys, and containers whose filter forbids them to all processes, have none to share.
            let none = |error: &io::Error| {
                let codes = [Errno::NOSYS, Errno::PERM].map(Errno::raw_os_error);
                error.raw_os_error().is_some_and(|code| codes.contains(&code))
            };
            if none(&error) && Keyring::attach(SpecialKeyring::Session).is_err_and(|error| none(&error.into())) {
                return Ok(());
            }
            Err(error).step(|| step().to_owned())
        }
    }
}
