//! `oncebox run`: one command in a sandbox, its output as it comes, its own exit code.

mod report;

use std::io;
use std::time::Duration;

use oncebox::{Client, Command, CommandEvent, CommandHandle, Error, ErrorKind, Sandbox};
use tokio::io::{AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::task::JoinHandle;

use crate::args::{ConnectionArgs, RunArgs};
use crate::exit::{self, Failure};
use crate::serve::{host, start_failure};
use crate::signals::Signals;
use report::Report;

/// The sandbox's lifetime is kept at this while the command runs, so that it soon ends by itself should this program
/// be killed.
const LIFETIME: Duration = Duration::from_secs(300);

/// How often the lifetime is set anew.
const LIFETIME_REFRESH: Duration = Duration::from_secs(60);

/// How long a create or a kill that is under way is waited for once the program is asked to end.
const GOODBYE: Duration = Duration::from_secs(10);

/// Standard input is passed on in pieces of at most this size.
const STDIN_PIECE: usize = 64 << 10;

pub(crate) async fn run(args: RunArgs) -> Result<u8, Failure> {
    let command = command(&args)?;
    let mut signals = Signals::new()?;
    let client = client(&args).await?;
    let result = in_sandbox(&client, &args, command, &mut signals).await;
    client.close().await;
    result
}

async fn in_sandbox(client: &Client, args: &RunArgs, command: Command, signals: &mut Signals) -> Result<u8, Failure> {
    let failed = |error| Failure::of(&error, args.json);
    let make = make(client, args);
    tokio::pin!(make);
    let sandbox = tokio::select! {
        made = &mut make => made.map_err(failed)?,
        signal = signals.next() => {
            // The create is under way: what it makes must not be left behind.
            if let Ok(Ok(sandbox)) = tokio::time::timeout(GOODBYE, make).await {
                end(&sandbox, args).await;
            }
            return Ok(exit::SIGNAL + signal);
        }
    };
    let alive = args.sandbox.is_none().then(|| keep_alive(sandbox.clone()));
    let mut report = Report::new(args.json);
    let result = tokio::select! {
        ended = follow(&sandbox, args, command, &mut report) => ended,
        signal = signals.next() => Ok(exit::SIGNAL + signal),
    };
    if let Some(alive) = alive {
        alive.abort();
    }
    end(&sandbox, args).await;
    if result.is_ok() {
        report.print(&sandbox);
    }
    result
}

/// Starts the command and passes its output on until it ends.
async fn follow(sandbox: &Sandbox, args: &RunArgs, command: Command, report: &mut Report) -> Result<u8, Failure> {
    let mut handle = sandbox.commands().start(command).await.map_err(|error| not_started(&error, args))?;
    let input = args.stdin.then(|| pass_stdin(sandbox.clone(), handle.pid()));
    let result = output(&mut handle, args, report).await;
    if let Some(input) = input {
        input.abort();
    }
    result
}

async fn output(handle: &mut CommandHandle, args: &RunArgs, report: &mut Report) -> Result<u8, Failure> {
    let (mut stdout, mut stderr) = (tokio::io::stdout(), tokio::io::stderr());
    while let Some(event) = handle.next().await {
        let written = match event.map_err(|error| Failure::of(&error, args.json))? {
            CommandEvent::Stdout(bytes) if report.is_wanted() => report.stdout(&bytes),
            CommandEvent::Stderr(bytes) if report.is_wanted() => report.stderr(&bytes),
            CommandEvent::Stdout(bytes) => write(&mut stdout, &bytes).await,
            CommandEvent::Stderr(bytes) => write(&mut stderr, &bytes).await,
            CommandEvent::Exit(exit) => {
                let code = report.exit(exit, args.timeout);
                if code == exit::TIMED_OUT && !args.json {
                    eprintln!("oncebox: the command was killed after {:?} (--timeout)", args.timeout);
                }
                return Ok(code);
            }
            _ => Ok(()),
        };
        // Whoever read our output has gone; the command's is of no use to anybody.
        written.map_err(|error| match error.kind() {
            io::ErrorKind::BrokenPipe => Failure::infrastructure("nobody reads the output any more"),
            _ => Failure::infrastructure(format!("the output could not be written: {error}")),
        })?;
    }
    Err(Failure::infrastructure("the command's end was not told"))
}

async fn write(to: &mut (impl AsyncWrite + Unpin), bytes: &[u8]) -> io::Result<()> {
    to.write_all(bytes).await?;
    to.flush().await
}

async fn make(client: &Client, args: &RunArgs) -> Result<Sandbox, Error> {
    if let Some(id) = &args.sandbox {
        return Sandbox::connect(client, id).await;
    }
    let mut create = Sandbox::create(client).template(&args.template).lifetime(LIFETIME);
    for (name, value) in &args.metadata {
        create = create.metadata(name, value);
    }
    create.await
}

async fn end(sandbox: &Sandbox, args: &RunArgs) {
    if args.sandbox.is_some() {
        return;
    }
    let left = |why: String| {
        eprintln!("oncebox: sandbox {} may still run, for at most {LIFETIME:?}: {why}", sandbox.id());
    };
    match tokio::time::timeout(GOODBYE, sandbox.kill()).await {
        Ok(Ok(_)) => {}
        Ok(Err(error)) => left(error.to_string()),
        Err(_) => left(format!("the kill was not answered in {GOODBYE:?}")),
    }
}

fn keep_alive(sandbox: Sandbox) -> JoinHandle<()> {
    tokio::spawn(async move {
        let mut ticks = tokio::time::interval(LIFETIME_REFRESH);
        ticks.tick().await; // the first comes at once, and the lifetime is fresh
        loop {
            ticks.tick().await;
            if let Err(error) = sandbox.set_timeout(LIFETIME).await {
                tracing::warn!(%error, "the sandbox's lifetime could not be extended");
            }
        }
    })
}

fn pass_stdin(sandbox: Sandbox, pid: u32) -> JoinHandle<()> {
    tokio::spawn(async move {
        let mut stdin = tokio::io::stdin();
        let mut piece = vec![0; STDIN_PIECE];
        let sent = loop {
            match stdin.read(&mut piece).await {
                Ok(0) => break sandbox.commands().close_stdin(pid).await,
                Ok(n) => {
                    if let Err(error) = sandbox.commands().send_stdin(pid, piece[..n].to_vec()).await {
                        break Err(error);
                    }
                }
                Err(error) => {
                    eprintln!("oncebox: standard input could not be read: {error}");
                    break sandbox.commands().close_stdin(pid).await;
                }
            }
        };
        match sent {
            // A command that ended, or closed its input, wants no more of it.
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => tracing::warn!(%error, "standard input was not passed on"),
        }
    })
}

async fn client(args: &RunArgs) -> Result<Client, Failure> {
    if args.local {
        let host = host(args.no_isolation)?;
        let server = host.start().await.map_err(|error| start_failure(&error))?;
        return Client::of(server).map_err(|error| Failure::of(&error, args.json));
    }
    let ConnectionArgs { domain, api_url, sandbox_url, request_timeout, retries, connection_retries } =
        &args.connection;
    let mut builder = Client::builder();
    if let Some(domain) = domain {
        builder = builder.domain(domain);
    }
    if let Some(url) = api_url {
        builder = builder.api_url(url);
    }
    if let Some(url) = sandbox_url {
        builder = builder.sandbox_url(url);
    }
    if let Some(timeout) = request_timeout {
        builder = builder.request_timeout(*timeout);
    }
    if let Some(retries) = retries {
        builder = builder.retries(*retries);
    }
    if let Some(retries) = connection_retries {
        builder = builder.connection_retries(*retries);
    }
    builder.build().map_err(|error| match error.kind() {
        ErrorKind::Authentication => Failure::usage(
            "no API key: set E2B_API_KEY to use a sandbox provider, or add --local to run on this machine",
        ),
        _ => Failure::of(&error, args.json),
    })
}

fn command(args: &RunArgs) -> Result<Command, Failure> {
    let Some((program, arguments)) = args.command.split_first() else {
        return Err(Failure::usage("the command is empty"));
    };
    let mut command = Command::new(program).args(arguments).timeout(args.timeout).stdin(args.stdin);
    if let Some(path) = &args.env_file {
        let text = std::fs::read_to_string(path)
            .map_err(|error| Failure::usage(format!("--env-file {}: {error}", path.display())))?;
        for (number, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let Some((name, value)) = line.split_once('=') else {
                return Err(Failure::usage(format!(
                    "--env-file {}, line {}: it must look like NAME=VALUE",
                    path.display(),
                    number + 1
                )));
            };
            command = command.env(name.trim(), value);
        }
    }
    for (name, value) in &args.env {
        command = command.env(name, value);
    }
    if let Some(cwd) = &args.cwd {
        command = command.cwd(cwd);
    }
    if let Some(user) = &args.user {
        command = command.user(user);
    }
    command.validate().map_err(|error| Failure::usage(&error))?;
    Ok(command)
}

/// envd says what went wrong in words only.
fn not_started(error: &Error, args: &RunArgs) -> Failure {
    let failure = Failure::of(error, args.json);
    if error.kind() != ErrorKind::InvalidArgument {
        return failure;
    }
    let text = error.to_string().to_lowercase();
    let missing = text.contains("not found") || text.contains("no such file");
    failure.with_code(if missing { exit::NOT_FOUND } else { exit::NOT_EXECUTABLE })
}
