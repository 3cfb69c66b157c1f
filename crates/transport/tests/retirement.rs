//! Servers that retire their connections: the many connections look like one that lives for ever.

#![allow(clippy::unwrap_used)] // A test panics when it fails.

mod support;

use std::time::Duration;

use oncebox_faults::{Direction, Fault, Happening, LastId, Moment, Number, Rule, Script, Settings, Then};
use oncebox_transport::policy::{Cause, Outcome, Unknown};
use support::load::{BODIES, Payload, call, http2, post, posts, posts_named, serve};
use tokio::time::Instant;

const CALLS: usize = 2000;
const AT_ONCE: usize = 64;

/// No call fails, none is processed twice or sent more than three times, and the connections are no more than half
/// again as many as the streams need.
async fn retired_after(streams: u64) {
    for payload in BODIES {
        let server = serve(Script::retiring(streams)).await;
        let run = posts(&http2().build(), &server, CALLS, AT_ONCE, payload).await;
        run.assert_all_done_once(&server, 2);
        let connections = server.log().totals().connections;
        println!("retired after {streams} streams, {payload:?}: {connections} connections for {CALLS} calls");
        let bound = CALLS as u64 * 3 / 2 / streams;
        assert!(connections <= bound, "{connections} connections, and {bound} would do");
    }
}

#[tokio::test]
async fn every_connection_is_retired_after_20_streams() {
    retired_after(20).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_connection_is_retired_after_20_streams_on_two_threads() {
    retired_after(20).await;
}

#[tokio::test]
async fn every_connection_is_retired_after_5_streams() {
    retired_after(5).await;
}

#[tokio::test]
async fn every_connection_is_retired_after_a_random_number_of_streams() {
    for payload in BODIES {
        for seed in 1..=3 {
            let server = serve(Script::retiring(Number::Random { from: 1, to: 40 }).seed(seed)).await;
            let client = http2().connection_retries(8).build();
            let run = posts(&client, &server, CALLS, AT_ONCE, payload).await;
            run.assert_all_done_once(&server, 8);
            let connections = server.log().totals().connections;
            println!("retired after 1 to 40 streams, seed {seed}, {payload:?}: {connections} connections");
            assert!(connections <= 800, "{connections} connections");
        }
    }
}

/// Answers take a while, so that every GOAWAY finds streams that were accepted and not answered.
#[tokio::test]
async fn connections_that_answer_after_their_goaway_have_served() {
    let server = serve(Script::retiring(5).service_time_ms(Number::Random { from: 1, to: 5 })).await;
    let run = posts(&http2().build(), &server, 500, AT_ONCE, Payload::Bytes(10)).await;
    run.assert_all_done_once(&server, 2);
    let connections = server.log().totals().connections;
    assert!(connections <= 150, "{connections} connections");
}

/// Bodies at hand that are larger than what goes out at once, so that most refusals come while they are being sent.
#[tokio::test]
async fn large_bodies_at_hand_survive_retirement() {
    let server = serve(Script::retiring(5)).await;
    let run = posts(&http2().build(), &server, 300, AT_ONCE, Payload::Bytes(100_000)).await;
    run.assert_all_done_once(&server, 2);
}

/// First "no more soon", with the highest id there is, then the exact one. What was sent in between is processed.
#[tokio::test]
async fn a_goaway_in_two_phases_refuses_nothing() {
    let script = Script::new().service_time_ms(2).rule(
        Rule::at(Moment::Request)
            .nth(20)
            .does(Fault::goaway().last(LastId::Max).debug("shutdown"))
            .does(Fault::Wait(10))
            .does(Fault::goaway().debug("shutdown")),
    );
    for payload in BODIES {
        let server = serve(script.clone()).await;
        let run = posts(&http2().build(), &server, CALLS / 2, AT_ONCE, payload).await;
        run.assert_all_done_once(&server, 2);
        println!("two phases: {} connections", server.log().totals().connections);
    }
}

/// The exact one tells how long connections live, and so the next is dialled before that one is retired.
#[tokio::test(start_paused = true)]
async fn a_goaway_in_two_phases_teaches_how_long_connections_live() {
    let retire = |first: LastId| {
        Rule::at(Moment::Request)
            .nth(5)
            .does(Fault::Wait(10))
            .does(Fault::goaway().last(first))
            .does(Fault::Wait(10))
            .does(Fault::goaway())
    };
    for first in [LastId::Exact, LastId::Max] {
        let server = serve(Script::new().service_time_ms(100).rule(retire(first))).await;
        posts(&http2().build(), &server, 20, 1, Payload::None).await.assert_all_done_once(&server, 0);
        let events = server.log().events();
        let first_of = |connection: u64, is: &dyn Fn(&Happening) -> bool| {
            events.iter().position(|event| event.connection == connection && is(&event.what)).unwrap()
        };
        let goaway = |what: &Happening| matches!(what, Happening::Frame { direction: Direction::Sent, kind: 7, .. });
        let accepted = |what: &Happening| *what == Happening::Accepted;
        assert!(first_of(2, &accepted) > first_of(1, &goaway), "nothing was known then");
        for connection in 2..4 {
            assert!(first_of(connection + 1, &accepted) < first_of(connection, &goaway), "{first:?}: {connection}");
        }
    }
}

/// A connection at the end of its life goes on being used while no successor can be dialled.
#[tokio::test(start_paused = true)]
async fn a_connection_that_cannot_be_replaced_goes_on_being_used() {
    let retire = Rule::at(Moment::Request).connection(1).nth(3).does(Fault::goaway());
    let server = serve(Script::new().service_time_ms(1).rule(retire)).await;
    let client = http2().build();
    // Connections live three streams, the server has said; and the second has taken one.
    posts_named("before", &client, &server, 4, 1, Payload::None).await.assert_all_done_once(&server, 1);
    server.refuse_connects_for(Duration::from_secs(3600));
    let began = Instant::now();
    posts_named("after", &client, &server, 20, 1, Payload::None).await.assert_all_done_once(&server, 0);
    // They wait for no dial, nor until it shows that the connection outlives what was expected.
    assert!(began.elapsed() < Duration::from_millis(250), "{:?}", began.elapsed());
    assert_eq!(server.log().connections().iter().map(|connection| connection.heads).collect::<Vec<_>>(), [3, 21]);
}

/// A later GOAWAY may lower the last id: what it disowns was not processed, and is sent elsewhere.
#[tokio::test]
async fn a_goaway_narrowed_later_refuses_what_it_disowns() {
    let script = Script::new().service_time_ms(20).rule(
        Rule::at(Moment::Request)
            .nth(8)
            .does(Fault::goaway().last(LastId::Exact).then(Then::Stay))
            .does(Fault::goaway().last(LastId::Id(5)).debug("less")),
    );
    for payload in BODIES {
        let server = serve(script.clone()).await;
        let run = posts(&http2().build(), &server, 200, 16, payload).await;
        // What was read before it is disowned may have been processed: then the server answers, GOAWAY or not.
        run.assert_all_done_once(&server, 3);
    }
}

#[tokio::test]
async fn a_goaway_followed_by_a_reset_once_its_streams_were_answered() {
    let script = Script::new()
        .service_time_ms(2)
        .rule(Rule::at(Moment::Request).nth(20).does(Fault::goaway().debug("max_age").then(Then::ResetWhenDone)));
    for payload in BODIES {
        let server = serve(script.clone()).await;
        let run = posts(&http2().build(), &server, CALLS, AT_ONCE, payload).await;
        run.assert_all_done_once(&server, 2);
        println!("GOAWAY, then RST: {} connections", server.log().totals().connections);
    }
}

/// The twentieth request gets GOAWAY, and the connection is reset before any of the twenty is answered. Of those, and of
/// no others, nobody knows whether they were processed.
#[tokio::test]
async fn a_goaway_followed_by_a_reset_before_its_streams_were_answered() {
    let script = Script::new()
        .service_time_ms(20)
        .rule(Rule::at(Moment::Request).connection(1).nth(20).does(Fault::goaway().debug("max_age").then(Then::Reset)));
    for payload in BODIES {
        let server = serve(script.clone()).await;
        let run = posts(&http2().build(), &server, 200, AT_ONCE, payload).await;
        run.assert_histories_agree(&server);
        assert_eq!(server.log().doubled(), []);
        let mut accepted: Vec<_> = server.log().all_tries();
        accepted.retain(|a_try| a_try.connection == 1 && !a_try.after_goaway && !a_try.disowned);
        let mut ids: Vec<_> = accepted.into_iter().map(|a_try| a_try.request_id.unwrap()).collect();
        ids.sort_unstable();
        assert_eq!(run.failed(), ids);
        assert_eq!(ids.len(), 20);
        for done in run.done.iter().filter(|done| done.result.is_err()) {
            let outcomes = done.outcomes();
            assert!(
                matches!(outcomes[..], [Outcome::SentUnknown(Unknown { cause: Cause::ConnectionLost, .. })]),
                "{outcomes:#?}"
            );
        }
    }
}

#[tokio::test]
async fn settings_that_lower_the_cap_mid_flight_lose_nothing() {
    let script = Script::new()
        .service_time_ms(Number::Random { from: 1, to: 4 })
        .rule(Rule::at(Moment::Request).nth(30).does(Settings::streams(3)))
        .rule(Rule::at(Moment::Request).nth(60).does(Settings::streams(50)))
        .rule(Rule::at(Moment::Request).nth(120).does(Settings::streams(1)))
        .rule(Rule::at(Moment::Request).nth(130).does(Settings::streams(10)));
    for payload in BODIES {
        let server = serve(script.clone()).await;
        let run = posts(&http2().build(), &server, CALLS / 2, AT_ONCE, payload).await;
        run.assert_all_done_once(&server, 2);
        println!("caps up and down: {} connections", server.log().totals().connections);
    }
}

/// The server says GOAWAY in the middle of an upload and resets the connection. The client's writes hit the reset before
/// it has read what came, and the GOAWAY is read all the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_goaway_followed_by_a_reset_of_the_upload_is_never_lost() {
    let goaway = Fault::goaway().last(LastId::Previous).then(Then::Reset);
    let server = serve(Script::new().rule(Rule::at(Moment::RequestBody(1)).does(goaway))).await;
    let client = http2().connection_retries(0).build();
    for n in 0..100 {
        call(&client, post(&server, &format!("small{n}"), Payload::None)).await.unwrap();
        let error = call(&client, post(&server, &format!("upload{n}"), Payload::Bytes(2_000_000))).await.unwrap_err();
        assert!(matches!(error.outcome(), Some(Outcome::Refused(_))), "{error}");
    }
}
