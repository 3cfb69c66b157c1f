//! A proxy in front of a server that does nothing wrong.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use std::time::{Duration, Instant};

use oncebox_faults::{Answer, ErrorCode, Fault, Framing, LastId, Link, Moment, Rule, Script, Server};
use support::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

async fn proxy(script: Script, behind: &Server) -> Server {
    Server::builder(script).proxy_to(&behind.url("")).start().await.unwrap()
}

#[tokio::test]
async fn without_rules_it_changes_nothing() {
    let answer = Answer { framing: Framing::Chunked, ..Answer::status(201).header("x-a", "b").text("made") };
    let behind = serve(Script::new().answer(answer)).await;
    let proxy = proxy(Script::new(), &behind).await;
    let request = "POST /x?y HTTP/1.1\r\nx-request-id: a\r\ncontent-length: 5\r\nconnection: close\r\n\r\nhello";
    let head = "HTTP/1.1 201 Created\r\nx-a: b\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n";
    assert_eq!(http1(&proxy, request).await, (format!("{head}4\r\nmade\r\n0\r\n\r\n"), End::Fin));
    let a_try = behind.log().tries("a").remove(0);
    assert_eq!((a_try.path.as_str(), a_try.body_digest), ("/x?y", oncebox_faults::digest(b"hello")));

    let mut raw = Raw::h2(&proxy).await;
    raw.post(1, "b").await;
    raw.data(1, "hel", false).await;
    raw.data(1, "lo", true).await;
    let headers = raw.read().await.unwrap();
    assert_eq!((headers.kind, headers.flags), (HEADERS, END_HEADERS));
    assert_eq!(headers.payload[..5], [0x08, 3, b'2', b'0', b'1']);
    raw.expect(frame(DATA, 0, 1, "made")).await;
    raw.expect(frame(DATA, END_STREAM, 1, "")).await;
    assert_eq!(behind.log().tries("b")[0].body_digest, oncebox_faults::digest(b"hello"));
    // One connection to the server behind is enough.
    assert_eq!((proxy.log().totals().connections, behind.log().totals().connections), (2, 1));
}

#[tokio::test]
async fn refusals_and_goaways_stay_before_the_server() {
    let behind = serve(Script::new()).await;
    let script = Script::new()
        .rule(Rule::at(Moment::Request).request_id("refused").does(Fault::Refuse))
        .rule(Rule::at(Moment::Received).request_id("whole").does(Fault::Refuse))
        .rule(Rule::at(Moment::Request).nth(4).does(Fault::goaway().last(LastId::Previous)));
    let proxy = proxy(script, &behind).await;
    let mut raw = Raw::h2(&proxy).await;
    raw.get(1, "refused").await;
    raw.expect(rst_stream(1, 7)).await;
    raw.post(3, "whole").await;
    raw.data(3, "x", true).await;
    raw.expect(rst_stream(3, 7)).await;
    raw.get(5, "through").await;
    raw.expect_ok(5).await;
    raw.get(7, "last").await;
    raw.expect(goaway(5, 0, "")).await;
    assert_eq!(raw.rest().await, (vec![], End::Fin));
    assert_eq!(behind.log().request_ids(), ["through"]);
    assert_eq!(proxy.log().totals().processed, 1);
}

#[tokio::test]
async fn an_answer_is_lost_after_the_server_did_it() {
    let behind = serve(Script::new()).await;
    let script = Script::new()
        .rule(Rule::at(Moment::Processed).attempt(1).does(Fault::ResetStream(ErrorCode::INTERNAL_ERROR)))
        .rule(Rule::at(Moment::Processed).attempt(2).does(Fault::answer(Answer::status(504))))
        .rule(Rule::at(Moment::AnswerBody(1)).attempt(3).does(Fault::Reset));
    let proxy = proxy(script, &behind).await;
    let mut raw = Raw::h2(&proxy).await;
    raw.get(1, "a").await;
    raw.expect(rst_stream(1, 2)).await;
    raw.get(3, "a").await;
    assert_eq!(raw.read().await.unwrap().payload[..5], [0x08, 3, b'5', b'0', b'4']);
    let request = "GET / HTTP/1.1\r\nx-request-id: a\r\n\r\n";
    let (text, end) = http1(&proxy, request).await;
    assert_eq!((text, end), (OK[..OK.len() - 1].to_owned(), End::Reset));
    assert_eq!(behind.log().processed("a"), 3);
}

#[tokio::test]
async fn bodies_pass_through_unbuffered_both_ways() {
    let behind = serve(Script::new().answer(Answer::default().size(64 << 20))).await;
    let proxy = proxy(Script::new(), &behind).await;
    // The upload waits for its end, and reaches the server all the same.
    let mut raw = Raw::h2(&proxy).await;
    raw.post(1, "up").await;
    raw.data(1, "first", false).await;
    assert!(behind.log().wait_until(LONG, |log| log.tries("up").first().is_some_and(|t| t.body_bytes == 5)).await);
    raw.data(1, "", true).await;
    // The download stops where the client's window does, and so, soon after, does the server behind.
    assert_eq!(raw.read().await.unwrap().kind, HEADERS);
    let mut received = 0;
    while received < 65_535 {
        received += raw.read().await.unwrap().payload.len();
    }
    raw.expect_silence(Duration::from_millis(50)).await;
    assert_eq!(behind.log().totals().answered, 0);
}

#[tokio::test]
async fn downloads_are_padded_with_empty_frames_and_cut() {
    let behind = serve(Script::new().answer(Answer::default().text("abcd"))).await;
    let style = Answer { empty_data_every: Some(2), ..Answer::default() };
    let script = Script::new()
        .answer(style)
        .rule(Rule::at(Moment::AnswerBody(3)).nth(2).does(Fault::ResetStream(ErrorCode::CANCEL)));
    let proxy = proxy(script, &behind).await;
    let mut raw = Raw::h2(&proxy).await;
    raw.get(1, "").await;
    raw.read().await;
    for (data, flags) in [("ab", 0), ("", 0), ("cd", END_STREAM)] {
        raw.expect(frame(DATA, flags, 1, data)).await;
    }
    raw.get(3, "").await;
    raw.read().await;
    for data in ["ab", "", "c"] {
        raw.expect(frame(DATA, 0, 3, data)).await;
    }
    raw.expect(rst_stream(3, 8)).await;
}

#[tokio::test]
async fn a_round_trip_time_is_added() {
    let behind = serve(Script::new()).await;
    let link = Fault::Link(Link { rtt_ms: 50, ..Link::default() });
    let proxy = proxy(Script::new().rule(Rule::at(Moment::Connect).does(link)), &behind).await;
    let began = Instant::now();
    assert_eq!(http1(&proxy, GET_CLOSE).await.0, OK_CLOSE);
    assert!(began.elapsed() >= Duration::from_millis(50));
}

#[tokio::test]
async fn an_upstream_that_is_not_there_is_a_502_that_says_so() {
    let behind = serve(Script::new()).await;
    let url = behind.url("");
    drop(behind);
    let proxy = Server::builder(Script::new()).proxy_to(&url).start().await.unwrap();
    let (text, _) = http1(&proxy, GET_CLOSE).await;
    assert!(text.starts_with("HTTP/1.1 502 Bad Gateway\r\n"), "{text}");
    assert!(text.contains("oncebox-faults: connecting to 127.0.0.1:"), "{text}");
    let wrong = Server::builder(Script::new()).proxy_to("127.0.0.1:1").start().await.unwrap_err();
    assert_eq!(wrong.to_string(), "the upstream \"127.0.0.1:1\": it must look like http://HOST:PORT");
}

#[tokio::test]
async fn an_upstream_that_breaks_off_is_not_made_whole() {
    let behind = serve(Script::new().rule(Rule::at(Moment::AnswerBody(1)).does(Fault::Close))).await;
    let proxy = proxy(Script::new(), &behind).await;
    let (text, _) = http1(&proxy, GET_CLOSE).await;
    assert_eq!(text, OK_CLOSE[..OK_CLOSE.len() - 1]);
    let mut raw = Raw::h2(&proxy).await;
    raw.get(1, "").await;
    raw.read().await;
    raw.expect(frame(DATA, 0, 1, "o")).await;
    raw.expect(rst_stream(1, 2)).await;
}

#[tokio::test]
async fn an_upstream_that_ends_without_an_answer_is_no_answer() {
    for (fault, end) in [(Fault::Close, End::Fin), (Fault::Reset, End::Reset)] {
        let behind = serve(Script::new().rule(Rule::at(Moment::Processed).does(fault))).await;
        let proxy = proxy(Script::new(), &behind).await;
        assert_eq!(http1(&proxy, GET_CLOSE).await, (String::new(), end));
        assert_eq!(behind.log().totals().processed, 1);
    }
}

#[tokio::test]
async fn a_client_that_gives_up_frees_the_server_behind() {
    let behind = serve(Script::new().service_time_ms(60_000)).await;
    let proxy = proxy(Script::new(), &behind).await;
    let mut raw = Raw::h2(&proxy).await;
    raw.get(1, "a").await;
    assert!(behind.log().wait_until(LONG, |log| log.processed("a") == 1).await);
    raw.send(rst_stream(1, 8)).await;
    assert!(behind.log().wait_until(LONG, |log| log.totals().connections_open == 0).await);
}

/// A server that changes its protocol, and then says everything again, until it hears an end.
async fn echo() -> (String, tokio::task::JoinHandle<String>) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let served = tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(socket.read_u8().await.unwrap());
        }
        socket.write_all(b"HTTP/1.1 101 Go\r\nconnection: upgrade\r\nupgrade: echo\r\n\r\nhi ").await.unwrap();
        let mut piece = [0; 100];
        while let Ok(read @ 1..) = socket.read(&mut piece).await {
            socket.write_all(&piece[..read]).await.unwrap();
        }
        socket.write_all(b"bye").await.unwrap();
        String::from_utf8(head).unwrap()
    });
    (url, served)
}

const UPGRADE: &str = "GET /socket HTTP/1.1\r\nhost: a\r\nconnection: keep-alive, Upgrade\r\nupgrade: echo\r\n\r\n";
const UPGRADED: &str = "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: echo\r\n\r\nhi ";

#[tokio::test]
async fn a_connection_that_changes_its_protocol_is_carried_both_ways() {
    let (url, served) = echo().await;
    let proxy = Server::builder(Script::new()).proxy_to(&url).start().await.unwrap();
    let mut raw = Raw::connect(proxy.addr()).await;
    raw.write(UPGRADE).await;
    assert_eq!(raw.exactly(UPGRADED.len()).await, UPGRADED.as_bytes());
    for _ in 0..3 {
        raw.write("hello").await;
        assert_eq!(raw.exactly(5).await, b"hello");
    }
    raw.socket.shutdown().await.unwrap();
    assert_eq!(raw.rest().await, (b"bye".to_vec(), End::Fin));
    let asked = served.await.unwrap();
    assert!(asked.contains("\r\nconnection: upgrade\r\nupgrade: echo\r\n"), "{asked}");
    assert!(proxy.log().wait_until(LONG, |log| log.totals().connections_open == 0).await);
    assert_eq!(proxy.log().all_tries()[0].status, Some(101));
}

#[tokio::test]
async fn a_connection_that_changed_its_protocol_breaks_as_scripted() {
    let (url, served) = echo().await;
    let at = Moment::BytesOut(UPGRADED.len() as u64 + 3);
    let script = Script::new().rule(Rule::at(at).does(Fault::Reset));
    let proxy = Server::builder(script).proxy_to(&url).start().await.unwrap();
    let mut raw = Raw::connect(proxy.addr()).await;
    raw.write(UPGRADE).await;
    raw.exactly(UPGRADED.len()).await;
    raw.write("hello").await;
    assert_eq!(raw.rest().await, (b"hel".to_vec(), End::Reset));
    served.await.unwrap();
}
