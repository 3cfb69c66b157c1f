//! Requests with an idempotency key are carried out once.

use http::Method;
use serde_json::json;

use super::support::{Fixture, Reply, isolated, isolated_with, plain};

const CREATE: &str = "/v2/sandboxes";

async fn keyed(server: &Fixture, key: &str, body: String) -> Reply {
    server.http.send(Method::POST, CREATE, &[("x-api-key", "k"), ("idempotency-key", key)], body).await
}

#[tokio::test]
async fn of_many_at_once_with_one_key_one_is_carried_out() {
    let Some(server) = isolated("of_many_at_once_with_one_key_one_is_carried_out").await else { return };
    let mut sent = tokio::task::JoinSet::new();
    for _ in 0..20 {
        let http = server.http.clone();
        sent.spawn(async move {
            let body = json!({ "templateID": "base" }).to_string();
            http.send(Method::POST, CREATE, &[("x-api-key", "k"), ("idempotency-key", "one-key")], body).await
        });
    }
    let replies: Vec<Reply> = sent.join_all().await;
    let (made, waiting): (Vec<_>, Vec<_>) = replies.iter().partition(|reply| reply.status == 201);
    assert!(!made.is_empty());
    assert!(made.iter().all(|reply| reply.body == made[0].body), "all are told the same");
    for reply in waiting {
        reply.error(409);
        assert_eq!(reply.json()["error_code"], "idempotency_in_progress");
    }
    assert_eq!(server.http.api(Method::GET, CREATE, None).await.json().as_array().unwrap().len(), 1);

    let send = |key: &'static str, body: &'static str| keyed(&server, key, body.to_owned());
    let again = send("one-key", r#"{"templateID":"base","unknown":1}"#).await;
    assert_eq!((again.status.as_u16(), &again.body), (201, &made[0].body));
    assert_eq!(again.headers["content-type"], "application/json");
    let other = send("one-key", r#"{"templateID":"base","timeout":9}"#).await;
    other.error(409);
    assert_eq!(other.json()["error_code"], "idempotency_request_mismatch");
    for bad in ["A", "", "a_b"] {
        send(bad, r#"{"templateID":"base"}"#).await.error(400);
    }
    assert_eq!(server.http.api(Method::GET, CREATE, None).await.json().as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn refusals_are_kept_too() {
    let Some(server) = isolated_with("refusals_are_kept_too", |builder| builder.max_sandboxes(1)).await else { return };
    let sandbox = server.sandbox().await;
    let body = json!({ "templateID": "base" }).to_string();
    let send = |key: &'static str| keyed(&server, key, body.clone());
    send("full").await.error(429);
    server.http.api(Method::DELETE, &format!("/sandboxes/{}", sandbox.id), None).await;
    send("full").await.error(429);
    assert_eq!(send("another").await.status, 201);
}

#[tokio::test]
async fn a_client_that_goes_away_is_told_the_outcome_when_it_comes_again() {
    let test = "a_client_that_goes_away_is_told_the_outcome_when_it_comes_again";
    let Some(server) = isolated(test).await else { return };
    let body = json!({ "templateID": "base" }).to_string();
    let headers = [("x-api-key", "k"), ("idempotency-key", "gone")];
    let first = server.http.send(Method::POST, CREATE, &headers, body.clone());
    // Dropped at the first wait: the request is sent, or it is not.
    let _ = tokio::time::timeout(std::time::Duration::from_millis(5), first).await;
    let made = loop {
        let reply = server.http.send(Method::POST, CREATE, &headers, body.clone()).await;
        if reply.status == 201 {
            break reply;
        }
        assert_eq!((reply.error(409), &reply.json()["error_code"]).1, "idempotency_in_progress");
    };
    let list = server.http.api(Method::GET, CREATE, None).await.json();
    assert_eq!((list.as_array().unwrap().len(), &list[0]["sandboxID"]), (1, &made.json()["sandboxID"]));
}

#[tokio::test]
async fn keys_mean_nothing_where_they_are_not_honoured() {
    let server = plain().await;
    let send = || async {
        let body = json!({ "name": "a-key" }).to_string();
        server.http.send(Method::POST, "/api-keys", &[("x-api-key", "k"), ("idempotency-key", "k")], body).await
    };
    assert_ne!(send().await.json()["id"], send().await.json()["id"]);
}
