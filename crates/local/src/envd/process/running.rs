//! A process of the sandbox, from its start until nobody needs to know of it any more.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use oncebox_protocol::envd::process::process_event::EndEvent;
use oncebox_protocol::envd::process::{ProcessConfig, ProcessInfo};
use rustix::process::Signal;
use tokio::io::AsyncWriteExt;
use tokio::net::unix::pipe;
use tokio::sync::{Mutex, mpsc, watch};

use super::ending::end_event;
use super::output::{Chunk, Listeners, Source, pump};
use super::reaper::Reaper;

/// What to start.
pub(super) struct Launch {
    pub(super) config: ProcessConfig,
    pub(super) tag: Option<String>,
    pub(super) command: Command,
    /// Whether it gets a standard input to write to; otherwise it reads the end of file.
    pub(super) stdin: bool,
    /// When it is killed.
    pub(super) deadline: Option<Duration>,
}

/// A started process.
#[derive(Debug)]
pub(super) struct Running {
    config: ProcessConfig,
    tag: Option<String>,
    pid: u32,
    alive: AtomicBool,
    stdin: Mutex<Option<pipe::Sender>>,
    listeners: Arc<Listeners>,
    end: watch::Receiver<Option<EndEvent>>,
    reaper: Arc<Reaper>,
}

impl Running {
    /// Starts a process whose whole output goes to the returned channel, unless that is dropped.
    pub(super) fn start(launch: Launch, reaper: &Arc<Reaper>) -> io::Result<(Arc<Self>, mpsc::Receiver<Chunk>)> {
        let Launch { config, tag, mut command, stdin, deadline } = launch;
        command.stdin(if stdin { Stdio::piped() } else { Stdio::null() });
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        // A group of its own, so that a shell's `kill 0` ends what it started and not envd.
        command.process_group(0);
        let (mut child, status) = reaper.spawn(&mut command)?;
        let stdin = child.stdin.take().map(|pipe| pipe::Sender::from_owned_fd(pipe.into())).transpose()?;
        let pipes: [(Source, Option<OwnedFd>); 2] = [
            (Source::Stdout, child.stdout.take().map(Into::into)),
            (Source::Stderr, child.stderr.take().map(Into::into)),
        ];
        let listeners = Arc::new(Listeners::new());
        let first = listeners.join();
        let (ended, is_ended) = watch::channel(false);
        let (complete, mut all_complete) = mpsc::channel::<()>(1);
        for (source, pipe) in pipes {
            if let Some(pipe) = pipe {
                tokio::spawn(pump(pipe, source, Arc::clone(&listeners), is_ended.clone(), complete.clone()));
            }
        }
        drop(complete);
        let (tell_end, end) = watch::channel(None);
        let running = Arc::new(Self {
            config,
            tag,
            pid: child.id(),
            alive: AtomicBool::new(true),
            stdin: Mutex::new(stdin),
            listeners,
            end,
            reaper: Arc::clone(reaper),
        });
        let ending = Arc::clone(&running);
        tokio::spawn(async move {
            let status = ending.killed_at(deadline, status).await;
            ending.alive.store(false, Ordering::Release);
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
        self.alive.load(Ordering::Acquire)
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

    /// Writes all of `data` to its standard input, as fast as it reads.
    pub(super) async fn write_stdin(&self, data: &[u8]) -> io::Result<()> {
        match self.stdin.lock().await.as_mut() {
            Some(stdin) => stdin.write_all(data).await,
            None => Err(io::Error::new(io::ErrorKind::BrokenPipe, "stdin not enabled or closed")),
        }
    }

    /// Gives it the end of file. Again is as good.
    pub(super) async fn close_stdin(&self) {
        self.stdin.lock().await.take();
    }
}
