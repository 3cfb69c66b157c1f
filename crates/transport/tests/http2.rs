//! HTTP/2 with prior knowledge against peers that refuse, reset and retire.

#![allow(clippy::unwrap_used)] // A test panics when it fails.

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use http::Request;
use http_body::Frame;
use http_body_util::StreamBody;
use oncebox_transport::policy::{Cause, Outcome, Refusal, ReturnReason, Unknown};
use oncebox_transport::{Body, BoxError, CallOptions, Client, HttpVersion};
use support::{Peer, frames};

const NO_ERROR: u32 = 0;
const REFUSED_STREAM: u32 = 7;
const CANCEL: u32 = 8;
const ENHANCE_YOUR_CALM: u32 = 11;

fn client() -> Client {
    Client::builder().http_version(HttpVersion::Http2).build()
}

fn post(peer: &Peer, body: Body) -> Request<Body> {
    Request::post(peer.url("/")).body(body).unwrap()
}

fn stream(chunks: Vec<Bytes>) -> Body {
    let frames = chunks.into_iter().map(|chunk| Ok::<_, BoxError>(Frame::data(chunk)));
    Body::stream(StreamBody::new(futures_util::stream::iter(frames)))
}

/// A peer that refuses the first `refusals` requests with RST_STREAM and answers the others.
async fn refusing(refusals: usize) -> Peer {
    let left = Arc::new(AtomicUsize::new(refusals));
    Peer::start(move |_, mut socket| {
        let left = left.clone();
        async move {
            frames::accept(&mut socket, &[]).await;
            while let Some(stream) = frames::next_request(&mut socket).await {
                let refuse = left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1)).is_ok();
                if refuse {
                    frames::reset(&mut socket, stream, REFUSED_STREAM).await;
                } else {
                    frames::ok(&mut socket, stream).await;
                }
            }
        }
    })
    .await
}

#[tokio::test]
async fn requests_share_one_connection() {
    let peer = refusing(0).await;
    let client = client();
    for _ in 0..3 {
        let (a, b) = tokio::join!(
            client.send(post(&peer, Body::from("a")), CallOptions::new()),
            client.send(post(&peer, Body::empty()), CallOptions::new()),
        );
        assert_eq!((a.unwrap().status(), b.unwrap().status()), (http::StatusCode::OK, http::StatusCode::OK));
    }
    assert_eq!(peer.connections(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_refused_stream_is_replayed_whatever_the_method_and_the_body() {
    for body in [Body::empty(), Body::from("bytes"), stream(vec![Bytes::from(vec![7; 1000]); 65])] {
        let peer = refusing(3).await;
        let response = client().send(post(&peer, body), CallOptions::new()).await.unwrap();
        assert_eq!(response.status(), 200);
    }
}

#[tokio::test(start_paused = true)]
async fn a_fourth_refusal_ends_the_call_with_its_four_attempts() {
    let peer = refusing(4).await;
    let error = client().send(post(&peer, Body::from("x")), CallOptions::new()).await.unwrap_err();
    assert_eq!(error.attempts().len(), 4);
    assert_eq!(error.outcome(), Some(&Outcome::Refused(Refusal::RefusedStream { stream_id: 7 })));
    assert_eq!(error.evidence(), "stream refused: REFUSED_STREAM on stream 7");
    assert_eq!(error.reason(), Some(ReturnReason::ConnectionRetriesUsed));
    assert!(!error.may_have_been_processed());
}

#[tokio::test(start_paused = true)]
async fn a_stream_read_beyond_the_mirror_fails_as_refused_and_says_how_far() {
    let peer = Peer::start(|_, mut socket| async move {
        frames::accept(&mut socket, &[]).await;
        let id = frames::next_request(&mut socket).await.unwrap();
        // Refused only once the body has come that far: the initial window is 65,535 bytes.
        let mut got = 0;
        while got < 40_000 {
            let frame = frames::read(&mut socket).await.unwrap();
            got += if frame.kind == frames::DATA { frame.payload.len() } else { 0 };
        }
        frames::reset(&mut socket, id, REFUSED_STREAM).await;
        while frames::read(&mut socket).await.is_some() {}
    })
    .await;
    let client = Client::builder().http_version(HttpVersion::Http2).replay_buffer_limit(30_000).build();
    let error =
        client.send(post(&peer, stream(vec![vec![1; 20_000].into(); 9])), CallOptions::new()).await.unwrap_err();
    assert!(matches!(error.outcome(), Some(Outcome::Refused(_))), "{error}");
    let text = error.to_string();
    assert!(text.contains("body not replayable: ") && text.contains("replay_buffer_limit 30,000"), "{text}");
    assert!(!error.may_have_been_processed());
}

#[tokio::test(start_paused = true)]
async fn a_goaway_spares_the_streams_up_to_its_last_id_and_the_others_are_replayed_elsewhere() {
    for code in [NO_ERROR, ENHANCE_YOUR_CALM] {
        let peer = Peer::start(move |n, mut socket| async move {
            frames::accept(&mut socket, &[]).await;
            if n == 0 {
                let first = frames::next_request(&mut socket).await.unwrap();
                let second = frames::next_request(&mut socket).await.unwrap();
                assert_eq!((first, second), (1, 3));
                frames::goaway(&mut socket, first, code, b"max_age").await;
                frames::ok(&mut socket, first).await;
                assert_eq!(frames::next_request(&mut socket).await, None, "no stream opens after a GOAWAY");
            } else {
                while let Some(stream) = frames::next_request(&mut socket).await {
                    frames::ok(&mut socket, stream).await;
                }
            }
        })
        .await;
        let client = client();
        let (a, b) = tokio::join!(
            client.send(post(&peer, Body::from("a")), CallOptions::new()),
            client.send(post(&peer, stream(vec![Bytes::from_static(b"b")])), CallOptions::new()),
        );
        assert_eq!((a.unwrap().status(), b.unwrap().status()), (http::StatusCode::OK, http::StatusCode::OK));
        assert!((2..=3).contains(&peer.connections()), "{}", peer.connections());
    }
}

#[tokio::test]
async fn a_reset_with_any_other_code_is_never_a_replay() {
    for code in [NO_ERROR, CANCEL, 2] {
        let peer = Peer::start(move |_, mut socket| async move {
            frames::accept(&mut socket, &[]).await;
            while let Some(stream) = frames::next_request(&mut socket).await {
                frames::reset(&mut socket, stream, code).await;
            }
        })
        .await;
        let error = client().send(post(&peer, Body::from("x")), CallOptions::new()).await.unwrap_err();
        let Some(Outcome::SentUnknown(Unknown { cause, stream_id, .. })) = error.outcome() else { panic!("{error}") };
        assert_eq!((*cause, *stream_id), (Cause::Reset { code }, Some(1)));
        assert_eq!(error.attempts().len(), 1);
    }
}

#[tokio::test]
async fn a_connection_that_dies_after_the_headers_leaves_the_outcome_unknown() {
    let peer = Peer::start(|_, mut socket| async move {
        frames::accept(&mut socket, &[]).await;
        frames::next_request(&mut socket).await;
    })
    .await;
    let error = client().send(post(&peer, Body::from("x")), CallOptions::new()).await.unwrap_err();
    assert!(
        matches!(error.outcome(), Some(Outcome::SentUnknown(Unknown { cause: Cause::ConnectionLost, .. }))),
        "{error}"
    );
}

/// The peer allows one stream at a time. A dropped call and a dropped response each give theirs back.
#[tokio::test]
async fn dropped_calls_and_responses_free_their_streams() {
    let (arrived, mut unanswered) = tokio::sync::mpsc::channel(1);
    let peer = Peer::start(move |_, mut socket| {
        let arrived = arrived.clone();
        async move {
            frames::accept(&mut socket, &[0, 3, 0, 0, 0, 1]).await;
            while let Some(stream) = frames::next_request(&mut socket).await {
                if stream % 4 == 1 {
                    arrived.send(()).await.unwrap();
                } else {
                    // A head without an end: the response's body goes on.
                    frames::write(&mut socket, frames::HEADERS, frames::END_HEADERS, stream, &[0x88]).await;
                }
            }
        }
    })
    .await;
    let client = client();
    for _ in 0..5 {
        tokio::select! {
            answered = client.send(post(&peer, Body::from("x")), CallOptions::new()) => panic!("{answered:?}"),
            _ = unanswered.recv() => {}
        }
        let response = client.send(post(&peer, Body::from("x")), CallOptions::new()).await.unwrap();
        drop(response);
    }
    assert_eq!(peer.connections(), 1);
}

/// A server may answer before it has the request's body, and say nothing of the rest (RFC 9113 §8.1). With the call the stream ends.
#[tokio::test]
async fn an_early_answer_to_a_large_body_frees_its_stream() {
    let peer = Peer::start(|_, mut socket| async move {
        // SETTINGS_MAX_CONCURRENT_STREAMS = 1.
        frames::accept(&mut socket, &[0, 3, 0, 0, 0, 1]).await;
        let first = frames::next_request(&mut socket).await.unwrap();
        frames::ok(&mut socket, first).await;
        let mut is_reset = false;
        while let Some(frame) = frames::read(&mut socket).await {
            is_reset |= frame.kind == frames::RST_STREAM && frame.stream == first;
            if frame.kind == frames::HEADERS {
                assert!(is_reset, "a second stream was opened beside the first");
                frames::ok(&mut socket, frame.stream).await;
            }
        }
    })
    .await;
    let client = Client::builder().http_version(HttpVersion::Http2).max_connections(1).build();
    let options = || CallOptions::new().request_timeout(std::time::Duration::from_secs(20));
    for body in [vec![7; 100_000], vec![7; 10]] {
        let answer = client.send_collected(post(&peer, Body::from(body)), options()).await.unwrap();
        assert_eq!(answer.status(), 200);
    }
}
