//! Calls of the wrapper: one start of a small program each. Each may be repeated, since what it does it does once.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use connectrpc::ErrorCode;
use futures_util::future::poll_fn;
use oncebox_protocol::envd::process::process_event::Event;
use oncebox_protocol::envd::process::process_event::data_event::Output as Written;
use oncebox_protocol::envd::process::{ProcessConfig, StartRequest};
use tokio::time::{sleep, timeout};

use super::frames::{Frames, Said};
use crate::commands::Command;
use crate::commands::dispatch::random_hex;
use crate::commands::input::send_input;
use crate::commands::reattach::{is_passing, wait_before};
use crate::commands::stream::{Attached, NoEvent, StreamOptions};
use crate::error::{Error, ErrorKind};
use crate::rpc::RpcCall;
use crate::sandbox::Sandbox;

/// The wrapper, which `$1` holds and `eval` runs: so it can start itself again.
const WRAPPER: &str = include_str!("wrapper.sh");

/// When the sandbox kills a call that changes something: it needs far less, and should not wait for ever for input that
/// never comes.
const CALL_TIMEOUT: Duration = Duration::from_secs(60);

/// How long a call may take where the client has no `request_timeout`.
const LONGEST_START: Duration = Duration::from_secs(60);

/// The longest answer of a call: a command's words, of which the kernel takes two MiB.
const LONGEST_ANSWER: usize = 4 << 20;

/// Which spool, and how it is reached.
#[derive(Clone, Debug)]
pub(super) struct Spool {
    pub(super) sandbox: Sandbox,
    pub(super) id: String,
    pub(super) user: Option<String>,
    /// The shell that runs the wrapper, and its arguments.
    pub(super) shell: Vec<String>,
    pub(super) stream: StreamOptions,
}

/// One call.
#[derive(Debug)]
pub(super) struct Call {
    mode: &'static str,
    args: Vec<String>,
    /// Whose directory and variables the call has, where it starts the command.
    command: Option<Command>,
    input: Option<Bytes>,
    limit: Option<Duration>,
}

impl Call {
    /// A call that says what there is, for as long as it likes.
    pub(super) fn reading(mode: &'static str, args: Vec<String>, command: Option<Command>) -> Self {
        Self { mode, args, command, input: None, limit: None }
    }

    fn changing(mode: &'static str, args: Vec<String>, input: Option<Bytes>) -> Self {
        Self { mode, args, command: None, input, limit: Some(CALL_TIMEOUT) }
    }
}

impl Spool {
    /// Starts a call, and returns once it runs.
    pub(super) async fn start(&self, action: &'static str, call: &Call) -> Result<Attached, Error> {
        let (program, first) = self.shell.split_first().ok_or_else(|| Error::invalid("shell: it is empty"))?;
        let mut args = first.to_vec();
        let shell = self.shell.join(" ");
        args.extend(["-c", "eval \"$1\"", "oncebox", WRAPPER, &shell, call.mode, &self.id].map(str::to_owned));
        args.extend(call.args.iter().cloned());
        let (envs, cwd) = call.command.as_ref().map(Command::surroundings).unwrap_or_default();
        let envs = envs.into_iter().collect();
        let config = ProcessConfig { cmd: program.clone(), args, envs, cwd, ..Default::default() };
        let request = StartRequest {
            process: config.into(),
            tag: Some(format!("oncebox-durable-{}", self.id)),
            stdin: Some(call.input.is_some()),
            ..Default::default()
        };
        let rpc = RpcCall {
            user: self.user.as_deref(),
            remote_timeout: call.limit,
            stream: Some(self.stream.watch()),
            ..RpcCall::default()
        };
        let limit = self.sandbox.client().request_timeout().unwrap_or(LONGEST_START);
        let starting = Attached::start(&self.sandbox, action, request, rpc);
        timeout(limit, starting).await.unwrap_or_else(|_| {
            let message = format!("the wrapper did not start within {limit:?} (request_timeout)");
            Err(Error::new(ErrorKind::Timeout, action, message).begun())
        })
    }

    /// Makes a call that changes something, and returns what it said last. It is repeated while the connection is lost.
    async fn change(&self, action: &'static str, call: Call) -> Result<Said, Error> {
        let said = self.ask(action, call).await?.pop_back();
        said.ok_or_else(|| Error::malformed(action, "the wrapper said nothing"))
    }

    /// Makes a call that ends by itself, and returns all it said, which is something.
    async fn ask(&self, action: &'static str, call: Call) -> Result<VecDeque<Said>, Error> {
        let gathering = Self { sandbox: self.sandbox.gathering(), ..self.clone() };
        gathering.change_at_last(action, call).await.map_err(|error| gathering.sandbox.tell(error))
    }

    async fn change_at_last(&self, action: &'static str, call: Call) -> Result<VecDeque<Said>, Error> {
        let (mut in_vain, mut begun) = (0, false);
        loop {
            let error = match self.once(action, &call).await {
                Ok(said) => return Ok(said),
                Err(error) => error,
            };
            in_vain += 1;
            let before = begun;
            begun |= error.may_have_been_processed();
            // Its process may have been killed before its input was closed.
            let passes = is_passing(&error) || (call.input.is_some() && error.kind() == ErrorKind::NotFound);
            if !passes || in_vain > self.stream.reattachments {
                return Err(self.sandbox.after_loss(error).await.partly_if(before));
            }
            sleep(wait_before(in_vain)).await;
        }
    }

    async fn once(&self, action: &'static str, call: &Call) -> Result<VecDeque<Said>, Error> {
        let mut attached = self.start(action, call).await?;
        if let Some(input) = &call.input {
            send_input(&self.sandbox, attached.pid, input.clone(), false).await.map_err(Error::partly)?;
            self.sandbox.commands().close_stdin(attached.pid).await.map_err(Error::partly)?;
        }
        let (mut frames, mut said) = (Frames::default(), VecDeque::new());
        let (mut words, mut length) = (String::new(), 0);
        loop {
            match poll_fn(|cx| attached.poll(cx)).await {
                Ok(Event::Data(data)) => match data.output {
                    Some(Written::Stdout(bytes)) => {
                        length += bytes.len();
                        if length > LONGEST_ANSWER {
                            return Err(Error::malformed(action, format!("the wrapper said {length} bytes")));
                        }
                        frames.push(bytes.into(), &mut said).map_err(|wrong| Error::malformed(action, wrong))?
                    }
                    Some(Written::Stderr(bytes)) => words.push_str(&String::from_utf8_lossy(&bytes)),
                    _ => {}
                },
                Ok(Event::End(end)) => {
                    return if said.is_empty() { Err(wrapper_failed(action, &end.status, &words)) } else { Ok(said) };
                }
                Ok(_) => {}
                Err(why) => return Err(cut(action, why)),
            }
        }
    }

    /// The command's words, unless what started it kept none.
    pub(super) async fn argv(&self) -> Result<Option<Vec<String>>, Error> {
        const ACTION: &str = "read what the durable command is";
        let (mut bytes, mut last) = (Vec::new(), None);
        for said in self.ask(ACTION, Call::changing("argv", Vec::new(), None)).await? {
            match said {
                Said::Piece(_, piece) => bytes.extend_from_slice(&piece),
                other => last = Some(other),
            }
        }
        match last {
            Some(Said::Done) => {}
            Some(said) => return Err(self.refused(ACTION, said)),
            None => return Err(Error::malformed(ACTION, "the wrapper did not end")),
        }
        let words = bytes.strip_suffix(b"\0").map(|bytes| bytes.split(|byte| *byte == 0));
        Ok(words.map(|words| words.map(|word| String::from_utf8_lossy(word).into_owned()).collect()))
    }

    /// Signals the command's group. `false`: it had ended.
    pub(super) async fn signal(&self, signal: u8) -> Result<bool, Error> {
        const ACTION: &str = "kill the durable command";
        match self.change(ACTION, Call::changing("kill", vec![signal.to_string()], None)).await? {
            Said::Done => Ok(true),
            Said::Refused(why) if why == "ended" => Ok(false),
            said => Err(self.refused(ACTION, said)),
        }
    }

    /// Removes the spool of a command that has ended.
    pub(super) async fn forget(&self) -> Result<bool, Error> {
        const ACTION: &str = "forget the durable command";
        match self.change(ACTION, Call::changing("forget", Vec::new(), None)).await? {
            Said::Done => Ok(true),
            Said::Refused(why) if why == "none" => Ok(false),
            said => Err(self.refused(ACTION, said)),
        }
    }

    /// Adds input at an offset; returns when little enough of it waits for the command to read.
    pub(super) async fn feed(&self, offset: u64, data: Bytes, last: bool) -> Result<(), Error> {
        const ACTION: &str = "write to the durable command's stdin";
        let end = offset + data.len() as u64;
        let args = vec![offset.to_string(), data.len().to_string(), random_hex()?, u8::from(last).to_string()];
        let mut said = self.change(ACTION, Call::changing("feed", args, Some(data))).await?;
        while said == Said::Waits {
            let waited = self.change(ACTION, Call::changing("fed", vec![end.to_string()], None)).await;
            said = waited.map_err(Error::partly)?;
        }
        match said {
            Said::Done => Ok(()),
            said => Err(self.refused(ACTION, said)),
        }
    }

    /// What it means that the wrapper refused something.
    pub(super) fn refused(&self, action: &'static str, said: Said) -> Error {
        let id = &self.id;
        let Said::Refused(why) = said else {
            return Error::malformed(action, format!("the wrapper said {said:?}"));
        };
        let (kind, message) = match why.as_str() {
            "none" => (ErrorKind::NotFound, format!("the sandbox has no durable command {id:?} of this user")),
            "forgotten" => (ErrorKind::NotFound, format!("the durable command {id:?} was forgotten")),
            "ended" => (ErrorKind::NotFound, format!("the durable command {id:?} has ended")),
            "running" => (ErrorKind::Conflict, format!("the durable command {id:?} still runs: kill it first")),
            "noinput" => (
                ErrorKind::InvalidArgument,
                format!("the durable command {id:?} was started without stdin (Command::stdin)"),
            ),
            "conflict" => {
                (ErrorKind::Conflict, "somebody else has written to its input meanwhile: attach to it again".to_owned())
            }
            "unstarted" => {
                let message =
                    format!("who was to start the durable command {id:?} is gone; nobody knows whether it ran");
                (ErrorKind::CommandLost, message)
            }
            "nospool" => {
                (ErrorKind::Unsupported, "no folder for spools can be made under /tmp, or ONCEBOX_SPOOL".to_owned())
            }
            other => (ErrorKind::Server, format!("the wrapper refused it: {other}")),
        };
        Error::new(kind, action, message)
    }
}

/// A call whose stream was cut.
pub(super) fn cut(action: &'static str, why: NoEvent) -> Error {
    match why {
        NoEvent::Cut(how) => Error::new(ErrorKind::ConnectionLost, action, how),
        NoEvent::Told(error) if error.code == ErrorCode::DeadlineExceeded => {
            let message = format!("the wrapper was killed after {CALL_TIMEOUT:?}");
            Error::new(ErrorKind::ConnectionLost, action, message)
        }
        NoEvent::Told(error) => Error::rpc(action, error),
    }
}

/// The wrapper ended without a word.
pub(super) fn wrapper_failed(action: &'static str, status: &str, words: &str) -> Error {
    let words: String = words.chars().take(200).flat_map(char::escape_default).collect();
    let message = format!("the wrapper ended early ({status}); it wrote {words:?}");
    Error::new(ErrorKind::ConnectionLost, action, message)
}
