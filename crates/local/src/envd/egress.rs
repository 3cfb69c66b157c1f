//! Lets a sandbox reach the network beyond this machine: keeps `pasta`, a network stack of a user's own, for as long as the
//! sandbox is to have it.
//!
//! It runs outside the sandbox, beside the server, in a process of its own, since `pasta` knows nothing of the server: when the
//! server's end of the socket closes, however that happens, `pasta` is killed, and all connections with it.

use std::ffi::{OsStr, OsString};
use std::io::{self, Read};
use std::os::unix::net::UnixStream as BlockingStream;
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::report;
use crate::lifeline::Report;

/// How long `pasta` may take until there is a route.
const READY_LIMIT: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(1);
/// How much of what `pasta` says is kept, in bytes.
const MAX_SAID: usize = 2048;

/// `program` is `pasta`; `launcher` is a process in the sandbox's namespaces.
pub(super) fn serve(lifeline: &BlockingStream, program: &OsStr, launcher: &OsStr) -> ExitCode {
    let _ = rustix::process::setsid();
    let (mut child, said) = match start(program, launcher) {
        Ok(started) => started,
        Err(error) => return report(lifeline, &Report::Failed(format!("starting {}: {error}", program.display()))),
    };
    let code = match wait_for_route(&mut child, launcher) {
        Ok(()) => {
            let told = Report::Ready.write(lifeline);
            // Returns when the server lets go.
            told.map_or(ExitCode::FAILURE, |()| {
                let mut end = lifeline;
                let _ = end.read(&mut [0; 1]);
                ExitCode::SUCCESS
            })
        }
        Err(why) => {
            let said = said.lock().unwrap_or_else(PoisonError::into_inner);
            let said = String::from_utf8_lossy(&said).trim().replace('\n', "; ");
            report(lifeline, &Report::Failed(format!("{}: {why}: {said}", program.display())))
        }
    };
    let _ = child.kill();
    let _ = child.wait();
    code
}

fn start(program: &OsStr, launcher: &OsStr) -> io::Result<(Child, Arc<Mutex<Vec<u8>>>)> {
    let namespace = |kind: &str| {
        let mut path = OsString::from("/proc/");
        path.push(launcher);
        path.push("/ns/");
        path.push(kind);
        path
    };
    let mut command = Command::new(program);
    command.args(["--foreground", "--quiet", "--config-net"]);
    // Nothing of this machine's own addresses is reached, nor reaches in: not the loopback interface behind the gateway's address,
    // not ports that are forwarded.
    command.args(["--no-map-gw", "-t", "none", "-u", "none", "-T", "none", "-U", "none"]);
    if rustix::process::getuid().is_root() {
        // It would become nobody, who may not enter the namespaces of root's.
        command.args(["--runas", "0"]);
    }
    command.arg("--userns").arg(namespace("user")).arg("--netns").arg(namespace("net"));
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn()?;
    let said = Arc::new(Mutex::new(Vec::new()));
    if let Some(mut source) = child.stderr.take() {
        let said = Arc::clone(&said);
        // Read to the end, whatever is kept of it, so that it never waits for a reader.
        std::thread::Builder::new().spawn(move || {
            let mut buffer = [0; 512];
            while let Ok(read @ 1..) = source.read(&mut buffer) {
                let mut said = said.lock().unwrap_or_else(PoisonError::into_inner);
                let room = MAX_SAID.saturating_sub(said.len()).min(read);
                said.extend_from_slice(buffer.get(..room).unwrap_or_default());
            }
        })?;
    }
    Ok((child, said))
}

/// Waits until the sandbox's network has a default route, which `pasta` sets last.
fn wait_for_route(child: &mut Child, launcher: &OsStr) -> Result<(), String> {
    let net = Path::new("/proc").join(launcher).join("net");
    let until = Instant::now() + READY_LIMIT;
    loop {
        let read = |name: &str| std::fs::read_to_string(net.join(name)).unwrap_or_default();
        if has_default_route(&read("route"), &read("ipv6_route")) {
            return Ok(());
        }
        match child.try_wait() {
            Ok(Some(status)) => return Err(format!("it ended with {status}")),
            Err(error) => return Err(error.to_string()),
            Ok(None) if Instant::now() > until => return Err(format!("no route after {READY_LIMIT:?}")),
            Ok(None) => std::thread::sleep(PAUSE),
        }
    }
}

/// By the tables of `/proc/net`. Every network has a route of IPv6 to nowhere, on its loopback interface.
fn has_default_route(v4: &str, v6: &str) -> bool {
    let words = |line: &str| line.split_ascii_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let fourth = |line: &str| words(line).get(1).is_some_and(|to| to == "00000000");
    let sixth = |line: &str| {
        let words = words(line);
        let everywhere = words.first().is_some_and(|to| to.bytes().all(|digit| digit == b'0'));
        everywhere && words.get(1).is_some_and(|bits| bits == "00") && words.last().is_some_and(|by| by != "lo")
    };
    v4.lines().any(fourth) || v6.lines().any(sixth)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_default_route_is_told_from_others() {
        let v4 = "Iface\tDestination\tGateway \tFlags\neth0\t000200C0\t00000000\t0001\n";
        let v6 = "00000000000000000000000000000000 00 00000000000000000000000000000000 00 0 ffffffff 1 0 00200200 lo\n";
        assert!(!has_default_route(v4, v6));
        assert!(has_default_route("eth0\t00000000\t010200C0\t0003\n", ""));
        assert!(has_default_route("", &v6.replace(" lo", " eth0")));
    }
}
