//! The sandboxes of a server, from their making to their end.

mod copy;
mod edit;
mod lifecycle;
mod metrics;
mod sandbox;
mod workshop;

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use oncebox_protocol::api::{LogLevel, PauseMode};
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, RwLock, Semaphore};

use crate::confined::{Confined, Isolation, LaunchError, Network};
use crate::events::{Event, Events};
use crate::helper::Helper;
use crate::ids::{self, Seed};
use crate::lifeline::{Mount, Setup};
use crate::limits::Limits;
use crate::removal::remove_tree;
use crate::signature::{FilesQuery, Operation};
use crate::state::State;
use crate::store::{Records, Store, StoreError};
use crate::uses::Use;

pub(crate) use copy::copy_tree;
pub(crate) use lifecycle::PauseError;
pub(crate) use metrics::measure;
use sandbox::{Body, Live};
pub(crate) use sandbox::{Lifecycle, LogLine, MountedVolume, Sandbox, SandboxRecord, after};
pub(crate) use workshop::Workshop;

/// Sandboxes that may be paused, for each that may run.
const STORED_PER_RUNNING: usize = 16;

/// What a sandbox is made from.
#[derive(Debug)]
pub(crate) struct Blueprint {
    pub(crate) record: SandboxRecord,
    /// A folder whose copy it begins with. Nobody may change it meanwhile.
    pub(crate) files: Option<PathBuf>,
    /// What must not be removed until the sandbox is there: those files, and its volumes.
    pub(crate) uses: Vec<Arc<Use>>,
}

/// All sandboxes of a server.
pub(crate) struct Registry {
    helper: Helper,
    isolation: Isolation,
    state: Arc<State>,
    store: Store,
    seed: Seed,
    records: Records<SandboxRecord>,
    pub(crate) events: Events,
    limit: usize,
    /// Places for sandboxes that have processes.
    places: Arc<Semaphore>,
    table: Mutex<Table>,
    /// Held for reading by those who start a sandbox.
    starting: Arc<RwLock<()>>,
}

#[derive(Default)]
struct Table {
    /// `None` while a sandbox is made: its id is taken.
    sandboxes: HashMap<String, Option<Arc<Sandbox>>>,
    /// What templates are built in, which no id leads to.
    workshops: Vec<Weak<Confined>>,
    /// Set when the server stops: nothing starts any more.
    closed: bool,
}

/// Why there is no new sandbox.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CreateError {
    #[error("{0} sandboxes are running, which is the limit; `max_sandboxes` sets another")]
    Full(usize),
    #[error("the server is stopping")]
    Stopping,
    #[error("the sandbox did not start: {0}")]
    Launch(#[from] LaunchError),
    #[error("{0}")]
    Store(#[from] StoreError),
}

impl From<io::Error> for CreateError {
    fn from(error: io::Error) -> Self {
        Self::Launch(error.into())
    }
}

/// What a server writes down about itself.
const SEED: &str = "seed";

impl Registry {
    /// The sandboxes that the store knows of. They had processes, perhaps; those ended with the server that had started
    /// them, so all that is left of each is its files: it is paused. Blocks.
    pub(crate) fn open(
        helper: Helper,
        isolation: Isolation,
        state: Arc<State>,
        store: &Store,
        limit: usize,
    ) -> Result<Self, StoreError> {
        let records: Records<SandboxRecord> = Records::open(store, "sandbox")?;
        let mut registry = Self {
            helper,
            isolation,
            state,
            store: store.clone(),
            seed: seed(store)?,
            records,
            events: Events::open(store)?,
            limit,
            places: Arc::new(Semaphore::new(limit)),
            table: Mutex::default(),
            starting: Arc::default(),
        };
        registry.restore()?;
        Ok(registry)
    }

    fn restore(&mut self) -> Result<(), StoreError> {
        let now = jiff::Timestamp::now();
        for (id, mut record) in self.records.entries() {
            let over = record.paused.is_none() && record.end_at <= now && !record.lifecycle.auto_pause;
            if over || !self.state.sandbox(&id).is_dir() {
                self.records.change_blocking(|draft| Ok::<_, StoreError>(draft.take(&id)))?;
                continue;
            }
            record.paused = Some(PauseMode::Filesystem);
            self.records.change_blocking(|draft| {
                draft.put(id.clone(), record.clone());
                Ok::<_, StoreError>(())
            })?;
            let token = self.seed.access_token(&id).map_err(StoreError::of)?.into();
            let sandbox = Sandbox::new(id.clone(), token, record, Body::Stored);
            sandbox.note(LogLevel::Info, "the server was started again: files are kept, processes are not");
            self.table.get_mut().sandboxes.insert(id, Some(Arc::new(sandbox)));
        }
        Ok(())
    }

    pub(crate) fn isolation(&self) -> Isolation {
        self.isolation
    }

    /// Whether sandboxes have a network of their own, so that nothing else is reached from it unless it is granted.
    pub(crate) fn network_is_confined(&self) -> bool {
        self.isolation == Isolation::Namespaces && self.helper.network() != Network::Host
    }

    /// Whether a sandbox is let out: all the way, or, where it asks for less than that, not at all, which is stricter.
    pub(crate) fn grants_egress(&self, record: &SandboxRecord) -> bool {
        let restricted = record.network.as_ref().is_some_and(|network| {
            network.egress_proxy.is_some() || network.deny_out.as_ref().is_some_and(|list| !list.is_empty())
        });
        let asked = record.allow_internet_access != Some(false) && !restricted;
        self.isolation == Isolation::Namespaces && self.helper.network() == Network::Egress && asked
    }

    /// What each sandbox may use.
    pub(crate) fn limits(&self) -> &Limits {
        self.helper.limits()
    }

    pub(crate) fn state(&self) -> &Arc<State> {
        &self.state
    }

    /// Whether a record speaks of that sandbox.
    pub(crate) fn knows(&self, id: &str) -> bool {
        self.records.get(id).is_some()
    }

    /// Starts a sandbox and ends it again, to find out whether this machine can.
    pub(crate) async fn probe(&self) -> Result<(), LaunchError> {
        let setup = self.setup(&ids::sandbox_id()?, &SandboxRecord::new(String::new(), Lifecycle::default()))?;
        tokio::fs::create_dir(&setup.directory).await?;
        let launched = Confined::launch(&self.helper, self.isolation, &setup).await;
        if let Ok(confined) = &launched {
            confined.end().await;
        }
        remove(setup.directory).await;
        launched.map(drop)
    }

    fn setup(&self, id: &str, record: &SandboxRecord) -> io::Result<Setup> {
        let mount = |volume: &MountedVolume| Mount {
            source: self.state.volume(&volume.volume_id),
            target: volume.path.clone(),
        };
        Ok(Setup {
            sandbox_id: id.to_owned(),
            template_id: record.template_id.clone(),
            access_token: self.seed.access_token(id)?.into(),
            env: record.env.clone(),
            directory: self.state.sandbox(id),
            mounts: record.volumes.iter().map(mount).collect(),
            defaults: record.defaults.clone(),
            egress: self.grants_egress(record),
        })
    }

    /// What proves that this server gave a link to upload something of that name.
    pub(crate) fn upload_token(&self, name: &str) -> io::Result<String> {
        self.seed.access_token(&format!("upload/{name}"))
    }

    fn place(&self) -> Result<OwnedSemaphorePermit, CreateError> {
        Arc::clone(&self.places).try_acquire_owned().map_err(|_| CreateError::Full(self.limit))
    }

    /// Makes a sandbox. It is made even if the caller stops waiting.
    pub(crate) async fn create(self: &Arc<Self>, blueprint: Blueprint) -> Result<Arc<Sandbox>, CreateError> {
        let place = self.place()?;
        let id = ids::sandbox_id()?;
        // Before the table is looked at: who closes it waits for all that found it open.
        let starting = Arc::clone(&self.starting).read_owned().await;
        {
            let mut table = self.table.lock();
            if table.closed {
                return Err(CreateError::Stopping);
            }
            if table.sandboxes.len() >= self.limit.saturating_mul(STORED_PER_RUNNING) {
                return Err(CreateError::Full(self.limit));
            }
            table.sandboxes.insert(id.clone(), None);
        }
        let (registry, uses) = (Arc::clone(self), blueprint.uses.clone());
        // In a task of its own: a client that goes away must not leave a half-made sandbox behind.
        let started = tokio::spawn(async move {
            let started = registry.make(&id, blueprint, place).await;
            if started.is_err() {
                registry.table.lock().sandboxes.remove(&id);
                remove(registry.state.sandbox(&id)).await;
            }
            drop((starting, uses));
            started
        });
        started.await.map_err(io::Error::other)?
    }

    async fn make(
        self: &Arc<Self>,
        id: &str,
        blueprint: Blueprint,
        place: OwnedSemaphorePermit,
    ) -> Result<Arc<Sandbox>, CreateError> {
        let Blueprint { record, files, .. } = blueprint;
        let directory = self.state.sandbox(id);
        match files {
            None => tokio::fs::create_dir(&directory).await?,
            Some(files) => copy_tree(&files, &directory).await?,
        }
        let setup = self.setup(id, &record)?;
        let confined = Arc::new(Confined::launch(&self.helper, self.isolation, &setup).await?);
        if let Err(error) = self.records.put(id, record.clone()).await {
            confined.end().await;
            return Err(error.into());
        }
        let live = Live { confined: Arc::clone(&confined), place };
        let sandbox = Arc::new(Sandbox::new(setup.sandbox_id, setup.access_token, record, Body::Running(live)));
        let closed = {
            let mut table = self.table.lock();
            table.sandboxes.insert(id.to_owned(), Some(Arc::clone(&sandbox)));
            table.closed
        };
        tokio::spawn(Arc::clone(self).watch_over(Arc::clone(&sandbox), confined));
        if closed {
            self.kill(id).await?;
            return Err(CreateError::Stopping);
        }
        self.tell(&sandbox, Event::CREATED);
        Ok(sandbox)
    }

    /// Tells of what happened to a sandbox: in its log, and to those who listen for events.
    pub(crate) fn tell(&self, sandbox: &Sandbox, kind: &'static str) {
        sandbox.note(LogLevel::Info, kind);
        let record = sandbox.record();
        self.events.happened(Event::of_sandbox(kind, &sandbox.id, &record));
    }

    /// The running sandbox of that id.
    pub(crate) fn find(&self, id: &str) -> Option<Arc<Sandbox>> {
        self.look_up(id).filter(|sandbox| sandbox.is_running())
    }

    /// The sandbox of that id, running or paused.
    pub(crate) fn look_up(&self, id: &str) -> Option<Arc<Sandbox>> {
        self.table.lock().sandboxes.get(id).cloned().flatten()
    }

    /// The running sandbox whose token signed a query.
    pub(crate) fn find_signed(&self, query: &FilesQuery, operation: Operation) -> Option<Arc<Sandbox>> {
        let signed = |sandbox: &Arc<Sandbox>| query.signed_with(sandbox.access_token.expose(), operation);
        self.all().into_iter().find(|sandbox| sandbox.is_running() && signed(sandbox))
    }

    /// All sandboxes, running and paused.
    pub(crate) fn all(&self) -> Vec<Arc<Sandbox>> {
        self.table.lock().sandboxes.values().flatten().cloned().collect()
    }

    /// Ends a sandbox and waits until nothing is left of it; `false` if there was none. Once begun it is done, even if
    /// the caller stops waiting.
    pub(crate) async fn kill(self: &Arc<Self>, id: &str) -> Result<bool, StoreError> {
        let (registry, id) = (Arc::clone(self), id.to_owned());
        let killed = tokio::spawn(async move {
            if registry.records.take(&id).await?.is_none() {
                return Ok(false);
            }
            let taken = registry.table.lock().sandboxes.remove(&id).flatten();
            let Some(sandbox) = taken else { return Ok(false) };
            registry.end(&sandbox).await;
            registry.tell(&sandbox, Event::KILLED);
            Ok(true)
        });
        killed.await.map_err(StoreError::of)?
    }

    /// Ends a sandbox that was taken out of the table, and removes its files.
    async fn end(&self, sandbox: &Sandbox) {
        // At once, and not only when whoever has the turn is done: its processes are in the way of that as well.
        if let Some(confined) = sandbox.processes() {
            confined.end().await;
        }
        let _turn = sandbox.turn.lock().await;
        let body = std::mem::replace(&mut *sandbox.body.lock(), Body::Stored);
        if let Body::Running(live) | Body::Frozen(live) = body {
            live.confined.end().await;
        }
        remove(self.state.sandbox(&sandbox.id)).await;
    }

    /// Ends all sandboxes' processes, and lets none start any more. Their files go too, unless they are kept.
    pub(crate) async fn close(self: &Arc<Self>) {
        let all = self.take_all();
        let ending = all.into_iter().map(|sandbox| {
            let registry = Arc::clone(self);
            tokio::spawn(async move {
                match sandbox.processes() {
                    Some(confined) if registry.state.is_kept() => confined.end().await,
                    _ if registry.state.is_kept() => {}
                    _ => registry.end(&sandbox).await,
                }
            })
        });
        for ending in ending.collect::<Vec<_>>() {
            // A task that panicked has left a process, which ends with this one.
            let _ = ending.await;
        }
        // Those that were starting find the table closed, and end what they started.
        drop(self.starting.write().await);
        for workshop in self.workshops() {
            workshop.end().await;
        }
        let registry = Arc::clone(self);
        // If the runtime is shutting down, the folder goes with the registry.
        let _ = tokio::task::spawn_blocking(move || registry.let_go()).await;
    }

    /// The same for those who cannot wait asynchronously.
    pub(crate) fn close_blocking(&self, limit: Duration) {
        let until = Instant::now() + limit;
        let mut ending: Vec<Arc<Confined>> = self.take_all().iter().filter_map(|sandbox| sandbox.processes()).collect();
        ending.extend(self.workshops());
        for confined in &ending {
            confined.hang_up();
        }
        for confined in &ending {
            confined.wait_blocking(until);
        }
        self.let_go();
    }

    /// Closes the records, and removes the files or leaves them to the next server.
    fn let_go(&self) {
        self.store.close();
        self.state.remove();
    }

    fn take_all(&self) -> Vec<Arc<Sandbox>> {
        let mut table = self.table.lock();
        table.closed = true;
        let all = table.sandboxes.values().flatten().cloned().collect();
        table.sandboxes.retain(|_, sandbox| sandbox.is_none());
        all
    }

    fn workshops(&self) -> Vec<Arc<Confined>> {
        self.table.lock().workshops.iter().filter_map(Weak::upgrade).collect()
    }

    /// Lets no sandbox start as long as what is returned is kept.
    #[cfg(test)]
    pub(crate) async fn hold_starts(&self) -> tokio::sync::OwnedRwLockWriteGuard<()> {
        Arc::clone(&self.starting).write_owned().await
    }

    fn is_closed(&self) -> bool {
        self.table.lock().closed
    }
}

/// The seed of the store's sandboxes' tokens; a new one for a new store.
fn seed(store: &Store) -> Result<Seed, StoreError> {
    let records: Records<Vec<u8>> = Records::open(store, "server")?;
    if let Some(seed) = records.get(SEED).and_then(|bytes| Seed::from_bytes(&bytes)) {
        return Ok(seed);
    }
    let seed = Seed::new().map_err(StoreError::of)?;
    records.change_blocking(|draft| {
        draft.put(SEED.to_owned(), seed.to_bytes());
        Ok::<_, StoreError>(())
    })?;
    Ok(seed)
}

/// Removes a folder and all that is in it.
pub(crate) async fn remove(folder: PathBuf) {
    let path = folder.clone();
    let removed = tokio::task::spawn_blocking(move || remove_tree(&path)).await;
    if let Ok(Err(error)) = removed {
        report_left(&folder, &error);
    }
}

fn report_left(folder: &Path, error: &io::Error) {
    tracing::warn!(folder = %folder.display(), %error, "a folder was not removed");
}
