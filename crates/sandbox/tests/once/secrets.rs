//! Secrets: stored once, whatever happens to the answer, and never shown.

use std::collections::BTreeMap;

use futures_util::TryStreamExt;
use oncebox::{Client, ErrorKind, Sandbox, Secret, SecretInfo};
use serde_json::{Value, json};

use super::support::{Server, cut, status};

const VALUE: &str = "v3ry-s3cret-value";

async fn server(rules: Value) -> (Server, Client) {
    let server = Server::with_faults(json!({ "rules": rules })).await;
    let client = server.client();
    (server, client)
}

fn once(operation: &str, fault: Value) -> Value {
    json!({"on": [operation], "times": 1, "fault": fault})
}

async fn names(client: &Client) -> Vec<String> {
    let mut names: Vec<_> = Secret::list(client).await.unwrap().into_iter().map(|secret| secret.name).collect();
    names.sort_unstable();
    names
}

#[tokio::test]
async fn a_secret_is_stored_changed_found_and_deleted() {
    let (_server, client) = server(json!([])).await;
    let made = Secret::create(&client, "API_Token", VALUE).metadata("team", "blue").await.unwrap();
    assert_eq!((made.name.as_str(), made.version), ("api_token", 1));
    assert_eq!(made.metadata, BTreeMap::from([("team".to_owned(), "blue".to_owned())]));
    let updated = Secret::update(&client, "API_Token", "another").await.unwrap();
    assert_eq!((updated.id.as_str(), updated.version, &updated.metadata), (made.id.as_str(), 2, &made.metadata));
    assert!(updated.updated_at >= made.created_at && updated.created_at == made.created_at);
    let updated = Secret::update(&client, &made.id, "third").metadata("team", "red").await.unwrap();
    assert_eq!((updated.version, updated.metadata["team"].as_str()), (3, "red"));
    for key in [made.id.as_str(), "api_token", "API_TOKEN"] {
        assert_eq!(Secret::info(&client, key).await.unwrap(), updated);
        assert!(Secret::exists(&client, key).await.unwrap());
    }
    let error = Secret::create(&client, "api_token", VALUE).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    assert!(Secret::destroy(&client, "api_token").await.unwrap());
    assert!(!Secret::destroy(&client, "api_token").await.unwrap());
    assert!(!Secret::exists(&client, "api_token").await.unwrap());
    assert_eq!(Secret::info(&client, "api_token").await.unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(Secret::update(&client, "api_token", VALUE).await.unwrap_err().kind(), ErrorKind::NotFound);
}

#[tokio::test]
async fn a_list_comes_page_by_page_and_as_a_stream() {
    let (_server, client) = server(json!([])).await;
    for number in 0..5 {
        Secret::create(&client, format!("s{number}"), VALUE).await.unwrap();
    }
    let mut pages = Secret::list(&client).page_size(2).pages();
    let mut sizes = Vec::new();
    while let Some(page) = pages.next().await.unwrap() {
        sizes.push(page.len());
    }
    assert_eq!(sizes, [2, 2, 1]);
    let streamed: Vec<SecretInfo> = Secret::list(&client).page_size(2).stream().try_collect().await.unwrap();
    assert_eq!(streamed.len(), 5);
    assert_eq!(names(&client).await, ["s0", "s1", "s2", "s3", "s4"]);
    assert_eq!(Secret::list(&client).page_size(101).await.unwrap_err().kind(), ErrorKind::InvalidArgument);
}

#[tokio::test]
async fn what_breaks_the_rules_is_refused_before_any_request() {
    // Whatever is sent fails otherwise.
    let (_server, client) = server(json!([{"fault": status(500, "before")}])).await;
    let long = "x".repeat(129);
    for bad in ["", "a b", "a/b", "..", "ü", &long] {
        let all = [
            Secret::create(&client, bad, VALUE).await.unwrap_err(),
            Secret::update(&client, bad, VALUE).await.unwrap_err(),
            Secret::info(&client, bad).await.unwrap_err(),
            Secret::exists(&client, bad).await.unwrap_err(),
            Secret::destroy(&client, bad).await.unwrap_err(),
        ];
        for error in all {
            assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{bad}: {error}");
            assert!(error.attempts().is_empty() && error.to_string().contains("1 to 128 letters"), "{error}");
        }
    }
    let error = Secret::create(&client, "a", VALUE).metadata("", "x").await.unwrap_err();
    assert!(error.attempts().is_empty() && error.to_string().contains("metadata"), "{error}");
}

#[tokio::test]
async fn a_create_whose_answer_was_lost_is_found_by_its_name() {
    let late = json!({"late": {"seconds": 0.4}});
    for (fault, sends) in
        [(cut("after"), 1), (status(504, "after"), 1), (status(500, "after"), 1), (late, 1), (cut("before"), 2)]
    {
        let (server, client) = server(json!([once("createSecret", fault.clone())])).await;
        // Others do not matter.
        Secret::create(&server.client_at(&server.local.url(), |b| b), "other", VALUE).await.ok();
        server.faults(json!({"rules": [once("createSecret", fault)]})).await;
        let before = names(&client).await.len();
        let made = Secret::create(&client, "Mine", VALUE).await.unwrap();
        assert_eq!((made.name.as_str(), made.version), ("mine", 1), "{sends}");
        assert_eq!(names(&client).await.len(), before + 1);
    }
}

#[tokio::test]
async fn what_had_the_name_before_is_not_taken_for_it() {
    let (server, client) = server(json!([])).await;
    Secret::create(&client, "mine", VALUE).await.unwrap();
    server.faults(json!({"rules": [once("createSecret", status(504, "after"))]})).await;
    // After the look-ups it is sent again, and then refused.
    let error = Secret::create(&client, "mine", "other").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    assert_eq!(Secret::info(&client, "mine").await.unwrap().version, 1);
    // The list before cannot be had: nobody can tell whose it is.
    let lists = json!({"on": ["listSecrets"], "times": 4, "fault": status(503, "before")});
    server.faults(json!({"rules": [lists, once("createSecret", cut("after"))]})).await;
    let error = Secret::create(&client, "new", VALUE).await.unwrap_err();
    assert!(error.outcome_unknown() && error.may_have_been_processed(), "{error}");
}

/// Lists that lag longer than `settle` have the create sent again, into the way of what the first one made.
#[tokio::test]
async fn what_the_first_attempt_made_is_found_when_it_is_in_the_way_of_the_second() {
    let nothing = json!({"on": ["listSecrets"], "times": 8, "fault": {"status": {"code": 200, "body": []}}});
    let (_server, client) = server(json!([nothing, once("createSecret", cut("after"))])).await;
    assert_eq!(Secret::create(&client, "mine", VALUE).await.unwrap().version, 1);
    assert_eq!(names(&client).await, ["mine"]);
}

#[tokio::test]
async fn an_update_whose_answer_was_lost_is_found_by_its_version() {
    let late = json!({"late": {"seconds": 0.4}});
    for fault in [cut("after"), status(504, "after"), late, cut("before")] {
        let (server, client) = server(json!([])).await;
        Secret::create(&client, "mine", VALUE).metadata("a", "b").await.unwrap();
        server.faults(json!({"rules": [once("updateSecret", fault.clone())]})).await;
        let updated = Secret::update(&client, "mine", "second").await.unwrap();
        assert_eq!((updated.version, updated.metadata["a"].as_str()), (2, "b"), "{fault}");
        assert_eq!(Secret::info(&client, "mine").await.unwrap().version, 2);
    }
}

#[tokio::test]
async fn a_version_that_another_may_have_made_is_a_candidate() {
    let (server, client) = server(json!([])).await;
    Secret::create(&client, "mine", VALUE).await.unwrap();
    server.faults(json!({"rules": [once("updateSecret", json!({"late": {"seconds": 0.6}}))]})).await;
    let other = server.client();
    let (ours, theirs) = tokio::join!(Secret::update(&client, "mine", "ours").metadata("by", "us"), async {
        // Not before ours was sent, and before its effect.
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
        Secret::update(&other, "mine", "theirs").await
    });
    assert_eq!(theirs.unwrap().version, 2);
    let error = ours.unwrap_err();
    assert!(error.outcome_unknown() && error.candidates().len() == 1, "{error}");
    assert!(error.candidates()[0].ends_with(" version 2"), "{error}");
}

#[tokio::test]
async fn a_server_that_repeats_a_value_is_not_repeated() {
    let body = json!({"code": 400, "message": format!("value {VALUE:?} is too weak")});
    let echo = json!({"status": {"code": 400, "body": body}});
    let odd = json!({"status": {"code": 201, "body": {"secretID": "s", "name": "n", "currentVersion": VALUE}}});
    for fault in [echo, odd] {
        let rule = |operation: &str| json!({"on": [operation], "fault": fault.clone()});
        let (server, client) = server(json!([])).await;
        Secret::create(&client, "mine", "first").await.unwrap();
        server.faults(json!({"rules": [rule("createSecret"), rule("updateSecret")]})).await;
        for error in [
            Secret::create(&client, "new", VALUE).await.unwrap_err(),
            Secret::update(&client, "mine", VALUE).await.unwrap_err(),
        ] {
            assert!(!format!("{error} {error:?}").contains(VALUE), "{error}");
            let mut source = std::error::Error::source(&error);
            while let Some(cause) = source {
                assert!(!format!("{cause} {cause:?}").contains(VALUE), "{cause}");
                source = cause.source();
            }
        }
    }
    // Of several lines, and where the server's words are too long to be shown.
    let key = format!("-----BEGIN KEY-----\n{}\n{}\n-----END KEY-----\n", "Ab1+".repeat(16), "/Cd2".repeat(16));
    for before in [0, 420, 470] {
        let message = format!("{} {key} is no key", "x".repeat(before));
        let (server, client) = server(json!([])).await;
        let echo = json!({"status": {"code": 400, "body": {"code": 400, "message": message}}});
        server.faults(json!({"rules": [{"on": ["createSecret"], "fault": echo}]})).await;
        let error = Secret::create(&client, "new", key.as_str()).await.unwrap_err();
        let told = format!("{error} {error:?}");
        for part in ["-BEGIN", "Ab1+Ab1+", "/Cd2/Cd2", "-END"] {
            assert!(!told.contains(part), "{before}: {told}");
        }
        assert!(told.contains("the server answered 400"), "{told}");
    }
    let create = Secret::create(&server(json!([])).await.1, "mine", VALUE);
    assert!(!format!("{create:?}").contains(VALUE));
}

#[tokio::test]
async fn a_server_that_repeats_the_key_or_a_creates_variables_is_not_repeated() {
    const KEY: &str = "e2b_0123456789abcdef";
    const TOKEN: &str = "0f-an-mcp-server";
    let message = format!("not {KEY}, {VALUE}, {TOKEN}");
    let said = |code: u16| json!({"status": {"code": code, "body": {"code": code, "message": message}}});
    let rules = json!([{"on": ["create"], "fault": said(400)}, {"on": ["list"], "fault": said(401)}]);
    let (server, _) = server(rules).await;
    let client = server.client_at(&server.local.url(), |b| b.api_key(KEY));
    let servers = json!({"github": {"env": [{"token": TOKEN}]}}).as_object().unwrap().clone();
    let create = Sandbox::create(&client).env("TOKEN", VALUE).env("WORD", "not").mcp(servers);
    let error = create.await.unwrap_err();
    let told = format!("{error} {error:?}");
    assert!(told.contains("the server answered 400: not …, …, …") && !told.contains(VALUE), "{told}");
    let error = Sandbox::list(&client).await.unwrap_err();
    let told = format!("{error} {error:?}");
    assert!(told.contains("the server answered 401: not …, ") && !told.contains(KEY), "{told}");
}
