//! The server's end of a sandbox: starts its helper, opens connections into it, ends it.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustix::net::{RecvFlags, Shutdown};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::cgroups::Group;
use crate::egress::Egress;
use crate::envd;
use crate::helper::Helper;
use crate::lifeline::{self, MAX_REPORT, Options, PORT_IS_OPEN, Report, Setup};

/// How sandboxes are kept apart from the machine and from each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Isolation {
    /// By user, mount, pid, network, IPC and UTS namespaces, a root of their own and few capabilities. Where the kernel
    /// does not allow it, the server does not start.
    #[default]
    Namespaces,
    /// Not at all: a sandbox is a folder, and its commands are processes of the server's user. They can read and change
    /// what that user can, reach the network and the server itself.
    None,
}

/// What a sandbox's programs can reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Network {
    /// Each other, within a sandbox. Every sandbox has a loopback interface of its own and no other.
    #[default]
    None,
    /// What this machine's network reaches, the internet perhaps, from a network of the sandbox's own: ports are its own,
    /// and this machine's loopback addresses, with the server's control plane, are not reached. By the program `pasta` (Debian's
    /// package `passt`), without which the server does not start. A sandbox that asks for less than all reaches nothing.
    Egress,
    /// All that this machine reaches, by its own interfaces: the internet, this machine's services, this server's control
    /// plane and other sandboxes. Ports are shared, so that two sandboxes cannot both listen on 3000, and a port of a sandbox
    /// may be another's or the machine's.
    Host,
}

/// How long a helper may take to become a sandbox, and to end.
const START_LIMIT: Duration = Duration::from_secs(10);
const END_LIMIT: Duration = Duration::from_secs(5);
/// How long a sandbox may take to accept a connection.
const OPEN_LIMIT: Duration = Duration::from_secs(5);

/// Connections to programs of one sandbox at a time.
const MAX_PROGRAM_CONNECTIONS: usize = 256;

/// A connection to a program in a sandbox, which counts until both are dropped.
pub(crate) type ProgramConnection = (UnixStream, OwnedSemaphorePermit);

/// Why a sandbox did not start.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LaunchError {
    #[error("{0}")]
    NotAllowed(String),
    #[error("{0}")]
    Failed(String),
    /// There is no way out, and one was asked for.
    #[error("the sandbox has no way to the network: {0}")]
    NoEgress(String),
}

impl From<io::Error> for LaunchError {
    fn from(error: io::Error) -> Self {
        Self::Failed(error.to_string())
    }
}

/// A running sandbox's processes. Dropping it ends them; [`Confined::end`] also waits.
#[derive(Debug)]
pub(crate) struct Confined {
    lifeline: UnixStream,
    child: Mutex<Option<Child>>,
    folder: PathBuf,
    programs: Arc<Semaphore>,
    /// Removed when it is dropped, which must come after the processes are gone.
    group: Mutex<Option<Group>>,
    helper: Helper,
    egress: Mutex<Option<Egress>>,
    /// Held while it changes.
    egress_turn: tokio::sync::Mutex<()>,
}

impl Confined {
    /// Starts a sandbox in `setup.directory`: an empty folder, or one that a sandbox has left.
    pub(crate) async fn launch(helper: &Helper, isolation: Isolation, setup: &Setup) -> Result<Self, LaunchError> {
        let folder = setup.directory.clone();
        let (ours, theirs) = std::os::unix::net::UnixStream::pair()?;
        let group = make_group(helper).await?;
        let command = command(helper, isolation, &group, theirs.into());
        let program = helper.program().display().to_string();
        // Starting a process waits for the new program to be loaded.
        let child =
            spawn(command).await.map_err(|error| LaunchError::Failed(format!("starting {program}: {error}")))?;
        ours.set_nonblocking(true)?;
        let mut confined = Self {
            lifeline: UnixStream::from_std(ours)?,
            child: Mutex::new(Some(child)),
            folder,
            programs: Arc::new(Semaphore::new(MAX_PROGRAM_CONNECTIONS)),
            group: Mutex::new(Some(group)),
            helper: helper.clone(),
            egress: Mutex::default(),
            egress_turn: tokio::sync::Mutex::default(),
        };
        let report = tokio::time::timeout(START_LIMIT, confined.set_up(setup, helper.options())).await;
        let problem = match report {
            Ok(Ok(Report::Ready)) => match confined.set_egress(setup.egress).await {
                Ok(()) => return Ok(confined),
                Err(problem) => problem,
            },
            Ok(Ok(Report::NotAllowed(why))) => LaunchError::NotAllowed(why),
            Ok(Ok(Report::Failed(why))) => LaunchError::Failed(why),
            Ok(Err(error)) => LaunchError::Failed(format!("{program} ended without a report: {error}")),
            Err(_) => LaunchError::Failed(format!("{program} was not ready within {START_LIMIT:?}")),
        };
        confined.end().await;
        Err(problem)
    }

    async fn set_up(&mut self, setup: &Setup, options: &Options) -> io::Result<Report> {
        // A helper that fails early ends before it reads, but not before it reports.
        let written = self.lifeline.write_all(&setup.to_bytes(options)?).await;
        let mut line = Vec::new();
        let mut buffer = [0; 512];
        while !line.ends_with(b"\n") && line.len() < MAX_REPORT {
            let read = self.lifeline.read(&mut buffer).await?;
            if read == 0 {
                return Err(written.err().unwrap_or_else(|| io::ErrorKind::UnexpectedEof.into()));
            }
            line.extend_from_slice(buffer.get(..read).unwrap_or_default());
        }
        Ok(serde_json::from_slice(&line)?)
    }

    /// Lets the sandbox reach the network beyond this machine, or cuts it off, with all its connections there.
    pub(crate) async fn set_egress(&self, wanted: bool) -> Result<(), LaunchError> {
        let _turn = self.egress_turn.lock().await;
        if self.egress.lock().is_some() == wanted {
            return Ok(());
        }
        let new = match self.helper_pid().filter(|_| wanted) {
            Some(launcher) => Some(Egress::start(&self.helper, launcher).await.map_err(LaunchError::NoEgress)?),
            None => None,
        };
        let old = std::mem::replace(&mut *self.egress.lock(), new);
        // Waits for a process.
        let _ = tokio::task::spawn_blocking(move || drop(old)).await;
        Ok(())
    }

    /// Opens a connection to a port of the sandbox.
    pub(crate) async fn open(&self, port: u16) -> io::Result<UnixStream> {
        tokio::time::timeout(OPEN_LIMIT, lifeline::open(&self.lifeline, port))
            .await
            .unwrap_or_else(|_| Err(io::Error::new(io::ErrorKind::TimedOut, "the sandbox accepts no connections")))
    }

    /// Opens a connection to the program that listens on a port; `None` if there is none. [`io::ErrorKind::QuotaExceeded`]
    /// is the error of too many connections.
    pub(crate) async fn open_program(&self, port: u16) -> io::Result<Option<ProgramConnection>> {
        let permit = Arc::clone(&self.programs).try_acquire_owned().map_err(|_| {
            let message =
                format!("{MAX_PROGRAM_CONNECTIONS} connections to programs of the sandbox are open, the limit");
            io::Error::new(io::ErrorKind::QuotaExceeded, message)
        })?;
        let mut connection = self.open(port).await?;
        let listens = tokio::time::timeout(OPEN_LIMIT, connection.read_u8()).await??;
        Ok((listens == PORT_IS_OPEN).then_some((connection, permit)))
    }

    /// Returns when no process of the sandbox is left.
    pub(crate) async fn gone(&self) {
        let mut buffer = [0; 64];
        loop {
            if self.lifeline.readable().await.is_err() {
                return;
            }
            match self.lifeline.try_read(&mut buffer) {
                Ok(0) => return,
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => return,
            }
        }
    }

    /// The helper's process id; nothing once it was waited for.
    pub(crate) fn helper_pid(&self) -> Option<u32> {
        self.child.lock().as_ref().map(Child::id)
    }

    /// Ends the sandbox and waits until it is gone. Its folder stays.
    pub(crate) async fn end(&self) {
        self.hang_up();
        let _ = self.set_egress(false).await;
        if tokio::time::timeout(END_LIMIT, self.gone()).await.is_err() {
            tracing::warn!(folder = %self.folder.display(), "a sandbox did not end when told to, and is killed");
            self.kill();
            let _ = tokio::time::timeout(END_LIMIT, self.gone()).await;
        }
        let child = self.child.lock().take();
        if let Some(mut child) = child {
            // It is gone or about to be.
            let _ = tokio::task::spawn_blocking(move || child.wait()).await;
        }
        self.group.lock().take();
    }

    /// Tells the helper to end, without waiting.
    pub(crate) fn hang_up(&self) {
        // Fails if it is gone, which is what it is for.
        let _ = rustix::net::shutdown(&self.lifeline, Shutdown::Write);
    }

    fn kill(&self) {
        if let Some(child) = self.child.lock().as_mut() {
            let _ = child.kill();
        }
    }

    /// [`Confined::gone`] for those who cannot wait asynchronously; then reaps the helper.
    pub(crate) fn wait_blocking(&self, until: Instant) {
        let mut buffer = [0_u8; 64];
        loop {
            match rustix::net::recv(&self.lifeline, &mut buffer[..], RecvFlags::DONTWAIT) {
                Ok((0, _)) => break,
                Err(rustix::io::Errno::AGAIN) if Instant::now() < until => std::thread::sleep(Duration::from_millis(1)),
                Err(rustix::io::Errno::AGAIN) => {
                    self.kill();
                    break;
                }
                Err(rustix::io::Errno::INTR) | Ok(_) => {}
                Err(_) => break,
            }
        }
        self.egress.lock().take();
        let child = self.child.lock().take();
        if let Some(mut child) = child {
            let _ = child.wait();
        }
        self.group.lock().take();
    }
}

async fn make_group(helper: &Helper) -> Result<Group, LaunchError> {
    let helper = helper.clone();
    let made = tokio::task::spawn_blocking(move || helper.groups().make(helper.limits())).await;
    let made = made.unwrap_or_else(|error| Err(io::Error::other(error)));
    made.map_err(|error| LaunchError::Failed(format!("making the sandbox's control group: {error}")))
}

fn command(helper: &Helper, isolation: Isolation, group: &Group, lifeline: OwnedFd) -> Command {
    let mut command = Command::new(helper.program());
    command
        .args(helper.args())
        .arg(match isolation {
            Isolation::Namespaces => envd::LAUNCH,
            Isolation::None => envd::PLAIN,
        })
        .args((helper.network() == Network::Host).then_some(envd::HOST_NETWORK))
        .args(group.doors())
        .env_clear()
        .current_dir(Path::new("/"))
        .stdin(lifeline)
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command
}

async fn spawn(mut command: Command) -> io::Result<Child> {
    tokio::task::spawn_blocking(move || command.spawn()).await.map_err(io::Error::other)?
}
