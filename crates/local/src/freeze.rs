//! Stops the processes of a sandbox where they are, and lets them go on.
//!
//! Its envd is left out: it watches the lifeline, so that a sandbox that is stopped still ends with its server. Processes
//! are found as descendants of the helper that the server started, and each is signalled by a descriptor that stands for
//! it and no other.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::confined::Isolation;

/// Passes over the process table. Each finds only what was started before the last pass stopped its parent.
const MAX_PASSES: usize = 200;

/// Stops all processes of the sandbox behind this helper. Blocks.
///
/// # Errors
/// A process could not be stopped; none is then.
pub(crate) fn freeze(helper: u32, isolation: Isolation) -> io::Result<()> {
    let mut stopped = HashSet::new();
    for _ in 0..MAX_PASSES {
        let mut new = false;
        for process in descendants(helper, isolation)? {
            if stopped.insert(process) {
                new = true;
                if let Err(error) = signal(process, Signal::STOP) {
                    thaw(helper, isolation)?;
                    return Err(error);
                }
            }
        }
        if !new {
            return Ok(());
        }
    }
    thaw(helper, isolation)?;
    Err(io::Error::other("its processes start new ones faster than they can be stopped"))
}

/// Lets all processes of the sandbox behind this helper go on. Blocks.
pub(crate) fn thaw(helper: u32, isolation: Isolation) -> io::Result<()> {
    for process in descendants(helper, isolation)? {
        signal(process, Signal::CONT)?;
    }
    Ok(())
}

/// A process, told apart from a later one with its number by when it was started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Process {
    pub(crate) pid: i32,
    pub(crate) started: u64,
    pub(crate) parent: i32,
    /// Processor time used, in ticks of the clock, of it and of children it has waited for.
    pub(crate) ticks: u64,
    /// Resident memory, in pages.
    pub(crate) pages: u64,
}

/// The whole process table, in no order.
pub(crate) fn table() -> io::Result<Vec<Process>> {
    let pids = fs::read_dir("/proc")?.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok());
    Ok(pids.filter_map(look_at).collect())
}

/// Those of the table that descend from this one.
pub(crate) fn below(helper: u32, table: &[Process]) -> Vec<Process> {
    let mut children: HashMap<i32, Vec<Process>> = HashMap::new();
    for process in table {
        children.entry(process.parent).or_default().push(*process);
    }
    let mut found = Vec::new();
    let mut next = vec![i32::try_from(helper).unwrap_or_default()];
    while let Some(parent) = next.pop() {
        for process in children.remove(&parent).unwrap_or_default() {
            next.push(process.pid);
            found.push(process);
        }
    }
    found
}

/// The sandbox's own processes, without its envd.
fn descendants(helper: u32, isolation: Isolation) -> io::Result<Vec<Process>> {
    let mut found = below(helper, &table()?);
    if isolation == Isolation::Namespaces {
        // The helper's only child is process 1 of the sandbox: envd.
        found.retain(|process| u32::try_from(process.parent) != Ok(helper));
    }
    // What it has used changes from look to look, and says nothing about which process it is.
    Ok(found.into_iter().map(|process| Process { ticks: 0, pages: 0, parent: 0, ..process }).collect())
}

fn look_at(pid: i32) -> Option<Process> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name, in brackets, may contain anything.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_ascii_whitespace().collect();
    let number = |field: usize| fields.get(field)?.parse::<u64>().ok();
    // Of proc(5), counted from the state, which is field 3.
    if fields.first() == Some(&"Z") {
        return None;
    }
    Some(Process {
        pid,
        parent: fields.get(1)?.parse().ok()?,
        ticks: number(11)? + number(12)? + number(13)? + number(14)?,
        started: number(19)?,
        pages: number(21)?,
    })
}

fn signal(process: Process, signal: Signal) -> io::Result<()> {
    let Some(pid) = Pid::from_raw(process.pid) else { return Ok(()) };
    let descriptor = match pidfd_open(pid, PidfdFlags::empty()) {
        Err(rustix::io::Errno::SRCH) => return Ok(()),
        other => other?,
    };
    // The descriptor stands for whoever has the number now.
    if look_at(process.pid).is_none_or(|now| now.started != process.started) {
        return Ok(());
    }
    match pidfd_send_signal(&descriptor, signal) {
        Err(rustix::io::Errno::SRCH) => Ok(()),
        other => Ok(other?),
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    fn state(pid: u32) -> char {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        stat.rsplit_once(") ").unwrap().1.chars().next().unwrap()
    }

    #[test]
    fn descendants_stop_and_go_on_and_the_helper_is_left_alone() {
        let mut helper =
            Command::new("sh").args(["-c", "sleep 60 & sleep 60; true"]).stdin(Stdio::null()).spawn().unwrap();
        let children = loop {
            let found = below(helper.id(), &table().unwrap());
            if found.len() == 2 {
                break found;
            }
            std::thread::yield_now();
        };
        let all = |wanted: char| loop {
            // Being stopped is a state the kernel reaches a moment after the signal.
            let states: Vec<char> = children.iter().map(|child| state(u32::try_from(child.pid).unwrap())).collect();
            if states.iter().all(|state| (*state == 'T') == (wanted == 'T')) {
                break;
            }
            std::thread::yield_now();
        };
        freeze(helper.id(), Isolation::None).unwrap();
        all('T');
        assert_ne!(state(helper.id()), 'T');
        thaw(helper.id(), Isolation::None).unwrap();
        all('S');
        for child in children {
            signal(child, Signal::KILL).unwrap();
        }
        helper.wait().unwrap();
    }
}
