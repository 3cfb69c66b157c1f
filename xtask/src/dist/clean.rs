//! An environment in which nothing of this machine's user, and nothing of the repository, can be found.

use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use crate::command::{output, shown};

/// Where a plain system has its programs.
const SYSTEM: [&str; 5] = ["/usr/local/bin", "/usr/bin", "/bin", "/usr/sbin", "/sbin"];

/// An empty folder that is a home, with no variables but those that every login has.
pub(super) struct Clean {
    folder: TempDir,
    path: OsString,
}

impl Clean {
    /// `programs` are those that a user needs to have, such as `node`: their folders are in the path.
    pub(super) fn new(programs: &[&str]) -> Result<Self, String> {
        let folder = tempfile::Builder::new().prefix("oncebox-dist-").tempdir();
        let folder = folder.map_err(|error| format!("a temporary folder: {error}"))?;
        let found = programs.iter().filter_map(|program| found(program));
        let path = std::env::join_paths(SYSTEM.iter().map(PathBuf::from).chain(found));
        Ok(Self { folder, path: path.map_err(|error| error.to_string())? })
    }

    pub(super) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(super) fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        command.env_clear().env("PATH", &self.path).env("HOME", self.folder()).env("LANG", "C.UTF-8");
        command.current_dir(self.folder()).stdin(Stdio::null());
        command
    }

    /// The command does its main job: in a server of its own, and in one that it serves. `also` is run beside that server,
    /// in an environment that leads to it.
    pub(super) fn command_works(
        &self,
        program: &Path,
        version: &str,
        also: impl FnOnce(&Server) -> Result<(), String>,
    ) -> Result<(), String> {
        expect(self.command(program).arg("--version"), &format!("oncebox {version}\n"))?;
        let local = ["run", "--local", "--", "sh", "-c", "echo $((6 * 7))"];
        expect(self.command(program).args(local), "42\n")?;
        let server = Server::start(self.command(program))?;
        let served = ["run", "--", "sh", "-c", "echo $((6 * 7))"];
        expect(self.command(program).args(served).envs(server.environment()), "42\n")?;
        also(&server)?;
        server.stop()
    }
}

/// `oncebox serve`, which ends with this value.
pub(super) struct Server {
    child: Child,
    url: String,
}

impl Server {
    fn start(mut program: Command) -> Result<Self, String> {
        let shown = format!("{} serve", program.get_program().display());
        let failed = |error: std::io::Error| format!("{shown}: {error}");
        let child = program.args(["serve", "--port", "0", "--json"]).stdout(Stdio::piped()).spawn().map_err(failed)?;
        let mut server = Self { child, url: String::new() };
        let mut line = String::new();
        if let Some(output) = server.child.stdout.as_mut() {
            BufReader::new(output).read_line(&mut line).map_err(failed)?;
        }
        let said: Option<Value> = serde_json::from_str(&line).ok();
        match said.as_ref().and_then(|said| said["url"].as_str()) {
            Some(url) => server.url = url.to_owned(),
            None => return Err(format!("{shown}: it said {line:?} and no URL")),
        }
        Ok(server)
    }

    /// What leads to it, the official SDKs too.
    pub(super) fn environment(&self) -> [(&'static str, &str); 4] {
        let url = self.url.as_str();
        [("E2B_API_URL", url), ("E2B_SANDBOX_URL", url), ("E2B_VOLUME_API_URL", url), ("E2B_API_KEY", "local")]
    }

    /// Ends it as Ctrl-C does; it has to end well.
    fn stop(mut self) -> Result<(), String> {
        let asked = Command::new("kill").arg("-INT").arg(self.child.id().to_string()).status();
        asked.map_err(|error| format!("kill: {error}"))?;
        match self.child.wait() {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(format!("`oncebox serve`, interrupted, ended with {status}")),
            Err(error) => Err(format!("`oncebox serve`: {error}")),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Both fail where it has ended, which is as well.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// Runs a command that must succeed and print just this.
pub(super) fn expect(command: &mut Command, wanted: &str) -> Result<(), String> {
    let output = output(command)?;
    if output == wanted { Ok(()) } else { Err(format!("{} printed {output:?}, and not {wanted:?}", shown(command))) }
}

/// The folder of a program in the path.
fn found(program: &str) -> Option<PathBuf> {
    std::env::split_paths(&std::env::var_os("PATH")?).find(|folder| folder.join(program).is_file())
}
