//! The page at `/`.

use std::process::Command;

use http::Method;
use serde_json::json;

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

#[tokio::test(flavor = "multi_thread")]
async fn a_browser_shows_it_and_keeps_its_policy() {
    let Some(chromium) =
        ["/usr/bin/chromium", "/usr/bin/chromium-browser"].into_iter().find(|at| std::path::Path::new(at).exists())
    else {
        println!("SKIP a_browser_shows_it_and_keeps_its_policy: there is no Chromium");
        return;
    };
    let server = plain().await;
    let sandbox = server.sandbox().await;
    let (url, profile) = (server.server.url(), tempfile::tempdir().unwrap());
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
    let (dom, log) = (String::from_utf8_lossy(&shot.stdout), String::from_utf8_lossy(&shot.stderr));
    assert!(dom.contains(&sandbox.id), "{dom}{log}");
    assert!(!log.contains("Content Security Policy") && !log.contains("Uncaught"), "{log}");
}
