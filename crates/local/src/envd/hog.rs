//! Keeps a sandbox below its limit of memory where no control group does.

use std::time::Duration;

use rustix::process::{Pid, Resource, Rlimit, Signal};

use super::usage::processes;
use crate::lifeline::Options;
use crate::limits::{Kept, Limits};

/// How often the processes are looked at, with little and with much memory in use.
const SELDOM: Duration = Duration::from_millis(500);
const OFTEN: Duration = Duration::from_millis(50);
/// Looks in a row that may show nothing. The sandbox's programs run as the same user as envd and may take its descriptors
/// from it (`prlimit`), with which it would look.
const MOST_BLIND: u32 = 10;

/// Sets those limits that envd keeps itself; what is started later inherits them. Returns the memory that is to be watched.
pub(super) fn keep(options: &Options) -> std::io::Result<Option<u64>> {
    let Limits { memory, pids, .. } = options.limits;
    let set = |resource, limit: u64| {
        rustix::process::setrlimit(resource, Rlimit { current: Some(limit), maximum: Some(limit) })
    };
    if let (Kept::Rlimit, Some(pids)) = (options.kept.pids, pids) {
        set(Resource::Nproc, pids.into())?;
    }
    let watched = memory.filter(|_| options.kept.memory == Kept::Watched);
    if let Some(limit) = watched {
        set(Resource::Data, limit)?;
    }
    Ok(watched)
}

/// Watches over all processes together, for as long as this process lives. Pages that processes share count for each of
/// them, so the limit is reached early rather than late.
///
/// It is no thread of its own, and asks none: a sandbox without room for another thread is watched as well.
pub(super) async fn watch(limit: u64, all: bool) {
    let mut blind = 0;
    loop {
        let used = look(limit, all);
        blind = if used.is_some() { 0 } else { blind + 1 };
        if blind > MOST_BLIND && all {
            // Without a descriptor: from process 1 of a pid namespace, all but itself.
            let _ = nix::sys::signal::kill(nix::unistd::Pid::from_raw(-1), nix::sys::signal::Signal::SIGKILL);
        }
        tokio::time::sleep(if used.is_some_and(|used| used <= limit / 4) { SELDOM } else { OFTEN }).await;
    }
}

/// Kills the largest process if all together use more than `limit` bytes; returns what they use, if that can be seen.
fn look(limit: u64, all: bool) -> Option<u64> {
    let page = u64::try_from(rustix::param::page_size()).unwrap_or(4096);
    let own = rustix::process::getpid().as_raw_pid();
    let seen = processes(all);
    if all && !seen.contains_key(&own) {
        return None;
    }
    let pages: Vec<(i32, u64)> =
        seen.into_iter().map(|(pid, process)| (pid, u64::try_from(process.pages).unwrap_or_default())).collect();
    let used = pages.iter().fold(0_u64, |sum, (_, pages)| sum.saturating_add(*pages)).saturating_mul(page);
    if used > limit {
        let largest = pages.iter().filter(|(pid, _)| *pid != own).max_by_key(|(_, pages)| *pages);
        if let Some(pid) = largest.and_then(|(pid, _)| Pid::from_raw(*pid)) {
            // It may have ended by itself, which is as well.
            let _ = rustix::process::kill_process(pid, Signal::KILL);
        }
    }
    Some(used)
}
