//! The processes that requests can name.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use connectrpc::ConnectError;
use oncebox_protocol::envd::process::__buffa::oneof::process_selector::Selector;
use oncebox_protocol::envd::process::ProcessSelector;
use parking_lot::Mutex;

use super::running::Running;

/// How long the end of a process can still be asked for.
const KEPT_AFTER_END: Duration = Duration::from_secs(30);

/// Processes by pid.
#[derive(Debug, Default)]
pub(super) struct Table {
    processes: Mutex<HashMap<u32, Arc<Running>>>,
}

impl Table {
    /// Adds a process, and forgets it some time after its end.
    pub(super) fn add(self: &Arc<Self>, running: &Arc<Running>) {
        self.processes.lock().insert(running.pid(), Arc::clone(running));
        let (table, running) = (Arc::clone(self), Arc::clone(running));
        tokio::spawn(async move {
            let mut end = running.end();
            // An error is an end too.
            let _ = end.wait_for(Option::is_some).await;
            tokio::time::sleep(KEPT_AFTER_END).await;
            let mut processes = table.processes.lock();
            // Another process may have the pid by now.
            if processes.get(&running.pid()).is_some_and(|found| Arc::ptr_eq(found, &running)) {
                processes.remove(&running.pid());
            }
        });
    }

    /// The processes that run, by pid.
    pub(super) fn alive(&self) -> Vec<Arc<Running>> {
        let processes = self.processes.lock();
        let mut alive: Vec<_> = processes.values().filter(|process| process.is_alive()).cloned().collect();
        alive.sort_by_key(|process| process.pid());
        alive
    }

    /// The process a request names, running or ended.
    pub(super) fn find(&self, selector: Option<&ProcessSelector>) -> Result<Arc<Running>, ConnectError> {
        let selector = selector.and_then(|selector| selector.selector.as_ref());
        let processes = self.processes.lock();
        match selector {
            Some(Selector::Pid(pid)) => processes
                .get(pid)
                .cloned()
                .ok_or_else(|| ConnectError::not_found(format!("process with pid {pid} not found"))),
            // A tag may be used again after its process ended: the running one is meant.
            Some(Selector::Tag(tag)) => processes
                .values()
                .filter(|process| process.tag() == Some(tag))
                .max_by_key(|process| (process.is_alive(), process.pid()))
                .cloned()
                .ok_or_else(|| ConnectError::not_found(format!("process with tag '{}' not found", tag.escape_debug()))),
            None => Err(ConnectError::unimplemented("the request selects no process: give a pid or a tag")),
        }
    }

    /// The process a request names, if it still runs.
    pub(super) fn find_alive(&self, selector: Option<&ProcessSelector>) -> Result<Arc<Running>, ConnectError> {
        let process = self.find(selector)?;
        if process.is_alive() {
            return Ok(process);
        }
        Err(ConnectError::not_found(format!("process with pid {} not found: it has ended", process.pid())))
    }
}
