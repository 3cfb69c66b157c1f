//! Command streams that are cut, by a server that says exactly what the test wrote.
#![allow(clippy::unwrap_used)] // A test panics when it fails.

use oncebox::{Client, ErrorKind, Sandbox};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// A sandbox whose `Start` is answered with these bytes of a Connect stream, after which the connection ends: in the
/// middle of the body, or with its proper last chunk.
async fn sandbox(stream: Vec<u8>, whole: bool) -> Sandbox {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        loop {
            let (socket, _) = listener.accept().await.unwrap();
            tokio::spawn(serve(socket, stream.clone(), whole));
        }
    });
    let client = Client::builder().api_key("k").api_url(&url).sandbox_url(&url).build().unwrap();
    Sandbox::create(&client).await.unwrap()
}

async fn serve(mut socket: TcpStream, stream: Vec<u8>, whole: bool) {
    let mut seen = Vec::new();
    while !seen.windows(4).any(|w| w == b"\r\n\r\n") {
        if socket.read_buf(&mut seen).await.unwrap() == 0 {
            return;
        }
    }
    let answer = if seen.starts_with(b"POST /v2/sandboxes ") {
        let body = r#"{"templateID":"base","sandboxID":"i1","clientID":"c","envdVersion":"0.6.13"}"#;
        format!("HTTP/1.1 201 Created\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}", body.len())
            .into_bytes()
    } else {
        let head = "HTTP/1.1 200 OK\r\ncontent-type: application/connect+json\r\ntransfer-encoding: chunked\r\n\r\n";
        let mut answer = head.as_bytes().to_vec();
        if !stream.is_empty() {
            answer.extend(format!("{:x}\r\n", stream.len()).into_bytes());
            answer.extend(&stream);
            answer.extend(b"\r\n");
        }
        if whole {
            answer.extend(b"0\r\n\r\n");
        }
        answer
    };
    let _ = socket.write_all(&answer).await;
    let _ = socket.shutdown().await;
    // What the client still sends must not turn the end into a reset.
    let _ = socket.read_to_end(&mut seen).await;
}

fn frame(json: &str) -> Vec<u8> {
    let mut frame = vec![0];
    frame.extend((json.len() as u32).to_be_bytes());
    frame.extend(json.as_bytes());
    frame
}

const START: &str = r#"{"event":{"start":{"pid":7}}}"#;
const OUTPUT: &str = r#"{"event":{"data":{"stdout":"aGk="}}}"#;

#[tokio::test]
async fn a_stream_that_is_cut_before_the_start_leaves_the_outcome_unknown() {
    let half = frame(START)[..9].to_vec();
    for (stream, whole) in [(vec![], false), (half.clone(), false), (vec![], true), (half, true)] {
        let error = sandbox(stream.clone(), whole).await.commands().run("true").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::OutcomeUnknown, "{stream:?} {whole}: {error}");
        assert!(error.may_have_been_processed());
    }
}

#[tokio::test]
async fn a_stream_that_is_cut_while_the_command_runs_is_a_lost_connection_and_no_end() {
    let mut stream = frame(START);
    stream.extend(frame(OUTPUT));
    let mut half = stream.clone();
    half.extend(&frame(OUTPUT)[..7]);
    for (stream, whole) in [(stream.clone(), false), (half.clone(), false), (stream, true), (half, true)] {
        let error = sandbox(stream.clone(), whole).await.commands().run("true").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionLost, "{whole}: {error}");
        assert!(error.may_have_been_processed());
        assert!(error.to_string().contains("process 7"), "{error}");
    }
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
        let (socket, _) = listener.accept().await.unwrap();
        serve(socket, Vec::new(), true).await;
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
        let mut end = vec![2];
        let json = format!(r#"{{"error":{{"code":"{code}","message":"sorry"}}}}"#);
        end.extend((json.len() as u32).to_be_bytes());
        end.extend(json.as_bytes());
        let error = sandbox(end, true).await.commands().run("true").await.unwrap_err();
        assert!(error.may_have_been_processed(), "{code}: {error:?}");
    }
}

#[tokio::test]
async fn an_error_that_the_server_itself_tells_is_not_taken_for_a_cut() {
    let mut end = vec![2];
    let json = r#"{"error":{"code":"not_found","message":"no such\u001b[31m user"}}"#;
    end.extend((json.len() as u32).to_be_bytes());
    end.extend(json.as_bytes());
    let error = sandbox(end, true).await.commands().run("true").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
    assert!(error.to_string().contains("no such\\u{1b}[31m user"), "{error}");
}
