//! Calls of several requests: where an early one was done and a late one was not, nothing says that the call was not done.
#![cfg(feature = "local")]
#![allow(clippy::unwrap_used)] // A test panics when it fails.

use std::time::Duration;

use oncebox::local::{Isolation, LocalServer};
use oncebox::{Client, Command, Error, ErrorKind, GitScope, HttpVersion, Sandbox, Template};
use oncebox_faults::Script;
use serde_json::{Value, json};

struct Host {
    _server: LocalServer,
    _proxy: oncebox_faults::Server,
    client: Client,
    sandbox: Sandbox,
}

/// A sandbox behind a proxy that answers requests to these paths so, from the one with this number on.
async fn host(paths: &[&str], number: u32, status: u16) -> Host {
    let server = LocalServer::builder().isolation(Isolation::None).start().await.unwrap();
    let when = json!({"path": paths, "count": format!("{number}-")});
    let rule = json!({"at": "request", "when": when, "do": [answer(status)]});
    let script = Script::from_json(&json!({ "rules": [rule] }).to_string()).unwrap();
    let proxy = oncebox_faults::Server::builder(script).proxy_to(&server.url()).start().await.unwrap();
    let url = proxy.url("");
    let client = Client::builder().api_key("k").api_url(&url).sandbox_url(&url).http_version(HttpVersion::Http1);
    let client = client.request_timeout(Duration::from_secs(30)).build().unwrap();
    let sandbox = Sandbox::create(&client).await.unwrap();
    Host { _server: server, _proxy: proxy, client, sandbox }
}

fn answer(status: u16) -> Value {
    json!({"answer": {"status": status}})
}

#[track_caller]
fn is_partly_done(error: &Error, status: u16) {
    assert!(error.may_have_been_processed(), "{error:?}");
    let text = error.to_string();
    assert!(text.contains("what came before it in this call was done") && text.contains(&status.to_string()), "{text}");
}

#[tokio::test]
async fn input_of_several_messages_whose_last_one_was_refused_is_not_told_as_not_written() {
    for (number, is_begun) in [(1, false), (2, true)] {
        let host = host(&["/process.Process/SendInput"], number, 503).await;
        let cat = host.sandbox.commands().start(Command::new("cat").stdin(true)).await.unwrap();
        let error = cat.send_stdin(vec![b'x'; 1 << 20]).await.unwrap_err();
        assert_eq!((error.may_have_been_processed(), error.attempts().len()), (is_begun, number as usize), "{error}");
        if is_begun {
            is_partly_done(&error, 503);
        }
        cat.kill().await.unwrap();
    }
}

#[tokio::test]
async fn input_of_a_durable_command_that_was_added_in_part_is_not_told_as_not_added() {
    // The start, and the first piece.
    let host = host(&["/process.Process/Start"], 3, 403).await;
    let spool = tempfile::tempdir().unwrap();
    let cat = Command::new("cat").stdin(true).env("ONCEBOX_SPOOL", spool.path().to_str().unwrap());
    let command = host.sandbox.commands().durable(cat).await.unwrap();
    let fed = command.send_stdin(vec![b'x'; 2 << 20]);
    is_partly_done(&fed.await.unwrap_err(), 403);
}

#[tokio::test]
async fn what_was_uploaded_in_part_is_not_told_as_not_written() {
    let folder = tempfile::tempdir().unwrap();
    let large = folder.path().join("large");
    std::fs::write(&large, vec![1; (16 << 20) + 1]).unwrap();
    let second = host(&["/files", "/files?*"], 2, 507).await;
    let files = second.sandbox.files();
    is_partly_done(&files.upload(&large, "to", |_, _| {}).await.unwrap_err(), 507);

    // Each of more than a request may hold.
    let host = host(&["/files", "/files?*"], 2, 507).await;
    let two = ["a", "b"].map(|name| (name, vec![0; (16 << 20) + 1]));
    is_partly_done(&host.sandbox.files().write_files(two).await.unwrap_err(), 507);

    let tree = tempfile::tempdir().unwrap();
    std::fs::create_dir(tree.path().join("empty")).unwrap();
    std::fs::write(tree.path().join("file"), "x").unwrap();
    is_partly_done(&host.sandbox.files().upload_dir(tree.path(), "tree").await.unwrap_err(), 507);
}

#[tokio::test]
async fn a_file_whose_size_could_not_be_asked_for_was_written() {
    let host = host(&["/filesystem.Filesystem/Stat"], 1, 403).await;
    let files = host.sandbox.files();
    is_partly_done(&files.write("a", "x").await.unwrap_err(), 403);
    is_partly_done(&files.write_files([("b", "x")]).await.unwrap_err(), 403);
    assert_eq!(files.read_text("a").await.unwrap() + &files.read_text("b").await.unwrap(), "xx");
}

#[tokio::test]
async fn git_in_several_steps_is_not_told_as_not_run() {
    let host = host(&["/process.Process/Start"], 3, 403).await;
    let git = host.sandbox.git();
    if let Err(error) = git.init("repo", false, None).await {
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        println!("SKIP git_in_several_steps_is_not_told_as_not_run: there is no git");
        return;
    }
    let error = git.configure_user("Me", "me@example.com", GitScope::Local("repo")).await.unwrap_err();
    is_partly_done(&error, 403);
}

#[tokio::test]
async fn a_template_that_was_registered_is_not_told_as_not_made() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a"), "x").unwrap();
    let recipe = Template::from_image("e2bdev/base").context(folder.path()).copy("a", "/a");
    let host = host(&["/templates/*"], 1, 403).await;
    is_partly_done(&host.client.templates().build(&recipe, "mine").await.unwrap_err(), 403);
}
