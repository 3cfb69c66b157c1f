//! A process of the sandbox, from its start until nobody needs to know of it any more.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use oncebox_protocol::envd::process::process_event::EndEvent;
use oncebox_protocol::envd::process::{ProcessConfig, ProcessInfo};
use rustix::process::{Signal, WaitStatus};
use tokio::sync::{Mutex, mpsc, oneshot, watch};

use super::ending::end_event;
use super::output::{Channel, Chunk, Listeners, Source, pump};
use super::reaper::Reaper;
use super::terminal;

/// What to start.
pub(super) struct Launch {
    pub(super) config: ProcessConfig,
    pub(super) tag: Option<String>,
    pub(super) command: Command,
    /// Whether it gets a standard input to write to; otherwise it reads the end of file.
    pub(super) stdin: bool,
    /// The size of its terminal in columns and rows, if it is to have one, which then is its input and its outputs.
    pub(super) terminal: Option<(u16, u16)>,
    /// When it is killed.
    pub(super) deadline: Option<Duration>,
}

/// A started process.
#[derive(Debug)]
pub(super) struct Running {
    config: ProcessConfig,
    tag: Option<String>,
    pid: u32,
    gone: watch::Receiver<bool>,
    stdin: Mutex<Option<Channel>>,
    terminal: Option<Arc<Channel>>,
    listeners: Arc<Listeners>,
    end: watch::Receiver<Option<EndEvent>>,
    reaper: Arc<Reaper>,
}

impl Running {
    /// Starts a process whose whole output goes to the returned channel, unless that is dropped.
    pub(super) async fn start(launch: Launch, reaper: &Arc<Reaper>) -> io::Result<(Arc<Self>, mpsc::Receiver<Chunk>)> {
        let Launch { config, tag, command, stdin, terminal, deadline } = launch;
        let Spawned { pid, status, stdin, terminal, outputs } = match terminal {
            Some(size) => on_terminal(&command, size, reaper).await?,
            None => on_pipes(command, stdin, reaper)?,
        };
        let listeners = Arc::new(Listeners::new());
        let first = listeners.join();
        let (ended, is_ended) = watch::channel(false);
        let (complete, mut all_complete) = mpsc::channel::<()>(1);
        for (source, output) in outputs {
            tokio::spawn(pump(output, source, Arc::clone(&listeners), is_ended.clone(), complete.clone()));
        }
        drop(complete);
        let (tell_end, end) = watch::channel(None);
        let running = Arc::new(Self {
            config,
            tag,
            pid,
            gone: is_ended,
            stdin: Mutex::new(stdin),
            terminal,
            listeners,
            end,
            reaper: Arc::clone(reaper),
        });
        let ending = Arc::clone(&running);
        tokio::spawn(async move {
            let status = ending.killed_at(deadline, status).await;
            ended.send_replace(true);
            // Ends when each pump has dropped its half, which is when all output has been handed on.
            let _ = all_complete.recv().await;
            tell_end.send_replace(Some(end_event(status)));
            ending.listeners.close();
        });
        Ok((running, first))
    }

    /// Waits for the process, and kills it when its time is over.
    async fn killed_at<T>(
        &self,
        deadline: Option<Duration>,
        status: impl Future<Output = Result<T, impl Sized>>,
    ) -> Option<T> {
        tokio::pin!(status);
        if let Some(deadline) = deadline {
            tokio::select! {
                status = &mut status => return status.ok(),
                () = tokio::time::sleep(deadline) => {}
            }
            // Only the process itself, as envd does: what it left in the background goes on.
            let _ = self.reaper.signal(self.pid, Signal::KILL);
        }
        status.await.ok()
    }

    pub(super) fn pid(&self) -> u32 {
        self.pid
    }

    pub(super) fn tag(&self) -> Option<&str> {
        self.tag.as_deref()
    }

    pub(super) fn is_alive(&self) -> bool {
        !*self.gone.borrow()
    }

    pub(super) fn info(&self) -> ProcessInfo {
        ProcessInfo {
            config: buffa::MessageField::some(self.config.clone()),
            pid: self.pid,
            tag: self.tag.clone(),
            ..ProcessInfo::default()
        }
    }

    /// Hears the output from now on.
    pub(super) fn listen(&self) -> mpsc::Receiver<Chunk> {
        self.listeners.join()
    }

    /// How it ended, once it has.
    pub(super) fn end(&self) -> watch::Receiver<Option<EndEvent>> {
        self.end.clone()
    }

    /// Signals the process itself, not its group; `false` if it is gone.
    pub(super) fn signal(&self, signal: Signal) -> io::Result<bool> {
        self.reaper.signal(self.pid, signal)
    }

    /// Waits until it has been reaped, for at most `limit`: a process in the middle of a system call dies when that is over.
    pub(super) async fn gone_within(&self, limit: Duration) {
        // An error is an end too.
        let _ = tokio::time::timeout(limit, self.gone.clone().wait_for(|gone| *gone)).await;
    }

    /// Writes all of `data` to its standard input, as fast as it reads.
    pub(super) async fn write_stdin(&self, data: &[u8]) -> io::Result<()> {
        if self.terminal.is_some() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "its input is a terminal's: send it as pty"));
        }
        match self.stdin.lock().await.as_ref() {
            Some(stdin) => stdin.write_all(data).await,
            None => Err(io::Error::new(io::ErrorKind::BrokenPipe, "stdin not enabled or closed")),
        }
    }

    /// Types `data` on its terminal.
    pub(super) async fn write_terminal(&self, data: &[u8]) -> io::Result<()> {
        let terminal = self.terminal()?;
        // One writer at a time, so that what two requests type does not mix.
        let _typing = self.stdin.lock().await;
        terminal.write_all(data).await
    }

    /// Changes its terminal's size.
    pub(super) fn resize(&self, size: (u16, u16)) -> io::Result<()> {
        terminal::resize(self.terminal()?.descriptor(), size)
    }

    fn terminal(&self) -> io::Result<&Channel> {
        self.terminal.as_deref().ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "it has no tty"))
    }

    /// Gives it the end of file. Again is as good. A terminal has none that could be given so.
    pub(super) async fn close_stdin(&self) -> io::Result<()> {
        if self.terminal.is_some() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "a terminal is not closed: send it 0x04"));
        }
        self.stdin.lock().await.take();
        Ok(())
    }
}

/// A process just started, and our ends of what it reads and writes.
struct Spawned {
    pid: u32,
    status: oneshot::Receiver<WaitStatus>,
    stdin: Option<Channel>,
    terminal: Option<Arc<Channel>>,
    outputs: Vec<(Source, Arc<Channel>)>,
}

fn on_pipes(mut command: Command, stdin: bool, reaper: &Reaper) -> io::Result<Spawned> {
    command.stdin(if stdin { Stdio::piped() } else { Stdio::null() });
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    // A group of its own, so that a shell's `kill 0` ends what it started and not envd.
    command.process_group(0);
    let (mut child, status) = reaper.spawn(&mut command)?;
    let stdin = child.stdin.take().map(|pipe| Channel::new(pipe.into())).transpose()?;
    let pipes: [(Source, Option<OwnedFd>); 2] =
        [(Source::Stdout, child.stdout.take().map(Into::into)), (Source::Stderr, child.stderr.take().map(Into::into))];
    let mut outputs = Vec::new();
    for (source, pipe) in pipes {
        if let Some(pipe) = pipe {
            outputs.push((source, Arc::new(Channel::new(pipe)?)));
        }
    }
    Ok(Spawned { pid: child.id(), status, stdin, terminal: None, outputs })
}

async fn on_terminal(command: &Command, size: (u16, u16), reaper: &Reaper) -> io::Result<Spawned> {
    let (ours, theirs) = terminal::open(size)?;
    let (mut command, problem) = terminal::on_terminal(command, theirs)?;
    let (child, status) = reaper.spawn(&mut command)?;
    // It holds the process's ends: while they are open, the terminal does not end, nor does the pipe.
    drop(command);
    tokio::task::spawn_blocking(|| terminal::started(problem)).await.map_err(io::Error::other)??;
    let terminal = Arc::new(Channel::new(ours)?);
    let outputs = vec![(Source::Terminal, Arc::clone(&terminal))];
    Ok(Spawned { pid: child.id(), status, stdin: None, terminal: Some(terminal), outputs })
}
