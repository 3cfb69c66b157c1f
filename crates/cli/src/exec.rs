//! `oncebox exec`: a command in a sandbox that is there already.

use std::pin::Pin;

use futures_util::Stream;
use oncebox::{Client, Command, CommandEvent, DurableCommand, DurableControl, Error, ErrorKind, Sandbox};
use tokio::io::AsyncReadExt;

use crate::args::ExecArgs;
use crate::exit::{self, Failure};
use crate::program::{Program, not_started};
use crate::run::{GOODBYE, Report, STDIN_PIECE, output};
use crate::serve::quoted;
use crate::signals::Signals;
use crate::usage::unknown;

/// The signal of `kill`, which a command cannot ignore.
const SIGKILL: u8 = 9;

/// The signal that asks a process to end.
const SIGTERM: u8 = 15;

/// What a command does, whichever kind it is.
type Events = Pin<Box<dyn Stream<Item = Result<CommandEvent, Error>> + Send>>;

/// What is done to the command while its output is passed on.
#[derive(Clone)]
enum Control {
    Plain { sandbox: Sandbox, pid: u32 },
    Durable(DurableControl),
}

pub(crate) async fn run(args: ExecArgs) -> Result<u8, Failure> {
    // What is no option begins the command; no command begins so, and an option that is misspelt does.
    if let Some(word) = args.command.first().filter(|word| word.starts_with('-')) {
        return Err(Failure::usage(unknown("oncebox exec", word, None, true)));
    }
    let program = Program {
        command: &args.command,
        timeout: args.timeout,
        env_file: args.env_file.as_deref(),
        env: &args.env,
        cwd: args.cwd.as_deref(),
        user: args.user.as_deref(),
    };
    let command = match &args.attach {
        Some(_) => None,
        None => Some(program.command()?.stdin(args.stdin)),
    };
    let mut signals = Signals::new()?;
    let client = args.connection.client(args.json)?;
    let result = in_sandbox(&client, &args, command, &mut signals).await;
    client.close().await;
    result
}

async fn in_sandbox(
    client: &Client,
    args: &ExecArgs,
    command: Option<Command>,
    signals: &mut Signals,
) -> Result<u8, Failure> {
    let failed = |error| Failure::of(&error, args.json);
    let sandbox = Sandbox::connect(client, &args.sandbox).await.map_err(failed)?;
    let started = tokio::select! {
        started = start(&sandbox, args, command) => started,
        // Dropped before it was answered: a durable command can be asked for by its id.
        signal = signals.next() => return Ok(exit::SIGNAL.saturating_add(signal)),
    };
    let (mut events, control) = started?;
    let mut report = Report::new(args.json);
    let input = args.stdin.then(|| tokio::spawn(pass_stdin(control.clone())));
    let mut asked = None;
    let result = {
        let output = output(&mut events, args.timeout, args.json, &mut report);
        tokio::pin!(output);
        loop {
            tokio::select! {
                ended = &mut output => break ended,
                signal = signals.next() => match asked.replace(signal) {
                    // The first is passed on: how it ends is the command's own affair.
                    None => control.signal(signal).await,
                    Some(_) => {
                        control.signal(SIGKILL).await;
                        break Ok(exit::SIGNAL.saturating_add(signal));
                    }
                },
            }
        }
    };
    if let Some(input) = input {
        input.abort();
    }
    if let Err(failure) = &result
        && failure.is_closed()
        && matches!(control, Control::Plain { .. })
    {
        // As SIGPIPE would, on this machine. What a durable command writes is kept, and can still be read.
        control.signal(SIGTERM).await;
    }
    if result.is_ok() {
        report.print(&sandbox)?;
    }
    result
}

/// Starts the command; without one attaches to the one that is named.
async fn start(sandbox: &Sandbox, args: &ExecArgs, command: Option<Command>) -> Result<(Events, Control), Failure> {
    let failed = |error: Error| not_started(&error, args.json);
    let durable = match (command, &args.id) {
        (None, _) => {
            let id = args.attach.as_deref().unwrap_or_default();
            let mut attach = sandbox.commands().attach(id);
            if let Some(user) = &args.user {
                attach = attach.user(user);
            }
            attach.await.map_err(failed)?
        }
        (Some(command), None) if !args.durable => {
            let handle = sandbox.commands().start(command).await.map_err(failed)?;
            let control = Control::Plain { sandbox: sandbox.clone(), pid: handle.pid() };
            return Ok((Box::pin(handle), control));
        }
        (Some(command), None) => sandbox.commands().durable(command).await.map_err(failed)?,
        (Some(command), Some(id)) => {
            let durable = sandbox.commands().durable(command).id(id).await.map_err(failed)?;
            same(&durable, args).await?;
            durable
        }
    };
    let control = Control::Durable(durable.control());
    Ok((Box::pin(durable), control))
}

/// Whether what is there under the id is what was to be started. A command of whose words nothing is kept is taken for it.
async fn same(durable: &DurableCommand, args: &ExecArgs) -> Result<(), Failure> {
    let id = durable.id();
    match durable.argv().await.map_err(|error| Failure::of(&error, args.json))? {
        Some(there) if there != args.command => Err(Failure::usage(format!(
            "--id {id:?} is of another command, `{}`, so that `{}` was not started: give it an id of its own, or follow the \
             other by --attach {id}",
            shown(&there),
            shown(&args.command)
        ))),
        _ => Ok(()),
    }
}

/// A command as a shell would need it, as far as that can be read at a glance.
fn shown(words: &[String]) -> String {
    const MOST: usize = 200;
    let line = words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ").replace(char::is_control, "?");
    match line.char_indices().nth(MOST) {
        Some((cut, _)) => format!("{}…", &line[..cut]),
        None => line,
    }
}

impl Control {
    /// Passes a signal on. A sandbox's daemon knows only two, so that a plain command is asked to end by either.
    async fn signal(&self, signal: u8) {
        let sent = async {
            match self {
                Self::Plain { sandbox, pid } if signal == SIGKILL => sandbox.commands().kill(*pid).await,
                Self::Plain { sandbox, pid } => sandbox.commands().terminate(*pid).await,
                Self::Durable(control) => control.signal(signal).await,
            }
        };
        match tokio::time::timeout(GOODBYE, sent).await {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => exit::say(format!("the signal was not passed on, the command may go on: {error}")),
            Err(_) => exit::say(format!("the signal was not answered in {GOODBYE:?}, the command may go on")),
        }
    }

    async fn send(&self, data: Vec<u8>) -> Result<(), Error> {
        match self {
            Self::Plain { sandbox, pid } => sandbox.commands().send_stdin(*pid, data).await,
            Self::Durable(control) => control.send_stdin(data).await,
        }
    }

    async fn close(&self) -> Result<(), Error> {
        match self {
            Self::Plain { sandbox, pid } => sandbox.commands().close_stdin(*pid).await,
            Self::Durable(control) => control.close_stdin().await,
        }
    }
}

async fn pass_stdin(control: Control) {
    let mut stdin = tokio::io::stdin();
    let mut piece = vec![0; STDIN_PIECE];
    let sent = loop {
        match stdin.read(&mut piece).await {
            Ok(0) => break control.close().await,
            Ok(n) => {
                if let Err(error) = control.send(piece[..n].to_vec()).await {
                    break Err(error);
                }
            }
            Err(error) => {
                exit::say(format!("standard input could not be read: {error}"));
                break control.close().await;
            }
        }
    };
    match sent {
        // A command that ended, or closed its input, wants no more of it.
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => exit::say(format!("standard input was not passed on to its end: {error}")),
    }
}
