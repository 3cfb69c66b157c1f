//! A sandbox's log and metrics, once or as they come.

use std::collections::BTreeSet;
use std::time::Duration;

use clap::Args;
use futures_util::StreamExt;
use jiff::Timestamp;
use oncebox::{LogLevel, Sandbox, SandboxLogEntry, SandboxMetric};
use serde_json::json;

use super::PlainArgs;
use crate::args::sandbox_id;
use crate::exit::{self, Failure};
use crate::signals::Signals;
use crate::style::Colour;

/// How often what is followed is asked for.
const EVERY: Duration = Duration::from_secs(1);

/// How often the metrics are: servers measure every few seconds.
const METRICS_EVERY: Duration = Duration::from_secs(5);

#[derive(Debug, Args)]
pub(super) struct LogsArgs {
    /// The sandbox's id
    #[arg(value_name = "SANDBOX", value_parser = sandbox_id)]
    sandbox: String,
    /// Go on with what is added, until the sandbox ends or Ctrl-C
    #[arg(long, short)]
    follow: bool,
    /// Only entries of this level and above
    #[arg(long, value_name = "LEVEL", default_value = "debug", value_parser = level)]
    level: u8,
    #[command(flatten)]
    plain: PlainArgs,
}

#[derive(Debug, Args)]
pub(super) struct MetricsArgs {
    /// The sandbox's id
    #[arg(value_name = "SANDBOX", value_parser = sandbox_id)]
    sandbox: String,
    /// Go on with what is measured, until the sandbox ends or Ctrl-C
    #[arg(long, short)]
    follow: bool,
    #[command(flatten)]
    plain: PlainArgs,
}

pub(super) async fn logs(args: LogsArgs) -> Result<u8, Failure> {
    let sandbox = Sandbox::by_id(&args.plain.client()?, &args.sandbox).map_err(args.plain.failed())?;
    if !args.follow {
        let entries = sandbox.logs(None).await.map_err(args.plain.failed())?;
        entries.iter().try_for_each(|entry| print_entry(entry, &args))?;
        return Ok(0);
    }
    let mut signals = Signals::new()?;
    let mut entries = std::pin::pin!(sandbox.follow_logs(None, EVERY));
    loop {
        let entry = tokio::select! {
            entry = entries.next() => entry,
            // It is how one stops to follow.
            _ = signals.next() => return Ok(0),
        };
        match entry {
            Some(entry) => print_entry(&entry.map_err(args.plain.failed())?, &args)?,
            None => return Ok(0),
        }
    }
}

fn print_entry(entry: &SandboxLogEntry, args: &LogsArgs) -> Result<(), Failure> {
    if rank(&entry.level) < args.level {
        return Ok(());
    }
    if args.plain.json {
        return exit::print(json!(entry));
    }
    let level = format!("{:?}", entry.level).to_lowercase();
    let level = if rank(&entry.level) >= 2 { Colour::Warning.paint(level) } else { Colour::Faint.paint(level) };
    exit::print(format!("{} {level:<5} {}", entry.timestamp.strftime("%FT%T%.3fZ"), entry.message))
}

pub(super) async fn metrics(args: MetricsArgs) -> Result<u8, Failure> {
    let sandbox = Sandbox::by_id(&args.plain.client()?, &args.sandbox).map_err(args.plain.failed())?;
    let mut signals = Signals::new()?;
    let (mut from, mut shown) = (None, BTreeSet::new());
    loop {
        let measured = match sandbox.metrics(from, None).await {
            Err(error) if args.follow && !shown.is_empty() && error.is_not_found() => return Ok(0),
            measured => measured.map_err(args.plain.failed())?,
        };
        for metric in measured.iter().filter(|metric| shown.insert(metric.timestamp_unix)) {
            print_metric(metric, args.plain.json)?;
        }
        // From the last second on, which is asked for again and not shown again.
        if let Some(last) = shown.pop_last() {
            shown = BTreeSet::from([last]);
            from = Timestamp::from_second(last).ok();
        }
        if !args.follow {
            return Ok(0);
        }
        tokio::select! {
            () = tokio::time::sleep(METRICS_EVERY) => {}
            _ = signals.next() => return Ok(0),
        }
    }
}

fn print_metric(metric: &SandboxMetric, as_json: bool) -> Result<(), Failure> {
    if as_json {
        return exit::print(json!({
            "timestamp": metric.timestamp_unix,
            "cpu_count": metric.cpu_count,
            "cpu_used_pct": metric.cpu_used_pct,
            "mem_used": metric.mem_used,
            "mem_total": metric.mem_total,
            "mem_cache": metric.mem_cache,
            "disk_used": metric.disk_used,
            "disk_total": metric.disk_total,
        }));
    }
    let at = Timestamp::from_second(metric.timestamp_unix).unwrap_or_default();
    let mib = |bytes: i64| bytes / (1 << 20);
    exit::print(format!(
        "{} cpu {:>5.1} % of {}  memory {} / {} MiB  disk {} / {} MiB",
        at.strftime("%FT%TZ"),
        metric.cpu_used_pct,
        metric.cpu_count,
        mib(metric.mem_used),
        mib(metric.mem_total),
        mib(metric.disk_used),
        mib(metric.disk_total),
    ))
}

fn rank(level: &LogLevel) -> u8 {
    match level {
        LogLevel::Debug => 0,
        LogLevel::Info => 1,
        LogLevel::Warn => 2,
        LogLevel::Error => 3,
        // Whatever it is, it is shown.
        _ => u8::MAX,
    }
}

fn level(text: &str) -> Result<u8, String> {
    let levels = ["debug", "info", "warn", "error"];
    let found = levels.iter().position(|level| *level == text).and_then(|rank| u8::try_from(rank).ok());
    found.ok_or_else(|| format!("it must be one of {}", levels.join(", ")))
}
