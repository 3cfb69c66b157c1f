//! Statuses and their headers, as a raw socket sees them.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use oncebox_faults::{Answer, Fault, Moment, RetryAfter, Rule, Script};
use support::*;

async fn answered(answer: Answer) -> String {
    let server = serve(Script::new().answer(answer)).await;
    http1(&server, GET_CLOSE).await.0
}

#[tokio::test]
async fn retry_after_comes_in_every_form() {
    let value = async |wait: RetryAfter| {
        let text = answered(Answer::status(503).retry_after(wait)).await;
        text.lines().find_map(|line| line.strip_prefix("retry-after: ")).unwrap().to_owned()
    };
    assert_eq!(value(RetryAfter::Seconds(3600)).await, "3600");
    assert_eq!(value(RetryAfter::Raw("soon".into())).await, "soon");
    // From the start of 1970: the offset that leads there is not known to the second.
    let shape = |text: &str| text.replace(|c: char| c.is_ascii_digit(), "9").replace(|c: char| c.is_alphabetic(), "a");
    assert_eq!(shape(&value(RetryAfter::HttpDate(2)).await), "aaa, 99 aaa 9999 99:99:99 aaa");
    let rfc850 = value(RetryAfter::Rfc850(-5)).await;
    assert!(rfc850.contains("day, ") && rfc850.ends_with(" GMT") && rfc850.matches('-').count() == 2, "{rfc850}");
    let asctime = value(RetryAfter::Asctime(2)).await;
    assert_eq!((asctime.len(), asctime.contains("GMT")), (24, false), "{asctime}");
}

#[tokio::test]
async fn answers_carry_what_the_script_says() {
    let answer = Answer { date: Some(-3600), ..Answer::status(502) };
    let answer = answer.header("should-retry", "false").header("content-type", "text/html").text("<h1>Bad</h1>");
    let text = answered(answer).await;
    assert!(text.starts_with("HTTP/1.1 502 Bad Gateway\r\ncontent-type: text/html\r\nshould-retry: false\r\ndate: "));
    assert!(text.ends_with("\r\ncontent-length: 12\r\nconnection: close\r\n\r\n<h1>Bad</h1>"), "{text}");
}

#[tokio::test]
async fn statuses_follow_a_script_by_try() {
    let script = Script::new()
        .rule(Rule::at(Moment::Received).attempt(1).does(Fault::answer(Answer::status(429).header("retry-after", "0"))))
        .rule(Rule::at(Moment::Processed).attempt(2).does(Fault::answer(Answer::status(504))));
    let server = serve(script).await;
    let request = "POST / HTTP/1.1\r\nx-request-id: a\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
    let mut statuses = Vec::new();
    for _ in 0..3 {
        statuses.push(http1(&server, request).await.0[9..12].to_owned());
    }
    assert_eq!(statuses, ["429", "504", "200"]);
    // The first was not processed; the second was, and the client was told otherwise.
    let log = server.log();
    assert_eq!((log.heads("a"), log.processed("a")), (3, 2));
    assert_eq!(log.tries("a").iter().map(|a_try| a_try.status).collect::<Vec<_>>(), [Some(429), Some(504), Some(200)]);
    assert_eq!(log.tries("a").iter().map(|a_try| a_try.processed).collect::<Vec<_>>(), [false, true, true]);
}

#[tokio::test]
async fn rules_choose_by_method_path_and_header() {
    let no = || Fault::answer(Answer::status(500));
    let script = Script::new()
        .rule(Rule::at(Moment::Request).method("POST").path("/sandboxes*").does(no()))
        .rule(Rule::at(Moment::Request).header("oncebox-test-id", "t1").does(no()));
    let server = serve(script).await;
    let status = async |line: &str, more: &str| {
        http1(&server, &format!("{line} HTTP/1.1\r\nconnection: close\r\n{more}\r\n")).await.0[9..12].to_owned()
    };
    assert_eq!(status("POST /sandboxes?x", "").await, "500");
    assert_eq!(status("GET /sandboxes", "").await, "200");
    assert_eq!(status("POST /other", "").await, "200");
    assert_eq!(status("GET /", "oncebox-test-id: t1\r\n").await, "500");
    assert_eq!(status("GET /", "oncebox-test-id: t2\r\n").await, "200");
}

#[tokio::test]
async fn the_report_is_json() {
    let server = serve(Script::new().rule(Rule::at(Moment::Request).named("late").does(Fault::Wait(1)))).await;
    http1(&server, "GET / HTTP/1.1\r\nx-request-id: a\r\nconnection: close\r\n\r\n").await;
    assert!(server.log().wait_until(LONG, |log| log.totals().connections_open == 0).await);
    let report = serde_json::to_value(server.report()).unwrap();
    assert_eq!(report["fired"]["late"], 1);
    assert_eq!(report["requests"][0]["tries"][0]["try"], 1);
    assert_eq!(report["connections"][0]["ended"], "closed");
    assert_eq!(report["connections"][0]["bytes_out"], OK_CLOSE.len());
}

#[tokio::test]
async fn a_script_is_exchanged_for_new_connections() {
    let server = serve(Script::new()).await;
    let mut old = Raw::connect(server.addr()).await;
    old.write(GET).await;
    old.exactly(OK.len()).await;
    server.set_script(Script::new().answer(Answer::status(500))).unwrap();
    assert!(http1(&server, GET_CLOSE).await.0.starts_with("HTTP/1.1 500 "));
    old.write(GET_CLOSE).await;
    assert_eq!(old.rest().await, (OK_CLOSE.into(), End::Fin));
    assert!(server.set_script(Script::new().rule(Rule::at(Moment::Connect).does(Fault::Hold))).is_err());
}
