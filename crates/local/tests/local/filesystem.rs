//! The Filesystem service.

use serde_json::{Value, json};

use super::support::{Sandbox, basic, isolated};

async fn call(sandbox: &Sandbox, method: &str, body: Value) -> Result<Value, String> {
    sandbox.call(&format!("filesystem.Filesystem/{method}"), body).await.map_err(|(code, _)| code)
}

#[tokio::test]
async fn entries_are_made_moved_listed_and_removed() {
    let Some(server) = isolated("entries_are_made_moved_listed_and_removed").await else { return };
    let sandbox = server.sandbox().await;
    let made = call(&sandbox, "MakeDir", json!({ "path": "a/b" })).await.unwrap();
    assert_eq!(made["entry"]["path"], "/home/user/a/b");
    assert_eq!(made["entry"]["type"], "FILE_TYPE_DIRECTORY");
    assert_eq!(call(&sandbox, "MakeDir", json!({ "path": "a/b" })).await.unwrap_err(), "already_exists");
    sandbox.write("a/file", "12345").await;
    assert_eq!(call(&sandbox, "MakeDir", json!({ "path": "a/file" })).await.unwrap_err(), "invalid_argument");

    let moved = call(&sandbox, "Move", json!({ "source": "a/file", "destination": "new/place/file" })).await.unwrap();
    assert_eq!(moved["entry"]["path"], "/home/user/new/place/file");
    let again = json!({ "source": "a/file", "destination": "x" });
    assert_eq!(call(&sandbox, "Move", again).await.unwrap_err(), "not_found");

    let stat = call(&sandbox, "Stat", json!({ "path": "~/new/place/file" })).await.unwrap();
    let entry = &stat["entry"];
    assert_eq!((entry["name"].as_str(), entry["size"].as_str()), (Some("file"), Some("5")));
    assert_eq!((entry["mode"].as_u64(), entry["permissions"].as_str()), (Some(0o644), Some("-rw-r--r--")));
    assert_eq!((entry["owner"].as_str(), entry["group"].as_str()), (Some("user"), Some("user")));
    assert!(entry["modifiedTime"].as_str().unwrap().ends_with('Z'));
    assert_eq!(call(&sandbox, "Stat", json!({ "path": "none" })).await.unwrap_err(), "not_found");

    let names = |list: &Value| -> Vec<String> {
        list["entries"].as_array().unwrap().iter().map(|entry| entry["path"].as_str().unwrap().to_owned()).collect()
    };
    let list = call(&sandbox, "ListDir", json!({ "path": "" })).await.unwrap();
    assert_eq!(names(&list), ["/home/user/a", "/home/user/new"]);
    let list = call(&sandbox, "ListDir", json!({ "path": "new", "depth": 2 })).await.unwrap();
    assert_eq!(names(&list), ["/home/user/new/place", "/home/user/new/place/file"]);
    assert_eq!(call(&sandbox, "ListDir", json!({ "path": "none" })).await.unwrap_err(), "not_found");
    assert_eq!(call(&sandbox, "ListDir", json!({ "path": "new/place/file" })).await.unwrap_err(), "invalid_argument");

    for _ in 0..2 {
        call(&sandbox, "Remove", json!({ "path": "new" })).await.unwrap();
    }
    assert_eq!(call(&sandbox, "Stat", json!({ "path": "new" })).await.unwrap_err(), "not_found");
}

#[tokio::test]
async fn a_link_is_told_of_and_removed_alone() {
    let Some(server) = isolated("a_link_is_told_of_and_removed_alone").await else { return };
    let sandbox = server.sandbox().await;
    sandbox.run("mkdir folder; touch folder/kept; ln -s folder link").await;
    let stat = call(&sandbox, "Stat", json!({ "path": "link" })).await.unwrap();
    assert_eq!(stat["entry"]["isSymlink"], true);
    assert_eq!(stat["entry"]["type"], "FILE_TYPE_DIRECTORY");
    assert_eq!(stat["entry"]["symlinkTarget"], "/home/user/folder");
    call(&sandbox, "Remove", json!({ "path": "link" })).await.unwrap();
    assert_eq!(sandbox.run("ls folder; ls").await.text(), "kept\nfolder\n");
}

#[tokio::test]
async fn the_system_cannot_be_changed_and_users_must_exist() {
    let Some(server) = isolated("the_system_cannot_be_changed_and_users_must_exist").await else { return };
    let sandbox = server.sandbox().await;
    assert_eq!(call(&sandbox, "MakeDir", json!({ "path": "/usr/new" })).await.unwrap_err(), "permission_denied");
    assert_eq!(call(&sandbox, "Remove", json!({ "path": "/usr/bin/env" })).await.unwrap_err(), "permission_denied");
    assert_eq!(call(&sandbox, "Stat", json!({ "path": "a\u{0}b" })).await.unwrap_err(), "invalid_argument");
    let headers = [("authorization", &*basic("bob"))];
    let error = sandbox.call_with("filesystem.Filesystem/Stat", &headers, json!({ "path": "" })).await.unwrap_err();
    assert_eq!(error.0, "unauthenticated");
    let headers = [("authorization", &*basic("root"))];
    let stat = sandbox.call_with("filesystem.Filesystem/Stat", &headers, json!({ "path": "" })).await.unwrap();
    assert_eq!(stat["entry"]["path"], "/root");
}
