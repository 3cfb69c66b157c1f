//! From the SDK's values to Python's.

use jiff::Timestamp;
use oncebox::{Entry, EntryKind, FileEvent, FileEventKind, ProcessInfo, SandboxInfo, SandboxMetric, Snapshot};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use serde::Serialize;

/// Microseconds since 1970: Python's `datetime` has no finer ones.
pub(crate) fn moment(at: Timestamp) -> i64 {
    at.as_microsecond()
}

/// A list of what `convert` makes of each.
pub(crate) fn list<'py, T>(
    py: Python<'py>,
    items: impl IntoIterator<Item = T>,
    convert: impl Fn(Python<'py>, T) -> PyResult<Bound<'py, PyDict>>,
) -> PyResult<Py<PyAny>> {
    let list = PyList::empty(py);
    for item in items {
        list.append(convert(py, item)?)?;
    }
    Ok(list.into_any().unbind())
}

/// A bool.
pub(crate) fn flag(py: Python<'_>, is: bool) -> PyResult<Py<PyAny>> {
    Ok(is.into_pyobject(py)?.to_owned().into_any().unbind())
}

/// What the protocol has as JSON, in its own words; Python reads it.
fn json(value: Option<&impl Serialize>) -> Option<String> {
    serde_json::to_string(value?).ok()
}

pub(crate) fn sandbox_info(py: Python<'_>, info: SandboxInfo) -> PyResult<Bound<'_, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("sandbox_id", info.id)?;
    dict.set_item("sandbox_domain", info.domain)?;
    dict.set_item("template_id", info.template)?;
    dict.set_item("name", info.alias)?;
    dict.set_item("metadata", info.metadata)?;
    dict.set_item("started_at", moment(info.started_at))?;
    dict.set_item("end_at", moment(info.end_at))?;
    dict.set_item("state", info.state.to_string())?;
    dict.set_item("cpu_count", info.cpu_count)?;
    dict.set_item("memory_mb", info.memory_mb)?;
    dict.set_item("envd_version", info.envd_version)?;
    dict.set_item("allow_internet_access", info.allow_internet_access)?;
    dict.set_item("network", json(info.network.as_ref()))?;
    dict.set_item("lifecycle", json(info.lifecycle.as_ref()))?;
    let mounts = PyList::empty(py);
    for mount in info.volume_mounts {
        let one = PyDict::new(py);
        one.set_item("name", mount.name)?;
        one.set_item("path", mount.path)?;
        mounts.append(one)?;
    }
    dict.set_item("volume_mounts", mounts)?;
    dict.set_item("envd_unresponsive_at_pause", info.envd_unresponsive_at_pause)?;
    Ok(dict)
}

pub(crate) fn snapshot(py: Python<'_>, snapshot: Snapshot) -> PyResult<Bound<'_, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("snapshot_id", snapshot.id)?;
    dict.set_item("names", snapshot.names)?;
    Ok(dict)
}

pub(crate) fn metric(py: Python<'_>, metric: SandboxMetric) -> PyResult<Bound<'_, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("cpu_count", metric.cpu_count)?;
    dict.set_item("cpu_used_pct", metric.cpu_used_pct)?;
    dict.set_item("disk_total", metric.disk_total)?;
    dict.set_item("disk_used", metric.disk_used)?;
    dict.set_item("mem_total", metric.mem_total)?;
    dict.set_item("mem_used", metric.mem_used)?;
    dict.set_item("mem_cache", metric.mem_cache)?;
    let at = metric.timestamp.map_or_else(|| metric.timestamp_unix.saturating_mul(1_000_000), moment);
    dict.set_item("timestamp", at)?;
    Ok(dict)
}

pub(crate) fn process(py: Python<'_>, process: ProcessInfo) -> PyResult<Bound<'_, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("pid", process.pid)?;
    dict.set_item("tag", process.tag)?;
    dict.set_item("cmd", process.program)?;
    dict.set_item("args", process.args)?;
    dict.set_item("envs", process.envs)?;
    dict.set_item("cwd", process.cwd)?;
    Ok(dict)
}

pub(crate) fn entry(py: Python<'_>, entry: Entry) -> PyResult<Bound<'_, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("name", entry.name)?;
    let kind = match entry.kind {
        EntryKind::File => Some("file"),
        EntryKind::Directory => Some("dir"),
        EntryKind::Symlink => Some("symlink"),
        _ => None,
    };
    dict.set_item("type", kind)?;
    dict.set_item("path", entry.path)?;
    dict.set_item("metadata", (!entry.metadata.is_empty()).then_some(entry.metadata))?;
    dict.set_item("size", entry.size)?;
    dict.set_item("mode", entry.mode)?;
    dict.set_item("permissions", permissions(kind, entry.mode))?;
    dict.set_item("owner", entry.owner)?;
    dict.set_item("group", entry.group)?;
    dict.set_item("modified_time", entry.modified.map(moment).unwrap_or_default())?;
    dict.set_item("symlink_target", entry.symlink_target)?;
    Ok(dict)
}

/// As `ls -l` shows them.
fn permissions(kind: Option<&str>, mode: u32) -> String {
    let first = match kind {
        Some("dir") => 'd',
        Some("symlink") => 'l',
        _ => '-',
    };
    let bit = |(shift, letter): (u32, char)| if mode >> shift & 1 == 1 { letter } else { '-' };
    std::iter::once(first).chain((0..9).rev().zip("rwxrwxrwx".chars()).map(bit)).collect()
}

pub(crate) fn event(py: Python<'_>, event: FileEvent) -> PyResult<Bound<'_, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("name", event.name)?;
    let kind = match event.kind {
        FileEventKind::Create => "create",
        FileEventKind::Write => "write",
        FileEventKind::Remove => "remove",
        FileEventKind::Rename => "rename",
        FileEventKind::Chmod => "chmod",
        _ => "other",
    };
    dict.set_item("type", kind)?;
    dict.set_item("entry", event.entry.map(|changed| entry(py, changed)).transpose()?)?;
    Ok(dict)
}
