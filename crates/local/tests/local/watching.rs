//! Watched directories.

use http::Method;
use serde_json::{Value, json};

use super::support::{Sandbox, files, isolated};

/// Names and types, without the prefix that all types have.
fn short(events: &[Value]) -> Vec<(String, String)> {
    let of = |event: &Value, key: &str| event[key].as_str().unwrap().to_owned();
    events.iter().map(|event| (of(event, "name"), of(event, "type").replace("EVENT_TYPE_", ""))).collect()
}

async fn create(sandbox: &Sandbox, more: Value) -> String {
    let mut request = json!({ "path": "dir" });
    request.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let watcher = sandbox.call("filesystem.Filesystem/CreateWatcher", request).await.unwrap();
    watcher["watcherId"].as_str().unwrap().to_owned()
}

/// Fetches events until one has this name and type.
async fn until(sandbox: &Sandbox, id: &str, name: &str, kind: &str) -> Vec<Value> {
    let mut events = Vec::new();
    for _ in 0..500 {
        let more = sandbox.call("filesystem.Filesystem/GetWatcherEvents", json!({ "watcherId": id })).await.unwrap();
        events.extend(more["events"].as_array().cloned().unwrap_or_default());
        if short(&events).contains(&(name.to_owned(), kind.to_owned())) {
            return events;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    panic!("no {kind} of {name} in {events:?}");
}

fn pairs(list: &[(&str, &str)]) -> Vec<(String, String)> {
    list.iter().map(|(name, kind)| ((*name).to_owned(), (*kind).to_owned())).collect()
}

#[tokio::test]
async fn a_watcher_tells_what_happened_in_order_and_once() {
    let Some(server) = isolated("a_watcher_tells_what_happened_in_order_and_once").await else { return };
    let sandbox = server.sandbox().await;
    sandbox.run("mkdir -p dir/sub").await;
    let id = create(&sandbox, json!({})).await;
    assert!(id.starts_with('w'));
    sandbox
        .run("cd dir; : >a; echo x >>a; chmod 600 a; mv a b; rm b; : >sub/deep; mkdir new; : >new/deep; : >end")
        .await;
    let expected = [
        ("a", "CREATE"),
        ("a", "WRITE"),
        ("a", "CHMOD"),
        ("a", "RENAME"),
        ("b", "CREATE"),
        ("b", "REMOVE"),
        ("new", "CREATE"),
        ("end", "CREATE"),
    ];
    assert_eq!(short(&until(&sandbox, &id, "end", "CREATE").await), pairs(&expected));
    let again = sandbox.call("filesystem.Filesystem/GetWatcherEvents", json!({ "watcherId": id })).await.unwrap();
    assert!(again["events"].is_null());

    sandbox.call("filesystem.Filesystem/RemoveWatcher", json!({ "watcherId": id })).await.unwrap();
    for method in ["GetWatcherEvents", "RemoveWatcher"] {
        let gone = sandbox.call(&format!("filesystem.Filesystem/{method}"), json!({ "watcherId": id })).await;
        assert_eq!(gone.unwrap_err().0, "not_found");
    }
}

#[tokio::test]
async fn a_file_written_through_the_server_is_created_and_written() {
    let Some(server) = isolated("a_file_written_through_the_server_is_created_and_written").await else { return };
    let sandbox = server.sandbox().await;
    sandbox.run("mkdir dir").await;
    let id = create(&sandbox, json!({ "includeEntry": true })).await;
    sandbox.write("dir/file", "one").await;
    sandbox.write("dir/file", "three").await;
    // One that is not whole leaves no trace.
    let gzip = [("content-type", "application/octet-stream"), ("content-encoding", "gzip")];
    sandbox.send(Method::POST, &files("dir/broken"), &gzip, "no gzip").await.error(400);
    sandbox.run(": >dir/end").await;
    let events = until(&sandbox, &id, "end", "CREATE").await;
    let expected = [("file", "CREATE"), ("file", "WRITE"), ("file", "WRITE"), ("end", "CREATE")];
    assert_eq!(short(&events), pairs(&expected));
    assert_eq!(events[0]["entry"]["path"], "/home/user/dir/file");
    assert_eq!(events[2]["entry"]["size"], "5");
}

#[tokio::test]
async fn a_recursive_watch_reaches_directories_that_come_later() {
    let Some(server) = isolated("a_recursive_watch_reaches_directories_that_come_later").await else { return };
    let sandbox = server.sandbox().await;
    sandbox.run("mkdir -p dir/old other").await;
    let id = create(&sandbox, json!({ "recursive": true })).await;
    sandbox.run("cd dir; : >old/a; mkdir -p new/er/est; : >new/er/est/b; mv new moved; : >moved/c; : >end").await;
    let told = short(&until(&sandbox, &id, "end", "CREATE").await);
    for expected in [
        ("old/a", "CREATE"),
        ("new", "CREATE"),
        ("new", "RENAME"),
        ("moved", "CREATE"),
        ("moved/c", "CREATE"),
        ("moved/er/est/b", "CREATE"),
    ] {
        let count = told.iter().filter(|found| found.0 == expected.0 && found.1 == expected.1).count();
        assert_eq!(count, 1, "{expected:?} in {told:?}");
    }
    // What is moved out is no longer watched.
    sandbox.run("cd dir; mv moved ../other; : >../other/moved/er/x; : >end2").await;
    let told = short(&until(&sandbox, &id, "end2", "CREATE").await);
    assert!(told.iter().all(|(name, _)| !name.ends_with('x')), "{told:?}");
}

#[tokio::test]
async fn a_streamed_watch_starts_tells_and_keeps_alive() {
    let Some(server) = isolated("a_streamed_watch_starts_tells_and_keeps_alive").await else { return };
    let sandbox = server.sandbox().await;
    sandbox.run("mkdir dir").await;
    let headers = [("keepalive-ping-interval", "1")];
    let mut events = sandbox.events("filesystem.Filesystem/WatchDir", &headers, json!({ "path": "dir" })).await;
    assert!(events.next_message().await.unwrap()["start"].is_object());
    sandbox.run("mkdir dir/made").await;
    let event = events.next_message().await.unwrap();
    assert_eq!(
        (event["filesystem"]["name"].as_str(), event["filesystem"]["type"].as_str()),
        (Some("made"), Some("EVENT_TYPE_CREATE"))
    );
    assert!(events.next_message().await.unwrap()["keepalive"].is_object());
    sandbox.run("rm -r dir").await;
    let removed = events.next_message().await.unwrap();
    assert_eq!(removed["filesystem"]["type"], "EVENT_TYPE_REMOVE");
}

#[tokio::test]
async fn a_streamed_watch_ends_when_its_time_is_over() {
    let Some(server) = isolated("a_streamed_watch_ends_when_its_time_is_over").await else { return };
    let sandbox = server.sandbox().await;
    let headers = [("connect-timeout-ms", "300")];
    let mut events = sandbox.events("filesystem.Filesystem/WatchDir", &headers, json!({ "path": "" })).await;
    assert!(events.next_message().await.unwrap()["start"].is_object());
    assert_eq!(events.next_message().await, None);
    assert_eq!(events.error.unwrap().0, "deadline_exceeded");
}

#[tokio::test]
async fn what_cannot_be_watched_is_refused() {
    let Some(server) = isolated("what_cannot_be_watched_is_refused").await else { return };
    let sandbox = server.sandbox().await;
    sandbox.write("file", "x").await;
    for (path, code) in [("none", "not_found"), ("file", "invalid_argument"), ("a\u{0}b", "invalid_argument")] {
        let watch = sandbox.call("filesystem.Filesystem/CreateWatcher", json!({ "path": path })).await;
        assert_eq!(watch.unwrap_err().0, code, "{path:?}");
        let mut events = sandbox.events("filesystem.Filesystem/WatchDir", &[], json!({ "path": path })).await;
        assert!(events.next_message().await.is_none());
        assert_eq!(events.error.unwrap().0, code, "{path:?}");
    }
    for _ in 0..100 {
        sandbox.call("filesystem.Filesystem/CreateWatcher", json!({ "path": "" })).await.unwrap();
    }
    let full = sandbox.call("filesystem.Filesystem/CreateWatcher", json!({ "path": "" })).await.unwrap_err();
    assert_eq!(full.0, "resource_exhausted");
}
