//! `oncebox run`: one command in a sandbox, its output as it comes, its own exit code.

mod report;

use std::io;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures_util::{Stream, StreamExt};
use oncebox::{Client, Command, CommandEvent, Error, ErrorKind, Sandbox};
use tokio::io::{AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::task::JoinHandle;

use crate::args::RunArgs;
use crate::exit::{self, Failure};
use crate::program::{Program, not_started};
use crate::signals::Signals;
pub(crate) use report::Report;

/// The sandbox's lifetime is kept at this while the command runs, so that it soon ends by itself should this program
/// be killed.
const LIFETIME: Duration = Duration::from_secs(300);

/// How often the lifetime is set anew.
const LIFETIME_REFRESH: Duration = Duration::from_secs(60);

/// How long a create or a kill that is under way is waited for once the program is asked to end.
pub(crate) const GOODBYE: Duration = Duration::from_secs(10);

/// Standard input is passed on in pieces of at most this size.
pub(crate) const STDIN_PIECE: usize = 64 << 10;

pub(crate) async fn run(args: RunArgs) -> Result<u8, Failure> {
    let program = Program {
        command: &args.program.command,
        timeout: args.program.timeout,
        env_file: args.env_file.as_deref(),
        env: &args.program.env,
        cwd: args.cwd.as_deref(),
        user: args.user.as_deref(),
    };
    let command = program.command()?.stdin(args.stdin);
    let mut signals = Signals::new()?;
    let client = args.connection.client(None, args.json).await?;
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
            let made = tokio::select! {
                made = tokio::time::timeout(GOODBYE, make) => made.ok(),
                _ = signals.next() => None,
            };
            match made {
                Some(Ok(sandbox)) => end(&sandbox, args).await,
                Some(Err(error)) if error.may_have_been_processed() => exit::say(&error),
                Some(Err(_)) => {}
                None if args.sandbox.is_some() => {}
                None => exit::say(format!(
                    "the create was not answered yet: a sandbox may exist, for at most {LIFETIME:?}; its metadata \
                     oncebox.intent tells it apart"
                )),
            }
            return Ok(exit::SIGNAL.saturating_add(signal));
        }
    };
    let alive = keep_alive(sandbox.clone());
    let mut report = Report::new(args.json);
    let mut running = None;
    let result = tokio::select! {
        ended = follow(&sandbox, args, command, &mut report, &mut running) => ended,
        signal = signals.next() => Ok(exit::SIGNAL.saturating_add(signal)),
    };
    alive.abort();
    if let Some(pid) = running.filter(|_| args.sandbox.is_some()) {
        kill(&sandbox, pid).await;
    }
    end(&sandbox, args).await;
    if result.is_ok() {
        report.print(&sandbox)?;
    }
    result
}

/// Starts the command and passes its output on until it ends. `running` is its process while it runs.
async fn follow(
    sandbox: &Sandbox,
    args: &RunArgs,
    command: Command,
    report: &mut Report,
    running: &mut Option<u32>,
) -> Result<u8, Failure> {
    let mut handle = sandbox.commands().start(command).await.map_err(|error| not_started(&error, args.json))?;
    *running = Some(handle.pid());
    let input = args.stdin.then(|| pass_stdin(sandbox.clone(), handle.pid()));
    let timeout = args.program.timeout;
    let result = output(&mut handle, timeout, args.json, report).await;
    if let Some(input) = input {
        input.abort();
    }
    if result.is_ok() {
        *running = None;
    }
    result
}

/// Passes a command's output on until it ends.
pub(crate) async fn output(
    events: &mut (impl Stream<Item = Result<CommandEvent, Error>> + Unpin),
    timeout: Duration,
    json: bool,
    report: &mut Report,
) -> Result<u8, Failure> {
    let (mut stdout, mut stderr) = (tokio::io::stdout(), tokio::io::stderr());
    while let Some(event) = events.next().await {
        let written = match event.map_err(|error| Failure::of(&error, json))? {
            CommandEvent::Stdout(bytes) if report.is_wanted() => report.stdout(&bytes),
            CommandEvent::Stderr(bytes) if report.is_wanted() => report.stderr(&bytes),
            CommandEvent::Stdout(bytes) => write(&mut stdout, &bytes).await,
            CommandEvent::Stderr(bytes) => write(&mut stderr, &bytes).await,
            CommandEvent::Gap(how) => {
                if !json {
                    exit::say(format!("output may be missing here: {how}"));
                }
                report.gap(how);
                Ok(())
            }
            CommandEvent::Exit(exit) => {
                let ended = report.exit(exit);
                if ended.timed_out && !json {
                    exit::say(format!("the command was killed after {:?} (--timeout)", timeout));
                }
                return Ok(ended.code);
            }
            _ => Ok(()),
        };
        // Where whoever read our output has gone, the command's is of no use to anybody.
        written.map_err(|error| Failure::unwritten(&error))?;
    }
    Err(Failure::infrastructure("the command's end was not told"))
}

/// In a sandbox that goes on living, a command that nobody follows any more would, too.
async fn kill(sandbox: &Sandbox, pid: u32) {
    let left = match tokio::time::timeout(GOODBYE, sandbox.commands().kill(pid)).await {
        Ok(Ok(_)) => return,
        Ok(Err(error)) => error.to_string(),
        Err(_) => format!("the kill was not answered in {GOODBYE:?}"),
    };
    exit::say(format!("process {pid} may still run in sandbox {}: {left}", sandbox.id()));
}

async fn write(to: &mut (impl AsyncWrite + Unpin), bytes: &[u8]) -> io::Result<()> {
    to.write_all(bytes).await?;
    to.flush().await
}

async fn make(client: &Client, args: &RunArgs) -> Result<Sandbox, Error> {
    if let Some(id) = &args.sandbox {
        return Sandbox::connect(client, id).await;
    }
    let mut create = Sandbox::create(client).template(&args.program.template).lifetime(LIFETIME);
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
        exit::say(format!("sandbox {} may still run, for at most {LIFETIME:?}: {why}", sandbox.id()));
    };
    match tokio::time::timeout(GOODBYE, sandbox.kill()).await {
        Ok(Ok(_)) => {}
        Ok(Err(error)) => left(error.to_string()),
        Err(_) => left(format!("the kill was not answered in {GOODBYE:?}")),
    }
}

/// Keeps the sandbox's lifetime from running out, and never shortens it.
fn keep_alive(sandbox: Sandbox) -> JoinHandle<()> {
    tokio::spawn(async move {
        let mut ticks = tokio::time::interval(LIFETIME_REFRESH);
        ticks.tick().await; // the first comes at once, and the lifetime is fresh
        loop {
            ticks.tick().await;
            if let Err(error) = extend(&sandbox).await {
                tracing::warn!(%error, "the sandbox's lifetime could not be extended");
            }
        }
    })
}

async fn extend(sandbox: &Sandbox) -> Result<(), Error> {
    let info = sandbox.info().await?;
    let end_at = u64::try_from(info.end_at.as_second()).unwrap_or_default();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_secs());
    if end_at < now + LIFETIME.as_secs() { sandbox.set_timeout(LIFETIME).await } else { Ok(()) }
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
                    exit::say(format!("standard input could not be read: {error}"));
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
