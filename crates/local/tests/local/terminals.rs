//! Processes on a terminal.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::support::{Events, Fixture, Sandbox, isolated, plain};

fn on_terminal(script: &str) -> Value {
    let process = json!({ "cmd": "/bin/sh", "args": ["-c", script] });
    json!({ "process": process, "pty": { "size": { "cols": 100, "rows": 30 } } })
}

/// What the terminal shows until `end` is in it.
async fn until(events: &mut Events, end: &str) -> String {
    let mut shown = String::new();
    while !shown.contains(end) {
        let event = events.next().await.unwrap_or_else(|| panic!("the stream ended after {shown:?}"));
        if let Some(bytes) = event["data"]["pty"].as_str() {
            shown.push_str(std::str::from_utf8(&STANDARD.decode(bytes).unwrap()).unwrap());
        }
    }
    shown
}

/// Everything shown, and the end event.
async fn rest(events: &mut Events) -> (String, Value) {
    let (mut shown, mut end) = (Vec::new(), Value::Null);
    while let Some(event) = events.next().await {
        if let Some(bytes) = event["data"]["pty"].as_str() {
            shown.extend(STANDARD.decode(bytes).unwrap());
        }
        if event["end"].is_object() {
            end = event["end"].clone();
        }
    }
    assert!(events.ended && events.error.is_none(), "{:?}", events.error);
    (String::from_utf8(shown).unwrap(), end)
}

async fn type_in(sandbox: &Sandbox, pid: u64, text: &str) -> Result<Value, (String, String)> {
    let request = json!({ "process": { "pid": pid }, "input": { "pty": STANDARD.encode(text) } });
    sandbox.call("process.Process/SendInput", request).await
}

async fn a_shell_is_used(server: &Fixture) {
    let sandbox = server.sandbox().await;
    let request = json!({
        "process": { "cmd": "/bin/sh", "args": ["-i"], "envs": { "PS1": "> ", "ENV": "" } },
        "pty": { "size": { "cols": 100, "rows": 30 } },
    });
    let (pid, mut events) = sandbox.start(request, &[]).await;
    until(&mut events, "> ").await;
    type_in(&sandbox, pid, "stty size; tty; ps -o tty= -p $$; echo $TERM\n").await.unwrap();
    let shown = until(&mut events, "xterm-256color\r\n").await;
    assert!(shown.contains("30 100\r\n") && shown.contains("/dev/pts/") && shown.contains("pts/"), "{shown}");

    let update = json!({ "process": { "pid": pid }, "pty": { "size": { "cols": 44, "rows": 11 } } });
    sandbox.call("process.Process/Update", update).await.unwrap();
    type_in(&sandbox, pid, "stty size; echo re''sized\n").await.unwrap();
    let shown = until(&mut events, "resized\r\n").await;
    assert!(shown.contains("11 44\r\n"), "{shown}");

    // It is the controlling terminal: ^C reaches what runs in the foreground, and not the shell.
    type_in(&sandbox, pid, "sh -c 'echo run\"\"ning; exec sleep 1000'\n").await.unwrap();
    until(&mut events, "running\r\n").await;
    type_in(&sandbox, pid, "\u{3}").await.unwrap();
    type_in(&sandbox, pid, "echo st''ill here\n").await.unwrap();
    until(&mut events, "still here\r\n").await;
    type_in(&sandbox, pid, "exit 5\n").await.unwrap();
    let (_, end) = rest(&mut events).await;
    assert_eq!((end["exitCode"].as_i64(), end["exited"].as_bool()), (Some(5), Some(true)));
}

#[tokio::test]
async fn a_shell_on_a_terminal_is_used_resized_and_interrupted() {
    let Some(server) = isolated("a_shell_on_a_terminal_is_used_resized_and_interrupted").await else { return };
    a_shell_is_used(&server).await;
}

#[tokio::test]
async fn a_shell_on_a_terminal_works_without_isolation() {
    a_shell_is_used(&plain().await).await;
}

#[tokio::test]
async fn all_a_terminal_shows_arrives_before_the_end() {
    let Some(server) = isolated("all_a_terminal_shows_arrives_before_the_end").await else { return };
    let sandbox = server.sandbox().await;
    let (_, mut events) = sandbox.start(on_terminal("seq 1 20000; exit 3"), &[]).await;
    let (shown, end) = rest(&mut events).await;
    assert!(shown == (1..=20_000).map(|number| format!("{number}\r\n")).collect::<String>());
    assert_eq!(end["exitCode"], 3);
    // A background child that holds the terminal does not delay the end.
    let (_, mut events) = sandbox.start(on_terminal("trap '' HUP; sleep 1000 & echo left; exit 0"), &[]).await;
    let (shown, end) = rest(&mut events).await;
    assert_eq!((shown.as_str(), end["exited"].as_bool()), ("left\r\n", Some(true)));
}

#[tokio::test]
async fn a_terminal_is_streamed_to_killed_and_not_closed() {
    let Some(server) = isolated("a_terminal_is_streamed_to_killed_and_not_closed").await else { return };
    let sandbox = server.sandbox().await;
    let (pid, mut events) = sandbox.start(on_terminal("stty -echo; echo ready; cat"), &[]).await;
    until(&mut events, "ready\r\n").await;
    let process = json!({ "pid": pid });
    let mut body = Vec::new();
    for message in [
        json!({ "start": { "process": process } }),
        json!({ "keepalive": {} }),
        json!({ "data": { "input": { "pty": STANDARD.encode("one ") } } }),
        json!({ "data": { "input": { "pty": STANDARD.encode("two\n") } } }),
    ] {
        body.extend(super::support::envelope(&message));
    }
    let headers = [("content-type", "application/connect+json"), ("connect-protocol-version", "1")];
    let reply = sandbox.send(http::Method::POST, "/process.Process/StreamInput", &headers, body).await;
    assert!(reply.status == 200 && !String::from_utf8_lossy(&reply.body).contains("error"), "{reply:?}");
    until(&mut events, "one two\r\n").await;

    let stdin = json!({ "process": process, "input": { "stdin": STANDARD.encode("x") } });
    assert_eq!(sandbox.call("process.Process/SendInput", stdin).await.unwrap_err().0, "internal");
    let close = sandbox.call("process.Process/CloseStdin", json!({ "process": process })).await.unwrap_err();
    assert_eq!(close.0, "failed_precondition");
    let kill = json!({ "process": process, "signal": "SIGNAL_SIGKILL" });
    sandbox.call("process.Process/SendSignal", kill).await.unwrap();
    let (_, end) = rest(&mut events).await;
    assert_eq!(end["status"], "signal: killed");
}

#[tokio::test]
async fn a_program_that_is_not_there_fails_to_start_on_a_terminal_too() {
    let Some(server) = isolated("a_program_that_is_not_there_fails_to_start_on_a_terminal_too").await else { return };
    let sandbox = server.sandbox().await;
    let request = json!({ "process": { "cmd": "/no/such/program" }, "pty": {} });
    let mut events = sandbox.events("process.Process/Start", &[], request).await;
    assert!(events.next().await.is_none());
    let (code, message) = events.error.unwrap();
    assert_eq!(code, "invalid_argument");
    assert!(message.contains("/no/such/program") && message.contains("No such file"), "{message}");

    let (pid, mut events) = sandbox.start(json!({ "process": { "cmd": "cat" } }), &[]).await;
    let update = json!({ "process": { "pid": pid }, "pty": { "size": { "cols": 1, "rows": 1 } } });
    assert_eq!(sandbox.call("process.Process/Update", update).await.unwrap_err().0, "internal");
    sandbox.call("process.Process/CloseStdin", json!({ "process": { "pid": pid } })).await.unwrap();
    while events.next().await.is_some() {}
}
