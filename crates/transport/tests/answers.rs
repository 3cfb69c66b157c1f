//! What an answer says in its body, read before it is judged: repeats follow it, and the body goes on unchanged.

#![allow(clippy::unwrap_used)] // A test panics when it fails.

mod support;

use std::time::Duration;

use http::Request;
use http::response::Parts;
use http_body_util::BodyExt;
use oncebox_transport::policy::{Edge, Reading, RetryReason, ReturnReason, Verdict};
use oncebox_transport::{Body, CallOptions, Client};
use support::{OK, Peer, answer, read_request};
use tokio::io::AsyncWriteExt;

/// Says of a 502 what its text says, and of a 200 what its first letter says.
fn reader(head: &Parts, begun: &[u8], ended: bool) -> Reading {
    match (head.status.as_u16(), begun) {
        (200, [b'!', ..]) => Reading::Like(503),
        (200, [_, ..]) => Reading::Nothing,
        (502, b"nobody is there") if ended => Reading::Edge(Edge::NotDelivered),
        (502, b"gone") if ended => Reading::Edge(Edge::NotRunning),
        (200 | 502, _) => Reading::More,
        (409, _) => Reading::Edge(Edge::NotDelivered),
        _ => Reading::Nothing,
    }
}

fn with_body(status: u16, body: &str) -> String {
    format!("HTTP/1.1 {status} X\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}

/// Answers these in turn, the last for ever.
async fn peer(answers: Vec<String>) -> Peer {
    let answers = std::sync::Arc::new((std::sync::Mutex::new(0), answers));
    Peer::start(move |_, mut socket| {
        let answers = answers.clone();
        async move {
            while read_request(&mut socket).await.is_some() {
                let at = {
                    let mut at = answers.0.lock().unwrap();
                    *at += 1;
                    *at - 1
                };
                answer(&mut socket, &answers.1[at.min(answers.1.len() - 1)]).await;
            }
        }
    })
    .await
}

fn options() -> CallOptions {
    CallOptions::new().retries(0).answer_reader(reader)
}

fn post(peer: &Peer) -> Request<Body> {
    Request::post(peer.url("/")).body(Body::from("work")).unwrap()
}

fn reasons(history: &oncebox_transport::History) -> Vec<Result<RetryReason, ReturnReason>> {
    let verdict = |record: &oncebox_transport::policy::Record| match record.verdict {
        Verdict::Retry(retry) => Ok(retry.reason),
        Verdict::Return(end) => Err(end.reason),
        Verdict::Reconcile => panic!("nobody reconciles"),
    };
    history.ledger().attempts().iter().map(verdict).collect()
}

#[tokio::test]
async fn what_was_not_delivered_is_sent_again_even_a_post_without_retries() {
    let client = Client::builder().build();
    let not_delivered = with_body(502, "nobody is there");
    for streaming in [true, false] {
        let peer = peer(vec![not_delivered.clone(), not_delivered.clone(), OK.to_owned()]).await;
        let (history, body) = if streaming {
            let response = client.send(post(&peer), options()).await.unwrap();
            (response.history().clone(), response.into_http().into_body().collect().await.unwrap().to_bytes())
        } else {
            let response = client.send_collected(post(&peer), options()).await.unwrap();
            (response.history().clone(), response.into_http().into_body())
        };
        assert_eq!(&body[..], b"ok");
        let twice = Ok(RetryReason::NotDelivered);
        assert_eq!(reasons(&history), [twice, twice, Err(ReturnReason::Success)], "streaming: {streaming}");
    }
}

#[tokio::test]
async fn it_is_sent_again_within_the_calls_bound_and_comes_back_as_it_came() {
    let client = Client::builder().build();
    let peer = peer(vec![with_body(502, "nobody is there")]).await;
    let response = client.send(post(&peer), options().connection_retries(1)).await.unwrap();
    let ends = [Ok(RetryReason::NotDelivered), Err(ReturnReason::ConnectionRetriesUsed)];
    assert_eq!(reasons(response.history()), ends);
    assert_eq!(response.status(), 502);
    assert_eq!(response.into_http().into_body().collect().await.unwrap().to_bytes(), "nobody is there");
}

#[tokio::test]
async fn a_502_that_says_something_else_is_what_it_was() {
    let client = Client::builder().build();
    for (text, reason) in [("gone", ReturnReason::SandboxNotRunning), ("bad gateway", ReturnReason::NoPermit)] {
        let peer = peer(vec![with_body(502, text)]).await;
        let response = client.send_collected(post(&peer), options().retries(3)).await.unwrap();
        assert_eq!(reasons(response.history()), [Err(reason)], "{text}");
        assert_eq!(response.into_http().into_body(), text);
    }
}

#[tokio::test]
async fn an_answer_is_judged_like_the_status_that_its_body_says() {
    let client = Client::builder().build();
    let peer = peer(vec![with_body(200, "!busy"), with_body(200, "fine")]).await;
    let response = client.send(post(&peer), options().retries(1)).await.unwrap();
    assert_eq!(reasons(response.history()), [Ok(RetryReason::Status), Err(ReturnReason::Success)]);
    assert_eq!(response.into_http().into_body().collect().await.unwrap().to_bytes(), "fine");
}

/// A stream is handed on as soon as its first byte has said that it is one, and every byte of it is there.
#[tokio::test]
async fn a_stream_goes_on_where_it_was_looked_at() {
    let (more, may_go_on) = tokio::sync::oneshot::channel::<()>();
    let may_go_on = std::sync::Arc::new(tokio::sync::Mutex::new(Some(may_go_on)));
    let peer = Peer::start(move |_, mut socket| {
        let may_go_on = may_go_on.clone();
        async move {
            read_request(&mut socket).await.unwrap();
            answer(&mut socket, "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\nbegi\r\n").await;
            may_go_on.lock().await.take().unwrap().await.unwrap();
            answer(&mut socket, "5\r\nn-end\r\n").await;
            // Cut: the last chunk is missing.
            socket.shutdown().await.unwrap();
        }
    })
    .await;
    let response = Client::builder().build().send(post(&peer), options()).await.unwrap();
    more.send(()).unwrap();
    let mut body = response.into_http().into_body();
    let mut came = Vec::new();
    let error = loop {
        match body.frame().await.unwrap() {
            Ok(frame) => came.extend_from_slice(&frame.into_data().unwrap()),
            Err(error) => break error,
        }
    };
    assert_eq!(String::from_utf8(came).unwrap(), "begin-end");
    assert!(error.to_string().contains("9 bytes"), "{error}");
}

#[tokio::test]
async fn a_body_that_is_cut_while_it_is_looked_at_says_nothing() {
    let cut = "HTTP/1.1 502 X\r\ncontent-length: 15\r\nconnection: close\r\n\r\nnobody";
    let peer = Peer::start(move |_, mut socket| async move {
        read_request(&mut socket).await.unwrap();
        answer(&mut socket, cut).await;
    })
    .await;
    let client = Client::builder().build();
    let error = client.send_collected(post(&peer), options()).await.unwrap_err();
    assert_eq!(error.reason(), Some(ReturnReason::NoPermit), "{error}");
    // Nor does one whose words are all there: who knows what was to follow.
    let cut = "HTTP/1.1 502 X\r\ncontent-length: 99\r\nconnection: close\r\n\r\nnobody is there";
    let cut_later = Peer::start(move |_, mut socket| async move {
        read_request(&mut socket).await.unwrap();
        answer(&mut socket, cut).await;
    })
    .await;
    let error = client.send_collected(post(&cut_later), options()).await.unwrap_err();
    assert_eq!((error.reason(), cut_later.connections()), (Some(ReturnReason::NoPermit), 1), "{error}");
    let response = client.send(post(&cut_later), options()).await.unwrap();
    assert_eq!((reasons(response.history()), cut_later.connections()), (vec![Err(ReturnReason::NoPermit)], 2));
    // Where the body is handed on, its reader gets what came and then the cut.
    let response = client.send(post(&peer), options()).await.unwrap();
    let mut body = response.into_http().into_body();
    assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), "nobody");
    assert!(body.frame().await.unwrap().is_err());
    assert!(body.frame().await.is_none());
}

/// What the head alone says is not waited with: the body that is to follow never comes.
#[tokio::test]
async fn a_head_that_says_all_is_judged_at_once() {
    let peer = Peer::start(move |connection, mut socket| async move {
        read_request(&mut socket).await.unwrap();
        if connection == 0 {
            answer(&mut socket, "HTTP/1.1 409 X\r\ncontent-length: 15\r\n\r\n").await;
            std::future::pending::<()>().await;
        }
        answer(&mut socket, "HTTP/1.1 500 X\r\ncontent-length: 15\r\n\r\n").await;
        std::future::pending::<()>().await;
    })
    .await;
    let response = Client::builder().build().send(post(&peer), options()).await.unwrap();
    let ends = [Ok(RetryReason::NotDelivered), Err(ReturnReason::StatusFinal)];
    assert_eq!(reasons(response.history()), ends);
}

#[tokio::test]
async fn the_deadline_bounds_what_is_looked_at() {
    let peer = Peer::start(move |_, mut socket| async move {
        read_request(&mut socket).await.unwrap();
        answer(&mut socket, "HTTP/1.1 502 X\r\ncontent-length: 15\r\n\r\nnobody").await;
        std::future::pending::<()>().await;
    })
    .await;
    let client = Client::builder().build();
    let options = options().request_timeout(Duration::from_millis(200));
    let error = client.send(post(&peer), options).await.unwrap_err();
    assert!(error.to_string().contains("request_timeout"), "{error}");
    assert!(error.may_have_been_processed());
}
