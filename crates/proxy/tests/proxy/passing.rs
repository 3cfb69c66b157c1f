//! Everything but creates.

use std::time::Duration;

use bytes::Bytes;
use http::Method;
use http_body::Frame;
use http_body_util::StreamBody;
use oncebox::{Body, Client, Command, CommandEvent, HttpVersion, Sandbox};
use oncebox_proxy::{Proxy, StartError};
use serde_json::json;

use super::support::{CREATE, Setting, header, id, json_of};

/// A body of no known length.
fn chunked(text: &'static str) -> Body {
    Body::stream(StreamBody::new(futures_util::stream::iter([Ok::<_, std::io::Error>(Frame::data(
        Bytes::from_static(text.as_bytes()),
    ))])))
}

#[tokio::test]
async fn a_busy_server_is_asked_again_also_for_what_came_without_a_length() {
    let setting = Setting::start(&[]).await;
    let sandbox = id(&setting.create(&[]).await);
    let operation = oncebox_protocol::Table::control_plane();
    let path = format!("/sandboxes/{sandbox}/timeout");
    let timeout = &operation.find(&Method::POST, &path).unwrap().id;
    setting.faults(json!({"rules": [{"on": [timeout], "attempt": 1, "fault": {"status": {"code": 503}}}]})).await;
    for body in [Body::from("{\"timeout\":60}"), chunked("{\"timeout\":60}")] {
        let answer = setting.send(&setting.proxy.url(), Method::POST, &path, &[], body).await;
        assert_eq!((answer.status().as_u16(), header(&answer, "oncebox-attempts").as_deref()), (204, Some("2")));
        assert_eq!(header(&answer, "should-retry"), None);
    }
}

#[tokio::test]
async fn the_last_word_is_final() {
    let limited = json!({"on": ["list"], "fault": {"status": {"code": 429, "headers": {"Retry-After": "0"}}}});
    let setting = Setting::start(&[limited]).await;
    let answer = setting.ask(Method::GET, "/v2/sandboxes", &[], "").await;
    assert_eq!((answer.status().as_u16(), header(&answer, "should-retry").as_deref()), (429, Some("false")));
    assert_eq!((header(&answer, "retry-after"), header(&answer, "oncebox-retry-after")), (None, Some("0".into())));
    assert_eq!(header(&answer, "oncebox-attempts").as_deref(), Some("4"));
    let missing = setting.ask(Method::GET, "/sandboxes/inone", &[], "").await;
    assert_eq!((missing.status().as_u16(), header(&missing, "should-retry").as_deref()), (404, Some("false")));
    // What is lost and must not be repeated is told as such.
    setting.faults(json!({"rules": [{"on": ["createSecret"], "fault": {"cut": {"when": "after"}}}]})).await;
    let lost = setting.ask(Method::POST, "/secrets", &[], r#"{"name":"n","value":"v"}"#).await;
    assert_eq!((lost.status().as_u16(), json_of(&lost)["error_code"].as_str()), (504, Some("oncebox_outcome_unknown")));
    assert_eq!(header(&lost, "oncebox-attempts").as_deref(), Some("1"));
}

#[tokio::test]
async fn calls_to_sandboxes_are_not_repeated_unless_a_number_says_so() {
    let path = "/filesystem.Filesystem/ListDir";
    let operation = &oncebox_protocol::Table::envd().find(&Method::POST, path).unwrap().id;
    let busy = json!({"rules": [{"on": [operation], "attempt": 1, "fault": {"status": {"code": 503}}}]});
    for (retries, status) in [(0, 503), (2, 200)] {
        let setting = Setting::with(busy.clone(), |options| options, |builder| builder.sandbox_retries(retries)).await;
        let made = json_of(&setting.create(&[]).await);
        let headers = [
            ("e2b-sandbox-id", made["sandboxID"].as_str().unwrap()),
            ("x-access-token", made["envdAccessToken"].as_str().unwrap()),
            ("content-type", "application/json"),
        ];
        let answer = setting.ask(Method::POST, path, &headers, r#"{"path":"/tmp","depth":1}"#).await;
        assert_eq!(answer.status(), status, "{answer:?}");
    }
}

#[tokio::test]
async fn streams_flow_both_ways_over_both_versions() {
    let setting = Setting::start(&[]).await;
    for version in [HttpVersion::Http1, HttpVersion::Http2] {
        let url = setting.proxy.url();
        let client = Client::builder().api_key("mine").api_url(&url).sandbox_url(&url).http_version(version);
        let client = client.no_proxy().build().unwrap();
        let sandbox = Sandbox::create(&client).await.unwrap();
        // This SDK sees its own label through the proxy, by which it finds what it made.
        let found = client.resolve(sandbox.intent().unwrap()).await.unwrap().unwrap();
        assert_eq!(found.id(), sandbox.id());
        // It echoes each line before the next one is sent.
        let mut cat = sandbox.commands().start(Command::shell("cat").stdin(true)).await.unwrap();
        for line in ["one\n", "two\n"] {
            cat.send_stdin(line).await.unwrap();
            let mut echoed = Vec::new();
            while echoed != line.as_bytes() {
                match cat.next().await.unwrap().unwrap() {
                    CommandEvent::Stdout(bytes) => echoed.extend_from_slice(&bytes),
                    other => panic!("{other:?}"),
                }
            }
        }
        cat.kill().await.unwrap();
        // Longer than what is kept, and of no known length.
        let long = vec![b'x'; 300_000];
        sandbox.files().write("/tmp/oncebox-proxy-long", long.clone()).await.unwrap();
        assert_eq!(sandbox.files().read("/tmp/oncebox-proxy-long").await.unwrap(), long);
        sandbox.files().remove("/tmp/oncebox-proxy-long").await.unwrap();
        sandbox.kill().await.unwrap();
    }
}

#[tokio::test]
async fn a_cut_stream_is_cut() {
    let setting = Setting::start(&[]).await;
    let made = json_of(&setting.create(&[]).await);
    let headers = [
        ("e2b-sandbox-id", made["sandboxID"].as_str().unwrap()),
        ("x-access-token", made["envdAccessToken"].as_str().unwrap()),
    ];
    let path = "/files?path=/tmp/oncebox-proxy-cut";
    let long = "0123456789".repeat(50_000);
    let form =
        format!("--b\r\ncontent-disposition: form-data; name=\"file\"; filename=\"x\"\r\n\r\n{long}\r\n--b--\r\n");
    let with_type = [headers[0], headers[1], ("content-type", "multipart/form-data; boundary=b")];
    let written = setting.ask(Method::POST, path, &with_type, &form).await;
    assert_eq!(written.status(), 200, "{written:?}");
    setting
        .faults(json!({"rules": [{"on": ["readFile"], "fault": {"cut_answer": {"after": {"bytes": 400_000}}}}]}))
        .await;
    let http = oncebox_transport::Client::builder().retries(0).no_proxy().build();
    let mut request = http::Request::get(format!("{}{path}", setting.proxy.url()));
    for (name, value) in headers {
        request = request.header(name, value);
    }
    let response =
        http.send(request.body(Body::empty()).unwrap(), oncebox_transport::CallOptions::new()).await.unwrap();
    assert_eq!(response.status(), 200);
    assert!(http_body_util::BodyExt::collect(response.into_body()).await.is_err());
}

#[tokio::test]
async fn what_was_done_is_shown() {
    let setting = Setting::start(&[json!({"on": ["list"], "attempt": 1, "fault": {"status": {"code": 503}}})]).await;
    setting.ask(Method::GET, "/v2/sandboxes?limit=1", &[], "").await;
    let page = setting.ask(Method::GET, "/", &[], "").await;
    assert_eq!(header(&page, "content-type").as_deref(), Some("text/html; charset=utf-8"));
    assert!(String::from_utf8_lossy(page.body()).contains("GET /v2/sandboxes<"));
    let status = json_of(&setting.ask(Method::GET, "/oncebox/status", &[], "").await);
    assert_eq!((&status["counts"]["saved"], &status["calls"][0]["attempts"]), (&1.into(), &2.into()));
}

#[tokio::test]
async fn a_server_that_is_away_is_told_as_not_sent() {
    let url = "http://127.0.0.1:9";
    let client = Client::builder().api_key("unused").api_url(url).sandbox_url(url).connection_retries(1);
    let client = client.request_timeout(Duration::from_secs(5)).no_proxy().build().unwrap();
    let proxy = Proxy::builder(&client).start().await.unwrap();
    let http = oncebox_transport::Client::builder().retries(0).no_proxy().build();
    for (method, path, body) in [(Method::GET, "/v2/sandboxes", ""), (Method::POST, "/v2/sandboxes", CREATE)] {
        let request = http::Request::builder().method(method).uri(format!("{}{path}", proxy.url()));
        let request = request.body(Body::from(body)).unwrap();
        let answer = http.send_collected(request, oncebox_transport::CallOptions::new()).await.unwrap().into_http();
        assert_eq!((answer.status().as_u16(), header(&answer, "should-retry").as_deref()), (502, Some("false")));
        assert!(json_of(&answer)["message"].as_str().unwrap().contains("connect"), "{answer:?}");
    }
    assert!(proxy.stop().await.is_empty());
}

#[tokio::test]
async fn other_machines_need_a_token() {
    let setting = Setting::start(&[]).await;
    let client = Client::builder().api_key("unused").api_url(setting.local.url()).build().unwrap();
    let open = |builder: oncebox_proxy::ProxyBuilder| builder.listen([0, 0, 0, 0]);
    let refused = open(Proxy::builder(&client)).start().await.unwrap_err();
    assert!(matches!(refused, StartError::TokenMissing { .. }) && refused.to_string().contains("0.0.0.0"));
    for wrong in ["short", "sixteen bytes and a slash/"] {
        let refused = open(Proxy::builder(&client)).token(wrong).start().await.unwrap_err();
        assert!(matches!(refused, StartError::Token { .. }) && !refused.to_string().contains(wrong));
    }
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let itself = Client::builder().api_key("unused").api_url(format!("http://localhost:{port}")).build().unwrap();
    let refused = Proxy::builder(&itself).port(port).start().await.unwrap_err();
    assert!(matches!(refused, StartError::Itself { .. }), "{refused}");
    let token = "0123456789abcdef";
    let proxy = open(Proxy::builder(&client)).token(token).start().await.unwrap();
    let url = format!("http://127.0.0.1:{}", proxy.addr().port());
    let without = setting.send(&url, Method::GET, "/v2/sandboxes", &[], Body::empty()).await;
    assert_eq!(without.status(), 401);
    let with = setting.send(&url, Method::GET, "/v2/sandboxes", &[("oncebox-proxy-token", token)], Body::empty()).await;
    assert_eq!(with.status(), 200);
    let url = format!("{url}/oncebox-token/{token}");
    let in_path = setting.send(&url, Method::POST, "/v2/sandboxes", &[], CREATE.into()).await;
    assert!(setting.alive().await.contains(&id(&in_path)));
}
