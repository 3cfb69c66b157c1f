//! Makes the process a sandbox: its own namespaces, its own root, few capabilities.
//!
//! The order matters. [`enter_namespaces`] runs in the first process, before any thread is started. Its child is process 1
//! of the sandbox and does the rest in [`build`]: a process of the new pid namespace must mount the new `/proc`.

mod etc;
mod keys;
mod loopback;
mod mounts;
mod own;
mod privileges;
mod root;

use std::fs;
use std::io;

use nix::sched::CloneFlags;

use crate::lifeline::{Options, Setup};

/// What failed on the way into isolation.
#[derive(Debug, thiserror::Error)]
#[error("{step}: {source}")]
pub(crate) struct IsolationError {
    step: String,
    source: io::Error,
}

/// Names the step that failed, for people who must find out why.
pub(super) trait Step<T> {
    fn step(self, step: impl FnOnce() -> String) -> Result<T, IsolationError>;
}

impl<T, E: Into<io::Error>> Step<T> for Result<T, E> {
    fn step(self, step: impl FnOnce() -> String) -> Result<T, IsolationError> {
        self.map_err(|source| IsolationError { step: step(), source: source.into() })
    }
}

/// Moves this process, which must have one thread, into new namespaces, without one of the network for `host_network`. Its
/// next child is process 1 of the pid namespace.
pub(crate) fn enter_namespaces(host_network: bool) -> Result<(), IsolationError> {
    let (uid, gid) = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
    let unshare = |flags: CloneFlags, name: &str| {
        nix::sched::unshare(flags).step(|| format!("unshare({name}){}", restriction_in_force()))
    };
    unshare(CloneFlags::CLONE_NEWUSER, "CLONE_NEWUSER")?;
    // One user: whoever runs the server is user 0 inside, and no other user exists there.
    let write = |file: &str, text: String| {
        fs::write(file, &text).step(|| format!("writing \"{text}\" to {file}{}", restriction_in_force()))
    };
    write("/proc/self/setgroups", "deny".to_owned())?;
    write("/proc/self/uid_map", format!("0 {uid} 1"))?;
    write("/proc/self/gid_map", format!("0 {gid} 1"))?;
    let own = CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWPID | CloneFlags::CLONE_NEWIPC | CloneFlags::CLONE_NEWUTS;
    if host_network {
        unshare(own, "CLONE_NEWNS|CLONE_NEWPID|CLONE_NEWIPC|CLONE_NEWUTS")?;
    } else {
        unshare(own | CloneFlags::CLONE_NEWNET, "CLONE_NEWNS|CLONE_NEWPID|CLONE_NEWNET|CLONE_NEWIPC|CLONE_NEWUTS")?;
    }
    // The user's keyrings are the new user namespace's own; the session's is inherited.
    keys::leave_session()
}

/// The known switches that forbid user namespaces, where they are on.
fn restriction_in_force() -> String {
    let switches = [
        ("/proc/sys/kernel/unprivileged_userns_clone", "0"),
        ("/proc/sys/user/max_user_namespaces", "0"),
        ("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1"),
    ];
    let on = switches.iter().find(|(file, forbids)| fs::read_to_string(file).is_ok_and(|text| text.trim() == *forbids));
    on.map_or_else(String::new, |(file, value)| format!(" ({file} is {value})"))
}

/// Turns process 1 of new namespaces into the sandbox that the setup describes.
pub(crate) fn build(
    setup: &Setup,
    options: &Options,
    hostname: &str,
    host_network: bool,
) -> Result<(), IsolationError> {
    rustix::system::sethostname(hostname.as_bytes()).step(|| format!("setting the host name to {hostname}"))?;
    if !host_network {
        loopback::bring_up().step(|| "bringing up the loopback interface".to_owned())?;
    }
    root::enter(setup, options, hostname, host_network)?;
    privileges::drop_all()
}
