//! The server as its owner sees it: built, started, stopped.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use oncebox_protocol::SecretString;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::task::{JoinHandle, JoinSet};

use crate::confined::{Isolation, LaunchError, Network};
use crate::control::{self, Control};
use crate::egress;
use crate::error::StartError;
use crate::explain::Explanation;
use crate::front::Front;
use crate::gate::{self, Hosts};
use crate::helper::Helper;
use crate::interpreter;
use crate::limits::{Keeper, Limits};
use crate::misbehave::{Faults, Misbehaviour};
use crate::registry::{Registry, measure};
use crate::state::State;
use crate::store::{Store, StoreError};

/// Connections served at a time; more wait to be accepted.
const MAX_CONNECTIONS: usize = 1024;
const DEFAULT_MAX_SANDBOXES: usize = 256;
/// Shortest token, in bytes.
const MIN_TOKEN: usize = 16;
/// More processors than any machine has, in thousandths.
const MAX_CPU_MILLIS: u32 = 4_096_000;
/// What a sandbox needs to do anything at all, in bytes.
const MIN_MEMORY: u64 = 64 << 20;
/// How long a dropped server waits for its sandboxes to end.
const DROP_LIMIT: Duration = Duration::from_secs(3);

/// A running local server. Stopping or dropping it ends its sandboxes and removes their files, unless
/// [`state`](LocalServerBuilder::state) keeps those.
///
/// ```no_run
/// # async fn example() -> Result<(), oncebox_local::StartError> {
/// use oncebox_local::LocalServer;
///
/// let server = LocalServer::start().await?;
/// println!("E2B_API_URL={} E2B_SANDBOX_URL={}", server.url(), server.url());
/// server.stop().await;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct LocalServer {
    addr: SocketAddr,
    running: Option<Running>,
}

struct Running {
    registry: Arc<Registry>,
    accepting: JoinHandle<()>,
    /// The proxy that misbehaves before the server.
    _door: Option<Arc<oncebox_faults::Server>>,
}

impl std::fmt::Debug for Running {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Running").finish_non_exhaustive()
    }
}

impl LocalServer {
    /// Starts a server with isolated sandboxes on any free port.
    ///
    /// # Errors
    /// As [`LocalServerBuilder::start`].
    pub async fn start() -> Result<Self, StartError> {
        Self::builder().start().await
    }

    /// A server to be set up.
    pub fn builder() -> LocalServerBuilder {
        LocalServerBuilder::default()
    }

    /// Where it listens.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Its URL, for the control plane and for sandboxes.
    pub fn url(&self) -> String {
        format!("http://{}", self.addr)
    }

    /// Ends all sandboxes, waits until nothing is left of them, and closes the port.
    pub async fn stop(mut self) {
        if let Some(running) = self.running.take() {
            running.accepting.abort();
            running.registry.close().await;
            // Only once the task is gone is the port free for the next server.
            let _ = running.accepting.await;
        }
    }
}

impl Drop for LocalServer {
    fn drop(&mut self) {
        if let Some(running) = self.running.take() {
            running.accepting.abort();
            running.registry.close_blocking(DROP_LIMIT);
        }
    }
}

/// Sets up a [`LocalServer`].
#[derive(Debug, Clone)]
#[must_use = "a builder does nothing until it is started"]
pub struct LocalServerBuilder {
    ip: IpAddr,
    port: u16,
    token: Option<SecretString>,
    allowed_hosts: Vec<String>,
    isolation: Isolation,
    helper: Option<Helper>,
    state_base: Option<PathBuf>,
    state: Option<PathBuf>,
    max_sandboxes: usize,
    allowed_origins: Vec<String>,
    no_isolation_hint: Option<String>,
    code_interpreter: Option<PathBuf>,
    limits: Limits,
    network: Network,
    faults: Option<String>,
}

impl Default for LocalServerBuilder {
    fn default() -> Self {
        Self {
            ip: IpAddr::V4(Ipv4Addr::LOCALHOST),
            port: 0,
            token: None,
            allowed_hosts: Vec::new(),
            isolation: Isolation::default(),
            helper: None,
            state_base: None,
            state: None,
            max_sandboxes: DEFAULT_MAX_SANDBOXES,
            allowed_origins: Vec::new(),
            no_isolation_hint: None,
            code_interpreter: None,
            limits: Limits::default(),
            network: Network::default(),
            faults: None,
        }
    }
}

impl LocalServerBuilder {
    /// The address to listen on. The default is 127.0.0.1. Any other than a loopback one lets other machines in, so that
    /// [`token`](Self::token) must be set; what they send, and what they get, is not encrypted.
    pub fn listen(mut self, ip: impl Into<IpAddr>) -> Self {
        self.ip = ip.into();
        self
    }

    /// The API key that every request to the control plane must come with. By default any will do, since the port is a
    /// loopback one. API keys and access tokens made with it will do too. It has at least 16 bytes, of those that a header
    /// can have.
    pub fn token(mut self, token: impl Into<String>) -> Self {
        self.token = Some(token.into().into());
        self
    }

    /// Another name by which clients reach the server, such as `build-box.internal`; its sandboxes are then below it too.
    /// By default it answers to loopback names only, and to addresses when it listens on others than loopback ones.
    pub fn allow_host(mut self, name: impl Into<String>) -> Self {
        self.allowed_hosts.push(name.into());
        self
    }

    /// The port to listen on. The default, 0, is any free one.
    pub fn port(mut self, port: u16) -> Self {
        self.port = port;
        self
    }

    /// How sandboxes are kept apart from the machine. The default is [`Isolation::Namespaces`].
    pub fn isolation(mut self, isolation: Isolation) -> Self {
        self.isolation = isolation;
        self
    }

    /// The program that becomes the process inside each sandbox. [`Helper`] says where it is looked for by default.
    pub fn helper(mut self, helper: Helper) -> Self {
        self.helper = Some(helper);
        self
    }

    /// The folder that sandboxes are kept in, made if it is missing, and this user's alone. The default is `oncebox-`
    /// and the user's number, in the folder for temporary files.
    pub fn state_base(mut self, base: impl Into<PathBuf>) -> Self {
        self.state_base = Some(base.into());
        self
    }

    /// Keeps everything in this folder, made if it is missing, and this user's alone: sandboxes and their files, templates,
    /// volumes, secrets, keys. By default nothing outlives the server.
    ///
    /// What was acknowledged is still there when a server is started on the folder again, however the one before ended:
    /// records, files, access tokens. Processes are not: a sandbox that ran is then paused, as if it had been paused without
    /// its memory, and is resumed when it is connected to. One server uses a folder at a time.
    pub fn state(mut self, folder: impl Into<PathBuf>) -> Self {
        self.state = Some(folder.into());
        self
    }

    /// How many sandboxes may run at a time. The default is 256.
    pub fn max_sandboxes(mut self, limit: usize) -> Self {
        self.max_sandboxes = limit;
        self
    }

    /// Lets pages of this origin, such as `http://localhost:5173`, use the server: run programs, read and write
    /// sandboxes' files. By default no page may.
    ///
    /// It is written as browsers send it: `http` or `https`, the host in lower case, the port unless it is the scheme's
    /// own, and nothing after it. [`start`](Self::start) refuses anything else.
    pub fn allow_origin(mut self, origin: impl Into<String>) -> Self {
        self.allowed_origins.push(origin.into());
        self
    }

    /// The Python whose kernels run code on port 49999 of each sandbox. It needs the package `ipykernel`. It and its
    /// packages are shown to sandboxes, read-only, at the place they have on this machine. The default is
    /// `/usr/bin/python3`, where that has the package; without it, running code is answered with *Unsupported*.
    pub fn code_interpreter(mut self, python: impl Into<PathBuf>) -> Self {
        self.code_interpreter = Some(python.into());
        self
    }

    /// How many processors a sandbox may use at a time; parts of one count, down to 0.01. `None`, the default, is all there
    /// are. Kept by control groups only: where there are none for the server, see [`explain`](Self::explain).
    pub fn cpus(mut self, limit: impl Into<Option<f64>>) -> Self {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "it saturates; checked when it starts"
        )]
        let millis = |cpus: f64| (cpus * 1000.0).round() as u32;
        self.limits.cpu_millis = limit.into().map(millis);
        self
    }

    /// How many bytes of memory a sandbox may use, its envd included; at least 64 MiB. The default is half of the
    /// machine's, and `None` is no limit. Kept by a control group, or else by envd, which is slower to see it.
    pub fn memory(mut self, limit: impl Into<Option<u64>>) -> Self {
        self.limits.memory = limit.into();
        self
    }

    /// How many processes and threads a sandbox may have, those of its envd included; at least 32. The default is 1024, and
    /// `None` is no limit.
    pub fn pids(mut self, limit: impl Into<Option<u32>>) -> Self {
        self.limits.pids = limit.into();
        self
    }

    /// Faults to begin with: a document as `PUT /oncebox/faults` takes it, JSON; `{}` for none. Those of connections and
    /// frames (`frames`) come from a proxy before the server, in the same process, which there is only if this is set; it
    /// listens on 127.0.0.1 alone.
    pub fn faults(mut self, document: impl Into<String>) -> Self {
        self.faults = Some(document.into());
        self
    }

    /// What sandboxes can reach. The default is [`Network::None`].
    pub fn network(mut self, network: Network) -> Self {
        self.network = network;
        self
    }

    fn check_limits(&self) -> Result<(), StartError> {
        let Limits { cpu_millis, memory, pids } = self.limits;
        let wrong = |option, value: String, rule| Err(StartError::Limit { option, value, rule });
        if let Some(millis) = cpu_millis.filter(|millis| !(10..=MAX_CPU_MILLIS).contains(millis)) {
            return wrong("cpus", (f64::from(millis) / 1000.0).to_string(), "a number from 0.01 to 4096");
        }
        if let Some(bytes) = memory.filter(|bytes| *bytes < MIN_MEMORY) {
            return wrong("memory", format!("{bytes} bytes"), "at least 64 MiB");
        }
        if let Some(count) = pids.filter(|count| !(32..=4_000_000).contains(count)) {
            return wrong("pids", count.to_string(), "a whole number from 32 to 4000000");
        }
        Ok(())
    }

    /// Tells what keeps sandboxes apart on this machine with these settings, and what does not. Starts a sandbox to find
    /// out, on any free port of 127.0.0.1 and in a folder of its own, and ends it.
    ///
    /// # Errors
    /// As [`start`](Self::start), but that isolation is not available is not an error here: it is told.
    pub async fn explain(mut self) -> Result<Explanation, StartError> {
        self.check_limits()?;
        (self.ip, self.port, self.state) = (IpAddr::V4(Ipv4Addr::LOCALHOST), 0, None);
        let (isolation, network, limits) = (self.isolation, self.network, self.limits);
        let problem = match self.start().await {
            Ok(server) => {
                server.stop().await;
                None
            }
            Err(StartError::IsolationUnavailable { why, .. } | StartError::EgressUnavailable { why }) => Some(why),
            Err(error) => return Err(error),
        };
        let keeper = keeper(limits, isolation).await?;
        Ok(Explanation::of(isolation, network, &keeper, problem))
    }

    /// [`Network::Egress`] where that can be had on this machine, or why not; found by starting a sandbox, as
    /// [`explain`](Self::explain) does.
    ///
    /// # Errors
    /// As [`start`](Self::start), but for isolation and egress: where there are no sandboxes, they reach nothing.
    pub async fn available_network(self) -> Result<Result<Network, String>, StartError> {
        if egress::find().is_none() {
            return Ok(Err("pasta (Debian's package passt) is not installed".to_owned()));
        }
        let told = self.network(Network::Egress).explain().await?;
        Ok(told.problem.map_or(Ok(Network::Egress), Err))
    }

    /// The command that would do the same without isolation, for the error that says isolation is not possible.
    pub fn no_isolation_hint(mut self, command: impl Into<String>) -> Self {
        self.no_isolation_hint = Some(command.into());
        self
    }

    /// Checks who is let in, before anything is done.
    fn check_access(&self) -> Result<Hosts, StartError> {
        match &self.token {
            None if !self.ip.is_loopback() => return Err(StartError::TokenMissing { ip: self.ip }),
            Some(token)
                if token.expose().len() < MIN_TOKEN || !token.expose().bytes().all(|byte| byte.is_ascii_graphic()) =>
            {
                return Err(StartError::Token { at_least: MIN_TOKEN });
            }
            _ => {}
        }
        let letters = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-.".contains(&byte);
        let is_name = |name: &String| {
            !name.is_empty() && name.bytes().all(letters) && !name.starts_with(['.', '-']) && !name.ends_with('.')
        };
        if let Some(name) = self.allowed_hosts.iter().find(|name| !is_name(name)) {
            return Err(StartError::Host { name: name.clone() });
        }
        Ok(Hosts { addresses: !self.ip.is_loopback(), names: self.allowed_hosts.clone() })
    }

    /// Starts the server on the current tokio runtime, once it has proved that a sandbox can be started.
    ///
    /// # Errors
    /// [`StartError`] says what could not be had: the port, the folder, the helper, or isolation; or which value is none.
    pub async fn start(self) -> Result<LocalServer, StartError> {
        for origin in &self.allowed_origins {
            gate::check_allowed(origin).map_err(|rule| StartError::Origin { origin: origin.clone(), rule })?;
        }
        let hosts = self.check_access()?;
        self.check_limits()?;
        let faults = self.faults.map(|document| Faults::read(document.as_bytes())).transpose();
        let faults = faults.map_err(StartError::Faults)?;
        if faults.is_some() && self.ip != IpAddr::V4(Ipv4Addr::LOCALHOST) {
            return Err(StartError::Faults(format!("they are for 127.0.0.1 alone, and `listen` is {}", self.ip)));
        }
        let helper = match self.helper {
            Some(helper) => helper,
            None => Helper::find()?,
        };
        let helper = match self.code_interpreter {
            Some(python) => helper.with_options(interpreter::options(python).await?),
            None => helper,
        };
        let keeper = keeper(self.limits, self.isolation).await?;
        let helper = helper.with_limits(keeper, self.network);
        // Behind a proxy, the port is the proxy's.
        let addr = SocketAddr::from((self.ip, if faults.is_some() { 0 } else { self.port }));
        let listener = TcpListener::bind(addr).await.map_err(|source| StartError::Bind { addr, source })?;
        let addr = listener.local_addr().map_err(|source| StartError::Bind { addr, source })?;

        let (base, kept) = (self.state_base, self.state);
        let path = kept.clone().or_else(|| base.clone()).unwrap_or_default();
        let (isolation, limit, program) = (self.isolation, self.max_sandboxes, helper.clone());
        let opened = tokio::task::spawn_blocking(move || open(base, kept, program, isolation, limit)).await;
        let control = opened
            .unwrap_or_else(|error| Err(StartError::State { path, why: format!("it was not looked at: {error}") }))?;
        let registry = Arc::clone(&control.registry);
        let failed = |why: String| StartError::HelperFailed { helper: helper.program().display().to_string(), why };
        registry.probe().await.map_err(|error| match error {
            LaunchError::Failed(why) => failed(why),
            LaunchError::NoEgress(why) => StartError::EgressUnavailable { why },
            LaunchError::NotAllowed(why) => StartError::IsolationUnavailable {
                why,
                hint: self.no_isolation_hint.unwrap_or_else(|| "`isolation(Isolation::None)`".to_owned()),
            },
        })?;

        let (addr, misbehaviour, door) = match faults {
            None => (addr, Misbehaviour::default(), None),
            Some(faults) => {
                let door = open_door(&faults, self.port, addr).await?;
                (door.addr(), Misbehaviour::with(faults, Arc::clone(&door)), Some(door))
            }
        };
        tokio::spawn(measure(Arc::downgrade(&registry)));
        tokio::spawn(registry.events.deliver());
        let control = control.reached_at(addr, self.token);
        let front = Front {
            registry: Arc::clone(&registry),
            routes: control::routes(control.clone()),
            control,
            allowed_origins: self.allowed_origins,
            hosts,
            misbehaviour: Arc::new(misbehaviour),
        };
        let accepting = tokio::spawn(accept(listener, Arc::new(front)));
        Ok(LocalServer { addr, running: Some(Running { registry, accepting, _door: door }) })
    }
}

/// Sets a proxy before the server.
async fn open_door(faults: &Faults, port: u16, behind: SocketAddr) -> Result<Arc<oncebox_faults::Server>, StartError> {
    let door = oncebox_faults::Server::builder(faults.script.clone()).proxy_to(&format!("http://{behind}")).keep_host();
    let door = door.port(port).max_connections(MAX_CONNECTIONS).start().await;
    door.map(Arc::new).map_err(|error| match error {
        oncebox_faults::StartError::Listen { address, error } => StartError::Bind { addr: address, source: error },
        error => StartError::Faults(error.to_string()),
    })
}

/// The ways there are to keep the limits.
async fn keeper(limits: Limits, isolation: Isolation) -> Result<Keeper, StartError> {
    let found = tokio::task::spawn_blocking(move || Keeper::find(limits, isolation)).await;
    found.map_err(|error| StartError::HelperFailed {
        helper: "(not started)".to_owned(),
        why: format!("looking for control groups: {error}"),
    })
}

/// Opens what the server has written down, and removes what nobody knows any more. Blocks.
fn open(
    base: Option<PathBuf>,
    kept: Option<PathBuf>,
    helper: Helper,
    isolation: Isolation,
    limit: usize,
) -> Result<Control, StartError> {
    let state = match &kept {
        Some(folder) => State::keep(folder)?,
        None => State::open(base.as_deref())?,
    };
    let failed =
        |error: StoreError| StartError::KeptState { path: kept.clone().unwrap_or_default(), why: error.to_string() };
    let store = state.records().map_or_else(|| Ok(Store::default()), |file| Store::open(&file)).map_err(failed)?;
    let state = Arc::new(state);
    let registry = Registry::open(helper, isolation, Arc::clone(&state), &store, limit).map_err(failed)?;
    let control = Control::open(Arc::new(registry), &store).map_err(failed)?;
    state.remove_orphans(|part, name| control.knows(part, name));
    Ok(control)
}

/// Accepts connections until it is aborted, which ends them all.
async fn accept(listener: TcpListener, front: Arc<Front>) {
    let room = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let mut connections = JoinSet::new();
    loop {
        let Ok(permit) = Arc::clone(&room).acquire_owned().await else { return };
        match listener.accept().await {
            Ok((connection, _)) => {
                let (front, room) = (Arc::clone(&front), Arc::clone(&room));
                connections.spawn(async move {
                    front.serve(connection, || room.available_permits() < MAX_CONNECTIONS / 2).await;
                    drop(permit);
                });
            }
            Err(error) => {
                // Out of descriptors, most likely: others will be closed.
                tracing::warn!(%error, "a connection was not accepted");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
        while connections.try_join_next().is_some() {}
    }
}
