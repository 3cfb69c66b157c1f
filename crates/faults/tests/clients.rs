//! Faults as clients that others wrote see them. A client that is not installed is skipped, and said to be.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use std::process::Stdio;

use oncebox_faults::{Answer, Fault, LastId, Moment, Rule, Script, Server};
use support::*;
use tokio::process::Command;

struct Output {
    code: Option<i32>,
    text: String,
}

/// Runs a program; `None` with the reason told: it is not here.
async fn tool(test: &str, program: &str, args: &[&str]) -> Option<Output> {
    let output = Command::new(program).args(args).stdin(Stdio::null()).kill_on_drop(true).output();
    match tokio::time::timeout(LONG, output).await.expect("it ends in time") {
        Ok(output) => {
            let text = [output.stdout, output.stderr].concat();
            Some(Output { code: output.status.code(), text: String::from_utf8_lossy(&text).into_owned() })
        }
        Err(error) => {
            println!("SKIP {test}: {program}: {error}");
            None
        }
    }
}

async fn curl(test: &str, server: &Server, args: &[&str]) -> Option<Output> {
    let url = server.url("/");
    let args = [&["-sS", "--noproxy", "*", "-m", "5", &url], args].concat();
    tool(test, "curl", &args).await
}

#[tokio::test]
async fn curl_is_answered_over_each_version_and_tls() {
    const TEST: &str = "curl_is_answered_over_each_version_and_tls";
    let server = Server::builder(Script::new()).tls().start().await.unwrap();
    let folder = std::env::temp_dir().join(format!("oncebox-faults-{}", std::process::id()));
    std::fs::write(&folder, server.ca_pem().unwrap()).unwrap();
    let ca = folder.to_str().unwrap();
    for version in ["--http1.1", "--http2"] {
        let Some(output) = curl(TEST, &server, &[version, "--cacert", ca, "-w", " %{http_version}"]).await else {
            return;
        };
        assert_eq!(output.text, format!("ok {}", if version == "--http2" { "2" } else { "1.1" }));
    }
    std::fs::remove_file(&folder).unwrap();
    let server = serve(Script::new()).await;
    let Some(output) = curl(TEST, &server, &["--http2-prior-knowledge", "-d", "body"]).await else { return };
    assert_eq!(output.text, "ok");
    assert_eq!(server.log().all_tries()[0].body_bytes, 4);
}

#[tokio::test]
async fn curl_tells_each_fault_by_its_own_exit_code() {
    const TEST: &str = "curl_tells_each_fault_by_its_own_exit_code";
    let at = |moment, fault: Fault| Script::new().rule(Rule::at(moment).does(fault));
    // CURLE_GOT_NOTHING, _RECV_ERROR, _PARTIAL_FILE, _OPERATION_TIMEDOUT, _WEIRD_SERVER_REPLY or its kin.
    let cases = [
        (at(Moment::Request, Fault::Close), vec![52]),
        (at(Moment::Request, Fault::Reset), vec![56]),
        (at(Moment::AnswerBody(1), Fault::Close), vec![18]),
        (at(Moment::Processed, Fault::Hold), vec![28]),
        (at(Moment::Connect, Fault::Silence), vec![28]),
        (at(Moment::Processed, Fault::answer(Answer { length_lie: 5, ..Answer::default() })), vec![18, 28]),
    ];
    for (script, codes) in cases {
        let what = script.rules[0].faults[0].name();
        let server = serve(script).await;
        let Some(output) = curl(TEST, &server, &["-m", "1"]).await else { return };
        assert!(codes.contains(&output.code.unwrap()), "{what}: {:?} {}", output.code, output.text);
    }
    let server = serve(at(Moment::Request, Fault::ResetStream(oncebox_faults::ErrorCode::INTERNAL_ERROR))).await;
    let Some(output) = curl(TEST, &server, &["--http2-prior-knowledge"]).await else { return };
    assert_eq!(output.code, Some(92), "{}", output.text);
    assert!(output.text.contains("INTERNAL_ERROR"), "{}", output.text);
}

#[tokio::test]
async fn nghttp_prints_the_frames_of_the_script() {
    const TEST: &str = "nghttp_prints_the_frames_of_the_script";
    let script = Script::new()
        .max_concurrent_streams(7)
        .answer(Answer { padding: Some(3), ..Answer::default() })
        .rule(Rule::at(Moment::Request).does(Fault::goaway().last(LastId::Max).debug("shutdown")))
        .rule(Rule::at(Moment::Answered).does(Fault::goaway().debug("max_age")));
    let server = serve(script).await;
    let Some(output) = tool(TEST, "nghttp", &["-nv", &server.url("/")]).await else { return };
    let text = output.text.replace("\u{1b}[0m", "");
    for expected in [
        "[SETTINGS_MAX_CONCURRENT_STREAMS(0x03):7]",
        "(last_stream_id=2147483647, error_code=NO_ERROR(0x00), opaque_data(8)=[shutdown])",
        ":status: 200",
        "(padlen=4)",
        "error_code=NO_ERROR(0x00), opaque_data(7)=[max_age])",
    ] {
        assert!(text.contains(expected), "{expected} is not in\n{text}");
    }
}

/// What Python's `h2` makes of what comes after one GET: the names of its events.
const PYTHON: &str = r#"
import socket, sys
import h2.config, h2.connection, h2.exceptions
conn = h2.connection.H2Connection(h2.config.H2Configuration(client_side=True))
sock = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
sock.settimeout(5)
conn.initiate_connection()
conn.send_headers(1, [(":method", "GET"), (":path", "/"), (":scheme", "http"), (":authority", "a")], end_stream=True)
sock.sendall(conn.data_to_send())
try:
    while data := sock.recv(65536):
        for event in conn.receive_data(data):
            code = getattr(event, "error_code", None)
            print(type(event).__name__, "" if code is None else int(code), getattr(event, "last_stream_id", ""))
        sock.sendall(conn.data_to_send())
except h2.exceptions.ProtocolError as error:
    print("refused:", type(error).__name__)
except OSError as error:
    print("lost:", type(error).__name__)
"#;

#[tokio::test]
async fn pythons_h2_reports_the_frames_of_the_script() {
    const TEST: &str = "pythons_h2_reports_the_frames_of_the_script";
    let python = std::env::var("ONCEBOX_PYTHON_WITH_H2").unwrap_or_else(|_| "python3".to_owned());
    let Some(found) = tool(TEST, &python, &["-c", "import h2"]).await else { return };
    if found.code != Some(0) {
        println!("SKIP {TEST}: {python} has no module h2 (ONCEBOX_PYTHON_WITH_H2 names one that has)");
        return;
    }
    let see = async |fault: Fault| {
        let rule = Rule::at(Moment::Request).does(fault).does(Fault::Close);
        let server = serve(Script::new().rule(rule)).await;
        let port = server.addr().port().to_string();
        tool(TEST, &python, &["-c", PYTHON, &port]).await.unwrap().text
    };
    let refused = see(Fault::Refuse).await;
    assert!(refused.contains("StreamReset 7"), "{refused}");
    let goaway =
        see(Fault::goaway().last(LastId::Previous).code(oncebox_faults::ErrorCode::ENHANCE_YOUR_CALM).into()).await;
    assert!(goaway.contains("ConnectionTerminated 11 0"), "{goaway}");
    for error in [
        oncebox_faults::ProtocolError::DataOnStreamZero,
        oncebox_faults::ProtocolError::BadHpack,
        oncebox_faults::ProtocolError::WindowOverflow,
        oncebox_faults::ProtocolError::LoneContinuation,
    ] {
        let seen = see(Fault::ProtocolError(error)).await;
        // By `h2` itself: a timeout or a lost socket is not what was promised.
        assert!(seen.contains("refused: "), "{error:?}: {seen}");
    }
}
