//! `oncebox exec`: a command in a sandbox that is there already.

use std::pin::Pin;

use futures_util::Stream;
use oncebox::{Client, Command, CommandEvent, DurableCommand, DurableControl, Error, ErrorKind, Sandbox};
use tokio::io::AsyncReadExt;

use crate::args::ExecArgs;
use crate::exit::{self, Failure};
use crate::program::{Program, not_started};
use crate::run::{GOODBYE, Report, STDIN_PIECE, output};
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
        return Err(Failure::usage(unknown("oncebox exec", word, None)));
    }
    let program = Program {
        command: &args.command,
        timeout: args.timeout,
        env_file: args.env_file.as_deref(),
        env: &args.env,
        cwd: args.cwd.as_deref(),
        user: args.user.as_deref(),
    };
    let command = program.command()?.stdin(args.stdin);
    let mut signals = Signals::new()?;
    let client = args.connection.client(args.json)?;
    let result = in_sandbox(&client, &args, command, &mut signals).await;
    client.close().await;
    result
}

async fn in_sandbox(client: &Client, args: &ExecArgs, command: Command, signals: &mut Signals) -> Result<u8, Failure> {
    let failed = |error| Failure::of(&error, args.json);
    let sandbox = Sandbox::connect(client, &args.sandbox).await.map_err(failed)?;
    let started = tokio::select! {
        started = start(&sandbox, args, command) => started,
        // Dropped before it was answered: a durable command can be asked for by its id.
        signal = signals.next() => return Ok(exit::SIGNAL.saturating_add(signal)),
    };
    let (mut events, control) = started.map_err(|error| not_started(&error, args.json))?;
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

async fn start(sandbox: &Sandbox, args: &ExecArgs, command: Command) -> Result<(Events, Control), Error> {
    if !args.durable && args.id.is_none() {
        let handle = sandbox.commands().start(command).await?;
        let control = Control::Plain { sandbox: sandbox.clone(), pid: handle.pid() };
        return Ok((Box::pin(handle), control));
    }
    let mut start = sandbox.commands().durable(command);
    if let Some(id) = &args.id {
        start = start.id(id);
    }
    let durable: DurableCommand = start.await?;
    let control = Control::Durable(durable.control());
    Ok((Box::pin(durable), control))
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
