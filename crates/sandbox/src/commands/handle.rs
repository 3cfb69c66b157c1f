//! A running command's output and end.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::{FutureExt, Stream, StreamExt};
use oncebox_protocol::envd::process::process_event::Event;
use oncebox_protocol::envd::process::process_event::data_event::Output;
use oncebox_transport::History;
use tokio::time::Instant;

use super::dispatch::Marker;
use super::exit::{CommandOutput, Exit};
use super::input::send_input;
use super::known::{Known, is_passing_code};
use super::reattach::{Again, again};
use super::stream::{Attached, NoEvent, StreamOptions};
use super::{Command, TerminalSize};
use crate::error::{Error, ErrorKind};
use crate::sandbox::Sandbox;
use crate::trail::Trail;

/// What [`Commands::connect`](super::Commands::connect) gathers at most.
const DEFAULT_MAX_OUTPUT: usize = 64 << 20;

/// A running command. Dropping it closes the stream of its output and leaves the command running.
///
/// When the stream is cut, it is attached to again by its process id; what the command wrote in between is lost, which
/// [`CommandEvent::Gap`] tells. A [durable](super::Commands::durable) command loses nothing.
///
/// It is also a [`Stream`] of what the command does.
pub struct CommandHandle {
    known: Known,
    state: State,
    /// A gap that was not yet told.
    gap: Option<String>,
    gaps: u32,
    /// The sandbox once more, from the first cut on: its calls have one history with those before.
    followed: Option<Sandbox>,
    /// Attached to again so often in a row, and nothing came of it.
    in_vain: u32,
    max_output: usize,
}

enum State {
    Open(Attached),
    Again(BoxFuture<'static, Again>),
    Ended,
}

/// Something a command did.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CommandEvent {
    /// It wrote to standard output.
    Stdout(Bytes),
    /// It wrote to standard error.
    Stderr(Bytes),
    /// It wrote to its terminal.
    Pty(Bytes),
    /// Its stream was cut, in the way that is told, and attached to again: output may be missing here.
    Gap(String),
    /// It ended. Nothing follows.
    Exit(Exit),
}

impl CommandHandle {
    /// `asked`: when the start was, before which the sandbox cannot have begun to count.
    pub(super) fn started(
        sandbox: &Sandbox,
        attached: Attached,
        command: &Command,
        marker: Marker,
        asked: Instant,
    ) -> Self {
        let known = Known {
            sandbox: sandbox.clone(),
            pid: attached.pid,
            marker: Some(marker),
            options: command.stream_options().clone(),
            timeout: command.remote_timeout(),
            started: asked,
            has_terminal: command.has_terminal(),
        };
        Self::new(known, attached, command.max_output_bytes())
    }

    pub(super) fn connected(sandbox: &Sandbox, attached: Attached, options: StreamOptions, has_terminal: bool) -> Self {
        let known = Known {
            sandbox: sandbox.clone(),
            pid: attached.pid,
            marker: None,
            options,
            timeout: None,
            started: Instant::now(),
            has_terminal,
        };
        Self::new(known, attached, DEFAULT_MAX_OUTPUT)
    }

    fn new(known: Known, attached: Attached, max_output: usize) -> Self {
        Self { known, state: State::Open(attached), gap: None, gaps: 0, followed: None, in_vain: 0, max_output }
    }

    /// Tells first that what came before is lost.
    pub(super) fn after_gap(mut self, how: &str) -> Self {
        self.gap = Some(how.to_owned());
        self
    }

    /// Process id inside the sandbox.
    pub fn pid(&self) -> u32 {
        self.known.pid
    }

    /// The next thing the command did; `None` once it has ended. Dropping the future loses nothing.
    ///
    /// # Errors
    ///
    /// After an error nothing follows. The command may go on running all the same:
    /// [`Commands::connect`](super::Commands::connect) attaches to it once more.
    ///
    /// * [`ConnectionLost`](ErrorKind::ConnectionLost), [`SandboxUnreachable`](ErrorKind::SandboxUnreachable) or
    ///   [`SandboxNotRunning`](ErrorKind::SandboxNotRunning) when the stream was cut and could not be attached to again;
    ///   the sandbox was asked which it is;
    /// * [`CommandLost`](ErrorKind::CommandLost) when the command is gone and its end was told while nobody listened;
    /// * [`Timeout`](ErrorKind::Timeout) when the sandbox says that it killed the command for its `timeout`.
    pub async fn next(&mut self) -> Option<Result<CommandEvent, Error>> {
        StreamExt::next(self).await
    }

    /// Waits for the end and gathers the output that was not yet taken.
    ///
    /// # Errors
    ///
    /// As [`next`](Self::next); [`OutputLost`](ErrorKind::OutputLost) when there were gaps, with what there is in
    /// [`Error::output`]; and when there is more output than `max_output`.
    pub async fn wait(self) -> Result<CommandOutput, Error> {
        self.wait_with(|_| {}).await
    }

    /// As [`wait`](Self::wait), and hands each event to `see` as it comes.
    ///
    /// # Errors
    ///
    /// As [`wait`](Self::wait).
    pub async fn wait_with(mut self, mut see: impl FnMut(&CommandEvent)) -> Result<CommandOutput, Error> {
        const ACTION: &str = "gather the command's output";
        let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
        let mut gap = None;
        while let Some(event) = self.next().await {
            let event = event?;
            see(&event);
            match event {
                CommandEvent::Stdout(bytes) | CommandEvent::Pty(bytes) => stdout.extend_from_slice(&bytes),
                CommandEvent::Stderr(bytes) => stderr.extend_from_slice(&bytes),
                CommandEvent::Gap(how) => gap = Some(how),
                CommandEvent::Exit(exit) => {
                    let Some(how) = gap else { return Ok(CommandOutput { stdout, stderr, exit }) };
                    return Err(self.output_lost(&how, stdout, stderr, exit));
                }
            }
            if stdout.len() + stderr.len() > self.max_output {
                let message = format!(
                    "the output of process {} is longer than {} bytes (max_output); it goes on running",
                    self.known.pid, self.max_output
                );
                return Err(Error::new(ErrorKind::Unsupported, ACTION, message).begun());
            }
        }
        let message = format!("process {} had ended, or failed, before", self.known.pid);
        Err(Error::new(ErrorKind::CommandLost, ACTION, message))
    }

    /// The error that [`wait`](Self::wait) ends with after a [gap](CommandEvent::Gap), for whoever gathers the output without
    /// it. `how` is what the last gap told, `stdout` and `stderr` what there is.
    pub fn output_lost(&self, how: &str, stdout: Vec<u8>, stderr: Vec<u8>, exit: Exit) -> Error {
        let output = CommandOutput { stdout, stderr, exit };
        let message = format!(
            "{how}; process {} was attached to again {} times, and ended with {:?}, but what it wrote in between is lost \
             (a durable command would lose nothing)",
            self.known.pid, self.gaps, output.exit.status
        );
        Error::new(ErrorKind::OutputLost, "gather the command's output", message).with_output(output)
    }

    /// Kills its process (SIGKILL); what that has started goes on, as [`Commands::kill`](super::Commands::kill) says.
    /// `false`: it had ended already.
    ///
    /// # Errors
    ///
    /// When the sandbox cannot be asked.
    pub async fn kill(&self) -> Result<bool, Error> {
        self.known.sandbox.commands().kill(self.known.pid).await
    }

    /// Writes to its standard input, or types on its terminal; see [`Commands::send_stdin`](super::Commands::send_stdin).
    ///
    /// # Errors
    ///
    /// When it has ended, was started without a standard input, or the sandbox cannot be asked.
    pub async fn send_stdin(&self, data: impl Into<Bytes>) -> Result<(), Error> {
        send_input(&self.known.sandbox, self.known.pid, data.into(), self.known.has_terminal).await
    }

    /// Closes its standard input, so that it reads end-of-file. A terminal is not closed: send it the byte 4.
    ///
    /// # Errors
    ///
    /// When it has ended, has a terminal, or the sandbox cannot be asked.
    pub async fn close_stdin(&self) -> Result<(), Error> {
        self.known.sandbox.commands().close_stdin(self.known.pid).await
    }

    /// Sets its terminal's size.
    ///
    /// # Errors
    ///
    /// When it has ended, has no terminal, or the sandbox cannot be asked.
    pub async fn resize(&self, size: TerminalSize) -> Result<(), Error> {
        self.known.sandbox.pty().resize(self.known.pid, size).await
    }

    fn take(&mut self, event: Event) -> Option<CommandEvent> {
        match event {
            Event::Data(data) => {
                self.in_vain = 0;
                Some(match data.output? {
                    Output::Stdout(bytes) => CommandEvent::Stdout(bytes.into()),
                    Output::Stderr(bytes) => CommandEvent::Stderr(bytes.into()),
                    Output::Pty(bytes) => CommandEvent::Pty(bytes.into()),
                })
            }
            Event::End(end) => {
                self.state = State::Ended;
                Some(CommandEvent::Exit(self.known.exit(*end)))
            }
            Event::Start(_) | Event::Keepalive(_) => None,
        }
    }

    fn cut(&mut self, how: String, so_far: Option<History>) {
        let Known { sandbox, started, .. } = &self.known;
        let followed = self.followed.get_or_insert_with(|| {
            let trail = Trail::new(*started);
            if let Some(history) = so_far {
                trail.note(*started, history.ledger());
            }
            sandbox.gathering_in(trail)
        });
        let known = Known { sandbox: followed.clone(), ..self.known.clone() };
        self.state = State::Again(again(known, how, self.in_vain).boxed());
    }

    /// Nothing follows this.
    fn fails(&mut self, error: Error) -> Error {
        self.state = State::Ended;
        match &self.followed {
            Some(sandbox) => sandbox.tell(error),
            None => error,
        }
    }
}

impl Stream for CommandHandle {
    type Item = Result<CommandEvent, Error>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        loop {
            if let Some(how) = this.gap.take() {
                this.gaps += 1;
                return Poll::Ready(Some(Ok(CommandEvent::Gap(how))));
            }
            match &mut this.state {
                State::Open(attached) => match ready!(attached.poll(cx)) {
                    Ok(event) => {
                        if let Some(event) = this.take(event) {
                            return Poll::Ready(Some(Ok(event)));
                        }
                    }
                    Err(why) => {
                        let history = attached.history();
                        match why {
                            NoEvent::Cut(how) => this.cut(how, history),
                            NoEvent::Told(error) if is_passing_code(error.code) => this.cut(error.to_string(), history),
                            NoEvent::Told(error) => {
                                let error = this.known.failed(error);
                                return Poll::Ready(Some(Err(this.fails(error))));
                            }
                        }
                    }
                },
                State::Again(again) => match ready!(again.poll_unpin(cx)) {
                    Again::Attached { attached, in_vain, how } => {
                        this.in_vain = in_vain;
                        this.gap = Some(how);
                        this.state = State::Open(attached);
                    }
                    Again::Failed(error) => return Poll::Ready(Some(Err(this.fails(error)))),
                },
                State::Ended => return Poll::Ready(None),
            }
        }
    }
}

impl fmt::Debug for CommandHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ended = matches!(self.state, State::Ended);
        f.debug_struct("CommandHandle").field("pid", &self.known.pid).field("ended", &ended).finish_non_exhaustive()
    }
}
