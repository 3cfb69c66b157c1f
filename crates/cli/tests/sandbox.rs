//! `oncebox sandbox`, `snapshot`, `config`, `completions`, `man` and `proxy` from outside.

#![allow(clippy::unwrap_used)]

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Output, Stdio};

use serde_json::{Value, json};

const ONCEBOX: &str = env!("CARGO_BIN_EXE_oncebox");

/// A server of the command's own.
struct Server {
    child: Child,
    url: String,
}

impl Server {
    fn start(args: &[&str]) -> Self {
        let mut child = Command::new(ONCEBOX).args(args).arg("--json").stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let address: Value = serde_json::from_str(&line).unwrap();
        Self { child, url: address["url"].as_str().unwrap().to_owned() }
    }

    fn sandboxes() -> Self {
        Self::start(&["serve", "--port", "0", "--no-isolation"])
    }

    fn run(&self, line: &str) -> (Option<i32>, String, String) {
        let mut command = Command::new(ONCEBOX);
        command.args(line.split(' ')).env("E2B_API_KEY", "any").env("ONCEBOX_CONFIG", "/no/such/config.toml");
        command.env("E2B_API_URL", &self.url).env("E2B_SANDBOX_URL", &self.url).stdin(Stdio::null());
        told(&mut command)
    }

    /// What a line prints, which ends well.
    fn text(&self, line: &str) -> String {
        let (code, text, error) = self.run(line);
        assert_eq!(code, Some(0), "{line}: {error}");
        text
    }

    fn json(&self, line: &str) -> Value {
        let text = self.text(line);
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{line}: {error}: {text}"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = Command::new("kill").args(["-INT", &self.child.id().to_string()]).status();
        let _ = self.child.wait();
    }
}

fn told(command: &mut Command) -> (Option<i32>, String, String) {
    let Output { status, stdout, stderr } = command.output().unwrap();
    (status.code(), String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap())
}

#[test]
fn a_sandbox_is_made_looked_at_paused_and_killed() {
    let server = Server::sandboxes();
    let id = server.text("sandbox create --metadata task=1 --env A=b --lifetime 600");
    let id = id.trim();
    assert_eq!(server.text(&format!("exec {id} sh -c echo${{IFS}}$A")), "b\n");
    assert_eq!(server.text(&format!("sbx ex {id} -- printf %s x")), "x");

    let listed = server.json("sandbox ls --metadata task=1 --json");
    assert_eq!((&listed[0]["id"], &listed[0]["metadata"]), (&json!(id), &json!({"task": "1"})));
    assert_eq!(server.json("sandbox ls --metadata task=2 --json"), json!([]));
    let table = server.text("sandbox list");
    let row = table.lines().nth(1).unwrap();
    assert!(table.starts_with("ID ") && row.starts_with(id) && row.contains("running") && row.ends_with("task=1"));
    assert!(!table.contains('\u{1b}'), "colours without a terminal: {table:?}");
    assert_eq!(server.json(&format!("sandbox info {id} --json"))["state"], "running");
    assert!(server.text(&format!("sandbox in {id}")).contains("metadata  task=1\n"));

    let metrics = server.text(&format!("sandbox metrics {id} --json"));
    assert!(
        metrics.lines().all(|line| serde_json::from_str::<Value>(line).unwrap()["mem_total"].is_i64()),
        "{metrics}"
    );
    let log = server.text(&format!("sandbox logs {id} --json"));
    assert!(log.lines().all(|line| serde_json::from_str::<Value>(line).unwrap()["message"].is_string()), "{log}");

    assert_eq!(server.json(&format!("sandbox pause {id} --files-only --json")), json!({"id": id, "paused": "now"}));
    assert_eq!(server.json("sandbox ls -s paused --json")[0]["id"], id);
    // It is looked at and stays as it is.
    assert_eq!(server.json(&format!("sandbox info {id} --json"))["state"], "paused");
    assert_eq!(server.json(&format!("sandbox resume {id} --json"))["state"], "running");

    assert_eq!(server.json(&format!("sandbox kill {id} --json")), json!({"id": id, "killed": "now"}));
    let (code, _, error) = server.run(&format!("sandbox kill {id}"));
    assert_eq!((code, error), (Some(0), format!("oncebox: there was no sandbox {id}\n")));
    assert_eq!(server.run(&format!("sandbox info {id}")).0, Some(125));
}

#[test]
fn a_create_with_an_intent_gives_the_same_sandbox_and_all_are_killed_by_label() {
    let server = Server::sandboxes();
    let intent = "0123456789abcdef0123456789abcdef";
    let first = server.json(&format!("sandbox create base --intent {intent} -m a=1 --json"));
    let again = server.json(&format!("sandbox cr base --intent {intent} -m a=1 --json"));
    assert_eq!((&first["id"], &first["adopted"]), (&again["id"], &json!(false)));
    assert_eq!(again["adopted"], true);
    for _ in 0..2 {
        server.text("sandbox create -m a=1");
    }
    let other = server.text("sandbox create -m a=2");
    let killed = server.text("sandbox kill --all -m a=1 --json");
    assert_eq!(killed.lines().count(), 3, "{killed}");
    let left = server.json("sandbox ls --json");
    assert_eq!((left.as_array().unwrap().len(), &left[0]["id"]), (1, &json!(other.trim())));
}

#[test]
fn an_id_is_told_as_it_was_typed_and_a_slip_behind_it_kills_nothing() {
    let server = Server::sandboxes();
    let id = server.text("sandbox create");
    let id = id.trim();
    let (code, _, error) = server.run(&format!("sandbox kill {id}-typo"));
    assert!(code == Some(2) && error.contains(&format!("SANDBOX \"{id}-typo\"")), "{error}");
    // As old ids are.
    let old = format!("{id}-6532622b");
    assert_eq!(server.json(&format!("sandbox info {old} --json"))["id"], id);
    assert_eq!(server.json(&format!("sandbox kill {old} --json")), json!({"id": old, "killed": "now"}));
    assert_eq!(server.run(&format!("sandbox kill {old}")).2, format!("oncebox: there was no sandbox {old}\n"));
}

#[test]
fn whoever_reads_no_more_is_not_told_and_what_was_begun_is_done() {
    let server = Server::sandboxes();
    for _ in 0..12 {
        server.text("sandbox create");
    }
    let closed = |line: &str| {
        let (reader, writer) = std::io::pipe().unwrap();
        // Nobody reads from the start.
        drop(reader);
        let mut command = Command::new(ONCEBOX);
        command.args(line.split(' ')).env("E2B_API_KEY", "any").env("ONCEBOX_CONFIG", "/no/such/config.toml");
        command.env("E2B_API_URL", &server.url).env("E2B_SANDBOX_URL", &server.url).stdin(Stdio::null());
        let output = command.stdout(writer).stderr(Stdio::piped()).output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    // As a shell has it of a program that SIGPIPE ended.
    let quiet = (Some(141), String::new());
    for line in ["sandbox ls", "man", "faults show request-hangs", "explain --list", "config", "completions bash"] {
        assert_eq!(closed(line), quiet, "{line}");
    }
    let id = server.json("sandbox ls --json")[0]["id"].as_str().unwrap().to_owned();
    assert_eq!(closed(&format!("exec {id} -- yes {id}")), quiet);
    // Its command has ended, too.
    assert_eq!(server.run(&format!("exec {id} -- pgrep -xf yes.{id}")).0, Some(1));
    assert_eq!(closed("sandbox kill --all --json"), quiet);
    assert_eq!(server.json("sandbox ls --json"), json!([]));
}

#[test]
fn the_proxies_in_force_are_told_without_their_passwords() {
    let config = |args: &[&str]| {
        let mut command = Command::new(ONCEBOX);
        command.arg("config").args(args).env_clear().env("ONCEBOX_CONFIG", "/no/such/config.toml");
        command.envs([("HTTPS_PROXY", "http://user:hunter2@proxy.example:3128"), ("NO_PROXY", "localhost")]);
        let (code, text, error) = told(&mut command);
        assert_eq!((code, error.as_str()), (Some(0), ""));
        assert!(!text.contains("hunter") && !text.contains("user"), "{text}");
        text
    };
    let text = config(&[]);
    let row = |name: &str| text.lines().find(|line| line.starts_with(name)).unwrap().to_owned();
    assert!(
        row("proxy for https").contains("http://…@proxy.example:3128")
            && row("proxy for https").ends_with("HTTPS_PROXY")
    );
    assert!(row("no proxy for").contains("localhost") && !text.contains("proxy for http "), "{text}");
    let told: Value = serde_json::from_str(&config(&["--json"])).unwrap();
    assert_eq!(told["environment_proxies"][0]["value"], "http://…@proxy.example:3128");
    // What is in force is something else.
    assert!(!config(&["--no-proxy"]).contains("proxy.example"));
    let text = config(&["--proxy", "socks5h://user:hunter2@other.example:1080"]);
    assert!(text.contains("socks5h://…@other.example:1080") && !text.contains("proxy.example"), "{text}");
}

#[test]
fn snapshots_are_taken_listed_and_deleted() {
    let server = Server::sandboxes();
    let id = server.text("sandbox create");
    let id = id.trim();
    let taken = server.json(&format!("snapshot create {id} --name mine --json"));
    let snapshot = taken["id"].as_str().unwrap();
    assert_eq!(server.json(&format!("sandbox snap ls --sandbox {id} --json"))[0]["id"], snapshot);
    let copy = server.text(&format!("sandbox create {snapshot}"));
    assert_ne!(copy.trim(), id);
    assert_eq!(server.json(&format!("snapshot delete {snapshot} --json")), json!({"deleted": true}));
    assert_eq!(server.json("snapshot ls --json"), json!([]));
}

#[test]
fn each_setting_comes_from_the_nearest_place() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("config.toml");
    let lines = "retries = 1\nrequest_timeout = 7\nprofile = \"work\"\n[profiles.work]\napi_key = \"e2b_0123456789abcdef\"\n\
                 domain = \"work.example\"\nretries = 2\n[profiles.home]\ndomain = \"home.example\"\n";
    std::fs::write(&file, lines).unwrap();
    let config = |args: &[&str], variables: &[(&str, &str)]| {
        let mut command = Command::new(ONCEBOX);
        command.arg("config").args(args).arg("--json").env_clear().env("ONCEBOX_CONFIG", &file);
        let (code, text, error) = told(command.envs(variables.iter().copied()));
        assert_eq!(code, Some(0), "{error}");
        assert!(error.contains("chmod 600"), "{error}");
        assert!(!text.contains("0123456789"), "{text}");
        let told: Value = serde_json::from_str(&text).unwrap();
        let profile = told["profile"].as_str().unwrap().to_owned();
        let of = move |name: &str| {
            let all = told["settings"].as_array().unwrap();
            let one = all.iter().find(|setting| setting["name"] == name).unwrap();
            (
                one["value"].as_str().unwrap_or_default().to_owned(),
                one["source"].as_str().unwrap_or_default().to_owned(),
            )
        };
        (profile, of)
    };
    let is = |value: &str, source: &str| (value.to_owned(), source.to_owned());
    let (profile, of) = config(&[], &[]);
    assert_eq!(profile, "work");
    assert_eq!((of("api_key"), of("domain")), (is("…cdef", "file"), is("work.example", "file")));
    assert_eq!((of("retries"), of("request_timeout")), (is("2", "file"), is("7", "file")));
    assert_eq!((of("connection_retries"), of("api_url")), (is("3", "default"), is("", "")));

    let (_, of) = config(&["--retries", "5"], &[("ONCEBOX_RETRIES", "4"), ("E2B_DOMAIN", "env.example")]);
    assert_eq!((of("retries"), of("domain")), (is("5", "flag"), is("env.example", "environment")));
    let (profile, of) = config(&["--profile", "home"], &[("ONCEBOX_RETRIES", "4"), ("ONCEBOX_PROFILE", "work")]);
    assert_eq!(
        (profile.as_str(), of("domain"), of("retries")),
        ("home", is("home.example", "file"), is("4", "environment"))
    );
    // Addresses belong together.
    let (_, of) = config(&["--api-url", "http://127.0.0.1:1"], &[]);
    assert_eq!((of("api_url"), of("domain")), (is("http://127.0.0.1:1", "flag"), is("e2b.app", "default")));
}

#[test]
fn a_profile_leads_to_its_server() {
    let server = Server::sandboxes();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("config.toml");
    let url = &server.url;
    std::fs::write(
        &file,
        format!("[profiles.here]\napi_key = \"any\"\napi_url = \"{url}\"\nsandbox_url = \"{url}\"\n"),
    )
    .unwrap();
    let mut command = Command::new(ONCEBOX);
    command.args(["--profile", "here", "sandbox", "ls", "--json"]).env_clear().env("ONCEBOX_CONFIG", &file);
    assert_eq!(told(&mut command).1, "[]\n");
}

#[test]
fn completions_and_pages_come_from_the_same_table() {
    let run = |args: &[&str]| told(Command::new(ONCEBOX).args(args));
    for (shell, words) in [("bash", "_oncebox"), ("zsh", "#compdef oncebox"), ("fish", "complete -c oncebox")] {
        let (code, text, _) = run(&["completions", shell]);
        assert!(code == Some(0) && text.contains(words) && text.contains("sandbox"), "{shell}");
    }
    let (_, page, _) = run(&["man", "sandbox", "kill"]);
    assert!(page.contains(".TH oncebox-sandbox-kill") && page.contains("EXIT STATUS"), "{page}");
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(run(&["man", "--dir", folder.path().to_str().unwrap()]).0, Some(0));
    assert!(folder.path().join("oncebox.1").exists() && folder.path().join("oncebox-sandbox-create.1").exists());
}

#[test]
fn the_proxy_forwards_what_the_command_itself_asks() {
    let server = Server::sandboxes();
    let proxy = Server::start(&["proxy", "--port", "0", "--api-url", &server.url, "--sandbox-url", &server.url]);
    let id = proxy.text("sandbox create -m through=proxy");
    assert_eq!(proxy.text(&format!("exec {} -- echo hi", id.trim())), "hi\n");
    assert_eq!(server.json("sandbox ls -m through=proxy --json")[0]["id"], id.trim());
}
