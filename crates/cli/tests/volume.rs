//! `oncebox secret` and `oncebox volume`, as a user runs them, against a server of the same program.

#![allow(clippy::unwrap_used)] // A test panics when it fails.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;

/// A server, and what a user's environment then is.
struct Server {
    child: Child,
    url: String,
}

impl Server {
    fn start() -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_oncebox"));
        command.args(["serve", "--port", "0", "--no-isolation", "--json"]).env_remove("RUST_LOG");
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let told: Value = serde_json::from_str(&line).unwrap();
        Self { child, url: told["url"].as_str().unwrap().to_owned() }
    }

    fn run(&self, args: &[&str], input: &str) -> Output {
        run_at(&self.url, args, input)
    }

    /// What is printed as JSON.
    fn json(&self, args: &[&str], input: &str) -> Value {
        let output = self.run(&[args, &["--json"]].concat(), input);
        assert_eq!(output.status.code(), Some(0), "{args:?}: {} {}", text(&output.stdout), text(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// What is printed as text.
    fn text(&self, args: &[&str]) -> String {
        let output = self.run(args, "");
        assert_eq!(output.status.code(), Some(0), "{args:?}: {}", text(&output.stderr));
        text(&output.stdout)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The command, with a server or what stands in front of it at this URL.
fn run_at(url: &str, args: &[&str], input: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_oncebox"));
    for name in ["E2B_API_URL", "E2B_SANDBOX_URL", "E2B_VOLUME_API_URL"] {
        command.env(name, url);
    }
    command.env("E2B_API_KEY", "any").env_remove("RUST_LOG").env_remove("E2B_DOMAIN").env("OF_ENV", "from-env");
    command.env("NO_PROXY", "127.0.0.1");
    command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    child.wait_with_output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn secrets_are_stored_changed_listed_and_deleted_and_never_shown() {
    let server = Server::start();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("value");
    std::fs::write(&file, "from-file\n").unwrap();
    let file = file.to_str().unwrap();
    let mut shown = String::new();
    let made = server.json(&["secret", "create", "API", "--metadata", "team=blue"], "from-stdin\n");
    assert_eq!(
        (&made["name"], &made["version"], &made["metadata"]["team"]),
        (&"api".into(), &1.into(), &"blue".into())
    );
    let updated = server.json(&["secret", "update", "api", "--from-file", file], "");
    assert_eq!((&updated["id"], &updated["version"]), (&made["id"], &2.into()));
    server.json(&["secret", "create", "other", "--from-env", "OF_ENV"], "");
    let listed = server.json(&["secret", "list"], "");
    assert_eq!(listed.as_array().unwrap().len(), 2);
    shown += &format!("{made}{updated}{listed}");
    let lines = server.text(&["secret", "ls"]);
    assert!(lines.lines().any(|line| line.starts_with("api\tversion 2\t")), "{lines}");
    shown += &lines;
    let again = server.run(&["-v", "secret", "create", "api", "--json"], "from-stdin");
    assert_eq!(again.status.code(), Some(125));
    let error: Value = serde_json::from_slice(&again.stdout).unwrap();
    assert_eq!(error["error"]["kind"], "Conflict");
    shown += &format!("{}{}", text(&again.stdout), text(&again.stderr));
    // What `-v` shows is coloured on a terminal only.
    assert!(text(&again.stderr).contains("answered 409") && !shown.contains('\u{1b}'), "{shown}");
    for value in ["from-stdin", "from-file", "from-env"] {
        assert!(!shown.contains(value), "{shown}");
    }
    assert_eq!(server.json(&["secret", "delete", "api"], "")["deleted"], true);
    assert_eq!(server.json(&["secret", "delete", "api"], "")["deleted"], false);
    for (args, words) in [
        (&["secret", "create", "a b"][..], "1 to 128 letters"),
        (&["secret", "create", "a", "--from-file", "/no/such/file"], "--from-file \"/no/such/file\""),
        (&["secret", "create", "a", "--from-env", "NO_SUCH"], "--from-env \"NO_SUCH\""),
        (&["secret", "create", "a", "--metadata", "x"], "NAME=VALUE"),
    ] {
        let output = server.run(args, "value");
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(text(&output.stderr).contains(words), "{args:?}: {}", text(&output.stderr));
    }
    assert!(text(&server.run(&["secret", "create", "a"], "\n").stderr).contains("the value is empty"));
}

#[test]
fn volumes_are_made_filled_read_and_deleted() {
    let server = Server::start();
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let bytes: Vec<u8> = (0..300_000u32).map(|i| (i * 7 + i / 256) as u8).collect();
    std::fs::write(path("in"), &bytes).unwrap();
    let made = server.json(&["volume", "create", "data"], "");
    assert_eq!(server.json(&["volume", "info", "data"], ""), made);
    assert_eq!(server.json(&["volume", "list"], ""), serde_json::json!([made]));
    server.json(&["volume", "mkdir", "data", "/a/b"], "");
    let written = server.json(&["volume", "upload", &path("in"), "data", "/a/b/c", "--mode", "640"], "");
    assert_eq!(
        (&written["size"], &written["mode"], &written["type"]),
        (&300_000.into(), &0o640.into(), &"file".into())
    );
    server.json(&["volume", "upload", "-", "data", "/new/stdin", "--force"], "from stdin");
    let id = made["id"].as_str().unwrap();
    let listed = server.json(&["volume", "ls", id, "--depth", "3"], "");
    let mut paths: Vec<_> = listed.as_array().unwrap().iter().map(|entry| entry["path"].as_str().unwrap()).collect();
    paths.sort_unstable();
    assert_eq!(paths, ["/a", "/a/b", "/a/b/c", "/new", "/new/stdin"]);
    assert!(server.text(&["volume", "ls", "data", "/a/b"]).starts_with("file\t0640\t"));
    assert_eq!(server.json(&["volume", "stat", "data", "/a/b/c"], "")["path"], "/a/b/c");
    let told = server.json(&["volume", "download", "data", "/a/b/c", &path("out")], "");
    assert_eq!((told["bytes"].as_u64(), std::fs::read(path("out")).unwrap() == bytes), (Some(300_000), true));
    assert_eq!(server.text(&["volume", "download", "data", "/new/stdin", "-"]), "from stdin");
    let missing = server.run(&["volume", "download", "data", "/none", &path("none")], "");
    assert_eq!(missing.status.code(), Some(125));
    // Nothing is left of a download that failed.
    let mut left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    left.sort_unstable();
    assert_eq!(left, ["in", "out"]);
    assert_eq!(server.json(&["volume", "rm", "data", "/a"], "")["deleted"], true);
    assert_eq!(server.json(&["volume", "rm", "data", "/a"], "")["deleted"], false);
    assert_eq!(server.json(&["volume", "delete", "data"], "")["deleted"], true);
    assert_eq!(server.json(&["volume", "delete", "data"], "")["deleted"], false);
    for (args, words) in [
        (&["volume", "create", "a/b"][..], "letters, digits, - and _"),
        (&["volume", "upload", "/no/such/file", "x", "/y"], "/no/such/file"),
        (&["volume", "upload", "x", "x", "/y", "--mode", "999"], "octal"),
        (&["volume", "ls", "x", "--depth", "0"], "--depth"),
    ] {
        let output = server.run(args, "");
        let told = text(&output.stderr);
        assert!(told.contains(words), "{args:?}: {told}");
    }
}

/// The first upload meets a 503, the second is cut half-way; the first download is cut half-way. Each is done again whole.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn transfers_that_are_cut_are_done_again_whole() {
    const SIZE: usize = 1 << 20;
    let server = Server::start();
    let rules = serde_json::json!({"rules": [
        {"name": "busy", "at": "received", "when": {"method": "PUT", "count": 1},
            "do": [{"answer": {"status": 503, "headers": {"retry-after": "0"}}}]},
        {"name": "cut-up", "at": {"request_body": SIZE / 2}, "when": {"method": "PUT", "count": 2}, "do": ["reset"]},
        {"name": "cut-down", "at": {"answer_body": SIZE / 2}, "when": {"method": "GET", "count": 1}, "do": ["reset"]},
    ]});
    let script = oncebox_faults::Script::from_json(&rules.to_string()).unwrap();
    let proxy = oncebox_faults::Server::builder(script).proxy_to(&server.url).start().await.unwrap();
    server.json(&["volume", "create", "data"], "");
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let bytes: Vec<u8> = (0..SIZE as u32).map(|i| (i * 7 + i / 256) as u8).collect();
    std::fs::write(path("in"), &bytes).unwrap();
    let run = async |args: &[&str]| {
        let (url, args) = (proxy.url(""), args.iter().map(|arg| (*arg).to_owned()).collect::<Vec<_>>());
        let run = move || run_at(&url, &args.iter().map(String::as_str).collect::<Vec<_>>(), "");
        tokio::task::spawn_blocking(run).await.unwrap()
    };
    let output = run(&["volume", "upload", &path("in"), "data", "/f"]).await;
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let output = run(&["volume", "download", "data", "/f", &path("out")]).await;
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(std::fs::read(path("out")).unwrap() == bytes);
    for rule in ["busy", "cut-up", "cut-down"] {
        assert_eq!(proxy.log().fired(rule), 1, "{rule}: {:?}", proxy.log().totals());
    }
    // Without repeats both fail, and leave nothing behind.
    let cut = serde_json::json!({"at": {"answer_body": SIZE / 2}, "do": ["reset"]});
    let script = oncebox_faults::Script::from_json(&serde_json::json!({"rules": [cut]}).to_string()).unwrap();
    proxy.set_script(script).unwrap();
    let output = run(&["volume", "download", "data", "/f", &path("out"), "--retries", "0"]).await;
    assert_eq!(output.status.code(), Some(125));
    assert!(text(&output.stderr).contains("the download was cut"), "{}", text(&output.stderr));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2);
}
