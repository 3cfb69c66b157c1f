//! Without a pid namespace nobody ends the sandbox's processes for us.

use std::collections::HashMap;
use std::fs;
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitOptions, getpid, kill_process};

/// Rounds of killing. Each ends every process that existed at its start, so only a program that forks faster than that
/// survives one.
const ROUNDS: u32 = 200;
const PAUSE: Duration = Duration::from_millis(5);

/// Kills all descendants of this process, which must be a child subreaper, and reaps them.
pub(super) fn kill_all() {
    for _ in 0..ROUNDS {
        for pid in own_descendants() {
            if let Some(pid) = Pid::from_raw(pid) {
                // Gone already is as good.
                let _ = kill_process(pid, Signal::KILL);
            }
        }
        loop {
            match rustix::process::wait(WaitOptions::NOHANG) {
                Ok(Some(_)) => {}
                Ok(None) => break,
                // No children are left, and orphans would have become ours.
                Err(_) => return,
            }
        }
        std::thread::sleep(PAUSE);
    }
}

/// All processes that come from this one. Asks the kernel for each one's children, where it tells them: to look at every
/// process of the machine costs as much again for each sandbox.
pub(super) fn own_descendants() -> Vec<i32> {
    let own = getpid().as_raw_nonzero().get();
    let mut found = vec![own];
    let mut next = 0;
    while let Some(&pid) = found.get(next) {
        match children(pid) {
            Some(children) => found.extend(children),
            // A kernel without such lists.
            None if next == 0 => return descendants(&parents(), own),
            // It has ended.
            None => {}
        }
        next += 1;
    }
    found.split_off(1)
}

/// The children of all threads of a process; `None` where that cannot be told.
fn children(pid: i32) -> Option<Vec<i32>> {
    let mut children = Vec::new();
    for thread in fs::read_dir(format!("/proc/{pid}/task")).ok()? {
        let listed = fs::read_to_string(thread.ok()?.path().join("children")).ok()?;
        children.extend(listed.split_ascii_whitespace().filter_map(|pid| pid.parse::<i32>().ok()));
    }
    Some(children)
}

/// Each process with its parent.
fn parents() -> HashMap<i32, i32> {
    let Ok(entries) = fs::read_dir("/proc") else { return HashMap::new() };
    let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok());
    pids.filter_map(|pid| Some((pid, parent(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)?))).collect()
}

/// From `pid (name) state parent …`, where the name may hold anything.
fn parent(stat: &str) -> Option<i32> {
    stat.rsplit_once(')')?.1.split_ascii_whitespace().nth(1)?.parse().ok()
}

fn descendants(parents: &HashMap<i32, i32>, root: i32) -> Vec<i32> {
    let mut found = vec![root];
    let mut next = 0;
    while let Some(&pid) = found.get(next) {
        found.extend(parents.iter().filter(|(_, parent)| **parent == pid).map(|(child, _)| *child));
        next += 1;
    }
    found.split_off(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_parentheses_does_not_confuse() {
        assert_eq!(parent("12 (a) b) (c) S 7 12 12 0"), Some(7));
        assert_eq!(parent("12"), None);
    }

    #[test]
    fn grandchildren_are_descendants() {
        let parents = HashMap::from([(2, 1), (3, 2), (4, 3), (9, 8)]);
        assert_eq!(descendants(&parents, 1), [2, 3, 4]);
    }

    #[test]
    fn own_children_and_theirs_are_found() {
        use std::io::Read;
        let mut shell = std::process::Command::new("/bin/sh")
            .args(["-c", "sleep 60 & echo $!; wait"])
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut grandchild = [0; 16];
        let read = shell.stdout.take().unwrap().read(&mut grandchild).unwrap();
        let grandchild: i32 = str::from_utf8(&grandchild[..read]).unwrap().trim().parse().unwrap();
        let found = own_descendants();
        assert!(found.contains(&shell.id().try_into().unwrap()) && found.contains(&grandchild), "{found:?}");
        assert!(!found.contains(&getpid().as_raw_nonzero().get()) && !found.contains(&1));
        kill_process(Pid::from_raw(grandchild).unwrap(), Signal::KILL).unwrap();
        shell.wait().unwrap();
    }
}
