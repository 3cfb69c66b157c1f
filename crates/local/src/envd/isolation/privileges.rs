//! What the sandbox may no longer do once it is built.

use std::fs;
use std::path::Path;

use rustix::process::DumpableBehavior;
use rustix::thread::{CapabilitySet, CapabilitySets};

use super::{IsolationError, Step};

/// What package managers, servers and shells need over their own files and processes. Nothing here reaches a mount, the
/// network's set-up, another process's memory, or the kernel.
const KEPT: CapabilitySet = CapabilitySet::CHOWN
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::FOWNER)
    .union(CapabilitySet::FSETID)
    .union(CapabilitySet::KILL)
    .union(CapabilitySet::NET_BIND_SERVICE)
    .union(CapabilitySet::SETGID)
    .union(CapabilitySet::SETUID)
    .union(CapabilitySet::SYS_CHROOT);

/// Forbids user namespaces inside the sandbox. Must come before `/proc/sys` is made read-only.
///
/// A nested namespace would hold every capability within itself. The kernel keeps the read-only mounts locked there, but
/// it is the way to most of its privileged code, and nothing a sandbox is for needs it.
pub(super) fn forbid_user_namespaces(proc: &Path) -> Result<(), IsolationError> {
    let file = proc.join("sys/user/max_user_namespaces");
    fs::write(&file, "0").step(|| format!("writing 0 to {}", file.display()))
}

/// Bounds the numbers of processes in this pid namespace, and so how many there are. Must come before `/proc/sys` is made
/// read-only, and on kernels only that have such a bound for each namespace.
pub(super) fn bound_pids(proc: &Path, pids: u32) -> Result<(), IsolationError> {
    let file = proc.join("sys/kernel/pid_max");
    // Once they have all been given out, numbers below 300 are not given out again.
    fs::write(&file, pids.saturating_add(301).to_string()).step(|| format!("writing to {}", file.display()))
}

/// Drops every capability not in [`KEPT`], for this process and all that come from it, for good.
pub(super) fn drop_all() -> Result<(), IsolationError> {
    for bit in 0..u64::BITS {
        let one = CapabilitySet::from_bits_retain(1 << bit);
        // The kernel answers EINVAL above the last capability it knows.
        if !KEPT.contains(one) && rustix::thread::remove_capability_from_bounding_set(one).is_err() {
            break;
        }
    }
    rustix::thread::clear_ambient_capability_set().step(|| "clearing the ambient capabilities".to_owned())?;
    let sets = CapabilitySets { effective: KEPT, permitted: KEPT, inheritable: CapabilitySet::empty() };
    rustix::thread::set_capabilities(None, sets).step(|| format!("reducing the capabilities to {KEPT:?}"))?;
    rustix::thread::set_no_new_privs(true).step(|| "setting no_new_privs".to_owned())?;
    // Commands run as the same user as this process. Not being dumpable keeps them from tracing it and from reading its
    // memory, which holds the access token.
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable).step(|| "becoming not dumpable".to_owned())
}
