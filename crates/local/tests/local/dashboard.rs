//! The page at `/`.

use std::process::Command;

use http::Method;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::support::{Fixture, plain, plain_with, shell};

async fn page(server: &Fixture, headers: &[(&str, &str)]) -> (u16, String) {
    let reply = server.http.send(Method::GET, "/", headers, "").await;
    (reply.status.as_u16(), String::from_utf8(reply.body.to_vec()).unwrap())
}

#[tokio::test]
async fn it_shows_sandboxes_commands_effects_faults_and_attempts() {
    let server = plain().await;
    let (status, text) = page(&server, &[]).await;
    assert!(status == 200 && text.contains("Nobody has asked for anything."), "{text}");
    let rules = json!({"rules": [{"on": ["create"], "times": 1, "fault": {"cut": {"when": "after"}}}]});
    server.http.api(Method::PUT, "/oncebox/faults", Some(rules)).await;
    let create = || {
        let body = json!({"templateID": "base", "metadata": {"oncebox.intent": "abc"}});
        server.http.try_api(Method::POST, "/v2/sandboxes", Some(body))
    };
    assert!(create().await.is_none());
    assert_eq!(create().await.unwrap().status, 201);
    let sandbox = server.sandbox().await;
    // What a program is called must not become markup.
    let (_, _running) = sandbox.start(shell("sleep 60 # <script>alert(1)</script>"), &[]).await;
    let (_, text) = page(&server, &[]).await;
    assert!(text.contains(&sandbox.id) && text.contains("&lt;script&gt;alert(1)&lt;/script&gt;"), "{text}");
    assert!(!text.contains("<script>alert"));
    assert!(text.contains("2 attempts in") && text.contains("attempt 1: cut"), "{text}");
    assert!(text.contains("<code>abc</code> made 2 sandboxes"), "{text}");
    assert!(text.contains("<b>1</b>creates doubled"), "{text}");
}

#[tokio::test]
async fn it_is_for_whoever_has_the_token_and_for_no_other_page() {
    let server = plain_with(|builder| builder.token("0123456789abcdef")).await;
    let reply = server.http.send(Method::GET, "/", &[], "").await;
    assert_eq!(
        (reply.status.as_u16(), &reply.headers["www-authenticate"]),
        (401, &"Basic realm=\"oncebox\"".parse().unwrap())
    );
    // printf ':0123456789abcdef' | base64
    for credentials in [("authorization", "Basic OjAxMjM0NTY3ODlhYmNkZWY="), ("x-api-key", "0123456789abcdef")] {
        assert_eq!(page(&server, &[credentials]).await.0, 200);
    }
    assert_eq!(page(&server, &[("authorization", "Basic Ondyb25n")]).await.0, 401);
    let server = plain().await;
    assert_eq!(page(&server, &[("origin", "https://elsewhere.example")]).await.0, 403);
    let reply = server.http.send(Method::GET, "/", &[], "").await;
    let policy = reply.headers["content-security-policy"].to_str().unwrap();
    assert!(policy.contains("default-src 'none'") && policy.contains("frame-ancestors 'none'"), "{policy}");
}

/// What a browser makes of the page at this URL in three and a half of its seconds, and what it has to say of it.
async fn in_a_browser(test: &str, url: String) -> Option<(String, String)> {
    let Some(chromium) =
        ["/usr/bin/chromium", "/usr/bin/chromium-browser"].into_iter().find(|at| std::path::Path::new(at).exists())
    else {
        println!("SKIP {test}: there is no Chromium");
        return None;
    };
    let profile = tempfile::tempdir().unwrap();
    let shot = tokio::task::spawn_blocking(move || {
        Command::new(chromium)
            .args([
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--dump-dom",
                "--virtual-time-budget=3500",
                "--enable-logging=stderr",
            ])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .arg(url)
            .output()
            .unwrap()
    });
    let shot = shot.await.unwrap();
    Some((String::from_utf8_lossy(&shot.stdout).into_owned(), String::from_utf8_lossy(&shot.stderr).into_owned()))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_browser_shows_it_and_keeps_its_policy() {
    let server = plain().await;
    let sandbox = server.sandbox().await;
    let Some((dom, log)) = in_a_browser("a_browser_shows_it_and_keeps_its_policy", server.server.url()).await else {
        return;
    };
    assert!(dom.contains(&sandbox.id), "{dom}{log}");
    assert!(!log.contains("Content Security Policy") && !log.contains("Uncaught"), "{log}");
}

/// The page that a browser has loaded shows what happens after: between its first look and its second one a sandbox is made.
#[tokio::test(flavor = "multi_thread")]
async fn a_browser_shows_what_happens_while_it_looks() {
    let server = plain().await;
    let relay = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", relay.local_addr().unwrap());
    let behind = server.server.url().trim_start_matches("http://").to_owned();
    let (mut looks, mut made) = (0, None);
    let passing = async {
        loop {
            let (mut socket, _) = relay.accept().await.unwrap();
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                if socket.read_buf(&mut head).await.unwrap_or(0) == 0 {
                    break;
                }
            }
            looks += usize::from(head.starts_with(b"GET / "));
            if looks == 2 && made.is_none() {
                made = Some(server.sandbox().await.id.clone());
            }
            // One request a connection: the next one comes by way of this loop.
            let head = String::from_utf8_lossy(&head).replace("keep-alive", "close");
            let mut there = TcpStream::connect(&behind).await.unwrap();
            there.write_all(head.as_bytes()).await.unwrap();
            let mut answer = Vec::new();
            there.read_to_end(&mut answer).await.unwrap();
            let _ = socket.write_all(&answer).await;
        }
    };
    let browsing = in_a_browser("a_browser_shows_what_happens_while_it_looks", url);
    let shown = tokio::select! {
        shown = browsing => shown,
        () = passing => unreachable!(),
    };
    let Some((dom, log)) = shown else { return };
    let made = made.expect("the page was asked for a second time");
    assert!(dom.contains(&made), "{dom}{log}");
}
