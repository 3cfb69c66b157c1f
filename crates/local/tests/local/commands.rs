//! The Process service.

use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::Method;
use serde_json::json;

use super::support::{basic, envelope, isolated, shell};

#[tokio::test]
async fn streams_stay_apart_and_the_exit_code_arrives() {
    let Some(server) = isolated("streams_stay_apart_and_the_exit_code_arrives").await else { return };
    let sandbox = server.sandbox().await;
    let output = sandbox.run("echo out; echo err >&2; exit 7").await;
    assert_eq!((output.text(), output.errors(), output.code()), ("out\n", "err\n", 7));
    assert_eq!(output.end["status"], "exit status 7");
    assert_eq!(output.end["error"], "exit status 7");
    assert_eq!(output.end["exited"], true);
    let output = sandbox.run("true").await;
    assert_eq!((output.code(), output.end["status"].as_str()), (0, Some("exit status 0")));
    assert!(output.end["error"].is_null());
}

#[tokio::test]
async fn all_output_arrives_in_order_over_both_http_versions() {
    let Some(server) = isolated("all_output_arrives_in_order_over_both_http_versions").await else { return };
    let mut sandbox = server.sandbox().await;
    let script = "seq 1 200000; seq 1 100000 >&2";
    let numbers = |last: u32| (1..=last).map(|number| format!("{number}\n")).collect::<String>();
    for http in [server.http.clone(), server.http.h2c()] {
        sandbox.http = http;
        let output = sandbox.run(script).await;
        assert!(output.text() == numbers(200_000) && output.errors() == numbers(100_000));
    }
}

#[tokio::test]
async fn chunks_are_at_most_32_kib_and_a_slow_reader_loses_nothing() {
    let Some(server) = isolated("chunks_are_at_most_32_kib_and_a_slow_reader_loses_nothing").await else { return };
    let sandbox = server.sandbox().await;
    let (_, mut events) = sandbox.start(shell("head -c 20000000 /dev/zero; echo written >/tmp/done"), &[]).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    // The process waits: sockets and queues do not hold that much.
    assert_eq!(sandbox.read("/tmp/done").await.status, 404);
    let mut total = 0;
    while let Some(event) = events.next().await {
        if let Some(bytes) = event["data"]["stdout"].as_str() {
            let length = STANDARD.decode(bytes).unwrap().len();
            assert!(length <= 32 << 10, "{length}");
            total += length;
        }
    }
    assert_eq!(total, 20_000_000);
}

#[tokio::test]
async fn stdin_is_written_and_closed() {
    let Some(server) = isolated("stdin_is_written_and_closed").await else { return };
    let sandbox = server.sandbox().await;
    let (pid, mut events) = sandbox.start(json!({ "process": { "cmd": "cat" } }), &[]).await;
    let process = json!({ "pid": pid });
    let input = |text: &str| json!({ "process": process, "input": { "stdin": STANDARD.encode(text) } });
    sandbox.call("process.Process/SendInput", input("hello\n")).await.unwrap();
    assert_eq!(events.next_output().await, b"hello\n");

    let pty = json!({ "process": process, "input": { "pty": STANDARD.encode("x") } });
    assert_eq!(sandbox.call("process.Process/SendInput", pty).await.unwrap_err().0, "internal");
    let nothing = json!({ "process": process });
    assert_eq!(sandbox.call("process.Process/SendInput", nothing).await.unwrap_err().0, "unimplemented");

    let close = json!({ "process": process });
    sandbox.call("process.Process/CloseStdin", close.clone()).await.unwrap();
    let output = events.output().await;
    assert_eq!((output.code(), output.text()), (0, ""));
    assert_eq!(sandbox.call("process.Process/SendInput", input("late")).await.unwrap_err().0, "not_found");

    let (pid, events) = sandbox.start(shell("cat"), &[]).await;
    assert_eq!(events.output().await.code(), 0, "without stdin, cat reads the end of file at once (pid {pid})");
}

#[tokio::test]
async fn input_can_be_streamed() {
    let Some(server) = isolated("input_can_be_streamed").await else { return };
    let sandbox = server.sandbox().await;
    let (pid, mut events) = sandbox.start(json!({ "process": { "cmd": "cat" } }), &[]).await;
    let mut body = envelope(&json!({ "start": { "process": { "pid": pid } } }));
    body.extend(envelope(&json!({ "data": { "input": { "stdin": STANDARD.encode("one ") } } })));
    body.extend(envelope(&json!({ "keepalive": {} })));
    body.extend(envelope(&json!({ "data": { "input": { "stdin": STANDARD.encode("two") } } })));
    let headers = [("content-type", "application/connect+json"), ("connect-protocol-version", "1")];
    let reply = sandbox.send(Method::POST, "/process.Process/StreamInput", &headers, body).await;
    assert_eq!(reply.status, 200);
    assert!(!String::from_utf8_lossy(&reply.body).contains("error"), "{reply:?}");
    let mut heard = Vec::new();
    while heard.len() < 7 {
        heard.extend(events.next_output().await);
    }
    assert_eq!(heard, b"one two");
}

#[tokio::test]
async fn the_timeout_of_start_kills_the_process_and_says_so() {
    let Some(server) = isolated("the_timeout_of_start_kills_the_process_and_says_so").await else { return };
    let sandbox = server.sandbox().await;
    let before = Instant::now();
    let (_, events) = sandbox.start(shell("echo begun; exec sleep 60"), &[("connect-timeout-ms", "400")]).await;
    let output = events.output().await;
    assert!(before.elapsed() >= Duration::from_millis(400) && before.elapsed() < Duration::from_secs(20));
    assert_eq!((output.text(), output.code()), ("begun\n", -1));
    assert_eq!(output.end["status"], "signal: killed");
    assert!(output.end["exited"].is_null());

    let mut events = sandbox.events("process.Process/Start", &[("connect-timeout-ms", "soon")], shell("true")).await;
    assert!(events.next().await.is_none());
    assert_eq!(events.error.unwrap().0, "invalid_argument");
    let (_, events) = sandbox.start(shell("sleep 0.3"), &[("connect-timeout-ms", "0")]).await;
    assert_eq!(events.output().await.code(), 0);
}

#[tokio::test]
async fn the_timeout_of_connect_ends_the_stream_and_leaves_the_process() {
    let Some(server) = isolated("the_timeout_of_connect_ends_the_stream_and_leaves_the_process").await else { return };
    let sandbox = server.sandbox().await;
    let mut reader = shell("read line; echo $line");
    reader["stdin"] = true.into();
    let (pid, events) = sandbox.start(reader, &[]).await;
    let selector = json!({ "process": { "pid": pid } });
    let headers = [("connect-timeout-ms", "300")];
    let mut connected = sandbox.events("process.Process/Connect", &headers, selector.clone()).await;
    assert!(connected.next().await.unwrap()["start"].is_object());
    assert_eq!(connected.next().await, None);
    assert_eq!(connected.error.unwrap().0, "deadline_exceeded");
    let (process, input) = (selector["process"].clone(), json!({ "stdin": "aGkK" }));
    sandbox.call("process.Process/SendInput", json!({ "process": process, "input": input })).await.unwrap();
    assert_eq!(events.output().await.text(), "hi\n");
}

#[tokio::test]
async fn a_client_that_leaves_does_not_end_the_process() {
    let Some(server) = isolated("a_client_that_leaves_does_not_end_the_process").await else { return };
    let sandbox = server.sandbox().await;
    let mut request = shell("echo begun; while [ ! -e /tmp/go ]; do sleep 0.02; done; echo went; exit 3");
    request["tag"] = "job".into();
    let (pid, mut events) = sandbox.start(request, &[]).await;
    assert_eq!(events.next_output().await, b"begun\n");
    drop(events);

    let list = sandbox.call("process.Process/List", json!({})).await.unwrap();
    assert_eq!(list["processes"][0]["pid"], pid);
    assert_eq!(list["processes"][0]["tag"], "job");
    assert_eq!(list["processes"][0]["config"]["cmd"], "/bin/sh");

    let mut by_pid = sandbox.events("process.Process/Connect", &[], json!({ "process": { "pid": pid } })).await;
    let mut by_tag = sandbox.events("process.Process/Connect", &[], json!({ "process": { "tag": "job" } })).await;
    for events in [&mut by_pid, &mut by_tag] {
        assert_eq!(events.next().await.unwrap()["start"]["pid"], pid);
    }
    sandbox.write("/tmp/go", "").await;
    for events in [by_pid, by_tag] {
        let output = events.output().await;
        assert_eq!((output.text(), output.code()), ("went\n", 3));
    }

    // Its end can still be asked for, and it is no longer listed.
    let late = sandbox.events("process.Process/Connect", &[], json!({ "process": { "pid": pid } })).await;
    let output = late.output().await;
    assert_eq!((output.text(), output.code()), ("", 3));
    assert!(sandbox.call("process.Process/List", json!({})).await.unwrap()["processes"].is_null());
}

#[tokio::test]
async fn a_process_that_was_killed_is_gone_when_the_answer_comes() {
    let Some(server) = isolated("a_process_that_was_killed_is_gone_when_the_answer_comes").await else { return };
    let sandbox = server.sandbox().await;
    for _ in 0..50 {
        let (pid, _events) = sandbox.start(shell("sleep 50"), &[]).await;
        let request = json!({ "process": { "pid": pid }, "signal": "SIGNAL_SIGKILL" });
        sandbox.call("process.Process/SendSignal", request.clone()).await.unwrap();
        assert_eq!(sandbox.call("process.Process/SendSignal", request).await.unwrap_err().0, "not_found");
        assert!(sandbox.call("process.Process/List", json!({})).await.unwrap()["processes"].is_null());
    }
}

#[tokio::test]
async fn signals_go_to_the_process_and_not_to_its_children() {
    let Some(server) = isolated("signals_go_to_the_process_and_not_to_its_children").await else { return };
    let sandbox = server.sandbox().await;
    for (signal, status) in [("SIGNAL_SIGKILL", "signal: killed"), ("SIGNAL_SIGTERM", "signal: terminated")] {
        let (pid, mut events) = sandbox.start(shell("sleep 50 & echo $!; wait"), &[]).await;
        let child = String::from_utf8(events.next_output().await).unwrap();
        let request = json!({ "process": { "pid": pid }, "signal": signal });
        sandbox.call("process.Process/SendSignal", request.clone()).await.unwrap();
        let output = events.output().await;
        assert_eq!((output.code(), output.end["status"].as_str()), (-1, Some(status)));
        assert_eq!(sandbox.run(&format!("kill -0 {child}")).await.code(), 0, "the child lives on");
        assert_eq!(sandbox.call("process.Process/SendSignal", request).await.unwrap_err().0, "not_found");
    }
    let code = |body| {
        let sandbox = sandbox.clone();
        async move { sandbox.call("process.Process/SendSignal", body).await.unwrap_err().0 }
    };
    assert_eq!(code(json!({ "process": { "pid": 99999 }, "signal": "SIGNAL_SIGKILL" })).await, "not_found");
    assert_eq!(code(json!({ "process": { "tag": "none" }, "signal": "SIGNAL_SIGKILL" })).await, "not_found");
    assert_eq!(code(json!({ "signal": "SIGNAL_SIGKILL" })).await, "unimplemented");
    let (pid, _events) = sandbox.start(shell("sleep 50"), &[]).await;
    assert_eq!(code(json!({ "process": { "pid": pid } })).await, "unimplemented");
}

#[tokio::test]
async fn what_runs_on_in_the_background_does_not_delay_the_end() {
    let Some(server) = isolated("what_runs_on_in_the_background_does_not_delay_the_end").await else { return };
    let sandbox = server.sandbox().await;
    let before = Instant::now();
    // The child holds the pipe and writes to it long after its parent, and must not be killed for that.
    let output = sandbox.run("(sleep 1; echo late; echo alive >/tmp/alive) & echo first").await;
    assert_eq!((output.text(), output.code()), ("first\n", 0));
    assert!(before.elapsed() < Duration::from_millis(900));
    tokio::time::sleep(Duration::from_millis(1500)).await;
    assert_eq!(sandbox.read("/tmp/alive").await.body, "alive\n");
}

#[tokio::test]
async fn orphans_are_reaped_and_exit_codes_are_never_stolen() {
    let Some(server) = isolated("orphans_are_reaped_and_exit_codes_are_never_stolen").await else { return };
    let sandbox = server.sandbox().await;
    let mut running = Vec::new();
    for code in 0..40 {
        let sandbox = sandbox.clone();
        // Each leaves an orphan that ends at about the same time.
        running.push(tokio::spawn(async move {
            let output = sandbox.run(&format!("(sleep 0.05 &); sleep 0.05; exit {code}")).await;
            assert_eq!(output.code(), code);
        }));
    }
    for run in running {
        run.await.unwrap();
    }
    // Commands that cannot be started have a child too, for a moment.
    for _ in 0..20 {
        let request = json!({ "process": { "cmd": "/no/such/program" } });
        let mut events = sandbox.events("process.Process/Start", &[], request).await;
        assert!(events.next().await.is_none());
        assert_eq!(events.error.unwrap().0, "invalid_argument");
    }
    tokio::time::sleep(Duration::from_millis(200)).await;
    let states = sandbox.run("cat /proc/[0-9]*/stat | sed 's/.*) //' | cut -c1").await;
    assert!(!states.text().contains('Z'), "{}", states.text());
}

#[tokio::test]
async fn silence_is_filled_with_keepalives() {
    let Some(server) = isolated("silence_is_filled_with_keepalives").await else { return };
    let sandbox = server.sandbox().await;
    let (_, mut events) = sandbox.start(shell("sleep 2.5"), &[("keepalive-ping-interval", "1")]).await;
    let mut keepalives = 0;
    while let Some(event) = events.next().await {
        keepalives += usize::from(!event["keepalive"].is_null());
    }
    assert_eq!(keepalives, 2);
}

#[tokio::test]
async fn commands_run_with_the_users_environment() {
    let Some(server) = isolated("commands_run_with_the_users_environment").await else { return };
    let create = json!({ "templateID": "base", "envVars": { "FROM_CREATE": "1", "BOTH": "create" } });
    let sandbox = server.http.create(create).await;
    let mut request = shell("env | sort");
    request["process"]["envs"] = json!({ "FROM_CALL": "2", "BOTH": "call" });
    let (_, events) = sandbox.start(request, &[]).await;
    let output = events.output().await;
    let lines: Vec<&str> = output.text().lines().filter(|line| !line.starts_with("PWD=")).collect();
    let id = format!("E2B_SANDBOX_ID={}", sandbox.id);
    assert_eq!(
        lines,
        [
            "BOTH=call",
            "E2B_SANDBOX=true",
            &id,
            "E2B_TEMPLATE_ID=base",
            "FROM_CALL=2",
            "FROM_CREATE=1",
            "HOME=/home/user",
            "LOGNAME=user",
            "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "USER=user",
        ]
    );
    let output = sandbox.run_as("root", "echo $HOME $USER $LOGNAME; pwd; whoami").await;
    assert_eq!(output.text(), "/root root root\n/root\nuser\n");
    assert_eq!(
        sandbox.run("cat /run/e2b/.E2B_SANDBOX; getent passwd user root | cut -d: -f1").await.text(),
        "trueuser\nroot\n"
    );
    let mut events = sandbox.events("process.Process/Start", &[("authorization", &basic("bob"))], shell("true")).await;
    assert!(events.next().await.is_none());
    assert_eq!(events.error.unwrap().0, "unauthenticated");
}

#[tokio::test]
async fn commands_that_make_no_sense_are_refused() {
    let Some(server) = isolated("commands_that_make_no_sense_are_refused").await else { return };
    let sandbox = server.sandbox().await;
    let cases = [
        (json!({ "process": { "cmd": "" } }), "invalid_argument", "cmd is empty"),
        (json!({}), "invalid_argument", "cmd is empty"),
        (json!({ "process": { "cmd": "no-such-program" } }), "invalid_argument", "no-such-program"),
        (json!({ "process": { "cmd": "true", "cwd": "/none" } }), "invalid_argument", "cwd '/none' does not exist"),
        (json!({ "process": { "cmd": "true", "cwd": "/etc/passwd" } }), "invalid_argument", "is not a directory"),
        (json!({ "process": { "cmd": "true", "envs": { "A=B": "c" } } }), "invalid_argument", "A=B"),
        (json!({ "process": { "cmd": "true", "args": ["a\u{0}b"] } }), "invalid_argument", "true"),
        (
            json!({ "process": { "cmd": "true" }, "pty": { "size": { "cols": 80, "rows": 70_000 } } }),
            "invalid_argument",
            "70000 rows",
        ),
    ];
    for (request, code, text) in cases {
        let mut events = sandbox.events("process.Process/Start", &[], request.clone()).await;
        assert!(events.next().await.is_none());
        let (found, message) = events.error.unwrap();
        assert!(found == code && message.contains(text), "{request}: {found}: {message}");
    }
    let update = json!({ "process": { "pid": 1 }, "pty": {} });
    assert_eq!(sandbox.call("process.Process/Update", update).await.unwrap_err().0, "not_found");
    assert_eq!(sandbox.run("echo fine").await.text(), "fine\n");
}

#[tokio::test]
async fn a_relative_working_directory_is_in_the_home() {
    let Some(server) = isolated("a_relative_working_directory_is_in_the_home").await else { return };
    let sandbox = server.sandbox().await;
    sandbox.run("mkdir -p work/inner").await;
    let mut request = shell("pwd");
    request["process"]["cwd"] = "work/inner".into();
    let (_, events) = sandbox.start(request, &[]).await;
    assert_eq!(events.output().await.text(), "/home/user/work/inner\n");
}

#[tokio::test]
async fn the_binary_codec_is_understood_too() {
    use buffa::Message;
    use oncebox_protocol::envd::process::{ListResponse, SendSignalRequest};

    let Some(server) = isolated("the_binary_codec_is_understood_too").await else { return };
    let sandbox = server.sandbox().await;
    let (pid, _events) = sandbox.start(shell("sleep 50"), &[]).await;
    let headers = [("content-type", "application/proto"), ("connect-protocol-version", "1")];
    let reply = sandbox.send(Method::POST, "/process.Process/List", &headers, "").await;
    assert_eq!((reply.status.as_u16(), reply.headers["content-type"].to_str().unwrap()), (200, "application/proto"));
    let list = ListResponse::decode_from_slice(&reply.body).unwrap();
    assert_eq!(u64::from(list.processes[0].pid), pid);
    let empty = SendSignalRequest::default().encode_to_vec();
    assert_eq!(sandbox.send(Method::POST, "/process.Process/SendSignal", &headers, empty).await.status, 501);
}
