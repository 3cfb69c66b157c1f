//! Single creates, each with the fault that it is about.

use std::future::IntoFuture;
use std::time::Duration;

use oncebox::{CallOptions, Came, ErrorKind, IdempotencyKeys, Killed, Sandbox};
use serde_json::{Value, json};

use super::support::{SETTLE, Server, cut, on_create, status};

fn rules(rules: &[Value]) -> Value {
    json!({ "rules": rules })
}

#[tokio::test]
async fn a_lost_answer_is_looked_up_and_its_sandbox_adopted() {
    let server = Server::with_faults(rules(&[on_create(1, cut("after"))])).await;
    let client = server.client();
    let sandbox = Sandbox::create(&client).metadata("task", "1").await.unwrap();
    assert_eq!(sandbox.came(), Came::Adopted);
    // It has its tokens.
    assert_eq!(sandbox.commands().run("echo here").await.unwrap().stdout_text(), "here\n");
    assert_eq!(server.counts().await["createSandbox"], 1);
    assert!(client.close().await.is_empty());
    assert_eq!(server.alive().await.len(), 1);
}

#[tokio::test]
async fn a_request_that_was_lost_is_sent_again_once_nothing_is_there() {
    let server = Server::with_faults(rules(&[on_create(1, cut("before"))])).await;
    let client = server.client();
    let sandbox = Sandbox::create(&client).await.unwrap();
    assert_eq!(sandbox.came(), Came::Created);
    assert_eq!(server.counts().await["createSandbox"], 1);
    assert!(client.close().await.is_empty());
}

#[tokio::test]
async fn an_effect_that_comes_late_is_waited_for() {
    let late = json!({"late": {"seconds": 0.4, "answer": {"code": 504}}});
    let server = Server::with_faults(json!({"list_lag": 0.2, "rules": [on_create(1, late)]})).await;
    let client = server.client();
    let sandbox = Sandbox::create(&client).await.unwrap();
    assert_eq!(sandbox.came(), Came::Adopted);
    client.close().await;
    assert_eq!(server.alive().await[sandbox.intent().unwrap()], [sandbox.id()]);
    assert_eq!(server.counts().await["createSandbox"], 1);
}

#[tokio::test]
async fn a_busy_server_is_asked_again_and_its_last_word_is_the_error() {
    let busy = json!({"status": {"code": 503, "headers": {"Retry-After": "0"}}});
    let server = Server::with_faults(rules(&[on_create(4, busy)])).await;
    let client = server.client();
    let error = Sandbox::create(&client).await.unwrap_err();
    assert!(error.is_busy() && !error.may_have_been_processed(), "{error}");
    assert_eq!((error.status(), error.attempts().len()), (Some(503), 4));
    let text = error.to_string();
    assert!(text.contains("4 attempts:\n  1. at ") && text.contains("retries"), "{text}");
    assert!(Sandbox::create(&client).await.is_ok());
    client.close().await;
}

#[tokio::test]
async fn an_answer_after_the_deadline_ends_unknown_and_resolves_from_elsewhere() {
    let late = json!({"late": {"seconds": 0.5}});
    let server = Server::with_faults(rules(&[on_create(1, late)])).await;
    let client = server.client();
    let error = Sandbox::create(&client).request_timeout(Duration::from_millis(300)).await.unwrap_err();
    assert!(error.outcome_unknown() && error.may_have_been_processed(), "{error}");
    let intent = error.intent().unwrap().to_owned();
    assert!(error.to_string().contains(&intent) && error.to_string().contains("request_timeout"), "{error}");
    let found = server.client().resolve(&intent).await.unwrap().expect("it was made");
    assert_eq!(found.came(), Came::Adopted);
    assert!(server.client().resolve("00000000000000000000000000000000").await.unwrap().is_none());
    assert_eq!(server.client().resolve("x").await.unwrap_err().kind(), ErrorKind::InvalidArgument);
}

#[tokio::test]
async fn a_create_that_ended_unknown_and_is_asked_for_again_at_once_makes_one_sandbox() {
    // Its answer is lost, and its effect comes when it has ended. The server knows no keys.
    let late = json!({"late": {"seconds": 0.6, "answer": {"code": 504}}});
    let settle = Duration::from_secs(8);
    for intent in [None, Some("0123456789abcdef0123456789abcdef")] {
        let server = Server::with_faults(json!({"keys": "ignored", "rules": [on_create(1, late.clone())]})).await;
        let client = server.client_at(&server.local.url(), |builder| builder.settle(settle));
        let first = Sandbox::create(&client).request_timeout(Duration::from_millis(250));
        let first = if let Some(intent) = intent { first.intent(intent) } else { first };
        let error = first.await.unwrap_err();
        assert!(error.outcome_unknown(), "{error}");
        let intent = error.intent().unwrap().to_owned();
        let create = || Sandbox::create(&client).intent(&intent);
        // One that has no time to find out leaves what was lost before it to the next.
        if let Err(error) = create().request_timeout(Duration::from_millis(50)).await {
            assert!(error.outcome_unknown(), "{error}");
        }
        let sandbox = create().await.unwrap();
        assert_eq!(sandbox.came(), Came::Adopted);
        assert_eq!(server.alive().await[&intent], [sandbox.id()]);
        assert_eq!(server.counts().await["createSandbox"], 1);
        // It is known by now what became of that send: one look is enough again.
        sandbox.kill().await.unwrap();
        let began = std::time::Instant::now();
        assert_eq!(create().await.unwrap().came(), Came::Created);
        assert!(began.elapsed() < settle / 2, "{:?}", began.elapsed());
        assert!(client.close().await.is_empty());
    }
}

#[tokio::test]
async fn a_create_that_did_nothing_and_ended_unknown_is_sent_when_that_is_settled() {
    let server = Server::with_faults(json!({"keys": "ignored", "rules": [on_create(1, cut("before"))]})).await;
    let client = server.client();
    let began = std::time::Instant::now();
    let error = Sandbox::create(&client).request_timeout(Duration::from_millis(250)).await.unwrap_err();
    let sandbox = Sandbox::create(&client).intent(error.intent().unwrap()).await.unwrap();
    assert_eq!(sandbox.came(), Came::Created);
    assert!(began.elapsed() >= SETTLE, "{:?}", began.elapsed());
    assert!(client.close().await.is_empty());
    assert_eq!(server.counts().await["createSandbox"], 1);
}

#[tokio::test]
async fn calls_with_one_intent_make_one_sandbox() {
    let intent = "0123456789abcdef0123456789abcdef";
    let server = Server::with_faults(json!({"rules": [{"on": ["create"], "fault": {"latency": 0.1}}]})).await;
    let client = server.client();
    let create = || Sandbox::create(&client).intent(intent);
    let (one, two) = tokio::join!(create(), create());
    assert_eq!(one.unwrap().id(), two.unwrap().id());
    // And later, and from another process.
    let again = Sandbox::create(&server.client()).intent(intent).await.unwrap();
    assert_eq!(again.came(), Came::Adopted);
    assert_eq!(server.counts().await["createSandbox"], 1);
    let other = tokio::join!(Sandbox::create(&client).intent(intent.replace('0', "1")), async {
        tokio::task::yield_now().await;
        Sandbox::create(&client).intent(intent.replace('0', "1")).metadata("other", "options").await
    });
    assert_eq!(other.1.unwrap_err().kind(), ErrorKind::IntentMismatch);
    other.0.unwrap();
}

#[tokio::test]
async fn a_call_counts_in_its_deadline_how_long_it_waits_for_another_of_its_intent() {
    let intent = "0123456789abcdef0123456789abcdef";
    // Both sends have their effect: what is killed at once is swept for `settle` and more.
    let server = Server::with_faults(json!({"keys": "ignored", "rules": [on_create(1, status(503, "after"))]})).await;
    let client = server.client();
    let create = || Sandbox::create(&client).intent(intent);
    create().await.unwrap().kill().await.unwrap();
    let error = create().request_timeout(SETTLE / 4).await.unwrap_err();
    assert_eq!((error.kind(), error.intent()), (ErrorKind::Timeout, Some(intent)));
    assert!(error.to_string().contains("request_timeout") && !error.may_have_been_processed(), "{error}");
    // While the sweep goes on nothing was sent.
    assert_eq!(server.counts().await["createSandbox"], 2);

    // One that joins another keeps a deadline of its own, and leaves the other alone.
    let intent = "00112233445566778899aabbccddeeff";
    let create = || Sandbox::create(&client).intent(intent);
    server.faults(json!({"rules": [{"on": ["create"], "fault": {"latency": 1.0}}]})).await;
    let (first, second) = tokio::join!(create().into_future(), async {
        tokio::task::yield_now().await;
        create().request_timeout(Duration::from_millis(50)).await
    });
    let error = second.unwrap_err();
    assert!(error.outcome_unknown() && error.intent() == Some(intent), "{error}");
    assert!(client.resolve(intent).await.unwrap().is_some_and(|found| found.id() == first.unwrap().id()));
}

#[tokio::test]
async fn a_create_that_is_dropped_leaves_nothing() {
    let server = Server::with_faults(json!({"rules": [{"on": ["create"], "fault": {"latency": 0.05}}]})).await;
    let client = server.client();
    // Before it is polled, and at moments before, while and after the server works on it.
    drop(Sandbox::create(&client).into_future());
    for after in [0, 1, 20, 50, 60, 80, 120] {
        let create = tokio::time::timeout(Duration::from_millis(after), Sandbox::create(&client));
        if let Ok(made) = create.await {
            made.unwrap().kill().await.unwrap();
        }
    }
    let left = client.close().await;
    assert!(left.is_empty(), "{left:?}");
    assert!(server.alive().await.is_empty());
}

#[tokio::test]
async fn what_fails_within_a_scope_takes_its_sandbox_with_it() {
    let server = Server::start().await;
    let client = server.client();
    let fails = |_: Sandbox| async { Err::<(), _>("no".to_owned()) };
    struct Told(String);
    impl From<oncebox::Error> for Told {
        fn from(error: oncebox::Error) -> Self {
            Self(error.to_string())
        }
    }
    let result = Sandbox::create(&client).scoped(|s| async { fails(s).await.map_err(Told) }).await;
    assert_eq!(result.unwrap_err().0, "no");
    let hangs = Sandbox::create(&client).scoped(|_| std::future::pending::<Result<(), Told>>());
    assert!(tokio::time::timeout(Duration::from_millis(500), hangs).await.is_err());
    let kept = Sandbox::create(&client).scoped(|s| async { Ok::<_, Told>(s) }).await;
    let kept = kept.map_err(|error| error.0).unwrap();
    assert!(client.close().await.is_empty());
    let alive: Vec<_> = server.alive().await.into_values().flatten().collect();
    assert_eq!(alive, [kept.id()]);
}

#[tokio::test]
async fn a_server_without_v2_is_spoken_to_in_v1() {
    for missing in [404, 405] {
        let server = Server::with_faults(json!({"v2_missing": missing})).await;
        let client = server.client_at(&server.local.url(), |builder| builder.retries(0));
        let sandbox = Sandbox::create(&client).await.unwrap();
        let lifetime = sandbox.info().await.unwrap();
        // v1's own default is 15 seconds.
        assert!(lifetime.end_at.duration_since(lifetime.started_at).as_secs() > 200);
        let lost = json!({"v2_missing": missing, "rules": [on_create(1, cut("after"))]});
        server.faults(lost).await;
        assert_eq!(Sandbox::create(&client).await.unwrap().came(), Came::Adopted);
        let counts = server.counts().await;
        assert_eq!((&counts["createSandboxV1"], &counts["createSandbox"]), (&json!(2), &Value::Null));
        client.close().await;
    }
}

#[tokio::test]
async fn an_unknown_template_is_no_missing_version() {
    let server = Server::start().await;
    let client = server.client();
    let error = Sandbox::create(&client).template("no-such-template").await.unwrap_err();
    assert!(error.is_not_found() && !error.may_have_been_processed(), "{error}");
    server.faults(json!({"rules": [{"on": ["createSandboxV1"], "fault": {"cut": {}}}]})).await;
    assert!(Sandbox::create(&client).template("no-such-template").await.unwrap_err().is_not_found());
    let (_, told) = server.send(http::Method::GET, "/oncebox/faults", String::new()).await;
    assert_eq!(told["fired"], json!([0]), "v1 was asked");
}

#[tokio::test]
async fn lists_that_ignore_the_filter_or_omit_metadata_prove_nothing() {
    let server = Server::start().await;
    let strangers = server.client();
    for _ in 0..3 {
        Sandbox::create(&strangers).metadata("task", "theirs").await.unwrap();
    }
    server
        .faults(json!({"filter": "ignored", "rules": [on_create(1, cut("after")), on_create(1, cut("before"))]}))
        .await;
    let client = server.client();
    let adopted = Sandbox::create(&client).await.unwrap();
    let made = Sandbox::create(&client).await.unwrap();
    assert_eq!((adopted.came(), made.came()), (Came::Adopted, Came::Created));
    assert!(client.close().await.is_empty());
    server.faults(json!({"list_metadata": "omitted", "rules": [on_create(1, cut("after"))]})).await;
    let error = Sandbox::create(&client).await.unwrap_err();
    assert!(error.outcome_unknown(), "{error}");
    assert!(client.close().await.is_empty());
    let alive = server.alive().await;
    // Three strangers', two ours, and the one that nobody can tell.
    assert_eq!(alive.values().map(Vec::len).sum::<usize>(), 6);
}

#[tokio::test]
async fn an_effect_that_two_sends_had_is_swept_to_one() {
    // The trusted 503 lies: the first send had its effect.
    let server = Server::with_faults(rules(&[on_create(1, status(503, "after"))])).await;
    let client = server.client_at(&server.local.url(), |b| b.idempotency_keys(IdempotencyKeys::Ignored));
    let sandbox = Sandbox::create(&client).await.unwrap();
    assert_eq!(server.counts().await["createSandbox"], 2);
    assert!(client.close().await.is_empty());
    let alive = server.alive().await;
    let survivors = &alive[sandbox.intent().unwrap()];
    assert_eq!(survivors.len(), 1, "{alive:?}");
    if survivors[0] != sandbox.id() {
        assert_eq!(sandbox.superseded_by(), Some(&*survivors[0]));
        assert_eq!(sandbox.info().await.unwrap_err().kind(), ErrorKind::Superseded);
        assert_eq!(sandbox.commands().run("true").await.unwrap_err().kind(), ErrorKind::Superseded);
    }
}

#[tokio::test]
async fn a_double_does_not_outlive_the_kill_of_its_handle() {
    // Both sends had their effect. The handle is killed before the sweep, whose rule would keep the first.
    let server = Server::with_faults(json!({"keys": "ignored", "rules": [on_create(1, status(503, "after"))]})).await;
    let client = server.client();
    let sandbox = Sandbox::create(&client).await.unwrap();
    sandbox.kill().await.unwrap();
    Sandbox::create(&client)
        .scoped(|_| async { Err::<(), _>(oncebox::Error::clone(&error().await)) })
        .await
        .unwrap_err();
    assert_eq!(server.counts().await["createSandbox"], 3);
    assert!(client.close().await.is_empty());
    assert!(server.alive().await.is_empty());
}

/// Some error.
async fn error() -> oncebox::Error {
    Sandbox::connect(&Server::start().await.client(), "").await.unwrap_err()
}

#[tokio::test]
async fn a_kill_whose_answer_is_lost_was_by_an_earlier_attempt() {
    let lost = json!({"on": ["kill"], "times": 1, "fault": cut("after")});
    let server = Server::start().await;
    let client = server.client();
    let sandbox = Sandbox::create(&client).await.unwrap();
    server.faults(rules(&[lost])).await;
    assert_eq!(sandbox.kill().await.unwrap(), Killed::ByEarlierAttempt);
    assert_eq!(sandbox.kill().await.unwrap(), Killed::Already);
    assert_eq!(server.counts().await["killSandbox"], 1);
}

#[tokio::test]
async fn what_may_not_be_repeated_in_a_sandbox_ends_unknown_at_once() {
    let server = Server::start().await;
    let client = server.client();
    let sandbox = Sandbox::create(&client).await.unwrap();
    sandbox.files().write("a", "x").await.unwrap();
    let lost = |operation: &str| json!({"on": [operation], "times": 1, "fault": cut("after")});
    server.faults(rules(&[lost("filesystemMakeDir"), lost("filesystemMove")])).await;
    for error in [sandbox.files().make_dir("d").await.unwrap_err(), sandbox.files().rename("a", "b").await.unwrap_err()]
    {
        assert!(error.outcome_unknown(), "{error}");
        assert_eq!(error.attempts().len(), 1);
    }
    let counts = server.counts().await;
    assert_eq!((&counts["filesystemMakeDir"], &counts["filesystemMove"]), (&json!(1), &json!(1)));
}

#[tokio::test]
async fn a_resolve_meanwhile_does_not_let_a_second_create_with_the_intent_begin() {
    let slow = json!({"on": ["create"], "times": 1, "fault": {"latency": [1.0, 1.0]}});
    let server = Server::with_faults(json!({"rules": [slow], "keys": "ignored"})).await;
    let client = server.client_at(&server.local.url(), |b| b.idempotency_keys(IdempotencyKeys::Ignored));
    let intent = "0123456789abcdef0123456789abcdef";
    let (first, second) = tokio::join!(Sandbox::create(&client).intent(intent).into_future(), async {
        while server.fired().await == 0 {
            tokio::task::yield_now().await;
        }
        let short = client.with(CallOptions::new().request_timeout(Duration::from_millis(200))).unwrap();
        assert!(short.resolve(intent).await.unwrap_err().outcome_unknown());
        Sandbox::create(&client).intent(intent).await
    });
    assert_eq!(first.unwrap().id(), second.unwrap().id());
    assert_eq!(server.counts().await["createSandbox"], 1);
    client.close().await;
}

#[tokio::test]
async fn a_create_that_is_asked_for_again_with_its_intent_is_not_swept_by_the_one_before() {
    let lost = json!({"on": ["create"], "times": 2, "fault": cut("before")});
    let server = Server::with_faults(json!({"rules": [lost], "keys": "ignored"})).await;
    let client = server.client_at(&server.local.url(), |b| b.retries(1).idempotency_keys(IdempotencyKeys::Ignored));
    let error = Sandbox::create(&client).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotDone, "{error}");
    let intent = error.intent().unwrap().to_owned();
    let made = Sandbox::create(&client).intent(&intent).await.unwrap();
    assert!(client.close().await.is_empty());
    assert_eq!(server.alive().await[&intent], [made.id()]);
    assert_eq!(made.superseded_by(), None);
}
