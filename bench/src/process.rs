//! Processes: their cores, and the children that measure.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use crate::Failed;

/// Where clients run.
pub(crate) const CLIENT_CORE: usize = 0;

/// Where the server runs.
pub(crate) const SERVER_CORE: usize = 1;

/// Keeps this process on one core, where the system can do that and has such a core.
pub(crate) fn pin(core: usize) {
    #[cfg(target_os = "linux")]
    {
        let mut set = nix::sched::CpuSet::new();
        let pinned = set.set(core).and_then(|()| nix::sched::sched_setaffinity(nix::unistd::Pid::from_raw(0), &set));
        if let Err(error) = pinned {
            eprintln!("not pinned to core {core}: {error}");
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = core;
}

/// The server, in its own process until this is dropped.
pub(crate) struct Server {
    child: Child,
    pub(crate) answers: String,
    pub(crate) downloads: String,
}

impl Server {
    pub(crate) fn start() -> Result<Self, Failed> {
        let mut child = this()?.arg("serve").stdout(Stdio::piped()).spawn()?;
        let mut line = String::new();
        if let Some(stdout) = child.stdout.take() {
            BufReader::new(stdout).read_line(&mut line)?;
        }
        let mut ports = line.split_whitespace().map(str::to_owned);
        match (ports.next(), ports.next()) {
            (Some(answers), Some(downloads)) => Ok(Self { child, answers, downloads }),
            _ => Err("the server did not start".into()),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs this program with other arguments, and returns the numbers that it prints.
pub(crate) fn measure(args: &[&str]) -> Result<Vec<f64>, Failed> {
    let output = this()?.args(args).stderr(Stdio::inherit()).output()?;
    if !output.status.success() {
        return Err(format!("`{}` ended with {}", args.join(" "), output.status).into());
    }
    let numbers = String::from_utf8(output.stdout)?;
    Ok(numbers.split_whitespace().map(str::parse).collect::<Result<_, _>>()?)
}

fn this() -> Result<Command, Failed> {
    Ok(Command::new(std::env::current_exe()?))
}
