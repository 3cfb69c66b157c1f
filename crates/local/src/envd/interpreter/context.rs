//! One context: a kernel, its driver, and the turn-taking of requests for it.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::Stream;
use http::StatusCode;
use oncebox_protocol::api::EnvVars;
use oncebox_protocol::code_interpreter::CodeContext;
use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::unix::pipe;
use tokio::sync::{Mutex, OwnedMutexGuard};

use crate::envd::answer::Refusal;
use crate::envd::process::{PATH, Reaper};

/// The program between a kernel and us.
const DRIVER: &str = include_str!("kernel.py");

/// How long a kernel may take to start: on a busy machine its Python loads for seconds.
const START_LIMIT: Duration = Duration::from_secs(90);
/// Longest line of a driver: one result, with its pictures.
const MAX_LINE: u64 = 64 << 20;

/// What kernels are started from.
pub(super) struct Starter {
    pub(super) python: PathBuf,
    pub(super) env: EnvVars,
    pub(super) home: PathBuf,
    pub(super) reaper: Arc<Reaper>,
}

impl Starter {
    /// Starts a kernel in `directory`, which clients know as `name`.
    pub(super) async fn start(&self, directory: &Path, name: String) -> Result<Context, Refusal> {
        let failed = |why: String| Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, format!("no kernel started: {why}"));
        let mut random = [0; 16];
        getrandom::fill(&mut random).map_err(|error| failed(error.to_string()))?;
        let mut command = Command::new(&self.python);
        command
            .args(["-c", DRIVER])
            .env_clear()
            .env("PATH", PATH)
            .env("HOME", &self.home)
            .env("USER", "user")
            .env("LOGNAME", "user")
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .envs(self.env.iter().map(|(name, value)| (name, value.expose())))
            .current_dir(directory)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let (mut child, _status) =
            self.reaper.spawn(&mut command).map_err(|error| unsupported(&self.python, &error.to_string()))?;
        let driver = (|| {
            let stdin = child.stdin.take().ok_or(io::ErrorKind::BrokenPipe)?;
            let stdout = child.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
            Ok::<_, io::Error>(Driver {
                input: pipe::Sender::from_owned_fd(stdin.into())?,
                output: BufReader::new(pipe::Receiver::from_owned_fd(stdout.into())?),
                busy: false,
            })
        })();
        let mut driver = driver.map_err(|error| failed(error.to_string()))?;
        let ready = tokio::time::timeout(START_LIMIT, driver.next()).await;
        let ready = ready.unwrap_or_else(|_| Err(io::Error::other(format!("it was not ready within {START_LIMIT:?}"))));
        match ready {
            Ok(line) if line["type"] == "done" => {}
            Ok(line) if line["type"] == "unsupported" => {
                return Err(unsupported(&self.python, line["why"].as_str().unwrap_or_default()));
            }
            Ok(line) => return Err(failed(format!("its driver said {line}"))),
            Err(error) => {
                let _ = self.reaper.signal(child.id(), Signal::KILL);
                return Err(failed(error.to_string()));
            }
        }
        Ok(Context {
            id: random.iter().map(|byte| format!("{byte:02x}")).collect(),
            cwd: name,
            default: AtomicBool::new(false),
            pid: child.id(),
            reaper: Arc::clone(&self.reaper),
            driver: Arc::new(Mutex::new(driver)),
        })
    }
}

fn unsupported(python: &Path, why: &str) -> Refusal {
    Refusal::new(
        StatusCode::NOT_IMPLEMENTED,
        format!(
            "Unsupported: the code interpreter needs a Python with ipykernel, and {} has none ({why}); nothing was run. The \
             server's option `code_interpreter` names another Python",
            python.display()
        ),
    )
}

/// A kernel with its state.
pub(super) struct Context {
    id: String,
    cwd: String,
    default: AtomicBool,
    pid: u32,
    reaper: Arc<Reaper>,
    driver: Arc<Mutex<Driver>>,
}

impl Context {
    pub(super) fn id(&self) -> &str {
        &self.id
    }

    pub(super) fn describe(&self) -> CodeContext {
        CodeContext { id: self.id.clone(), language: super::PYTHON.to_owned(), cwd: self.cwd.clone() }
    }

    /// Whether its kernel can run anything.
    pub(super) fn is_alive(&self) -> bool {
        self.reaper.has(self.pid)
    }

    pub(super) fn is_default(&self) -> bool {
        self.default.load(Ordering::Relaxed)
    }

    pub(super) fn make_default(&self) {
        self.default.store(true, Ordering::Relaxed);
    }

    /// Runs code, after what runs now, and gives the lines of what comes of it, after `first`. Dropping the stream interrupts
    /// the code.
    pub(super) fn execute(
        self: Arc<Self>,
        code: String,
        env: EnvVars,
        first: Option<Value>,
    ) -> impl Stream<Item = io::Result<Bytes>> + Send + 'static {
        async_stream::try_stream! {
            if let Some(line) = first {
                yield Bytes::from(format!("{line}\n"));
            }
            let env: serde_json::Map<String, Value> =
                env.iter().map(|(name, value)| (name.clone(), value.expose().into())).collect();
            let mut turn = self.turn().await?;
            turn.ask(&json!({ "code": code, "env": env })).await?;
            loop {
                let line = turn.driver.next().await?;
                if line["type"] == "done" {
                    break;
                }
                yield Bytes::from(format!("{line}\n"));
            }
            turn.driver.busy = false;
        }
    }

    /// Starts the kernel afresh.
    pub(super) async fn restart(&self) -> Result<(), Refusal> {
        let restarted = async {
            let mut turn = self.turn().await?;
            turn.ask(&json!({ "restart": true })).await?;
            turn.driver.until_done().await
        };
        let failed =
            |error| Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, format!("the kernel did not restart: {error}"));
        restarted.await.map_err(failed)
    }

    /// Ends the kernel and all it started.
    pub(super) fn end(&self) {
        // The driver ends its kernel before itself.
        let _ = self.reaper.signal(self.pid, Signal::TERM);
    }

    /// The driver, once nobody else has it. What a client left behind is read first.
    async fn turn(&self) -> io::Result<Turn> {
        let mut driver = Arc::clone(&self.driver).lock_owned().await;
        if driver.busy {
            driver.until_done().await?;
        }
        Ok(Turn { driver, reaper: Arc::clone(&self.reaper), pid: self.pid })
    }
}

/// The right to use a driver. A client that leaves while its code runs has it interrupted.
struct Turn {
    driver: OwnedMutexGuard<Driver>,
    reaper: Arc<Reaper>,
    pid: u32,
}

impl Turn {
    async fn ask(&mut self, request: &Value) -> io::Result<()> {
        self.driver.busy = true;
        self.driver.input.write_all(format!("{request}\n").as_bytes()).await
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if self.driver.busy {
            let _ = self.reaper.signal(self.pid, Signal::USR1);
        }
    }
}

struct Driver {
    input: pipe::Sender,
    output: BufReader<pipe::Receiver>,
    /// Whether there are lines left that belong to a request.
    busy: bool,
}

impl Driver {
    async fn next(&mut self) -> io::Result<Value> {
        let mut line = Vec::new();
        (&mut self.output).take(MAX_LINE).read_until(b'\n', &mut line).await?;
        if !line.ends_with(b"\n") {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the kernel's driver has ended"));
        }
        Ok(serde_json::from_slice(&line)?)
    }

    async fn until_done(&mut self) -> io::Result<()> {
        while self.next().await?["type"] != "done" {}
        self.busy = false;
        Ok(())
    }
}
