//! Who may speak to a server that lets other machines in, and what strangers may throw at it.

use std::net::Ipv4Addr;

use http::Method;
use oncebox_local::{Isolation, LocalServer, StartError};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::support::{Http, helper, plain};

const TOKEN: &str = "a-token-of-some-length";

#[tokio::test]
async fn a_server_that_lets_others_in_has_a_token() {
    let base = tempfile::tempdir().unwrap();
    let builder = || {
        let state = base.path().join("state");
        LocalServer::builder().helper(helper()).isolation(Isolation::None).state_base(state)
    };
    let refused = builder().listen(Ipv4Addr::UNSPECIFIED).start().await;
    assert!(matches!(refused, Err(StartError::TokenMissing { .. })), "{refused:?}");
    for token in ["short", "has a space in the middle"] {
        assert!(matches!(builder().token(token).start().await, Err(StartError::Token { .. })));
    }
    for name in ["", "A", "a b", "http://a", ".a"] {
        assert!(matches!(builder().allow_host(name).start().await, Err(StartError::Host { .. })), "{name}");
    }

    let server = builder().token(TOKEN).allow_host("box.internal").start().await.unwrap();
    let http = Http::new(server.url());
    let get = |path: &'static str, key: &'static str| {
        let http = http.clone();
        async move { http.send(Method::GET, path, &[("x-api-key", key)], "").await }
    };
    for path in ["/v2/sandboxes", "/teams", "/oncebox/effects", "/secrets"] {
        get(path, "any").await.error(401);
        get(path, "").await.error(401);
        assert_eq!(get(path, TOKEN).await.status, 200, "{path}");
    }
    let body = json!({ "name": "ci" }).to_string();
    let made = http.send(Method::POST, "/api-keys", &[("x-api-key", TOKEN)], body).await.json();
    let key = made["key"].as_str().unwrap();
    assert_eq!(http.send(Method::GET, "/v2/sandboxes", &[("x-api-key", key)], "").await.status, 200);
    assert_eq!(http.send(Method::GET, "/health", &[("host", "box.internal")], "").await.status, 204);
    http.send(Method::GET, "/health", &[("host", "evil.example")], "").await.error(403);
    server.stop().await;
}

/// Numbers that are the same in every run.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self, below: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % u64::try_from(below).unwrap()).unwrap()
    }

    fn pick<'t>(&mut self, from: &[&'t str]) -> &'t str {
        from[self.next(from.len())]
    }
}

/// Parts that paths and bodies are made of: what is expected, what is dangerous, and what is nonsense.
const PARTS: [&str; 26] = [
    "v2",
    "v3",
    "sandboxes",
    "templates",
    "volumes",
    "volumecontent",
    "secrets",
    "snapshots",
    "files",
    "events",
    "webhooks",
    "tags",
    "builds",
    "oncebox-uploads",
    "..",
    "%2e%2e",
    "%2f..%2f",
    "%00",
    "%ff",
    "iabc",
    "*",
    "base",
    "",
    "fork",
    "pause",
    "\u{7f}",
];
const VALUES: [&str; 14] = [
    "{}",
    "[]",
    "null",
    "{\"templateID\":\"../../etc\"}",
    "{\"name\":\"../x\"}",
    "{\"name\":\"a\",\"value\":\"b\"}",
    "{\"timeout\":-1}",
    "{\"timeout\":1e999}",
    "{\"count\":99999999999}",
    "{\"a\":",
    "\u{0}",
    "\"",
    "{\"steps\":[{\"type\":\"RUN\",\"args\":[\"x\"]}]}",
    "{\"memory\":\"x\"}",
];

#[tokio::test]
async fn no_path_method_or_body_stops_the_server() {
    let server = plain().await;
    let mut numbers = Numbers(0x9e37_79b9_7f4a_7c15);
    let methods =
        [Method::GET, Method::POST, Method::PUT, Method::PATCH, Method::DELETE, Method::HEAD, Method::OPTIONS];
    for round in 0..1500 {
        let length = 1 + numbers.next(5);
        let mut path: String = (0..length).map(|_| format!("/{}", numbers.pick(&PARTS))).collect();
        path.push_str(numbers.pick(&[
            "",
            "?path=/../../etc/passwd",
            "?limit=-1",
            "?nextToken=%ff",
            "?metadata=%25zz",
            "?token=x",
        ]));
        // What no client can send is not sent.
        if path.parse::<http::Uri>().is_err() || path.contains('\u{7f}') {
            continue;
        }
        let method = methods[numbers.next(methods.len())].clone();
        let headers = [("x-api-key", "k"), ("authorization", numbers.pick(&["Bearer x", "Basic Og==", ""]))];
        let reply = server.http.send(method.clone(), &path, &headers, numbers.pick(&VALUES)).await;
        assert!(!reply.status.is_server_error() || reply.status == 502, "{round}: {method} {path}: {reply:?}");
        if reply.status.is_client_error() && method != Method::HEAD {
            assert!(reply.json().is_object(), "{method} {path}: {reply:?}");
        }
        assert!(!String::from_utf8_lossy(&reply.body).contains("root:x:0"), "{method} {path}");
    }
    assert_eq!(server.http.api(Method::GET, "/v2/sandboxes", None).await.body, "[]");
}

#[tokio::test]
async fn smuggled_and_broken_heads_are_refused() {
    let server = plain().await;
    let heads = [
        "POST /v2/sandboxes HTTP/1.1\r\nhost: localhost\r\ncontent-length: 2\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\nGET /health HTTP/1.1\r\nhost: localhost\r\n\r\n",
        "POST /v2/sandboxes HTTP/1.1\r\nhost: localhost\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\n{}GET /",
        "POST /v2/sandboxes HTTP/1.1\r\nhost: localhost\r\ncontent-length: +2\r\n\r\n{}",
        "POST /v2/sandboxes HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: xchunked\r\n\r\n",
        "GET /health HTTP/1.1\r\nhost: localhost\r\nhost: localhost\r\n\r\n",
        "GET /health HTTP/1.1\r\n\r\n",
        "GET /health HTTP/1.1\r\nhost: evil.example\r\n\r\n",
        "GET http://evil.example/health HTTP/1.1\r\nhost: localhost\r\n\r\n",
        "GET /health HTTP/1.1\r\nhost : localhost\r\n\r\n",
        "GET /health\r\n\r\n",
        "\u{0}\u{1}\u{2}\r\n\r\n",
    ];
    for head in heads {
        let mut connection = TcpStream::connect(server.server.addr()).await.unwrap();
        connection.write_all(head.as_bytes()).await.unwrap();
        connection.shutdown().await.unwrap();
        let mut answer = Vec::new();
        // A reset is a refusal as well.
        let _ = connection.read_to_end(&mut answer).await;
        let answer = String::from_utf8_lossy(&answer).into_owned();
        assert!(!answer.contains("HTTP/1.1 2"), "{head:?}: {answer}");
        assert!(answer.matches("HTTP/1.1 ").count() <= 1, "{head:?} was taken for two requests: {answer}");
    }
    assert_eq!(server.http.send(Method::GET, "/health", &[], "").await.status, 204);
}
