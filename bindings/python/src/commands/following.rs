//! A running command that is followed: what it wrote so far, and how it ended.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use oncebox::{CommandEvent, CommandHandle, DurableCommand, DurableControl, Error, ErrorKind, Exit, Utf8Decoder};
use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{Gather, told};
use crate::convert;
use crate::errors::{self, Failure, Subject};
use crate::pending::{Pending, begin, begin_with};
use crate::runtime;

/// What is handed to Python at a time, in bytes, as far as it has come.
const BATCH: usize = 64 << 10;

/// The most output that is kept, both streams together, in bytes. As in the Rust SDK.
const MAX_RETAINED: usize = 64 << 20;

/// A running command.
#[pyclass(frozen, module = "oncebox._core")]
pub(crate) struct Following {
    sandbox: Option<oncebox::Sandbox>,
    pid: Option<u32>,
    durable: Option<(String, DurableControl)>,
    shared: Arc<Shared>,
}

struct Shared {
    follow: tokio::sync::Mutex<Follow>,
    said: Mutex<Said>,
    /// Ends the following, whoever waits meanwhile. The command goes on.
    closed: CancellationToken,
}

/// What is turned on the IO thread, by one at a time.
struct Follow {
    source: Source,
    retain: bool,
    /// When this side stops following, and the option that says so.
    until: Option<(Instant, Duration)>,
    stdout: Utf8Decoder,
    stderr: Utf8Decoder,
    gap: Option<String>,
    ended: Option<Result<Ended, Failure>>,
}

enum Source {
    Plain(Box<CommandHandle>),
    Durable(Box<DurableCommand>),
    /// Disconnected: what it does is not followed any more.
    Closed,
}

/// What it said, seen from any thread.
#[derive(Default)]
struct Said {
    stdout: String,
    stderr: String,
    /// What was not handed on yet.
    new: VecDeque<Piece>,
    ended: Option<Ended>,
}

enum Piece {
    Stdout(String),
    Stderr(String),
    Pty(Bytes),
}

/// How a command ended, and what it wrote.
#[derive(Clone, Debug)]
pub(crate) struct Ended {
    stdout: Option<String>,
    stderr: Option<String>,
    exit: Exit,
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

impl Following {
    pub(crate) fn plain(sandbox: &oncebox::Sandbox, handle: CommandHandle, gather: Gather) -> Self {
        let pid = Some(handle.pid());
        Self::new(Some(sandbox.clone()), pid, None, Source::Plain(Box::new(handle)), gather)
    }

    pub(crate) fn durable(command: DurableCommand, gather: Gather) -> Self {
        let control = (command.id().to_owned(), command.control());
        Self::new(None, None, Some(control), Source::Durable(Box::new(command)), gather)
    }

    fn new(
        sandbox: Option<oncebox::Sandbox>,
        pid: Option<u32>,
        durable: Option<(String, DurableControl)>,
        source: Source,
        gather: Gather,
    ) -> Self {
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
        let follow = tokio::sync::Mutex::new(follow);
        let shared = Arc::new(Shared { follow, said: Mutex::default(), closed: CancellationToken::new() });
        Self { sandbox, pid, durable, shared }
    }

    pub(crate) fn object(py: Python<'_>, following: Self) -> PyResult<Py<PyAny>> {
        Ok(Py::new(py, following)?.into_any())
    }

    /// Follows it to its end.
    pub(crate) async fn wait(self) -> Result<Ended, Failure> {
        self.shared.to_the_end().await
    }
}

#[pymethods]
impl Following {
    /// Its process; a durable command has none that can be told.
    #[getter]
    fn pid(&self) -> Option<u32> {
        self.pid
    }

    /// The id of a durable command.
    #[getter]
    fn id(&self) -> Option<&str> {
        self.durable.as_ref().map(|(id, _)| id.as_str())
    }

    /// What it wrote to its standard output, as far as that has come; empty where it is not retained.
    #[getter]
    fn stdout(&self) -> String {
        self.shared.said.lock().stdout.clone()
    }

    #[getter]
    fn stderr(&self) -> String {
        self.shared.said.lock().stderr.clone()
    }

    /// How it ended, once that is known.
    #[getter]
    fn ended<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        let Some(ended) = self.shared.said.lock().ended.clone() else { return Ok(None) };
        let dict = PyDict::new(py);
        dict.set_item("exit_code", ended.exit.code)?;
        dict.set_item("error", ended.exit.error)?;
        Ok(Some(dict))
    }

    /// What it wrote since the last time, a list of `("stdout" | "stderr" | "pty", what)`. Empty: it has ended.
    fn next(&self, py: Python<'_>) -> PyResult<Pending> {
        let (shared, taking) = (Arc::clone(&self.shared), Arc::clone(&self.shared));
        let next = async move {
            let mut follow = shared.follow.lock().await;
            if !shared.said.lock().new.is_empty() {
                return Ok(());
            }
            follow.batch(&shared).await
        };
        // What has come stays there until it is taken: a caller who goes away in between loses nothing.
        begin_with(py, next, move |py, turned: Result<(), Failure>| {
            let new = std::mem::take(&mut taking.said.lock().new);
            if new.is_empty() {
                turned.map_err(|failure| failure.raise(py, Subject::Process))?;
            }
            let list = PyList::empty(py);
            for piece in new {
                list.append(match piece {
                    Piece::Stdout(text) => told(py, "stdout", text)?,
                    Piece::Stderr(text) => told(py, "stderr", text)?,
                    Piece::Pty(bytes) => told(py, "pty", PyBytes::new(py, &bytes))?,
                })?;
            }
            Ok(list.into_any().unbind())
        })
    }

    /// Waits for its end. The result is how it ended; what was not handed on is dropped, but for what is retained.
    fn wait_for_end(&self, py: Python<'_>) -> PyResult<Pending> {
        let shared = Arc::clone(&self.shared);
        begin_with(py, async move { shared.to_the_end().await }, |py, ended: Result<Ended, Failure>| {
            ended.map_err(|failure| failure.raise(py, Subject::Process))?.object(py)
        })
    }

    /// Follows it in the background, so that it is not held up by nobody taking what it writes.
    fn pump(&self, py: Python<'_>) -> PyResult<()> {
        let shared = Arc::clone(&self.shared);
        // Its end, or failure, is there for who asks later.
        runtime::handle(py)?.spawn(async move { drop(shared.to_the_end().await) });
        Ok(())
    }

    /// Stops following it. It goes on running.
    fn disconnect(&self, py: Python<'_>) -> PyResult<Pending> {
        let shared = Arc::clone(&self.shared);
        shared.closed.cancel();
        let closed = async move { shared.follow.lock().await.source = Source::Closed };
        begin_with(py, closed, |py, ()| Ok(py.None()))
    }

    /// Stops following it without waiting for that. It goes on running.
    fn give_up(&self, py: Python<'_>) {
        let shared = Arc::clone(&self.shared);
        shared.closed.cancel();
        // Where the interpreter is ending, all of it ends anyway.
        if let Ok(runtime) = runtime::handle(py) {
            runtime.spawn(async move { shared.follow.lock().await.source = Source::Closed });
        }
    }

    /// `False`: it had ended already.
    fn kill(&self, py: Python<'_>) -> PyResult<Pending> {
        let (durable, sandbox, pid) = (self.control(), self.sandbox.clone(), self.pid);
        let killed = async move {
            match (durable, sandbox, pid) {
                (Some(control), ..) => control.kill().await,
                (None, Some(sandbox), Some(pid)) => sandbox.commands().kill(pid).await,
                _ => Ok(false),
            }
        };
        begin(py, Subject::Process, killed, convert::flag)
    }

    fn send_stdin(&self, py: Python<'_>, data: Vec<u8>, terminal: bool) -> PyResult<Pending> {
        let (durable, sandbox, pid) = (self.control(), self.sandbox.clone(), self.pid);
        let sent = async move {
            match (durable, sandbox, pid) {
                (Some(control), ..) => control.send_stdin(data).await,
                (None, Some(sandbox), Some(pid)) if terminal => sandbox.pty().send(pid, data).await,
                (None, Some(sandbox), Some(pid)) => sandbox.commands().send_stdin(pid, data).await,
                _ => Ok(()),
            }
        };
        begin(py, Subject::Process, sent, |py, ()| Ok(py.None()))
    }

    fn close_stdin(&self, py: Python<'_>) -> PyResult<Pending> {
        let (durable, sandbox, pid) = (self.control(), self.sandbox.clone(), self.pid);
        let closed = async move {
            match (durable, sandbox, pid) {
                (Some(control), ..) => control.close_stdin().await,
                (None, Some(sandbox), Some(pid)) => sandbox.commands().close_stdin(pid).await,
                _ => Ok(()),
            }
        };
        begin(py, Subject::Process, closed, |py, ()| Ok(py.None()))
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        self.shared.closed.cancel();
    }
}

impl Following {
    fn control(&self) -> Option<DurableControl> {
        self.durable.as_ref().map(|(_, control)| control.clone())
    }
}

impl Shared {
    async fn to_the_end(&self) -> Result<Ended, Failure> {
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
    async fn batch(&mut self, shared: &Shared) -> Result<(), Failure> {
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
    async fn next(&mut self, shared: &Shared) -> Result<Result<CommandEvent, Error>, Failure> {
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
