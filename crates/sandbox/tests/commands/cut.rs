//! What a stream that is cut leaves known, and unknown.

use oncebox::{Client, ErrorKind, Sandbox};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::scripted::{self, Answer, End, end_frame, start, stdout, whole};

/// A sandbox whose `Start` is answered with these bytes, and that knows of no process afterwards.
async fn starting(stream: Vec<u8>, end: End) -> Sandbox {
    let answer = move |asked: &scripted::Asked| {
        (asked.path == "/process.Process/Start").then(|| Answer::Stream(stream.clone(), end))
    };
    scripted::sandbox(answer).await.0
}

#[tokio::test]
async fn a_stream_that_is_cut_before_the_start_leaves_the_outcome_unknown() {
    let half = start(7)[..9].to_vec();
    for (stream, end) in [(vec![], End::Cut), (half.clone(), End::Cut), (vec![], End::Whole), (half, End::Whole)] {
        let error = starting(stream.clone(), end).await.commands().run("true").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::OutcomeUnknown, "{stream:?} {end:?}: {error}");
        assert!(error.may_have_been_processed());
        assert!(error.to_string().contains("no process of the sandbox has the tag \"oncebox-"), "{error}");
        assert!(error.to_string().contains("the sandbox is healthy"), "{error}");
        assert_eq!(error.attempts().len(), 1, "{error}");
    }
}

#[tokio::test]
async fn a_command_whose_stream_is_cut_and_that_is_gone_since_has_no_exit_code() {
    let cut = [start(7), stdout(b"hi")].concat();
    let half = [cut.clone(), stdout(b"hi")[..7].to_vec()].concat();
    for stream in [cut, half] {
        for end in [End::Cut, End::Whole] {
            let error = starting(stream.clone(), end).await.commands().run("true").await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::CommandLost, "{end:?}: {error}");
            assert!(error.may_have_been_processed());
            assert!(error.to_string().contains("process 7"), "{error}");
        }
    }
}

#[tokio::test]
async fn a_stream_that_ends_in_order_without_an_end_event_is_no_end() {
    let error = starting(whole(&[start(7)]), End::Whole).await.commands().run("true").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::CommandLost, "{error}");
    assert!(error.to_string().contains("without an end event"), "{error}");
}

/// The effect may have happened: "not done" would be a guess.
#[tokio::test]
async fn an_answer_that_makes_no_sense_is_no_proof_that_nothing_was_done() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        loop {
            let (mut socket, _) = listener.accept().await.unwrap();
            let mut seen = Vec::new();
            while !seen.ends_with(b"}") && socket.read_buf(&mut seen).await.unwrap() > 0 {}
            let answer = b"HTTP/1.1 201 Created\r\ncontent-length: 7\r\nconnection: close\r\n\r\nGARBAGE";
            let _ = socket.write_all(answer).await;
        }
    });
    // Its look-ups make no sense either, and go on until the deadline.
    let client = Client::builder().api_key("k").api_url(&url).sandbox_url(&url);
    let client = client.request_timeout(std::time::Duration::from_secs(1)).build().unwrap();
    let error = Sandbox::create(&client).await.unwrap_err();
    assert!(error.may_have_been_processed(), "{error:?}");
    assert!(error.intent().is_some(), "{error:?}");
}

/// The first attempt was sent and lost, the repeat met a closed port: that the last one did nothing proves nothing.
#[tokio::test]
async fn a_repeat_that_could_not_be_sent_does_not_undo_an_unknown_outcome() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let answers = tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.unwrap();
        let body = r#"{"templateID":"base","sandboxID":"i1","clientID":"c","envdVersion":"0.6.13"}"#;
        let head = format!("HTTP/1.1 201 X\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len());
        let mut seen = Vec::new();
        while !seen.ends_with(b"}") && socket.read_buf(&mut seen).await.unwrap() > 0 {}
        socket.write_all(format!("{head}{body}").as_bytes()).await.unwrap();
        drop(socket);
        let (mut socket, _) = listener.accept().await.unwrap();
        let mut seen = Vec::new();
        while !seen.ends_with(b"\r\n\r\n") && socket.read_buf(&mut seen).await.unwrap() > 0 {}
        assert!(seen.starts_with(b"DELETE "), "{}", String::from_utf8_lossy(&seen));
        // Nobody listens any more by the time that the connection ends.
        drop(listener);
    });
    let client = Client::builder().api_key("k").api_url(&url).sandbox_url(&url).connection_retries(0).build().unwrap();
    let error = Sandbox::create(&client).await.unwrap().kill().await.unwrap_err();
    answers.await.unwrap();
    assert_eq!(error.attempts().len(), 2, "{error}");
    assert_eq!(error.kind(), ErrorKind::OutcomeUnknown, "{error}");
    assert!(error.may_have_been_processed());
}

#[tokio::test]
async fn a_start_that_the_server_says_it_could_not_finish_may_have_been_made() {
    for code in ["internal", "unknown", "deadline_exceeded"] {
        let end = end_frame(&format!(r#"{{"error":{{"code":"{code}","message":"sorry"}}}}"#));
        let error = starting(end, End::Whole).await.commands().run("true").await.unwrap_err();
        assert!(error.may_have_been_processed(), "{code}: {error:?}");
    }
}

#[tokio::test]
async fn an_error_that_the_server_itself_tells_is_not_taken_for_a_cut() {
    let end = end_frame(r#"{"error":{"code":"not_found","message":"no such\u001b[31m user"}}"#);
    let error = starting(end, End::Whole).await.commands().run("true").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
    assert!(error.to_string().contains("no such\\u{1b}[31m user"), "{error}");
}
