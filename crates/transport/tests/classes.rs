//! Traffic classes: apart on their connections, and counted together.

#![allow(clippy::unwrap_used)] // A test panics when it fails.

mod support;

use std::time::Duration;

use futures_util::future::join_all;
use oncebox_faults::{Answer, Fault, Moment, Protocol, Rule, Script, Server};
use oncebox_transport::{CallOptions, Client, TrafficClass};
use support::load::{LONG, Payload, http2, post, serve};

const INTERACTIVE: TrafficClass = TrafficClass::Interactive;
const BULK: TrafficClass = TrafficClass::Bulk;

async fn call(client: &Client, server: &Server, id: &str, class: TrafficClass) {
    let called = client.send_collected(post(server, id, Payload::Bytes(9)), CallOptions::new().class(class));
    let answer = tokio::time::timeout(LONG, called).await.unwrap_or_else(|_| panic!("{id} never ends")).unwrap();
    assert_eq!(answer.status(), 200);
}

fn connection(server: &Server, id: &str) -> u64 {
    server.log().tries(id)[0].connection
}

/// One stream at a time on a connection, so that calls at once need as many connections.
fn one_at_a_time() -> Script {
    Script::new().max_concurrent_streams(1).service_time_ms(3)
}

#[tokio::test]
async fn classes_share_no_connection() {
    let server = serve(Script::new()).await;
    let client = http2().build();
    for (id, class) in [("a", INTERACTIVE), ("b", BULK), ("c", INTERACTIVE), ("d", BULK)] {
        call(&client, &server, id, class).await;
    }
    let on = |id| connection(&server, id);
    assert!(on("a") == on("c") && on("b") == on("d") && on("a") != on("b"));
    assert_eq!(server.log().totals().connections, 2);
}

#[tokio::test]
async fn the_bound_counts_over_all_classes() {
    let server = serve(one_at_a_time()).await;
    let client = http2().max_connections(5).build();
    call(&client, &server, "first", INTERACTIVE).await;
    call(&client, &server, "second", BULK).await;
    let ids: Vec<_> = (0..200).map(|n| format!("r{n}")).collect();
    let calls = ids.iter().enumerate();
    join_all(calls.map(|(n, id)| call(&client, &server, id, if n % 2 == 0 { INTERACTIVE } else { BULK }))).await;
    let totals = server.log().totals();
    assert_eq!((totals.processed, totals.doubled, totals.most_connections_open), (202, 0, 5));
}

#[tokio::test]
async fn a_class_that_has_none_gets_the_connection_that_another_does_not_use() {
    let server = serve(one_at_a_time()).await;
    let client = http2().max_connections(2).build();
    for round in 0..3 {
        let ids = [format!("a{round}"), format!("b{round}"), format!("c{round}")];
        tokio::join!(
            call(&client, &server, &ids[0], INTERACTIVE),
            call(&client, &server, &ids[1], INTERACTIVE),
            // Waits, as both are in use, until one is not.
            call(&client, &server, &ids[2], BULK)
        );
    }
    assert_eq!(server.log().totals().processed, 9);
}

/// A response may be dropped where there is no runtime. What follows from that happens on the pool's own.
#[tokio::test]
async fn a_response_that_is_dropped_on_a_plain_thread_makes_room_for_another_class() {
    let large = Fault::answer(Answer::default().size(8 << 20));
    let rule = Rule::at(Moment::Received).request_id("held*").does(large);
    let server = serve(Script::new().max_concurrent_streams(1).rule(rule)).await;
    let client = http2().max_connections(2).build();
    let begin = async |id| client.send(post(&server, id, Payload::None), CallOptions::new()).await.unwrap();
    // Both connections are those of commands, and in use.
    let (first, second) = (begin("held1").await, begin("held2").await);
    let waits = tokio::spawn({
        let (client, request) = (client.clone(), post(&server, "bulk", Payload::None));
        async move { client.send(request, CallOptions::new().class(BULK)).await }
    });
    // It is in the line once it was polled.
    tokio::task::yield_now().await;
    std::thread::spawn(move || drop((first, second))).join().unwrap();
    let answer = tokio::time::timeout(LONG, waits).await.unwrap_or_else(|_| panic!("it never ends"));
    assert_eq!(answer.unwrap().unwrap().status(), 200);
}

#[tokio::test]
async fn bulk_leaves_a_connection_to_commands() {
    let hold = Rule::at(Moment::Processed).request_id("held").does(Fault::Hold);
    let server = serve(Script::new().max_concurrent_streams(1).rule(hold)).await;
    let client = http2().max_connections(2).build();
    let bulk = |id: &'static str| {
        let (client, request) = (client.clone(), post(&server, id, Payload::None));
        tokio::spawn(async move { client.send(request, CallOptions::new().class(BULK)).await })
    };
    // From here on the client knows how many streams there are on a connection.
    call(&client, &server, "first", BULK).await;
    let (held, waits) = (bulk("held"), bulk("waits"));
    while server.log().processed("held") == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    call(&client, &server, "command", INTERACTIVE).await;
    assert_eq!((server.log().heads("waits"), server.log().totals().connections), (0, 2));
    held.abort();
    assert_eq!(waits.await.unwrap().unwrap().status(), 200);
}

#[tokio::test]
async fn bulk_leaves_a_connection_of_http_1_to_commands() {
    let hold = Rule::at(Moment::Processed).request_id("held").does(Fault::Hold);
    let server = serve(Script::new().protocol(Protocol::Http1).rule(hold)).await;
    let client = Client::builder().max_connections(2).build();
    let bulk = |id: &'static str| {
        let (client, request) = (client.clone(), post(&server, id, Payload::None));
        tokio::spawn(async move { client.send(request, CallOptions::new().class(BULK)).await })
    };
    let held = bulk("held");
    while server.log().processed("held") == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let waits = bulk("waits");
    call(&client, &server, "command", INTERACTIVE).await;
    assert_eq!((server.log().heads("waits"), server.log().totals().connections), (0, 2));
    held.abort();
    assert_eq!(waits.await.unwrap().unwrap().status(), 200);
}

#[tokio::test]
async fn one_connection_is_for_all() {
    let server = serve(Script::new()).await;
    let client = http2().max_connections(1).build();
    for (id, class) in [("a", INTERACTIVE), ("b", BULK)] {
        call(&client, &server, id, class).await;
    }
    assert_eq!(server.log().totals().connections, 1);
}

/// Failed dials give their place back, whoever waited for them.
#[tokio::test(start_paused = true)]
async fn places_are_given_back_by_dials_that_fail() {
    let server = Server::builder(one_at_a_time()).refuse_connects_for(Duration::from_secs(3600)).start().await.unwrap();
    let client = http2().max_connections(2).connection_retries(0).build();
    for round in 0..5 {
        for class in [INTERACTIVE, BULK] {
            let request = post(&server, &format!("{round}"), Payload::None);
            let error = client.send(request, CallOptions::new().class(class)).await.unwrap_err();
            assert!(error.is_connect(), "{error}");
        }
    }
    server.refuse_connects_for(Duration::ZERO);
}
