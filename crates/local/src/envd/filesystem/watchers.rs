//! Watchers whose events are fetched, and the checks that all watches share.

use std::collections::{HashMap, VecDeque};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use connectrpc::ConnectError;
use oncebox_protocol::envd::filesystem::FilesystemEvent;
use parking_lot::Mutex;
use tokio::task::JoinHandle;

use super::watch::Watch;
use crate::envd::paths::Paths;

/// Watchers of one sandbox at a time. The kernel allows a user 128 by default.
const MAX_WATCHERS: usize = 100;
/// Events that wait to be fetched.
const MAX_EVENTS: usize = 50_000;

/// File systems that are somebody else's too: the kernel does not tell of what others change there. From `linux/magic.h`.
const NETWORK_FILE_SYSTEMS: [u32; 8] = [
    0x6969,      // NFS
    0xff53_4d42, // CIFS
    0xfe53_4d42, // SMB2
    0x517b,      // SMB
    0x6573_5546, // FUSE
    0x0102_1997, // 9p
    0x00c3_6400, // Ceph
    0x5346_414f, // AFS
];

/// What to watch.
pub(super) struct Asked {
    pub(super) path: PathBuf,
    pub(super) recursive: bool,
    pub(super) include_entry: bool,
    pub(super) allow_network_mounts: bool,
}

/// Starts a watch, in blocking code.
pub(super) fn watch(asked: Asked, paths: &Arc<Paths>) -> Result<Watch, ConnectError> {
    let name = paths.display(&asked.path);
    let failed = |error: &io::Error| match error.kind() {
        io::ErrorKind::NotFound => ConnectError::not_found(format!("path not found: {name}")),
        io::ErrorKind::NotADirectory => ConnectError::invalid_argument(format!("path is not a directory: {name}")),
        _ => ConnectError::resource_exhausted(format!("error watching '{name}': {error}")),
    };
    let metadata = fs::metadata(&asked.path).map_err(|error| failed(&error))?;
    if !metadata.is_dir() {
        return Err(failed(&io::ErrorKind::NotADirectory.into()));
    }
    if !asked.allow_network_mounts && is_on_network(&asked.path) {
        return Err(ConnectError::invalid_argument(format!(
            "'{name}' is on a network file system, where changes by others are not told of: allow_network_mounts watches it \
             all the same"
        )));
    }
    Watch::new(asked.path, asked.recursive, asked.include_entry, Arc::clone(paths)).map_err(|error| failed(&error))
}

fn is_on_network(path: &Path) -> bool {
    // The type's width differs between architectures; the numbers have 32 bits.
    rustix::fs::statfs(path).is_ok_and(|found| {
        NETWORK_FILE_SYSTEMS.iter().any(|kind| i128::from(*kind) == i128::from(found.f_type) & 0xffff_ffff)
    })
}

/// The watchers of a sandbox, by id.
#[derive(Debug, Default)]
pub(super) struct Watchers(Mutex<HashMap<String, Watcher>>);

#[derive(Debug)]
struct Watcher {
    events: Arc<Mutex<Gathered>>,
    gathering: JoinHandle<()>,
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.gathering.abort();
    }
}

#[derive(Debug, Default)]
struct Gathered {
    events: VecDeque<FilesystemEvent>,
    /// Why there are no more, or not all.
    problem: Option<String>,
}

impl Watchers {
    /// Lets a watch gather its events, on the current runtime. Returns its id.
    pub(super) fn add(&self, mut watch: Watch) -> Result<String, ConnectError> {
        let mut random = [0; 8];
        getrandom::fill(&mut random).map_err(|error| ConnectError::internal(error.to_string()))?;
        let id = format!("w{:016x}", u64::from_ne_bytes(random));
        let mut watchers = self.0.lock();
        if watchers.len() >= MAX_WATCHERS {
            let message = format!("{MAX_WATCHERS} watchers of this sandbox are open, the limit: remove one");
            return Err(ConnectError::resource_exhausted(message));
        }
        let events = Arc::new(Mutex::new(Gathered::default()));
        let gathered = Arc::clone(&events);
        let gathering = tokio::spawn(async move {
            loop {
                let next = watch.next().await;
                let mut gathered = gathered.lock();
                match next {
                    Ok(more) if gathered.events.len() + more.len() <= MAX_EVENTS => gathered.events.extend(more),
                    Ok(_) => {
                        gathered.problem = Some(format!("{MAX_EVENTS} events were not fetched, and more were lost"));
                        return;
                    }
                    Err(error) => {
                        gathered.problem = Some(error.to_string());
                        return;
                    }
                }
            }
        });
        watchers.insert(id.clone(), Watcher { events, gathering });
        Ok(id)
    }

    /// Takes the events gathered so far. After the last of a watcher that could not go on, its error.
    pub(super) fn take(&self, id: &str) -> Result<Vec<FilesystemEvent>, ConnectError> {
        let events = self.0.lock().get(id).map(|watcher| Arc::clone(&watcher.events));
        let events = events.ok_or_else(|| not_found(id))?;
        let mut gathered = events.lock();
        match &gathered.problem {
            Some(problem) if gathered.events.is_empty() => {
                Err(ConnectError::resource_exhausted(format!("watcher {id} has ended: {problem}")))
            }
            _ => Ok(gathered.events.drain(..).collect()),
        }
    }

    /// Ends a watcher.
    pub(super) fn remove(&self, id: &str) -> Result<(), ConnectError> {
        self.0.lock().remove(id).map(drop).ok_or_else(|| not_found(id))
    }
}

fn not_found(id: &str) -> ConnectError {
    ConnectError::not_found(format!("watcher with id {} not found", id.escape_debug()))
}
