//! `oncebox faults` from outside.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Output, Stdio};

fn oncebox(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_oncebox"));
    command.arg("faults").args(args);
    command
}

fn run(args: &[&str]) -> (Option<i32>, String, String) {
    let Output { status, stdout, stderr } = oncebox(args).output().unwrap();
    (status.code(), String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap())
}

/// A server that was started, and where it listens.
fn start(args: &[&str]) -> (Child, String) {
    let mut child = oncebox(args).arg("--json").stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    let address: serde_json::Value = serde_json::from_str(&line).unwrap();
    (child, address["url"].as_str().unwrap().to_owned())
}

fn stop(mut child: Child) {
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

fn get(url: &str) -> String {
    let mut socket = TcpStream::connect(url.trim_start_matches("http://")).unwrap();
    socket.write_all(b"POST / HTTP/1.1\r\nx-request-id: a\r\nconnection: close\r\ncontent-length: 0\r\n\r\n").unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn the_list_has_every_fault_and_every_ready_script() {
    let (code, text, _) = run(&["list"]);
    assert_eq!(code, Some(0));
    assert!(text.contains("  goaway ") && text.contains("  requests-lost-when-connections-retire "), "{text}");
    let (_, json, _) = run(&["list", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["scripts"].as_array().unwrap().len(), 10);
}

#[test]
fn a_wrong_script_is_refused_with_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("script.json");
    std::fs::write(&file, "{\n  \"rules\": [{\"at\": \"request\", \"do\": [\"refus\"]}]\n}").unwrap();
    let file = file.to_str().unwrap();
    let (code, _, text) = run(&["serve", file]);
    assert_eq!(code, Some(2));
    assert!(
        text.starts_with(&format!("oncebox: {file}: line 2, column 44: rules[0].do[0]: unknown variant `refus`")),
        "{text}"
    );
    let (code, _, text) = run(&["serve", "no-such-script"]);
    assert_eq!(code, Some(2));
    assert!(text.contains("SCRIPT is \"no-such-script\"") && text.contains("request-hangs"), "{text}");
    let (code, _, text) = run(&["proxy", "request-hangs", "--to", "localhost"]);
    assert_eq!(code, Some(2));
    assert!(text.contains("--to: the upstream \"localhost\": it must look like http://HOST:PORT"), "{text}");
}

#[test]
fn a_server_and_a_proxy_report_what_they_saw() {
    let folder = tempfile::tempdir().unwrap();
    let plain = folder.path().join("plain.json");
    std::fs::write(&plain, "{}").unwrap();
    let (server, url) = start(&["serve", plain.to_str().unwrap()]);
    let report = folder.path().join("report.json");
    let (proxy, proxied) =
        start(&["proxy", "created-twice-after-504", "--to", &url, "--report", report.to_str().unwrap()]);
    assert!(get(&proxied).starts_with("HTTP/1.1 504 "));
    assert!(get(&proxied).starts_with("HTTP/1.1 200 "));
    stop(proxy);
    stop(server);
    let report: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(report).unwrap()).unwrap();
    assert_eq!((&report["totals"]["doubled"], &report["fired"]["gateway"]), (&1.into(), &1.into()));
    assert_eq!((&report["requests"][0]["id"], &report["requests"][0]["processed"]), (&"a".into(), &2.into()));
}
