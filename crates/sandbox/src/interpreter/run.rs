//! One run of code: sent once, followed line by line, bounded in time and size.

use std::fmt;
use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use oncebox_protocol::code_interpreter::{CodeContext, ExecuteCode};
use oncebox_protocol::{SecretString, operations};
use oncebox_transport::ResponseBody;
use tokio::time::{Instant, timeout_at};

use super::port::{Port, json};
use super::result::{CodeEvent, CodeOutput, CodeResult, Execution, ExecutionError, Line};
use crate::error::{Error, ErrorKind};
use crate::sandbox::{Sandbox, is_env_name};

const ACTION: &str = "run the code";

/// How long code may run (protocol fact: 300 s in the official SDK).
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(300);

/// What one run may give, in bytes.
const DEFAULT_MAX_OUTPUT: usize = 64 << 20;

/// Code about to be run: see [`Sandbox::run_code`].
#[must_use = "no code is run until this is awaited"]
pub struct RunCode {
    sandbox: Sandbox,
    body: ExecuteCode,
    timeout: Duration,
    max_output: usize,
    callbacks: Callbacks,
}

type Callback<T> = Option<Box<dyn FnMut(&T) + Send>>;

#[derive(Default)]
struct Callbacks {
    stdout: Callback<CodeOutput>,
    stderr: Callback<CodeOutput>,
    result: Callback<CodeResult>,
    error: Callback<ExecutionError>,
}

impl RunCode {
    pub(super) fn new(sandbox: &Sandbox, code: String) -> Self {
        Self {
            sandbox: sandbox.clone(),
            body: ExecuteCode { code, ..ExecuteCode::default() },
            timeout: DEFAULT_TIMEOUT,
            max_output: DEFAULT_MAX_OUTPUT,
            callbacks: Callbacks::default(),
        }
    }

    /// Runs it in the default kernel of this language. Default: Python.
    pub fn language(mut self, language: impl Into<String>) -> Self {
        self.body.language = Some(language.into());
        self
    }

    /// Runs it in this kernel; excludes `language`.
    pub fn context(mut self, context: &CodeContext) -> Self {
        self.body.context_id = Some(context.id.clone());
        self
    }

    /// Sets an environment variable for this run.
    pub fn env(mut self, name: impl Into<String>, value: impl Into<SecretString>) -> Self {
        self.body.env_vars.get_or_insert_default().insert(name.into(), value.into());
        self
    }

    /// How long all of it may take, from the request to the last result; zero means for ever. Default 300 s. It is the one
    /// limit of a run, and kept on this side: the client's `request_timeout` and idle limits do not apply. The code may go on
    /// after it, unless the server interrupts code whose client has gone.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// The most that may come of it, in bytes. Default 64 MiB.
    pub fn max_output(mut self, bytes: usize) -> Self {
        self.max_output = bytes;
        self
    }

    /// Told what the code writes to standard output, as it comes.
    pub fn on_stdout(mut self, callback: impl FnMut(&CodeOutput) + Send + 'static) -> Self {
        self.callbacks.stdout = Some(Box::new(callback));
        self
    }

    /// Told what the code writes to standard error, as it comes.
    pub fn on_stderr(mut self, callback: impl FnMut(&CodeOutput) + Send + 'static) -> Self {
        self.callbacks.stderr = Some(Box::new(callback));
        self
    }

    /// Told each result, as it comes.
    pub fn on_result(mut self, callback: impl FnMut(&CodeResult) + Send + 'static) -> Self {
        self.callbacks.result = Some(Box::new(callback));
        self
    }

    /// Told the exception that ended the code.
    pub fn on_error(mut self, callback: impl FnMut(&ExecutionError) + Send + 'static) -> Self {
        self.callbacks.error = Some(Box::new(callback));
        self
    }

    /// Sends the code, and returns what it does as it comes. Callbacks are called as events are asked for. Dropping what this
    /// returns closes the connection; whether the code then goes on is the server's choice.
    ///
    /// # Errors
    ///
    /// As [`Sandbox::run_code`].
    pub async fn start(self) -> Result<CodeRun, Error> {
        if self.body.context_id.is_some() && self.body.language.is_some() {
            return Err(Error::invalid("language: a context has its own; give one of the two"));
        }
        let mut names = self.body.env_vars.iter().flatten().map(|(name, _)| name);
        if let Some(name) = names.find(|name| !is_env_name(name)) {
            return Err(Error::invalid(format!("env: {name:?} is no name for an environment variable")));
        }
        let deadline = match self.timeout {
            Duration::ZERO => None,
            timeout => Instant::now().checked_add(timeout),
        };
        let port = Port::interpreter(&self.sandbox)?;
        let operation = &operations::EXECUTE_CODE;
        let options = port.options(operation).request_timeout(Duration::ZERO).read_idle_timeout(Duration::ZERO);
        let send = port.send(operation, ACTION, &[], Some(json(ACTION, &self.body)?), options);
        let response = match deadline {
            None => send.await,
            Some(deadline) => timeout_at(deadline, send).await.map_err(|_| timed_out(self.timeout))?,
        };
        let values = || self.body.env_vars.iter().flatten().map(|(_, value)| value.expose());
        let response = response.map_err(|error| error.without_values(values()))?;
        Ok(CodeRun {
            body: response.into_body(),
            unread: BytesMut::new(),
            lines: 0,
            received: 0,
            ended: false,
            execution_count: None,
            deadline,
            timeout: self.timeout,
            max_output: self.max_output,
            callbacks: self.callbacks,
        })
    }

    async fn send(self) -> Result<Execution, Error> {
        let mut run = self.start().await?;
        let mut execution = Execution::default();
        while let Some(event) = run.next().await {
            execution.add(event?);
        }
        execution.execution_count = run.execution_count();
        Ok(execution)
    }
}

impl IntoFuture for RunCode {
    type Output = Result<Execution, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.send())
    }
}

impl fmt::Debug for RunCode {
    // Code and variables may be secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunCode")
            .field("sandbox", &self.sandbox.id())
            .field("language", &self.body.language)
            .field("context", &self.body.context_id)
            .field("timeout", &self.timeout)
            .finish_non_exhaustive()
    }
}

/// Code that runs: see [`RunCode::start`].
pub struct CodeRun {
    body: ResponseBody,
    unread: BytesMut,
    lines: u64,
    received: usize,
    ended: bool,
    execution_count: Option<u64>,
    deadline: Option<Instant>,
    timeout: Duration,
    max_output: usize,
    callbacks: Callbacks,
}

impl CodeRun {
    /// The next thing that came of the code; `None` once it has ended.
    ///
    /// # Errors
    ///
    /// [`ConnectionLost`](ErrorKind::ConnectionLost) when the answer was cut: what came before is all that is known.
    /// Nothing follows an error.
    pub async fn next(&mut self) -> Option<Result<CodeEvent, Error>> {
        if self.ended {
            return None;
        }
        let event = match self.deadline {
            None => self.event().await,
            Some(deadline) => match timeout_at(deadline, self.event()).await {
                Ok(event) => event,
                Err(_) => Err(timed_out(self.timeout)),
            },
        };
        self.ended = !matches!(event, Ok(Some(_)));
        let event = event.transpose()?;
        if let Ok(event) = &event {
            self.callbacks.tell(event);
        }
        Some(event)
    }

    /// The number of this run in its kernel, once it is known.
    pub fn execution_count(&self) -> Option<u64> {
        self.execution_count
    }

    async fn event(&mut self) -> Result<Option<CodeEvent>, Error> {
        while let Some(line) = self.line().await? {
            let line = Line::read(&line).map_err(|error| Error::malformed(ACTION, error))?;
            match line {
                Line::Event(event) => return Ok(Some(event)),
                Line::ExecutionCount(count) => self.execution_count = Some(count),
                // Of a kind that is newer than this crate.
                Line::Other => {}
            }
        }
        Ok(None)
    }

    /// The next line without its end; `None` after the last.
    async fn line(&mut self) -> Result<Option<Bytes>, Error> {
        // What was searched already.
        let mut searched = 0;
        loop {
            if let Some(end) = self.unread[searched..].iter().position(|byte| *byte == b'\n') {
                let line = self.unread.split_to(searched + end + 1).freeze();
                let line = line.slice(..line.len() - 1);
                if line.iter().all(u8::is_ascii_whitespace) {
                    searched = 0;
                    continue;
                }
                self.lines += 1;
                return Ok(Some(line));
            }
            searched = self.unread.len();
            match self.body.frame().await {
                Some(Ok(frame)) => {
                    let Ok(data) = frame.into_data() else { continue };
                    self.received += data.len();
                    if self.received > self.max_output {
                        return Err(too_much(self.max_output));
                    }
                    self.unread.extend_from_slice(&data);
                }
                Some(Err(error)) => return Err(cut(&error.to_string())),
                None if !self.unread.is_empty() => return Err(cut("the answer ended in the middle of a line")),
                // Code that prints nothing has its number told at least: this is no result but the lack of one.
                None if self.lines == 0 => return Err(cut("the answer ended before anything was told")),
                None => return Ok(None),
            }
        }
    }
}

impl fmt::Debug for CodeRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CodeRun").field("received", &self.received).field("ended", &self.ended).finish_non_exhaustive()
    }
}

impl Callbacks {
    fn tell(&mut self, event: &CodeEvent) {
        fn call<T>(callback: &mut Callback<T>, with: &T) {
            if let Some(callback) = callback {
                callback(with);
            }
        }
        match event {
            CodeEvent::Stdout(output) => call(&mut self.stdout, output),
            CodeEvent::Stderr(output) => call(&mut self.stderr, output),
            CodeEvent::Result(result) => call(&mut self.result, result),
            CodeEvent::Error(error) => call(&mut self.error, error),
        }
    }
}

fn cut(how: &str) -> Error {
    let message = format!("{how}: the connection was lost, and the result is unknown; the code may go on running");
    Error::new(ErrorKind::ConnectionLost, ACTION, message)
}

fn timed_out(timeout: Duration) -> Error {
    let message = format!("it did not end within {timeout:?} (timeout); the code may go on running");
    Error::new(ErrorKind::Timeout, ACTION, message)
}

fn too_much(limit: usize) -> Error {
    let message = format!("more came of it than {limit} bytes (max_output); the code may go on running");
    Error::new(ErrorKind::Unsupported, ACTION, message)
}
