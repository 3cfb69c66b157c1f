//! The code interpreter: against the local server's kernels where a Python has them, and against answers that are cut.
#![cfg(feature = "local")]
#![allow(clippy::unwrap_used)] // A test panics when it fails.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use oncebox::local::{Isolation, LocalServer, StartError};
use oncebox::{Chart, Client, CodeEvent, Command, ErrorKind, HttpVersion, Sandbox};
use oncebox_faults::Script;
use serde_json::{Value, json};

/// A Python with `ipykernel`: the one that `ONCEBOX_PYTHON_WITH_IPYKERNEL` names, else `python3` if it has it.
fn python() -> Result<PathBuf, String> {
    let named = std::env::var_os("ONCEBOX_PYTHON_WITH_IPYKERNEL");
    let python = PathBuf::from(named.unwrap_or_else(|| "python3".into()));
    let tell = "import ipykernel, jupyter_client, sys; print(sys.executable)";
    match std::process::Command::new(&python).args(["-c", tell]).output() {
        Ok(output) if output.status.success() => Ok(String::from_utf8(output.stdout).unwrap().trim().into()),
        _ => Err(format!("{} has no ipykernel; ONCEBOX_PYTHON_WITH_IPYKERNEL names another Python", python.display())),
    }
}

/// A sandbox with kernels, or `None` and a line that says why not.
async fn sandbox(test: &str) -> Option<(Client, Sandbox)> {
    let started = match python() {
        Ok(python) => LocalServer::builder().code_interpreter(python).start().await,
        Err(why) => {
            println!("SKIP {test}: {why}");
            return None;
        }
    };
    match started {
        Ok(server) => {
            let client = Client::of(server).unwrap();
            let sandbox = Sandbox::create(&client).await.unwrap();
            Some((client, sandbox))
        }
        Err(StartError::IsolationUnavailable { why, .. }) => {
            println!("SKIP {test}: {why}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

#[tokio::test]
async fn code_keeps_its_state_and_everything_that_comes_of_it_is_told() {
    let test = "code_keeps_its_state_and_everything_that_comes_of_it_is_told";
    let Some((client, sandbox)) = sandbox(test).await else { return };
    let first = sandbox.run_code("x = 20").await.unwrap();
    assert!(first.results.is_empty() && first.error.is_none() && first.text().is_none(), "{first:?}");
    let count = first.execution_count.unwrap();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let tell = |what: &'static str| {
        let seen = Arc::clone(&seen);
        move |text: String| seen.lock().unwrap().push((what, text))
    };
    let (stdout, stderr, result, error) = (tell("out"), tell("err"), tell("result"), tell("error"));
    let code = "import sys\nprint('to out')\nprint('to err', file=sys.stderr)\ndisplay('shown')\nx + 22";
    let execution = sandbox
        .run_code(code)
        .language("python")
        .on_stdout(move |output| stdout(output.text.clone()))
        .on_stderr(move |output| stderr(output.text.clone()))
        .on_result(move |value| result(value.text.clone().unwrap()))
        .on_error(move |why| error(why.name.clone()))
        .await
        .unwrap();
    assert_eq!((execution.text(), execution.execution_count), (Some("42"), Some(count + 1)));
    assert_eq!(execution.logs.stdout.concat(), "to out\n");
    assert_eq!(execution.logs.stderr.concat(), "to err\n");
    let results: Vec<_> = execution.results.iter().map(|r| (r.text.as_deref().unwrap(), r.is_main_result)).collect();
    assert_eq!(results, [("'shown'", false), ("42", true)]);
    let seen = seen.lock().unwrap().clone();
    for event in [("out", "to out\n"), ("err", "to err\n"), ("result", "'shown'"), ("result", "42")] {
        assert!(seen.contains(&(event.0, event.1.to_owned())), "{seen:?}");
    }

    let failed = sandbox.run_code("print('before')\n1/0").await.unwrap();
    let error = failed.error.unwrap();
    assert_eq!((error.name.as_str(), error.value.as_str()), ("ZeroDivisionError", "division by zero"));
    assert!(error.traceback.contains("Traceback") && failed.logs.stdout == ["before\n"], "{error:?}");

    let of_env = "import os; os.environ.get('TOKEN')";
    assert_eq!(sandbox.run_code(of_env).env("TOKEN", "for this run").await.unwrap().text(), Some("'for this run'"));
    assert_eq!(sandbox.run_code(of_env).await.unwrap().text(), None);
    // What a kernel of another language would say, this server does not.
    let error = sandbox.run_code("1").language("cobol").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    let rich = "class R:\n  def _repr_html_(self): return '<b>r</b>'\n  def _repr_json_(self): return {'a': [1]}\nR()";
    let rich = sandbox.run_code(rich).await.unwrap();
    assert_eq!(rich.results[0].html.as_deref(), Some("<b>r</b>"));
    assert_eq!(rich.results[0].json, Some(json!({"a": [1]})));
    assert!(rich.results[0].formats().contains(&"html"));
    client.close().await;
}

#[tokio::test]
async fn contexts_are_apart_and_can_be_ended_and_restarted() {
    let Some((client, sandbox)) = sandbox("contexts_are_apart_and_can_be_ended_and_restarted").await else { return };
    assert!(sandbox.list_code_contexts().await.unwrap().is_empty());
    let (a, b) = tokio::join!(
        sandbox.create_code_context().cwd("/tmp").into_future(),
        sandbox.create_code_context().language("python").into_future()
    );
    let (a, b) = (a.unwrap(), b.unwrap());
    assert_eq!((a.language.as_str(), a.cwd.as_str()), ("python", "/tmp"));
    sandbox.run_code("x = 1").context(&a).await.unwrap();
    let missing = sandbox.run_code("x").context(&b).await.unwrap();
    assert_eq!(missing.error.unwrap().name, "NameError");
    assert_eq!(sandbox.run_code("import os; os.getcwd()").context(&a).await.unwrap().text(), Some("'/tmp'"));
    sandbox.restart_code_context(&a.id).await.unwrap();
    assert_eq!(sandbox.run_code("x").context(&a).await.unwrap().error.unwrap().name, "NameError");
    assert!(sandbox.remove_code_context(&b.id).await.unwrap());
    assert!(!sandbox.remove_code_context(&b.id).await.unwrap());
    assert_eq!(sandbox.restart_code_context(&b.id).await.unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(sandbox.run_code("1").context(&b).await.unwrap_err().kind(), ErrorKind::NotFound);
    let left: Vec<_> = sandbox.list_code_contexts().await.unwrap().into_iter().map(|context| context.id).collect();
    assert_eq!(left, std::slice::from_ref(&a.id));
    let both = sandbox.run_code("1").context(&a).language("python").await.unwrap_err();
    assert!(both.kind() == ErrorKind::InvalidArgument && both.attempts().is_empty(), "{both}");
    client.close().await;
}

/// The one limit: neither the deadline of calls nor the idle limit of answers ends code that runs on.
#[tokio::test]
async fn only_the_timeout_of_a_run_ends_it() {
    let Some((client, sandbox)) = sandbox("only_the_timeout_of_a_run_ends_it").await else { return };
    let hasty = sandbox.with(oncebox::CallOptions::new().request_timeout(Duration::from_millis(300))).unwrap();
    sandbox.run_code("import time").await.unwrap();
    let slow = hasty.run_code("time.sleep(1); 7").await.unwrap();
    assert_eq!(slow.text(), Some("7"));
    let code = "print('begun', flush=True)\nwhile True: time.sleep(0.01)";
    let mut run = sandbox.run_code(code).timeout(Duration::from_millis(1500)).start().await.unwrap();
    assert!(matches!(run.next().await, Some(Ok(CodeEvent::Stdout(output))) if output.text == "begun\n"));
    let error = run.next().await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
    assert!(error.to_string().contains("within 1.5s (timeout)") && error.may_have_been_processed(), "{error}");
    assert!(run.next().await.is_none());
    drop(run);
    // The local server interrupts code whose client has gone; the kernel is as it was.
    assert_eq!(sandbox.run_code("1 + 1").timeout(Duration::ZERO).await.unwrap().text(), Some("2"));
    client.close().await;
}

/// A sandbox of a server whose `/execute` goes by a script: whatever the script does not touch is answered well.
async fn scripted(rules: Value) -> (oncebox_faults::Server, Sandbox) {
    let server = LocalServer::builder().isolation(Isolation::None).start().await.unwrap();
    let script = Script::from_json(&json!({ "rules": rules }).to_string()).unwrap();
    let proxy = oncebox_faults::Server::builder(script).proxy_to(&server.url()).start().await.unwrap();
    let url = proxy.url("");
    let client = Client::builder().api_key("k").api_url(&url).sandbox_url(&url).http_version(HttpVersion::Http2);
    let sandbox = Sandbox::create(&client.build().unwrap()).await.unwrap();
    (proxy, sandbox)
}

fn executions(server: &oncebox_faults::Server) -> usize {
    server.log().all_tries().iter().filter(|request| request.path == "/execute").count()
}

/// `/execute` answers this, in chunks.
fn answers(text: &str) -> Value {
    let answer = json!({"status": 200, "body": {"text": text}, "frame_size": 1000});
    json!({"at": "received", "when": {"path": "/execute"}, "do": [{ "answer": answer }]})
}

const OUT: &str = "{\"type\":\"stdout\",\"text\":\"hi\"}\n";
const RESULT: &str = "{\"type\":\"result\",\"text\":\"1\",\"is_main_result\":true}\n";
const COUNT: &str = "{\"type\":\"number_of_executions\",\"execution_count\":1}\n";

#[tokio::test]
async fn an_answer_that_is_cut_is_a_lost_connection_and_no_result() {
    let whole = [OUT, RESULT, COUNT].concat();
    let (_server, sandbox) = scripted(json!([answers(&whole)])).await;
    let execution = sandbox.run_code("1").await.unwrap();
    assert_eq!((execution.text(), execution.execution_count), (Some("1"), Some(1)));
    // In order, and yet too early: in the middle of a line, and before any.
    for text in [String::new(), "\n".to_owned(), format!("{OUT}{{\"type\":"), "{\"type\":\"keep".to_owned()] {
        let (_server, sandbox) = scripted(json!([answers(&text)])).await;
        let error = sandbox.run_code("1").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionLost, "{text:?}: {error}");
        assert!(error.may_have_been_processed() && error.to_string().contains("the result is unknown"), "{error}");
    }
    // The connection ends: at the end of a line, within one, and before the first.
    for bytes in [0, 10, OUT.len(), OUT.len() + RESULT.len()] {
        for how in [json!("close"), json!("reset"), json!({"reset_stream": "INTERNAL_ERROR"})] {
            let cut = json!({"at": {"answer_body": bytes}, "when": {"path": "/execute"}, "do": [how]});
            let (server, sandbox) = scripted(json!([cut, answers(&whole)])).await;
            let error = sandbox.run_code("1").await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::ConnectionLost, "{bytes} {how}: {error}");
            assert!(error.may_have_been_processed(), "{bytes} {how}: {error}");
            assert_eq!(executions(&server), 1, "{bytes} {how}");
        }
    }
}

#[tokio::test]
async fn what_makes_no_sense_or_is_too_much_is_an_error() {
    let (_server, sandbox) = scripted(json!([answers("what?\n")])).await;
    let error = sandbox.run_code("1").await.unwrap_err();
    assert!(error.kind() == ErrorKind::Server && error.may_have_been_processed(), "{error:?}");
    let (_server, sandbox) = scripted(json!([answers(&OUT.repeat(100))])).await;
    let error = sandbox.run_code("1").max_output(1000).await.unwrap_err();
    assert!(error.to_string().contains("1000 bytes (max_output)"), "{error}");
    assert!(sandbox.run_code("1").await.is_ok());
    let error = sandbox.run_code("1").env("a=b", "x").await.unwrap_err();
    assert!(error.kind() == ErrorKind::InvalidArgument && error.attempts().is_empty(), "{error}");
}

#[tokio::test]
async fn charts_come_as_data_and_new_kinds_of_lines_are_passed_over() {
    let pie = json!({"type": "pie", "title": "p", "elements": [{"label": "a", "angle": 90, "radius": 1}]});
    let result = json!({"type": "result", "png": "AA==", "chart": pie, "is_main_result": true});
    let (_server, sandbox) =
        scripted(json!([answers(&format!("{{\"type\":\"newer\",\"x\":1}}\n{result}\n{COUNT}"))])).await;
    let execution = sandbox.run_code("plot()").await.unwrap();
    assert!(matches!(&execution.results[0].chart, Some(Chart::Pie(pie)) if pie.elements[0].angle == 90.0));
    assert_eq!(execution.results[0].formats(), ["png", "chart"]);
}

#[tokio::test]
async fn code_that_did_not_arrive_is_sent_again_and_code_that_may_have_is_not() {
    let whole = [RESULT, COUNT].concat();
    let when = json!({"path": "/execute", "count": 1});
    for fault in [json!("refuse"), json!({"goaway": {"last": "previous"}})] {
        let (server, sandbox) =
            scripted(json!([{"at": "request", "when": when, "do": [fault]}, answers(&whole)])).await;
        assert_eq!(sandbox.run_code("1").await.unwrap().text(), Some("1"), "{fault}");
        assert_eq!(executions(&server), 2, "{fault}");
    }
    for fault in [json!("close"), json!({"answer": {"status": 504}}), json!({"answer": {"status": 500}})] {
        let (server, sandbox) =
            scripted(json!([{"at": "received", "when": when, "do": [fault]}, answers(&whole)])).await;
        let error = sandbox.run_code("1").await.unwrap_err();
        assert!(error.may_have_been_processed(), "{fault}: {error:?}");
        assert_eq!(executions(&server), 1, "{fault}");
    }
    let busy = json!({"at": "received", "when": when, "do": [{"answer": {"status": 503}}]});
    let (server, sandbox) = scripted(json!([busy, answers(&whole)])).await;
    let error = sandbox.run_code("1").await.unwrap_err();
    assert!(error.is_busy() && !error.may_have_been_processed(), "{error:?}");
    assert_eq!(executions(&server), 1);
}

#[tokio::test]
async fn a_context_whose_answer_was_lost_is_a_candidate() {
    let listed = |contexts: Value| json!({"answer": {"status": 200, "body": {"text": contexts.to_string()}}});
    let old = json!({"id": "old", "language": "python", "cwd": "/"});
    let lists = |count: u32, contexts| json!({"at": "received", "when": {"method": "GET", "path": "/contexts", "count": count}, "do": [listed(contexts)]});
    let lost = json!({"at": "received", "when": {"method": "POST", "path": "/contexts"}, "do": ["close"]});
    let new = json!({"id": "new", "language": "r", "cwd": "/"});
    let rules = json!([lists(1, json!([old])), lists(2, json!([old, new])), lost]);
    let (_server, sandbox) = scripted(rules).await;
    let error = sandbox.create_code_context().language("r").await.unwrap_err();
    assert!(error.outcome_unknown(), "{error}");
    assert_eq!(error.candidates(), ["new"]);
}

#[tokio::test]
async fn what_variables_of_code_and_of_commands_hold_is_in_no_error() {
    const VALUE: &str = "v4lue-of-a-variable";
    let refusal = json!({"code": "invalid_argument", "message": format!("not so: TOKEN={VALUE}")}).to_string();
    let answer =
        json!({"answer": {"status": 400, "headers": {"content-type": "application/json"}, "body": {"text": refusal}}});
    let rule = |path: &str| json!({"at": "received", "when": {"path": path}, "do": [answer]});
    let rules = ["/execute", "/process.Process/Start", "/sandboxes/*"].map(rule);
    let (_server, sandbox) = scripted(json!(rules)).await;
    let command = || Command::new("true").env("TOKEN", VALUE);
    let proxy = json!({"egressProxy": {"address": "h:1", "password": VALUE}});
    for error in [
        sandbox.run_code("1").env("TOKEN", VALUE).await.unwrap_err(),
        sandbox.commands().start(command()).await.unwrap_err(),
        sandbox.commands().durable(command()).await.unwrap_err(),
        sandbox.update_network(&serde_json::from_value(proxy).unwrap()).await.unwrap_err(),
    ] {
        let mut told = format!("{error} {error:?}");
        let mut source = std::error::Error::source(&error);
        while let Some(cause) = source {
            told += &format!("{cause} {cause:?}");
            source = cause.source();
        }
        assert!(told.contains("not so: TOKEN=…") && !told.contains(VALUE), "{told}");
    }
}
