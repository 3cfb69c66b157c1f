//! The sandbox's root: its own folders, the host's programs read-only, and nothing else of the host.

use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use rustix::mount::{MountFlags, MountPropagationFlags, UnmountFlags};

use super::mounts::{make_read_only, restrict, show_read_only};
use super::{IsolationError, Step, etc, own, privileges};
use crate::lifeline::{Mount, Options, Setup};
use crate::limits::Kept;

/// Folders of the host shown read-only. Where the host has a link (`/bin` → `usr/bin`), so has the sandbox.
const SYSTEM: [&str; 8] = ["usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32", "opt"];

/// Folders of the sandbox's own, with their modes.
const OWN: [(&str, u32); 13] = [
    ("home", 0o755),
    ("home/user", 0o755),
    ("root", 0o700),
    ("tmp", 0o1777),
    ("var", 0o755),
    ("var/tmp", 0o1777),
    ("run", 0o755),
    ("run/e2b", 0o755),
    ("etc", 0o755),
    ("dev", 0o755),
    ("proc", 0o555),
    ("mnt", 0o755),
    ("srv", 0o755),
];

/// Devices without which nothing runs, and that reach nothing.
const DEVICES: [&str; 6] = ["null", "zero", "full", "random", "urandom", "tty"];

const LINKS: [(&str, &str); 6] = [
    ("/proc/self/fd", "fd"),
    ("/proc/self/fd/0", "stdin"),
    ("/proc/self/fd/1", "stdout"),
    ("/proc/self/fd/2", "stderr"),
    ("pts/ptmx", "ptmx"),
    ("null", "console"),
];

/// Parts of `/proc` that speak about the machine, or change it when the server's user is the machine's root.
const HIDDEN: [&str; 15] = [
    "acpi",
    "asound",
    "kcore",
    "keys",
    "kmsg",
    "kpagecgroup",
    "kpagecount",
    "kpageflags",
    "latency_stats",
    "pagetypeinfo",
    "sched_debug",
    "scsi",
    "slabinfo",
    "timer_list",
    "vmallocinfo",
];
const READ_ONLY: [&str; 5] = ["bus", "fs", "irq", "sys", "sysrq-trigger"];

/// Builds the root in `directory` and makes it this process's root. The folder is empty, or has what an earlier sandbox
/// left: its files stay, and nothing in it is followed, since what it left may be links to anywhere.
pub(super) fn enter(
    setup: &Setup,
    options: &Options,
    hostname: &str,
    host_network: bool,
) -> Result<(), IsolationError> {
    let directory = setup.directory.as_path();
    let at = |path: &str| directory.join(path);
    // Nothing done here may reach the host's mount table, nor the other way round.
    rustix::mount::mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)
        .step(|| "making the mounts private".to_owned())?;
    // `pivot_root` wants a mount point.
    rustix::mount::mount_bind(directory, directory).step(|| format!("binding {} to itself", directory.display()))?;
    restrict(directory, MountFlags::NOSUID | MountFlags::NODEV)?;

    for (name, mode) in OWN {
        let folder = at(name);
        let made = own::folder(&folder).and_then(|made| match made {
            true => fs::set_permissions(&folder, Permissions::from_mode(mode)),
            false => Ok(()),
        });
        made.step(|| format!("making {}", folder.display()))?;
    }
    let marker = at("run/e2b/.E2B_SANDBOX");
    own::file(&marker, b"true").step(|| format!("writing {}", marker.display()))?;
    for name in SYSTEM {
        show_system(name, &at(name))?;
    }
    for source in &options.shown {
        show_folder(source, directory)?;
    }
    etc::fill(&at("etc"), hostname)?;
    if host_network || setup.egress {
        etc::resolvers(&at("etc"))?;
    }
    for mount in &setup.mounts {
        volume(directory, mount)?;
    }
    devices(&at("dev"))?;
    proc(&at("proc"), options)?;
    pivot(directory)
}

fn show_system(name: &str, target: &Path) -> Result<(), IsolationError> {
    let source = Path::new("/").join(name);
    let Ok(metadata) = fs::symlink_metadata(&source) else { return Ok(()) };
    let what = || format!("making room for {} in the sandbox", source.display());
    if metadata.is_symlink() {
        let leads_to = fs::read_link(&source).step(what)?;
        return own::link(&leads_to, target).step(what);
    }
    own::folder(target).step(what)?;
    show_read_only(&source, target)
}

/// Shows a volume in the sandbox, to read and to write.
fn volume(directory: &Path, mount: &Mount) -> Result<(), IsolationError> {
    let target = own::folder_below(directory, &mount.target).step(|| format!("making room for {}", mount.target))?;
    rustix::mount::mount_bind(&mount.source, &target).step(|| format!("binding a volume to {}", mount.target))?;
    restrict(&target, MountFlags::NOSUID | MountFlags::NODEV)
}

/// Shows a folder that the server's owner named at its own place, unless that is a folder which is shown anyway.
fn show_folder(source: &Path, directory: &Path) -> Result<(), IsolationError> {
    let inside = source.strip_prefix("/").unwrap_or(source);
    if SYSTEM.iter().any(|name| inside.starts_with(name)) {
        return Ok(());
    }
    let target = inside.to_str().map_or_else(
        || Err(io::Error::new(io::ErrorKind::InvalidInput, "its name is not UTF-8")),
        |inside| own::folder_below(directory, inside),
    );
    let target = target.step(|| format!("making room for {} in the sandbox", source.display()))?;
    show_read_only(source, &target)
}

fn devices(dev: &Path) -> Result<(), IsolationError> {
    let limited = MountFlags::NOSUID | MountFlags::NOEXEC;
    mount("tmpfs", dev, limited, "mode=755,size=64k,nr_inodes=128")?;
    for name in DEVICES {
        let (source, target) = (Path::new("/dev").join(name), dev.join(name));
        File::create(&target).step(|| format!("making {}", target.display()))?;
        // Read-only is about the node, whose permissions the machine shares; the device is written to all the same.
        show_read_only(&source, &target)?;
    }
    for name in ["pts", "shm"] {
        fs::create_dir(dev.join(name)).step(|| format!("making {}", dev.join(name).display()))?;
    }
    mount("devpts", &dev.join("pts"), limited, "newinstance,ptmxmode=0666,mode=620")?;
    mount("tmpfs", &dev.join("shm"), limited | MountFlags::NODEV, "mode=1777,size=64m,nr_inodes=16k")?;
    for (leads_to, name) in LINKS {
        symlink(leads_to, dev.join(name)).step(|| format!("linking {}", dev.join(name).display()))?;
    }
    Ok(())
}

fn proc(proc: &Path, options: &Options) -> Result<(), IsolationError> {
    let limited = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    // Refused where parts of the host's own /proc are covered, as in most containers.
    mount("proc", proc, limited, "")?;
    privileges::forbid_user_namespaces(proc)?;
    if let (Kept::PidMax, Some(pids)) = (options.kept.pids, options.limits.pids) {
        privileges::bound_pids(proc, pids)?;
    }
    for name in HIDDEN {
        let path = proc.join(name);
        match fs::symlink_metadata(&path) {
            Ok(metadata) if metadata.is_dir() => {
                mount("tmpfs", &path, limited | MountFlags::RDONLY, "mode=555,size=4k")?;
            }
            Ok(_) => show_read_only(Path::new("/dev/null"), &path)?,
            Err(_) => {}
        }
    }
    for name in READ_ONLY {
        let path = proc.join(name);
        if path.exists() {
            rustix::mount::mount_bind_recursive(&path, &path)
                .step(|| format!("binding {} to itself", path.display()))?;
            make_read_only(&path, limited)?;
        }
    }
    Ok(())
}

fn mount(kind: &str, target: &Path, flags: MountFlags, options: &str) -> Result<(), IsolationError> {
    let options = std::ffi::CString::new(options).step(|| format!("options \"{options}\""))?;
    rustix::mount::mount(kind, target, kind, flags, Some(options.as_c_str()))
        .step(|| format!("mounting {kind} at {}", target.display()))
}

/// Swaps the roots and lets the host's go. With the same folder for both, the old root ends up on top of the new one, so
/// that no folder has to be made for it.
fn pivot(directory: &Path) -> Result<(), IsolationError> {
    rustix::process::chdir(directory).step(|| format!("entering {}", directory.display()))?;
    rustix::process::pivot_root(".", ".").step(|| format!("making {} the root", directory.display()))?;
    rustix::mount::unmount(".", UnmountFlags::DETACH).step(|| "letting go of the host's root".to_owned())?;
    rustix::process::chdir("/").step(|| "entering the new root".to_owned())
}
