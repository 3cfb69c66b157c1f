//! Creates through the proxy: one sandbox each, whoever asks.

use std::time::Duration;

use http::Method;
use oncebox::Body;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use super::support::{CREATE, Setting, header, id, json_of, until};

fn on_create(times: u64, fault: &Value) -> Value {
    json!({"on": ["create"], "times": times, "fault": fault})
}

/// A create whose SDK hangs up as soon as the server has it.
async fn hang_up(setting: &Setting, requests_before: u64) {
    hang_up_of(setting, requests_before, CREATE, "").await;
}

async fn hang_up_of(setting: &Setting, requests_before: u64, create: &str, headers: &str) {
    let mut socket = TcpStream::connect(setting.proxy.addr()).await.unwrap();
    let head = format!(
        "POST /v2/sandboxes HTTP/1.1\r\nhost: localhost\r\nx-api-key: mine\r\ncontent-length: {}\r\n{headers}\r\n{create}",
        create.len()
    );
    socket.write_all(head.as_bytes()).await.unwrap();
    until("the create at the server", || async { fired(setting).await > requests_before }).await;
}

/// How often the first rule fired.
async fn fired(setting: &Setting) -> u64 {
    let url = setting.local.url();
    let told = setting.send(&url, Method::GET, "/oncebox/faults", &[], Body::empty()).await;
    json_of(&told)["fired"][0].as_u64().unwrap()
}

#[tokio::test]
async fn a_lost_answer_is_found_and_the_label_is_not_shown() {
    let setting = Setting::start(&[on_create(1, &json!({"cut": {"when": "after"}}))]).await;
    let made = setting.create(&[]).await;
    let sandbox = id(&made);
    assert!(header(&made, "oncebox-attempts").unwrap().parse::<u32>().unwrap() > 1);
    assert_eq!(setting.created().await, 1);

    for path in ["/v2/sandboxes".to_owned(), format!("/sandboxes/{sandbox}")] {
        let shown = json_of(&setting.ask(Method::GET, &path, &[], "").await);
        let shown = shown.get(0).unwrap_or(&shown);
        assert_eq!(shown["metadata"], json!({"task": "1"}), "{path}");
    }
    // Whoever looks for the label sees it: this SDK does.
    let url = setting.local.url();
    let direct = json_of(&setting.send(&url, Method::GET, "/v2/sandboxes", &[], Body::empty()).await);
    let intent = direct[0]["metadata"]["oncebox.intent"].as_str().unwrap();
    let path = format!("/v2/sandboxes?metadata=oncebox.intent%3D{intent}");
    let found = json_of(&setting.ask(Method::GET, &path, &[], "").await);
    assert_eq!(found[0]["metadata"]["oncebox.intent"], intent);
}

#[tokio::test]
async fn a_create_that_nobody_knows_about_is_taken_over_by_the_next_like_it_and_by_one_only() {
    let lists = json!({"on": ["list"], "fault": {"status": {"code": 500}}});
    let rules = json!({"rules": [on_create(1, &json!({"cut": {"when": "after"}})), lists]});
    let short = |options: oncebox::ClientBuilder| options.request_timeout(Duration::from_millis(800));
    let setting = Setting::with(rules, short, |builder| builder).await;
    let failed = setting.create(&[]).await;
    assert_eq!((failed.status().as_u16(), header(&failed, "should-retry").as_deref()), (504, Some("false")));
    assert_eq!(json_of(&failed)["error_code"], "oncebox_outcome_unknown");
    setting.faults(json!({})).await;

    // One that asks for something else, or for somebody else, is another create.
    let other = setting.ask(Method::POST, "/v2/sandboxes", &[], r#"{"templateID":"base"}"#).await;
    let url = setting.proxy.url();
    let others = setting.send(&url, Method::POST, "/v2/sandboxes", &[("x-team-id", "t")], CREATE.into()).await;
    assert_eq!(setting.created().await, 3);
    let taken = setting.create(&[]).await;
    assert_eq!(setting.created().await, 3);
    let new = setting.create(&[]).await;
    assert_eq!(setting.created().await, 4);
    let mut ids = [id(&other), id(&others), id(&taken), id(&new)].to_vec();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 4);
    assert_eq!(setting.proxy.status().counts.taken_over, 1);
    assert!(setting.proxy.stop().await.is_empty());
}

#[tokio::test]
async fn a_create_whose_sdk_hung_up_is_taken_over() {
    let slow = on_create(1, &json!({"latency": 0.6}));
    let setting = Setting::start(&[slow]).await;
    hang_up(&setting, 0).await;
    until("the hang-up", || async { setting.proxy.status().waiting_creates == 1 }).await;
    let sandbox = id(&setting.create(&[]).await);
    assert_eq!(setting.created().await, 1);
    assert_eq!((setting.alive().await, setting.proxy.status().counts.hung_up), (vec![sandbox], 1));
    // It is this SDK's for good.
    assert_eq!(setting.proxy.status().waiting_creates, 0);
    assert!(setting.proxy.stop().await.is_empty());
}

#[tokio::test]
async fn a_stream_that_is_reset_is_a_hang_up_too() {
    let setting = Setting::start(&[on_create(1, &json!({"latency": 0.6}))]).await;
    let http2 = oncebox_transport::Client::builder().retries(0).no_proxy();
    let http2 = http2.http_version(oncebox::HttpVersion::Http2).build();
    let request = http::Request::post(format!("{}/v2/sandboxes", setting.proxy.url())).header("x-api-key", "mine");
    let asked = http2.send_collected(request.body(CREATE.into()).unwrap(), oncebox_transport::CallOptions::new());
    tokio::select! {
        _ = asked => panic!("it was answered"),
        () = until("the create at the server", || async { fired(&setting).await > 0 }) => {}
    }
    until("the hang-up", || async { setting.proxy.status().waiting_creates == 1 }).await;
    let sandbox = id(&setting.create(&[]).await);
    assert_eq!((setting.created().await, setting.alive().await), (1, vec![sandbox]));
}

#[tokio::test]
async fn a_create_that_nobody_takes_over_leaves_nothing() {
    let slow = on_create(1, &json!({"latency": 0.3}));
    let setting = Setting::start(&[slow]).await;
    hang_up(&setting, 0).await;
    until("the sandbox", || async { setting.created().await == 1 }).await;
    until("its end", || async { setting.alive().await.is_empty() }).await;
    assert_eq!(setting.proxy.status().waiting_creates, 0);
    assert!(setting.proxy.stop().await.is_empty());
}

/// This SDK, behind the proxy, has named its create, and looks for it when it has given it up: by then it must not be sent
/// again.
#[tokio::test]
async fn a_create_that_its_sdk_named_is_not_sent_after_the_sdk_has_gone() {
    let intent = "0123456789abcdef0123456789abcdef";
    let create = json!({"templateID": "base", "metadata": {"oncebox.intent": intent}}).to_string();
    let key = format!("idempotency-key: {intent}\r\n");
    for headers in ["", &key] {
        let busy = json!({"status": {"code": 503, "headers": {"retry-after": "1"}, "when": "before"}});
        let setting = Setting::start(&[on_create(1, &busy)]).await;
        hang_up_of(&setting, 0, &create, headers).await;
        until("the hang-up", || async { setting.proxy.status().counts.hung_up == 1 }).await;
        let Setting { proxy, local, .. } = setting;
        // It waits until all creates have ended.
        assert!(proxy.stop().await.is_empty(), "{headers}");
        let http = oncebox_transport::Client::new();
        let list = http::Request::get(format!("{}/v2/sandboxes", local.url())).header("x-api-key", "mine");
        let options = oncebox_transport::CallOptions::new();
        let list = http.send_collected(list.body(Body::empty()).unwrap(), options).await.unwrap();
        assert_eq!(list.body(), "[]", "{headers}");
    }
}

/// What was sent by then stays, for the SDK to find: it may only have lost its connection.
#[tokio::test]
async fn a_create_that_its_sdk_named_and_that_was_sent_stays_when_the_sdk_has_gone() {
    let intent = "0123456789abcdef0123456789abcdef";
    let create = json!({"templateID": "base", "metadata": {"oncebox.intent": intent}}).to_string();
    let setting = Setting::start(&[on_create(1, &json!({"latency": 0.4}))]).await;
    hang_up_of(&setting, 0, &create, "").await;
    until("the hang-up", || async { setting.proxy.status().counts.hung_up == 1 }).await;
    until("the sandbox", || async { setting.created().await == 1 }).await;
    let made = setting.alive().await;
    let headers = [("idempotency-key", intent)];
    let again = setting.ask(Method::POST, "/v2/sandboxes", &headers, &create).await;
    assert_eq!((vec![id(&again)], setting.created().await), (made, 1));
    assert!(setting.proxy.stop().await.is_empty());
}

#[tokio::test]
async fn a_proxy_that_stops_leaves_nothing() {
    let setting = Setting::start(&[on_create(1, &json!({"latency": 0.3}))]).await;
    hang_up(&setting, 0).await;
    let Setting { proxy, .. } = &setting;
    assert_eq!(proxy.status().counts.created, 0);
    let (local, proxy) = (setting.local.url(), setting.proxy);
    assert!(proxy.stop().await.is_empty());
    let http = oncebox_transport::Client::new();
    let list = http::Request::get(format!("{local}/v2/sandboxes")).header("x-api-key", "mine").body(Body::empty());
    let list = http.send_collected(list.unwrap(), oncebox_transport::CallOptions::new()).await.unwrap();
    assert_eq!(list.body(), "[]");
    drop(setting.local);
}

#[tokio::test]
async fn creates_at_the_same_time_are_not_joined() {
    let setting = Setting::start(&[json!({"on": ["create"], "fault": {"latency": 0.2}})]).await;
    let (one, other) = tokio::join!(setting.create(&[]), setting.create(&[]));
    assert_ne!(id(&one), id(&other));
    assert_eq!(setting.created().await, 2);
}

#[tokio::test]
async fn a_key_names_the_create() {
    let setting = Setting::start(&[on_create(1, &json!({"cut": {"when": "after"}}))]).await;
    let key = [("idempotency-key", "job-1")];
    let (one, other) = tokio::join!(setting.create(&key), setting.create(&key));
    assert_eq!(id(&one), id(&other));
    let again = setting.create(&key).await;
    assert_eq!((id(&again), setting.created().await), (id(&one), 1));
    let differs = setting.ask(Method::POST, "/v2/sandboxes", &key, r#"{"templateID":"base"}"#).await;
    assert_eq!(differs.status(), 409);
    assert_eq!(json_of(&differs)["error_code"], "idempotency_request_mismatch");
    let wrong = setting.create(&[("idempotency-key", "No Key")]).await;
    assert_eq!((wrong.status().as_u16(), setting.created().await), (400, 1));
}

#[tokio::test]
async fn the_first_version_is_asked_in_the_first_version() {
    let setting = Setting::start(&[]).await;
    let made = setting.ask(Method::POST, "/sandboxes", &[], r#"{"templateID":"base","timeout":60}"#).await;
    let first = id(&made);
    let second = id(&setting.create(&[]).await);
    let effects = setting.send(&setting.local.url(), Method::GET, "/oncebox/effects", &[], Body::empty()).await;
    let counts = &json_of(&effects)["counts"];
    assert_eq!((&counts["createSandboxV1"], &counts["createSandbox"]), (&1.into(), &1.into()));
    assert_ne!(first, second);
}

#[tokio::test]
async fn what_the_server_refuses_is_refused_in_its_words() {
    let setting = Setting::start(&[]).await;
    let (url, unknown) = (setting.local.url(), r#"{"templateID":"no such"}"#);
    let direct = setting.send(&url, Method::POST, "/v2/sandboxes", &[], unknown.into()).await;
    let refused = setting.ask(Method::POST, "/v2/sandboxes", &[], unknown).await;
    assert_eq!((refused.status(), refused.body()), (direct.status(), direct.body()));
    for no_create in ["", "[]", "{\"metadata\": 1}"] {
        let refused = setting.ask(Method::POST, "/v2/sandboxes", &[], no_create).await;
        assert_eq!((refused.status().as_u16(), header(&refused, "should-retry").as_deref()), (400, Some("false")));
    }
    assert_eq!(setting.created().await, 0);
}
