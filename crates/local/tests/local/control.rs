//! The control plane.

use std::time::{Duration, Instant};

use http::Method;
use serde_json::{Value, json};

use super::support::{isolated, isolated_with, plain};

#[tokio::test]
async fn a_sandbox_lives_from_create_to_kill() {
    let Some(server) = isolated("a_sandbox_lives_from_create_to_kill").await else { return };
    let http = &server.http;
    let reply = http.api(Method::POST, "/v2/sandboxes", Some(json!({ "templateID": "base", "metadata": {} }))).await;
    assert_eq!(reply.status, 201);
    assert!(reply.headers.contains_key("date"));
    let made = reply.json();
    let id = made["sandboxID"].as_str().unwrap();
    assert!(id.len() == 21 && id.starts_with('i'), "{id}");
    assert_eq!((made["templateID"].as_str(), made["envdVersion"].as_str()), (Some("base"), Some("0.6.13")));
    assert!(made["clientID"].is_string());
    assert_eq!(made["domain"], format!("localhost:{}", server.server.addr().port()));

    let info = http.api(Method::GET, &format!("/sandboxes/{id}"), None).await.json();
    assert_eq!((info["state"].as_str(), info["sandboxID"].as_str()), (Some("running"), Some(id)));
    assert_eq!(info["envdAccessToken"], made["envdAccessToken"]);
    let seconds = lifetime(&info);
    assert!((299..=301).contains(&seconds), "{seconds}");

    let connect = format!("/v2/sandboxes/{id}/connect");
    let reply = http.api(Method::POST, &connect, Some(json!({ "timeout": 1000 }))).await;
    assert_eq!((reply.status.as_u16(), &reply.json()["envdAccessToken"]), (200, &made["envdAccessToken"]));
    // Connecting only ever prolongs.
    http.api(Method::POST, &connect, Some(json!({ "timeout": 10 }))).await;
    http.api(Method::POST, &connect, None).await;
    let info = http.api(Method::GET, &format!("/sandboxes/{id}-6532622b"), None).await.json();
    assert!((999..=1001).contains(&lifetime(&info)));

    let path = format!("/sandboxes/{id}");
    assert_eq!(http.api(Method::DELETE, &path, None).await.status, 204);
    http.api(Method::DELETE, &path, None).await.error(404);
    http.api(Method::GET, &path, None).await.error(404);
    http.api(Method::POST, &connect, None).await.error(404);
    http.api(Method::POST, &format!("{path}/timeout"), Some(json!({ "timeout": 1 }))).await.error(404);
    for path in ["/health", "/files?path=x", "/process.Process/List"] {
        let reply = http.send(Method::POST, path, &[("e2b-sandbox-id", id)], "{}").await;
        assert_eq!(reply.error(502), "The sandbox was not found");
        assert_eq!(reply.json(), json!({ "sandboxId": id, "message": "The sandbox was not found", "code": 502 }));
    }
}

/// Seconds between the start and the end that an answer tells.
fn lifetime(info: &Value) -> i64 {
    let time = |key: &str| info[key].as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
    time("endAt").duration_since(time("startedAt")).as_secs()
}

#[tokio::test]
async fn a_sandbox_ends_with_its_lifetime() {
    let Some(server) = isolated("a_sandbox_ends_with_its_lifetime").await else { return };
    let http = &server.http;
    let short = http.create(json!({ "templateID": "base", "timeout": 1 })).await;
    let (longer, cut) = (server.sandbox().await, server.sandbox().await);
    assert_eq!(short.run("echo alive").await.text(), "alive\n");
    let set = |id: &str, seconds: i64| {
        let path = format!("/sandboxes/{id}/timeout");
        async move { http.api(Method::POST, &path, Some(json!({ "timeout": seconds }))).await.status }
    };
    assert_eq!(set(&cut.id, 0).await, 204);
    assert_eq!(set(&longer.id, 1).await, 204);
    assert_eq!(set(&longer.id, 60).await, 204);
    tokio::time::sleep(Duration::from_millis(1500)).await;
    for (sandbox, status) in [(&short, 404), (&cut, 404), (&longer, 200)] {
        let reply = http.api(Method::GET, &format!("/sandboxes/{}", sandbox.id), None).await;
        assert_eq!(reply.status, status);
    }
    assert_eq!(short.send(Method::GET, "/health", &[], "").await.error(502), "The sandbox was not found");
}

#[tokio::test]
async fn a_stream_ends_when_its_sandbox_is_killed() {
    let Some(server) = isolated("a_stream_ends_when_its_sandbox_is_killed").await else { return };
    let sandbox = server.sandbox().await;
    let (_, mut events) = sandbox.start(super::support::shell("echo x; sleep 60"), &[]).await;
    events.next_output().await;
    let before = Instant::now();
    server.http.api(Method::DELETE, &format!("/sandboxes/{}", sandbox.id), None).await;
    // Cut, and not ended: nobody knows how the process would have ended.
    assert!(tokio::spawn(async move { while events.next().await.is_some() {} }).await.is_err());
    assert!(before.elapsed() < Duration::from_secs(5));
}

#[tokio::test]
async fn lists_are_filtered_ordered_and_paged() {
    let Some(server) = isolated("lists_are_filtered_ordered_and_paged").await else { return };
    let http = &server.http;
    let mut ids = Vec::new();
    for number in ["1", "2", "3", "4", "5"] {
        let metadata = json!({ "a b": "c&d", "number": number });
        ids.push(http.create(json!({ "templateID": "base", "metadata": metadata })).await.id);
    }
    let list = |query: &str| {
        let path = format!("/v2/sandboxes{query}");
        async move { http.api(Method::GET, &path, None).await }
    };
    let names = |reply: &Value| -> Vec<String> {
        reply.as_array().unwrap().iter().map(|one| one["sandboxID"].as_str().unwrap().to_owned()).collect()
    };
    let newest_first: Vec<String> = ids.iter().rev().cloned().collect();
    let all = list("").await;
    assert_eq!(names(&all.json()), newest_first);
    assert_eq!(all.headers["x-total-running"], "5");
    assert!(!all.headers.contains_key("x-next-token"));
    assert_eq!(names(&list("?order=asc").await.json()), ids);
    for (order, expected) in [("asc", &ids), ("desc", &newest_first)] {
        let (mut found, mut token) = (Vec::new(), String::new());
        loop {
            let page = list(&format!("?limit=2&order={order}&nextToken={token}")).await;
            found.extend(names(&page.json()));
            match page.headers.get("x-next-token") {
                Some(next) => next.to_str().unwrap().clone_into(&mut token),
                None => break,
            }
        }
        assert_eq!(&found, expected);
    }
    // Encoded three times, as the SDKs do.
    let one = list("?metadata=a%252520b%3Dc%252526d%26number%3D3").await.json();
    assert_eq!(names(&one), [ids[2].clone()]);
    assert_eq!(one[0]["metadata"]["a b"], "c&d");
    assert_eq!(names(&list("?metadata=number%3D9").await.json()), [""; 0]);
    assert_eq!(names(&list("?state=paused").await.json()), [""; 0]);
    assert_eq!(list("?state=running%2Cpaused").await.json().as_array().unwrap().len(), 5);
    assert_eq!(list("?template=base").await.json().as_array().unwrap().len(), 5);
    assert_eq!(http.api(Method::GET, "/sandboxes", None).await.json().as_array().unwrap().len(), 5);
    for bad in [
        "limit=0",
        "limit=101",
        "limit=x",
        "order=up",
        "state=dead",
        "nextToken=x",
        "metadata=%25ff%3D1",
        "template=a:b",
    ] {
        list(&format!("?{bad}")).await.error(400);
    }
}

#[tokio::test]
async fn bad_requests_are_answered_with_json() {
    let server = plain().await;
    let http = &server.http;
    let create = |body: &'static str| http.send(Method::POST, "/v2/sandboxes", &[("x-api-key", "k")], body);
    assert!(create(r#"{"templateID":"none"}"#).await.error(404).contains("'none' not found"));
    for body in ["", "{", "[]", "nonsense", r#"{"templateID":7}"#, r#"{"templateID":"base","timeout":"x"}"#] {
        create(body).await.error(400);
    }
    for timeout in [0, -1, i64::MAX] {
        let body = json!({ "templateID": "base", "timeout": timeout });
        assert!(http.api(Method::POST, "/v2/sandboxes", Some(body)).await.error(400).contains("timeout"));
    }
    for (key, value) in [
        ("autoPauseMemory", json!(false)),
        ("mcp", json!({})),
        ("network", json!({ "dnsServers": ["example.com"] })),
        ("volumeMounts", json!([{ "name": "v", "path": "/v" }])),
        ("allow_internet_access", json!(false)),
        ("envVars", json!({ "": "x" })),
        ("envVars", json!({ "A": "\u{0}" })),
    ] {
        let mut body = json!({ "templateID": "base" });
        body[key] = value;
        http.api(Method::POST, "/v2/sandboxes", Some(body)).await.error(400);
    }
    let large = format!("{{\"templateID\":\"{}\"}}", "x".repeat(2 << 20));
    http.send(Method::POST, "/v2/sandboxes", &[("x-api-key", "k")], large).await.error(413);
    http.send(Method::GET, "/v2/sandboxes", &[], "").await.error(401);
    http.send(Method::GET, "/v2/sandboxes", &[("x-api-key", "")], "").await.error(401);
    http.api(Method::GET, "/nowhere", None).await.error(404);
    http.api(Method::PUT, "/v2/sandboxes", None).await.error(405);
    http.api(Method::POST, "/v2/sandboxes/inone/connect", Some(json!({ "timeout": -1 }))).await.error(400);
    http.api(Method::GET, "/sandboxes/%ff", None).await.error(400);
    http.send(Method::GET, "/health", &[("e2b-sandbox-id", "../..")], "").await.error(400);
    assert_eq!(http.send(Method::GET, "/health", &[], "").await.status, 204);
    assert_eq!(http.api(Method::GET, "/v2/sandboxes", None).await.body, "[]", "none of these made anything");
}

#[tokio::test]
async fn sandboxes_are_bounded_and_v1_works() {
    let test = "sandboxes_are_bounded_and_v1_works";
    let Some(server) = isolated_with(test, |builder| builder.max_sandboxes(2)).await else { return };
    let http = server.http.h2c();
    let create = Some(json!({ "templateID": "base", "secure": true }));
    let reply = http.api(Method::POST, "/sandboxes", create.clone()).await;
    assert_eq!(reply.status, 201);
    assert!(reply.headers.contains_key("date"));
    let id = reply.json()["sandboxID"].as_str().unwrap().to_owned();
    let info = http.api(Method::GET, &format!("/sandboxes/{id}"), None).await.json();
    assert!((14..=16).contains(&lifetime(&info)));
    let connect = http.api(Method::POST, &format!("/sandboxes/{id}/connect"), Some(json!({ "timeout": 60 }))).await;
    assert_eq!(connect.status, 200);
    let _second = server.sandbox().await;
    assert!(http.api(Method::POST, "/sandboxes", create.clone()).await.error(429).contains("max_sandboxes"));
    http.api(Method::DELETE, &format!("/sandboxes/{id}"), None).await;
    assert_eq!(http.api(Method::POST, "/sandboxes", create).await.status, 201);
}
