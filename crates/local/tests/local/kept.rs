//! What a server keeps with a state folder, however it ends.

use http::Method;
use oncebox_local::{LocalServer, StartError};
use serde_json::{Value, json};

use super::support::{Http, Sandbox, eventually, helper, isolated, mark, processes, serve, shell};

async fn post(http: &Http, path: &str, body: Value) -> Value {
    let reply = http.api(Method::POST, path, Some(body)).await;
    assert!(reply.status.is_success(), "{path}: {reply:?}");
    if reply.body.is_empty() { Value::Null } else { reply.json() }
}

#[tokio::test]
async fn a_killed_server_loses_nothing_that_it_acknowledged() {
    let test = "a_killed_server_loses_nothing_that_it_acknowledged";
    let Some(_probe) = isolated(test).await else { return };
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state");
    let (mut child, http) = serve(&state, true);

    let create = json!({ "templateID": "base", "timeout": 600, "metadata": { "a": "b" } });
    let running = http.create(create.clone()).await;
    let frozen = http.create(create.clone()).await;
    let over = http.create(json!({ "templateID": "base", "timeout": 1 })).await;
    let deleted = http.create(create.clone()).await;
    assert_eq!(http.api(Method::DELETE, &format!("/sandboxes/{}", deleted.id), None).await.status, 204);
    let mark = mark();
    for sandbox in [&running, &frozen] {
        sandbox.run("echo kept > file").await;
        let (_, events) = sandbox.start(shell(&format!("setsid sleep {mark}")), &[]).await;
        drop(events);
    }
    eventually("they run", || processes(&mark).iter().filter(|line| line.starts_with("sleep ")).count() == 2).await;
    post(&http, &format!("/sandboxes/{}/pause", frozen.id), json!({})).await;
    post(&http, &format!("/sandboxes/{}/snapshots", running.id), json!({ "name": "snap" })).await;
    post(&http, "/secrets", json!({ "name": "s", "value": "x" })).await;
    post(&http, "/api-keys", json!({ "name": "k" })).await;
    let volume = post(&http, "/volumes", json!({ "name": "v" })).await;
    let content = format!("/volumecontent/{}/file?path=/f", volume["volumeID"].as_str().unwrap());
    let bearer = format!("Bearer {}", volume["token"].as_str().unwrap());
    assert_eq!(http.send(Method::PUT, &content, &[("authorization", &bearer)], "data").await.status, 201);
    let keyed = [("x-api-key", "k"), ("idempotency-key", "once")];
    let once = http.send(Method::POST, "/v2/sandboxes", &keyed, create.to_string()).await;
    assert_eq!(once.status, 201);
    // One that no record speaks of, as a server leaves it that is killed while it makes one.
    std::fs::create_dir(state.join("sandboxes/iorphan")).unwrap();

    child.kill().unwrap();
    child.wait().unwrap();
    eventually("no process is left, not even a stopped one", || processes(&mark).is_empty()).await;
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;

    let (mut child, http) = serve(&state, true);
    assert!(!state.join("sandboxes/iorphan").exists() && !state.join("sandboxes").join(&over.id).exists());
    for sandbox in [&running, &frozen] {
        let path = format!("/sandboxes/{}", sandbox.id);
        let info = http.api(Method::GET, &path, None).await.json();
        assert_eq!((info["state"].as_str(), info["pauseMode"].as_str()), (Some("paused"), Some("filesystem")));
        assert_eq!(info["metadata"], json!({ "a": "b" }));
        let woken = post(&http, &format!("/v2{path}/connect"), json!({})).await;
        assert_eq!(woken["envdAccessToken"], sandbox.token, "clients go on with what they have");
        let again = Sandbox { http: http.clone(), ..sandbox.clone() };
        assert_eq!(again.run("cat file").await.text(), "kept\n");
    }
    for gone in [&over, &deleted] {
        http.api(Method::GET, &format!("/sandboxes/{}", gone.id), None).await.error(404);
    }
    assert_eq!(http.create(json!({ "templateID": "snap" })).await.run("cat file").await.text(), "kept\n");
    assert_eq!(http.api(Method::GET, "/secrets", None).await.json()[0]["name"], "s");
    assert_eq!(http.api(Method::GET, "/api-keys", None).await.json()[0]["name"], "k");
    assert_eq!(http.send(Method::GET, &content, &[("authorization", &bearer)], "").await.body, "data");
    let again = http.send(Method::POST, "/v2/sandboxes", &keyed, create.to_string()).await;
    assert_eq!((again.status.as_u16(), &again.body), (201, &once.body), "a key is still known");

    let taken = LocalServer::builder().helper(helper()).state(&state).start().await;
    assert!(matches!(&taken, Err(StartError::KeptState { why, .. }) if why.contains("another server")), "{taken:?}");
    child.kill().unwrap();
    child.wait().unwrap();
}

#[tokio::test]
async fn a_server_that_is_stopped_keeps_its_sandboxes_too() {
    let test = "a_server_that_is_stopped_keeps_its_sandboxes_too";
    let Some(_probe) = isolated(test).await else { return };
    let folder = tempfile::tempdir().unwrap();
    let start = || LocalServer::builder().helper(helper()).state(folder.path().join("state")).start();
    let server = start().await.unwrap();
    let sandbox = Http::new(server.url()).create(json!({ "templateID": "base" })).await;
    sandbox.run("echo kept > file").await;
    server.stop().await;
    let server = start().await.unwrap();
    let http = Http::new(server.url());
    post(&http, &format!("/v2/sandboxes/{}/connect", sandbox.id), json!({})).await;
    assert_eq!(Sandbox { http, ..sandbox }.run("cat file").await.text(), "kept\n");
    server.stop().await;
}
