//! The way to the servers: proxies, TLS, limits of phases, connections of their own for files; and what requests carry.
#![allow(clippy::unwrap_used)] // A test panics when it fails.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use oncebox::{CallOptions, Client, ClientBuilder, Error, ErrorKind, HttpVersion, Proxy, Sandbox, transport};
use oncebox_faults::{Answer, Script};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

/// A server that answers every request with a sandbox, and keeps the heads that it got.
struct Server {
    url: String,
    heads: Arc<Mutex<Vec<String>>>,
}

const SANDBOX: &str = r#"{"templateID":"base","sandboxID":"i1","clientID":"c","envdVersion":"0.6.13","envdAccessToken":"inside","volumeID":"v1","name":"v","token":"volume"}"#;

impl Server {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let heads = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&heads);
        tokio::spawn(async move {
            loop {
                let (mut socket, _) = listener.accept().await.unwrap();
                let kept = Arc::clone(&kept);
                tokio::spawn(async move {
                    let mut seen = Vec::new();
                    while !seen.windows(4).any(|w| w == b"\r\n\r\n") {
                        if socket.read_buf(&mut seen).await.unwrap_or(0) == 0 {
                            return;
                        }
                    }
                    let text = String::from_utf8_lossy(&seen).to_lowercase();
                    kept.lock().unwrap().push(text.split("\r\n\r\n").next().unwrap().to_owned());
                    let length = SANDBOX.len();
                    let answer =
                        format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{SANDBOX}");
                    let _ = socket.write_all(answer.as_bytes()).await;
                    let _ = socket.shutdown().await;
                    let _ = socket.read_to_end(&mut seen).await;
                });
            }
        });
        Self { url, heads }
    }

    /// The last request to a path.
    fn head(&self, path: &str) -> String {
        let heads = self.heads.lock().unwrap();
        let found = heads.iter().rfind(|head| head.lines().next().is_some_and(|line| line.contains(path)));
        found.unwrap_or_else(|| panic!("{path} is not in {heads:#?}")).clone()
    }
}

fn at(url: &str) -> ClientBuilder {
    Client::builder().api_key("k3y").api_url(url).sandbox_url(url).retries(0).connection_retries(0)
}

/// What an error says of why no request arrived.
fn not_sent(result: Result<Sandbox, Error>) -> String {
    let error = result.unwrap_err();
    assert!(!error.may_have_been_processed(), "{error}");
    error.to_string()
}

#[tokio::test]
async fn headers_of_a_call_reach_the_sandbox_and_the_key_does_not() {
    let server = Server::start().await;
    let client = at(&server.url).header("x-all", "1").api_header("x-api", "1").build().unwrap();
    let sandbox = Sandbox::create(&client).await.unwrap();
    let options = CallOptions::new().header("x-all", "2").header("x-access-token", "mine").api_header("x-api", "2");
    let sandbox = sandbox.with(options.api_key("other")).unwrap();
    let _ = sandbox.info().await;
    let _ = sandbox.files().read("a").await;
    let _ = sandbox.files().exists("a").await;
    let head = server.head("/v2/sandboxes");
    assert!(head.contains("x-all: 1") && head.contains("x-api: 1") && head.contains("x-api-key: k3y"), "{head}");
    let head = server.head("get /sandboxes/i1 ");
    assert!(head.contains("x-all: 2") && head.contains("x-api: 2") && head.contains("x-api-key: other"), "{head}");
    for path in ["/files", "/filesystem.filesystem/stat"] {
        let head = server.head(path);
        assert!(head.contains("x-all: 2") && !head.contains("x-all: 1"), "{head}");
        // What runs in there sees neither; and what routes and lets in is not the caller's to replace.
        assert!(!head.contains("x-api") && !head.contains("k3y") && !head.contains("other"), "{head}");
        assert!(head.contains("x-access-token: inside") && !head.contains("mine"), "{head}");
    }
}

#[tokio::test]
async fn headers_for_all_requests_are_in_those_of_code_and_of_volumes_too() {
    let server = Server::start().await;
    let client = at(&server.url).volume_api_url(&server.url).header("x-all", "1").header("authorization", "mine");
    let client = client.header("user-agent", "mine").header("x-access-token", "mine").api_header("x-api", "1");
    let client = client.build().unwrap();
    let sandbox = Sandbox::create(&client).await.unwrap();
    let _ = sandbox.run_code("1").await;
    let _ = sandbox.list_code_contexts().await;
    let volume = oncebox::Volume::connect(&client, "v1").await.unwrap();
    let _ = volume.entry("a").await;
    let _ = volume.write_file("a", "b").await;
    for (path, own) in [
        ("/execute", "x-access-token: inside"),
        ("/contexts", "x-access-token: inside"),
        ("get /volumecontent/v1/path", "authorization: bearer volume"),
        ("put /volumecontent/v1/file", "authorization: bearer volume"),
    ] {
        let head = server.head(path);
        assert!(head.contains("x-all: 1") && head.contains(own) && head.contains("user-agent: oncebox"), "{head}");
        assert!(
            !head.contains("x-api") && !head.contains(&own.replace("inside", "mine").replace("bearer volume", "mine")),
            "{head}"
        );
    }
}

#[tokio::test]
async fn options_of_a_call_are_those_of_calls_to_the_sandbox_too() {
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let server = Server::start().await;
    let shut = format!("http://{}", nobody.local_addr().unwrap());
    let client = at(&server.url).sandbox_url(&shut).connection_retries(1).build().unwrap();
    let sandbox = Sandbox::create(&client).await.unwrap();
    drop(nobody);
    for (options, attempts) in [(CallOptions::new().connection_retries(0), 1), (CallOptions::new(), 2)] {
        let sandbox = sandbox.with(options).unwrap();
        for error in [sandbox.files().read("a").await.unwrap_err(), sandbox.files().exists("a").await.unwrap_err()] {
            assert_eq!(error.attempts().len(), attempts, "{error}");
        }
    }
}

#[tokio::test]
async fn requests_go_through_the_proxy_that_was_given() {
    let proxy = Server::start().await;
    let through = Proxy::new(&proxy.url).unwrap().credentials("me", "secret").unwrap();
    let through = through.header("x-proxy".parse().unwrap(), "yes".parse().unwrap());
    let client = at("http://sandboxes.test").proxy(through.except("127.0.0.1")).build().unwrap();
    Sandbox::create(&client).await.unwrap();
    let head = proxy.head("http://sandboxes.test/v2/sandboxes");
    assert!(head.contains("proxy-authorization: basic ") && head.contains("x-proxy: yes"), "{head}");

    let server = Server::start().await;
    let dead = Proxy::new("http://127.0.0.1:1").unwrap();
    for direct in [at(&server.url).proxy(dead.clone().except("127.0.0.1")), at(&server.url).proxy(dead).no_proxy()] {
        Sandbox::create(&direct.build().unwrap()).await.unwrap();
    }
}

#[tokio::test]
async fn a_private_authority_is_trusted_when_it_is_given_and_anybody_when_that_is_asked_for() {
    let answer = Answer::status(201).text(SANDBOX).header("content-type", "application/json");
    let server = oncebox_faults::Server::builder(Script::new().answer(answer)).tls().start().await.unwrap();
    let url = server.url("");
    let text = not_sent(Sandbox::create(&at(&url).build().unwrap()).await);
    assert!(text.contains("certificate"), "{text}");
    for trusting in [
        at(&url).root_certificates(server.ca_pem().unwrap()),
        at(&url).danger_accept_invalid_certificates(true),
        // ALPN is what chooses, unless it is said.
        at(&url).root_certificates(server.ca_pem().unwrap()).http_version(HttpVersion::Http1),
    ] {
        Sandbox::create(&trusting.build().unwrap()).await.unwrap();
    }
}

#[tokio::test]
async fn a_limit_names_its_phase_and_its_option() {
    // It takes connections, and says nothing.
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = silent.local_addr().unwrap();
    let soon = Duration::from_millis(50);
    let tls = at(&format!("https://{address}")).tls_timeout(soon);
    let tunnel = Proxy::new(&format!("http://{address}")).unwrap();
    let tunnel = at("https://sandboxes.test").proxy(tunnel).proxy_timeout(soon);
    for (client, option) in [(tls, "tls_timeout"), (tunnel, "proxy_timeout")] {
        let text = not_sent(Sandbox::create(&client.build().unwrap()).await);
        assert!(text.contains(option) && text.contains("50ms"), "{text}");
    }
    let resolver = transport::Client::builder().no_proxy().resolver(Nowhere);
    let client = at("http://sandboxes.test").transport(resolver).dns_timeout(soon);
    let text = not_sent(Sandbox::create(&client.build().unwrap()).await);
    assert!(text.contains("dns_timeout") && text.contains("50ms"), "{text}");
}

struct Nowhere;

impl transport::Resolve for Nowhere {
    fn resolve(&self, _: &str) -> transport::Resolving {
        Box::pin(std::future::pending())
    }
}

#[test]
fn options_that_make_no_sense_are_refused_before_anything_is_sent() {
    for (client, words) in [
        (at("http://h").root_certificates("no certificate"), "root_certificates"),
        (at("http://h").client_certificate("none", "none"), "client_certificate: "),
        (at("http://h").max_connections(0), "max_connections: 0"),
        (at("http://h").header("a b", "c"), "header: \"a b\""),
    ] {
        let error = client.build().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(error.to_string().contains(words), "{error}");
    }
}

#[tokio::test]
async fn files_are_carried_on_connections_of_their_own() {
    let answer = Answer::status(200).text(SANDBOX).header("content-type", "application/json");
    let server = oncebox_faults::Server::builder(Script::new().answer(answer)).start().await.unwrap();
    let client = at(&server.url("")).http_version(HttpVersion::Http2).build().unwrap();
    let sandbox = Sandbox::create(&client).await.unwrap();
    sandbox.files().read("a").await.unwrap();
    let _ = sandbox.files().write("a", "b").await;
    let _ = sandbox.files().exists("a").await;
    let tries = server.log().all_tries();
    let on = |path: &str| {
        let found = tries.iter().rfind(|a_try| a_try.path.starts_with(path));
        found.unwrap_or_else(|| panic!("{path} is not in {tries:#?}")).connection
    };
    assert_eq!(on("/v2/sandboxes"), on("/filesystem.Filesystem/Stat"));
    assert_ne!(on("/files?"), on("/v2/sandboxes"));
}
