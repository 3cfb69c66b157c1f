//! What sandboxes use of the machine, measured from outside.

use std::sync::{Arc, Weak};
use std::time::Duration;

use jiff::Timestamp;
use oncebox_protocol::api::SandboxMetric;

use super::{Registry, Sandbox};
use crate::freeze::{self, Process};

/// How often running sandboxes are measured.
const EVERY: Duration = Duration::from_secs(5);
/// Ticks of the kernel's clock in a second, as user programs see it on every Linux.
const TICKS_PER_SECOND: f64 = 100.0;

/// Measures until the registry is gone.
pub(crate) async fn measure(registry: Weak<Registry>) {
    let mut last: std::collections::HashMap<String, (std::time::Instant, u64)> = std::collections::HashMap::new();
    loop {
        tokio::time::sleep(EVERY).await;
        let Some(registry) = registry.upgrade() else { return };
        let running: Vec<Arc<Sandbox>> = registry.all().into_iter().filter(|sandbox| sandbox.is_running()).collect();
        last.retain(|id, _| running.iter().any(|sandbox| sandbox.id == *id));
        if running.is_empty() {
            continue;
        }
        let Ok(Ok(table)) = tokio::task::spawn_blocking(freeze::table).await else { continue };
        for sandbox in running {
            let Some(own) = own(&sandbox, &table) else { continue };
            let now = std::time::Instant::now();
            let before = last.insert(sandbox.id.clone(), (now, own.ticks));
            let percent = before.map_or(0.0, |(then, ticks)| {
                let seconds = now.duration_since(then).as_secs_f64().max(0.001);
                #[expect(clippy::cast_precision_loss, reason = "a percentage")]
                let used = own.ticks.saturating_sub(ticks) as f64 / TICKS_PER_SECOND;
                used / seconds * 100.0
            });
            sandbox.measure(registry.metric(&own, percent));
        }
    }
}

/// What a sandbox's processes use.
#[derive(Debug, Clone, Copy, Default)]
struct Own {
    ticks: u64,
    bytes: u64,
}

fn own(sandbox: &Sandbox, table: &[Process]) -> Option<Own> {
    let helper = sandbox.processes()?.helper_pid()?;
    let page = u64::try_from(rustix::param::page_size()).unwrap_or(4096);
    let sum = |own: Own, process: Process| Own {
        ticks: own.ticks.saturating_add(process.ticks),
        bytes: own.bytes.saturating_add(process.pages.saturating_mul(page)),
    };
    Some(freeze::below(helper, table).into_iter().fold(Own::default(), sum))
}

impl Registry {
    /// The measurements of a sandbox, with one made now if there is none yet.
    pub(crate) async fn metrics(&self, sandbox: &Arc<Sandbox>) -> Vec<SandboxMetric> {
        let metrics = sandbox.metrics();
        if !metrics.is_empty() || !sandbox.is_running() {
            return metrics;
        }
        let Ok(Ok(table)) = tokio::task::spawn_blocking(freeze::table).await else { return metrics };
        own(sandbox, &table).map(|own| self.metric(&own, 0.0)).into_iter().collect()
    }

    /// Processor and memory are the sandbox's own, and so are the totals where it has limits; the disk is the machine's.
    fn metric(&self, own: &Own, percent: f64) -> SandboxMetric {
        let now = Timestamp::now();
        let whole = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        let memory = rustix::system::sysinfo();
        let machine = memory.totalram.saturating_mul(u64::from(memory.mem_unit));
        let disk = rustix::fs::statvfs(self.state.sandbox("")).ok();
        let disk = disk.map_or((0, 0), |disk| {
            let total = disk.f_blocks.saturating_mul(disk.f_frsize);
            (whole(total), whole(total.saturating_sub(disk.f_bfree.saturating_mul(disk.f_frsize))))
        });
        SandboxMetric {
            timestamp: Some(now),
            timestamp_unix: now.as_second(),
            cpu_count: i32::try_from(self.limits().cpu_count()).unwrap_or(i32::MAX),
            cpu_used_pct: percent,
            mem_used: whole(own.bytes),
            mem_total: whole(self.limits().memory.unwrap_or(machine)),
            mem_cache: 0,
            disk_used: disk.1,
            disk_total: disk.0,
        }
    }
}
