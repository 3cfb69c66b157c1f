//! A local server from outside: its faults, its effects, its templates.

#![allow(clippy::unwrap_used)]

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Output, Stdio};

struct Server {
    child: Child,
    url: String,
}

impl Server {
    /// `None`: it ended at once, where sandboxes cannot be isolated.
    fn start(args: &[&str]) -> Option<Self> {
        let mut child = Command::new(env!("CARGO_BIN_EXE_oncebox"))
            .args(["serve", "--port", "0", "--json"])
            .args(args)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        if line.is_empty() {
            assert_eq!(child.wait().unwrap().code(), Some(125));
            return None;
        }
        let address: serde_json::Value = serde_json::from_str(&line).unwrap();
        Some(Self { child, url: address["url"].as_str().unwrap().to_owned() })
    }

    fn run(&self, args: &[&str]) -> (Option<i32>, String, String) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_oncebox"));
        command.args(args).env("E2B_API_KEY", "any").env("E2B_HTTP_VERSION", "1.1");
        command.env("E2B_API_URL", &self.url).env("E2B_SANDBOX_URL", &self.url);
        let Output { status, stdout, stderr } = command.output().unwrap();
        (status.code(), String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap())
    }

    fn json(&self, args: &[&str]) -> serde_json::Value {
        let (code, text, error) = self.run(args);
        assert_eq!(code, Some(0), "{error}");
        serde_json::from_str(text.lines().last().unwrap()).unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = Command::new("kill").args(["-INT", &self.child.id().to_string()]).status();
        let _ = self.child.wait();
    }
}

#[test]
fn faults_are_set_and_effects_told() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("faults.json");
    let path = file.to_str().unwrap();
    std::fs::write(&file, r#"{"rules": [{"on": ["create"], "times": 1, "fault": {"cut": {"when": "after"}}}]}"#)
        .unwrap();
    let server = Server::start(&["--no-isolation", "--faults", path]).unwrap();
    // The create whose answer is lost is found again: one sandbox, one effect.
    let (code, text, error) = server.run(&["run", "--", "echo", "once"]);
    assert_eq!((code, text.as_str()), (Some(0), "once\n"), "{error}");
    assert_eq!(server.json(&["faults", "get"])["fired"], serde_json::json!([1]));
    let told = server.json(&["effects", "--json"]);
    assert_eq!(told["counts"]["createSandbox"], 1, "{told}");
    let (_, text, _) = server.run(&["effects", "--reset"]);
    assert!(text.contains("createSandbox") && !text.contains("doubled"), "{text}");
    assert_eq!(server.run(&["effects"]).1, "no effects\n");

    std::fs::write(&file, "{\n  \"rules\": [\n    {\"fault\": {\"cut\": {}}},\n    {\"fault\": {\"cutt\": {}}}]}")
        .unwrap();
    let (code, _, error) = server.run(&["faults", "set", path]);
    assert!(code == Some(2) && error.contains("line 4: rules[1].fault"), "{error}");
    let refused = Command::new(env!("CARGO_BIN_EXE_oncebox")).args(["serve", "--port", "0", "--faults", path]).output();
    let refused = refused.unwrap();
    assert!(refused.status.code() == Some(2) && String::from_utf8_lossy(&refused.stderr).contains("line 4"));

    assert_eq!(server.run(&["faults", "clear"]).0, Some(0));
    assert_eq!(server.json(&["faults", "get"])["faults"]["rules"], serde_json::json!([]));
    let (code, _, error) = server.run(&["effects", "--server", "http://127.0.0.1:9"]);
    assert!(code == Some(125) && error.contains("oncebox serve"), "{error}");
}

#[test]
fn a_dockerfile_becomes_a_template() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("hello"), "hello from here\n").unwrap();
    let file = folder.path().join("Dockerfile");
    std::fs::write(&file, "FROM e2bdev/base\nCOPY hello /srv/hello\nRUN echo built > /srv/built\n").unwrap();
    let path = file.to_str().unwrap();
    let Some(server) = Server::start(&[]) else {
        println!("SKIP a_dockerfile_becomes_a_template: sandboxes cannot be isolated here");
        return;
    };
    let (code, text, error) = server.run(&["template", "build", "mine", "-f", path]);
    assert_eq!(code, Some(0), "{error}");
    assert!(text.contains("RUN echo built") && text.contains("mine is built"), "{text}");
    let (code, text, error) = server.run(&["run", "--template", "mine", "--", "cat", "/srv/hello", "/srv/built"]);
    assert_eq!((code, text.as_str()), (Some(0), "hello from here\nbuilt\n"), "{error}");
    let listed = server.json(&["template", "ls", "--json"]);
    assert_eq!(listed.as_array().unwrap().iter().filter(|one| one["names"].to_string().contains("mine")).count(), 1);
    assert_eq!(server.json(&["template", "publish", "mine", "--json"])["public"], true);
    assert!(server.run(&["template", "info", "mine"]).1.contains("public"));
    // As with all that is deleted: that there was none is no failure, and is told.
    let (code, text, error) = server.run(&["template", "delete", "mine", "never"]);
    assert_eq!((code, text.as_str()), (Some(0), "mine is deleted\n"));
    assert_eq!(error, "oncebox: there was no template \"never\"\n");
    assert_eq!(server.json(&["template", "delete", "mine", "--json"])["deleted"], false);

    std::fs::write(&file, "FROM ubuntu:24.04\n").unwrap();
    let (code, _, error) = server.run(&["template", "build", "bad", "-f", path]);
    assert!(code == Some(125) && error.contains("'ubuntu:24.04'") && error.contains("`FROM e2bdev/base`"), "{error}");
    std::fs::write(&file, "FROM e2bdev/base\nRUN exit 7\n").unwrap();
    let (code, _, error) = server.run(&["template", "build", "bad", "-f", path]);
    assert!(code == Some(125) && error.contains("exit code 7"), "{error}");
    std::fs::write(&file, "FROM e2bdev/base\nADD https://e.com/x /y\n").unwrap();
    let (code, _, error) = server.run(&["template", "build", "bad", "-f", path]);
    assert!(code == Some(2) && error.contains("line 2"), "{error}");
}

#[test]
fn a_build_is_found_again_by_the_ids_that_were_told() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("Dockerfile");
    let path = file.to_str().unwrap();
    let Some(server) = Server::start(&[]) else {
        println!("SKIP a_build_is_found_again_by_the_ids_that_were_told: sandboxes cannot be isolated here");
        return;
    };
    std::fs::write(&file, "FROM e2bdev/base\nRUN sleep 1; echo built > /srv/built\n").unwrap();
    let (code, text, error) = server.run(&["template", "build", "mine", "-f", path, "--detach"]);
    assert_eq!((code, error.as_str()), (Some(0), ""), "{text}");
    let (template, build) = text.trim_end().split_once(' ').unwrap();
    // It was not waited for.
    let status = server.json(&["template", "status", template, build, "--json"]);
    assert_eq!(status["templateID"], template);
    assert_eq!((&status["buildID"], &status["reason"]), (&build.into(), &serde_json::Value::Null));
    assert!(["building", "waiting"].contains(&status["status"].as_str().unwrap()), "{status}");
    let (code, text, error) = server.run(&["template", "logs", template, build]);
    assert_eq!(code, Some(0), "{error}");
    assert!(text.contains("RUN sleep 1") && text.ends_with(&format!("{template} is built\n")), "{text}");
    assert_eq!(server.run(&["template", "status", template, build]).1, "ready\n");
    let end = server.json(&["template", "logs", template, build, "--json"]);
    assert_eq!(end, serde_json::json!({"templateID": template, "buildID": build, "status": "ready"}));
    assert_eq!(server.run(&["run", "--template", "mine", "--", "cat", "/srv/built"]).1, "built\n");

    // Whoever waits is told the ids before the log, and by the error.
    std::fs::write(&file, "FROM e2bdev/base\nRUN echo about to; exit 7\n").unwrap();
    let (code, text, error) = server.run(&["template", "build", "bad", "-f", path]);
    assert_eq!(code, Some(125), "{error}");
    assert!(text.contains("about to"), "{text}");
    let told = error.lines().next().unwrap();
    let words: Vec<&str> = told.strip_prefix("oncebox: build ").unwrap().split(' ').collect();
    let (build, template) = (words[0], words[3]);
    assert_eq!(told, format!("oncebox: build {build} of template {template} has started"));
    assert!(error.contains("exit code 7") && error.matches(build).count() > 1, "{error}");
    let (code, text, error) = server.run(&["template", "logs", template, build]);
    assert!(code == Some(125) && text.contains("about to") && error.contains("exit code 7"), "{error}");
    let (code, text, _) = server.run(&["template", "status", template, build]);
    assert!(code == Some(0) && text.starts_with("error  step 3: ") && text.contains("exit code 7"), "{text}");
    let status = server.json(&["template", "status", template, build, "--json"]);
    assert_eq!((&status["status"], &status["reason"]["step"]), (&"error".into(), &"3".into()), "{status}");

    let (code, text, error) = server.run(&["template", "build", "bad", "-f", path, "--json"]);
    assert_eq!((code, error.as_str()), (Some(125), ""));
    let lines: Vec<serde_json::Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let (first, last) = (&lines[0]["started"], &lines[lines.len() - 1]["error"]);
    assert_eq!(first["templateID"], template);
    assert_eq!(last["candidates"], serde_json::json!([first["buildID"]]));
    assert_eq!(last["may_have_been_processed"], true);
    let started = server.json(&["template", "build", "bad", "-f", path, "--json", "--detach"]);
    assert_eq!((&started["templateID"], &started["names"][0]), (&template.into(), &"bad".into()));

    for task in ["logs", "status"] {
        let (code, _, error) = server.run(&["template", task, template, "00000000-0000-0000-0000-000000000000"]);
        assert!(code == Some(125) && error.contains("not found"), "{error}");
    }
    let (code, _, error) = server.run(&["template", "build", "bad", "-f", path, "--detach", "--local"]);
    assert!(code == Some(2) && error.contains("--detach"), "{error}");
}

#[test]
fn a_templates_tags_and_who_may_use_it_are_changed() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("Dockerfile");
    std::fs::write(&file, "FROM e2bdev/base\n").unwrap();
    let path = file.to_str().unwrap();
    let Some(server) = Server::start(&[]) else {
        println!("SKIP a_templates_tags_and_who_may_use_it_are_changed: sandboxes cannot be isolated here");
        return;
    };
    let built = server.json(&["template", "build", "mine:v1", "-f", path, "--tag", "v2", "--json"]);
    let build = built["buildID"].as_str().unwrap();
    let tags = |name: &str| {
        let listed = server.json(&["template", "tags", name, "--json"]);
        let tag = |tag: &serde_json::Value| {
            assert_eq!(tag["buildID"], build);
            tag["tag"].as_str().unwrap().to_owned()
        };
        let mut tags: Vec<String> = listed.as_array().unwrap().iter().map(tag).collect();
        tags.sort();
        tags
    };
    assert_eq!(tags("mine"), ["v1", "v2"]);
    let (code, text, error) = server.run(&["template", "tag", "mine:v1", "stable", "next"]);
    assert_eq!(code, Some(0), "{error}");
    assert!(text.contains("stable") && text.ends_with(&format!(" -> {build}\n")), "{text}");
    assert_eq!(server.json(&["template", "tag", "mine:v1", "more", "--json"])["buildID"], build);
    assert_eq!(tags("mine"), ["more", "next", "stable", "v1", "v2"]);
    let (_, text, _) = server.run(&["template", "tags", "mine"]);
    assert!(text.lines().any(|line| line.starts_with(&format!("stable  {build}  "))), "{text}");
    let removed = server.json(&["template", "untag", "mine", "next", "more", "--json"]);
    assert_eq!(removed, serde_json::json!({"template": "mine", "removed": ["next", "more"]}));
    assert_eq!(server.run(&["template", "untag", "mine", "v2"]), (Some(0), String::new(), String::new()));
    assert_eq!(tags("mine"), ["stable", "v1"]);
    let (code, _, error) = server.run(&["template", "untag", "mine", "never"]);
    assert!(code == Some(125) && !error.is_empty(), "{error}");
    let (code, _, error) = server.run(&["template", "tags", "none"]);
    assert!(code == Some(125) && error.contains("none"), "{error}");

    assert_eq!(server.run(&["template", "publish", "mine"]).1, "mine is public\n");
    assert_eq!(server.run(&["template", "unpublish", "mine"]).1, "mine is private\n");
    assert_eq!(server.json(&["template", "unpublish", "mine", "--json"])["public"], false);
    assert!(server.run(&["template", "info", "mine"]).1.contains("private"));
}
