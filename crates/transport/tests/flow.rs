//! Streams that misbehave beside streams that do not: the others go on, on the same connection.

#![allow(clippy::unwrap_used)] // A test panics when it fails.

mod support;

use http::{Method, Request};
use http_body_util::BodyExt;
use oncebox_faults::{Answer, Fault, Moment, Rule, Script, Server};
use oncebox_transport::{Body, CallOptions, Client, Response, ResponseBody};
use support::load::{LONG, Payload, call, http2, post, posts, request, serve, stream};
use support::{Peer, frames};
use tokio::io::AsyncWriteExt;
use tokio::task::JoinSet;
use tokio::time::timeout;

/// One connection, so that no other can come to help.
fn one_connection() -> Client {
    http2().max_connections(1).build()
}

/// What happens to requests whose name begins with "x".
fn on_x(at: Moment) -> Rule {
    Rule::at(at).request_id("x*")
}

async fn begin(client: &Client, server: &Server, id: &str) -> Response<ResponseBody> {
    let begun = client.send(request(server, Method::GET, id, Payload::None), CallOptions::new());
    timeout(LONG, begun).await.unwrap_or_else(|_| panic!("{id} is never answered")).unwrap()
}

async fn read_all(response: Response<ResponseBody>) -> usize {
    let read = timeout(LONG, response.into_body().collect());
    read.await.unwrap_or_else(|_| panic!("the body never ends")).unwrap().to_bytes().len()
}

async fn fifty_commands(client: &Client, server: &Server) {
    posts(client, server, 50, 10, Payload::Stream(5000)).await.assert_all_done_once(server, 0);
}

fn assert_one_connection(server: &Server) {
    let totals = server.log().totals();
    assert_eq!((totals.connections, totals.connections_open, totals.violations), (1, 1, 0));
}

/// Late answers to streams that were reset count in h2, and at their 1,024th it would end the connection.
#[tokio::test]
async fn after_1_100_cancelled_requests_with_late_answers_the_others_go_on() {
    let script = Script::new()
        .rule(on_x(Moment::Received).does(Fault::Hold))
        .rule(on_x(Moment::Cancelled).does(Fault::answer(Answer::default().text("late"))))
        .rule(Rule::at(Moment::Received).request_id("command").does(Fault::answer(slow_command())));
    let server = serve(script).await;
    let client = one_connection();
    let command = begin(&client, &server, "command").await;
    for batch in 0..22 {
        let mut cancelled = JoinSet::new();
        for n in 0..50 {
            let (client, request) = (client.clone(), post(&server, &format!("x{batch}-{n}"), Payload::Bytes(10)));
            cancelled.spawn(async move { client.send(request, CallOptions::new()).await.map(drop) });
        }
        let heads = |log: &oncebox_faults::Log| log.totals().heads == 1 + 50 * (batch + 1);
        assert!(server.log().wait_until(LONG, heads).await);
        cancelled.shutdown().await;
    }
    fifty_commands(&client, &server).await;
    assert_eq!(read_all(command).await, 300);
    assert_one_connection(&server);
}

/// Output that trickles for a while.
fn slow_command() -> Answer {
    Answer { pause_ms: 2, frame_size: Some(1), ..Answer::default().size(300) }
}

#[tokio::test]
async fn late_frames_for_1_100_closed_streams_harm_nobody() {
    let server = serve(Script::new().rule(on_x(Moment::Answered).does(Fault::LateFrames))).await;
    let client = one_connection();
    for n in 0..1100 {
        call(&client, request(&server, Method::GET, &format!("x{n}"), Payload::None)).await.unwrap();
    }
    fifty_commands(&client, &server).await;
    assert_one_connection(&server);
}

/// Output that nobody reads, in frames far smaller than h2 expects.
#[tokio::test]
async fn small_frames_that_nobody_reads_do_not_end_the_connection() {
    let small = Answer { frame_size: Some(8), ..Answer::default().size(200_000) };
    let server = serve(Script::new().rule(on_x(Moment::Received).does(Fault::answer(small)))).await;
    let client = one_connection();
    let unread = begin(&client, &server, "x").await;
    let all_there = |log: &oncebox_faults::Log| log.tries("x").iter().all(|a_try| a_try.answered);
    assert!(server.log().wait_until(LONG, all_there).await);
    fifty_commands(&client, &server).await;
    assert_eq!(read_all(unread).await, 200_000);
    assert_one_connection(&server);
}

#[tokio::test]
async fn three_slow_readers_do_not_starve_the_others() {
    let server =
        serve(Script::new().rule(on_x(Moment::Received).does(Fault::answer(Answer::default().size(4 << 20))))).await;
    let client = one_connection();
    let mut unread = Vec::new();
    for id in ["x1", "x2", "x3"] {
        unread.push(begin(&client, &server, id).await);
    }
    fifty_commands(&client, &server).await;
    for response in unread {
        assert_eq!(read_all(response).await, 4 << 20);
    }
    assert_one_connection(&server);
}

/// h2 counts empty DATA frames over a connection's life, and at the 101st it would end the connection.
#[tokio::test]
async fn a_download_padded_with_empty_frames_goes_on_beside_fifty_commands() {
    let padded = Answer { empty_data_every: Some(32 << 10), ..Answer::default().size(64 << 20) };
    let server = serve(Script::new().rule(on_x(Moment::Received).does(Fault::answer(padded)))).await;
    let client = one_connection();
    let mut download = begin(&client, &server, "x").await;
    let download = async {
        let mut received = 0;
        while let Some(frame) = download.body_mut().frame().await {
            received += frame.unwrap().into_data().unwrap().len();
        }
        received
    };
    let (received, ()) = tokio::join!(timeout(LONG, download), fifty_commands(&client, &server));
    assert_eq!(received.unwrap(), 64 << 20);
    assert_one_connection(&server);
}

/// The server takes no more of one upload than its window holds.
#[tokio::test]
async fn an_upload_that_nobody_takes_does_not_hold_up_the_others() {
    let server = serve(Script::new().rule(on_x(Moment::RequestBody(1)).does(Fault::Wait(3_600_000)))).await;
    let client = one_connection();
    let upload = Request::post(server.url("/")).header("x-request-id", "x");
    let upload = upload.body(stream(vec![7; 4 << 20], 1 << 16)).unwrap();
    let upload = tokio::spawn({
        let client = client.clone();
        async move { client.send(upload, CallOptions::new()).await.map(drop) }
    });
    assert!(server.log().wait_until(LONG, |log| log.heads("x") == 1).await);
    fifty_commands(&client, &server).await;
    assert!(!upload.is_finished());
    upload.abort();
    fifty_more(&client, &server).await;
    assert_one_connection(&server);
}

async fn fifty_more(client: &Client, server: &Server) {
    for n in 0..50 {
        call(client, post(server, &format!("more{n}"), Payload::Stream(5000))).await.unwrap();
    }
}

/// The source is asked for no more than the peer's window and one buffer hold: memory stays bounded.
#[tokio::test]
async fn a_stalled_upload_reads_no_more_of_its_source_than_the_windows_hold() {
    let server = serve(Script::new().rule(on_x(Moment::RequestBody(1)).does(Fault::Wait(3_600_000)))).await;
    let client = one_connection();
    let read = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let counted = read.clone();
    let frames = std::iter::repeat_with(move || {
        counted.fetch_add(1 << 16, std::sync::atomic::Ordering::SeqCst);
        Ok::<_, std::convert::Infallible>(http_body::Frame::data(bytes::Bytes::from(vec![7; 1 << 16])))
    });
    let body = Body::stream(http_body_util::StreamBody::new(futures_util::stream::iter(frames)));
    let upload = Request::post(server.url("/")).header("x-request-id", "x").body(body).unwrap();
    let upload = tokio::spawn({
        let client = client.clone();
        async move { client.send(upload, CallOptions::new()).await.map(drop) }
    });
    assert!(server.log().wait_until(LONG, |log| log.heads("x") == 1).await);
    fifty_commands(&client, &server).await;
    let read = read.load(std::sync::atomic::Ordering::SeqCst);
    // The server's stream window is 1 MiB.
    assert!(read <= (1 << 20) + (1 << 19), "{read} bytes");
    upload.abort();
}

/// A window opens and closes again before the upload looks. `h2` goes on waiting then, and does not grant zero bytes: an
/// empty frame would be sent for that, which some peers count.
#[tokio::test]
async fn a_window_that_closes_again_at_once_brings_no_empty_frame() {
    const PING: u8 = 6;
    const WINDOW_UPDATE: u8 = 8;
    const WINDOW: usize = 65_535;
    let peer = Peer::start(|_, mut socket| async move {
        frames::accept(&mut socket, &[]).await;
        frames::write(&mut socket, WINDOW_UPDATE, 0, 0, &(1_u32 << 20).to_be_bytes()).await;
        let stream = frames::next_request(&mut socket).await.unwrap();
        let mut received = 0;
        while received < WINDOW {
            let frame = frames::read(&mut socket).await.unwrap();
            received += if frame.kind == frames::DATA { frame.payload.len() } else { 0 };
        }
        // In one piece, so that the client reads both before anything else.
        let mut both = Vec::new();
        frames::write(&mut both, WINDOW_UPDATE, 0, stream, &10_u32.to_be_bytes()).await;
        let smaller = [&[0, 4][..], &(WINDOW as u32 - 10).to_be_bytes()].concat();
        frames::write(&mut both, frames::SETTINGS, 0, 0, &smaller).await;
        socket.write_all(&both).await.unwrap();
        // Answered when the two have been read, and the upload has looked.
        frames::write(&mut socket, PING, 0, 0, &[7; 8]).await;
        let mut widened = false;
        loop {
            let frame = frames::read(&mut socket).await.unwrap();
            match frame.kind {
                frames::DATA if frame.flags & frames::END_STREAM != 0 => break,
                frames::DATA => assert!(!frame.payload.is_empty(), "an empty frame"),
                PING if !std::mem::replace(&mut widened, true) => {
                    frames::write(&mut socket, WINDOW_UPDATE, 0, stream, &(1_u32 << 20).to_be_bytes()).await;
                }
                _ => {}
            }
        }
        frames::ok(&mut socket, stream).await;
        while frames::read(&mut socket).await.is_some() {}
    })
    .await;
    let body = stream(vec![1; 2 * WINDOW], 10_000);
    let request = http::Request::post(peer.url("/")).body(body).unwrap();
    let answer = timeout(LONG, http2().build().send_collected(request, CallOptions::new())).await.unwrap().unwrap();
    assert_eq!(answer.status(), 200);
}
