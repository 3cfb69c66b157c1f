//! A limit fires where the call stands, once, and says where that is.

#![allow(clippy::unwrap_used)] // A test panics when it fails.

mod support;

use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use http::Request;
use http_body::Frame;
use http_body_util::StreamBody;
use oncebox_faults::{Fault, Moment, Rule, Script, Withhold};
use oncebox_transport::policy::{Outcome, ReturnReason};
use oncebox_transport::{Body, BoxError, CallOptions, Client, Error, HttpVersion, Resolve, Resolving, Step};
use support::load::{Payload, post, serve};
use support::{OK, Peer, answer, read_request};

const VERSIONS: [HttpVersion; 2] = [HttpVersion::Http1, HttpVersion::Http2];

fn get(url: String) -> Request<Body> {
    Request::get(url).body(Body::empty()).unwrap()
}

fn within(limit: u64) -> CallOptions {
    CallOptions::new().request_timeout(Duration::from_secs(limit))
}

#[track_caller]
fn assert_expired(error: &Error, step: Step, sent: bool, expected: &str) {
    assert_eq!(error.timed_out_in(), Some(step), "{error}");
    assert_eq!(error.outcome(), Some(&Outcome::TimedOut { sent }), "{error}");
    assert_eq!((error.attempts().len(), error.reason()), (1, Some(ReturnReason::DeadlinePassed)));
    assert!(error.to_string().contains(expected), "{error}");
}

struct Silent;

impl Resolve for Silent {
    fn resolve(&self, _: &str) -> Resolving {
        Box::pin(std::future::pending())
    }
}

#[tokio::test(start_paused = true)]
async fn a_deadline_that_passes_during_the_look_up_says_so() {
    for version in VERSIONS {
        let client = Client::builder().no_proxy().resolver(Silent).dns_timeout(Duration::ZERO).http_version(version);
        let error = client.build().send(get("http://service.test/".into()), within(9)).await.unwrap_err();
        assert_expired(&error, Step::Dns, false, "waited for the server's addresses; 9s (request_timeout)");
    }
}

#[tokio::test]
async fn a_deadline_that_passes_in_the_line_says_so() {
    for version in VERSIONS {
        let hold = Rule::at(Moment::Processed).request_id("holds").does(Fault::Hold);
        let server = serve(Script::new().max_concurrent_streams(1).rule(hold)).await;
        let client = Client::builder().http_version(version).max_connections(1).build();
        let holder = tokio::spawn({
            let (client, request) = (client.clone(), post(&server, "holds", Payload::None));
            async move { client.send(request, CallOptions::new()).await }
        });
        while server.log().processed("holds") == 0 {
            tokio::task::yield_now().await;
        }
        tokio::time::pause();
        let error = client.send(post(&server, "waits", Payload::None), within(9)).await.unwrap_err();
        tokio::time::resume();
        assert_expired(&error, Step::Slot, false, "waited for a slot; 9s (request_timeout)");
        holder.abort();
    }
}

#[tokio::test]
async fn a_deadline_that_passes_before_the_head_or_within_the_body_says_so() {
    let peer = Peer::start(|n, mut socket| async move {
        read_request(&mut socket).await;
        if n == 1 {
            answer(&mut socket, "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf").await;
        }
        // From here on time passes by itself.
        tokio::time::pause();
        read_request(&mut socket).await;
    })
    .await;
    let client = Client::new();
    let error = client.send_collected(get(peer.url("/")), within(9)).await.unwrap_err();
    assert_expired(&error, Step::Head, true, "waited for the response's head; 9s (request_timeout)");
    tokio::time::resume();
    let options = within(9).read_idle_timeout(Duration::ZERO);
    let error = client.send_collected(get(peer.url("/")), options).await.unwrap_err();
    assert_expired(&error, Step::Body, true, "waited for the rest of the response; 9s (request_timeout)");
}

/// Pieces of a kibibyte, each after a while.
fn trickle(pieces: usize, pause: Duration) -> Body {
    let frames = futures_util::stream::iter(0..pieces).then(move |_| async move {
        if !pause.is_zero() {
            tokio::time::sleep(pause).await;
        }
        Ok::<_, BoxError>(Frame::data(Bytes::from_static(&[b'x'; 1024])))
    });
    Body::stream(StreamBody::new(frames))
}

/// It is the caller who takes his time.
#[tokio::test(start_paused = true)]
async fn a_stream_that_is_slow_to_yield_is_not_cut() {
    for version in VERSIONS {
        let server = serve(Script::new()).await;
        let client = Client::builder().http_version(version).build();
        let mut request = post(&server, "a", Payload::None);
        *request.body_mut() = trickle(5, Duration::from_secs(100));
        let options = within(2).write_idle_timeout(Duration::from_secs(2));
        let response = client.send_collected(request, options).await.unwrap();
        assert_eq!((response.status().as_u16(), server.log().tries("a")[0].body_bytes), (200, 5 * 1024));
    }
}

#[tokio::test(start_paused = true)]
async fn the_wait_for_an_answer_after_a_streamed_body_is_bounded() {
    for version in VERSIONS {
        let server = serve(Script::new().rule(Rule::at(Moment::Received).does(Fault::Hold))).await;
        let client = Client::builder().http_version(version).build();
        let mut request = post(&server, "a", Payload::None);
        *request.body_mut() = trickle(3, Duration::from_secs(100));
        let began = tokio::time::Instant::now();
        let error = client.send(request, within(7)).await.unwrap_err();
        assert_expired(&error, Step::Head, true, "waited for the response's head; 7s (request_timeout)");
        assert_eq!(began.elapsed().as_secs(), 307);
    }
}

#[tokio::test(start_paused = true)]
async fn an_upload_that_the_server_does_not_take_ends_by_write_idle_timeout() {
    let withhold = Rule::at(Moment::Connect).does(Fault::Withhold(vec![Withhold::WindowUpdates]));
    let server = serve(Script::new().rule(withhold)).await;
    let client = Client::builder().http_version(HttpVersion::Http2).build();
    let mut request = post(&server, "a", Payload::None);
    *request.body_mut() = trickle(4096, Duration::ZERO);
    let options = within(3).write_idle_timeout(Duration::from_secs(8));
    let error = client.send(request, options).await.unwrap_err();
    let expected = "waited for the server to take the request's body; 8s (write_idle_timeout)";
    assert_expired(&error, Step::Upload, true, expected);
}

#[tokio::test]
async fn an_upload_over_http_1_that_the_server_does_not_take_ends_by_write_idle_timeout() {
    let peer = Peer::start(|_, mut socket| async move {
        let mut some = [0; 64];
        tokio::io::AsyncReadExt::read_exact(&mut socket, &mut some).await.unwrap();
        tokio::time::sleep(Duration::from_secs(3600)).await;
    })
    .await;
    let request = Request::put(peer.url("/")).body(trickle(1 << 17, Duration::ZERO)).unwrap();
    let options = CallOptions::new().write_idle_timeout(Duration::from_millis(300));
    let error = Client::new().send(request, options).await.unwrap_err();
    assert_expired(&error, Step::Upload, true, "300ms (write_idle_timeout)");
}

/// An answer that has begun is worth more than the rest of the request.
#[tokio::test]
async fn an_early_answer_is_read_whole_though_the_upload_stands_still() {
    let peer = Peer::start(|_, mut socket| async move {
        let mut some = [0; 64];
        tokio::io::AsyncReadExt::read_exact(&mut socket, &mut some).await.unwrap();
        answer(&mut socket, OK).await;
        // Kept open, and not read.
        tokio::time::sleep(Duration::from_secs(3600)).await;
    })
    .await;
    let request = Request::put(peer.url("/")).body(trickle(1 << 17, Duration::ZERO)).unwrap();
    let options = CallOptions::new().write_idle_timeout(Duration::from_secs(5));
    let response = Client::new().send_collected(request, options).await.unwrap();
    assert_eq!(response.body(), "ok");
}

#[tokio::test]
async fn an_attempts_own_limit_ends_a_streamed_one_too() {
    let server = serve(Script::new().rule(Rule::at(Moment::Request).does(Fault::Hold))).await;
    let client = Client::builder().http_version(HttpVersion::Http2).build();
    let mut request = post(&server, "a", Payload::None);
    *request.body_mut() = trickle(3, Duration::from_secs(3600));
    let options = CallOptions::new().attempt_timeout(Duration::from_millis(300));
    let error = client.send(request, options).await.unwrap_err();
    let text = "attempt_timeout passed on stream 1: waited for the server to take the request's body";
    assert!(error.to_string().contains(text) && error.may_have_been_processed(), "{error}");
}
