//! Faults on demand, and the count of what really happened. Without isolation, since hardly a command runs.

use std::time::Duration;

use http::Method;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use oncebox_local::LocalServer;
use serde_json::{Value, json};

use super::support::{Fixture, Http, Reply, envelope, files, helper, plain, plain_with, shell};

async fn with_faults(document: Value) -> Fixture {
    let server = plain().await;
    put(&server.http, document).await;
    server
}

async fn put(http: &Http, document: Value) {
    let reply = http.api(Method::PUT, "/oncebox/faults", Some(document)).await;
    assert_eq!(reply.status, 204, "{reply:?}");
}

fn base() -> Option<Value> {
    Some(json!({ "templateID": "base", "metadata": { "oncebox.intent": "abc", "n": "1" } }))
}

async fn create(http: &Http) -> Option<Reply> {
    http.try_api(Method::POST, "/v2/sandboxes", base()).await
}

async fn listed(http: &Http) -> Vec<Value> {
    http.api(Method::GET, "/v2/sandboxes", None).await.json().as_array().unwrap().clone()
}

async fn counts(http: &Http) -> Value {
    http.api(Method::GET, "/oncebox/effects", None).await.json()["counts"].take()
}

#[tokio::test]
async fn a_document_with_a_mistake_changes_nothing() {
    let server = with_faults(json!({"rules": [{"on": ["kill"], "fault": {"status": {"code": 503}}}]})).await;
    let wrong = json!({"rules": [{"on": ["list"], "fault": {"status": {"code": 503, "when": "never"}}}]});
    let reply = server.http.api(Method::PUT, "/oncebox/faults", Some(wrong)).await;
    assert!(reply.error(400).contains("line 1: rules[0].fault"), "{reply:?}");
    let told = server.http.api(Method::GET, "/oncebox/faults", None).await.json();
    assert_eq!(told["faults"]["rules"][0]["on"], json!(["kill"]));
    assert_eq!(told["fired"], json!([0]));
    server.http.api(Method::DELETE, "/oncebox/faults", None).await;
    let told = server.http.api(Method::GET, "/oncebox/faults", None).await.json();
    assert_eq!(told["faults"]["rules"], json!([]));
}

#[tokio::test]
async fn an_answer_is_replaced_before_or_after_the_effect() {
    let headers = json!({"Retry-After": "3"});
    let server = with_faults(json!({"rules": [
        {"on": ["create"], "times": 1, "fault": {"status": {"code": 503, "headers": headers, "body": "busy"}}},
        {"on": ["create"], "times": 1, "fault": {"status": {"code": 504, "when": "after"}}},
    ]}))
    .await;
    let http = &server.http;
    let before = create(http).await.unwrap();
    assert_eq!(
        (before.status.as_u16(), &before.body[..], &before.headers["retry-after"]),
        (503, &b"busy"[..], &"3".parse().unwrap())
    );
    assert!(listed(http).await.is_empty());
    create(http).await.unwrap().error(504);
    assert_eq!(listed(http).await.len(), 1);
    assert_eq!(create(http).await.unwrap().status, 201);
    assert_eq!(counts(http).await["createSandbox"], 2);
}

#[tokio::test]
async fn a_connection_is_cut_before_or_after_the_effect() {
    for how in ["close", "reset"] {
        let server = with_faults(json!({"rules": [
            {"on": ["create"], "times": 1, "fault": {"cut": {"when": "before", "how": how}}},
            {"on": ["create"], "times": 1, "fault": {"cut": {"when": "after", "how": how}}},
        ]}))
        .await;
        assert!(create(&server.http).await.is_none());
        assert!(listed(&server.http).await.is_empty());
        assert!(create(&server.http).await.is_none());
        assert_eq!(listed(&server.http).await.len(), 1);
    }
}

#[tokio::test]
async fn an_effect_comes_later_and_lists_lag_behind_it() {
    let server = with_faults(json!({"list_lag": 0.3, "rules": [
        {"on": ["create"], "times": 1, "fault": {"late": {"seconds": 0.3}}},
    ]}))
    .await;
    let http = &server.http;
    assert!(create(http).await.is_none());
    assert_eq!(counts(http).await, json!({}));
    while counts(http).await["createSandbox"] != 1 {
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    let effects = http.api(Method::GET, "/oncebox/effects", None).await.json();
    let effect = &effects["effects"][0];
    assert_eq!(
        (&effect["operation"], &effect["intent"], &effect["count"]),
        (&json!("createSandbox"), &json!("abc"), &json!(1))
    );
    while listed(http).await.is_empty() {
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    // The lag is a promise about the list: by now the sandbox is older than it.
    let listed = listed(http).await;
    assert_eq!(listed[0]["sandboxID"], effect["sandbox"]);
}

#[tokio::test]
async fn a_list_may_ignore_its_filter_and_omit_metadata() {
    let server = with_faults(json!({"filter": "ignored"})).await;
    let http = &server.http;
    create(http).await.unwrap();
    let filtered = "/v2/sandboxes?metadata=n%3D2&state=running";
    assert_eq!(http.api(Method::GET, filtered, None).await.json().as_array().unwrap().len(), 1);
    put(http, json!({"list_metadata": "omitted"})).await;
    assert_eq!(http.api(Method::GET, filtered, None).await.json(), json!([]));
    assert!(listed(http).await[0].get("metadata").is_none());
}

#[tokio::test]
async fn v2_may_be_missing_and_creates_limited() {
    let server = with_faults(json!({"v2_missing": 405})).await;
    let http = &server.http;
    create(http).await.unwrap().error(405);
    assert_eq!(http.api(Method::POST, "/sandboxes", base()).await.status, 201);
    put(http, json!({"create_limit": {"per_second": 0.1, "burst": 1}})).await;
    let granted = create(http).await.unwrap();
    assert_eq!((granted.status.as_u16(), &granted.headers["ratelimit-remaining"]), (201, &"0".parse().unwrap()));
    let limited = create(http).await.unwrap();
    assert_eq!(limited.error(429), "Rate limit exceeded");
    let seconds: u64 = limited.headers["retry-after"].to_str().unwrap().parse().unwrap();
    assert!((1..=10).contains(&seconds), "{seconds}");
    assert_eq!(limited.headers["ratelimit-policy"], "\"create\";q=1;w=10");
    assert!(limited.headers["ratelimit"].to_str().unwrap().starts_with("\"create\";r=0;t="));
}

#[tokio::test]
async fn what_happens_in_a_sandbox_is_counted_and_what_fails_is_not() {
    let server = plain().await;
    let http = &server.http;
    let sandbox = server.sandbox().await;
    assert_eq!(sandbox.run("true").await.code(), 0);
    let mut nowhere = shell("true");
    nowhere["process"]["cwd"] = "/no/such/place".into();
    let mut events = sandbox.events("process.Process/Start", &[], nowhere).await;
    assert!(events.next().await.is_none() && events.error.is_some());
    sandbox.write("a", "x").await;
    sandbox.write("a", "y").await;
    let path = format!("/sandboxes/{}", sandbox.id);
    assert_eq!(http.api(Method::DELETE, &path, None).await.status, 204);
    assert_eq!(http.api(Method::DELETE, &path, None).await.status, 404);
    let told = http.api(Method::GET, "/oncebox/effects", None).await.json();
    assert_eq!(
        told["counts"],
        json!({"createSandbox": 1, "killSandbox": 1, "processStart": 1, "writeFiles": 2}),
        "{told}"
    );
    assert!(told["effects"].as_array().unwrap().iter().all(|effect| effect["sandbox"] == sandbox.id));
    http.api(Method::DELETE, "/oncebox/effects", None).await;
    assert_eq!(counts(http).await, json!({}));
}

/// What came of a body, and whether it ended in order.
async fn read(mut body: Incoming) -> (usize, bool) {
    let mut size = 0;
    loop {
        match body.frame().await {
            None => return (size, true),
            Some(Err(_)) => return (size, false),
            Some(Ok(frame)) => size += frame.data_ref().map_or(0, bytes::Bytes::len),
        }
    }
}

#[tokio::test]
async fn an_answer_is_cut_after_so_many_bytes() {
    const SIZE: usize = 100_000;
    let server = plain().await;
    let sandbox = server.sandbox().await;
    sandbox.write("f", vec![7; SIZE]).await;
    let headers =
        [("e2b-sandbox-id", &*sandbox.id), ("e2b-sandbox-port", "49983"), ("x-access-token", &*sandbox.token)];
    for (how, http) in [
        ("close", server.http.clone()),
        ("reset", server.http.clone()),
        ("stream", server.http.clone()),
        ("stream", server.http.h2c()),
    ] {
        let fault = json!({"cut_answer": {"after": {"bytes": 40_000}, "how": how}});
        put(&server.http, json!({"rules": [{"on": ["readFile"], "times": 1, "fault": fault}]})).await;
        let response = http.stream(Method::GET, &files("f"), &headers, "").await;
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["content-length"], "100000");
        let (size, whole) = read(response.into_body()).await;
        // A reset takes with it what the client's side has not read.
        assert!(!whole && (size == 40_000 || how == "reset" && size < 40_000), "{how}: {size}");
        let response = http.stream(Method::GET, &files("f"), &headers, "").await;
        assert_eq!(read(response.into_body()).await, (SIZE, true));
    }
}

#[tokio::test]
async fn a_stream_is_cut_or_stands_still_after_so_many_messages() {
    let cut = json!({"cut_answer": {"after": {"events": 3}}});
    let stall = json!({"stall_answer": {"after": {"events": 1}, "seconds": 3600}});
    let server = with_faults(json!({"rules": [
        {"on": ["start"], "times": 1, "fault": cut}, {"on": ["start"], "times": 1, "fault": stall},
    ]}))
    .await;
    let sandbox = server.sandbox().await;
    let script = "for n in 1 2 3 4 5; do echo $n; sleep 0.05; done";
    let headers = [
        ("e2b-sandbox-id", &*sandbox.id),
        ("e2b-sandbox-port", "49983"),
        ("x-access-token", &*sandbox.token),
        ("content-type", "application/connect+json"),
        ("connect-protocol-version", "1"),
    ];
    let start = envelope(&shell(script));
    let mut body = server.http.stream(Method::POST, "/process.Process/Start", &headers, start).await.into_body();
    let mut bytes = Vec::new();
    let ended = loop {
        match body.frame().await {
            None => break true,
            Some(Err(_)) => break false,
            Some(Ok(frame)) => bytes.extend_from_slice(frame.data_ref().unwrap()),
        }
    };
    let mut messages = 0;
    let mut rest = &bytes[..];
    while let Some((head, after)) = rest.split_at_checked(5) {
        let size = u32::from_be_bytes(head[1..].try_into().unwrap()) as usize;
        (rest, messages) = (&after[size..], messages + 1);
    }
    assert_eq!((messages, rest.len(), ended), (3, 0, false));
    let (_, mut events) = sandbox.start(shell(script), &[]).await;
    assert!(tokio::time::timeout(Duration::from_millis(600), events.next()).await.is_err(), "it does not go on");
    assert_eq!(sandbox.run(script).await.text(), "1\n2\n3\n4\n5\n");
}

#[tokio::test]
async fn of_an_upload_half_is_stored_and_all_is_said_to_be_well() {
    let form = "--b\r\ncontent-disposition: form-data; name=\"file\"; filename=\"m\"\r\n\r\n0123456789\r\n--b--\r\n";
    let at = form.find('5').unwrap();
    let server = with_faults(json!({"rules": [
        {"on": ["writeFiles"], "times": 1, "fault": {"half_write": {}}},
        {"on": ["writeFiles"], "times": 1, "fault": {"half_write": {"bytes": at}}},
    ]}))
    .await;
    let sandbox = server.sandbox().await;
    assert_eq!(sandbox.write("o", vec![b'x'; 9000]).await.status, 200);
    assert_eq!(sandbox.read("o").await.body.len(), 4500);
    let content = [("content-type", "multipart/form-data; boundary=b")];
    let reply = sandbox.send(Method::POST, &files("m"), &content, form).await;
    assert_eq!(reply.status, 200, "{reply:?}");
    assert_eq!(sandbox.read("m").await.body, "01234");
    assert_eq!(sandbox.write("o", vec![b'x'; 9000]).await.status, 200);
    assert_eq!(sandbox.read("o").await.body.len(), 9000);
}

/// How many of five requests, one after the other on one HTTP/2 connection, are answered.
async fn answered_on_one_connection(server: &Fixture) -> usize {
    let socket = tokio::net::TcpStream::connect(server.server.addr()).await.unwrap();
    let (mut client, connection) = h2::client::handshake(socket).await.unwrap();
    let connection = tokio::spawn(connection);
    let mut answered = 0;
    for _ in 0..5 {
        let request = http::Request::get(format!("{}/v2/sandboxes", server.http.url)).header("x-api-key", "any");
        let Ok(ready) = client.clone().ready().await else { break };
        client = ready;
        let Ok((response, _)) = client.send_request(request.body(()).unwrap(), true) else { break };
        match response.await {
            Ok(response) => answered += usize::from(response.status() == 200),
            Err(error) => assert!(error.is_go_away() || error.is_reset(), "{error}"),
        }
    }
    connection.abort();
    answered
}

#[tokio::test]
async fn connections_are_retired_by_a_proxy_in_the_same_process_where_one_was_asked_for() {
    let retire =
        json!({"frames": {"rules": [{"at": "request", "when": {"nth": 3}, "do": [{"goaway": {"last": "previous"}}]}]}});
    let without = plain().await;
    let reply = without.http.api(Method::PUT, "/oncebox/faults", Some(retire.clone())).await;
    assert!(reply.error(400).contains("frames: nothing stands before this server"), "{reply:?}");

    let server = plain_with(|builder| builder.faults("{}")).await;
    assert_eq!(answered_on_one_connection(&server).await, 5);
    put(&server.http, retire).await;
    let told = server.http.api(Method::GET, "/oncebox/faults", None).await.json();
    assert_eq!(told["faults"]["frames"]["rules"][0]["at"], "request");
    // The third is refused, and the connection takes no more.
    assert_eq!(answered_on_one_connection(&server).await, 2);
    server.http.api(Method::DELETE, "/oncebox/faults", None).await;
    assert_eq!(answered_on_one_connection(&server).await, 5);
    let sandbox = server.sandbox().await;
    assert_eq!(sandbox.run("echo through").await.text(), "through\n");
}

#[tokio::test]
async fn a_fault_file_with_a_mistake_is_refused_whole_with_its_line() {
    for (document, words) in [
        (
            "{\n  \"rules\": [\n    {\"fault\": {\"cut\": {}}},\n    {\"on\": [\"creat\"], \"fault\": {\"cut\": {}}}\n  ]\n}",
            "line 4: rules[1].on[0]: \"creat\"",
        ),
        ("{\n  \"list_lag\": -1\n}", "line 2: list_lag: -1"),
        ("{\n  \"rules\": [\n    {\"fault\": {\"cutt\": {}}}]}", "line 3: rules[0].fault: unknown variant"),
        ("{\n\n \"frames\": {\"rules\": [{\"at\": \"never\"}]}}", "line 3: frames: "),
        ("{\"rules\": [{\"on\": [\"kill\"], \"fault\": {\"half_write\": {}}}]}", "half_write"),
    ] {
        let started = LocalServer::builder().helper(helper()).faults(document).start().await;
        let error = started.unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
}

#[tokio::test]
async fn effects_of_one_test_are_told_and_forgotten_alone() {
    let server = plain().await;
    let http = &server.http;
    for test in ["a", "a", "b"] {
        let headers = [("x-api-key", "any"), ("content-type", "application/json"), ("oncebox-test-id", test)];
        let reply = http.send(Method::POST, "/v2/sandboxes", &headers, base().unwrap().to_string()).await;
        assert_eq!(reply.status, 201);
    }
    let of = |path: &'static str| async move { http.api(Method::GET, path, None).await.json()["counts"].take() };
    assert_eq!(of("/oncebox/effects?test_id=a").await["createSandbox"], 2);
    assert_eq!(http.api(Method::DELETE, "/oncebox/effects?test_id=a", None).await.status, 204);
    assert_eq!(of("/oncebox/effects?test_id=a").await, json!({}));
    assert_eq!(of("/oncebox/effects").await["createSandbox"], 1);
    http.api(Method::GET, "/oncebox/effects?tset=a", None).await.error(400);
}
