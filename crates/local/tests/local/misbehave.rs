//! Faults on demand, and the count of what really happened. Without isolation, since hardly a command runs.

use http::Method;
use serde_json::{Value, json};

use super::support::{Fixture, Http, Reply, plain, shell};

async fn with_faults(document: Value) -> Fixture {
    let server = plain().await;
    put(&server.http, document).await;
    server
}

async fn put(http: &Http, document: Value) {
    let reply = http.api(Method::PUT, "/oncebox/faults", Some(document)).await;
    assert_eq!(reply.status, 204, "{reply:?}");
}

fn base() -> Option<Value> {
    Some(json!({ "templateID": "base", "metadata": { "oncebox.intent": "abc", "n": "1" } }))
}

async fn create(http: &Http) -> Option<Reply> {
    http.try_api(Method::POST, "/v2/sandboxes", base()).await
}

async fn listed(http: &Http) -> Vec<Value> {
    http.api(Method::GET, "/v2/sandboxes", None).await.json().as_array().unwrap().clone()
}

async fn counts(http: &Http) -> Value {
    http.api(Method::GET, "/oncebox/effects", None).await.json()["counts"].take()
}

#[tokio::test]
async fn a_document_with_a_mistake_changes_nothing() {
    let server = with_faults(json!({"rules": [{"on": ["kill"], "fault": {"status": {"code": 503}}}]})).await;
    let wrong = json!({"rules": [{"on": ["list"], "fault": {"status": {"code": 503, "when": "never"}}}]});
    let reply = server.http.api(Method::PUT, "/oncebox/faults", Some(wrong)).await;
    assert!(reply.error(400).contains("rules[0].fault"), "{reply:?}");
    let told = server.http.api(Method::GET, "/oncebox/faults", None).await.json();
    assert_eq!(told["faults"]["rules"][0]["on"], json!(["kill"]));
    assert_eq!(told["fired"], json!([0]));
    server.http.api(Method::DELETE, "/oncebox/faults", None).await;
    let told = server.http.api(Method::GET, "/oncebox/faults", None).await.json();
    assert_eq!(told["faults"]["rules"], json!([]));
}

#[tokio::test]
async fn an_answer_is_replaced_before_or_after_the_effect() {
    let headers = json!({"Retry-After": "3"});
    let server = with_faults(json!({"rules": [
        {"on": ["create"], "times": 1, "fault": {"status": {"code": 503, "headers": headers, "body": "busy"}}},
        {"on": ["create"], "times": 1, "fault": {"status": {"code": 504, "when": "after"}}},
    ]}))
    .await;
    let http = &server.http;
    let before = create(http).await.unwrap();
    assert_eq!(
        (before.status.as_u16(), &before.body[..], &before.headers["retry-after"]),
        (503, &b"busy"[..], &"3".parse().unwrap())
    );
    assert!(listed(http).await.is_empty());
    create(http).await.unwrap().error(504);
    assert_eq!(listed(http).await.len(), 1);
    assert_eq!(create(http).await.unwrap().status, 201);
    assert_eq!(counts(http).await["createSandbox"], 2);
}

#[tokio::test]
async fn a_connection_is_cut_before_or_after_the_effect() {
    for how in ["close", "reset"] {
        let server = with_faults(json!({"rules": [
            {"on": ["create"], "times": 1, "fault": {"cut": {"when": "before", "how": how}}},
            {"on": ["create"], "times": 1, "fault": {"cut": {"when": "after", "how": how}}},
        ]}))
        .await;
        assert!(create(&server.http).await.is_none());
        assert!(listed(&server.http).await.is_empty());
        assert!(create(&server.http).await.is_none());
        assert_eq!(listed(&server.http).await.len(), 1);
    }
}

#[tokio::test]
async fn an_effect_comes_later_and_lists_lag_behind_it() {
    let server = with_faults(json!({"list_lag": 0.3, "rules": [
        {"on": ["create"], "times": 1, "fault": {"late": {"seconds": 0.3}}},
    ]}))
    .await;
    let http = &server.http;
    assert!(create(http).await.is_none());
    assert_eq!(counts(http).await, json!({}));
    while counts(http).await["createSandbox"] != 1 {
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    let effects = http.api(Method::GET, "/oncebox/effects", None).await.json();
    let effect = &effects["effects"][0];
    assert_eq!(
        (&effect["operation"], &effect["intent"], &effect["count"]),
        (&json!("createSandbox"), &json!("abc"), &json!(1))
    );
    while listed(http).await.is_empty() {
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    // The lag is a promise about the list: by now the sandbox is older than it.
    let listed = listed(http).await;
    assert_eq!(listed[0]["sandboxID"], effect["sandbox"]);
}

#[tokio::test]
async fn a_list_may_ignore_its_filter_and_omit_metadata() {
    let server = with_faults(json!({"filter": "ignored"})).await;
    let http = &server.http;
    create(http).await.unwrap();
    let filtered = "/v2/sandboxes?metadata=n%3D2&state=running";
    assert_eq!(http.api(Method::GET, filtered, None).await.json().as_array().unwrap().len(), 1);
    put(http, json!({"list_metadata": "omitted"})).await;
    assert_eq!(http.api(Method::GET, filtered, None).await.json(), json!([]));
    assert!(listed(http).await[0].get("metadata").is_none());
}

#[tokio::test]
async fn v2_may_be_missing_and_creates_limited() {
    let server = with_faults(json!({"v2_missing": 405})).await;
    let http = &server.http;
    create(http).await.unwrap().error(405);
    assert_eq!(http.api(Method::POST, "/sandboxes", base()).await.status, 201);
    put(http, json!({"create_limit": {"per_second": 0.1, "burst": 1}})).await;
    let granted = create(http).await.unwrap();
    assert_eq!((granted.status.as_u16(), &granted.headers["ratelimit-remaining"]), (201, &"0".parse().unwrap()));
    let limited = create(http).await.unwrap();
    assert_eq!(limited.error(429), "Rate limit exceeded");
    let seconds: u64 = limited.headers["retry-after"].to_str().unwrap().parse().unwrap();
    assert!((1..=10).contains(&seconds), "{seconds}");
    assert_eq!(limited.headers["ratelimit-policy"], "\"create\";q=1;w=10");
    assert!(limited.headers["ratelimit"].to_str().unwrap().starts_with("\"create\";r=0;t="));
}

#[tokio::test]
async fn what_happens_in_a_sandbox_is_counted_and_what_fails_is_not() {
    let server = plain().await;
    let http = &server.http;
    let sandbox = server.sandbox().await;
    assert_eq!(sandbox.run("true").await.code(), 0);
    let mut nowhere = shell("true");
    nowhere["process"]["cwd"] = "/no/such/place".into();
    let mut events = sandbox.events("process.Process/Start", &[], nowhere).await;
    assert!(events.next().await.is_none() && events.error.is_some());
    sandbox.write("a", "x").await;
    sandbox.write("a", "y").await;
    let path = format!("/sandboxes/{}", sandbox.id);
    assert_eq!(http.api(Method::DELETE, &path, None).await.status, 204);
    assert_eq!(http.api(Method::DELETE, &path, None).await.status, 404);
    let told = http.api(Method::GET, "/oncebox/effects", None).await.json();
    assert_eq!(
        told["counts"],
        json!({"createSandbox": 1, "killSandbox": 1, "processStart": 1, "writeFiles": 2}),
        "{told}"
    );
    assert!(told["effects"].as_array().unwrap().iter().all(|effect| effect["sandbox"] == sandbox.id));
    http.api(Method::DELETE, "/oncebox/effects", None).await;
    assert_eq!(counts(http).await, json!({}));
}
