//! How much of the machine one sandbox may use, and by what that is kept.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::cgroups::Groups;
use crate::confined::Isolation;

/// Processes and threads of one sandbox unless the server's owner says otherwise: a build that uses every processor stays
/// below, and a fork bomb is stopped before the machine notices.
pub(crate) const DEFAULT_PIDS: u32 = 1024;

/// What one sandbox may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Limits {
    /// Thousandths of a processor; `None` is all there are.
    pub(crate) cpu_millis: Option<u32>,
    /// Bytes of memory.
    pub(crate) memory: Option<u64>,
    /// Processes and threads, those of the sandbox's envd included.
    pub(crate) pids: Option<u32>,
}

impl Default for Limits {
    fn default() -> Self {
        Self { cpu_millis: None, memory: half_of_the_machine(), pids: Some(DEFAULT_PIDS) }
    }
}

impl Limits {
    /// Whole processors that the limit comes to; the machine's without one.
    pub(crate) fn cpu_count(&self) -> u32 {
        let machine =
            || std::thread::available_parallelism().map_or(1, |count| u32::try_from(count.get()).unwrap_or(u32::MAX));
        self.cpu_millis.map_or_else(machine, |millis| millis.div_ceil(1000))
    }
}

fn half_of_the_machine() -> Option<u64> {
    let memory = rustix::system::sysinfo();
    let total = memory.totalram.saturating_mul(u64::from(memory.mem_unit));
    (total > 0).then_some(total / 2)
}

/// By what a limit is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) enum Kept {
    /// By a control group: for all processes of the sandbox together, by the kernel.
    Group,
    /// Memory: each process by `RLIMIT_DATA`; all together by envd, which looks several times a second and kills the largest.
    Watched,
    /// Processes: by the greatest process number of the sandbox's pid namespace, which leaves room for 300 more.
    PidMax,
    /// Processes: by `RLIMIT_NPROC`, which counts within the sandbox's user namespace.
    Rlimit,
    /// By nothing: there is no limit, or no way to keep it.
    #[default]
    Nothing,
}

/// Limits with the ways they are kept on this machine, for all sandboxes of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Keeper {
    pub(crate) limits: Limits,
    pub(crate) groups: Arc<Groups>,
    pub(crate) inside: Inside,
}

/// What the helper keeps itself, from within.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct Inside {
    pub(crate) cpu: Kept,
    pub(crate) memory: Kept,
    pub(crate) pids: Kept,
}

impl Keeper {
    /// Looks for the best way to keep each limit. Blocks.
    pub(crate) fn find(limits: Limits, isolation: Isolation) -> Self {
        let groups = Groups::find(&limits);
        let group = |has: bool, otherwise: Kept| if has { Kept::Group } else { otherwise };
        let wanted = |wanted: bool, kept: Kept| if wanted { kept } else { Kept::Nothing };
        let inside = Inside {
            cpu: wanted(limits.cpu_millis.is_some(), group(groups.cpu.is_ok(), Kept::Nothing)),
            memory: wanted(limits.memory.is_some(), group(groups.memory.is_ok(), Kept::Watched)),
            pids: wanted(limits.pids.is_some(), group(groups.pids.is_ok(), pids_without_group(isolation))),
        };
        Self { limits, groups: Arc::new(groups), inside }
    }
}

fn pids_without_group(isolation: Isolation) -> Kept {
    let kernel = rustix::system::uname();
    let version = version(&kernel.release().to_string_lossy()).unwrap_or_default();
    match isolation {
        // Both count the user's other processes as well there.
        Isolation::None => Kept::Nothing,
        // Before 6.14 the file sets the whole machine's.
        Isolation::Namespaces if version >= (6, 14) => Kept::PidMax,
        // Counted by user namespace since 5.14, and never for the machine's root.
        Isolation::Namespaces if version >= (5, 14) && !rustix::process::getuid().is_root() => Kept::Rlimit,
        Isolation::Namespaces => Kept::Nothing,
    }
}

/// The first two numbers of a kernel's release.
fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse::<u32>);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_says_its_version() {
        assert_eq!(version("6.18.44-abc"), Some((6, 18)));
        assert_eq!(version("5.4"), Some((5, 4)));
        assert_eq!(version("next"), None);
    }

    #[test]
    fn parts_of_a_processor_count_as_one() {
        let limits = Limits { cpu_millis: Some(1500), ..Limits::default() };
        assert_eq!(limits.cpu_count(), 2);
        assert!(Limits::default().cpu_count() >= 1 && Limits::default().memory.unwrap() > 0);
    }
}
