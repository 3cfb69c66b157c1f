//! A durable command that is followed.

use std::collections::VecDeque;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures_util::future::{BoxFuture, poll_fn};
use futures_util::{FutureExt, Stream, StreamExt};
use oncebox_protocol::envd::process::process_event::Event;
use oncebox_protocol::envd::process::process_event::data_event::Output as Written;
use tokio::sync::Mutex;
use tokio::time::sleep;

use super::Offsets;
use super::control::{DurableControl, Input};
use super::frames::{Frames, Output, Reason, Said, Status};
use super::spool::{Call, Spool, cut, is_passing, wrapper_failed};
use crate::commands::dispatch::random_hex;
use crate::commands::reattach::wait_before;
use crate::commands::stream::Attached;
use crate::commands::{Command, CommandEvent, CommandOutput, Exit};
use crate::error::{Error, ErrorKind};

const ACTION: &str = "follow the durable command";

/// What [`DurableCommand::wait`] gathers at most of a command that was attached to.
const DEFAULT_MAX_OUTPUT: usize = 64 << 20;

/// The most of a wrapper's complaints that is kept.
const MAX_WORDS: usize = 1000;

/// A command whose outputs and end are kept in the sandbox until they are taken: however often the connection is cut, every
/// byte comes once and in order, and the exit code is the true one. See [`Commands::durable`](super::super::Commands::durable).
///
/// Dropping it leaves the command running. It is also a [`Stream`] of what the command does.
pub struct DurableCommand {
    spool: Arc<Spool>,
    /// The same for what is done besides.
    control: Arc<Spool>,
    /// The command and the wrapper's arguments, until the wrapper has answered.
    launch: Option<(Command, Vec<String>)>,
    /// Whether it may have been started.
    begun: bool,
    reader: String,
    sessions: u64,
    offsets: Offsets,
    state: State,
    said: VecDeque<Said>,
    /// Sessions in a row of which nothing came.
    in_vain: u32,
    input: Input,
    max_output: usize,
}

enum State {
    Idle,
    Starting(BoxFuture<'static, Result<Attached, Error>>),
    Open {
        attached: Attached,
        frames: Frames,
        words: String,
    },
    /// The sandbox is asked what the loss of its connection means.
    Failing(BoxFuture<'static, Error>),
    Ended,
}

impl DurableCommand {
    /// Returns once the wrapper has answered.
    pub(super) async fn begin(
        spool: Spool,
        offsets: Offsets,
        launch: Option<(Command, Vec<String>)>,
    ) -> Result<Self, Error> {
        let mut durable = Self {
            max_output: launch.as_ref().map_or(DEFAULT_MAX_OUTPUT, |(command, _)| command.max_output_bytes()),
            begun: launch.is_none(),
            launch,
            // What it takes to follow it is one history.
            spool: Arc::new(Spool { sandbox: spool.sandbox.gathering(), ..spool.clone() }),
            control: Arc::new(spool),
            reader: random_hex()?,
            sessions: 0,
            offsets,
            state: State::Idle,
            said: VecDeque::new(),
            in_vain: 0,
            input: Input::default(),
        };
        let input = match poll_fn(|cx| durable.poll_said(cx)).await? {
            Some(Said::Hello { input }) => input,
            Some(said) => return Err(durable.spool.refused(ACTION, said)),
            None => return Err(Error::malformed(ACTION, "the wrapper said nothing")),
        };
        durable.input = Arc::new(Mutex::new(input));
        durable.launch = None;
        durable.begun = true;
        Ok(durable)
    }

    /// Its id, by which any client attaches to it: [`Commands::attach`](super::super::Commands::attach).
    pub fn id(&self) -> &str {
        &self.spool.id
    }

    /// How much of its outputs was told. Who keeps these can go on from here, also in another process.
    pub fn offsets(&self) -> Offsets {
        self.offsets
    }

    /// The next thing the command did; `None` once it has ended. Dropping the future loses nothing.
    ///
    /// # Errors
    ///
    /// Nothing is lost by an error of the first three kinds: asking again goes on where it stopped.
    ///
    /// * [`ConnectionLost`](ErrorKind::ConnectionLost), [`SandboxUnreachable`](ErrorKind::SandboxUnreachable) or
    ///   [`SandboxNotRunning`](ErrorKind::SandboxNotRunning) (also while it is paused), when the connection was lost and
    ///   could not be made again;
    /// * [`OutputLost`](ErrorKind::OutputLost) when what was asked for made room for more, since all who read at that time
    ///   had it;
    /// * [`CommandLost`](ErrorKind::CommandLost) when the command has vanished, as it does when its sandbox starts anew: all
    ///   that it wrote was told before;
    /// * [`SpoolFull`](ErrorKind::SpoolFull) when it was killed for that, and
    ///   [`NotEnoughSpace`](ErrorKind::NotEnoughSpace) when the sandbox's disk had no room for its output;
    /// * [`NotFound`](ErrorKind::NotFound) when it was forgotten.
    pub async fn next(&mut self) -> Option<Result<CommandEvent, Error>> {
        StreamExt::next(self).await
    }

    /// Waits for the end and gathers the output that was not yet taken.
    ///
    /// # Errors
    ///
    /// As [`next`](Self::next); and when there is more output than `max_output` (64 MiB, unless the command that was started
    /// says otherwise).
    pub async fn wait(mut self) -> Result<CommandOutput, Error> {
        let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
        while let Some(event) = self.next().await {
            match event? {
                CommandEvent::Stdout(bytes) => stdout.extend_from_slice(&bytes),
                CommandEvent::Stderr(bytes) => stderr.extend_from_slice(&bytes),
                CommandEvent::Exit(exit) => return Ok(CommandOutput { stdout, stderr, exit }),
                _ => {}
            }
            if stdout.len() + stderr.len() > self.max_output {
                let (id, most) = (self.id(), self.max_output);
                let message =
                    format!("the output of {id} is longer than {most} bytes (max_output); it goes on running");
                return Err(Error::new(ErrorKind::Unsupported, ACTION, message).begun());
            }
        }
        let message = format!("{} had ended, or failed, before", self.id());
        Err(Error::new(ErrorKind::CommandLost, ACTION, message))
    }

    /// What feeds and ends it, to be used beside [`next`](Self::next).
    pub fn control(&self) -> DurableControl {
        DurableControl::new(&self.control, &self.input)
    }

    /// As [`DurableControl::send_stdin`].
    ///
    /// # Errors
    ///
    /// As there.
    pub async fn send_stdin(&self, data: impl Into<Bytes>) -> Result<(), Error> {
        self.control().send_stdin(data).await
    }

    /// As [`DurableControl::close_stdin`].
    ///
    /// # Errors
    ///
    /// As there.
    pub async fn close_stdin(&self) -> Result<(), Error> {
        self.control().close_stdin().await
    }

    /// As [`DurableControl::kill`].
    ///
    /// # Errors
    ///
    /// As there.
    pub async fn kill(&self) -> Result<bool, Error> {
        self.control().kill().await
    }

    /// Removes what is kept of it in the sandbox. Otherwise that is removed a day after its end, when another durable command
    /// is started.
    ///
    /// # Errors
    ///
    /// [`Conflict`](ErrorKind::Conflict) while it runs; when the sandbox cannot be asked.
    pub async fn forget(self) -> Result<(), Error> {
        self.control.forget().await.map(drop)
    }

    /// Goes on until the wrapper has said something.
    fn poll_said(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Said>, Error>> {
        loop {
            if let Some(said) = self.said.pop_front() {
                return Poll::Ready(Ok(Some(said)));
            }
            match &mut self.state {
                State::Idle => self.state = State::Starting(self.session()),
                State::Starting(starting) => match ready!(starting.poll_unpin(cx)) {
                    Ok(attached) => {
                        self.state = State::Open { attached, frames: Frames::default(), words: String::new() };
                    }
                    Err(error) => self.lost(error),
                },
                State::Open { attached, frames, words } => match ready!(attached.poll(cx)) {
                    Ok(Event::Data(data)) => match data.output {
                        Some(Written::Stdout(bytes)) => {
                            if let Err(wrong) = frames.push(bytes.into(), &mut self.said) {
                                self.state = State::Ended;
                                return Poll::Ready(Err(Error::malformed(ACTION, wrong).begun()));
                            }
                        }
                        Some(Written::Stderr(bytes)) if words.len() < MAX_WORDS => {
                            words.push_str(&String::from_utf8_lossy(&bytes));
                        }
                        _ => {}
                    },
                    Ok(Event::End(end)) => {
                        let error = wrapper_failed(ACTION, &end.status, words);
                        self.lost(error);
                    }
                    Ok(_) => {}
                    Err(why) => self.lost(cut(ACTION, why)),
                },
                State::Failing(asking) => {
                    let error = ready!(asking.poll_unpin(cx));
                    // Whoever asks again, tries again.
                    (self.state, self.in_vain) = (State::Idle, 0);
                    return Poll::Ready(Err(error));
                }
                State::Ended => return Poll::Ready(Ok(None)),
            }
        }
    }

    /// Has the wrapper read from where we are.
    fn session(&mut self) -> BoxFuture<'static, Result<Attached, Error>> {
        self.sessions += 1;
        let Offsets { stdout, stderr } = self.offsets;
        let mut args = vec![stdout.to_string(), stderr.to_string(), self.reader.clone(), self.sessions.to_string()];
        let call = match &self.launch {
            Some((command, more)) => {
                args.extend(more.iter().cloned());
                Call::reading("run", args, Some(command.clone()))
            }
            None => Call::reading("tail", args, None),
        };
        let (spool, wait) = (Arc::clone(&self.spool), wait_before(self.in_vain));
        async move {
            sleep(wait).await;
            spool.start(ACTION, &call).await
        }
        .boxed()
    }

    /// A session ended, and not by its own word.
    fn lost(&mut self, error: Error) {
        self.begun |= error.may_have_been_processed();
        self.in_vain += 1;
        if is_passing(&error) && self.in_vain <= self.spool.stream.reattachments {
            tracing::debug!(%error, id = self.spool.id, "a durable command is attached to again");
            self.state = State::Idle;
            return;
        }
        let Offsets { stdout, stderr } = self.offsets;
        let message = format!(
            "{}; nothing came of {} attempts in a row (reattachments); its outputs are known up to {stdout} and {stderr} \
             bytes, and attaching to {:?} goes on from there",
            error.message(),
            self.in_vain,
            self.spool.id
        );
        // One that was cut may have been begun by the attempt before.
        let kind = if is_passing(&error) { ErrorKind::ConnectionLost } else { error.kind() };
        let mut told = Error::new(kind, ACTION, message);
        if self.begun {
            told = told.begun();
        }
        let sandbox = self.spool.sandbox.clone();
        self.state = State::Failing(async move { sandbox.tell(sandbox.after_loss(told).await) }.boxed());
    }

    fn piece(&mut self, output: Output, bytes: Bytes) -> CommandEvent {
        self.in_vain = 0;
        match output {
            Output::Stdout => {
                self.offsets.stdout += bytes.len() as u64;
                CommandEvent::Stdout(bytes)
            }
            Output::Stderr => {
                self.offsets.stderr += bytes.len() as u64;
                CommandEvent::Stderr(bytes)
            }
        }
    }

    /// What is there of an output begins only later.
    fn gone(&mut self, output: Output, from: u64) -> Error {
        let (name, at) = match output {
            Output::Stdout => ("standard output", &mut self.offsets.stdout),
            Output::Stderr => ("standard error", &mut self.offsets.stderr),
        };
        let message = format!(
            "{name} of {:?} from byte {at} to {from} made room for more when all who read then had taken it",
            self.spool.id
        );
        *at = from;
        Error::new(ErrorKind::OutputLost, ACTION, message)
    }

    fn end(&self, status: Status) -> Result<CommandEvent, Error> {
        let id = &self.spool.id;
        match status.reason {
            Reason::Own | Reason::Timeout => {
                let mut exit = Exit::of_shell_status(status.code);
                exit.timed_out = status.reason == Reason::Timeout;
                exit.left_behind = status.left_behind;
                Ok(CommandEvent::Exit(exit))
            }
            Reason::Full => {
                let message = format!(
                    "{id:?} was killed: nobody had taken its output when {} bytes of it were kept (spool_limit, when_full)",
                    status.bound
                );
                Err(Error::new(ErrorKind::SpoolFull, ACTION, message))
            }
            Reason::Disk => {
                let message = format!("{id:?} was killed: its output could not be kept, as the sandbox's disk is full");
                Err(Error::new(ErrorKind::NotEnoughSpace, ACTION, message).begun())
            }
        }
    }
}

impl Stream for DurableCommand {
    type Item = Result<CommandEvent, Error>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        loop {
            let said = match ready!(this.poll_said(cx)) {
                Ok(Some(said)) => said,
                Ok(None) => return Poll::Ready(None),
                Err(error) => return Poll::Ready(Some(Err(error))),
            };
            return Poll::Ready(Some(match said {
                Said::Hello { .. } => continue,
                Said::Piece(output, bytes) => Ok(this.piece(output, bytes)),
                Said::More => {
                    (this.state, this.in_vain) = (State::Idle, 0);
                    continue;
                }
                Said::From(output, from) => {
                    this.state = State::Idle;
                    Err(this.gone(output, from))
                }
                Said::Ended(status) => {
                    this.state = State::Ended;
                    this.end(status)
                }
                Said::Lost => {
                    this.state = State::Ended;
                    let Offsets { stdout, stderr } = this.offsets;
                    let message = format!(
                        "{:?} has vanished, and how it ended is not known; it had written {stdout} and {stderr} bytes",
                        this.spool.id
                    );
                    Err(Error::new(ErrorKind::CommandLost, ACTION, message))
                }
                said @ (Said::Refused(_) | Said::Done | Said::Waits) => {
                    this.state = State::Ended;
                    Err(this.spool.refused(ACTION, said))
                }
            }));
        }
    }
}

impl fmt::Debug for DurableCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DurableCommand")
            .field("id", &self.spool.id)
            .field("offsets", &self.offsets)
            .finish_non_exhaustive()
    }
}
