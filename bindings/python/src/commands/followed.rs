//! What a command that is followed says, and what has been said of it so far.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use oncebox::{CommandEvent, CommandHandle, DurableCommand, Error, ErrorKind, Exit, Utf8Decoder};
use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::Gather;
use crate::errors::{self, Failure};

/// What is handed to Python at a time, in bytes, as far as it has come.
const BATCH: usize = 64 << 10;

/// The most output that is kept, both streams together, in bytes. As in the Rust SDK.
const MAX_RETAINED: usize = 64 << 20;

/// A command that is followed.
pub(super) struct Followed {
    pub(super) follow: tokio::sync::Mutex<Follow>,
    pub(super) said: Mutex<Said>,
    /// Ends the following, whoever waits meanwhile. The command goes on.
    pub(super) closed: CancellationToken,
}

/// What is turned on the IO thread, by one at a time.
pub(super) struct Follow {
    pub(super) source: Source,
    retain: bool,
    /// When this side stops following, and the option that says so.
    until: Option<(Instant, Duration)>,
    stdout: Utf8Decoder,
    stderr: Utf8Decoder,
    gap: Option<String>,
    ended: Option<Result<Ended, Failure>>,
}

pub(super) enum Source {
    Plain(Box<CommandHandle>),
    Durable(Box<DurableCommand>),
    /// Disconnected: what it does is not followed any more.
    Closed,
}

/// What it said, seen from any thread.
#[derive(Default)]
pub(super) struct Said {
    pub(super) stdout: String,
    pub(super) stderr: String,
    /// What was not handed on yet.
    pub(super) new: VecDeque<Piece>,
    pub(super) ended: Option<Ended>,
}

pub(super) enum Piece {
    Stdout(String),
    Stderr(String),
    Pty(Bytes),
}

/// How a command ended, and what it wrote.
#[derive(Clone, Debug)]
pub(crate) struct Ended {
    stdout: Option<String>,
    stderr: Option<String>,
    pub(super) exit: Exit,
}

impl Ended {
    pub(crate) fn object(self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        if self.exit.timed_out {
            let why = "the command ran for longer than its `timeout`, for which the sandbox killed it; 0 is none";
            return Err(errors::plain(py, ErrorKind::Timeout, why));
        }
        let dict = PyDict::new(py);
        dict.set_item("stdout", self.stdout)?;
        dict.set_item("stderr", self.stderr)?;
        dict.set_item("exit_code", self.exit.code)?;
        dict.set_item("error", self.exit.error)?;
        Ok(dict.into_any().unbind())
    }
}

impl Followed {
    pub(super) fn new(source: Source, gather: Gather) -> Self {
        let until = gather.limit.and_then(|limit| Some((Instant::now().checked_add(limit)?, limit)));
        let follow = Follow {
            source,
            retain: gather.retain,
            until,
            stdout: Utf8Decoder::new(),
            stderr: Utf8Decoder::new(),
            gap: None,
            ended: None,
        };
        Self { follow: tokio::sync::Mutex::new(follow), said: Mutex::default(), closed: CancellationToken::new() }
    }

    /// Follows it to its end.
    pub(super) async fn to_the_end(&self) -> Result<Ended, Failure> {
        let mut follow = self.follow.lock().await;
        loop {
            if let Some(ended) = &follow.ended {
                return ended.clone();
            }
            follow.batch(self).await?;
            self.said.lock().new.clear();
        }
    }
}

impl Follow {
    /// Waits until it says something, and takes what else has come. Nothing new after it: it has ended.
    pub(super) async fn batch(&mut self, shared: &Followed) -> Result<(), Failure> {
        while self.ended.is_none() && shared.said.lock().new.is_empty() {
            let first = self.next(shared).await;
            let mut size = self.take(first, &shared.said)?;
            while size < BATCH && self.ended.is_none() {
                match self.source.next().now_or_never() {
                    Some(event) => size += self.take(event.ok_or_else(unfollowed), &shared.said)?,
                    None => break,
                }
            }
        }
        match &self.ended {
            Some(Err(failure)) => Err(failure.clone()),
            _ => Ok(()),
        }
    }

    /// The next thing it does, unless following it ends before.
    async fn next(&mut self, shared: &Followed) -> Result<Result<CommandEvent, Error>, Failure> {
        let next = shared.closed.run_until_cancelled(self.source.next());
        let event = match self.until {
            None => next.await.flatten(),
            Some((until, limit)) => match tokio::time::timeout_at(until, next).await {
                Ok(event) => event.flatten(),
                Err(_) => {
                    let message =
                        format!("the command was followed for its `timeout` of {limit:?}; it goes on; 0 is none");
                    return Err(Failure::Plain(ErrorKind::Timeout, message));
                }
            },
        };
        event.ok_or_else(unfollowed)
    }

    /// Takes an event, or what there is in place of one. A failure is the end, but of a durable command's connection: asked
    /// again, it goes on where it stopped.
    fn take(
        &mut self,
        event: Result<Result<CommandEvent, Error>, Failure>,
        said: &Mutex<Said>,
    ) -> Result<usize, Failure> {
        let event = match event {
            Ok(Ok(event)) => event,
            Ok(Err(error)) if matches!(self.source, Source::Durable(_)) => return Err(Failure::Sdk(error)),
            Ok(Err(error)) => return Err(self.fail(Failure::Sdk(error))),
            Err(failure) => return Err(self.fail(failure)),
        };
        let mut said = said.lock();
        match event {
            CommandEvent::Stdout(bytes) => {
                let text = self.stdout.push(&bytes);
                said.add(text, false, self.retain);
                self.check_bound(&said, bytes.len())
            }
            CommandEvent::Stderr(bytes) => {
                let text = self.stderr.push(&bytes);
                said.add(text, true, self.retain);
                self.check_bound(&said, bytes.len())
            }
            CommandEvent::Pty(bytes) => {
                // Not retained, as in the official SDK: a terminal may be open for days, and what it shows is for who looks.
                let size = bytes.len();
                said.new.push_back(Piece::Pty(bytes));
                Ok(size)
            }
            CommandEvent::Gap(how) => {
                self.gap = Some(how);
                Ok(0)
            }
            CommandEvent::Exit(exit) => {
                said.add(self.stdout.finish().to_owned(), false, self.retain);
                said.add(self.stderr.finish().to_owned(), true, self.retain);
                self.end(exit, &mut said);
                Ok(0)
            }
            _ => Ok(0),
        }
    }

    fn end(&mut self, exit: Exit, said: &mut Said) {
        let kept = |text: &String| self.retain.then(|| text.clone());
        let ended = Ended { stdout: kept(&said.stdout), stderr: kept(&said.stderr), exit: exit.clone() };
        said.ended = Some(ended.clone());
        self.ended = Some(match (&self.gap, &self.source) {
            (Some(how), Source::Plain(handle)) => {
                let (stdout, stderr) = (said.stdout.clone().into_bytes(), said.stderr.clone().into_bytes());
                Err(Failure::Sdk(handle.output_lost(how, stdout, stderr, exit)))
            }
            _ => Ok(ended),
        });
    }

    fn check_bound(&mut self, said: &Said, size: usize) -> Result<usize, Failure> {
        if said.stdout.len() + said.stderr.len() <= MAX_RETAINED {
            return Ok(size);
        }
        let message = format!(
            "the command's output is longer than {MAX_RETAINED} bytes, which is all that is retained; it goes on running, and \
             `retain_output=False` with callbacks has no such bound"
        );
        Err(self.fail(Failure::Plain(ErrorKind::Unsupported, message)))
    }

    /// Its stream is given up, and the command goes on.
    fn fail(&mut self, failure: Failure) -> Failure {
        self.source = Source::Closed;
        self.ended = Some(Err(failure.clone()));
        failure
    }
}

fn unfollowed() -> Failure {
    Failure::Plain(ErrorKind::CommandLost, "it is not followed any more, and how it ends is not known here".to_owned())
}

impl Source {
    async fn next(&mut self) -> Option<Result<CommandEvent, Error>> {
        match self {
            Self::Plain(handle) => handle.next().await,
            Self::Durable(command) => command.next().await,
            Self::Closed => None,
        }
    }
}

impl Said {
    fn add(&mut self, text: String, is_error: bool, retain: bool) {
        if text.is_empty() {
            return;
        }
        if retain {
            if is_error { &mut self.stderr } else { &mut self.stdout }.push_str(&text);
        }
        self.new.push_back(if is_error { Piece::Stderr(text) } else { Piece::Stdout(text) });
    }
}
