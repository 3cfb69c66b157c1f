//! The built command, as a user runs it.

#![allow(clippy::unwrap_used)] // A test panics when it fails.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

fn oncebox(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_oncebox"));
    command.args(args).stdin(Stdio::null());
    for name in ["E2B_API_KEY", "E2B_API_URL", "E2B_SANDBOX_URL", "E2B_DOMAIN", "RUST_LOG"] {
        command.env_remove(name);
    }
    command
}

fn run(args: &[&str]) -> Output {
    oncebox(args).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Whether this machine lets sandboxes be isolated; says so where it does not.
fn isolates(test: &str) -> bool {
    let probe = run(&["run", "--local", "--", "true"]);
    if !probe.status.success() && text(&probe.stderr).contains("cannot be isolated") {
        println!("SKIP {test}: {}", text(&probe.stderr).trim());
        return false;
    }
    true
}

#[test]
fn each_stream_in_its_place_and_the_commands_own_exit_code() {
    if !isolates("each_stream_in_its_place_and_the_commands_own_exit_code") {
        return;
    }
    let output = run(&["run", "--local", "--", "sh", "-c", "echo out; echo err >&2; exit 7"]);
    assert_eq!(output.status.code(), Some(7));
    assert_eq!((text(&output.stdout).as_str(), text(&output.stderr).as_str()), ("out\n", "err\n"));
}

#[test]
fn exit_codes_tell_a_command_from_the_infrastructure() {
    if !isolates("exit_codes_tell_a_command_from_the_infrastructure") {
        return;
    }
    for (args, code, error) in [
        (&["run", "--local", "--", "sh", "-c", "kill -TERM $$"][..], 128 + 15, ""),
        (&["run", "--local", "--", "no-such-program"], 127, "no-such-program"),
        (&["run", "--local", "--", "/etc/passwd"], 126, "/etc/passwd"),
        (&["run", "--local", "--timeout", "0.2", "--", "sleep", "60"], 124, "(--timeout)"),
        (&["run", "--local", "--template", "no-such", "--", "true"], 125, "no-such"),
    ] {
        let output = run(args);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {}", text(&output.stderr));
        assert!(text(&output.stderr).contains(error), "{args:?}: {}", text(&output.stderr));
    }
    // Nobody listens on a port that was free a moment ago.
    let unused = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let url = format!("http://{unused}");
    let output = oncebox(&["run", "--connection-retries", "0", "--api-url", &url, "--", "true"])
        .env("E2B_API_KEY", "k")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(125));
    assert!(text(&output.stderr).contains("not sent (connect)"), "{}", text(&output.stderr));
}

#[test]
fn input_environment_and_json() {
    if !isolates("input_environment_and_json") {
        return;
    }
    let mut child = oncebox(&["run", "--local", "-i", "--env", "A=b=c", "--", "sh", "-c", "cat; echo $A"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(b"from stdin\n").unwrap();
    assert_eq!(text(&child.wait_with_output().unwrap().stdout), "from stdin\nb=c\n");

    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "# a comment\n\nB = x y\n").unwrap();
    let path = file.path().to_str().unwrap();
    let output = run(&["run", "--local", "--json", "--env-file", path, "--", "sh", "-c", "echo \"$B\"; exit 3"]);
    let object: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&object["exit_code"], &object["stdout"], output.status.code()), (&3.into(), &" x y\n".into(), Some(3)));
}

#[test]
fn wrong_use_is_told_in_one_line_before_anything_happens() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().port().to_string();
    for (args, words) in [
        (&["run", "--bogus", "--", "true"][..], &["--bogus"][..]),
        (&["run", "--local"], &["command is empty", "--"]),
        (&["run", "--local", "--"], &["command is empty"]),
        (&["run", "--local", "--", ""], &["command is empty"]),
        (&["run", "--", "true"], &["E2B_API_KEY", "--local"]),
        (&["run", "--api-url", "nonsense", "--", "true"], &["\"nonsense\"", "URL"]),
        (&["run", "--sandbox-url", "ftp://x", "--", "true"], &["\"ftp://x\"", "http://"]),
        (&["run", "--domain", "https://x", "--", "true"], &["\"https://x\"", "URL"]),
        (&["run", "--sandbox", "../x", "--", "true"], &["\"../x\"", "a-z and 0-9"]),
        (&["run", "--retries", "-1", "--", "true"], &["--retries \"-1\"", "whole number"]),
        (&["run", "--retries", "1.5", "--", "true"], &["--retries \"1.5\"", "whole number"]),
        (&["run", "--connection-retries", "x", "--", "true"], &["--connection-retries \"x\"", "whole number"]),
        (&["run", "--timeout", "-3", "--", "true"], &["--timeout \"-3\"", "seconds"]),
        (&["run", "--timeout", "nan", "--", "true"], &["--timeout \"nan\"", "seconds"]),
        (&["run", "--timeout", "0.0000000001", "--", "true"], &["--timeout \"0.0000000001\"", "seconds"]),
        (&["run", "--local", "--retries", "1", "--", "true"], &["--retries", "--local"]),
        (&["run", "--local", "--proxy", "http://p", "--", "true"], &["--proxy", "--local"]),
        (&["run", "--user", "a:b", "--", "true"], &["user: \"a:b\"", "user name"]),
        (&["run", "--local", "--env-file", "/dev/zero", "--", "true"], &["--env-file \"/dev/zero\"", "longer than"]),
        (&["run", "--request-timeout", "soon", "--", "true"], &["--request-timeout \"soon\"", "seconds"]),
        (&["run", "--local", "--env", "novalue", "--", "true"], &["--env \"novalue\"", "NAME=VALUE"]),
        (
            &["run", "--local", "--env-file", "/no/such/file", "--", "true"],
            &["--env-file \"/no/such/file\"", "cannot be read"],
        ),
        (&["run", "--local", "--api-url", "http://x", "--", "true"], &["--api-url", "--local"]),
        (&["run", "--no-isolation", "--", "true"], &["--local"]),
        (&["serve", "--port", "70000"], &["--port \"70000\"", "65535"]),
        (&["serve", "--port", &taken], &["--port", &taken, "in use"]),
        (&["serve", "--port", "0", "--allow-origin", "*"], &["'*'", "http"]),
        (&["serve", "--port", "0", "--listen", "0.0.0.0"], &["0.0.0.0", "token"]),
        (&["serve", "--port", "0", "--token", "short"], &["token", "16"]),
        (&["serve", "--port", "0", "--allow-host", "http://x"], &["http://x", "host"]),
        (&["serve", "--port", "0", "--memory", "2X"], &["--memory \"2X\"", "KiB"]),
        (&["serve", "--port", "0", "--memory", "1M"], &["memory", "64 MiB"]),
        (&["serve", "--port", "0", "--cpus", "-1"], &["cpus", "0.01"]),
        (&["serve", "--port", "0", "--pids", "1"], &["pids", "32"]),
        (&["serve", "--network", "web"], &["--network", "web"]),
        (&["fly"], &["fly"]),
        (&[], &["nothing to do", "--help"]),
    ] {
        let mut command = oncebox(args);
        if words != ["E2B_API_KEY", "--local"] {
            command.env("E2B_API_KEY", "k");
        }
        let output = command.output().unwrap();
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {error}");
        assert_eq!(error.trim_end().lines().count(), 1, "{args:?}: {error}");
        assert!(output.stdout.is_empty(), "{args:?}");
        for word in words {
            assert!(error.contains(word), "{args:?}: {error:?} does not name {word:?}");
        }
    }
}

#[test]
fn an_output_that_cannot_be_written_is_no_panic_and_leaves_no_sandbox() {
    if !isolates("an_output_that_cannot_be_written_is_no_panic_and_leaves_no_sandbox") {
        return;
    }
    let full = || std::fs::File::options().write(true).open("/dev/full").unwrap();
    for (args, code) in [
        (&["run", "--local", "--json", "--", "echo", "hi"][..], 125),
        (&["run", "--local", "--", "echo", "hi"], 125),
        (&["explain", "--operation", "createSandbox", "--status", "503"], 125),
        (&["serve", "--port", "0"], 125),
        (&["faults", "list"], 125),
    ] {
        let output = oncebox(args).stdout(full()).stderr(Stdio::piped()).output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{args:?}: {}", text(&output.stderr));
        assert!(text(&output.stderr).contains("could not be written"), "{args:?}: {}", text(&output.stderr));
    }
    for (args, code) in [
        (&["run", "--local", "--", "no-such-program"][..], 127),
        (&["run", "--local", "--timeout", "0.2", "--", "sleep", "9"], 124),
        (&["serve", "--port", "x"], 2),
    ] {
        let output = oncebox(args).stderr(full()).output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{args:?}");
    }
}

#[test]
fn a_commands_own_124_is_not_taken_for_a_timeout() {
    if !isolates("a_commands_own_124_is_not_taken_for_a_timeout") {
        return;
    }
    let output = run(&["run", "--local", "--", "sh", "-c", "exit 124"]);
    assert_eq!((output.status.code(), output.stderr.len()), (Some(124), 0), "{}", text(&output.stderr));
}

#[test]
fn isolation_is_explained_and_nothing_is_served() {
    let output = run(&["serve", "--explain-isolation", "--json", "--memory", "512M", "--pids", "200"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let told: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let part = |name: &str| {
        let parts = told["parts"].as_array().unwrap();
        parts.iter().find(|part| part["name"] == name).unwrap_or_else(|| panic!("{told}")).clone()
    };
    assert_eq!(part("files")["isolated"], told["starts"]);
    assert_eq!(part("kernel")["isolated"], false);
    if told["starts"] == true {
        assert!(part("memory")["how"].as_str().unwrap().contains("512 MiB"), "{told}");
        assert!(part("pids")["how"].as_str().unwrap().contains("200 processes"), "{told}");
    }
    let output = run(&["serve", "--explain-isolation", "--no-isolation"]);
    assert_eq!(output.status.code(), Some(0));
    let lines = text(&output.stdout);
    let files = lines.lines().find(|line| line.starts_with("files")).unwrap();
    assert!(files.contains("NOT"), "{lines}");
}

/// A server of the command's own, and its address.
fn serve() -> (std::process::Child, String) {
    let mut server = oncebox(&["serve", "--port", "0", "--json"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(server.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    let object: serde_json::Value = serde_json::from_str(&line).unwrap();
    (server, object["url"].as_str().unwrap().to_owned())
}

#[test]
fn an_interrupt_kills_the_command_in_a_sandbox_that_lives_on() {
    if !isolates("an_interrupt_kills_the_command_in_a_sandbox_that_lives_on") {
        return;
    }
    let (mut server, url) = serve();
    let with = |args: &[&str]| {
        let mut command = oncebox(args);
        command.env("E2B_API_KEY", "k").env("E2B_API_URL", &url).env("E2B_SANDBOX_URL", &url);
        command
    };
    // A sandbox that nobody ends: its creator is killed.
    let mut creator = with(&["run", "--", "sh", "-c", "echo $E2B_SANDBOX_ID; exec sleep 987654323"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut id = String::new();
    BufReader::new(creator.stdout.as_mut().unwrap()).read_line(&mut id).unwrap();
    creator.kill().unwrap();
    creator.wait().unwrap();

    let mut guest = with(&["run", "--sandbox", id.trim(), "--", "sh", "-c", "echo started; exec sleep 987654324"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(guest.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "started\n");
    Command::new("kill").args(["-INT", &guest.id().to_string()]).status().unwrap();
    assert_eq!(guest.wait().unwrap().code(), Some(130));
    wait_until("the command is left", || processes_with("sleep 987654324").is_empty());
    assert!(!processes_with("sleep 987654323").is_empty(), "the sandbox itself lives on");

    Command::new("kill").args(["-TERM", &server.id().to_string()]).status().unwrap();
    assert!(server.wait().unwrap().success());
    wait_until("the sandbox is left", || processes_with("sleep 987654323").is_empty());
}

/// The processes of this machine whose command line holds a word.
fn processes_with(word: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let command = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let command = text(&command).replace('\0', " ");
        if command.contains(word) {
            found.push(command);
        }
    }
    found
}

fn wait_until(what: &str, done: impl Fn() -> bool) {
    let limit = Instant::now() + Duration::from_secs(20);
    while !done() {
        assert!(Instant::now() < limit, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Starts a command that runs for long in a state folder of its own, and returns once it runs.
fn start_long(word: &str, temporary: &Path) -> std::process::Child {
    let script = format!("echo started; exec sleep {word}");
    let mut child = oncebox(&["run", "--local", "--", "sh", "-c", &script])
        .env("TMPDIR", temporary)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "started\n");
    child
}

fn folders_below(folder: &Path) -> usize {
    let Ok(entries) = std::fs::read_dir(folder) else { return 0 };
    entries.flatten().filter(|entry| entry.path().is_dir()).map(|entry| 1 + folders_below(&entry.path())).sum()
}

#[test]
fn an_interrupt_ends_the_sandbox_and_leaves_nothing() {
    if !isolates("an_interrupt_ends_the_sandbox_and_leaves_nothing") {
        return;
    }
    let temporary = tempfile::tempdir().unwrap();
    let mut child = start_long("987654321", temporary.path());
    Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    wait_until("the sandbox's process is left", || processes_with("sleep 987654321").is_empty());
    // What may stay is the folder that instances lie in.
    assert!(folders_below(temporary.path()) <= 1, "{:?}", Command::new("find").arg(temporary.path()).output());
}

#[test]
fn kill_9_ends_the_sandbox_and_the_next_start_removes_its_files() {
    if !isolates("kill_9_ends_the_sandbox_and_the_next_start_removes_its_files") {
        return;
    }
    let temporary = tempfile::tempdir().unwrap();
    let mut child = start_long("987654322", temporary.path());
    child.kill().unwrap();
    child.wait().unwrap();
    wait_until("the sandbox's process is left", || processes_with("sleep 987654322").is_empty());
    let next = oncebox(&["run", "--local", "--", "true"]).env("TMPDIR", temporary.path()).output().unwrap();
    assert!(next.status.success());
    assert!(folders_below(temporary.path()) <= 1, "{:?}", Command::new("find").arg(temporary.path()).output());
}
