//! The sandboxes of a server, from their making to their end.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};
use oncebox_protocol::SecretString;
use oncebox_protocol::api::{EnvVars, Metadata};
use parking_lot::Mutex;
use tokio::sync::{Notify, RwLock, watch};

use crate::confined::{Confined, Isolation, LaunchError, ProgramConnection};
use crate::helper::Helper;
use crate::ids::{self, Seed};
use crate::lifeline::Setup;
use crate::signature::{FilesQuery, Operation};
use crate::state::State;

/// What a sandbox is made from.
#[derive(Debug, Default)]
pub(crate) struct Blueprint {
    pub(crate) template_id: String,
    pub(crate) metadata: Metadata,
    pub(crate) env: EnvVars,
    pub(crate) allow_internet_access: Option<bool>,
    pub(crate) lifetime: Duration,
}

/// A sandbox.
#[derive(Debug)]
pub(crate) struct Sandbox {
    pub(crate) id: String,
    pub(crate) access_token: SecretString,
    pub(crate) template_id: String,
    pub(crate) metadata: Metadata,
    pub(crate) allow_internet_access: Option<bool>,
    pub(crate) started_at: Timestamp,
    end_at: watch::Sender<Timestamp>,
    confined: Confined,
    kill: Notify,
    ended: watch::Sender<bool>,
}

impl Sandbox {
    /// When its lifetime ends.
    pub(crate) fn end_at(&self) -> Timestamp {
        *self.end_at.borrow()
    }

    /// Sets the end of its lifetime.
    pub(crate) fn end_in(&self, lifetime: Duration) {
        self.end_at.send_replace(after(lifetime));
    }

    /// Moves the end of its lifetime, later only.
    pub(crate) fn live_at_least(&self, lifetime: Duration) {
        let end = after(lifetime);
        self.end_at.send_if_modified(|current| {
            let later = end > *current;
            if later {
                *current = end;
            }
            later
        });
    }

    /// Opens a connection to one of its ports.
    pub(crate) async fn open(&self, port: u16) -> io::Result<tokio::net::UnixStream> {
        self.confined.open(port).await
    }

    /// Opens a connection to a program that listens on one of its ports; `None` if none does.
    pub(crate) async fn open_program(&self, port: u16) -> io::Result<Option<ProgramConnection>> {
        self.confined.open_program(port).await
    }

    async fn ended(&self) {
        // The sender is part of the sandbox, so it cannot be gone.
        let _ = self.ended.subscribe().wait_for(|ended| *ended).await;
    }
}

/// A point in time from now; the end of time where there is none.
fn after(lifetime: Duration) -> Timestamp {
    let lifetime = SignedDuration::try_from(lifetime).unwrap_or(SignedDuration::MAX);
    Timestamp::now().checked_add(lifetime).unwrap_or(Timestamp::MAX)
}

/// All sandboxes of a server.
pub(crate) struct Registry {
    helper: Helper,
    isolation: Isolation,
    state: State,
    seed: Seed,
    limit: usize,
    table: Mutex<Table>,
    /// Held for reading by those who start a sandbox.
    starting: Arc<RwLock<()>>,
}

#[derive(Default)]
struct Table {
    /// `None` while a sandbox starts: its place is taken.
    sandboxes: HashMap<String, Option<Arc<Sandbox>>>,
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
}

impl From<io::Error> for CreateError {
    fn from(error: io::Error) -> Self {
        Self::Launch(error.into())
    }
}

impl Registry {
    pub(crate) fn new(helper: Helper, isolation: Isolation, state: State, limit: usize) -> io::Result<Self> {
        Ok(Self {
            helper,
            isolation,
            state,
            seed: Seed::new()?,
            limit,
            table: Mutex::default(),
            starting: Arc::default(),
        })
    }

    pub(crate) fn isolation(&self) -> Isolation {
        self.isolation
    }

    /// Starts a sandbox and ends it again, to find out whether this machine can.
    pub(crate) async fn probe(&self) -> Result<(), LaunchError> {
        let setup = self.setup(&ids::sandbox_id()?, &Blueprint::default())?;
        let confined = Confined::launch(&self.helper, self.isolation, &setup).await?;
        confined.end().await;
        Ok(())
    }

    fn setup(&self, id: &str, blueprint: &Blueprint) -> io::Result<Setup> {
        Ok(Setup {
            sandbox_id: id.to_owned(),
            template_id: blueprint.template_id.clone(),
            access_token: self.seed.access_token(id)?.into(),
            env: blueprint.env.clone(),
            directory: self.state.sandbox(id),
        })
    }

    /// Starts a sandbox. It is started even if the caller stops waiting.
    pub(crate) async fn create(self: &Arc<Self>, blueprint: Blueprint) -> Result<Arc<Sandbox>, CreateError> {
        let id = ids::sandbox_id()?;
        {
            let mut table = self.table.lock();
            if table.closed {
                return Err(CreateError::Stopping);
            }
            if table.sandboxes.len() >= self.limit {
                return Err(CreateError::Full(self.limit));
            }
            table.sandboxes.insert(id.clone(), None);
        }
        let registry = Arc::clone(self);
        let starting = Arc::clone(&self.starting).read_owned().await;
        // In a task of its own: a client that goes away must not leave a half-made sandbox behind.
        let started = tokio::spawn(async move {
            let started = registry.start(&id, blueprint).await;
            if started.is_err() {
                registry.table.lock().sandboxes.remove(&id);
            }
            drop(starting);
            started
        });
        started.await.map_err(io::Error::other)?
    }

    async fn start(self: &Arc<Self>, id: &str, blueprint: Blueprint) -> Result<Arc<Sandbox>, CreateError> {
        let setup = self.setup(id, &blueprint)?;
        let confined = Confined::launch(&self.helper, self.isolation, &setup).await?;
        let sandbox = Arc::new(Sandbox {
            id: setup.sandbox_id,
            access_token: setup.access_token,
            template_id: setup.template_id,
            metadata: blueprint.metadata,
            allow_internet_access: blueprint.allow_internet_access,
            started_at: Timestamp::now(),
            end_at: watch::Sender::new(after(blueprint.lifetime)),
            confined,
            kill: Notify::new(),
            ended: watch::Sender::new(false),
        });
        let closed = {
            let mut table = self.table.lock();
            table.sandboxes.insert(id.to_owned(), Some(Arc::clone(&sandbox)));
            table.closed
        };
        tokio::spawn(Arc::clone(self).watch_over(Arc::clone(&sandbox)));
        if closed {
            self.kill(id).await;
            return Err(CreateError::Stopping);
        }
        Ok(sandbox)
    }

    /// Ends a sandbox when its time is over, when it is killed, or when it ends by itself.
    async fn watch_over(self: Arc<Self>, sandbox: Arc<Sandbox>) {
        let mut end_at = sandbox.end_at.subscribe();
        loop {
            let left = end_at.borrow_and_update().duration_since(Timestamp::now());
            let left = Duration::try_from(left).unwrap_or(Duration::ZERO);
            if left.is_zero() {
                tracing::debug!(id = %sandbox.id, "the sandbox's time is over");
                break;
            }
            tokio::select! {
                // Not all of it at once: the wall clock may be set meanwhile.
                () = tokio::time::sleep(left.min(Duration::from_secs(60))) => {}
                _ = end_at.changed() => {}
                () = sandbox.kill.notified() => break,
                () = sandbox.confined.gone() => {
                    tracing::debug!(id = %sandbox.id, "the sandbox ended by itself");
                    break;
                }
            }
        }
        self.table.lock().sandboxes.remove(&sandbox.id);
        sandbox.confined.end().await;
        sandbox.ended.send_replace(true);
    }

    /// The running sandbox of that id.
    pub(crate) fn find(&self, id: &str) -> Option<Arc<Sandbox>> {
        self.table.lock().sandboxes.get(id).cloned().flatten()
    }

    /// The running sandbox whose token signed a query.
    pub(crate) fn find_signed(&self, query: &FilesQuery, operation: Operation) -> Option<Arc<Sandbox>> {
        self.all().into_iter().find(|sandbox| query.signed_with(sandbox.access_token.expose(), operation))
    }

    /// All running sandboxes.
    pub(crate) fn all(&self) -> Vec<Arc<Sandbox>> {
        self.table.lock().sandboxes.values().flatten().cloned().collect()
    }

    /// Ends a sandbox and waits until nothing is left of it; `false` if there was none.
    pub(crate) async fn kill(&self, id: &str) -> bool {
        let sandbox = {
            let mut table = self.table.lock();
            match table.sandboxes.get(id) {
                Some(Some(_)) => table.sandboxes.remove(id).flatten(),
                _ => None,
            }
        };
        let Some(sandbox) = sandbox else { return false };
        sandbox.kill.notify_one();
        sandbox.ended().await;
        true
    }

    /// Ends all sandboxes, and lets none start any more.
    pub(crate) async fn close(self: &Arc<Self>) {
        let ending = self.take_all();
        for sandbox in &ending {
            sandbox.kill.notify_one();
        }
        for sandbox in &ending {
            sandbox.ended().await;
        }
        // Those that were starting find the table closed, and end what they started.
        drop(self.starting.write().await);
        let registry = Arc::clone(self);
        // If the runtime is shutting down, the folder goes with the registry.
        let _ = tokio::task::spawn_blocking(move || registry.state.remove()).await;
    }

    /// The same for those who cannot wait asynchronously.
    pub(crate) fn close_blocking(&self, limit: Duration) {
        let until = Instant::now() + limit;
        let ending = self.take_all();
        for sandbox in &ending {
            sandbox.confined.hang_up();
        }
        for sandbox in &ending {
            sandbox.confined.wait_blocking(until);
        }
        self.state.remove();
    }

    fn take_all(&self) -> Vec<Arc<Sandbox>> {
        let mut table = self.table.lock();
        table.closed = true;
        let all = table.sandboxes.values().flatten().cloned().collect();
        table.sandboxes.retain(|_, sandbox| sandbox.is_none());
        all
    }
}
