//! HTTP/1.1 against peers that close, cut and stay silent.

#![allow(clippy::unwrap_used)] // A test panics when it fails.

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use http::Request;
use http_body_util::BodyExt;
use hyper_util::rt::TokioIo;
use oncebox_faults::{Fault, Moment, Protocol, Rule, Script, Server};
use oncebox_transport::policy::{Cause, Outcome, Phase, ReturnReason, Unknown};
use oncebox_transport::{Body, BoxError, CallOptions, Client, History, HttpVersion, Response};
use support::{OK, Peer, answer, read_request};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

fn get(url: String) -> Request<Body> {
    Request::get(url).body(Body::empty()).unwrap()
}

fn post(url: String) -> Request<Body> {
    Request::post(url).body(Body::from("hello")).unwrap()
}

fn history(response: &Response<bytes::Bytes>) -> History {
    response.history().clone()
}

#[tokio::test]
async fn an_answer_comes_back_with_its_history() {
    let peer = Peer::start(|_, mut socket| async move {
        let request = read_request(&mut socket).await.unwrap();
        assert!(request.starts_with("POST /a?b=c HTTP/1.1\r\n"), "{request}");
        assert!(request.contains("\r\ncontent-length: 5\r\n"), "{request}");
        assert!(!request.to_lowercase().contains("oncebox-attempt"), "{request}");
        answer(&mut socket, "HTTP/1.1 404 Not Found\r\ncontent-length: 4\r\n\r\nnone").await;
    })
    .await;
    let response = Client::new().send_collected(post(peer.url("/a?b=c")), CallOptions::new()).await.unwrap();
    assert_eq!((response.status().as_u16(), &response.body()[..]), (404, &b"none"[..]));
    assert_eq!(history(&response).attempts().len(), 1);
}

#[tokio::test]
async fn a_503_is_retried_on_the_same_connection_and_says_which_attempt_it_is() {
    let peer = Peer::start(|_, mut socket| async move {
        read_request(&mut socket).await.unwrap();
        answer(&mut socket, "HTTP/1.1 503 Busy\r\ncontent-length: 0\r\nretry-after: 0\r\n\r\n").await;
        let second = read_request(&mut socket).await.unwrap().to_lowercase();
        assert!(second.contains("\r\noncebox-attempt: 2\r\n"), "{second}");
        answer(&mut socket, OK).await;
    })
    .await;
    let response = Client::new().send_collected(post(peer.url("/")), CallOptions::new()).await.unwrap();
    assert_eq!(response.status(), 200);
    assert_eq!(peer.connections(), 1);
    assert_eq!(history(&response).ledger().retries_used(), 1);
}

#[tokio::test]
async fn a_retry_after_beyond_the_deadline_returns_at_once_with_the_hint() {
    let peer = Peer::start(|_, mut socket| async move {
        read_request(&mut socket).await.unwrap();
        answer(&mut socket, "HTTP/1.1 503 Busy\r\ncontent-length: 0\r\nretry-after: 3600\r\n\r\n").await;
        assert_eq!(read_request(&mut socket).await, None);
    })
    .await;
    let response = Client::new().send_collected(get(peer.url("/")), CallOptions::new()).await.unwrap();
    assert_eq!(response.status(), 503);
    let record = history(&response).attempts()[0];
    let Outcome::Responded(facts) = record.outcome else { panic!("{record:?}") };
    assert_eq!(facts.retry_after, Some(Duration::from_secs(3600)));
}

#[tokio::test(start_paused = true)]
async fn a_refused_connection_is_tried_again_and_then_named_with_its_address() {
    let unused = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let error = Client::new().send(post(format!("http://{unused}/x")), CallOptions::new()).await.unwrap_err();
    assert_eq!(error.attempts().len(), 4);
    assert_eq!(error.reason(), Some(ReturnReason::ConnectionRetriesUsed));
    assert!(error.is_connect() && !error.may_have_been_processed());
    let Some(Outcome::NotSent(not_sent)) = error.outcome() else { panic!("{error}") };
    assert_eq!(not_sent.phase, Phase::Connect);
    let text = error.to_string();
    assert!(text.starts_with(&format!("POST http://{unused}/x: not sent (connect): {unused}: ")), "{text}");
    assert!(text.contains("(connection_retries); 4 attempts:\n  1. "), "{text}");
}

#[tokio::test]
async fn a_post_that_is_lost_after_it_was_sent_is_not_repeated() {
    let peer = Peer::start(|_, mut socket| async move {
        read_request(&mut socket).await;
    })
    .await;
    let error = Client::new().send(post(peer.url("/")), CallOptions::new()).await.unwrap_err();
    assert!(
        matches!(error.outcome(), Some(Outcome::SentUnknown(Unknown { cause: Cause::ConnectionLost, .. }))),
        "{error}"
    );
    assert_eq!(error.reason(), Some(ReturnReason::NoPermit));
    assert!(error.may_have_been_processed());
    assert_eq!(peer.connections(), 1);
}

#[tokio::test]
async fn a_get_that_is_lost_after_it_was_sent_is_repeated() {
    let peer = Peer::start(|n, mut socket| async move {
        read_request(&mut socket).await;
        if n > 0 {
            answer(&mut socket, OK).await;
        }
    })
    .await;
    let response = Client::new().send_collected(get(peer.url("/")), CallOptions::new()).await.unwrap();
    assert_eq!(response.status(), 200);
    assert_eq!(peer.connections(), 2);
}

/// The server closes, or says 408, while the connection is idle: the next POST goes to a new connection and is never
/// written to the old one.
async fn a_post_after_an_idle_connection_ended(goodbye: &'static str) {
    let requests = Arc::new(AtomicUsize::new(0));
    let (closed, mut wait_closed) = tokio::sync::mpsc::channel(1);
    let counted = requests.clone();
    let peer = Peer::start(move |n, mut socket| {
        let (requests, closed) = (counted.clone(), closed.clone());
        async move {
            read_request(&mut socket).await.unwrap();
            requests.fetch_add(1, Ordering::SeqCst);
            answer(&mut socket, OK).await;
            if n == 0 {
                answer(&mut socket, goodbye).await;
                drop(socket);
                closed.send(()).await.unwrap();
            }
        }
    })
    .await;
    let client = Client::new();
    client.send_collected(post(peer.url("/")), CallOptions::new()).await.unwrap();
    wait_closed.recv().await.unwrap();
    let response = client.send_collected(post(peer.url("/")), CallOptions::new()).await.unwrap();
    assert_eq!(response.body(), "ok");
    assert_eq!((requests.load(Ordering::SeqCst), peer.connections()), (2, 2));
}

#[tokio::test]
async fn a_stale_keep_alive_connection_loses_no_post() {
    for _ in 0..20 {
        a_post_after_an_idle_connection_ended("").await;
    }
}

#[tokio::test]
async fn an_unsolicited_408_is_not_taken_for_an_answer() {
    for _ in 0..20 {
        a_post_after_an_idle_connection_ended("HTTP/1.1 408 Request Timeout\r\nconnection: close\r\n\r\n").await;
    }
}

#[tokio::test]
async fn a_cut_body_is_unknown_for_a_post_and_repeated_for_a_get() {
    let peer = Peer::start(|n, mut socket| async move {
        read_request(&mut socket).await;
        answer(&mut socket, if n < 2 { "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf" } else { OK }).await;
    })
    .await;
    let client = Client::new();
    let error = client.send_collected(post(peer.url("/")), CallOptions::new()).await.unwrap_err();
    assert_eq!(error.outcome().and_then(Outcome::status), Some(200));
    assert!(error.to_string().contains("answered 200, the body was cut"), "{error}");
    assert!(error.may_have_been_processed());
    let response = client.send_collected(get(peer.url("/")), CallOptions::new()).await.unwrap();
    assert_eq!(response.body(), "ok");
    assert_eq!(peer.connections(), 3);
}

#[tokio::test]
async fn after_the_head_was_handed_on_a_cut_is_the_callers_to_see() {
    let peer = Peer::start(|_, mut socket| async move {
        read_request(&mut socket).await;
        answer(&mut socket, "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf").await;
    })
    .await;
    let response = Client::new().send(get(peer.url("/")), CallOptions::new()).await.unwrap();
    let mut body = response.into_body();
    assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), "half");
    let error = body.frame().await.unwrap().unwrap_err();
    assert_eq!(error.received(), 4);
    assert!(error.to_string().contains("cut after 4 bytes"), "{error}");
    assert!(body.frame().await.is_none());
    assert_eq!(peer.connections(), 1);
}

#[tokio::test]
async fn a_silent_server_ends_at_the_deadline_and_the_error_says_that_it_was_sent() {
    let peer = Peer::start(|_, mut socket| async move {
        read_request(&mut socket).await;
        // From here on time passes by itself.
        tokio::time::pause();
        read_request(&mut socket).await;
    })
    .await;
    let options = CallOptions::new().request_timeout(Duration::from_secs(5));
    let error = Client::new().send(get(peer.url("/")), options).await.unwrap_err();
    assert_eq!(error.outcome(), Some(&Outcome::TimedOut { sent: true }));
    assert!(error.to_string().contains("request_timeout"), "{error}");
}

#[tokio::test]
async fn an_attempt_timeout_is_an_unknown_outcome_that_a_get_survives() {
    let peer = Peer::start(|n, mut socket| async move {
        read_request(&mut socket).await;
        match n {
            0 => {
                tokio::time::pause();
                read_request(&mut socket).await;
            }
            _ => answer(&mut socket, OK).await,
        }
    })
    .await;
    let options = CallOptions::new().attempt_timeout(Duration::from_secs(5));
    let response = Client::new().send_collected(get(peer.url("/")), options).await.unwrap();
    let history = history(&response);
    let Outcome::SentUnknown(unknown) = history.attempts()[0].outcome else { panic!("{history:?}") };
    assert_eq!(unknown.cause, Cause::AttemptTimeout);
}

#[tokio::test]
async fn a_stream_that_stays_silent_ends_by_its_own_limit() {
    let peer = Peer::start(|_, mut socket| async move {
        read_request(&mut socket).await;
        answer(&mut socket, "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\na\r\n").await;
        read_request(&mut socket).await;
    })
    .await;
    let options = CallOptions::new().read_idle_timeout(Duration::from_secs(7));
    let mut body = Client::new().send(get(peer.url("/")), options).await.unwrap().into_body();
    body.frame().await.unwrap().unwrap();
    tokio::time::pause();
    let error = body.frame().await.unwrap().unwrap_err();
    assert!(error.is_idle_timeout());
    assert!(error.to_string().contains("7s (read_idle_timeout), 1 bytes before"), "{error}");
}

#[tokio::test]
async fn a_response_too_large_to_be_read_whole_says_so_and_is_not_asked_for_again() {
    let peer = Peer::start(|_, mut socket| async move {
        read_request(&mut socket).await;
        answer(&mut socket, OK).await;
    })
    .await;
    let client = Client::builder().max_response_size(1).build();
    let error = client.send_collected(get(peer.url("/")), CallOptions::new()).await.unwrap_err();
    assert!(error.to_string().contains("larger than 1 bytes (max_response_size)"), "{error}");
    assert_eq!((error.attempts().len(), peer.connections()), (1, 1));
}

/// The caller's stream fails: what it did not yield must never be taken for its end.
#[tokio::test(start_paused = true)]
async fn a_body_whose_stream_fails_is_not_replayed_as_a_shorter_one() {
    let complete = Arc::new(AtomicUsize::new(0));
    let counted = complete.clone();
    let peer = Peer::start(move |_, mut socket| {
        let complete = counted.clone();
        async move {
            let mut seen = Vec::new();
            while tokio::io::AsyncReadExt::read_buf(&mut socket, &mut seen).await.is_ok_and(|n| n > 0) {
                if seen.ends_with(b"0\r\n\r\n") {
                    complete.fetch_add(1, Ordering::SeqCst);
                    answer(&mut socket, OK).await;
                }
            }
        }
    })
    .await;
    for before in [0, 1, 3] {
        let pieces = (0..before).map(|_| Ok(http_body::Frame::data(bytes::Bytes::from_static(b"piece"))));
        let frames = pieces.chain([Err(BoxError::from("the disk is gone"))]);
        let body = Body::stream(http_body_util::StreamBody::new(futures_util::stream::iter(frames)));
        let request = Request::put(peer.url("/")).body(body).unwrap();
        let result = Client::new().send_collected(request, CallOptions::new()).await;
        let error = result.expect_err("a body that failed was taken for a whole one");
        assert_eq!(error.attempts().len(), 1, "{error}");
    }
    assert_eq!(complete.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn what_cannot_be_dialled_is_refused_before_any_io() {
    for (url, rule) in [
        ("ftp://127.0.0.1:1/", "must begin with http://"),
        ("/only/a/path", "must begin with http://"),
        ("http://user:secret@127.0.0.1:1/", "must not hold credentials"),
        ("http://127.0.0.1:99999/", "port is no number"),
    ] {
        let error = Client::new().send(get(url.into()), CallOptions::new()).await.unwrap_err();
        let text = error.to_string();
        assert!(error.is_invalid() && text.contains(rule), "{text}");
        assert!(!text.contains("secret"), "{text}");
        assert!(error.attempts().is_empty());
    }
}

/// 300 at once, each of which comes back when its connection is about to be closed, or was just now.
async fn idle_connections_end(goodbye: Option<Fault>) {
    let mut rule = Rule::at(Moment::Idle(1000)).named("idle");
    if let Some(goodbye) = goodbye {
        rule = rule.does(goodbye);
    }
    let script = Script::new().protocol(Protocol::Http1).rule(rule.does(Fault::Close));
    let server = Server::builder(script).start().await.unwrap();
    let client = Client::builder().max_connections(300).keepalive_expiry(Duration::from_secs(60)).build();
    let calls = (0..300).map(|n| {
        let (client, url) = (client.clone(), server.url("/"));
        tokio::spawn(async move {
            for _ in 0..3 {
                let response = client.send_collected(get(url.clone()), CallOptions::new()).await.unwrap();
                assert_eq!(response.status(), 200);
                // From a little before the server's limit to a little after it.
                tokio::time::sleep(Duration::from_millis(985 + n / 10)).await;
            }
        })
    });
    for call in futures_util::future::join_all(calls).await {
        call.unwrap();
    }
    assert!(server.log().fired("idle") > 0, "no connection was closed when idle");
}

#[tokio::test]
async fn servers_that_close_idle_connections_fail_no_call() {
    let unasked = "HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
    let unasked = Fault::Send(oncebox_faults::Bytes(unasked.as_bytes().to_vec()));
    tokio::join!(idle_connections_end(None), idle_connections_end(Some(unasked)));
}

/// Connections belong to the runtime that drives them: whoever calls on another one gets others.
#[test]
fn two_runtimes_share_no_connection() {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let serving = runtime();
    for version in [HttpVersion::Http1, HttpVersion::Http2] {
        let server = serving.block_on(Server::builder(Script::new()).start()).unwrap();
        let client = Client::builder().http_version(version).retries(0).connection_retries(0).build();
        let url = server.url("/");
        // The server needs somebody to run it while the others call.
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        std::thread::scope(|scope| {
            scope.spawn(|| serving.block_on(stopped));
            let call = |runtime: &tokio::runtime::Runtime| {
                let response = runtime.block_on(client.send_collected(post(url.clone()), CallOptions::new())).unwrap();
                assert_eq!((response.status().as_u16(), history(&response).attempts().len()), (200, 1));
            };
            // One after the other.
            for _ in 0..3 {
                let runtime = runtime();
                call(&runtime);
                call(&runtime);
            }
            assert_eq!(server.log().totals().connections, 3, "{version:?}");
            // At once.
            std::thread::scope(|scope| {
                for _ in 0..3 {
                    scope.spawn(|| {
                        let runtime = runtime();
                        (0..20).for_each(|_| call(&runtime));
                    });
                }
            });
            assert_eq!(server.log().totals().connections, 6, "{version:?}");
            stop.send(()).unwrap();
        });
    }
}

#[tokio::test]
async fn a_connection_that_changed_its_protocol_is_the_callers_and_not_used_again() {
    let peer = Peer::start(|number, mut socket| async move {
        let request = read_request(&mut socket).await.unwrap().to_lowercase();
        if number > 0 {
            return answer(&mut socket, OK).await;
        }
        assert!(request.contains("\r\nupgrade: echo\r\n"), "{request}");
        answer(&mut socket, "HTTP/1.1 101 Go\r\nconnection: upgrade\r\nupgrade: echo\r\n\r\n").await;
        let mut said = [0; 5];
        socket.read_exact(&mut said).await.unwrap();
        socket.write_all(&said).await.unwrap();
        assert_eq!(socket.read(&mut said).await.unwrap(), 0);
    })
    .await;
    // HTTP/2 is no matter here.
    let client = Client::builder().http_version(HttpVersion::Http2).no_proxy().build();
    let request = Request::get(peer.url("/")).header("connection", "upgrade").header("upgrade", "echo");
    let options = CallOptions::new().upgrades(true);
    let mut response = client.send(request.body(Body::empty()).unwrap(), options.clone()).await.unwrap().into_http();
    assert_eq!(response.status(), 101);
    let mut connection = TokioIo::new(hyper::upgrade::on(&mut response).await.unwrap());
    drop(response);
    connection.write_all(b"hello").await.unwrap();
    let mut heard = [0; 5];
    connection.read_exact(&mut heard).await.unwrap();
    assert_eq!(&heard, b"hello");
    let next = client.send_collected(get(peer.url("/")), options).await.unwrap();
    assert_eq!((next.status().as_u16(), peer.connections()), (200, 2));
    connection.shutdown().await.unwrap();
}

/// A server may answer before it has the request's body (RFC 9112 §9.3). What goes on being sent is in nobody's way.
#[tokio::test]
async fn a_connection_that_still_sends_a_body_after_the_answer_is_not_used_again() {
    let peer = Peer::start(|_, mut socket| async move {
        while read_request(&mut socket).await.is_some() {
            answer(&mut socket, OK).await;
        }
    })
    .await;
    let client = Client::builder().http_version(HttpVersion::Http1).max_connections(1).build();
    let options = || CallOptions::new().request_timeout(Duration::from_secs(20));
    let first = futures_util::stream::once(async { Ok(http_body::Frame::data(bytes::Bytes::from_static(b"begun"))) });
    let pieces = futures_util::StreamExt::chain(first, futures_util::stream::pending::<Result<_, BoxError>>());
    let source = Arc::new(());
    let watched = Arc::downgrade(&source);
    let body =
        Body::stream(http_body_util::StreamBody::new(Box::pin(futures_util::StreamExt::inspect(pieces, move |_| {
            let _ = &source;
        }))));
    let request = Request::put(peer.url("/")).body(body).unwrap();
    assert_eq!(client.send_collected(request, options()).await.unwrap().status(), 200);
    assert_eq!(client.send_collected(get(peer.url("/")), options()).await.unwrap().status(), 200);
    assert_eq!(client.send_collected(post(peer.url("/")), options()).await.unwrap().status(), 200);
    assert_eq!(peer.connections(), 2);
    while watched.strong_count() > 0 {
        tokio::task::yield_now().await;
    }
}
