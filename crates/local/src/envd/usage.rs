//! `/metrics`: what the sandbox uses now, from what `/proc` tells of its processes.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use oncebox_protocol::envd_rest::Metrics;
use parking_lot::Mutex;

/// The least time over which the use of processors is taken; a shorter one says what the one before it did.
const LEAST_SPAN: Duration = Duration::from_millis(200);
const MIB: i64 = 1 << 20;

/// Measures a sandbox.
pub(super) struct Usage {
    home: PathBuf,
    /// With isolation, all processes there are belong to the sandbox.
    all: bool,
    cpus: u32,
    memory: Option<u64>,
    last: Mutex<Sample>,
}

/// Ticks of processors by process, at one moment, and the use since the moment before.
struct Sample {
    at: Instant,
    ticks: HashMap<i32, u64>,
    percent: f64,
}

impl Usage {
    /// `cpus` and `memory`, in bytes, are the sandbox's limits, where it has any; else the machine's size is told.
    pub(super) fn new(home: PathBuf, all: bool, cpus: Option<u32>, memory: Option<u64>) -> Self {
        let machine =
            || std::thread::available_parallelism().map_or(1, |count| u32::try_from(count.get()).unwrap_or(1));
        let last = Sample { at: Instant::now(), ticks: HashMap::new(), percent: 0.0 };
        Self { home, all, cpus: cpus.unwrap_or_else(machine), memory, last: Mutex::new(last) }
    }

    /// Measures, in blocking code.
    pub(super) fn measure(&self) -> Metrics {
        let processes = processes(self.all);
        let page = i64::try_from(rustix::param::page_size()).unwrap_or(4096);
        let used = processes.values().map(|process| process.pages).sum::<i64>().saturating_mul(page);
        let memory = self.memory.and_then(|bytes| i64::try_from(bytes).ok());
        let total = memory.unwrap_or_else(machine_memory);
        let disk = rustix::fs::statvfs(&self.home).ok();
        let bytes = |blocks: u64, size: u64| i64::try_from(blocks.saturating_mul(size)).unwrap_or(i64::MAX);
        Metrics {
            ts: SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .map_or(0, |since| i64::try_from(since.as_secs()).unwrap_or(i64::MAX)),
            cpu_count: i32::try_from(self.cpus).unwrap_or(i32::MAX),
            cpu_used_pct: self.percent(processes.into_iter().map(|(pid, process)| (pid, process.ticks)).collect()),
            mem_total: total,
            mem_used: used,
            mem_cache: Some(0),
            mem_total_mib: Some(total / MIB),
            mem_used_mib: Some(used / MIB),
            disk_used: disk.as_ref().map(|disk| bytes(disk.f_blocks.saturating_sub(disk.f_bfree), disk.f_frsize)),
            disk_total: disk.as_ref().map(|disk| bytes(disk.f_blocks, disk.f_frsize)),
        }
    }

    /// The use of processors since the last time, in percent of one; what ended meanwhile does not count.
    fn percent(&self, ticks: HashMap<i32, u64>) -> f64 {
        let mut last = self.last.lock();
        let span = last.at.elapsed();
        if span < LEAST_SPAN {
            return last.percent;
        }
        let spent: u64 =
            ticks.iter().map(|(pid, now)| now.saturating_sub(last.ticks.get(pid).copied().unwrap_or_default())).sum();
        let per_second = rustix::param::clock_ticks_per_second();
        #[allow(clippy::cast_precision_loss, reason = "counts of hundredths of a second")]
        let seconds = spent as f64 / per_second as f64;
        let percent = (seconds / span.as_secs_f64() * 100.0).clamp(0.0, f64::from(self.cpus) * 100.0);
        *last = Sample { at: Instant::now(), ticks, percent };
        percent
    }
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Process {
    ticks: u64,
    pub(super) pages: i64,
}

/// The sandbox's processes: all there are to see, or those that come from this one.
pub(super) fn processes(all_there_are: bool) -> HashMap<i32, Process> {
    let pids = if all_there_are {
        let entries = fs::read_dir("/proc").into_iter().flatten();
        entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect()
    } else {
        super::descendants::own_descendants()
    };
    let look = |pid: i32| Some((pid, process(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)?));
    pids.into_iter().filter_map(look).collect()
}

/// A line of `/proc/PID/stat`; its fields are counted from behind the name, which may contain anything.
fn process(stat: &str) -> Option<Process> {
    let fields: Vec<&str> = stat.get(stat.rfind(')')? + 1..)?.split_ascii_whitespace().collect();
    let number = |field: usize| fields.get(field)?.parse::<u64>().ok();
    Some(Process { ticks: number(11)?.saturating_add(number(12)?), pages: fields.get(21)?.parse().ok()? })
}

fn machine_memory() -> i64 {
    let read = |path: &Path| fs::read_to_string(path).ok();
    let kilobytes = read(Path::new("/proc/meminfo")).and_then(|text| {
        let line =
            text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?.trim().trim_end_matches(" kB").to_owned();
        line.parse::<i64>().ok()
    });
    kilobytes.unwrap_or_default().saturating_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_stat_gives_time_and_memory() {
        let line = "12 (a) b) S 7 12 12 0 -1 4194560 1 2 3 4 50 60 7 8 20 0 1 0 99 1000000 321 18446744073709551615 1";
        assert_eq!(process(line), Some(Process { ticks: 110, pages: 321 }));
        assert_eq!(process("12 (a"), None);
    }

    #[test]
    fn this_test_uses_memory() {
        let metrics = Usage::new("/".into(), true, None, None).measure();
        assert!(metrics.mem_used > 0 && metrics.mem_total >= MIB && metrics.disk_total.unwrap() > 0, "{metrics:?}");
        assert_eq!(Usage::new("/".into(), true, Some(3), Some(1 << 30)).measure().mem_total_mib, Some(1024));
    }
}
