//! The rest of the control plane against what the local server really does.

use std::time::Duration;

use futures_util::TryStreamExt;
use oncebox::transport::policy::Purpose;
use oncebox::{CallOptions, Client, ErrorKind, NetworkUpdate, Pause, Paused, Sandbox, SandboxState};
use serde_json::{Value, json};

use super::support::{SETTLE, Server, cut, status};

async fn sandbox() -> (Server, Client, Sandbox) {
    let server = Server::start().await;
    let client = server.client();
    let sandbox = Sandbox::create(&client).metadata("task", "1").lifetime(Duration::from_secs(600)).await.unwrap();
    sandbox.files().write("state", "first").await.unwrap();
    (server, client, sandbox)
}

/// The next call of this operation loses its answer; its effect is there.
async fn lose(server: &Server, operation: &str) {
    server.faults(json!({"rules": [{"on": [operation], "times": 1, "fault": cut("after")}]})).await;
}

#[tokio::test]
async fn a_strict_pause_and_what_wakes_from_it() {
    let (_server, client, sandbox) = sandbox().await;
    assert_eq!(sandbox.pause(Pause::full().strict()).await.unwrap(), Paused::Now);
    let paused = Sandbox::list(&client).state(SandboxState::Paused).await.unwrap();
    assert_eq!(paused.iter().map(|info| info.id.as_str()).collect::<Vec<_>>(), [sandbox.id()]);
    let woken = Sandbox::connect(&client, sandbox.id()).await.unwrap();
    assert_eq!(woken.files().read_text("state").await.unwrap(), "first");
    woken.kill().await.unwrap();
    assert_eq!(sandbox.pause(Pause::full()).await.unwrap_err().kind(), ErrorKind::NotFound);
    client.close().await;
}

#[tokio::test]
async fn forks_have_files_of_their_own() {
    let (server, client, sandbox) = sandbox().await;
    let forks: Vec<Sandbox> =
        sandbox.fork(2, Some(Duration::from_secs(300))).await.unwrap().into_iter().map(Result::unwrap).collect();
    forks[0].files().write("state", "second").await.unwrap();
    for (of, text) in [(&sandbox, "first"), (&forks[0], "second"), (&forks[1], "first")] {
        assert_eq!(of.files().read_text("state").await.unwrap(), text);
        assert_eq!(of.info().await.unwrap().metadata["task"], "1");
    }
    forks[0].kill().await.unwrap();
    assert!(sandbox.is_running().await.unwrap() && forks[1].is_running().await.unwrap());
    lose(&server, "forkSandbox").await;
    let error = sandbox.fork(1, Some(Duration::from_secs(300))).await.unwrap_err();
    assert!(error.outcome_unknown() && error.attempts().len() == 1, "{error}");
    // A Date has whole seconds: the forks of a moment ago may be among them.
    let new = error.candidates().iter().filter(|id| forks.iter().all(|fork| fork.id() != *id));
    let new: Vec<_> = new.collect();
    let [candidate] = new[..] else { panic!("{error}") };
    assert!(error.to_string().contains("it may have made ") && error.to_string().contains(candidate), "{error}");
    let lost = Sandbox::connect(&client, candidate).await.unwrap();
    assert_eq!(lost.files().read_text("state").await.unwrap(), "first");
    assert_eq!(server.counts().await["forkSandbox"], 2);
}

#[tokio::test]
async fn a_snapshot_keeps_what_was_and_makes_sandboxes() {
    let (server, client, sandbox) = sandbox().await;
    let taken = sandbox.snapshot(Some("kept")).await.unwrap();
    sandbox.files().write("state", "later").await.unwrap();
    let made = Sandbox::create(&client).template(&taken.id).await.unwrap();
    assert_eq!(made.files().read_text("state").await.unwrap(), "first");
    // The tag of its own create, not the parent's.
    assert_eq!(server.alive().await[sandbox.intent().unwrap()], [sandbox.id()]);
    lose(&server, "createSnapshot").await;
    let error = sandbox.snapshot(None).await.unwrap_err();
    assert!(error.outcome_unknown(), "{error}");
    let listed = client.snapshots(Some(sandbox.id())).await.unwrap();
    let others: Vec<_> = listed.iter().filter(|snapshot| **snapshot != taken).map(|snapshot| &snapshot.id).collect();
    assert_eq!(error.candidates().iter().collect::<Vec<_>>(), others);
    assert_eq!((others.len(), listed.len()), (1, 2));
    assert!(client.delete_snapshot(&taken.id).await.unwrap());
    assert!(!client.delete_snapshot(&taken.id).await.unwrap());
    assert!(Sandbox::create(&client).template(&taken.id).await.unwrap_err().is_not_found());
}

#[tokio::test]
async fn metrics_network_and_a_log_that_is_followed_to_its_end() {
    let (_server, client, sandbox) = sandbox().await;
    let metrics = sandbox.metrics(None, None).await.unwrap();
    assert!(metrics.iter().all(|metric| metric.disk_total > 0) && !metrics.is_empty(), "{metrics:?}");
    let old = "2020-01-01T00:00:00Z".parse().unwrap();
    assert!(sandbox.metrics(None, Some(old)).await.unwrap().is_empty());
    sandbox.update_network(&NetworkUpdate::default()).await.unwrap();
    // Without a network of its own there is nothing to shut out with, and the server says so.
    let denied = NetworkUpdate { allow_internet_access: Some(false), ..Default::default() };
    let error = sandbox.update_network(&denied).await.unwrap_err();
    assert!(error.kind() == ErrorKind::InvalidArgument && error.to_string().contains("without a network"), "{error}");

    let mut log = Box::pin(sandbox.follow_logs(None, Duration::from_millis(20)));
    let mut told = vec![log.try_next().await.unwrap().unwrap()];
    sandbox.set_timeout(Duration::from_secs(500)).await.unwrap();
    sandbox.pause(Pause::full()).await.unwrap();
    Sandbox::connect(&client, sandbox.id()).await.unwrap();
    let all = sandbox.logs(None).await.unwrap();
    while told.len() < all.len() {
        told.push(log.try_next().await.unwrap().unwrap());
    }
    assert_eq!(told, all);
    assert!(told.len() >= 3, "{told:?}");
    sandbox.kill().await.unwrap();
    // What was still said, and then the end.
    let _: Vec<_> = log.try_collect().await.unwrap();
    let gone = Box::pin(sandbox.follow_logs(None, Duration::ZERO)).try_next().await;
    assert!(gone.unwrap_err().is_not_found());
}

#[tokio::test]
async fn keys_are_made_used_renamed_and_deleted() {
    let server = Server::start().await;
    let client = server.client();
    let account = client.account();
    let made = account.create_api_key("ci").await.unwrap();
    let other = client.with(CallOptions::new().api_key(made.key.expose())).unwrap();
    assert!(Sandbox::list(&other).await.unwrap().is_empty());
    account.rename_api_key(&made.id, "cd").await.unwrap();
    let names = |keys: Vec<oncebox::ApiKey>| keys.into_iter().map(|key| key.name).collect::<Vec<_>>();
    assert_eq!(names(account.api_keys().await.unwrap()), ["cd"]);

    // The answer with the secret is lost: that key is deleted, and one is made whose secret is known.
    lose(&server, "createApiKey").await;
    let again = account.create_api_key("ci").await.unwrap();
    let listed = account.api_keys().await.unwrap();
    assert_eq!((listed.len(), server.counts().await["createApiKey"].clone()), (2, json!(3)));
    assert!(listed.iter().any(|key| key.id == again.id));

    // One of this name was there before: nothing is deleted on a guess.
    lose(&server, "createApiKey").await;
    let error = account.create_api_key("ci").await.unwrap_err();
    assert!(error.outcome_unknown() && error.candidates().len() == 1, "{error}");
    assert!(error.candidates()[0] != again.id);
    assert_eq!(account.api_keys().await.unwrap().len(), 3);

    // Lost on the way there: made once it was found absent.
    server.faults(json!({"rules": [{"on": ["createApiKey"], "times": 1, "fault": cut("before")}]})).await;
    account.create_api_key("new").await.unwrap();
    // And never, when it is lost each time.
    server.faults(json!({"rules": [{"on": ["createApiKey"], "fault": status(502, "after")}]})).await;
    let few = client.with(CallOptions::new().retries(1)).unwrap();
    let error = few.account().create_api_key("never").await.unwrap_err();
    assert!(error.kind() == ErrorKind::NotDone && !error.may_have_been_processed(), "{error}");
    assert!(!names(account.api_keys().await.unwrap()).contains(&"never".to_owned()));
    assert!(account.delete_api_key(&made.id).await.unwrap());
    assert!(!account.delete_api_key(&made.id).await.unwrap());
    assert_eq!(account.teams().await.unwrap().len(), 1);
}

/// What another process makes under that name is deleted on no guess: two are there, or one that was there before.
#[tokio::test]
async fn keys_that_others_make_while_one_is_lost_are_not_deleted() {
    let lost = json!({"rules": [{"on": ["createApiKey"], "times": 1, "fault": cut("before")}]});
    let server = Server::with_faults(lost).await;
    let (client, other) = (server.client(), server.client());
    let account = client.account();
    let others = async {
        // Once the first request is lost.
        while server.send(http::Method::GET, "/oncebox/faults", String::new()).await.1["fired"] != json!([1]) {
            tokio::task::yield_now().await;
        }
        let account = other.account();
        [account.create_api_key("k").await.unwrap().id, account.create_api_key("k").await.unwrap().id]
    };
    let (ended, mut others) = tokio::join!(account.create_api_key("k"), others);
    let error = ended.unwrap_err();
    let mut candidates = error.candidates().to_vec();
    candidates.sort_unstable();
    others.sort_unstable();
    assert!(error.outcome_unknown() && candidates == others, "{error}");
    assert_eq!(account.api_keys().await.unwrap().len(), 2);
}

#[tokio::test]
async fn a_call_that_looks_up_and_sends_again_stays_within_its_retries_and_look_ups() {
    let server = Server::start().await;
    for (retries, lookups, calls, looks, kind) in
        [(1, 16, 2, 6, ErrorKind::NotDone), (2, 16, 3, 6, ErrorKind::Busy), (3, 4, 4, 4, ErrorKind::NotDone)]
    {
        let alternately = [status(503, "before"), cut("before")].into_iter().cycle().take(12);
        let rule = |fault| json!({"on": ["createApiKey"], "times": 1, "fault": fault});
        server.faults(json!({"rules": alternately.map(rule).collect::<Vec<_>>()})).await;
        let client = server.client_at(&server.local.url(), |b| b.retries(retries).lookups(lookups));
        let error = client.account().create_api_key("k").await.unwrap_err();
        assert_eq!((error.kind(), error.may_have_been_processed()), (kind, false), "{error}");
        let count = |purpose| error.attempts().iter().filter(|attempt| attempt.purpose == purpose).count();
        assert_eq!((count(Purpose::Call), count(Purpose::LookUp)), (calls, looks), "{error}");
        // All of them, on one clock.
        let times: Vec<_> = error.attempts().iter().map(|attempt| attempt.started).collect();
        assert!(times.is_sorted() && *times.last().unwrap() >= SETTLE, "{error}");
        assert_eq!(server.fired().await, calls as u64, "{error}");
    }
}

#[tokio::test]
async fn a_list_that_was_asked_for_too_early_and_came_late_does_not_tell_that_nothing_was_made() {
    let late = json!({"on": ["createApiKey"], "times": 1, "fault": {"late": {"seconds": 0.6}}});
    let server = Server::with_faults(json!({"rules": [late]})).await;
    // The second list, the first after the loss, is as it was then.
    let when = json!({"method": "GET", "path": "/api-keys", "count": 2});
    let script = json!({"rules": [{"at": "processed", "when": when, "do": [{"wait": 1500}]}]});
    let script = oncebox_faults::Script::from_json(&script.to_string()).unwrap();
    let slow = oncebox_faults::Server::builder(script).proxy_to(&server.local.url()).start().await.unwrap();
    let client = server.client_at(&slow.url(""), |b| b);
    let made = client.account().create_api_key("k").await.unwrap();
    let there: Vec<_> = client.account().api_keys().await.unwrap().into_iter().map(|key| key.id).collect();
    assert_eq!(there, [made.id]);
}

#[tokio::test]
async fn what_is_looked_up_until_the_deadline_is_not_sent_after_it() {
    let server = Server::start().await;
    let script = json!({"rules": [{"at": "request", "when": {"method": "GET"}, "do": [{"wait": 5000}]}]});
    let script = oncebox_faults::Script::from_json(&script.to_string()).unwrap();
    let slow = oncebox_faults::Server::builder(script).proxy_to(&server.local.url()).start().await.unwrap();
    let client = server.client_at(&slow.url(""), |b| b.request_timeout(Duration::from_millis(300)));
    for error in [
        client.account().create_api_key("k").await.unwrap_err(),
        client.account().create_webhook(&json!({"name": "h", "url": "http://127.0.0.1:9/"})).await.unwrap_err(),
        oncebox::Volume::create(&client, "v").await.unwrap_err(),
        oncebox::Secret::create(&client, "s", "x").await.unwrap_err(),
        oncebox::Secret::update(&client, "s", "x").await.unwrap_err(),
    ] {
        assert_eq!((error.kind(), error.may_have_been_processed()), (ErrorKind::Timeout, false), "{error}");
        assert!(error.attempts().iter().all(|attempt| attempt.purpose == Purpose::LookUp), "{error}");
    }
    assert!(server.client().account().api_keys().await.unwrap().is_empty());
}

#[tokio::test]
async fn what_cannot_be_found_by_a_name_is_not_made_again() {
    let server = Server::with_faults(json!({"rules": [{"on": ["createWebhook"], "fault": cut("before")}]})).await;
    let hook = json!({"url": "http://127.0.0.1:9/", "events": ["sandbox.lifecycle.created"]});
    let error = server.client().account().create_webhook(&hook).await.unwrap_err();
    assert!(error.outcome_unknown(), "{error}");
    assert_eq!(server.fired().await, 1);
}

#[tokio::test]
async fn a_key_that_was_seen_and_cannot_be_looked_at_again_is_a_candidate() {
    let lists = json!({"on": ["listApiKeys"], "skip": 2, "fault": status(503, "before")});
    let lost = json!({"on": ["createApiKey"], "times": 1, "fault": cut("after")});
    let server = Server::with_faults(json!({"rules": [lost, lists]})).await;
    let error =
        server.client_at(&server.local.url(), |b| b.lookups(5)).account().create_api_key("k").await.unwrap_err();
    server.faults(json!({"rules": []})).await;
    let there: Vec<_> = server.client().account().api_keys().await.unwrap().into_iter().map(|key| key.id).collect();
    assert!(error.outcome_unknown() && there.len() == 1, "{error}");
    assert_eq!(error.candidates(), there);
}

/// The one whose request was lost finds a new key of its name: the other's, which somebody has by then.
#[tokio::test]
async fn two_keys_of_one_name_at_once_are_both_there_however_one_is_lost() {
    for when in ["before", "after"] {
        let lost = json!({"rules": [{"on": ["createApiKey"], "times": 1, "fault": cut(when)}]});
        let server = Server::with_faults(lost).await;
        let client = server.client();
        let account = client.account();
        let ends = tokio::join!(account.create_api_key("k"), account.create_api_key("k"));
        let mut made: Vec<_> = [ends.0, ends.1].into_iter().map(|end| end.unwrap().id).collect();
        let mut there: Vec<_> = account.api_keys().await.unwrap().into_iter().map(|key| key.id).collect();
        made.sort_unstable();
        there.sort_unstable();
        assert_eq!(there, made, "{when}");
    }
}

#[tokio::test]
async fn webhooks_are_made_once_and_events_tell_what_happened() {
    let server = Server::start().await;
    let client = server.client();
    let account = client.account();
    let hook = |name: &str| json!({"name": name, "url": "http://127.0.0.1:9/", "events": ["sandbox.lifecycle.created"], "enabled": false});
    let made = account.create_webhook(&hook("one")).await.unwrap();
    lose(&server, "createWebhook").await;
    let adopted = account.create_webhook(&hook("two")).await.unwrap();
    assert_eq!((&adopted["name"], adopted["id"] == made["id"]), (&json!("two"), false));
    assert_eq!(server.counts().await["createWebhook"], 2);
    assert_eq!(account.webhooks().await.unwrap().len(), 2);
    lose(&server, "createWebhook").await;
    let error = account.create_webhook(&hook("two")).await.unwrap_err();
    assert!(error.outcome_unknown() && error.candidates().len() == 1, "{error}");
    assert!(account.delete_webhook(made["id"].as_str().unwrap()).await.unwrap());
    assert!(!account.delete_webhook(made["id"].as_str().unwrap()).await.unwrap());

    let sandbox = Sandbox::create(&client).await.unwrap();
    sandbox.kill().await.unwrap();
    Sandbox::create(&client).await.unwrap();
    let of_one = account.events(Some(sandbox.id()), 10).await.unwrap();
    let kinds: Vec<&str> = of_one.as_array().unwrap().iter().filter_map(|event| event["type"].as_str()).collect();
    assert_eq!(kinds, ["sandbox.lifecycle.killed", "sandbox.lifecycle.created"]);
    assert_eq!(account.events(None, 2).await.unwrap().as_array().map(Vec::len), Some(2));
    assert_ne!(account.events(None, 1).await.unwrap()[0]["sandboxId"], Value::from(sandbox.id()));
}
