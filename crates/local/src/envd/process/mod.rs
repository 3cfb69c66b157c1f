//! The Process service: commands of the sandbox.

mod ending;
mod events;
mod output;
mod reaper;
mod running;
mod table;
mod terminal;

use std::io;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use connectrpc::{ConnectError, ConnectRpcService, InboundStream, RequestContext, Response, ServiceRequest};
use connectrpc::{ServiceResult, ServiceStream};
use futures_util::StreamExt;
use http::Request;
use oncebox_protocol::api::EnvVars;
use oncebox_protocol::envd::process::__buffa::oneof::{process_input, stream_input_request};
use oncebox_protocol::envd::process::{
    CloseStdinRequest, CloseStdinResponse, ConnectRequest, ConnectResponse, ListRequest, ListResponse, Process,
    ProcessConfig, ProcessExt, ProcessInput, SendInputRequest, SendInputResponse, SendSignalRequest,
    SendSignalResponse, StartRequest, StartResponse, StreamInputRequest, StreamInputResponse, UpdateRequest,
    UpdateResponse,
};
use rustix::process::Signal;

use self::events::events;
pub(super) use self::events::keepalive_of;
pub(super) use self::reaper::Reaper;
use self::running::{Launch, Running};
use self::table::Table;
pub(super) use self::terminal::become_program;
use super::paths::Paths;
use super::timeout::{at_most, take_timeout, timeout_of};
use super::users::User;
use crate::lifeline::Setup;

/// Where commands are looked for. Commands that want another PATH set it.
pub(super) const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Most processes a sandbox may have been asked to start and that still run.
const MAX_PROCESSES: usize = 4096;

/// How long the answer to a SIGKILL waits for the process to be gone.
const KILL_SHOWS_WITHIN: Duration = Duration::from_secs(5);

/// Runs commands.
pub(super) struct ProcessService {
    paths: Arc<Paths>,
    env: EnvVars,
    reaper: Arc<Reaper>,
    table: Arc<Table>,
}

impl ProcessService {
    /// Starts reaping children on the current runtime.
    pub(super) fn new(setup: &Setup, paths: Arc<Paths>) -> io::Result<Self> {
        let mut env = EnvVars::from([
            ("E2B_SANDBOX".to_owned(), "true".into()),
            ("E2B_SANDBOX_ID".to_owned(), setup.sandbox_id.as_str().into()),
            ("E2B_TEMPLATE_ID".to_owned(), setup.template_id.as_str().into()),
        ]);
        env.extend(setup.defaults.env.clone());
        env.extend(setup.env.clone());
        Ok(Self { paths, env, reaper: Reaper::start()?, table: Arc::default() })
    }

    /// What starts children.
    pub(super) fn reaper(&self) -> &Arc<Reaper> {
        &self.reaper
    }

    /// The variables that every process gets, but for those of its user.
    pub(super) fn env(&self) -> &EnvVars {
        &self.env
    }

    fn command(&self, config: &ProcessConfig, user: User) -> Result<Command, ConnectError> {
        let cwd = config.cwd.as_deref().unwrap_or_default();
        let directory = self.paths.resolve(cwd, user).map_err(ConnectError::invalid_argument)?;
        if !directory.is_dir() {
            let what = if directory.exists() { "is not a directory" } else { "does not exist" };
            return Err(ConnectError::invalid_argument(format!("cwd '{}' {what}", self.paths.display(&directory))));
        }
        if let Some(name) = config.envs.keys().find(|name| name.is_empty() || name.contains(['=', '\0'])) {
            let name = name.escape_debug();
            return Err(ConnectError::invalid_argument(format!(
                "'{name}' cannot be the name of an environment variable"
            )));
        }
        let mut command = Command::new(&config.cmd);
        command
            .args(&config.args)
            .env_clear()
            .env("PATH", PATH)
            .env("HOME", self.paths.home(user))
            .env("USER", user.name())
            .env("LOGNAME", user.name())
            .envs(self.env.iter().map(|(name, value)| (name, value.expose())))
            .envs(&config.envs)
            .current_dir(directory);
        Ok(command)
    }
}

/// Serves the Process service through `router`.
pub(super) fn register(service: ProcessService, router: connectrpc::Router) -> connectrpc::Router {
    Arc::new(service).register(router)
}

/// When `Start` is to kill the process, from its `Connect-Timeout-Ms`.
#[derive(Debug, Clone)]
struct KillDeadline(Result<Option<Duration>, String>);

/// Takes the timeout off requests to `Start`: there it is the process's deadline. The RPC library would otherwise end the
/// call by it, before the end event that tells of the kill.
pub(super) fn with_kill_deadlines<B>(
    rpc: ConnectRpcService,
) -> tower::util::MapRequest<ConnectRpcService, impl Fn(Request<B>) -> Request<B> + Clone> {
    tower::util::MapRequest::new(rpc, |mut request: Request<B>| {
        if request.uri().path() == "/process.Process/Start" {
            let deadline = take_timeout(request.headers_mut());
            request.extensions_mut().insert(KillDeadline(deadline));
        }
        request
    })
}

#[allow(refining_impl_trait, reason = "the concrete types are nobody's API")]
impl Process for ProcessService {
    async fn list(&self, _: RequestContext, _: ServiceRequest<'_, ListRequest>) -> ServiceResult<ListResponse> {
        let processes = self.table.alive().iter().map(|process| process.info()).collect();
        Response::ok(ListResponse { processes, ..ListResponse::default() })
    }

    async fn start(
        &self,
        ctx: RequestContext,
        request: ServiceRequest<'_, StartRequest>,
    ) -> ServiceResult<ServiceStream<StartResponse>> {
        let user = self.paths.user_of(ctx.headers()).map_err(ConnectError::unauthenticated)?;
        let deadline = ctx.extensions().get::<KillDeadline>().map_or(Ok(None), |deadline| deadline.0.clone());
        let deadline = deadline.map_err(ConnectError::invalid_argument)?;
        let StartRequest { process, pty, tag, stdin, .. } = request.to_owned_message();
        let terminal = pty.as_option().map(terminal::size_of).transpose().map_err(ConnectError::invalid_argument)?;
        let config = process.into_option().unwrap_or_default();
        if config.cmd.is_empty() {
            return Err(ConnectError::invalid_argument("process.cmd is empty"));
        }
        let running = self.table.alive().len();
        if running >= MAX_PROCESSES {
            let message = format!("{running} processes of this sandbox are running; the limit is {MAX_PROCESSES}");
            return Err(ConnectError::resource_exhausted(message));
        }
        let mut command = self.command(&config, user)?;
        if terminal.is_some() && !config.envs.contains_key("TERM") {
            command.env("TERM", "xterm-256color");
        }
        let cmd = config.cmd.clone();
        let launch = Launch { config, tag, command, stdin: stdin.unwrap_or(true), terminal, deadline };
        let (reaper, table) = (Arc::clone(&self.reaper), Arc::clone(&self.table));
        // In a task of its own: a process whose client left meanwhile is known all the same.
        let started = tokio::spawn(async move {
            let started = Running::start(launch, &reaper).await?;
            table.add(&started.0);
            Ok(started)
        });
        let started = started.await.unwrap_or_else(|error| Err(io::Error::other(error)));
        let (process, output) = started.map_err(|error| not_started(&cmd, &error))?;
        let events = events(process, output, keepalive_of(ctx.headers()));
        Ok(Response::stream(
            events.map(|event| {
                Ok(StartResponse { event: buffa::MessageField::some(event?), ..StartResponse::default() })
            }),
        ))
    }

    async fn connect(
        &self,
        ctx: RequestContext,
        request: ServiceRequest<'_, ConnectRequest>,
    ) -> ServiceResult<ServiceStream<ConnectResponse>> {
        let process = self.table.find(request.to_owned_message().process.as_option())?;
        let output = process.listen();
        let events = events(process, output, keepalive_of(ctx.headers()));
        let events = at_most(timeout_of(ctx.headers())?, events);
        Ok(Response::stream(events.map(|event| {
            Ok(ConnectResponse { event: buffa::MessageField::some(event?), ..ConnectResponse::default() })
        })))
    }

    async fn update(
        &self,
        _: RequestContext,
        request: ServiceRequest<'_, UpdateRequest>,
    ) -> ServiceResult<UpdateResponse> {
        let request = request.to_owned_message();
        let process = self.table.find_alive(request.process.as_option())?;
        if let Some(pty) = request.pty.as_option() {
            let size = terminal::size_of(pty).map_err(ConnectError::invalid_argument)?;
            process.resize(size).map_err(|error| {
                ConnectError::internal(format!("error resizing the terminal of process {}: {error}", process.pid()))
            })?;
        }
        Response::ok(UpdateResponse::default())
    }

    async fn stream_input(
        &self,
        _: RequestContext,
        mut requests: InboundStream<StreamInputRequest>,
    ) -> ServiceResult<StreamInputResponse> {
        use stream_input_request::Event;
        let mut process: Option<Arc<Running>> = None;
        while let Some(request) = requests.next().await {
            match (request?.to_owned_message().event, &process) {
                (Some(Event::Start(start)), _) => {
                    process = Some(self.table.find_alive(start.process.as_option())?);
                }
                (Some(Event::Data(data)), Some(process)) => write(process, data.input.as_option()).await?,
                (Some(Event::Data(_)), None) => {
                    return Err(ConnectError::invalid_argument("the first message must select the process"));
                }
                (Some(Event::Keepalive(_)) | None, _) => {}
            }
        }
        Response::ok(StreamInputResponse::default())
    }

    async fn send_input(
        &self,
        _: RequestContext,
        request: ServiceRequest<'_, SendInputRequest>,
    ) -> ServiceResult<SendInputResponse> {
        let request = request.to_owned_message();
        let process = self.table.find_alive(request.process.as_option())?;
        write(&process, request.input.as_option()).await?;
        Response::ok(SendInputResponse::default())
    }

    async fn send_signal(
        &self,
        _: RequestContext,
        request: ServiceRequest<'_, SendSignalRequest>,
    ) -> ServiceResult<SendSignalResponse> {
        use oncebox_protocol::envd::process::Signal as Asked;
        let request = request.to_owned_message();
        let process = self.table.find_alive(request.process.as_option())?;
        let signal = match request.signal.as_known() {
            Some(Asked::SIGNAL_SIGKILL) => Signal::KILL,
            Some(Asked::SIGNAL_SIGTERM) => Signal::TERM,
            _ => {
                let number = request.signal.to_i32();
                return Err(ConnectError::unimplemented(format!(
                    "signal {number}: only SIGKILL and SIGTERM can be sent"
                )));
            }
        };
        match process.signal(signal) {
            Ok(true) => {
                if signal == Signal::KILL {
                    // So that who asks again, or for the list, is not told that it is still there.
                    process.gone_within(KILL_SHOWS_WITHIN).await;
                }
                Response::ok(SendSignalResponse::default())
            }
            Ok(false) => {
                Err(ConnectError::not_found(format!("process with pid {} not found: it has ended", process.pid())))
            }
            Err(error) => Err(ConnectError::internal(format!("error sending signal: {error}"))),
        }
    }

    async fn close_stdin(
        &self,
        _: RequestContext,
        request: ServiceRequest<'_, CloseStdinRequest>,
    ) -> ServiceResult<CloseStdinResponse> {
        let process = self.table.find_alive(request.to_owned_message().process.as_option())?;
        process.close_stdin().await.map_err(|error| {
            ConnectError::failed_precondition(format!("error closing stdin of process {}: {error}", process.pid()))
        })?;
        Response::ok(CloseStdinResponse::default())
    }
}

/// What a failed start means: the command is wrong, or the sandbox has no room for another process.
fn not_started(cmd: &str, error: &io::Error) -> ConnectError {
    use rustix::io::Errno;
    let message = format!("error starting process '{}': {error}", cmd.escape_debug());
    let full = [Errno::MFILE, Errno::NFILE, Errno::AGAIN, Errno::NOMEM].map(|errno| Some(errno.raw_os_error()));
    if full.contains(&error.raw_os_error()) {
        ConnectError::resource_exhausted(message)
    } else {
        ConnectError::invalid_argument(message)
    }
}

/// Writes what a request carries to the process's standard input. A caller that gives up may leave a part written.
async fn write(process: &Running, input: Option<&ProcessInput>) -> Result<(), ConnectError> {
    use process_input::Input;
    match input.and_then(|input| input.input.as_ref()) {
        Some(Input::Stdin(data)) => process.write_stdin(data).await.map_err(|error| {
            ConnectError::internal(format!("error writing to stdin of process {}: {error}", process.pid()))
        }),
        Some(Input::Pty(data)) => process.write_terminal(data).await.map_err(|error| {
            ConnectError::internal(format!("error writing to the tty of process {}: {error}", process.pid()))
        }),
        None => Err(ConnectError::unimplemented("the request carries no input: give stdin or pty")),
    }
}
