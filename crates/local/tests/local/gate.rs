//! Who may speak to the server at all.

use http::Method;

use super::support::{isolated, isolated_with, plain};

const CREATE: &str = r#"{"templateID":"base"}"#;

#[tokio::test]
async fn a_page_of_another_origin_cannot_create_a_sandbox() {
    let server = plain().await;
    let http = &server.http;
    for origin in ["https://evil.example", "null", "http://127.0.0.1:1", "http://localhost"] {
        let headers = [("x-api-key", "k"), ("origin", origin)];
        http.send(Method::POST, "/v2/sandboxes", &headers, CREATE).await.error(403);
        // What a page can send without asking first.
        let simple = [("content-type", "text/plain"), ("origin", origin)];
        http.send(Method::POST, "/v2/sandboxes", &simple, CREATE).await.error(403);
        let preflight = [("access-control-request-method", "POST"), ("origin", origin)];
        let reply = http.send(Method::OPTIONS, "/v2/sandboxes", &preflight, "").await;
        assert!(reply.error(403).contains("allow_origin"));
        assert!(!reply.headers.contains_key("access-control-allow-origin"));
    }
    assert_eq!(http.api(Method::GET, "/v2/sandboxes", None).await.body, "[]");
}

#[tokio::test]
async fn a_foreign_host_is_refused_over_both_http_versions() {
    let server = plain().await;
    let headers = |host| [("x-api-key", "k"), ("host", host)];
    for host in ["evil.example", "127.0.0.1.nip.io", "rebound.example:80", ""] {
        let reply = server.http.send(Method::POST, "/v2/sandboxes", &headers(host), CREATE).await;
        assert_eq!(reply.status, 403, "{host}");
        let signed = server.http.send(Method::GET, "/files?path=x&signature=v1_x", &headers(host), "").await;
        assert_eq!(signed.status, 403, "{host}");
    }
    let reply = server.http.send(Method::GET, "/v2/sandboxes", &headers("localhost:1"), "").await;
    assert_eq!(reply.status, 200);
    assert_eq!(server.http.h2c().api(Method::GET, "/v2/sandboxes", None).await.status, 200);
}

#[tokio::test]
async fn an_allowed_origin_is_let_in_and_told_so() {
    let test = "an_allowed_origin_is_let_in_and_told_so";
    let allow = |builder: oncebox_local::LocalServerBuilder| builder.allow_origin("http://localhost:5173");
    let Some(server) = isolated_with(test, allow).await else { return };
    let origin = ("origin", "http://localhost:5173");
    let preflight =
        [origin, ("access-control-request-method", "POST"), ("access-control-request-headers", "x-api-key")];
    let reply = server.http.send(Method::OPTIONS, "/v2/sandboxes", &preflight, "").await;
    assert_eq!(reply.status, 204);
    assert_eq!(reply.headers["access-control-allow-origin"], "http://localhost:5173");
    assert_eq!(reply.headers["access-control-allow-headers"], "x-api-key");
    let reply = server.http.send(Method::POST, "/v2/sandboxes", &[origin, ("x-api-key", "k")], CREATE).await;
    assert_eq!(reply.status, 201);
    assert_eq!(reply.headers["access-control-allow-origin"], "http://localhost:5173");
    server.http.send(Method::GET, "/v2/sandboxes", &[("origin", "http://localhost:5174")], "").await.error(403);
}

#[tokio::test]
async fn a_sandbox_is_reached_by_its_label() {
    let Some(server) = isolated("a_sandbox_is_reached_by_its_label").await else { return };
    let sandbox = server.sandbox().await;
    sandbox.write("x", "by label").await;
    let host = format!("49983-{}.localhost:{}", sandbox.id, server.server.addr().port());
    let headers = [("host", host.as_str()), ("x-access-token", &sandbox.token)];
    assert_eq!(server.http.send(Method::GET, "/files?path=x", &headers, "").await.body, "by label");

    let host = format!("3000-{}.localhost", sandbox.id);
    let reply = server.http.send(Method::GET, "/", &[("host", host.as_str())], "").await;
    assert_eq!(reply.error(502), "The sandbox is running but port is not open");
    assert_eq!(reply.json()["sandboxId"], sandbox.id.as_str());
    assert_eq!(reply.json()["port"], 3000);
    let host = "49983-inone.localhost";
    let reply = server.http.send(Method::GET, "/health", &[("host", host)], "").await;
    assert_eq!(reply.error(502), "The sandbox was not found");
}

#[tokio::test]
async fn an_allowed_origin_that_is_none_is_refused_at_the_start() {
    for origin in ["*", "null", "localhost:5173", "http://localhost:5173/", "http://LOCALHOST"] {
        let started = oncebox_local::LocalServer::builder().allow_origin(origin).start().await;
        match started {
            Err(error @ oncebox_local::StartError::Origin { .. }) => {
                let error = error.to_string();
                assert!(error.contains(&format!("'{origin}'")) && error.contains("allow_origin"), "{error}");
            }
            other => panic!("{origin}: {other:?}"),
        }
    }
}

#[tokio::test]
async fn a_thousand_idle_connections_do_not_stop_the_server() {
    // Each takes two descriptors of this process, in which other tests run too.
    let files = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    if files.is_some_and(|most| most < 4096) {
        println!("SKIP a_thousand_idle_connections_do_not_stop_the_server: `ulimit -n` is less than 4096");
        return;
    }
    let server = plain().await;
    let addr = server.server.addr();
    let mut idle = Vec::new();
    for number in 0..1100 {
        let Ok(connection) = std::net::TcpStream::connect(addr) else { break };
        // Some have sent nothing, some a part of a head.
        if number % 2 == 0 {
            let _ = std::io::Write::write_all(&mut &connection, b"GET / HTTP/1.1\r\n");
        }
        idle.push(connection);
        tokio::task::yield_now().await;
    }
    assert!(idle.len() > 1024, "{} connections", idle.len());
    let listed = server.http.api(Method::GET, "/v2/sandboxes", None);
    let reply = tokio::time::timeout(std::time::Duration::from_secs(40), listed).await;
    assert_eq!(reply.unwrap().status, 200);
}
