//! `oncebox exec` and `oncebox shell`, as a user runs them.

#![allow(clippy::unwrap_used)] // A test panics when it fails.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Output, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

/// A server with one sandbox.
struct Server {
    process: Child,
    url: String,
    sandbox: String,
    /// Of its own: what an earlier run has left under an id would be taken for this one's.
    _spool: tempfile::TempDir,
}

impl Server {
    fn start() -> Self {
        let mut process =
            bare(&["serve", "--port", "0", "--no-isolation", "--json"]).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let told: serde_json::Value = serde_json::from_str(&line).unwrap();
        let url = told["url"].as_str().unwrap().to_owned();
        let (made, spool) = (url.clone(), tempfile::tempdir().unwrap());
        let folder = spool.path().to_str().unwrap().to_owned();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let sandbox = runtime.block_on(async move {
            let client = oncebox::Client::builder().api_key("k").api_url(&made).sandbox_url(&made).build().unwrap();
            oncebox::Sandbox::create(&client).env("ONCEBOX_SPOOL", folder).await.unwrap().id().to_owned()
        });
        Self { process, url, sandbox, _spool: spool }
    }

    /// A task, the sandbox, and what follows it.
    fn command(&self, task: &str, args: &[&str]) -> Command {
        let mut command = bare(&[task, &self.sandbox]);
        command.args(args).env("E2B_API_KEY", "k").env("E2B_API_URL", &self.url).env("E2B_SANDBOX_URL", &self.url);
        command
    }

    fn exec(&self, args: &[&str]) -> Output {
        self.command("exec", args).output().unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = kill_process(Pid::from_child(&self.process), Signal::TERM);
        let _ = self.process.wait();
    }
}

fn bare(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_oncebox"));
    command.args(args).stdin(Stdio::null());
    for name in ["E2B_API_KEY", "E2B_API_URL", "E2B_SANDBOX_URL", "E2B_DOMAIN", "RUST_LOG"] {
        command.env_remove(name);
    }
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_command_runs_in_a_sandbox_that_is_there_with_its_streams_and_its_exit_code() {
    let server = Server::start();
    for kind in [&[][..], &["--durable"]] {
        let exec = |args: &[&str]| server.exec(&[kind, args].concat());
        let output =
            exec(&["-e", "A=b=c", "--cwd", "/tmp", "--", "sh", "-c", "echo out $A; pwd; echo err >&2; exit 7"]);
        assert_eq!(output.status.code(), Some(7), "{kind:?}: {}", text(&output.stderr));
        assert_eq!((text(&output.stdout).as_str(), text(&output.stderr).as_str()), ("out b=c\n/tmp\n", "err\n"));
        let output = exec(&["--timeout", "0.2", "--", "sleep", "60"]);
        assert_eq!(output.status.code(), Some(124), "{kind:?}: {}", text(&output.stderr));
        let output = exec(&["--", "no-such-program"]);
        assert_eq!(output.status.code(), Some(127), "{kind:?}: {}", text(&output.stderr));
        let output = exec(&["--json", "--", "sh", "-c", "echo x; exit 3"]);
        let object: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(
            (&object["exit_code"], &object["stdout"], &object["gaps"]),
            (&3.into(), &"x\n".into(), &serde_json::json!([]))
        );

        let mut cat = server.command("exec", &[kind, &["-i", "--", "cat"]].concat());
        let mut cat = cat.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let data = vec![b'x'; 300_000];
        let mut stdin = cat.stdin.take().unwrap();
        let written = data.clone();
        let writing = std::thread::spawn(move || stdin.write_all(&written).unwrap());
        let output = cat.wait_with_output().unwrap();
        writing.join().unwrap();
        assert!(output.stdout == data, "{kind:?}: {} bytes", output.stdout.len());
        assert_eq!(output.status.code(), Some(0));
    }
    // The same id is the same command.
    for _ in 0..2 {
        let output = server.exec(&["--id", "once", "--", "sh", "-c", "echo ran >>$HOME/ran; wc -l <$HOME/ran"]);
        assert_eq!(text(&output.stdout).trim(), "1", "{}", text(&output.stderr));
    }
    // Another command with it is not: neither is started, nor is the first one's output taken for the other's.
    let output = server.exec(&["--id", "once", "--", "touch", "/tmp/it's other"]);
    assert_eq!((output.status.code(), text(&output.stdout).as_str()), (Some(2), ""));
    let error = text(&output.stderr);
    for words in [
        "--id \"once\"",
        "`sh -c 'echo ran >>$HOME/ran; wc -l <$HOME/ran'`",
        r"`touch '/tmp/it'\''s other'`",
        "--attach",
    ] {
        assert!(error.contains(words), "{words}: {error}");
    }
    let output = server.exec(&["--attach", "once"]);
    assert_eq!((output.status.code(), text(&output.stdout).trim()), (Some(0), "1"), "{}", text(&output.stderr));
    let output = server.exec(&["--attach", "never"]);
    assert!(
        output.status.code() == Some(125) && text(&output.stderr).contains("\"never\""),
        "{}",
        text(&output.stderr)
    );
}

#[test]
fn signals_are_passed_on_and_the_command_ends_as_it_likes() {
    let server = Server::start();
    // A plain command is asked by SIGTERM, the only one that a sandbox's daemon sends; a durable one gets the signal itself.
    for (kind, signal, code) in [
        (&[][..], Signal::INT, 5),
        (&[], Signal::TERM, 5),
        (&["--durable"], Signal::TERM, 5),
        (&["--durable"], Signal::INT, 6),
    ] {
        let script = "trap 'echo term; exit 5' TERM; trap 'echo int; exit 6' INT; echo ready; \
                      while :; do sleep 0.05; done";
        let mut command = server.command("exec", &[kind, &["--", "bash", "-c", script]].concat());
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        kill_process(Pid::from_child(&child), signal).unwrap();
        let mut rest = String::new();
        stdout.read_to_string(&mut rest).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(code), "{kind:?} {signal:?}: {rest}");
    }
}

/// Both ends of a terminal.
fn terminal(cols: u16, rows: u16) -> (OwnedFd, File) {
    let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&ours).unwrap();
    unlockpt(&ours).unwrap();
    resize(&ours, cols, rows);
    let name = ptsname(&ours, Vec::new()).unwrap();
    let theirs = File::options().read(true).write(true).open(name.to_str().unwrap()).unwrap();
    (ours, theirs)
}

fn resize(terminal: &OwnedFd, cols: u16, rows: u16) {
    tcsetwinsize(terminal, Winsize { ws_col: cols, ws_row: rows, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
}

/// Reads until a text has come, which is not that of an echoed command.
fn until(ours: &mut File, seen: &mut String, text: &str) {
    let mut piece = [0; 4096];
    while !seen.contains(text) {
        let n = ours.read(&mut piece).unwrap_or_default();
        assert!(n > 0, "{seen:?} ends without {text:?}");
        seen.push_str(&String::from_utf8_lossy(&piece[..n]));
    }
}

#[test]
fn a_shell_has_a_terminal_that_resizes_and_its_exit_code_is_passed_on() {
    let server = Server::start();
    let (master, theirs) = terminal(90, 30);
    let mut ours = File::from(master.try_clone().unwrap());
    let mut command = server.command("shell", &["-e", "PS1=ready>", "-e", "TERM=dumb"]);
    let stdio = || Stdio::from(theirs.try_clone().unwrap());
    let mut child =
        command.args(["--", "bash", "--norc", "-i"]).stdin(stdio()).stdout(stdio()).stderr(stdio()).spawn().unwrap();
    // When the shell has ended, nobody holds the far end any more.
    drop((command, theirs));
    let mut seen = String::new();
    until(&mut ours, &mut seen, "ready>");
    ours.write_all(b"stty size; echo $((40 + 2))\r").unwrap();
    until(&mut ours, &mut seen, "30 90\r\n42");
    resize(&master, 120, 50);
    kill_process(Pid::from_child(&child), Signal::WINCH).unwrap();
    // The size is on its way: asked for until it has come.
    ours.write_all(b"until stty size | grep '50 120'; do sleep 0.05; done\r").unwrap();
    until(&mut ours, &mut seen, "50 120\r\n");
    // A key that would end this side if its terminal were not raw.
    ours.write_all(b"sleep 60\r").unwrap();
    until(&mut ours, &mut seen, "sleep 60\r\n");
    std::thread::sleep(std::time::Duration::from_millis(300));
    ours.write_all(b"\x03").unwrap();
    until(&mut ours, &mut seen, "^C");
    ours.write_all(b"exit 9\r").unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(9), "{seen}");
}

#[test]
fn a_shell_whose_connection_is_cut_goes_on_and_says_so() {
    let server = Server::start();
    let faults = tempfile::NamedTempFile::new().unwrap();
    let cut = r#"{"rules": [{"on": ["start"], "times": 1, "fault": {"cut_answer": {"after": {"events": 3}, "how": "close"}}}]}"#;
    std::fs::write(faults.path(), cut).unwrap();
    let mut set = bare(&["faults", "set", faults.path().to_str().unwrap()]);
    let set = set.env("E2B_API_KEY", "k").env("E2B_API_URL", &server.url).output().unwrap();
    assert!(set.status.success(), "{}", text(&set.stderr));
    let (master, theirs) = terminal(90, 30);
    let mut ours = File::from(master);
    let mut command = server.command("shell", &["-e", "PS1=ready>", "-e", "TERM=dumb"]);
    let stdio = || Stdio::from(theirs.try_clone().unwrap());
    let mut child =
        command.args(["--", "bash", "--norc", "-i"]).stdin(stdio()).stdout(stdio()).stderr(stdio()).spawn().unwrap();
    drop((command, theirs));
    let mut seen = String::new();
    // What is typed comes back, event by event, until the connection is cut.
    while !seen.contains("the connection was lost and made again") {
        ours.write_all(b":\r").unwrap();
        let before = seen.len();
        let mut piece = [0; 4096];
        let n = ours.read(&mut piece).unwrap();
        seen.push_str(&String::from_utf8_lossy(&piece[..n]));
        assert!(seen.len() > before && seen.len() < 100_000, "{seen}");
    }
    // It is the same shell.
    ours.write_all(b"echo $((40 + 2))\r").unwrap();
    until(&mut ours, &mut seen, "\n42");
    ours.write_all(b"exit 9\r").unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(9), "{seen}");
}

#[test]
fn wrong_use_is_told_in_one_line() {
    for (args, words) in [
        (&["exec", "i1"][..], "command is empty"),
        (&["exec", "--", "true"], "SANDBOX"),
        (&["exec", "i1", "--local", "--", "true"], "--local"),
        (&["exec", "i1", "--bogus", "--", "true"], "--bogus"),
        (&["exec", "i1", "--attach", "x", "--", "true"], "--attach"),
        (&["exec", "i1", "--attach", "x", "--id", "y"], "--attach"),
        (&["exec", "../x", "--", "true"], "a-z and 0-9"),
        (&["shell", "i1"], "exec -i"),
        (&["shell", "i1", "--attach", "x"], "--attach"),
    ] {
        let mut command = bare(args);
        // A port on which nobody listens: wrong use must be found before anything is sent.
        command.env("E2B_API_KEY", "k").env("E2B_API_URL", "http://127.0.0.1:9").env("E2B_CONNECTION_RETRIES", "0");
        let output = command.output().unwrap();
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {error}");
        assert!(error.contains(words), "{args:?}: {error}");
        assert_eq!(error.trim_end().lines().count(), 1, "{args:?}: {error}");
    }
}
