//! Sandboxes are paused, resumed, forked and kept as snapshots.

use std::time::Duration;

use http::Method;
use serde_json::{Value, json};

use super::support::{Fixture, Sandbox, isolated, mark, plain, processes, shell};

async fn post(server: &Fixture, path: String, body: Value) -> super::support::Reply {
    server.http.api(Method::POST, &path, Some(body)).await
}

async fn state(server: &Fixture, id: &str) -> String {
    let info = server.http.api(Method::GET, &format!("/sandboxes/{id}"), None).await.json();
    format!("{} {}", info["state"].as_str().unwrap(), info["pauseMode"].as_str().unwrap_or("-"))
}

/// A sandbox with a running process that counts, and a file.
async fn settled(server: &Fixture) -> (Sandbox, String) {
    let sandbox = server.sandbox().await;
    let mark = mark();
    sandbox.run("echo kept > file; mkdir -p sub; ln -s /etc/passwd link").await;
    let script = format!("sleep {mark} & i=0; while :; do i=$((i+1)); echo $i > count; sleep 0.01; done");
    let (_, events) = sandbox.start(shell(&script), &[]).await;
    drop(events);
    super::support::eventually("it runs", || !processes(&format!("sleep {mark} ")).is_empty()).await;
    (sandbox, mark)
}

async fn a_pause_keeps(server: &Fixture) {
    let (sandbox, mark) = settled(server).await;
    let id = &sandbox.id;
    let (_, mut stream) = sandbox.start(shell("echo begun; sleep 60"), &[]).await;
    stream.next_output().await;
    assert_eq!(post(server, format!("/sandboxes/{id}/pause"), json!({})).await.status, 204);
    assert_eq!(state(server, id).await, "paused full");
    assert!(!processes(&format!("sleep {mark} ")).is_empty(), "its processes are there");
    // What was open is cut, and not ended.
    assert!(tokio::spawn(async move { while stream.next().await.is_some() {} }).await.is_err());
    assert_eq!(sandbox.send(Method::GET, "/health", &[], "").await.error(502), "The sandbox was not found");
    post(server, format!("/sandboxes/{id}/pause"), json!({})).await.error(409);
    post(server, format!("/sandboxes/{id}/timeout"), json!({ "timeout": 5 })).await.error(404);
    let list = server.http.api(Method::GET, "/v2/sandboxes?state=paused", None).await;
    assert_eq!(
        (list.json()[0]["sandboxID"].as_str(), &list.headers["x-total-running"]),
        (Some(id.as_str()), &"0".parse().unwrap())
    );
    assert_eq!(server.http.api(Method::GET, "/v2/sandboxes?state=running", None).await.body, "[]");
    assert_eq!(server.http.api(Method::GET, "/sandboxes", None).await.body, "[]");

    let connect = format!("/v2/sandboxes/{id}/connect");
    let reply = post(server, connect.clone(), json!({})).await;
    assert_eq!((reply.status.as_u16(), reply.json()["envdAccessToken"].as_str()), (201, Some(sandbox.token.as_str())));
    assert_eq!(post(server, connect, json!({})).await.status, 200);
    // The file is empty for a moment whenever it is written.
    let counts = "now() { cat count; }; until a=$(now) && [ -n \"$a\" ]; do :; done; \
                  for i in $(seq 100); do b=$(now); [ -n \"$b\" ] && [ \"$a\" != \"$b\" ] && exit 0; sleep 0.05; done; exit 1";
    assert_eq!(sandbox.run(counts).await.code(), 0, "the process counts on");
    assert_eq!(server.http.api(Method::DELETE, &format!("/sandboxes/{id}"), None).await.status, 204);
    assert_eq!(processes(&mark), [""; 0]);
}

#[tokio::test]
async fn a_pause_keeps_processes_that_go_on_when_it_is_resumed() {
    let Some(server) = isolated("a_pause_keeps_processes_that_go_on_when_it_is_resumed").await else { return };
    a_pause_keeps(&server).await;
    a_pause_keeps(&plain().await).await;
}

#[tokio::test]
async fn a_paused_sandbox_is_killed_without_a_trace() {
    let Some(server) = isolated("a_paused_sandbox_is_killed_without_a_trace").await else { return };
    for memory in [true, false] {
        let (sandbox, mark) = settled(&server).await;
        post(&server, format!("/sandboxes/{}/pause", sandbox.id), json!({ "memory": memory })).await;
        assert_eq!(processes(&format!("sleep {mark} ")).is_empty(), !memory);
        let path = format!("/sandboxes/{}", sandbox.id);
        assert_eq!(server.http.api(Method::DELETE, &path, None).await.status, 204);
        assert_eq!(processes(&mark), [""; 0]);
        server.http.api(Method::GET, &path, None).await.error(404);
    }
    let (sandbox, mark) = settled(&server).await;
    post(&server, format!("/sandboxes/{}/pause", sandbox.id), json!({})).await;
    server.server.stop().await;
    assert_eq!(processes(&mark), [""; 0], "a server that ends takes what it has stopped along");
}

#[tokio::test]
async fn a_pause_without_memory_keeps_files_and_a_resume_without_it_starts_anew() {
    let test = "a_pause_without_memory_keeps_files_and_a_resume_without_it_starts_anew";
    let Some(server) = isolated(test).await else { return };
    let (sandbox, mark) = settled(&server).await;
    let id = sandbox.id.clone();
    assert_eq!(post(&server, format!("/sandboxes/{id}/pause"), json!({ "memory": false })).await.status, 204);
    assert_eq!((state(&server, &id).await.as_str(), processes(&mark).len()), ("paused filesystem", 0));
    assert_eq!(post(&server, format!("/sandboxes/{id}/resume"), json!({ "timeout": 60 })).await.status, 201);
    post(&server, format!("/sandboxes/{id}/resume"), json!({})).await.error(409);
    assert_eq!(sandbox.run("cat file; readlink link; ls -d sub").await.text(), "kept\n/etc/passwd\nsub\n");

    let (sandbox, mark) = settled(&server).await;
    let id = sandbox.id.clone();
    post(&server, format!("/sandboxes/{id}/pause"), json!({})).await;
    let reply = post(&server, format!("/v2/sandboxes/{id}/connect"), json!({ "memory": false })).await;
    assert_eq!((reply.status.as_u16(), processes(&mark).len()), (201, 0));
    assert_eq!(sandbox.run("cat file").await.text(), "kept\n");
}

#[tokio::test]
async fn links_left_in_a_sandbox_lead_nowhere_when_it_starts_again() {
    let test = "links_left_in_a_sandbox_lead_nowhere_when_it_starts_again";
    let Some(server) = isolated(test).await else { return };
    let outside = tempfile::tempdir().unwrap();
    std::fs::write(outside.path().join("passwd"), "mine").unwrap();
    let sandbox = server.sandbox().await;
    let target = outside.path().display();
    let script = format!(
        "cd /; rm -rf /srv /mnt /home/user /run/e2b; ln -s {target} /srv; ln -s {target} /mnt; ln -s {target} /home/user; \
         ln -s {target} /run/e2b; rm -f /etc/passwd /etc/hosts; ln -s {target}/passwd /etc/passwd; mkdir /etc/hosts; \
         rm -f /bin; ln -s {target} /bin; echo done"
    );
    assert_eq!(sandbox.run_as("root", &script).await.text(), "done\n");
    let id = &sandbox.id;
    post(&server, format!("/sandboxes/{id}/pause"), json!({ "memory": false })).await;
    assert_eq!(post(&server, format!("/v2/sandboxes/{id}/connect"), json!({})).await.status, 201);
    assert_eq!(sandbox.run("head -c 4 /etc/passwd; echo; ls -d /bin/sh").await.text(), "user\n/bin/sh\n");
    let left: Vec<_> = std::fs::read_dir(outside.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["passwd"]);
    assert_eq!(std::fs::read(outside.path().join("passwd")).unwrap(), b"mine");
}

#[tokio::test]
async fn a_sandbox_pauses_at_the_end_of_its_life_and_wakes_on_use() {
    let test = "a_sandbox_pauses_at_the_end_of_its_life_and_wakes_on_use";
    let Some(server) = isolated(test).await else { return };
    let body = json!({ "templateID": "base", "timeout": 1, "autoPause": true, "autoResume": { "enabled": true } });
    let sandbox = server.http.create(body).await;
    let info = server.http.api(Method::GET, &format!("/sandboxes/{}", sandbox.id), None).await.json();
    assert_eq!(info["lifecycle"], json!({ "autoResume": true, "onTimeout": "pause" }));
    for _ in 0..300 {
        if state(&server, &sandbox.id).await == "paused full" {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(state(&server, &sandbox.id).await, "paused full");
    assert_eq!(sandbox.send(Method::GET, "/health", &[], "").await.status, 204);
}

#[tokio::test]
async fn forks_begin_with_the_same_files_and_go_their_own_ways() {
    let Some(server) = isolated("forks_begin_with_the_same_files_and_go_their_own_ways").await else { return };
    let (sandbox, _) = settled(&server).await;
    let reply = post(&server, format!("/sandboxes/{}/fork", sandbox.id), json!({ "count": 2, "timeout": 60 })).await;
    assert_eq!(reply.status, 201);
    let mut forks = Vec::new();
    for made in reply.json().as_array().unwrap() {
        let made = &made["sandbox"];
        forks.push(Sandbox {
            http: server.http.clone(),
            id: made["sandboxID"].as_str().unwrap().to_owned(),
            token: made["envdAccessToken"].as_str().unwrap().to_owned(),
        });
    }
    assert!(forks.len() == 2 && forks[0].id != forks[1].id && forks[0].token != sandbox.token);
    forks[0].run("echo changed > file").await;
    assert_eq!(forks[1].run("cat file; pgrep -c sleep").await.text(), "kept\n0\n");
    assert_eq!(sandbox.run("cat file").await.text(), "kept\n");
    assert_ne!(sandbox.run("cat count").await.text(), sandbox.run("sleep 0.2; cat count").await.text(), "it goes on");
    post(&server, format!("/sandboxes/{}/fork", sandbox.id), json!({ "count": 0 })).await.error(400);
    post(&server, "/sandboxes/inone/fork".to_owned(), json!({})).await.error(404);
}

#[tokio::test]
async fn snapshots_are_what_sandboxes_can_be_made_from() {
    let Some(server) = isolated("snapshots_are_what_sandboxes_can_be_made_from").await else { return };
    let http = &server.http;
    let (sandbox, _) = settled(&server).await;
    let path = format!("/sandboxes/{}/snapshots", sandbox.id);
    let made = post(&server, path.clone(), json!({ "name": "mine:v1" })).await;
    assert_eq!((made.status.as_u16(), &made.json()["names"]), (201, &json!(["mine:v1"])));
    sandbox.run("echo changed > file").await;
    let unnamed = post(&server, path.clone(), json!({})).await.json();
    post(&server, path, json!({ "name": "base" })).await.error(403);
    http.api(Method::DELETE, &format!("/sandboxes/{}", sandbox.id), None).await;

    for (template, expected) in [("mine:v1", "kept\n"), (unnamed["snapshotID"].as_str().unwrap(), "changed\n")] {
        let restored = http.create(json!({ "templateID": template })).await;
        assert_eq!(restored.run("cat file").await.text(), expected, "{template}");
    }
    let list = http.api(Method::GET, &format!("/snapshots?sandboxID={}&limit=1", sandbox.id), None).await;
    assert_eq!(list.json().as_array().unwrap().len(), 1);
    let next = list.headers["x-next-token"].to_str().unwrap();
    let list = http.api(Method::GET, &format!("/snapshots?nextToken={next}"), None).await;
    assert!(list.json().as_array().unwrap().len() == 1 && !list.headers.contains_key("x-next-token"));
    assert_eq!(http.api(Method::GET, "/snapshots?name=mine", None).await.json().as_array().unwrap().len(), 1);
    assert_eq!(http.api(Method::DELETE, "/templates/mine%3Av1", None).await.status, 204);
    http.api(Method::DELETE, "/templates/mine%3Av1", None).await.error(404);
    let gone = post(&server, "/v2/sandboxes".to_owned(), json!({ "templateID": "mine:v1" })).await;
    gone.error(404);
    let instance = std::fs::read_dir(server.base.path().join("state"))
        .unwrap()
        .find(|entry| entry.as_ref().unwrap().path().is_dir());
    let templates = instance.unwrap().unwrap().path().join("templates");
    assert_eq!(std::fs::read_dir(templates).unwrap().count(), 1, "files of the deleted one are gone");
}
