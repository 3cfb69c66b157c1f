//! HTTP/1.1 faults as a raw socket sees them.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use std::time::Duration;

use oncebox_faults::{Answer, Fault, Framing, Link, Log, Moment, Rule, Script};
use support::*;

fn answering(answer: Answer) -> Script {
    Script::new().answer(answer)
}

async fn read_ok(raw: &mut Raw) {
    assert_eq!(String::from_utf8(raw.exactly(OK.len()).await).unwrap(), OK);
}

#[tokio::test]
async fn without_rules_it_keeps_the_connection_and_logs() {
    let server = serve(Script::new()).await;
    let mut raw = Raw::connect(server.addr()).await;
    raw.write("POST /a?b HTTP/1.1\r\nx-request-id: r1\r\ncontent-length: 5\r\n\r\nhel").await;
    raw.write("lo").await;
    read_ok(&mut raw).await;
    raw.write(
        "PUT / HTTP/1.1\r\nx-request-id: r2\r\ntransfer-encoding: chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n",
    )
    .await;
    read_ok(&mut raw).await;
    raw.write(GET_CLOSE).await;
    assert_eq!(raw.rest().await, (OK_CLOSE.into(), End::Fin));
    for id in ["r1", "r2"] {
        let a_try = server.log().tries(id).remove(0);
        assert_eq!((a_try.body_bytes, a_try.body_digest), (5, oncebox_faults::digest(b"hello")));
        assert!(a_try.processed && a_try.answered && a_try.complete);
    }
    assert_eq!(server.log().connections()[0].heads, 3);
}

#[tokio::test]
async fn expect_continue_is_answered_before_the_body() {
    let server = serve(Script::new()).await;
    let mut raw = Raw::connect(server.addr()).await;
    raw.write("POST / HTTP/1.1\r\nexpect: 100-continue\r\ncontent-length: 1\r\n\r\n").await;
    assert_eq!(raw.exactly(25).await, b"HTTP/1.1 100 Continue\r\n\r\n");
    raw.write("x").await;
    read_ok(&mut raw).await;
}

#[tokio::test]
async fn a_kept_connection_is_closed_when_idle() {
    let server = serve(Script::new().rule(Rule::at(Moment::Idle(30)).does(Fault::Close))).await;
    let mut raw = Raw::connect(server.addr()).await;
    raw.write(GET).await;
    read_ok(&mut raw).await;
    assert_eq!(raw.rest().await, (vec![], End::Fin));
}

#[tokio::test]
async fn a_connection_is_closed_by_age() {
    let server = serve(Script::new().rule(Rule::at(Moment::Age(30)).does(Fault::Reset))).await;
    let mut raw = Raw::connect(server.addr()).await;
    raw.write(GET).await;
    read_ok(&mut raw).await;
    assert_eq!(raw.rest().await, (vec![], End::Reset));
}

#[tokio::test]
async fn a_408_comes_unasked() {
    const TIMEOUT: &str = "HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
    let rule = Rule::at(Moment::Idle(30)).does(Fault::Send(TIMEOUT.into())).does(Fault::Close);
    let server = serve(Script::new().rule(rule)).await;
    let mut raw = Raw::connect(server.addr()).await;
    raw.write(GET).await;
    read_ok(&mut raw).await;
    assert_eq!(raw.rest().await, (TIMEOUT.into(), End::Fin));
}

#[tokio::test]
async fn heads_and_bodies_are_half_written() {
    let cut = |at| Script::new().rule(Rule::at(at).does(Fault::Close));
    let server = serve(cut(Moment::AnswerHead(12))).await;
    assert_eq!(http1(&server, GET).await, ("HTTP/1.1 200".into(), End::Fin));
    let server = serve(cut(Moment::AnswerBody(1))).await;
    assert_eq!(http1(&server, GET).await, (OK[..OK.len() - 1].into(), End::Fin));
    let server = serve(cut(Moment::AnswerBody(0))).await;
    assert_eq!(http1(&server, GET).await, (OK[..OK.len() - 2].into(), End::Fin));
}

#[tokio::test]
async fn lengths_are_wrong() {
    let longer = Answer { length_lie: 3, ..Answer::default() };
    let server = serve(answering(longer).rule(Rule::at(Moment::Answered).does(Fault::Close))).await;
    assert_eq!(http1(&server, GET).await, ("HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nok".into(), End::Fin));
    let shorter = Answer { length_lie: -1, ..Answer::default() };
    let server = serve(answering(shorter)).await;
    let expected = "HTTP/1.1 200 OK\r\ncontent-length: 1\r\nconnection: close\r\n\r\nok";
    assert_eq!(http1(&server, GET_CLOSE).await, (expected.into(), End::Fin));
}

#[tokio::test]
async fn chunks_are_wrong() {
    let chunked = Answer { framing: Framing::Chunked, frame_size: Some(1), ..Answer::default() };
    let head = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n";
    let trailers = Answer { trailers: [("x-sum".to_owned(), "1".to_owned())].into(), ..chunked.clone() };
    let server = serve(answering(trailers)).await;
    let expected = format!("{head}1\r\no\r\n1\r\nk\r\n0\r\nx-sum: 1\r\n\r\n");
    assert_eq!(http1(&server, GET_CLOSE).await, (expected, End::Fin));

    let server = serve(answering(Answer { bad_chunk: Some(2), ..chunked.clone() })).await;
    let expected = format!("{head}1\r\no\r\nzz1\r\nk\r\n0\r\n\r\n");
    assert_eq!(http1(&server, GET_CLOSE).await, (expected, End::Fin));

    let cut = Rule::at(Moment::AnswerPiece(1)).does(Fault::Close);
    let server = serve(answering(chunked).rule(cut)).await;
    assert_eq!(http1(&server, GET_CLOSE).await, (format!("{head}1\r\no\r\n"), End::Fin));
}

#[tokio::test]
async fn the_end_of_the_connection_ends_the_body() {
    let server = serve(answering(Answer { framing: Framing::Close, ..Answer::default() })).await;
    assert_eq!(http1(&server, GET).await, ("HTTP/1.1 200 OK\r\nconnection: close\r\n\r\nok".into(), End::Fin));
}

#[tokio::test]
async fn an_answer_is_followed_by_a_surprise() {
    let surplus = "HTTP/1.1 500 Internal Server Error\r\ncontent-length: 0\r\n\r\n";
    let server = serve(answering(Answer { surplus: surplus.into(), ..Answer::default() })).await;
    assert_eq!(http1(&server, GET_CLOSE).await, (format!("{OK_CLOSE}{surplus}"), End::Fin));
}

#[tokio::test]
async fn an_answer_comes_before_the_request_was_sent() {
    let early = Rule::at(Moment::Request).nth(1).does(Fault::answer(Answer::status(413)));
    let server = serve(Script::new().rule(early)).await;
    let mut raw = Raw::connect(server.addr()).await;
    raw.write("POST / HTTP/1.1\r\nx-request-id: a\r\ncontent-length: 4\r\n\r\n").await;
    let expected = "HTTP/1.1 413 Content Too Large\r\ncontent-length: 0\r\n\r\n";
    assert_eq!(String::from_utf8(raw.exactly(expected.len()).await).unwrap(), expected);
    // The rest of the body is passed over, and the connection goes on.
    raw.write("body").await;
    raw.write(GET).await;
    read_ok(&mut raw).await;
    assert_eq!(server.log().processed("a"), 0);
}

#[tokio::test]
async fn interim_answers_come_first() {
    let server = serve(answering(Answer { interim: vec![103], ..Answer::default() })).await;
    assert_eq!(http1(&server, GET_CLOSE).await.0, format!("HTTP/1.1 103 Early Hints\r\n\r\n{OK_CLOSE}"));
}

#[tokio::test]
async fn an_answer_is_lost_after_the_request_was_processed() {
    let script = Script::new()
        .rule(Rule::at(Moment::Processed).attempt(1).does(Fault::Close))
        .rule(Rule::at(Moment::Processed).attempt(2).does(Fault::Reset))
        .rule(Rule::at(Moment::Processed).attempt(3).does(Fault::Hold));
    let server = serve(script).await;
    let request = "POST / HTTP/1.1\r\nx-request-id: a\r\ncontent-length: 1\r\nconnection: close\r\n\r\nx";
    assert_eq!(http1(&server, request).await, (String::new(), End::Fin));
    assert_eq!(http1(&server, request).await, (String::new(), End::Reset));
    let mut raw = Raw::connect(server.addr()).await;
    raw.write(request).await;
    raw.expect_silence(Duration::from_millis(30)).await;
    assert_eq!(http1(&server, request).await, (OK_CLOSE.into(), End::Fin));
    assert_eq!(server.log().processed("a"), 4);
    assert_eq!(server.log().doubled(), [("a".to_owned(), 4)]);
}

#[tokio::test]
async fn a_fault_of_http2_does_nothing_here_and_the_log_says_so() {
    let server = serve(Script::new().rule(Rule::at(Moment::Request).does(Fault::Refuse))).await;
    assert_eq!(http1(&server, GET_CLOSE).await.0, OK_CLOSE);
    let told = server
        .log()
        .events()
        .into_iter()
        .any(|event| event.what == oncebox_faults::Happening::NotApplicable { fault: "refuse" });
    assert!(told);
}

#[tokio::test]
async fn a_client_that_breaks_http1_is_told_and_noted() {
    let server = serve(Script::new()).await;
    let (answer, end) = http1(&server, "GET  / HTTP/1.1\r\n\r\n").await;
    assert_eq!((answer.lines().next(), end), (Some("HTTP/1.1 400 Bad Request"), End::Fin));
    assert_eq!(server.log().totals().violations, 1);
}

#[tokio::test]
async fn a_reset_does_not_wait_for_a_client_that_does_not_read() {
    for link in [None, Some(Link { rtt_ms: 1, ..Link::default() })] {
        let mut script =
            Script::new().answer(Answer::default().size(64 << 20)).rule(Rule::at(Moment::Age(300)).does(Fault::Reset));
        if let Some(link) = link {
            script = script.rule(Rule::at(Moment::Connect).does(Fault::Link(link)));
        }
        let server = serve(script).await;
        let mut raw = Raw::connect(server.addr()).await;
        raw.write(GET).await;
        let is_over = |log: &Log| log.connections().first().is_some_and(|record| record.ended.is_some());
        assert!(server.log().wait_until(LONG, is_over).await, "it waits");
        assert_eq!(server.log().connections()[0].ended.as_deref(), Some("reset"));
        assert_eq!(raw.rest().await.1, End::Reset);
    }
}
