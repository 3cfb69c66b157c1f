//! The ways into the client besides its own: tower, a thread that blocks, runtimes of one's own.

#![allow(clippy::unwrap_used)] // A test panics when it fails.

mod support;

use std::io::Read;
use std::time::Duration;

use http::{Method, Request};
use oncebox_faults::{Answer, Fault, Moment, Rule, Script, Server};
use oncebox_transport::{Body, CallOptions, blocking};
use support::load::{Payload, http2, post, request, serve};
use tower::{Service, ServiceBuilder, ServiceExt};

fn busy() -> Script {
    Script::new().rule(Rule::at(Moment::Request).does(Fault::answer(Answer::status(503))))
}

#[tokio::test]
async fn it_is_a_service_that_towers_layers_take() {
    let server = serve(busy()).await;
    let mut service = ServiceBuilder::new()
        .concurrency_limit(3)
        .timeout(Duration::from_secs(20))
        .map_request(|mut request: Request<Body>| {
            // A call's options travel with its request.
            request.extensions_mut().insert(CallOptions::new().retries(0));
            request
        })
        .service(http2().build());
    let response = service.ready().await.unwrap().call(post(&server, "a", Payload::None)).await.unwrap();
    assert_eq!((response.status().as_u16(), server.log().heads("a")), (503, 1));

    // Boxed, and several at once.
    let boxed = http2().retries(0).build().boxed_clone();
    let calls = (0..4).map(|n| boxed.clone().oneshot(post(&server, &format!("b{n}"), Payload::Bytes(9))));
    for response in futures_util::future::join_all(calls).await {
        assert_eq!(response.unwrap().status(), 503);
    }
    assert_eq!(server.log().doubled(), []);
}

/// A server on a runtime of its own, as those of programs are that have none.
fn elsewhere(script: Script) -> (blocking::IoRuntime, Server) {
    let runtime = blocking::IoRuntime::start().unwrap();
    let server = runtime.run(serve(script)).unwrap();
    (runtime, server)
}

#[test]
fn a_program_without_a_runtime_makes_calls() {
    const LONG: usize = 300_000;
    let long = Answer { body: oncebox_faults::Body::Size(LONG as u64), ..Answer::default() };
    let script = Script::new().rule(Rule::at(Moment::Request).path("/long").does(Fault::answer(long)));
    let (_runtime, server) = elsewhere(script);
    let client = blocking::Client::from(http2().build());
    let get = |path: &str| Request::get(server.url(path)).body(Body::empty()).unwrap();

    let collected = client.send_collected(get("/"), CallOptions::new()).unwrap();
    assert_eq!(collected.body()[..], *b"ok");
    let mut whole = Vec::new();
    client.send(get("/long"), CallOptions::new()).unwrap().into_body().read_to_end(&mut whole).unwrap();
    assert_eq!(whole.len(), LONG);
    // One that is not read to its end gives its stream back.
    for _ in 0..20 {
        let mut some = [0; 10];
        client.send(get("/long"), CallOptions::new()).unwrap().into_body().read_exact(&mut some).unwrap();
    }
    // Threads share the connection.
    let threads: Vec<_> = (0..4)
        .map(|n| {
            let (client, request) =
                (client.clone(), request(&server, Method::POST, &format!("r{n}"), Payload::Bytes(9)));
            std::thread::spawn(move || client.send_collected(request, CallOptions::new()).unwrap().status())
        })
        .collect();
    assert!(threads.into_iter().all(|thread| thread.join().unwrap() == 200));
    assert_eq!(server.log().totals().connections, 1);

    let error = client.send(Request::get("nonsense").body(Body::empty()).unwrap(), CallOptions::new()).unwrap_err();
    assert!(error.to_string().contains("http://"), "{error}");
}

#[tokio::test]
async fn a_blocking_call_on_a_runtime_is_refused_before_it_holds_that_up() {
    let server = serve(Script::new()).await;
    let error = blocking::Client::new().send(post(&server, "a", Payload::None), CallOptions::new()).unwrap_err();
    assert!(error.to_string().contains("use Client there"), "{error}");
    assert_eq!(server.log().heads("a"), 0);
}

#[test]
fn runtimes_one_after_the_other_and_at_once_share_no_dead_connection() {
    let (_runtime, server) = elsewhere(Script::new());
    let client = http2().connection_retries(0).build();
    let send = |runtime: &blocking::IoRuntime, id: &str| {
        let (client, request) = (client.clone(), post(&server, id, Payload::None));
        let sent = runtime.run(async move { client.send_collected(request, CallOptions::new()).await });
        sent.unwrap().unwrap().status()
    };
    for n in 0..3 {
        // Connections of the one before have died with it, and nothing may be repeated.
        let runtime = blocking::IoRuntime::start().unwrap();
        assert_eq!(send(&runtime, &format!("after{n}")), 200);
    }
    let (one, other) = (blocking::IoRuntime::start().unwrap(), blocking::IoRuntime::start().unwrap());
    for n in 0..10 {
        assert_eq!(send(&one, &format!("one{n}")), 200);
        assert_eq!(send(&other, &format!("other{n}")), 200);
    }
    assert_eq!(server.log().totals().connections, 5);
}
