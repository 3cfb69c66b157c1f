//! Secrets, keys, teams, volumes, webhooks, metrics, logs and events.

use std::time::Duration;

use http::Method;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::support::{Fixture, Reply, isolated, plain};

async fn api(server: &Fixture, method: Method, path: &str, body: Value) -> Reply {
    server.http.api(method, path, (!body.is_null()).then_some(body)).await
}

#[tokio::test]
async fn secrets_are_set_and_never_told() {
    let server = plain().await;
    let made = api(
        &server,
        Method::POST,
        "/secrets",
        json!({ "name": "My-Key", "value": "s3cret", "metadata": { "a": "b" } }),
    )
    .await;
    assert_eq!(made.status, 201);
    let (secret, id) = (made.json(), made.json()["secretID"].as_str().unwrap().to_owned());
    assert_eq!((secret["name"].as_str(), secret["currentVersion"].as_i64()), (Some("my-key"), Some(1)));
    api(&server, Method::POST, "/secrets", json!({ "name": "MY-KEY", "value": "x" })).await.error(409);
    let updated = api(&server, Method::POST, "/secrets/my-key", json!({ "value": "0ther" })).await.json();
    assert_eq!((updated["currentVersion"].as_i64(), &updated["metadata"]), (Some(2), &json!({ "a": "b" })));
    for path in ["/secrets".to_owned(), format!("/secrets/{id}"), "/secrets/my-key".to_owned()] {
        let told = api(&server, Method::GET, &path, Value::Null).await;
        assert!(told.status == 200 && !String::from_utf8_lossy(&told.body).contains("0ther"));
    }
    for bad in [
        json!({ "name": "a b", "value": "x" }),
        json!({ "name": "", "value": "x" }),
        json!({ "name": "x", "value": "" }),
    ] {
        api(&server, Method::POST, "/secrets", bad).await.error(400);
    }
    assert_eq!(api(&server, Method::DELETE, &format!("/secrets/{id}"), Value::Null).await.status, 204);
    api(&server, Method::DELETE, &format!("/secrets/{id}"), Value::Null).await.error(404);
}

#[tokio::test]
async fn keys_tokens_and_the_team() {
    let server = plain().await;
    let made = api(&server, Method::POST, "/api-keys", json!({ "name": "ci" })).await.json();
    assert!(made["key"].as_str().unwrap().starts_with("e2b_"));
    let path = format!("/api-keys/{}", made["id"].as_str().unwrap());
    assert_eq!(api(&server, Method::PATCH, &path, json!({ "name": "renamed" })).await.status, 200);
    let list = api(&server, Method::GET, "/api-keys", Value::Null).await;
    assert_eq!(list.json()[0]["name"], "renamed");
    assert!(!String::from_utf8_lossy(&list.body).contains(made["key"].as_str().unwrap()));
    assert_eq!(api(&server, Method::DELETE, &path, Value::Null).await.status, 204);
    api(&server, Method::DELETE, &path, Value::Null).await.error(404);
    let token = api(&server, Method::POST, "/access-tokens", json!({ "name": "me" })).await.json();
    let path = format!("/access-tokens/{}", token["id"].as_str().unwrap());
    assert_eq!(api(&server, Method::DELETE, &path, Value::Null).await.status, 204);
    let teams = server.http.send(Method::GET, "/teams", &[("authorization", "Bearer token")], "").await.json();
    let team = teams[0]["teamID"].as_str().unwrap();
    let metrics = api(&server, Method::GET, &format!("/teams/{team}/metrics"), Value::Null).await.json();
    assert_eq!(metrics[0]["concurrentSandboxes"], 0);
    let max = format!("/teams/{team}/metrics/max?metric=concurrent_sandboxes");
    assert_eq!(api(&server, Method::GET, &max, Value::Null).await.json()["value"], 0.0);
    api(&server, Method::GET, "/teams/other/metrics", Value::Null).await.error(404);
}

#[tokio::test]
async fn volumes_are_shared_by_sandboxes_and_reached_from_outside() {
    let Some(server) = isolated("volumes_are_shared_by_sandboxes_and_reached_from_outside").await else { return };
    let made = api(&server, Method::POST, "/volumes", json!({ "name": "data" })).await;
    assert_eq!(made.status, 201);
    let (id, token) =
        (made.json()["volumeID"].as_str().unwrap().to_owned(), made.json()["token"].as_str().unwrap().to_owned());
    api(&server, Method::POST, "/volumes", json!({ "name": "data" })).await.error(400);
    assert_eq!(
        api(&server, Method::GET, "/volumes", Value::Null).await.json(),
        json!([{ "volumeID": id, "name": "data" }])
    );

    let bearer = format!("Bearer {token}");
    let content = |method: Method, what: &str, body: &str| {
        let (path, body, bearer) = (format!("/volumecontent/{id}/{what}"), body.to_owned(), bearer.clone());
        let http = server.http.clone();
        async move { http.send(method, &path, &[("authorization", &bearer)], body).await }
    };
    assert_eq!(content(Method::PUT, "file?path=/a/b.txt", "x").await.status, 404);
    let written = content(Method::PUT, "file?path=/a/b.txt&force=true&uid=1000", "from outside").await;
    assert_eq!((written.status.as_u16(), written.json()["uid"].as_u64()), (201, Some(1000)));

    let create = json!({ "templateID": "base", "volumeMounts": [{ "name": "data", "path": "/mnt/data" }] });
    let (one, other) = (server.http.create(create.clone()).await, server.http.create(create).await);
    assert_eq!(
        one.run("cat /mnt/data/a/b.txt; echo from one > /mnt/data/one; ln -s /etc/passwd /mnt/data/link").await.text(),
        "from outside"
    );
    assert_eq!(other.run("cat /mnt/data/one").await.text(), "from one\n");
    assert_eq!(content(Method::GET, "file?path=one", "").await.body, "from one\n");
    content(Method::GET, "file?path=link", "").await;
    assert_eq!(content(Method::GET, "file?path=link", "").await.json()["code"], "not_found", "links stay inside");
    let list = content(Method::GET, "dir?path=/&depth=2", "").await.json();
    let paths: Vec<_> = list.as_array().unwrap().iter().map(|entry| entry["path"].as_str().unwrap()).collect();
    assert_eq!(paths, ["/a", "/a/b.txt", "/link", "/one"]);
    assert_eq!(content(Method::POST, "dir?path=/new&mode=448", "").await.json()["mode"], 0o700);
    assert_eq!(content(Method::POST, "dir?path=/new", "").await.json()["code"], "already_exists");
    let body = json!({ "mode": 0o640 }).to_string();
    assert_eq!(content(Method::PATCH, "path?path=/one", &body).await.json()["mode"], 0o640);
    assert_eq!(content(Method::DELETE, "path?path=/a", "").await.status, 204);
    let large = "x".repeat(5 << 20);
    assert_eq!(content(Method::PUT, "file?path=/large", &large).await.json()["size"], 5 << 20);
    assert_eq!(content(Method::GET, "file?path=/large", "").await.body.len(), 5 << 20);
    assert_eq!(content(Method::GET, "path?path=/a", "").await.status, 404);

    let info = api(&server, Method::GET, &format!("/sandboxes/{}", one.id), Value::Null).await.json();
    assert_eq!(info["volumeMounts"], json!([{ "name": "data", "path": "/mnt/data" }]));
    api(&server, Method::DELETE, &format!("/volumes/{id}"), Value::Null).await.error(409);
    for sandbox in [&one, &other] {
        api(&server, Method::DELETE, &format!("/sandboxes/{}", sandbox.id), Value::Null).await;
    }
    assert_eq!(content(Method::GET, "file?path=one", "").await.body, "from one\n", "it outlives sandboxes");
    let unknown = server.http.send(Method::GET, &format!("/volumecontent/{id}/path?path=/"), &[], "").await;
    assert_eq!((unknown.status.as_u16(), unknown.json()["code"].as_str()), (401, Some("unauthorized")));
    assert_eq!(api(&server, Method::DELETE, &format!("/volumes/{id}"), Value::Null).await.status, 204);
    api(&server, Method::GET, &format!("/volumes/{id}"), Value::Null).await.error(404);
    let bad = json!({ "templateID": "base", "volumeMounts": [{ "name": "data", "path": "/mnt/data" }] });
    api(&server, Method::POST, "/v2/sandboxes", bad).await.error(404);
}

/// Answers one request with 200 and returns its head and body.
async fn listen_once(listener: &tokio::net::TcpListener) -> (String, Value) {
    let (mut connection, _) = listener.accept().await.unwrap();
    let mut bytes = Vec::new();
    loop {
        let mut buffer = [0; 4096];
        let read = connection.read(&mut buffer).await.unwrap();
        bytes.extend_from_slice(&buffer[..read]);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n")
            && let Ok(json) = serde_json::from_str(body)
        {
            connection.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await.unwrap();
            return (head.to_ascii_lowercase(), json);
        }
    }
}

#[tokio::test]
async fn events_are_listed_and_delivered() {
    let Some(server) = isolated("events_are_listed_and_delivered").await else { return };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/hook", listener.local_addr().unwrap());
    let hook = json!({ "name": "h", "url": url, "events": ["sandbox.lifecycle.created", "sandbox.lifecycle.killed"], "signatureSecret": "s" });
    let made = api(&server, Method::POST, "/events/webhooks", hook).await;
    assert_eq!((made.status.as_u16(), made.json()["signatureSecret"].is_null()), (201, true));
    let id = made.json()["id"].as_str().unwrap().to_owned();
    let sandbox = server.sandbox().await;
    let (head, event) = listen_once(&listener).await;
    assert_eq!(
        (event["type"].as_str(), event["sandboxId"].as_str()),
        (Some("sandbox.lifecycle.created"), Some(sandbox.id.as_str()))
    );
    assert!(
        head.starts_with("post /hook ")
            && head.contains("e2b-signature: ")
            && head.contains(&format!("e2b-webhook-id: {id}"))
    );
    api(&server, Method::POST, &format!("/sandboxes/{}/pause", sandbox.id), json!({})).await;
    api(&server, Method::DELETE, &format!("/sandboxes/{}", sandbox.id), Value::Null).await;
    assert_eq!(listen_once(&listener).await.1["type"], "sandbox.lifecycle.killed");

    let list =
        api(&server, Method::GET, &format!("/events/sandboxes/{}?orderAsc=true", sandbox.id), Value::Null).await.json();
    let kinds: Vec<_> = list.as_array().unwrap().iter().map(|event| event["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["sandbox.lifecycle.created", "sandbox.lifecycle.paused", "sandbox.lifecycle.killed"]);
    let one =
        api(&server, Method::GET, "/events/sandboxes?types=sandbox.lifecycle.paused&limit=1", Value::Null).await.json();
    assert_eq!(one.as_array().unwrap().len(), 1);
    for _ in 0..200 {
        let stats = api(&server, Method::GET, &format!("/events/webhooks/{id}/stats"), Value::Null).await.json();
        if stats["success"] == 2 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let deliveries = api(&server, Method::GET, &format!("/events/webhooks/{id}/deliveries"), Value::Null).await.json();
    assert_eq!(deliveries.as_array().unwrap().len(), 2);
    let changed =
        api(&server, Method::PATCH, &format!("/events/webhooks/{id}"), json!({ "enabled": false })).await.json();
    assert_eq!(changed["enabled"], false);
    for bad in [
        json!({ "name": "h", "url": "https://a", "events": ["sandbox.lifecycle.created"] }),
        json!({ "name": "h", "url": "http://a", "events": ["x"] }),
    ] {
        api(&server, Method::POST, "/events/webhooks", bad).await.error(400);
    }
    assert_eq!(api(&server, Method::DELETE, &format!("/events/webhooks/{id}"), Value::Null).await.status, 200);
}

#[tokio::test]
async fn metrics_logs_refreshes_and_network() {
    let Some(server) = isolated("metrics_logs_refreshes_and_network").await else { return };
    let sandbox = server.sandbox().await;
    sandbox.run("true").await;
    let path = |what: &str| format!("/sandboxes/{}/{what}", sandbox.id);
    let metrics = api(&server, Method::GET, &path("metrics"), Value::Null).await.json();
    assert!(metrics[0]["memUsed"].as_i64().unwrap() > 0 && metrics[0]["diskTotal"].as_i64().unwrap() > 0);
    assert_eq!(api(&server, Method::GET, &path("metrics?start=1&end=2"), Value::Null).await.body, "[]");
    api(&server, Method::GET, &path("metrics?start=2&end=1"), Value::Null).await.error(400);
    let many = api(&server, Method::GET, &format!("/sandboxes/metrics?sandbox_ids={},inone", sandbox.id), Value::Null)
        .await
        .json();
    assert_eq!(many["sandboxes"].as_object().unwrap().len(), 1);

    let logs = api(&server, Method::GET, &format!("/v2{}", path("logs?search=processStart&level=debug")), Value::Null)
        .await
        .json();
    assert_eq!(logs["logs"][0]["message"], "processStart: 200");
    let v1 = api(&server, Method::GET, &path("logs?limit=1"), Value::Null).await.json();
    let line: Value = serde_json::from_str(v1["logs"][0]["line"].as_str().unwrap()).unwrap();
    assert_eq!(line["message"], "sandbox.lifecycle.created");

    assert_eq!(api(&server, Method::POST, &path("refreshes"), json!({ "duration": 3600 })).await.status, 204);
    api(&server, Method::POST, &path("refreshes"), json!({ "duration": 3601 })).await.error(400);
    let network = json!({ "allowOut": ["example.com"], "denyOut": ["0.0.0.0/0"], "allow_internet_access": false });
    assert_eq!(api(&server, Method::PUT, &path("network"), network).await.status, 204);
    let info = api(&server, Method::GET, &format!("/sandboxes/{}", sandbox.id), Value::Null).await.json();
    assert_eq!((&info["network"]["allowOut"], &info["allowInternetAccess"]), (&json!(["example.com"]), &json!(false)));
    assert_eq!(api(&server, Method::PUT, &path("network"), json!({})).await.status, 204);
    let info = api(&server, Method::GET, &format!("/sandboxes/{}", sandbox.id), Value::Null).await.json();
    assert!(info["network"]["allowOut"].is_null() && info["allowInternetAccess"].is_null(), "all of it is replaced");
    api(&server, Method::PUT, &path("network"), json!({ "allowOut": ["example.com"] })).await.error(400);
}

#[tokio::test]
async fn a_body_that_is_too_large_is_answered_and_not_reset() {
    let server = plain().await;
    for size in [2 << 20, 5 << 20, 20 << 20] {
        let body = vec![b'x'; size];
        let reply = server.http.send(Method::POST, "/v2/sandboxes", &[("x-api-key", "k")], body.clone()).await;
        assert!(reply.error(413).contains("larger than"), "{size}");
        server.http.send(Method::POST, "/nowhere", &[], body.clone()).await.error(401);
        server.http.send(Method::POST, "/v2/sandboxes", &[("origin", "http://evil.example")], body).await.error(403);
    }
}
