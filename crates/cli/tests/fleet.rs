//! `oncebox fleet run`, as a user runs it.

#![allow(clippy::unwrap_used)] // A test panics when it fails.

use std::process::{Command, Output, Stdio};

fn fleet(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_oncebox"));
    for name in ["E2B_API_KEY", "E2B_API_URL", "E2B_SANDBOX_URL", "E2B_DOMAIN", "RUST_LOG"] {
        command.env_remove(name);
    }
    command.args(["fleet", "run"]).args(args).stdin(Stdio::null()).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn each_sandbox_has_its_number_and_the_report_counts_them() {
    let script = "echo \"$SAID $ONCEBOX_NUMBER\"; test \"$ONCEBOX_NUMBER\" != 1";
    let output = fleet(&[
        "--local",
        "--no-isolation",
        "-n",
        "3",
        "-c",
        "2",
        "-e",
        "SAID=number",
        "--json",
        "--",
        "sh",
        "-c",
        script,
    ]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    let lines: Vec<serde_json::Value> =
        text(&output.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 4);
    for (number, line) in lines[..3].iter().enumerate() {
        assert_eq!((&line["number"], &line["stdout"]), (&number.into(), &format!("number {number}\n").into()));
        assert_eq!(line["exit_code"], i32::from(number == 1));
    }
    let all = &lines[3];
    assert_eq!((&all["count"], &all["created"], &all["failed"]), (&3.into(), &3.into(), &1.into()));
    assert_eq!((&all["left"], &all["unknown"]), (&serde_json::json!([]), &serde_json::json!([])));
}

#[test]
fn wrong_use_is_told_before_anything_is_made() {
    for (args, words) in [
        (&["-n", "0", "--local", "--", "true"][..], "--count"),
        (&["-n", "1", "--", "true"], "E2B_API_KEY"),
        (&["-n", "1", "-c", "0", "--local", "--", "true"], "--concurrency"),
    ] {
        let output = fleet(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(text(&output.stderr).contains(words), "{args:?}: {}", text(&output.stderr));
    }
}
