//! What a process has used.

use std::time::Duration;

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;

use crate::Failed;

/// The processor time of this process, its own and the system's for it.
pub(crate) fn cpu() -> Result<Duration, Failed> {
    let usage = getrusage(UsageWho::RUSAGE_SELF)?;
    Ok(duration(usage.user_time()) + duration(usage.system_time()))
}

/// The most memory that this process held, in bytes.
pub(crate) fn peak_memory() -> Result<u64, Failed> {
    let peak = getrusage(UsageWho::RUSAGE_SELF)?.max_rss() as u64;
    // Kilobytes, but for one family of systems.
    Ok(if cfg!(target_vendor = "apple") { peak } else { peak << 10 })
}

fn duration(time: TimeVal) -> Duration {
    Duration::from_micros(time.tv_sec() as u64 * 1_000_000 + time.tv_usec() as u64)
}
