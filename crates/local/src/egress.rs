//! The server's end of a sandbox's way out: a helper that keeps `pasta` for it.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::net::UnixStream;

use crate::envd;
use crate::helper::Helper;
use crate::lifeline::Report;

/// The program that is a network stack without rights; Debian's package is `passt`.
const PROGRAM: &str = "pasta";
/// How long the helper may take to say that it is ready, or that it is not.
const START_LIMIT: Duration = Duration::from_secs(10);

/// A running `pasta`. It ends when this is dropped, and soon after this process, however that ends.
#[derive(Debug)]
pub(crate) struct Egress {
    lifeline: Option<std::os::unix::net::UnixStream>,
    child: Child,
}

impl Egress {
    /// Gives the sandbox whose namespaces the process `launcher` is in a way out. The error says why there is none.
    pub(crate) async fn start(helper: &Helper, launcher: u32) -> Result<Self, String> {
        let program = find().ok_or_else(|| format!("{PROGRAM} (Debian's package passt) is not installed"))?;
        let failed = |error: io::Error| format!("starting {}: {error}", program.display());
        let (ours, theirs) = std::os::unix::net::UnixStream::pair().map_err(failed)?;
        let mut command = Command::new(helper.program());
        command
            .args(helper.args())
            .arg(envd::EGRESS)
            .arg(&program)
            .arg(launcher.to_string())
            .env_clear()
            .current_dir("/")
            .stdin(Stdio::from(std::os::fd::OwnedFd::from(theirs)))
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let child = tokio::task::spawn_blocking(move || command.spawn()).await.map_err(io::Error::other);
        let child = child.and_then(|child| child).map_err(failed)?;
        let egress = Self { lifeline: Some(ours.try_clone().map_err(failed)?), child };
        ours.set_nonblocking(true).map_err(failed)?;
        let mut line = String::new();
        let mut reader = BufReader::new(UnixStream::from_std(ours).map_err(failed)?);
        match tokio::time::timeout(START_LIMIT, reader.read_line(&mut line)).await {
            Err(_) => Err(format!("{} was not ready within {START_LIMIT:?}", program.display())),
            Ok(Err(error)) => Err(failed(error)),
            Ok(Ok(_)) => match serde_json::from_str(&line) {
                Ok(Report::Ready) => Ok(egress),
                Ok(Report::NotAllowed(why) | Report::Failed(why)) => Err(why),
                Err(_) => Err(format!("{} was not started: no report", program.display())),
            },
        }
    }
}

impl Drop for Egress {
    fn drop(&mut self) {
        if let Some(lifeline) = self.lifeline.take() {
            // All copies of this end.
            let _ = lifeline.shutdown(std::net::Shutdown::Both);
        }
        // It kills `pasta` and ends, within milliseconds.
        let _ = self.child.wait();
    }
}

/// Where the program is, by `PATH`.
pub(crate) fn find() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(PROGRAM)).find(|program| is_program(program))
}

fn is_program(path: &Path) -> bool {
    path.is_absolute()
        && rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok()
        && path.file_name() == Some(OsStr::new(PROGRAM))
}
