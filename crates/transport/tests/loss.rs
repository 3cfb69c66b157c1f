//! Connections that are lost, refused and cut: what may have been processed is not sent again without a permit, and
//! what was not is never lost.

#![allow(clippy::unwrap_used)] // A test panics when it fails.

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use http::Method;
use oncebox_faults::{Answer, Fault, Goaway, LastId, Moment, Rule, Script, Server, Then};
use oncebox_transport::policy::{Cause, NotSent, Outcome, Permit, Phase, Refusal, ReturnReason, Unknown};
use oncebox_transport::{Body, BoxError, CallOptions, Error};
use support::load::{LONG, Payload, agree, call, http2, post, posts, request, serve};
use tokio::time::Instant;

const BODIES: [Payload; 3] = [Payload::None, Payload::Bytes(50), Payload::Stream(50)];

#[track_caller]
fn assert_lost(error: &Error) {
    assert!(
        matches!(error.outcome(), Some(Outcome::SentUnknown(Unknown { cause: Cause::ConnectionLost, .. }))),
        "{error}"
    );
    assert!(error.may_have_been_processed());
}

#[tokio::test]
async fn a_post_that_was_processed_before_the_connection_was_lost_is_not_repeated() {
    for lost in [Fault::Close, Fault::CloseUnread, Fault::Reset] {
        for payload in BODIES {
            let server = serve(Script::new().rule(Rule::at(Moment::Processed).does(lost.clone()))).await;
            let error = call(&http2().build(), post(&server, "a", payload)).await.unwrap_err();
            assert_lost(&error);
            assert_eq!(error.attempts().len(), 1);
            assert_eq!((server.log().heads("a"), server.log().processed("a")), (1, 1));
        }
    }
}

#[tokio::test]
async fn a_get_and_a_delete_are_repeated_and_a_post_where_it_is_permitted() {
    for lost in [Fault::Close, Fault::Reset] {
        let script = Script::new().rule(Rule::at(Moment::Processed).attempt(1).does(lost));
        for (method, permit) in [
            (Method::GET, None),
            (Method::DELETE, None),
            (Method::PUT, None),
            (Method::POST, Some(Permit::OperationTable)),
            (Method::POST, Some(Permit::IdempotencyKey)),
        ] {
            let server = serve(script.clone()).await;
            let options = permit.map_or(CallOptions::new(), |permit| CallOptions::new().permit(permit));
            let request = request(&server, method.clone(), "a", Payload::Bytes(5));
            let answer = http2().build().send_collected(request, options).await.unwrap();
            assert_eq!((answer.status().as_u16(), server.log().processed("a")), (200, 2), "{method}");
        }
    }
}

/// A streamed body is not read again for what may have been processed, whatever is permitted.
#[tokio::test]
async fn an_unknown_outcome_of_a_streamed_body_comes_back_at_once() {
    let server = serve(Script::new().rule(Rule::at(Moment::Processed).does(Fault::Close))).await;
    let error = call(&http2().build(), request(&server, Method::PUT, "a", Payload::Stream(50))).await.unwrap_err();
    assert_lost(&error);
    assert_eq!((error.reason(), server.log().heads("a")), (Some(ReturnReason::StreamedBody), 1));
}

#[tokio::test]
async fn an_answer_that_is_cut_is_repeated_only_where_that_is_permitted() {
    let script = Script::new()
        .answer(Answer::default().text("all of it"))
        .rule(Rule::at(Moment::AnswerBody(3)).attempt(1).does(Fault::Reset));
    let server = serve(script.clone()).await;
    let answer = call(&http2().build(), request(&server, Method::GET, "a", Payload::None)).await.unwrap();
    assert_eq!((&answer.body()[..], server.log().heads("a")), (&b"all of it"[..], 2));

    let server = serve(script).await;
    let error = call(&http2().build(), post(&server, "a", Payload::Bytes(5))).await.unwrap_err();
    assert_eq!((error.attempts().len(), server.log().heads("a")), (1, 1));
    assert!(error.may_have_been_processed());
}

/// A body that says when it is read and when it is let go.
fn watched(reads: &Arc<AtomicUsize>) -> Body {
    struct Watched(Arc<AtomicUsize>, Option<bytes::Bytes>);
    impl http_body::Body for Watched {
        type Data = bytes::Bytes;
        type Error = BoxError;
        fn poll_frame(
            mut self: std::pin::Pin<&mut Self>,
            _: &mut std::task::Context<'_>,
        ) -> std::task::Poll<Option<Result<http_body::Frame<bytes::Bytes>, BoxError>>> {
            self.0.fetch_add(1, Ordering::SeqCst);
            std::task::Poll::Ready(self.1.take().map(|bytes| Ok(http_body::Frame::data(bytes))))
        }
    }
    Body::stream(Watched(reads.clone(), Some(bytes::Bytes::from_static(b"whole"))))
}

#[tokio::test]
async fn a_refused_connect_is_retried_for_any_method_and_the_streamed_body_is_untouched() {
    let server = Server::builder(Script::new()).refuse_connects_for(Duration::from_millis(400)).start().await.unwrap();
    let reads = Arc::new(AtomicUsize::new(0));
    let request = http::Request::post(server.url("/")).header("x-request-id", "a").body(watched(&reads)).unwrap();
    let answer = call(&http2().connection_retries(8).build(), request).await.unwrap();
    assert_eq!(answer.status(), 200);
    assert_eq!((server.log().heads("a"), server.log().processed("a")), (1, 1));
    assert_eq!(server.log().tries("a")[0].body_digest, oncebox_faults::digest(b"whole"));

    server.refuse_connects_for(Duration::from_secs(60));
    let closed = Server::builder(Script::new()).refuse_connects_for(Duration::from_secs(60)).start().await.unwrap();
    let reads = Arc::new(AtomicUsize::new(0));
    let request = http::Request::post(closed.url("/")).body(watched(&reads)).unwrap();
    let error = call(&http2().connection_retries(1).build(), request).await.unwrap_err();
    assert!(error.is_connect() && !error.may_have_been_processed(), "{error}");
    assert_eq!((error.attempts().len(), reads.load(Ordering::SeqCst)), (2, 0));
    assert!(
        matches!(error.outcome(), Some(Outcome::NotSent(NotSent { phase: Phase::Connect, touched_socket: true, .. }))),
        "{error}"
    );
}

/// Everyone who waited is told, and the origin is not dialled once for each of them.
#[tokio::test(start_paused = true)]
async fn calls_that_wait_for_one_dial_share_its_failure() {
    let server = Server::builder(Script::new()).refuse_connects_for(Duration::from_secs(3600)).start().await.unwrap();
    let run = posts(&http2().build(), &server, 50, 50, Payload::Bytes(1)).await;
    for done in &run.done {
        let outcomes = done.outcomes();
        assert_eq!(outcomes.len(), 4, "{outcomes:?}");
        assert!(outcomes.iter().all(|outcome| matches!(outcome, Outcome::NotSent(n) if n.phase == Phase::Connect)));
    }
    assert_eq!(server.log().totals().heads, 0);
}

async fn goaway_for_ever(rule: Rule, bodies: &[Payload], connection_retries: u32) {
    for &payload in bodies {
        let server = serve(Script::new().rule(rule.clone())).await;
        let client = http2().connection_retries(connection_retries).build();
        let run = posts(&client, &server, 30, 30, payload).await;
        let (dials, rounds) = (server.log().totals().connections, u64::from(connection_retries) + 1);
        println!("GOAWAY(0) for ever: {dials} connections for 30 calls of {rounds} attempts");
        // Each round of dials charges each call one attempt, and dials no more than the streams need.
        assert!((rounds..=4 * rounds).contains(&dials), "{dials} connections");
        assert_eq!(run.failed().len(), 30);
        run.assert_histories_agree(&server);
        for done in &run.done {
            let error = done.result.as_ref().unwrap_err();
            assert_eq!(error.reason(), Some(ReturnReason::ConnectionRetriesUsed), "{error}");
            assert!(!error.may_have_been_processed(), "{error}");
            assert!(error.to_string().contains("GOAWAY"), "{error}");
        }
        assert_eq!(server.log().totals().processed, 0);
    }
}

#[tokio::test(start_paused = true)]
async fn goaway_on_accept_for_ever_ends_in_a_typed_error_after_few_dials() {
    goaway_for_ever(Rule::at(Moment::Preface).does(Fault::goaway().last(LastId::Id(0)).debug("full")), &BODIES, 3)
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn goaway_on_accept_for_ever_ends_on_two_threads_too() {
    goaway_for_ever(Rule::at(Moment::Preface).does(Fault::goaway().last(LastId::Id(0)).debug("full")), &BODIES[..1], 1)
        .await;
}

#[tokio::test(start_paused = true)]
async fn goaway_for_the_first_request_for_ever_ends_in_a_typed_error_after_few_dials() {
    goaway_for_ever(
        Rule::at(Moment::Request).nth(1).does(Fault::goaway().last(LastId::Id(0)).debug("full")),
        &BODIES,
        3,
    )
    .await;
}

/// The first GOAWAY promises whatever is sent, and only the second says that it was nothing.
#[tokio::test(start_paused = true)]
async fn goaway_in_two_phases_that_serve_nothing_is_as_one() {
    let goaway = |last| Fault::goaway().last(last).debug("full");
    let rule = Rule::at(Moment::Preface).does(goaway(LastId::Max)).does(Fault::Wait(5)).does(goaway(LastId::Id(0)));
    goaway_for_ever(rule, &BODIES, 3).await;
}

#[tokio::test(start_paused = true)]
async fn connections_that_are_closed_on_accept_for_ever_end_in_a_typed_error_after_few_dials() {
    for fault in [Fault::Close, Fault::Reset] {
        let server = serve(Script::new().rule(Rule::at(Moment::Connect).does(fault))).await;
        let run = posts(&http2().build(), &server, 20, 20, Payload::Bytes(5)).await;
        let dials = server.log().totals().connections;
        assert!(dials <= 16, "{dials} connections");
        assert_eq!((run.failed().len(), server.log().totals().processed), (20, 0));
        for done in &run.done {
            // A head that was written to a connection that is being closed was sent, as far as anyone knows.
            let error = done.result.as_ref().unwrap_err();
            assert!(error.attempts().len() <= 12, "{error}");
        }
    }
}

/// GOAWAY, GOAWAY, a handshake that is reset, a 503, and all over again.
#[tokio::test(start_paused = true)]
async fn layers_of_faults_are_counted_together_and_listed_as_the_server_saw_them() {
    let refuse = |n: u64| Rule::at(Moment::Request).attempt(oncebox_faults::Number::round([n], 3));
    let goaway: Goaway = Fault::goaway().last(LastId::Previous).then(Then::Close);
    let busy = Answer::status(503).retry_after(oncebox_faults::RetryAfter::Seconds(0));
    let script = Script::new()
        .rule(refuse(1).does(goaway.clone()))
        .rule(refuse(2).does(goaway))
        .rule(Rule::at(Moment::Connect).connection(oncebox_faults::Number::round([3], 4)).does(Fault::Reset))
        .rule(refuse(3).does(Fault::answer(busy)));
    for (retries, connection_retries) in [(3, 3), (0, 3), (3, 0), (2, 5), (5, 20)] {
        let server = serve(script.clone()).await;
        let client = http2().retries(retries).connection_retries(connection_retries).build();
        let called = call(&client, post(&server, "a", Payload::Bytes(5))).await;
        let (outcomes, ledger) = match &called {
            Ok(response) => {
                assert_eq!(response.status(), 503);
                let history = response.history();
                (history.attempts().iter().map(|r| r.outcome).collect::<Vec<_>>(), history.ledger().clone())
            }
            Err(error) => (error.attempts().iter().map(|r| r.outcome).collect(), error.ledger().clone()),
        };
        let bound = 1 + retries + connection_retries;
        assert!(ledger.counted_attempts() <= bound, "{outcomes:#?}");
        assert!(server.log().heads("a") <= u64::from(bound));
        assert_eq!(server.log().processed("a"), 0);
        assert!(agree(&outcomes, &server.log().tries("a")), "{outcomes:#?}");
        if let Err(error) = &called {
            let text = error.to_string();
            assert!(outcomes.len() < 2 || text.contains(&format!("{} attempts", outcomes.len())), "{text}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_deadline_ends_the_call_wherever_it_is_and_says_whether_anything_was_sent() {
    let hold = Script::new().rule(Rule::at(Moment::Received).does(Fault::Hold));
    let server = serve(hold.max_concurrent_streams(1)).await;
    let client = http2().max_connections(1).initial_streams(1).build();
    let within = |seconds| CallOptions::new().request_timeout(Duration::from_secs(seconds));
    let started = Instant::now();
    let holder = client.send(post(&server, "holder", Payload::Bytes(1)), within(9));
    let others = async {
        assert!(server.log().wait_until(LONG, |log| log.heads("holder") == 1).await);
        let error = client.send(post(&server, "waiter", Payload::Bytes(1)), within(7)).await.unwrap_err();
        assert_eq!(error.outcome(), Some(&Outcome::TimedOut { sent: false }));
        assert_eq!((started.elapsed().as_secs(), server.log().heads("waiter")), (7, 0));
    };
    let (error, ()) = tokio::join!(async { holder.await.unwrap_err() }, others);
    assert_eq!(error.outcome(), Some(&Outcome::TimedOut { sent: true }));
    assert_eq!((started.elapsed().as_secs(), server.log().heads("holder")), (9, 1));
}

#[tokio::test(start_paused = true)]
async fn an_attempts_own_timeout_is_an_outcome_and_not_the_end() {
    let hold = Script::new().rule(Rule::at(Moment::Received).attempt(1).does(Fault::Hold));
    let server = serve(hold.clone()).await;
    let client = http2().attempt_timeout(Duration::from_secs(2)).build();
    call(&client, request(&server, Method::GET, "a", Payload::None)).await.unwrap();
    assert_eq!(server.log().heads("a"), 2);

    let error = call(&client, post(&server, "b", Payload::Bytes(1))).await.unwrap_err();
    assert!(
        matches!(error.outcome(), Some(Outcome::SentUnknown(Unknown { cause: Cause::AttemptTimeout, .. }))),
        "{error}"
    );
    assert_eq!(server.log().heads("b"), 1);
}

/// In the line nothing was sent, and no dial failed: the connection that there is has no room.
#[tokio::test(start_paused = true)]
async fn an_attempt_that_times_out_in_the_line_was_not_sent_and_says_what_it_waited_for() {
    let hold = Script::new().rule(Rule::at(Moment::Received).request_id("holder").does(Fault::Hold));
    let server = serve(hold.max_concurrent_streams(1)).await;
    let client = http2().max_connections(1).initial_streams(1).build();
    let holder = tokio::spawn({
        let (client, request) = (client.clone(), post(&server, "holder", Payload::None));
        async move { call(&client, request).await }
    });
    assert!(server.log().wait_until(LONG, |log| log.heads("holder") == 1).await);
    let options = CallOptions::new().attempt_timeout(Duration::from_secs(1)).connection_retries(1);
    let error = client.send(post(&server, "b", Payload::Bytes(1)), options).await.unwrap_err();
    let Some(Outcome::NotSent(NotSent { phase, .. })) = error.outcome() else { panic!("{error}") };
    assert_eq!(*phase, Phase::Slot, "{error}");
    assert!(!error.is_connect(), "{error}");
    assert_eq!(server.log().heads("b"), 0);
    holder.abort();
}

#[tokio::test]
async fn a_goaway_and_the_fate_of_each_stream_are_told_in_the_error() {
    let rule = Rule::at(Moment::Request).nth(2).does(Fault::goaway().last(LastId::Id(1)).debug("max_age"));
    let server = serve(Script::new().service_time_ms(10).rule(rule)).await;
    let client = http2().connection_retries(0).build();
    call(&client, post(&server, "settings come", Payload::None)).await.unwrap();
    let error = call(&client, post(&server, "a", Payload::Bytes(1))).await.unwrap_err();
    assert!(matches!(error.outcome(), Some(Outcome::Refused(Refusal::GoAway { stream_id: 3, last_stream_id: 1, .. }))));
    assert_eq!(error.evidence(), "stream refused by GOAWAY: stream 3 above last stream id 1, NO_ERROR, max_age",);
}
