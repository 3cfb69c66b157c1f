//! How many streams and connections there are: no more than are allowed, no fewer than are needed.
//!
//! Time is paused: three seconds of service take none.

#![allow(clippy::unwrap_used)] // A test panics when it fails.

mod support;

use std::future::{Future, poll_fn};
use std::task::Poll;
use std::time::Duration;

use http::Method;
use oncebox_faults::{Answer, Direction, Fault, Happening, Moment, RetryAfter, Rule, Script, Server, Settings};
use oncebox_transport::policy::{Cause, Outcome, Unknown};
use oncebox_transport::{Body, BoxError, CallOptions, Client};
use support::Peer;
use support::frames;
use support::load::{LONG, Payload, call, http2, post, posts, request, serve};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

const SMALL: [Payload; 2] = [Payload::Bytes(1), Payload::Stream(1)];

fn connections(server: &Server) -> u64 {
    server.log().totals().connections
}

fn most_streams(server: &Server) -> u64 {
    server.log().connections().iter().map(|connection| connection.most_open).max().unwrap_or(0)
}

async fn until(server: &Server, holds: impl Fn(&oncebox_faults::Log) -> bool) {
    assert!(server.log().wait_until(LONG, holds).await, "{:?}", server.log());
}

#[tokio::test(start_paused = true)]
async fn a_thousand_streams_of_three_seconds_take_three_seconds_on_ten_connections() {
    for payload in SMALL {
        let server = serve(Script::new().service_time_ms(3000)).await;
        let started = Instant::now();
        let run = posts(&http2().build(), &server, 1000, 1000, payload).await;
        run.assert_all_done_once(&server, 0);
        // A second round would take six.
        assert_eq!(started.elapsed().as_secs(), 3);
        println!("1,000 streams at cap 100: {} connections", connections(&server));
        assert!(connections(&server) <= 11, "{} connections", connections(&server));
        assert!(most_streams(&server) <= 100);
    }
}

#[tokio::test]
async fn ten_thousand_streams_are_held_open_on_110_connections_at_most() {
    let server = serve(Script::new().rule(Rule::at(Moment::Received).does(Fault::Hold))).await;
    let client = http2().build();
    let mut calls = JoinSet::new();
    for n in 0..10_000 {
        let (client, request) = (client.clone(), post(&server, &format!("r{n}"), Payload::None));
        calls.spawn(async move { client.send(request, CallOptions::new()).await });
    }
    until(&server, |log| log.totals().heads == 10_000).await;
    println!("10,000 streams at cap 100: {} connections", connections(&server));
    assert!(connections(&server) <= 110, "{} connections", connections(&server));
    assert!(most_streams(&server) <= 100);
    assert!(calls.try_join_next().is_none(), "none of them is over");
}

#[tokio::test(start_paused = true)]
async fn a_burst_waits_for_settings_rather_than_dialling() {
    let late = Settings { after_ms: 100, ..Settings::default() };
    let server = serve(Script::new().settings(late).service_time_ms(500)).await;
    posts(&http2().build(), &server, 90, 90, Payload::Bytes(1)).await.assert_all_done_once(&server, 0);
    assert_eq!(connections(&server), 1);
    assert_eq!(heads_before_settings(&server), 10);
}

/// Without repeats each stream that is refused is lost: one at a time is risked.
#[tokio::test(start_paused = true)]
async fn before_settings_one_stream_at_a_time_where_refusals_are_not_repeated() {
    let late = Settings { after_ms: 100, ..Settings::streams(4) };
    let server = serve(Script::new().settings(late).service_time_ms(500)).await;
    let client = http2().connection_retries(0).build();
    posts(&client, &server, 40, 40, Payload::Bytes(1)).await.assert_all_done_once(&server, 0);
    assert_eq!(heads_before_settings(&server), 1);
    assert!(most_streams(&server) <= 4);
}

#[tokio::test(start_paused = true)]
async fn initial_streams_is_an_option() {
    let late = Settings { after_ms: 100, ..Settings::default() };
    let server = serve(Script::new().settings(late).service_time_ms(500)).await;
    posts(&http2().initial_streams(3).build(), &server, 20, 20, Payload::None).await.assert_all_done_once(&server, 0);
    assert_eq!(heads_before_settings(&server), 3);
}

/// On the first connection. The client's own SETTINGS are acknowledged before the server sends its late ones.
fn heads_before_settings(server: &Server) -> usize {
    let events = server.log().events();
    let sent =
        |what: &Happening| matches!(what, Happening::Frame { direction: Direction::Sent, kind: 4, flags: 0, .. });
    let settings = events.iter().position(|event| event.connection == 1 && sent(&event.what)).unwrap();
    let head = |what: &Happening| matches!(what, Happening::Head { .. });
    events[..settings].iter().filter(|event| event.connection == 1 && head(&event.what)).count()
}

#[tokio::test(start_paused = true)]
async fn a_raised_cap_wakes_those_who_wait() {
    let raise = Rule::at(Moment::Request).nth(2).does(Settings::streams(8));
    let server = serve(Script::new().max_concurrent_streams(2).service_time_ms(1000).rule(raise)).await;
    let started = Instant::now();
    let client = http2().max_connections(1).build();
    posts(&client, &server, 8, 8, Payload::Bytes(1)).await.assert_all_done_once(&server, 0);
    assert_eq!((most_streams(&server), started.elapsed().as_secs()), (8, 1));
}

#[tokio::test(start_paused = true)]
async fn a_lowered_cap_is_minded_by_what_comes_after() {
    let lower = Rule::at(Moment::Request).nth(5).does(Settings::streams(2));
    let server = serve(Script::new().service_time_ms(1000).rule(lower)).await;
    let client = http2().max_connections(1).build();
    let started = Instant::now();
    posts(&client, &server, 5, 5, Payload::Bytes(1)).await.assert_all_done_once(&server, 0);
    posts(&client, &server, 8, 8, Payload::Bytes(1)).await;
    assert_eq!(started.elapsed().as_secs(), 5, "five at once, and then eight in pairs");
    assert_eq!(server.log().totals().violations, 0);
}

#[tokio::test(start_paused = true)]
async fn a_cap_of_zero_is_waited_for_on_one_connection() {
    let server = serve(Script::new().max_concurrent_streams(0)).await;
    let client = http2().initial_streams(1).request_timeout(Duration::from_secs(5)).build();
    // It may have been sent before the SETTINGS came, or wait for ever in between.
    let _ = call(&client, post(&server, "before SETTINGS came", Payload::None)).await;
    let before = server.log().totals();
    let run = posts(&client, &server, 20, 20, Payload::Bytes(1)).await;
    for done in &run.done {
        assert_eq!(done.outcomes(), [Outcome::TimedOut { sent: false }]);
    }
    let after = server.log().totals();
    assert_eq!((after.heads, after.connections), (before.heads, before.connections));

    let raise = Rule::at(Moment::Age(2000)).does(Settings::streams(5));
    let server = serve(Script::new().settings(Settings::streams(0)).rule(raise)).await;
    let run = posts(&http2().build(), &server, 20, 20, Payload::Bytes(1)).await;
    run.assert_all_done_once(&server, 3);
}

#[tokio::test(start_paused = true)]
async fn no_more_connections_than_max_connections() {
    for payload in SMALL {
        let server = serve(Script::new().max_concurrent_streams(4).service_time_ms(100)).await;
        let client = http2().initial_streams(4).max_connections(3).build();
        posts(&client, &server, 120, 60, payload).await.assert_all_done_once(&server, 1);
        assert_eq!((connections(&server), most_streams(&server)), (3, 4));
    }
}

/// Those that drain have a bound of their own, of the same size.
#[tokio::test(start_paused = true)]
async fn draining_connections_are_bounded_too() {
    let retire = Rule::at(Moment::Request).nth(1).does(Fault::goaway());
    let server = serve(Script::new().service_time_ms(1000).rule(retire)).await;
    let client = http2().max_connections(4).connection_retries(20).build();
    let run = posts(&client, &server, 60, 30, Payload::Bytes(1)).await;
    run.assert_all_done_once(&server, 20);
    let most = server.log().totals().most_connections_open;
    assert!(most <= 8, "{most} at once");
}

#[tokio::test(start_paused = true)]
async fn an_idle_connection_expires() {
    let server = serve(Script::new()).await;
    let client = http2().keepalive_expiry(Duration::from_secs(30)).build();
    call(&client, post(&server, "a", Payload::None)).await.unwrap();
    sleep(Duration::from_secs(28)).await;
    call(&client, post(&server, "b", Payload::None)).await.unwrap();
    assert_eq!((connections(&server), server.log().totals().connections_open), (1, 1));
    until(&server, |log| log.totals().connections_open == 0).await;
    call(&client, post(&server, "c", Payload::None)).await.unwrap();
    assert_eq!(connections(&server), 2);
}

/// There is always a connection that takes streams: the successor is open before the predecessor is drained.
#[tokio::test(start_paused = true)]
async fn an_old_connection_is_replaced_under_load_and_its_successor_is_opened_first() {
    for max_connections in [200, 1] {
        let server = serve(Script::new().service_time_ms(3000)).await;
        let age = Duration::from_secs(10);
        let client = http2().max_connection_age(age).max_connections(max_connections).build();
        let run = posts(&client, &server, 100, 10, Payload::Bytes(1)).await;
        run.assert_all_done_once(&server, 1);
        let opened = connections(&server);
        assert!((3..=5).contains(&opened), "{opened} connections in 30 s");
        assert!(server.log().totals().most_connections_open <= 2);
        if max_connections > 1 {
            let events = server.log().events();
            let at = |connection: u64, is: fn(&Happening) -> bool| {
                events.iter().position(|event| event.connection == connection && is(&event.what)).unwrap()
            };
            let last_head = events
                .iter()
                .rposition(|event| event.connection == 1 && matches!(event.what, Happening::Head { .. }))
                .unwrap();
            assert!(at(2, |what| *what == Happening::Accepted) < at(1, |what| matches!(what, Happening::Ended(_))));
            assert!(last_head < at(2, |what| matches!(what, Happening::Head { .. })));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_old_connection_that_nobody_uses_is_closed_without_a_successor() {
    let server = serve(Script::new()).await;
    let client = http2().max_connection_age(Duration::from_secs(10)).build();
    call(&client, post(&server, "a", Payload::None)).await.unwrap();
    until(&server, |log| log.totals().connections_open == 0).await;
    assert_eq!(connections(&server), 1);
}

/// What a minute or two did not need is put aside, and is taken back before anything is dialled.
#[tokio::test(start_paused = true)]
async fn superfluous_connections_grow_cold_and_are_warmed_again() {
    for max_connections in [200, 3] {
        let server = serve(Script::new().service_time_ms(1000)).await;
        let client = http2().max_connections(max_connections).build();
        posts(&client, &server, 300, 300, Payload::None).await.assert_all_done_once(&server, 0);
        assert_eq!(connections(&server), 3);
        for n in 0..150 {
            call(&client, post(&server, &format!("quiet{n}"), Payload::None)).await.unwrap();
        }
        // Two of them are cold by now: so many at once fit on one.
        let before: Vec<_> = server.log().connections().iter().map(|connection| connection.heads).collect();
        in_batches(&client, &server, "warm", 60).await;
        let after = server.log().connections();
        let used = after.iter().zip(&before).filter(|(after, before)| after.heads > **before).count();
        assert_eq!(used, 1, "the others are cold");
        // And so many do not.
        in_batches(&client, &server, "burst", 250).await;
        assert_eq!(connections(&server), 3);
    }
}

async fn in_batches(client: &Client, server: &Server, name: &str, at_once: usize) {
    let mut calls = JoinSet::new();
    for n in 0..at_once {
        let (client, request) = (client.clone(), post(server, &format!("{name}{n}"), Payload::None));
        calls.spawn(async move { call(&client, request).await });
    }
    while let Some(done) = calls.join_next().await {
        done.unwrap().unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_silent_peer_is_asked_whether_it_lives_and_given_up() {
    let silent = Rule::at(Moment::Request).attempt(1).does(Fault::Silence);
    let server = serve(Script::new().rule(silent)).await;
    let started = Instant::now();
    let error = call(&http2().build(), post(&server, "a", Payload::Bytes(1))).await.unwrap_err();
    assert!(
        matches!(error.outcome(), Some(Outcome::SentUnknown(Unknown { cause: Cause::PingTimeout, .. }))),
        "{error}"
    );
    // 20 s of silence, 10 s for the answer, each seen within a second.
    assert!((30..=33).contains(&started.elapsed().as_secs()), "{:?}", started.elapsed());
    assert_eq!((error.attempts().len(), server.log().heads("a")), (1, 1));

    call(&http2().build(), request(&server, Method::GET, "b", Payload::None)).await.unwrap();
    assert_eq!(server.log().heads("b"), 2, "a GET is sent again");
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_says_anything_is_not_asked_and_neither_is_an_idle_one() {
    let server = serve(Script::new().service_time_ms(25_000)).await;
    let client = http2().keepalive_expiry(Duration::from_secs(200)).build();
    let slow = |id| call(&client, post(&server, id, Payload::None));
    let (a, b) = tokio::join!(slow("a"), async {
        sleep(Duration::from_secs(10)).await;
        slow("b").await
    });
    assert!(a.is_ok() && b.is_ok());
    sleep(Duration::from_secs(100)).await;
    let pings = |server: &Server| {
        let ping = |what: &Happening| {
            matches!(what, Happening::Frame { direction: Direction::Received, kind: 6, flags: 0, .. })
        };
        server.log().events().iter().filter(|event| ping(&event.what)).count()
    };
    // One while "a" was silent for 20 s; from 25 s on there was an answer, and from 35 s on no stream.
    assert_eq!(pings(&server), 1);
}

/// The server allows one stream on one connection: each slot that is not given back is missed by the next call.
async fn gives_its_slot_back(name: &str, script: Script, client: &Client, end: impl AsyncFn(&Client, &Server)) {
    let script = script.max_concurrent_streams(1);
    let server = serve(script).await;
    for _ in 0..3 {
        timeout(LONG, end(client, &server)).await.unwrap_or_else(|_| panic!("{name}: it never ends"));
        let next = call(client, request(&server, Method::GET, "next", Payload::None)).await;
        assert!(next.is_ok(), "{name}: {next:?}");
    }
}

fn one_connection() -> oncebox_transport::ClientBuilder {
    http2().max_connections(1).connection_retries(3)
}

/// What happens to requests by the name "x".
fn on_x(at: Moment, fault: impl Into<Fault>) -> Script {
    Script::new().rule(Rule::at(at).request_id("x").does(fault))
}

#[tokio::test(start_paused = true)]
async fn calls_that_time_out_before_a_ping_do_not_keep_a_dead_connection_alive() {
    // The first connection falls silent for good with its second request.
    let script = Script::new().rule(Rule::at(Moment::Request).connection(1).nth(2).does(Fault::Silence));
    let server = serve(script).await;
    let client = http2().request_timeout(Duration::from_secs(4)).build();
    let mut succeeded = Vec::new();
    for n in 0..20 {
        succeeded.push(call(&client, post(&server, &format!("r{n}"), Payload::None)).await.is_ok());
        // It is idle in between.
        sleep(Duration::from_secs(2)).await;
    }
    // PING goes out after 20 s of silence and is given up after 10 s: some calls are lost until then, not all.
    assert!(succeeded[0] && !succeeded[1], "{succeeded:?}");
    assert!(succeeded[10..].iter().all(|succeeded| *succeeded), "{succeeded:?}");
    assert_eq!(server.log().totals().connections, 2);
}

#[tokio::test(start_paused = true)]
async fn a_deadline_ends_a_call_on_time_however_far_away_it_is() {
    for at in [Moment::Request, Moment::AnswerBody(1)] {
        let server = serve(Script::new().rule(Rule::at(at).does(Fault::Silence))).await;
        for millis in [100, 2_900, 3_000, 3_100, 3_999, 4_000, 10_500, 61_234] {
            let limit = Duration::from_millis(millis);
            // Nobody asks whether the connection lives.
            let client = http2().request_timeout(limit).ping(Duration::ZERO, Duration::from_secs(1)).build();
            let begun = Instant::now();
            let ended = timeout(2 * limit, call(&client, post(&server, "silent", Payload::None))).await;
            let error = ended.expect("the call ends").unwrap_err();
            let took = begun.elapsed();
            assert_eq!(error.outcome(), Some(&Outcome::TimedOut { sent: true }), "{at:?}, {limit:?}");
            assert!(took >= limit && took < limit + Duration::from_millis(50), "{at:?}, {limit:?} took {took:?}");
        }
    }
}

#[tokio::test]
async fn every_end_gives_its_slot_back() {
    let client = one_connection().build();
    let hurried = one_connection().request_timeout(Duration::from_millis(20)).build();
    let x = |server: &Server, payload| post(server, "x", payload);
    let sent = async |client: &Client, server: &Server| {
        call(client, x(server, Payload::Bytes(9))).await.ok();
    };

    gives_its_slot_back("an answer", Script::new(), &client, sent).await;
    gives_its_slot_back("a refusal", on_x(Moment::Request, Fault::Refuse), &client, sent).await;
    let reset = Fault::ResetStream(oncebox_faults::ErrorCode::CANCEL);
    gives_its_slot_back("a reset", on_x(Moment::Received, reset.clone()), &client, sent).await;
    gives_its_slot_back("a body cut by a reset", on_x(Moment::AnswerBody(1), reset), &client, sent).await;
    gives_its_slot_back("a body cut by the end", on_x(Moment::AnswerBody(1), Fault::Reset), &client, sent).await;
    gives_its_slot_back("a lost connection", on_x(Moment::Received, Fault::Close), &client, sent).await;
    gives_its_slot_back("a GOAWAY", on_x(Moment::Received, Fault::goaway()), &client, sent).await;
    let refused = Fault::goaway().last(oncebox_faults::LastId::Previous);
    gives_its_slot_back("a GOAWAY that refuses", on_x(Moment::Request, refused), &client, sent).await;
    gives_its_slot_back("a deadline", on_x(Moment::Received, Fault::Hold), &client, async |_, server| {
        call(&hurried, x(server, Payload::Bytes(9))).await.unwrap_err();
    })
    .await;
    gives_its_slot_back(
        "an attempt's timeout",
        on_x(Moment::Received, Fault::Hold),
        &client,
        async |client, server| {
            let options = CallOptions::new().attempt_timeout(Duration::from_millis(20));
            client.send(x(server, Payload::Bytes(9)), options).await.unwrap_err();
        },
    )
    .await;
    let large = on_x(Moment::Received, Fault::answer(Answer::default().size(8 << 20)));
    gives_its_slot_back("a dropped body", large.clone(), &client, async |client, server| {
        drop(client.send(x(server, Payload::None), CallOptions::new()).await.unwrap());
    })
    .await;
    let modest = one_connection().max_response_size(1 << 20).build();
    gives_its_slot_back("a body too large to be read whole", large, &client, async |_, server| {
        modest.send_collected(x(server, Payload::None), CallOptions::new()).await.unwrap_err();
    })
    .await;
    let early = on_x(Moment::Request, Fault::answer(Answer::status(200).text("early")));
    gives_its_slot_back("an answer before the upload's end", early, &client, async |client, server| {
        let endless = futures_util::stream::pending::<Result<http_body::Frame<bytes::Bytes>, BoxError>>();
        let body = Body::stream(http_body_util::StreamBody::new(endless));
        let request = http::Request::post(server.url("/")).header("x-request-id", "x").body(body).unwrap();
        let answer = client.send_collected(request, CallOptions::new()).await.unwrap();
        assert_eq!(answer.body(), "early");
    })
    .await;
}

/// A call is dropped after its first poll, after its second, and so on: in the line, in the dial, in the upload, in the
/// wait for the answer, in its body, in the wait before a retry.
#[tokio::test]
async fn a_call_that_is_dropped_at_any_await_gives_its_slot_back() {
    let busy = Answer::status(503).retry_after(RetryAfter::Seconds(0)).text("busy");
    let scripts = [
        Script::new().service_time_ms(1),
        Script::new().rule(Rule::at(Moment::Request).attempt(1).request_id("x*").does(Fault::Refuse)),
        Script::new().rule(Rule::at(Moment::Received).attempt(1).request_id("x*").does(Fault::answer(busy))),
        Script::new().answer(Answer { pause_ms: 1, frame_size: Some(1), ..Answer::default() }),
        Script::new().settings(Settings { initial_window_size: Some(100), ..Settings::none() }),
        Script::retiring(3),
    ];
    for (n, script) in scripts.into_iter().enumerate() {
        let server = serve(script.max_concurrent_streams(1)).await;
        let client = one_connection().build();
        for payload in [Payload::Bytes(1000), Payload::Stream(1000)] {
            for polls in 0..14 {
                let id = format!("x{polls}{payload:?}");
                let mut calls: Vec<_> = (0..3).map(|_| Box::pin(call(&client, post(&server, &id, payload)))).collect();
                for _ in 0..polls {
                    poll_fn(|cx| {
                        calls.retain_mut(|call| call.as_mut().poll(cx).is_pending());
                        Poll::Ready(())
                    })
                    .await;
                    tokio::task::yield_now().await;
                }
                drop(calls);
                let next = call(&client, request(&server, Method::GET, "next", Payload::None)).await;
                assert!(next.is_ok(), "script {n}, {payload:?}, dropped after {polls} polls: {next:?}");
            }
        }
    }
}

#[tokio::test]
async fn a_body_that_falls_silent_gives_its_slot_back() {
    let peer = Peer::start(|_, mut socket| async move {
        frames::accept(&mut socket, &[0, 3, 0, 0, 0, 1]).await;
        while let Some(stream) = frames::next_request(&mut socket).await {
            // A head without an end.
            frames::write(&mut socket, frames::HEADERS, frames::END_HEADERS, stream, &[0x88]).await;
        }
    })
    .await;
    let client = one_connection().read_idle_timeout(Duration::from_millis(20)).build();
    for _ in 0..3 {
        let request = http::Request::get(peer.url("/")).body(Body::empty()).unwrap();
        let response = client.send(request, CallOptions::new()).await.unwrap();
        let error = http_body_util::BodyExt::collect(response.into_body()).await.unwrap_err();
        assert!(error.is_idle_timeout(), "{error}");
    }
    assert_eq!(peer.connections(), 1);
}

/// The slot of a call that is dropped is handed on once its stream is reset: RST_STREAM comes before the next HEADERS,
/// and the server never sees more streams than it allows.
#[tokio::test]
async fn the_next_stream_opens_after_the_dropped_one_was_reset() {
    for payload in [Payload::None, Payload::Bytes(50_000), Payload::Stream(50_000)] {
        let (seen, mut frames_seen) = tokio::sync::mpsc::unbounded_channel();
        let peer = Peer::start(move |_, mut socket| {
            let seen = seen.clone();
            async move {
                frames::accept(&mut socket, &[0, 3, 0, 0, 0, 1]).await;
                while let Some(frame) = frames::read(&mut socket).await {
                    if frame.stream > 0 && frame.kind != frames::DATA {
                        seen.send((frame.kind, frame.stream)).unwrap();
                    }
                }
            }
        })
        .await;
        let client = http2().initial_streams(1).max_connections(1).build();
        let url = peer.url("/");
        for n in 0..20 {
            let post = || http::Request::post(&url).body(payload.body()).unwrap();
            let mut first = Box::pin(client.send(post(), CallOptions::new()));
            let mut second = Box::pin(client.send(post(), CallOptions::new()));
            let stream = 4 * n + 1;
            tokio::select! {
                biased;
                answer = &mut first => panic!("{answer:?}"),
                answer = &mut second => panic!("{answer:?}"),
                frame = frames_seen.recv() => assert_eq!(frame, Some((frames::HEADERS, stream))),
            }
            drop(first);
            for expected in [(frames::RST_STREAM, stream), (frames::HEADERS, stream + 2)] {
                tokio::select! {
                    biased;
                    answer = &mut second => panic!("{answer:?}"),
                    frame = frames_seen.recv() => assert_eq!(frame, Some(expected)),
                }
            }
            drop(second);
            assert_eq!(frames_seen.recv().await, Some((frames::RST_STREAM, stream + 2)));
        }
        assert_eq!(peer.connections(), 1);
    }
}
