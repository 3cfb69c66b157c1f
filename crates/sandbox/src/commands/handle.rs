//! A running command's output and end.

use std::fmt;
use std::pin::Pin;

use bytes::Bytes;
use connectrpc::ConnectError;
use connectrpc::client::ServerStream;
use futures_util::stream::{self, Stream, StreamExt};
use http_body_util::combinators::UnsyncBoxBody;
use oncebox_protocol::envd::process::process_event::data_event::Output;
use oncebox_protocol::envd::process::process_event::{EndEvent, Event};
use oncebox_protocol::envd::process::{ConnectResponse, ProcessEvent, StartResponse};
use oncebox_transport::BoxError;

use crate::error::{Error, ErrorKind};
use crate::rpc::CutWatch;
use crate::sandbox::Sandbox;

/// A running command. Dropping it closes the stream of its output and leaves the command running.
pub struct CommandHandle {
    sandbox: Sandbox,
    pid: u32,
    events: Events,
    watch: CutWatch,
    ended: bool,
    max_output: usize,
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
    /// It ended. Nothing follows.
    Exit(Exit),
}

/// How a command ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Exit {
    /// Its exit code; -1 when a signal ended it.
    pub code: i32,
    /// Whether it exited by itself, rather than by a signal.
    pub exited: bool,
    /// The same in words, such as "exit status 7" or "signal: killed".
    pub status: String,
    /// What went wrong besides the exit code, if anything did.
    pub error: Option<String>,
}

/// A command's whole output.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CommandOutput {
    /// What it wrote to standard output.
    pub stdout: Vec<u8>,
    /// What it wrote to standard error.
    pub stderr: Vec<u8>,
    /// How it ended.
    pub exit: Exit,
}

impl CommandOutput {
    /// Standard output as text; what is not UTF-8 is replaced.
    pub fn stdout_text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    /// Standard error as text; what is not UTF-8 is replaced.
    pub fn stderr_text(&self) -> String {
        String::from_utf8_lossy(&self.stderr).into_owned()
    }

    /// Its exit code; -1 when a signal ended it.
    pub fn exit_code(&self) -> i32 {
        self.exit.code
    }

    /// Whether it exited with 0.
    pub fn success(&self) -> bool {
        self.exit.code == 0
    }
}

type Events = Pin<Box<dyn Stream<Item = Result<Event, ConnectError>> + Send>>;
type Body = UnsyncBoxBody<Bytes, BoxError>;
type StartStream = ServerStream<Body, oncebox_protocol::envd::process::StartResponseView<'static>>;
type ConnectStream = ServerStream<Body, oncebox_protocol::envd::process::ConnectResponseView<'static>>;

/// What [`Commands::connect`](super::Commands::connect) gathers at most.
const DEFAULT_MAX_OUTPUT: usize = 64 << 20;

impl CommandHandle {
    pub(super) async fn started(
        sandbox: &Sandbox,
        action: &'static str,
        stream: StartStream,
        watch: CutWatch,
        max_output: usize,
    ) -> Result<Self, Error> {
        let events = stream::try_unfold(stream, |mut stream| async move {
            let message = stream.message::<StartResponse>().await?;
            Ok(message.map(|message| (event(message.to_owned_message().event.into_option()), stream)))
        });
        Self::new(sandbox, action, Box::pin(events.filter_map(known)), watch, max_output).await
    }

    pub(super) async fn attached(
        sandbox: &Sandbox,
        action: &'static str,
        stream: ConnectStream,
        watch: CutWatch,
    ) -> Result<Self, Error> {
        let events = stream::try_unfold(stream, |mut stream| async move {
            let message = stream.message::<ConnectResponse>().await?;
            Ok(message.map(|message| (event(message.to_owned_message().event.into_option()), stream)))
        });
        Self::new(sandbox, action, Box::pin(events.filter_map(known)), watch, DEFAULT_MAX_OUTPUT).await
    }

    /// Waits for the first event, which says that the process runs.
    async fn new(
        sandbox: &Sandbox,
        action: &'static str,
        mut events: Events,
        watch: CutWatch,
        max_output: usize,
    ) -> Result<Self, Error> {
        loop {
            match events.next().await {
                Some(Ok(Event::Start(start))) => {
                    let pid = start.pid;
                    return Ok(Self { sandbox: sandbox.clone(), pid, events, watch, ended: false, max_output });
                }
                Some(Ok(Event::Keepalive(_))) => {}
                Some(Ok(_)) => return Err(Error::malformed(action, "the first event is not the start")),
                Some(Err(error)) => {
                    return Err(match watch.cut() {
                        Some(how) => cut_before_start(action, &how),
                        None => Error::rpc(action, error),
                    });
                }
                None => return Err(cut_before_start(action, "the stream ended")),
            }
        }
    }

    /// Process id inside the sandbox.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// The next thing the command did; `None` once it has ended.
    ///
    /// # Errors
    ///
    /// [`ConnectionLost`](ErrorKind::ConnectionLost) when the stream ended without telling how the command did: it
    /// may go on running, and [`Commands::connect`](super::Commands::connect) attaches to it again.
    pub async fn next(&mut self) -> Option<Result<CommandEvent, Error>> {
        while !self.ended {
            let event = match self.events.next().await {
                Some(Ok(Event::Data(data))) => match data.output {
                    Some(Output::Stdout(bytes)) => CommandEvent::Stdout(bytes.into()),
                    Some(Output::Stderr(bytes)) => CommandEvent::Stderr(bytes.into()),
                    Some(Output::Pty(bytes)) => CommandEvent::Pty(bytes.into()),
                    None => continue,
                },
                Some(Ok(Event::End(end))) => {
                    self.ended = true;
                    CommandEvent::Exit((*end).into())
                }
                Some(Ok(Event::Start(_) | Event::Keepalive(_))) => continue,
                Some(Err(error)) => {
                    self.ended = true;
                    return Some(Err(match self.watch.cut() {
                        Some(how) => self.cut(&how),
                        None => Error::rpc("follow the command", error),
                    }));
                }
                None => {
                    self.ended = true;
                    return Some(Err(self.cut("the stream ended")));
                }
            };
            return Some(Ok(event));
        }
        None
    }

    /// Waits for the end and gathers the output that was not yet taken.
    ///
    /// # Errors
    ///
    /// As [`next`](Self::next); and when there is more output than `max_output`.
    pub async fn wait(mut self) -> Result<CommandOutput, Error> {
        let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
        while let Some(event) = self.next().await {
            match event? {
                CommandEvent::Stdout(bytes) | CommandEvent::Pty(bytes) => stdout.extend_from_slice(&bytes),
                CommandEvent::Stderr(bytes) => stderr.extend_from_slice(&bytes),
                CommandEvent::Exit(exit) => return Ok(CommandOutput { stdout, stderr, exit }),
            }
            if stdout.len() + stderr.len() > self.max_output {
                let message = format!(
                    "the output of process {} is longer than {} bytes (max_output); it goes on running",
                    self.pid, self.max_output
                );
                return Err(Error::new(ErrorKind::Unsupported, "gather the command's output", message));
            }
        }
        Err(self.cut("the stream ended"))
    }

    /// Kills it (SIGKILL). `false`: it had ended already.
    ///
    /// # Errors
    ///
    /// When the sandbox cannot be asked.
    pub async fn kill(&self) -> Result<bool, Error> {
        self.sandbox.commands().kill(self.pid).await
    }

    /// Writes to its standard input; see [`Commands::send_stdin`](super::Commands::send_stdin).
    ///
    /// # Errors
    ///
    /// When it has ended, was started without a standard input, or the sandbox cannot be asked.
    pub async fn send_stdin(&self, data: impl Into<Bytes>) -> Result<(), Error> {
        self.sandbox.commands().send_stdin(self.pid, data).await
    }

    /// Closes its standard input, so that it reads end-of-file.
    ///
    /// # Errors
    ///
    /// When it has ended, or the sandbox cannot be asked.
    pub async fn close_stdin(&self) -> Result<(), Error> {
        self.sandbox.commands().close_stdin(self.pid).await
    }

    fn cut(&self, how: &str) -> Error {
        let message = format!("{how}, and how process {} did was not told; it may go on running", self.pid);
        Error::new(ErrorKind::ConnectionLost, "follow the command", message)
    }
}

impl fmt::Debug for CommandHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CommandHandle").field("pid", &self.pid).field("ended", &self.ended).finish_non_exhaustive()
    }
}

/// A start whose stream was cut before the process was named: nobody knows whether it runs. An attach starts nothing.
fn cut_before_start(action: &str, how: &str) -> Error {
    let message = format!("{how} before the process was named; nobody knows whether it was started");
    Error::new(ErrorKind::OutcomeUnknown, action, message)
}

fn event(event: Option<ProcessEvent>) -> Option<Event> {
    event.and_then(|event| event.event)
}

/// Passes over events of a kind that is newer than this crate.
async fn known(event: Result<Option<Event>, ConnectError>) -> Option<Result<Event, ConnectError>> {
    event.transpose()
}

impl From<EndEvent> for Exit {
    fn from(end: EndEvent) -> Self {
        Self { code: end.exit_code, exited: end.exited, status: end.status, error: end.error }
    }
}
