//! The rest of the control plane, call by call. What the local server does not do itself is answered by a fault with the
//! answer that the protocol describes.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::TryStreamExt;
use oncebox::{
    CallOptions, Came, Client, ConnectSandbox, Endpoint, ErrorKind, Killed, Order, Pause, Paused, Sandbox, SandboxState,
};
use serde_json::{Value, json};

use super::support::{Server, cut};

fn answers(operation: &str, code: u16, body: Value) -> Value {
    json!({"on": [operation], "fault": {"status": {"code": code, "body": body}}})
}

async fn sandbox() -> (Server, Sandbox) {
    let server = Server::start().await;
    let sandbox = Sandbox::create(&server.client()).await.unwrap();
    (server, sandbox)
}

#[tokio::test]
async fn a_pause_says_what_it_found() {
    let (server, sandbox) = sandbox().await;
    server.faults(json!({"rules": [answers("pauseSandbox", 204, Value::Null)]})).await;
    assert_eq!(sandbox.pause(Pause::full()).await.unwrap(), Paused::Now);
    let conflict = json!({"code": 409, "message": "already paused"});
    let lost = json!({"on": ["pauseSandbox"], "times": 1, "fault": cut("before")});
    server.faults(json!({"rules": [lost, answers("pauseSandbox", 409, conflict)]})).await;
    assert_eq!(sandbox.pause(Pause::filesystem()).await.unwrap(), Paused::ByEarlierAttempt);
    assert_eq!(sandbox.pause(Pause::filesystem()).await.unwrap(), Paused::Already);
    let stuck = json!({"code": 409, "message": "x", "error_code": "sandbox_snapshot_guest_agent_unresponsive"});
    server.faults(json!({"rules": [answers("pauseSandbox", 409, stuck)]})).await;
    let error = sandbox.pause(Pause::full().strict()).await.unwrap_err();
    assert!(error.is_guest_unresponsive() && error.kind() == ErrorKind::Conflict, "{error}");
}

#[tokio::test]
async fn forks_are_values_and_an_unknown_fork_is_not_repeated() {
    let (server, sandbox) = sandbox().await;
    let made = json!({"templateID": "base", "sandboxID": "ifork", "clientID": "c", "envdVersion": "0.6.13"});
    let forks = json!([{"sandbox": made}, {"error": {"code": 503, "message": "no room"}}]);
    server.faults(json!({"rules": [answers("forkSandbox", 201, forks)]})).await;
    let forks = sandbox.fork(2, Some(Duration::from_secs(60))).await.unwrap();
    assert_eq!(forks[0].as_ref().unwrap().id(), "ifork");
    assert!(forks[1].as_ref().unwrap_err().is_busy());
    server.faults(json!({"rules": [{"on": ["forkSandbox"], "fault": cut("before")}]})).await;
    let error = sandbox.fork(1, None).await.unwrap_err();
    assert!(error.outcome_unknown() && error.attempts().len() == 1, "{error}");
    assert_eq!(sandbox.fork(0, None).await.unwrap_err().kind(), ErrorKind::InvalidArgument);
}

#[tokio::test]
async fn snapshots_are_taken_listed_and_deleted() {
    let (server, sandbox) = sandbox().await;
    let client = server.client();
    let snapshot = json!({"snapshotID": "snap:default", "names": ["team/snap"]});
    server
        .faults(json!({"rules": [
            answers("createSnapshot", 201, snapshot.clone()),
            answers("listSnapshots", 200, json!([snapshot])),
            {"on": ["deleteTemplate"], "times": 1, "fault": {"status": {"code": 204}}},
            answers("deleteTemplate", 404, json!({"code": 404, "message": "gone"})),
        ]}))
        .await;
    let taken = sandbox.snapshot(Some("snap")).await.unwrap();
    assert_eq!(client.snapshots(Some(sandbox.id())).await.unwrap(), std::slice::from_ref(&taken));
    assert!(client.delete_snapshot(&taken.id).await.unwrap());
    assert!(!client.delete_snapshot(&taken.id).await.unwrap());
}

#[tokio::test]
async fn metrics_logs_and_networks() {
    let (server, sandbox) = sandbox().await;
    let metric = json!({"timestampUnix": 1, "cpuCount": 2, "cpuUsedPct": 1.5, "memUsed": 3, "memTotal": 4, "memCache": 5,
        "diskUsed": 6, "diskTotal": 7, "timestamp": null, "something": "new"});
    let entry = json!({"timestamp": "2026-01-01T00:00:00Z", "message": "hello", "level": "info", "fields": null});
    server
        .faults(json!({"rules": [
            answers("getSandboxMetrics", 200, json!([metric])),
            answers("getSandboxLogs", 405, json!("no such method")),
            answers("getSandboxLogsV1", 200, json!({"logs": null, "logEntries": [entry]})),
            answers("updateSandboxNetwork", 204, Value::Null),
        ]}))
        .await;
    assert_eq!(sandbox.metrics(None, None).await.unwrap()[0].mem_used, 3);
    assert_eq!(sandbox.logs(None).await.unwrap()[0].message, "hello");
    sandbox.update_network(&oncebox::NetworkUpdate::default()).await.unwrap();
}

#[tokio::test]
async fn whether_it_runs_and_where_its_files_are_signed_for() {
    let (server, sandbox) = sandbox().await;
    assert!(sandbox.is_running().await.unwrap());
    sandbox.files().write("a b", "content").await.unwrap();
    let http = oncebox_transport::Client::new();
    let get = |url: String| {
        let request = http::Request::get(url).body(String::new().into()).unwrap();
        http.send_collected(request, oncebox_transport::CallOptions::new())
    };
    let url = sandbox.download_url("a b", Some(Duration::from_secs(60))).unwrap();
    assert_eq!(get(url.clone()).await.unwrap().body(), "content");
    assert_eq!(get(url.replace("signature=v1_", "signature=v1_x")).await.unwrap().status(), 401);
    let request = http::Request::post(sandbox.upload_url("b", None).unwrap())
        .header("content-type", "application/octet-stream")
        .body("up".into())
        .unwrap();
    let written = http.send_collected(request, oncebox_transport::CallOptions::new()).await.unwrap();
    assert_eq!(written.status(), 200);
    assert_eq!(sandbox.files().read_text("b").await.unwrap(), "up");
    assert!(sandbox.host(3000).starts_with(&format!("3000-{}.", sandbox.id())));
    sandbox.kill().await.unwrap();
    assert!(!sandbox.is_running().await.unwrap());
    drop(server);
}

#[tokio::test]
async fn a_list_comes_page_by_page_and_as_a_stream() {
    let server = Server::start().await;
    let client = server.client();
    for _ in 0..5 {
        Sandbox::create(&client).await.unwrap();
    }
    let mut pages = Sandbox::list(&client).state(SandboxState::Running).page_size(2).pages();
    let mut sizes = Vec::new();
    while let Some(page) = pages.next().await.unwrap() {
        sizes.push(page.len());
    }
    assert_eq!(sizes, [2, 2, 1]);
    let all: Vec<_> = Sandbox::list(&client).page_size(2).stream().try_collect().await.unwrap();
    assert_eq!(all.len(), 5);
    assert_eq!(Sandbox::list(&client).page_size(0).await.unwrap_err().kind(), ErrorKind::InvalidArgument);
    server.faults(json!({"v2_missing": 404})).await;
    assert_eq!(Sandbox::list(&client).await.unwrap().len(), 5);
}

#[tokio::test]
async fn a_list_may_begin_at_a_page_and_has_an_order() {
    let server = Server::start().await;
    let client = server.client();
    let mut made = Vec::new();
    for _ in 0..3 {
        made.push(Sandbox::create(&client).await.unwrap().id().to_owned());
    }
    let list = || Sandbox::list(&client).order(Order::Asc).page_size(2);
    let mut pages = list().pages();
    assert_eq!((pages.next_token(), pages.has_next()), (None, true));
    let first: Vec<_> = pages.next().await.unwrap().unwrap().into_iter().map(|info| info.id).collect();
    assert_eq!(first, made[..2]);
    let token = pages.next_token().unwrap().to_owned();
    let mut rest = list().next_token(token).pages();
    rest.use_client(&client.with(CallOptions::new().retries(0)).unwrap());
    assert_eq!(rest.next().await.unwrap().unwrap()[0].id, made[2]);
    assert_eq!((rest.has_next(), rest.next().await.unwrap()), (false, None));
}

#[tokio::test]
async fn an_id_is_enough_for_the_control_plane() {
    let (server, sandbox) = sandbox().await;
    let client = server.client();
    let named = Sandbox::by_id(&client, sandbox.id()).unwrap();
    assert_eq!((named.came(), named.info().await.unwrap().id.as_str()), (Came::Named, sandbox.id()));
    let options = ConnectSandbox::new().lifetime(Duration::from_secs(5000)).reboot(true);
    let connected = Sandbox::connect_with(&client, sandbox.id(), options).await.unwrap();
    let info = connected.info().await.unwrap();
    assert!(info.end_at.duration_since(info.started_at).as_secs() >= 4900, "{info:?}");
    assert_eq!(info.lifecycle.unwrap().on_timeout.to_string(), "kill");
    assert_eq!(named.kill().await.unwrap(), Killed::Now);
    assert_eq!(Sandbox::by_id(&client, "A b").unwrap_err().kind(), ErrorKind::InvalidArgument);
    let error = Sandbox::connect_with(&client, "i1", ConnectSandbox::new().lifetime(Duration::ZERO)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
}

#[tokio::test]
async fn an_account_has_keys_teams_webhooks_and_events() {
    let server = Server::start().await;
    let client = server.client();
    let mask = json!({"prefix": "e2b_", "valueLength": 40, "maskedValuePrefix": "ab", "maskedValueSuffix": "yz"});
    let key = json!({"id": "k1", "name": "ci", "mask": mask, "createdAt": "2026-01-01T00:00:00Z", "createdBy": null});
    let mut created = key.clone();
    created["key"] = "secret".into();
    server
        .faults(json!({"rules": [
            answers("listApiKeys", 200, json!([key])),
            answers("createApiKey", 201, created),
            answers("deleteApiKey", 204, Value::Null),
            answers("listTeams", 200, json!([{"teamID": "t", "name": "team", "apiKey": "k", "isDefault": true}])),
            answers("listWebhooks", 200, json!([{"id": "w"}])),
            answers("listSandboxesEvents", 200, json!([{"type": "created"}])),
            {"on": ["createWebhook"], "fault": {"status": {"code": 501, "body": "<html>not here</html>"}}},
        ]}))
        .await;
    let account = client.account();
    assert_eq!(account.api_keys().await.unwrap()[0].name, "ci");
    let created = account.create_api_key("ci").await.unwrap();
    assert_eq!(created.key.expose(), "secret");
    assert!(!format!("{created:?}").contains("secret"));
    assert!(account.delete_api_key("k1").await.unwrap());
    assert_eq!(account.teams().await.unwrap()[0].team_id, "t");
    assert_eq!(account.webhooks().await.unwrap()[0]["id"], "w");
    assert_eq!(account.events(None, 10).await.unwrap()[0]["type"], "created");
    let error = account.create_webhook(&json!({"url": "http://x"})).await.unwrap_err();
    assert_eq!((error.kind(), error.status()), (ErrorKind::Unsupported, Some(501)));
    assert!(error.to_string().contains("<html>not here</html>"), "{error}");
}

#[tokio::test]
async fn servers_may_answer_oddly() {
    let server = Server::start().await;
    let client = server.client_at(&server.local.url(), |builder| builder.retries(0));
    let odd = json!({"templateID": "base", "sandboxID": "i1", "clientID": "", "envdVersion": "main-3f2a", "alias": null,
        "envdAccessToken": null, "trafficAccessToken": null, "domain": null, "newField": {"x": 1}});
    server.faults(json!({"rules": [answers("createSandbox", 201, odd)]})).await;
    assert_eq!(Sandbox::create(&client).await.unwrap().envd_version(), "main-3f2a");
    for (body, words) in [
        (json!({"code": "forbidden", "message": "not yours"}), "not yours"),
        (json!({"code": 403, "message": "nor his"}), "nor his"),
        (json!("plain words"), "plain words"),
        (json!("<html><h1>403</h1></html>"), "<h1>403</h1>"),
        (json!(["what"]), "what"),
    ] {
        server.faults(json!({"rules": [answers("createSandbox", 403, body)]})).await;
        let error = Sandbox::create(&client).await.unwrap_err();
        assert_eq!((error.kind(), error.status()), (ErrorKind::Authentication, Some(403)));
        assert!(error.to_string().contains(words) && !error.may_have_been_processed(), "{error}");
    }
}

#[tokio::test]
async fn a_key_that_ran_out_is_asked_for_anew() {
    let server = Server::start().await;
    let refusal = json!({"status": {"code": 401}});
    server
        .faults(json!({"rules": [
            {"on": ["create"], "times": 1, "fault": refusal},
            {"on": ["list"], "times": 1, "fault": refusal},
        ]}))
        .await;
    let asked = Arc::new(AtomicUsize::new(0));
    let (counter, url) = (Arc::clone(&asked), server.local.url());
    let endpoint = Endpoint::domain("e2b.app").unwrap().api_url(&url).unwrap().sandbox_url(&url).unwrap();
    let client = Client::builder()
        .endpoint(endpoint)
        .credentials(move || {
            let number = counter.fetch_add(1, Ordering::Relaxed);
            async move { Ok(format!("key-{number}")) }
        })
        .build()
        .unwrap();
    Sandbox::create(&client).await.unwrap();
    assert_eq!(Sandbox::list(&client).await.unwrap().len(), 1);
    // At first, and after each refusal.
    assert_eq!(asked.load(Ordering::Relaxed), 3);
}
