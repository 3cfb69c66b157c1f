//! envd: the process inside a sandbox that runs its commands and serves its files.
//!
//! [`helper_main`] is its whole life. With isolation it is three steps: `launch` moves into new namespaces and starts
//! `init` as process 1 of the new pid namespace; `init` builds the sandbox's root and serves. Without isolation `plain`
//! serves at once. Paths are resolved by the kernel in the sandbox's own root, so no path needs to be checked here.

mod answer;
mod auth;
mod descendants;
mod egress;
mod files;
mod filesystem;
mod hog;
mod interpreter;
mod isolation;
mod paths;
mod ports;
mod process;
mod timeout;
mod usage;
mod users;

use std::collections::BTreeMap;
use std::ffi::{CStr, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream as BlockingStream;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use http::StatusCode;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use oncebox_protocol::api::EnvVars;
use oncebox_protocol::envd_rest::Metrics;
use tokio::net::UnixStream;

use crate::cgroups;
use crate::drain;
use crate::lifeline::{self, ENVD_PORT, Options, Report, Setup};
use answer::Refusal;
use interpreter::Interpreter;
use paths::Paths;
use process::ProcessService;
use usage::Usage;
use users::User;

/// How a helper is told what to be; the last of its arguments.
pub(crate) const LAUNCH: &str = "launch";
pub(crate) const PLAIN: &str = "plain";
/// Keeps the way out of a sandbox that another helper is; before the program that does it and a process of the sandbox's.
pub(crate) const EGRESS: &str = "egress";
/// After [`LAUNCH`] or [`PLAIN`]: no network of its own.
pub(crate) const HOST_NETWORK: &str = "--host-network";
const INIT: &str = "init";
/// Before the program of a process that gets a terminal.
const ON_TERMINAL: &str = "on-terminal";

/// The code interpreter's port, unless a program of the sandbox listens there.
const INTERPRETER_PORT: u16 = 49999;
/// What runs it, unless the server's owner names another.
const SYSTEM_PYTHON: &str = "/usr/bin/python3";

/// The name sandboxes have in process lists.
const NAME: &str = "oncebox-envd";
const SHORT_NAME: &CStr = c"oncebox-envd";

/// Becomes the process inside a sandbox and returns when the sandbox ends.
///
/// A program that starts sandboxes through itself (see [`Helper`](crate::Helper)) calls this from a hidden subcommand,
/// with the arguments after that subcommand, before it has started a thread or a runtime. Standard input is the socket
/// that the server made; started any other way, it says so and fails.
pub fn helper_main(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let mode: Vec<OsString> = args.into_iter().collect();
    let (run, rest): (fn(BlockingStream, &Surroundings) -> ExitCode, _) = match mode.as_slice() {
        [mode, program @ ..] if mode == ON_TERMINAL => return process::become_program(program),
        [mode, program, launcher] if mode == EGRESS => {
            return match take_lifeline() {
                Ok(lifeline) => egress::serve(&lifeline, program, launcher),
                Err(error) => misuse(&format!("its standard input must be the server's socket: {error}")),
            };
        }
        [mode, rest @ ..] if mode == LAUNCH => (launch, rest),
        [mode, rest @ ..] if mode == INIT => (init, rest),
        [mode, rest @ ..] if mode == PLAIN => (plain, rest),
        _ => {
            return misuse("it takes arguments that the server gives it");
        }
    };
    // The helper may be another program's subcommand, or started by way of /proc/self/exe.
    let _ = rustix::thread::set_name(SHORT_NAME);
    let surroundings = Surroundings::of(rest);
    match take_lifeline() {
        Ok(lifeline) => match cgroups::join(surroundings.doors.iter().map(PathBuf::as_path)) {
            Ok(()) => run(lifeline, &surroundings),
            Err(error) => report(&lifeline, &Report::Failed(format!("entering the sandbox's control group: {error}"))),
        },
        Err(error) => misuse(&format!("its standard input must be the server's socket: {error}")),
    }
}

/// What a sandbox is put into, as far as it must be known before the setup is read.
struct Surroundings {
    /// The number of arguments that say so.
    count: usize,
    host_network: bool,
    /// Of the control groups to enter.
    doors: Vec<PathBuf>,
}

impl Surroundings {
    fn of(arguments: &[OsString]) -> Self {
        let host_network = arguments.first().is_some_and(|first| first == HOST_NETWORK);
        let doors = arguments.iter().skip(usize::from(host_network)).map(PathBuf::from).collect();
        Self { count: arguments.len(), host_network, doors }
    }
}

fn misuse(why: &str) -> ExitCode {
    eprintln!("{NAME}: this program is started by an oncebox server and cannot be used by hand: {why}");
    ExitCode::from(2)
}

/// Makes the inherited socket one that commands do not inherit, and closes whatever else came along.
fn take_lifeline() -> io::Result<BlockingStream> {
    rustix::net::sockopt::socket_type(rustix::stdio::stdin())?;
    let lifeline: OwnedFd = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3)?;
    let keep = std::os::fd::AsRawFd::as_raw_fd(&lifeline);
    let open: Vec<i32> = std::fs::read_dir("/proc/self/fd")
        .map(|entries| entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect())
        .unwrap_or_default();
    for descriptor in open {
        if descriptor > 2 && descriptor != keep {
            // The one that listed the directory is closed already; that it is not open is no error.
            let _ = nix::unistd::close(descriptor);
        }
    }
    Ok(BlockingStream::from(lifeline))
}

/// Replaces the socket at descriptor 0, once no child needs it there.
fn forget_stdin() -> io::Result<()> {
    let null = std::fs::File::open("/dev/null")?;
    Ok(rustix::stdio::dup2_stdin(&null)?)
}

/// Enters the namespaces and waits for the sandbox's process 1. While this process lives, it holds the socket open, so
/// its end tells the server that every process of the sandbox is gone.
fn launch(lifeline: BlockingStream, surroundings: &Surroundings) -> ExitCode {
    // Away from the terminal: /dev/tty leads nowhere, and Ctrl-C there is the server's affair.
    let _ = rustix::process::setsid();
    if threads() > 1 {
        // The kernel would refuse, with an error that looks like a ban on namespaces.
        let why = "helper_main was called after a thread or a runtime was started; call it first thing in main";
        return report(&lifeline, &Report::Failed(why.to_owned()));
    }
    if let Err(error) = isolation::enter_namespaces(surroundings.host_network) {
        return report(&lifeline, &Report::NotAllowed(error.to_string()));
    }
    let mut arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    arguments.truncate(arguments.len().saturating_sub(surroundings.count + 1));
    arguments.push(INIT.into());
    arguments.extend(surroundings.host_network.then(|| HOST_NETWORK.into()));
    let child = Command::new("/proc/self/exe").arg0(NAME).args(arguments).spawn();
    match child.and_then(|mut child| child.wait()) {
        Ok(_) => ExitCode::SUCCESS,
        Err(error) => report(&lifeline, &Report::Failed(format!("starting the sandbox's first process: {error}"))),
    }
}

fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").map_or(1, Iterator::count)
}

/// Process 1 of a sandbox.
fn init(lifeline: BlockingStream, surroundings: &Surroundings) -> ExitCode {
    // If the launcher is killed, nothing else would tell this process.
    let _ = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL));
    let (setup, options) = match forget_stdin().and_then(|()| Setup::read(&lifeline)) {
        Ok(read) => read,
        Err(error) => return report(&lifeline, &Report::Failed(format!("reading the sandbox's setup: {error}"))),
    };
    if let Err(error) = isolation::build(&setup, &options, HOSTNAME, surroundings.host_network) {
        return report(&lifeline, &Report::NotAllowed(error.to_string()));
    }
    match oncebox_signals::outlive() {
        Ok(()) => {
            let paths = Paths::of_sandbox().with_defaults(&setup.defaults);
            serve(lifeline, setup, options, paths)
        }
        Err(error) => report(&lifeline, &Report::Failed(format!("handling signals: {error}"))),
    }
}

/// The host name inside a sandbox.
const HOSTNAME: &str = "e2b";

/// A sandbox without isolation: a folder, and commands that are gone when it ends.
fn plain(lifeline: BlockingStream, _: &Surroundings) -> ExitCode {
    let _ = rustix::process::setsid();
    let setup = forget_stdin().and_then(|()| Setup::read(&lifeline));
    // Orphans become children of this process, so that they can be found at the end.
    let setup = setup.and_then(|setup| {
        rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
        Ok(setup)
    });
    let code = match setup {
        Ok((setup, options)) => {
            let paths = Paths::of_host(setup.directory.clone()).with_defaults(&setup.defaults);
            serve(lifeline, setup, options, paths)
        }
        Err(error) => report(&lifeline, &Report::Failed(format!("reading the sandbox's setup: {error}"))),
    };
    descendants::kill_all();
    code
}

fn report(lifeline: &BlockingStream, report: &Report) -> ExitCode {
    // The server that would read it may be gone; there is nobody else to tell.
    let _ = report.write(lifeline);
    ExitCode::FAILURE
}

/// Serves until the server ends.
fn serve(lifeline: BlockingStream, setup: Setup, options: Options, paths: Paths) -> ExitCode {
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o022));
    let watched = match hog::keep(&options) {
        Ok(watched) => watched,
        Err(error) => return report(&lifeline, &Report::Failed(format!("limiting the sandbox: {error}"))),
    };
    let isolated = paths.are_isolated();
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return report(&lifeline, &Report::Failed(format!("starting a runtime: {error}"))),
    };
    let served = runtime.block_on(async {
        let (app, interpreter) = apps(setup, options, paths)?;
        // An answer that comes before the last bytes of its request must not close the connection under the sender.
        let app = app.layer(axum::middleware::from_fn(|request, next: axum::middleware::Next| {
            drain::answered(request, |request| next.run(request))
        }));
        Report::Ready.write(&lifeline)?;
        lifeline.set_nonblocking(true)?;
        let socket = UnixStream::from_std(lifeline.try_clone()?)?;
        if let Some(limit) = watched {
            tokio::spawn(hog::watch(limit, isolated));
        }
        while let Some((port, connection)) = lifeline::accept(&socket).await? {
            if port == ENVD_PORT {
                tokio::spawn(serve_connection(connection, app.clone()));
            } else {
                let otherwise = (port == INTERPRETER_PORT).then(|| interpreter.clone());
                tokio::spawn(ports::relay(connection, port, otherwise));
            }
        }
        Ok::<_, io::Error>(())
    });
    // Blocking file operations may be under way; the sandbox does not outlive its server for them.
    runtime.shutdown_timeout(Duration::ZERO);
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => report(&lifeline, &Report::Failed(format!("serving the sandbox: {error}"))),
    }
}

async fn serve_connection(connection: UnixStream, app: Router) {
    let mut http = hyper::server::conn::http1::Builder::new();
    http.timer(TokioTimer::new());
    // The server on the other end ends connections; what it sent through is checked there.
    let _ = http.serve_connection(TokioIo::new(connection), TowerToHyperService::new(app)).await;
}

/// Everything envd answers, and the code interpreter. Must be called in a runtime: it starts reaping children.
fn apps(setup: Setup, options: Options, paths: Paths) -> io::Result<(Router, Router)> {
    let paths = Arc::new(paths);
    let token: Arc<str> = setup.access_token.expose().into();
    let processes = ProcessService::new(&setup, Arc::clone(&paths))?;
    let envs = Arc::new(processes.env().clone());
    let (isolated, limits) = (paths.are_isolated(), options.limits);
    let python = options.interpreter.unwrap_or_else(|| SYSTEM_PYTHON.into());
    let reaper = Arc::clone(processes.reaper());
    let interpreter = Interpreter::new(python, processes.env().clone(), Arc::clone(&paths), reaper);
    let interpreter = interpreter::routes(Arc::new(interpreter));
    let usage = Arc::new(Usage::new(paths.home(User::User), isolated, Some(limits.cpu_count()), limits.memory));
    let rpc = process::register(processes, connectrpc::Router::new());
    let rpc = filesystem::register(Arc::clone(&paths), rpc);
    let rpc = process::with_kill_deadlines(connectrpc::ConnectRpcService::new(rpc));
    let app = Router::new()
        .route("/health", axum::routing::get(|| async { StatusCode::NO_CONTENT }))
        .route("/metrics", axum::routing::get(move || metrics(Arc::clone(&usage))))
        .route("/envs", axum::routing::get(move || std::future::ready(axum::Json(exposed(&envs)))))
        .merge(files::routes(paths))
        .route_service("/process.Process/{method}", rpc.clone())
        .route_service("/filesystem.Filesystem/{method}", rpc)
        .fallback(no_such_route)
        .method_not_allowed_fallback(no_such_method)
        .layer(axum::middleware::from_fn(move |request, next| auth::check(Arc::clone(&token), request, next)));
    Ok((app, interpreter))
}

async fn metrics(usage: Arc<Usage>) -> Result<axum::Json<Metrics>, Refusal> {
    let measured = tokio::task::spawn_blocking(move || usage.measure()).await;
    let measured = measured.map_err(|error| Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))?;
    Ok(axum::Json(measured))
}

/// The variables with their values, for whoever has the token.
fn exposed(envs: &EnvVars) -> BTreeMap<String, String> {
    envs.iter().map(|(name, value)| (name.clone(), value.expose().to_owned())).collect()
}

async fn no_such_method(request: Request) -> Refusal {
    let (method, path) = (request.method(), request.uri().path());
    Refusal::new(StatusCode::METHOD_NOT_ALLOWED, format!("{} is not for {method}", path.escape_debug()))
}

async fn no_such_route(request: Request) -> Refusal {
    let (method, path) = (request.method(), request.uri().path());
    Refusal::new(StatusCode::NOT_FOUND, format!("envd of the local server has no {method} {}", path.escape_debug()))
}
