//! Templates are asked for, built, tagged, used and removed.

use http::Method;
use serde_json::{Value, json};

use super::support::{Fixture, Reply, Sandbox, isolated, shell};

async fn api(server: &Fixture, method: Method, path: &str, body: Value) -> Reply {
    server.http.api(method, path, (!body.is_null()).then_some(body)).await
}

/// What a script prints that is run as nobody by name.
async fn unnamed(sandbox: &Sandbox, script: &str) -> String {
    sandbox.start(shell(script), &[]).await.1.output().await.text().to_owned()
}

/// Starts a build and waits for its end.
async fn build(server: &Fixture, template: &str, build: &str, start: Value) -> Value {
    let reply = api(server, Method::POST, &format!("/v2/templates/{template}/builds/{build}"), start).await;
    assert_eq!(reply.status, 202, "{reply:?}");
    for _ in 0..1000 {
        let status =
            api(server, Method::GET, &format!("/templates/{template}/builds/{build}/status"), Value::Null).await.json();
        if status["status"] == "ready" || status["status"] == "error" {
            return status;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    panic!("the build does not end");
}

fn messages(status: &Value) -> Vec<String> {
    status["logEntries"].as_array().unwrap().iter().map(|entry| entry["message"].as_str().unwrap().to_owned()).collect()
}

/// An archive with one folder, one file in it, and one that would like to be outside.
fn archive() -> Vec<u8> {
    let entry = |name: &str, data: &[u8]| {
        let mut header = [0_u8; 512];
        header[..name.len()].copy_from_slice(name.as_bytes());
        header[100..107].copy_from_slice(b"0000644");
        header[108..115].copy_from_slice(b"0000000");
        header[116..123].copy_from_slice(b"0000000");
        header[124..135].copy_from_slice(format!("{:011o}", data.len()).as_bytes());
        header[136..147].copy_from_slice(b"00000000000");
        header[156] = b'0';
        header[257..263].copy_from_slice(b"ustar\0");
        header[263..265].copy_from_slice(b"00");
        header[148..156].copy_from_slice(b"        ");
        let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
        header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        let mut bytes = header.to_vec();
        bytes.extend_from_slice(data);
        bytes.resize(bytes.len().next_multiple_of(512), 0);
        bytes
    };
    let mut all = entry("src/main.py", b"print('hi')\n");
    all.extend(entry("src/sub/data", b"data"));
    all.extend([0; 1024]);
    all
}

#[tokio::test]
async fn a_template_is_built_from_its_steps_and_used() {
    let Some(server) = isolated("a_template_is_built_from_its_steps_and_used").await else { return };
    let asked =
        api(&server, Method::POST, "/v3/templates", json!({ "name": "my-app", "tags": ["v1", "default"] })).await;
    assert_eq!(asked.status, 202);
    let asked = asked.json();
    let (id, first) = (asked["templateID"].as_str().unwrap().to_owned(), asked["buildID"].as_str().unwrap().to_owned());
    assert_eq!((&asked["names"], &asked["tags"]), (&json!(["my-app"]), &json!(["default", "v1"])));

    let hash = "a".repeat(64);
    let link = api(&server, Method::GET, &format!("/templates/{id}/files/{hash}"), Value::Null).await;
    assert_eq!((link.status.as_u16(), link.json()["present"].as_bool()), (201, Some(false)));
    let url = link.json()["url"].as_str().unwrap().to_owned();
    let path = url.strip_prefix(&server.server.url()).unwrap();
    assert_eq!(server.http.send(Method::PUT, path, &[], archive()).await.status, 200);
    server.http.send(Method::PUT, &path.replace("token=", "token=0"), &[], "x").await.error(401);
    let link = api(&server, Method::GET, &format!("/templates/{id}/files/{hash}"), Value::Null).await;
    assert_eq!(link.json()["present"], true);

    let steps = json!({ "fromImage": "e2bdev/base", "startCmd": "echo started > /tmp/started; sleep 1000", "readyCmd": "test -f /tmp/started", "steps": [
        { "type": "ENV", "args": ["GREETING", "hello"] },
        { "type": "WORKDIR", "args": ["/home/user/app"] },
        { "type": "RUN", "args": ["echo $GREETING > greeting; echo one; echo two >&2"] },
        { "type": "COPY", "args": ["src", "/home/user/app/src", "", "0755"], "filesHash": hash },
        { "type": "COPY", "args": ["src/main.py", "copied.py", "", ""], "filesHash": hash },
        { "type": "RUN", "args": ["pwd", "root"] },
    ]});
    let status = build(&server, &id, &first, steps).await;
    assert_eq!(status["status"], "ready", "{status}");
    let log = messages(&status);
    for line in ["one", "two", "[3/6] RUN echo $GREETING > greeting; echo one; echo two >&2", "/home/user/app"] {
        assert!(log.iter().any(|message| message == line), "{line}: {log:?}");
    }
    let rest = api(
        &server,
        Method::GET,
        &format!("/templates/{id}/builds/{first}/status?logsOffset={}", log.len()),
        Value::Null,
    )
    .await;
    assert_eq!(rest.json()["logEntries"], json!([]));
    assert!(!api(&server, Method::GET, &format!("/templates/{id}/builds/{first}/logs?limit=2"), Value::Null).await.json()["logs"].as_array().unwrap().is_empty());

    for name in ["my-app", "my-app:v1", id.as_str()] {
        let sandbox = server.http.create(json!({ "templateID": name })).await;
        let seen = sandbox.run("cat greeting copied.py src/sub/data; stat -c %a src/main.py; ls /tmp").await;
        assert_eq!(seen.text(), "hello\nprint('hi')\ndata755\nstarted\n", "{name}: {}", seen.errors());
        assert_eq!(sandbox.run("pgrep -c sleep").await.text(), "1\n", "what it starts is started");
        let info = api(&server, Method::GET, &format!("/sandboxes/{}", sandbox.id), Value::Null).await.json();
        assert_eq!((info["templateID"].as_str(), info["alias"].as_str()), (Some(id.as_str()), Some("my-app")));
    }
    assert_eq!(
        api(&server, Method::GET, "/v2/sandboxes?template=my-app", Value::Null).await.json().as_array().unwrap().len(),
        3
    );
    let listed = api(&server, Method::GET, "/v2/templates", Value::Null).await.json();
    assert_eq!((listed[0]["spawnCount"].as_i64(), listed[0]["buildStatus"].as_str()), (Some(3), Some("ready")));
    assert_eq!(
        api(&server, Method::GET, "/templates/aliases/my-app", Value::Null).await.json()["templateID"],
        id.as_str()
    );
    api(&server, Method::GET, "/templates/aliases/none", Value::Null).await.error(404);

    let tagged =
        api(&server, Method::POST, "/templates/tags", json!({ "target": "my-app:v1", "tags": ["stable"] })).await;
    assert_eq!((tagged.status.as_u16(), tagged.json()["buildID"].as_str()), (201, Some(first.as_str())));
    assert_eq!(
        api(&server, Method::GET, &format!("/templates/{id}/tags"), Value::Null).await.json().as_array().unwrap().len(),
        3
    );
    assert_eq!(
        api(&server, Method::DELETE, "/templates/tags", json!({ "name": "my-app", "tags": ["v1"] })).await.status,
        204
    );
    api(&server, Method::POST, "/v2/sandboxes", json!({ "templateID": "my-app:v1" })).await.error(404);
    api(&server, Method::POST, "/templates/tags", json!({ "target": "my-app:v1", "tags": ["x"] })).await.error(404);
    assert_eq!(
        api(&server, Method::PATCH, &format!("/v2/templates/{id}"), json!({ "public": true })).await.json()["names"],
        json!(["my-app"])
    );
    assert_eq!(api(&server, Method::DELETE, &format!("/templates/{id}"), Value::Null).await.status, 204);
    api(&server, Method::GET, &format!("/templates/{id}"), Value::Null).await.error(404);
}

#[tokio::test]
async fn one_name_is_one_template_and_a_newer_build_supersedes_one_that_waits() {
    let test = "one_name_is_one_template_and_a_newer_build_supersedes_one_that_waits";
    let Some(server) = isolated(test).await else { return };
    let ask = || api(&server, Method::POST, "/v3/templates", json!({ "name": "twice" }));
    let (one, two) = (ask().await.json(), ask().await.json());
    assert_eq!(one["templateID"], two["templateID"]);
    assert_ne!(one["buildID"], two["buildID"]);
    let id = one["templateID"].as_str().unwrap();
    let start = json!({ "fromTemplate": "base", "steps": [] });
    let path = format!("/v2/templates/{id}/builds/{}", one["buildID"].as_str().unwrap());
    assert!(api(&server, Method::POST, &path, start.clone()).await.error(400).contains("newer build"));
    assert_eq!(build(&server, id, two["buildID"].as_str().unwrap(), start.clone()).await["status"], "ready");
    // Once more changes nothing.
    assert_eq!(build(&server, id, two["buildID"].as_str().unwrap(), start).await["status"], "ready");
    let builds = api(&server, Method::GET, &format!("/templates/{id}"), Value::Null).await.json()["builds"].clone();
    assert_eq!(builds.as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn what_a_template_says_of_commands_reaches_those_of_its_sandboxes() {
    let test = "what_a_template_says_of_commands_reaches_those_of_its_sandboxes";
    let Some(server) = isolated(test).await else { return };
    let asked = api(&server, Method::POST, "/v3/templates", json!({ "name": "said" })).await.json();
    let (id, first) = (asked["templateID"].as_str().unwrap(), asked["buildID"].as_str().unwrap());
    let steps = json!({ "fromImage": "e2bdev/base", "steps": [
        { "type": "ENV", "args": ["A", "template's", "B", "template's"] },
        { "type": "USER", "args": ["root"] },
        { "type": "WORKDIR", "args": ["/srv/app"] },
    ]});
    let status = build(&server, id, first, steps).await;
    assert_eq!(status["status"], "ready", "{status}");

    let own = || json!({ "templateID": "said", "envVars": { "B": "sandbox's" } });
    let sandbox = server.http.create(own()).await;
    let told = "pwd; echo $USER $HOME; echo \"$A $B\"";
    let said = "/srv/app\nroot /root\ntemplate's sandbox's\n";
    assert_eq!(unnamed(&sandbox, told).await, said);
    assert_eq!(sandbox.run_as("user", "pwd; echo $USER $HOME").await.text(), "/srv/app\nuser /home/user\n");
    // Relative paths are in the home of the user who asks, and that is the template's.
    assert_eq!(sandbox.write("note", "x").await.json()[0]["path"], "/root/note");

    let path = format!("/sandboxes/{}", sandbox.id);
    let snapshot = api(&server, Method::POST, &format!("{path}/snapshots"), json!({ "name": "kept" })).await;
    assert_eq!(snapshot.status, 201, "{snapshot:?}");
    let mut own = own();
    own["templateID"] = snapshot.json()["snapshotID"].clone();
    assert_eq!(unnamed(&server.http.create(own).await, told).await, said, "of its snapshot");

    let reply = api(&server, Method::POST, &format!("{path}/pause"), json!({ "memory": false })).await;
    assert_eq!(reply.status, 204, "{reply:?}");
    let reply = api(&server, Method::POST, &format!("{path}/connect"), json!({ "timeout": 60 })).await;
    assert_eq!(reply.status, 201, "{reply:?}");
    assert_eq!(unnamed(&sandbox, told).await, said, "after a pause without memory");
}

#[tokio::test]
async fn a_build_that_fails_says_at_which_step_and_changes_nothing() {
    let test = "a_build_that_fails_says_at_which_step_and_changes_nothing";
    let Some(server) = isolated(test).await else { return };
    for (steps, step, why) in [
        (json!([{ "type": "RUN", "args": ["true"] }, { "type": "RUN", "args": ["exit 3"] }]), "2", "exit code 3"),
        (json!([{ "type": "COPY", "args": ["a", "b"], "filesHash": "0".repeat(64) }]), "1", "not uploaded"),
        (json!([{ "type": "COPY", "args": ["a", "b"], "filesHash": "../../x" }]), "1", "no hash"),
        (json!([{ "type": "DANCE", "args": [] }]), "1", "DANCE"),
        (json!([{ "type": "USER", "args": ["nobody-there"] }]), "1", "nobody-there"),
    ] {
        let asked = api(&server, Method::POST, "/v3/templates", json!({ "name": "fails" })).await.json();
        let id = asked["templateID"].as_str().unwrap();
        let status = build(
            &server,
            id,
            asked["buildID"].as_str().unwrap(),
            json!({ "fromImage": "e2bdev/base", "steps": steps }),
        )
        .await;
        assert_eq!(
            (status["status"].as_str(), status["reason"]["step"].as_str()),
            (Some("error"), Some(step)),
            "{status}"
        );
        assert!(status["reason"]["message"].as_str().unwrap().contains(why), "{status}");
        api(&server, Method::POST, "/v2/sandboxes", json!({ "templateID": "fails" })).await.error(404);
    }
    let asked = api(&server, Method::POST, "/v3/templates", json!({ "name": "image" })).await.json();
    let path = format!(
        "/v2/templates/{}/builds/{}",
        asked["templateID"].as_str().unwrap(),
        asked["buildID"].as_str().unwrap()
    );
    assert!(
        api(&server, Method::POST, &path, json!({ "fromImage": "python:3" })).await.error(400).contains("python:3")
    );
    for bad in [json!({ "name": "A B" }), json!({ "name": "x:Y" }), json!({}), json!({ "name": "x", "tags": ["?"] })] {
        api(&server, Method::POST, "/v3/templates", bad).await.error(400);
    }
    api(&server, Method::POST, "/v3/templates", json!({ "name": "base" })).await.error(403);
    api(&server, Method::DELETE, "/templates/base", Value::Null).await.error(403);
}

/// The folders of builds that have files.
fn built(server: &Fixture) -> Vec<String> {
    let state = server.base.path().join("state");
    let instance =
        std::fs::read_dir(state).unwrap().map(|entry| entry.unwrap().path()).find(|path| path.is_dir()).unwrap();
    let builds = std::fs::read_dir(instance.join("templates")).unwrap();
    let mut names: Vec<String> = builds.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

async fn eventually_built(server: &Fixture, what: &str, mut builds: Vec<String>) {
    builds.sort();
    super::support::eventually(what, || built(server) == builds).await;
}

#[tokio::test]
async fn builds_that_no_tag_stands_for_leave_no_files() {
    let Some(server) = isolated("builds_that_no_tag_stands_for_leave_no_files").await else { return };
    let mut builds = Vec::new();
    let mut id = String::new();
    for tags in [json!(["default"]), json!(["default"]), json!(["v2"])] {
        let asked = api(&server, Method::POST, "/v3/templates", json!({ "name": "app", "tags": tags })).await.json();
        id = asked["templateID"].as_str().unwrap().to_owned();
        let number = asked["buildID"].as_str().unwrap().to_owned();
        let step = format!("echo {} > number", builds.len());
        let start = json!({ "fromImage": "e2bdev/base", "steps": [{ "type": "RUN", "args": [step] }] });
        assert_eq!(build(&server, &id, &number, start).await["status"], "ready");
        builds.push(number);
    }
    eventually_built(&server, "the first build is superseded", builds[1..].to_vec()).await;
    let first = api(&server, Method::GET, &format!("/templates/{id}/builds/{}/status", builds[0]), Value::Null).await;
    assert_eq!(first.json()["status"], "ready", "how it ended is known");
    for (name, number) in [("app", "1\n"), ("app:v2", "2\n")] {
        let sandbox = server.http.create(json!({ "templateID": name })).await;
        assert_eq!(sandbox.run("cat number").await.text(), number);
    }
    let moved = json!({ "target": "app:v2", "tags": ["default"] });
    assert_eq!(api(&server, Method::POST, "/templates/tags", moved).await.status, 201);
    eventually_built(&server, "a tag that moves leaves nothing", builds[2..].to_vec()).await;
    let removed = json!({ "name": "app", "tags": ["v2"] });
    assert_eq!(api(&server, Method::DELETE, "/templates/tags", removed).await.status, 204);
    assert_eq!(built(&server), builds[2..], "it has another tag");

    let sandbox = server.sandbox().await;
    for _ in 0..2 {
        let path = format!("/sandboxes/{}/snapshots", sandbox.id);
        assert_eq!(api(&server, Method::POST, &path, json!({ "name": "snap" })).await.status, 201);
    }
    super::support::eventually("one snapshot has files", || built(&server).len() == 2).await;
    server.http.create(json!({ "templateID": "snap" })).await;
}
