//! What is secret is told nowhere: not in anything that is logged at TRACE, not in an error, not in the sandbox's list of
//! processes.
#![cfg(feature = "local")]
#![allow(clippy::unwrap_used)] // A test panics when it fails.

#[path = "git/server.rs"]
mod server;

use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};

use http::Request;
use oncebox::local::{Isolation, LocalServer};
use oncebox::{Client, Command, Error, Sandbox, Secret, Volume};
use serde_json::{Value, json};
use server::{GitServer, git_can_serve};

const FIRST: &str = "f1rst-s3cret-value";
const SECOND: &str = "s3cond-s3cret-value";
const PASSWORD: &str = "g1t-passw0rd";
const WRONG: &str = "wr0ng-passw0rd";
const OF_CODE: &str = "env-0f-code";
const API_KEY: &str = "the-4pi-key";

/// Everything that was logged.
#[derive(Clone, Default)]
struct Logged(Arc<Mutex<Vec<u8>>>);

impl Write for Logged {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// The error and its causes, as people and programs see them.
fn told(error: &Error) -> String {
    let mut text = format!("{error}\n{error:?}\n");
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        text += &format!("{cause}\n{cause:?}\n");
        source = cause.source();
    }
    text
}

/// Arguments and variables of all processes of this machine, which are the sandbox's too: it is not isolated.
fn processes() -> String {
    let mut all = String::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        for file in ["cmdline", "environ"] {
            all += &String::from_utf8_lossy(&std::fs::read(entry.path().join(file)).unwrap_or_default());
        }
    }
    all
}

async fn faults(url: &str, rules: Value) {
    let request = Request::put(format!("{url}/oncebox/faults")).header("x-api-key", API_KEY);
    let request = request.body(json!({ "rules": rules }).to_string().into()).unwrap();
    let options = oncebox_transport::CallOptions::new();
    let answer = oncebox_transport::Client::new().send_collected(request, options).await.unwrap();
    assert_eq!(answer.status(), 204);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn secrets_and_credentials_are_in_no_log_no_error_and_no_process() {
    if !git_can_serve("secrets_and_credentials_are_in_no_log_no_error_and_no_process") {
        return;
    }
    let logged = Logged::default();
    let writer = logged.clone();
    tracing_subscriber::fmt().with_max_level(tracing::Level::TRACE).with_writer(move || writer.clone()).init();
    let mut errors = String::new();
    let mut note = |error: Error| errors += &told(&error);

    let local = LocalServer::builder().isolation(Isolation::None).start().await.unwrap();
    let url = local.url();
    let client = Client::builder().api_key(API_KEY).api_url(&url).sandbox_url(&url).volume_api_url(&url);
    let client =
        client.settle(std::time::Duration::from_millis(200)).retries(1).http_version(oncebox::HttpVersion::Http2);
    let client = client.build().unwrap();
    let sandbox = Sandbox::create(&client).await.unwrap();

    // Secrets, whatever becomes of the calls.
    Secret::create(&client, "one", FIRST).await.unwrap();
    Secret::update(&client, "one", SECOND).await.unwrap();
    note(Secret::create(&client, "one", FIRST).await.unwrap_err());
    note(Secret::create(&client, "a b", FIRST).await.unwrap_err());
    let echo = |value: &str| json!({"status": {"code": 400, "body": {"code": 400, "message": format!("{value:?}?")}}});
    let cut = json!({"cut": {"when": "after"}});
    let codes = [503, 500].map(|code| json!({"status": {"code": code}}));
    let alike = [&cut, &codes[0], &codes[1]].map(|fault| [fault.clone(), fault.clone()]);
    for [create, update] in alike.into_iter().chain([[echo(FIRST), echo(SECOND)]]) {
        let rules = [
            json!({"on": ["createSecret"], "fault": create}),
            json!({"on": ["updateSecret"], "fault": update}),
            json!({"on": ["listSecrets", "getSecret"], "fault": codes[0]}),
        ];
        faults(&url, json!(rules)).await;
        note(Secret::create(&client, "two", FIRST).await.unwrap_err());
        note(Secret::update(&client, "one", SECOND).await.unwrap_err());
    }
    faults(&url, json!([])).await;
    let volume = Volume::create(&client, "data").await.unwrap();
    volume.write_file("/a", "x").await.unwrap();
    errors += &format!("{volume:?} {:?}", Secret::create(&client, "three", FIRST));
    note_code(&sandbox, &mut errors).await;

    // Git, while its server is asked for what it has.
    let server = GitServer::start("me", PASSWORD).await;
    let seen: Arc<Mutex<String>> = Arc::default();
    let (to, of) = (Arc::clone(&seen), sandbox.clone());
    server.hook(Arc::new(move || {
        let (to, of) = (Arc::clone(&to), of.clone());
        Box::pin(async move {
            let listed = format!("{:?}", of.commands().list().await.unwrap());
            let text = format!("{}\n{listed}\n", processes());
            to.lock().unwrap().push_str(&text);
        })
    }));
    let git = sandbox.git();
    git.init("repo", false, Some("main")).await.unwrap();
    git.commit("repo", "first").author("Me", "me@example.com").allow_empty(true).await.unwrap();
    git.remote_add("repo", "origin", server.url()).await.unwrap();
    git.push("repo").credentials("me", PASSWORD).await.unwrap();
    git.clone(server.url()).path("copy").credentials("me", PASSWORD).await.unwrap();
    git.pull("copy").credentials("me", PASSWORD).await.unwrap();
    let clone = git.clone(server.url()).path("stored").credentials("me", PASSWORD);
    clone.dangerously_store_credentials(true).await.unwrap();
    for error in [
        git.clone(server.url()).path("a").credentials("me", WRONG).await.unwrap_err(),
        git.clone(format!("{}x", server.url())).path("b").credentials("me", PASSWORD).await.unwrap_err(),
        git.push("nowhere").remote("origin").branch("main").credentials("me", PASSWORD).await.unwrap_err(),
        git.clone("ssh://h/r").credentials("me", PASSWORD).await.unwrap_err(),
        git.remote_add("repo", "o", format!("http://me:{PASSWORD}@127.0.0.1/r")).await.unwrap_err(),
        git.clone(format!("http://me:{PASSWORD}@127.0.0.1:1/r\n")).await.unwrap_err(),
    ] {
        errors += &told(&error);
    }
    let seen = seen.lock().unwrap().clone();

    // What is looked at is there to be seen.
    assert!(seen.contains("git-remote-http") && seen.contains("GIT_TERMINAL_PROMPT"));
    let marked = Command::new("sleep").arg("60").env("MARK", "a-v4riable");
    let handle = sandbox.commands().start(marked).await.unwrap();
    assert!(processes().contains("a-v4riable"));
    assert!(format!("{:?}", sandbox.commands().list().await.unwrap()).contains("a-v4riable"));
    handle.kill().await.unwrap();
    client.close().await;
    local.stop().await;
    let logged = String::from_utf8_lossy(&logged.0.lock().unwrap()).into_owned();
    assert!(logged.contains("TRACE") && logged.contains("/secrets") && logged.contains("processStart"), "{logged}");
    for value in [FIRST, SECOND, PASSWORD, WRONG, OF_CODE, API_KEY] {
        for (place, text) in [("logs", &logged), ("errors", &errors), ("processes", &seen)] {
            let at = text.find(value);
            assert!(at.is_none(), "{value} is in the {place}: {:?}", at.map(|at| around(text, at)));
        }
    }
    println!("{} bytes of logs, {} of errors, {} of processes", logged.len(), errors.len(), seen.len());
}

async fn note_code(sandbox: &Sandbox, errors: &mut String) {
    let run = sandbox.run_code(format!("token = {OF_CODE:?}")).env("TOKEN", OF_CODE);
    *errors += &format!("{run:?}");
    *errors += &told(&run.await.unwrap_err());
}

fn around(text: &str, at: usize) -> String {
    text.chars().skip(text[..at].chars().count().saturating_sub(300)).take(400).collect()
}
