//! A durable command that is followed.

mod session;

use std::collections::VecDeque;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures_util::future::poll_fn;
use futures_util::{Stream, StreamExt};
use tokio::sync::Mutex;

use super::Offsets;
use super::control::{DurableControl, Input};
use super::frames::{Output, Reason, Said, Status};
use super::spool::Spool;
use crate::commands::dispatch::random_hex;
use crate::commands::{Command, CommandEvent, CommandOutput, Exit};
use crate::error::{Error, ErrorKind};

use session::State;

const ACTION: &str = "follow the durable command";

/// What [`DurableCommand::wait`] gathers at most of a command that was attached to.
const DEFAULT_MAX_OUTPUT: usize = 64 << 20;

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

    /// The program and its arguments that run, or ran, under its id: those of the start that came first, which another start
    /// with this id has attached to. `None`: what started it kept none, as versions before this one.
    ///
    /// # Errors
    ///
    /// When the sandbox cannot be asked.
    pub async fn argv(&self) -> Result<Option<Vec<String>>, Error> {
        self.control.argv().await
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
