//! What must hold whatever happens: copies are no doubles, foreigners stay, what was given up is gone.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use oncebox::{CallOptions, Came, IdempotencyKeys, Pause, Paused, Sandbox, SandboxState};
use serde_json::{Value, json};

use super::support::{Server, cut, on_create, status};

/// Where the child of a test finds its server, and the intent of its create.
const CHILD: [&str; 2] = ["ONCEBOX_TEST_CHILD_URL", "ONCEBOX_TEST_CHILD_INTENT"];

#[tokio::test]
async fn forks_of_an_adopted_sandbox_live_on() {
    let server = Server::with_faults(json!({"keys": "ignored", "rules": [on_create(1, cut("after"))]})).await;
    let client = server.client();
    let sandbox = Sandbox::create(&client).lifetime(Duration::from_secs(600)).await.unwrap();
    assert_eq!(sandbox.came(), Came::Adopted);
    let fork = sandbox.fork(1, Some(Duration::from_secs(600))).await.unwrap().remove(0).unwrap();
    let intent = sandbox.intent().unwrap().to_owned();
    // The fork carries the same tag, as the protocol's forks do.
    assert_eq!(server.alive().await[&intent].len(), 2);
    for asks in [server.client(), client.clone()] {
        let found = asks.resolve(&intent).await.unwrap().unwrap();
        assert_eq!(found.id(), sandbox.id());
        let again = Sandbox::create(&asks).intent(&intent).await.unwrap();
        assert_eq!((again.came(), again.id()), (Came::Adopted, sandbox.id()));
        assert!(asks.close().await.is_empty());
    }
    let mut alive = server.alive().await.remove(&intent).unwrap();
    alive.sort_unstable();
    let mut both = [sandbox.id().to_owned(), fork.id().to_owned()];
    both.sort_unstable();
    assert_eq!(alive, both);
    assert_eq!(sandbox.superseded_by(), None);
}

#[tokio::test]
async fn a_fork_right_after_a_create_that_was_sent_twice_is_not_swept() {
    // The first send had no effect: the sweep has one kill to give, and the fork would be it.
    let server = Server::with_faults(json!({"keys": "ignored", "rules": [on_create(1, status(503, "before"))]})).await;
    let client = server.client();
    let sandbox = Sandbox::create(&client).await.unwrap();
    let fork = sandbox.fork(1, Some(Duration::from_secs(60))).await.unwrap().remove(0).unwrap();
    assert!(client.close().await.is_empty());
    let alive = &server.alive().await[sandbox.intent().unwrap()];
    assert!(alive.len() == 2 && alive.iter().any(|id| id == fork.id()), "{alive:?}");
}

#[tokio::test]
async fn an_intent_that_is_used_again_while_its_killed_sandbox_is_swept_makes_another_one() {
    let intent = "00112233445566778899aabbccddeeff";
    // Sent twice: the sweep goes on after the handle is given out.
    let server = Server::with_faults(json!({"keys": "ignored", "rules": [on_create(1, status(503, "before"))]})).await;
    let client = server.client();
    let first = Sandbox::create(&client).intent(intent).await.unwrap();
    first.kill().await.unwrap();
    let second = Sandbox::create(&client).intent(intent).await.unwrap();
    assert_eq!(second.came(), Came::Created);
    assert!(client.close().await.is_empty());
    assert_eq!(server.alive().await[intent], [second.id()]);
}

#[tokio::test]
async fn a_key_that_runs_out_between_a_lost_send_and_its_repeat_makes_no_double() {
    let rules = json!([on_create(1, cut("after")), on_create(1, status(401, "before"))]);
    for keys in [IdempotencyKeys::Honoured, IdempotencyKeys::Ignored] {
        let server = Server::with_faults(json!({"keys": "ignored", "rules": rules})).await;
        let client = server.client_at(&server.local.url(), |builder| {
            builder.idempotency_keys(keys).credentials(|| async { Ok("another".to_owned()) })
        });
        let sandbox = Sandbox::create(&client).await.unwrap();
        assert!(client.close().await.is_empty());
        // Where keys count for nothing there is no second send: the look-up finds the first one's sandbox.
        let (_, told) = server.send(http::Method::GET, "/oncebox/faults", String::new()).await;
        assert_eq!(told["fired"], json!([1, u32::from(keys == IdempotencyKeys::Honoured)]), "{keys:?}");
        let alive = server.alive().await;
        assert_eq!(alive.values().map(Vec::len).sum::<usize>(), 1, "{keys:?}: {alive:?}");
        assert_eq!(alive[sandbox.intent().unwrap()], [sandbox.superseded_by().unwrap_or(sandbox.id())], "{keys:?}");
    }
}

/// Three pages of a list, of which the first two hold what is given and the last one is the server's own.
fn pages(first: &[Value], second: &[Value]) -> Value {
    let page = |listed: &[Value], next: &str| {
        let headers = json!({"x-next-token": next});
        json!({"on": ["list"], "times": 1,
            "fault": {"status": {"code": 200, "when": "after", "headers": headers, "body": listed}}})
    };
    // An empty token is the first page.
    json!([page(first, "second"), page(second, "third")])
}

#[tokio::test]
async fn a_match_on_the_third_page_is_found_and_nobody_elses_is_touched() {
    let intent = "00112233445566778899aabbccddeeff";
    let server = Server::start().await;
    let strangers = server.client();
    let mut listed = Vec::new();
    for _ in 0..4 {
        let stranger = Sandbox::create(&strangers).metadata("task", "theirs").await.unwrap();
        let (_, mut shown) =
            server.send(http::Method::GET, &format!("/sandboxes/{}", stranger.id()), String::new()).await;
        shown["metadata"]["oncebox.intent"] = stranger.intent().unwrap().into();
        listed.push(shown);
    }
    // One whose metadata is not told, and one whose tag only begins alike.
    listed[1].as_object_mut().unwrap().remove("metadata");
    listed[2]["metadata"]["oncebox.intent"] = format!("{intent}0").into();
    let made = Sandbox::create(&strangers).intent(intent).await.unwrap();
    let own = json!([{"sandboxID": made.id(), "templateID": "base", "startedAt": made.info().await.unwrap().started_at,
        "metadata": {"oncebox.intent": intent}, "state": "running"}]);
    let mut rules = pages(&listed[..2], &listed[2..]);
    rules
        .as_array_mut()
        .unwrap()
        .push(json!({"on": ["list"], "times": 1, "fault": {"status": {"code": 200, "when": "before", "body": own}}}));
    server.faults(json!({"filter": "ignored", "rules": rules})).await;
    let client = server.client();
    let found = Sandbox::create(&client).intent(intent).await.unwrap();
    assert_eq!((found.came(), found.id()), (Came::Adopted, made.id()));
    assert!(client.close().await.is_empty());
    let (_, told) = server.send(http::Method::GET, "/oncebox/faults", String::new()).await;
    assert_eq!(told["fired"], json!([1, 1, 1]));
    assert_eq!(server.alive().await.values().map(Vec::len).sum::<usize>(), 5);
    assert_eq!(server.counts().await["killSandbox"], Value::Null);
}

#[tokio::test]
async fn the_budget_cuts_a_hopeless_outage() {
    const CREATES: usize = 250;
    let outage = json!({"on": ["create"], "fault": {"status": {"code": 503, "headers": {"Retry-After": "0"}}}});
    let server = Server::with_faults(json!({"rules": [outage]})).await;
    let client = server.client();
    let began = Instant::now();
    let creates = (0..CREATES).map(|_| Sandbox::create(&client).into_future());
    let ends = futures_util::future::join_all(creates).await;
    // 500 tokens, 10 a second, 5 a retry after a status.
    let most = (500 + 10 * (began.elapsed().as_secs() as usize + 1)) / 5;
    let errors: Vec<_> = ends.into_iter().map(Result::unwrap_err).collect();
    let sent: usize = errors.iter().map(|error| error.attempts().len()).sum();
    assert!((CREATES + 90..=CREATES + most).contains(&sent), "{sent} sends");
    let budget = errors.iter().filter(|error| error.to_string().contains("budget")).count();
    assert!(budget > CREATES / 2, "{budget} by the budget");
    assert!(errors.iter().all(|error| error.is_busy() && !error.may_have_been_processed()), "{}", errors[0]);
    server.faults(json!({})).await;
    assert!(Sandbox::create(&client).await.is_ok(), "it goes on when the outage ends");
    client.close().await;
}

/// The part of the next test that is killed.
#[tokio::test]
#[ignore = "the child of another test"]
async fn child_that_creates() {
    let [Ok(url), Ok(intent)] = CHILD.map(std::env::var) else { return };
    let client = oncebox::Client::builder().api_key("test").api_url(&url).sandbox_url(&url).build().unwrap();
    let _ = Sandbox::create(&client).intent(intent).await;
}

#[tokio::test]
async fn a_process_killed_before_the_answer_is_resolved_by_another() {
    let intent = "cafe0123456789abcdef0123456789ab";
    let slow = json!({"on": ["create"], "times": 1, "fault": {"latency": 0.3}});
    let server = Server::with_faults(json!({"list_lag": 0.1, "rules": [slow]})).await;
    let mut child = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "holds::child_that_creates", "--ignored"])
        .env(CHILD[0], server.local.url())
        .env(CHILD[1], intent)
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    // The server has the request, and has not answered.
    while server.send(http::Method::GET, "/oncebox/faults", String::new()).await.1["fired"] != json!([1]) {
        assert!(child.try_wait().unwrap().is_none(), "the child ended by itself");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let found = server.client().resolve(intent).await.unwrap().expect("it was made");
    assert_eq!(
        (found.came(), found.commands().run("echo lives").await.unwrap().stdout_text()),
        (Came::Adopted, "lives\n".into())
    );
    assert_eq!(server.counts().await["createSandbox"], 1);
}

#[derive(Default)]
struct Wakes(AtomicUsize);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// Polls a create so often, letting everything else have one turn between two polls. Whether it came to its end.
async fn dropped_after(turns: usize, create: impl Future<Output = Result<Sandbox, oncebox::Error>>) -> Option<Sandbox> {
    let wakes = Arc::new(Wakes::default());
    let waker = Waker::from(Arc::clone(&wakes));
    let mut create = std::pin::pin!(create);
    let (mut polled, mut seen) = (false, 0);
    for _ in 0..turns {
        let woken = wakes.0.load(Ordering::SeqCst);
        // Only when it asked for it, as an executor does: a wake that is missing shows.
        if !polled || woken > seen {
            (polled, seen) = (true, woken);
            if let Poll::Ready(made) = create.as_mut().poll(&mut Context::from_waker(&waker)) {
                return Some(made.unwrap());
            }
        }
        tokio::task::yield_now().await;
    }
    None
}

/// One thread: each turn polls every task that is ready once, so that the create's task is left at each of its awaits.
#[tokio::test(flavor = "current_thread")]
async fn a_create_dropped_at_each_await_leaves_nothing() {
    // No fault; looked up and adopted; sent again after it was found absent; a trusted 503 that lies.
    let faults = [None, Some(cut("after")), Some(status(502, "before")), Some(status(503, "after"))];
    for (fault, is_done) in faults.into_iter().zip([true, true, false, true]) {
        // Each time anew: the first send meets it, what follows does not.
        let rules: Vec<_> = fault.into_iter().map(|fault| on_create(1, fault)).collect();
        let server = Server::start().await;
        let client = server.client_at(&server.local.url(), |builder| {
            builder.settle(Duration::from_millis(400)).retries(1).idempotency_keys(IdempotencyKeys::Ignored)
        });
        let (mut turns, mut drops, mut done) = (0, 0, false);
        while !done {
            server.faults(json!({"rules": rules})).await;
            match dropped_after(turns, Sandbox::create(&client).into_future()).await {
                Some(made) => {
                    done = true;
                    made.kill().await.unwrap();
                }
                None => drops += 1,
            }
            turns += 1 + turns / 6;
            assert!(turns < 2_000_000, "it does not end");
        }
        // How many turns it takes is the machine's matter. Where the first send is done, some were dropped after that.
        let made = server.counts().await["createSandbox"].as_u64().unwrap();
        assert!(drops > 0 && (made > 1) == is_done, "{drops} dropped, {made} made: {rules:?}");
        let left = client.close().await;
        assert!(left.is_empty(), "{left:?}");
        assert!(server.alive().await.is_empty(), "{rules:?}");
    }
}

#[tokio::test]
async fn a_pause_whose_answer_is_lost_was_by_an_earlier_attempt() {
    let server = Server::start().await;
    let client = server.client();
    let sandbox = Sandbox::create(&client).await.unwrap();
    sandbox.files().write("kept", "yes").await.unwrap();
    for how in [Pause::full(), Pause::filesystem()] {
        server.faults(json!({"rules": [{"on": ["pauseSandbox"], "times": 1, "fault": cut("after")}]})).await;
        assert_eq!(sandbox.pause(how).await.unwrap(), Paused::ByEarlierAttempt);
        assert_eq!(sandbox.info().await.unwrap().state, SandboxState::Paused);
        assert!(!sandbox.is_running().await.unwrap());
        assert_eq!(sandbox.pause(how).await.unwrap(), Paused::Already);
        let again = Sandbox::connect(&client, sandbox.id()).await.unwrap();
        assert_eq!(again.info().await.unwrap().state, SandboxState::Running);
        assert_eq!(again.files().read_text("kept").await.unwrap(), "yes");
        assert_eq!(sandbox.pause(how).await.unwrap(), Paused::Now);
        Sandbox::connect(&client, sandbox.id()).await.unwrap();
    }
    assert_eq!(server.counts().await["pauseSandbox"], 4);
}

#[tokio::test]
async fn options_of_a_call_are_over_the_clients() {
    let server = Server::start().await;
    let client = server.client();
    let sandbox = Sandbox::create(&client).await.unwrap();
    let busy = json!({"status": {"code": 503, "headers": {"Retry-After": "0"}}});
    server.faults(json!({"rules": [{"on": ["getSandbox", "createSandbox"], "fault": busy}]})).await;
    for (retries, attempts) in [(0, 1), (2, 3), (5, 6)] {
        let options = CallOptions::new().retries(retries);
        let error = sandbox.with(options.clone()).unwrap().info().await.unwrap_err();
        assert_eq!(error.attempts().len(), attempts, "{error}");
        let error = Sandbox::create(&client.with(options).unwrap()).await.unwrap_err();
        assert_eq!(error.attempts().len(), attempts, "{error}");
    }
    let error = sandbox.info().await.unwrap_err();
    assert_eq!(error.attempts().len(), 4, "the handle itself is as it was");
    server.faults(json!({"rules": [{"on": ["getSandbox", "getSandboxMetrics"], "fault": {"latency": 30.0}}]})).await;
    let hurried = sandbox.with(CallOptions::new().request_timeout(Duration::from_millis(50))).unwrap();
    assert_eq!(hurried.info().await.unwrap_err().kind(), oncebox::ErrorKind::Timeout);
    server.faults(json!({})).await;
    // A shut door is knocked at as often as was asked for.
    let shut = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let nowhere = server.client_at(&format!("http://{shut}"), |builder| builder);
    let error = Sandbox::list(&nowhere.with(CallOptions::new().connection_retries(0)).unwrap()).await.unwrap_err();
    assert_eq!(error.attempts().len(), 1, "{error}");
}
