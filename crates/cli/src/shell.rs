//! `oncebox shell`: a terminal in a sandbox.

use std::io::{self, IsTerminal, Write};

use oncebox::{Client, Command, CommandEvent, CommandHandle, Error, ErrorKind, Sandbox, StreamOptions, TerminalSize};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use tokio::io::AsyncReadExt;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

use crate::args::ShellArgs;
use crate::exit::{self, Failure};
use crate::run::GOODBYE;
use crate::signals::Signals;

/// What a terminal without a size of its own is taken for.
const DEFAULT_SIZE: TerminalSize = TerminalSize { cols: 80, rows: 24 };

/// Keys are passed on in pieces of at most this size.
const PIECE: usize = 4 << 10;

pub(crate) async fn run(args: ShellArgs) -> Result<u8, Failure> {
    if !io::stdin().is_terminal() {
        return Err(Failure::usage("standard input is no terminal: use `oncebox exec -i`"));
    }
    let mut signals = Signals::new()?;
    let client = args.connection.client(false)?;
    let result = in_sandbox(&client, &args, &mut signals).await;
    client.close().await;
    result
}

async fn in_sandbox(client: &Client, args: &ShellArgs, signals: &mut Signals) -> Result<u8, Failure> {
    let failed = |error: Error| Failure::of(&error, false);
    let sandbox = Sandbox::connect(client, &args.sandbox).await.map_err(failed)?;
    let mut shell = match args.attach {
        Some(pid) => {
            let shell = sandbox.pty().connect(pid, StreamOptions::new()).await.map_err(failed)?;
            shell.resize(size()).await.map_err(failed)?;
            shell
        }
        None => sandbox.commands().start(command(args)?).await.map_err(failed)?,
    };
    let pid = shell.pid();
    let result = {
        let _raw = Raw::new()?;
        follow(&sandbox, &mut shell, signals).await
    };
    // Said when the terminal is as it was.
    match result {
        Ended::Exited(code) => Ok(code),
        Ended::Signal(number) => {
            // As a connection that hangs up ends a shell.
            match tokio::time::timeout(GOODBYE, sandbox.pty().kill(pid)).await {
                Ok(Ok(_)) => {}
                _ => exit::say(format!("the shell, process {pid}, may still run")),
            }
            Ok(exit::SIGNAL.saturating_add(number))
        }
        Ended::Lost(error) => {
            let again = format!("oncebox shell {} --attach {pid}", sandbox.id());
            Err(Failure::infrastructure(format!("{error}; where it runs on, `{again}` attaches to it again")))
        }
    }
}

fn command(args: &ShellArgs) -> Result<Command, Failure> {
    let mut command = match args.command.split_first() {
        Some((program, arguments)) => Command::new(program).args(arguments).terminal(size()),
        None => Command::login_shell(size()),
    };
    command = command.timeout(std::time::Duration::ZERO);
    for (name, value) in &args.env {
        command = command.env(name, value);
    }
    if let Some(cwd) = &args.cwd {
        command = command.cwd(cwd);
    }
    if let Some(user) = &args.user {
        command = command.user(user);
    }
    command.validate().map_err(|error| Failure::of(&error, false))?;
    Ok(command)
}

enum Ended {
    Exited(u8),
    Signal(u8),
    Lost(Error),
}

/// Passes keys, sizes and output on until the shell ends.
async fn follow(sandbox: &Sandbox, shell: &mut CommandHandle, signals: &mut Signals) -> Ended {
    let pid = shell.pid();
    let typing = tokio::spawn(pass_keys(sandbox.clone(), pid));
    let resizing = tokio::spawn(pass_sizes(sandbox.clone(), pid));
    let ended = loop {
        tokio::select! {
            event = shell.next() => match event {
                Some(Ok(CommandEvent::Pty(bytes) | CommandEvent::Stdout(bytes) | CommandEvent::Stderr(bytes))) => {
                    show(&bytes);
                }
                Some(Ok(CommandEvent::Gap(_))) => {
                    show(b"\r\n[oncebox: the connection was lost and made again; output may be missing]\r\n");
                    // A program that fills the screen draws it anew when its size changes.
                    redraw(sandbox, pid).await;
                }
                Some(Ok(CommandEvent::Exit(exit))) => {
                    let code = exit.signal().map_or(exit.code as u8, |number| exit::SIGNAL.saturating_add(number));
                    break Ended::Exited(code);
                }
                Some(Ok(_)) => {}
                Some(Err(error)) => break Ended::Lost(error),
                None => break Ended::Exited(exit::INFRASTRUCTURE),
            },
            signal = signals.next() => break Ended::Signal(signal),
        }
    };
    typing.abort();
    resizing.abort();
    ended
}

/// Nobody looking any more is no reason to end the shell.
fn show(bytes: &[u8]) {
    let mut stdout = io::stdout();
    let _ = stdout.write_all(bytes).and_then(|()| stdout.flush());
}

/// What is typed while a piece is on its way goes with the next one, in order.
async fn pass_keys(sandbox: Sandbox, pid: u32) {
    let (typed, mut keys) = mpsc::channel::<Vec<u8>>(64);
    tokio::spawn(async move {
        let mut stdin = tokio::io::stdin();
        let mut piece = vec![0; PIECE];
        while let Ok(n @ 1..) = stdin.read(&mut piece).await {
            if typed.send(piece[..n].to_vec()).await.is_err() {
                return;
            }
        }
    });
    while let Some(mut data) = keys.recv().await {
        while let Ok(more) = keys.try_recv() {
            data.extend(more);
        }
        match sandbox.pty().send(pid, data).await {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::NotFound => return,
            Err(_) => show(b"\r\n[oncebox: what was typed last may not have arrived]\r\n"),
        }
    }
}

async fn pass_sizes(sandbox: Sandbox, pid: u32) {
    let Ok(mut changes) = signal(SignalKind::window_change()) else { return };
    while changes.recv().await.is_some() {
        if let Err(error) = sandbox.pty().resize(pid, size()).await {
            tracing::debug!(%error, "the terminal's size was not passed on");
        }
    }
}

async fn redraw(sandbox: &Sandbox, pid: u32) {
    let size = size();
    for size in [TerminalSize { rows: size.rows.saturating_sub(1).max(1), ..size }, size] {
        if let Err(error) = sandbox.pty().resize(pid, size).await {
            tracing::debug!(%error, "the screen was not drawn anew");
        }
    }
}

fn size() -> TerminalSize {
    match tcgetwinsize(io::stdin()) {
        Ok(size) if size.ws_col > 0 && size.ws_row > 0 => TerminalSize::new(size.ws_col, size.ws_row),
        _ => DEFAULT_SIZE,
    }
}

/// The terminal as the far shell needs it, which is as it was when this is dropped.
struct Raw(Termios);

impl Raw {
    fn new() -> Result<Self, Failure> {
        let failed = |error| Failure::infrastructure(format!("the terminal could not be set: {error}"));
        let before = tcgetattr(io::stdin()).map_err(failed)?;
        let mut raw = before.clone();
        raw.make_raw();
        tcsetattr(io::stdin(), OptionalActions::Now, &raw).map_err(failed)?;
        Ok(Self(before))
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        let _ = tcsetattr(io::stdin(), OptionalActions::Drain, &self.0);
    }
}
