//! What the `h2` crate says of an error, pinned: outcomes rest on it. A new version of it must say the same.
//!
//! Here is `h2` alone, without the shim that adds what it does not say.

#![allow(clippy::unwrap_used)] // A test panics when it fails.

mod support;

use std::future::poll_fn;
use std::net::SocketAddr;

use bytes::Bytes;
use h2::client::{ResponseFuture, SendRequest};
use h2::{Reason, SendStream};
use http::Request;
use oncebox_faults::{
    Answer, Direction, ErrorCode, Fault, Happening, LastId, Moment, ProtocolError, Rule, Script, Server, Settings, Then,
};
use support::load::{LONG, serve};
use support::{Peer, frames};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::time::timeout;

/// What `h2` says of an error.
#[derive(Debug, PartialEq, Eq)]
struct Flags {
    go_away: bool,
    reset: bool,
    remote: bool,
    library: bool,
    io: bool,
    reason: Option<Reason>,
}

const NONE: Flags = Flags { go_away: false, reset: false, remote: false, library: false, io: false, reason: None };

/// The connection failed below HTTP.
const IO: Flags = Flags { io: true, ..NONE };

fn went_away(reason: Reason) -> Flags {
    Flags { go_away: true, remote: true, reason: Some(reason), ..NONE }
}

fn was_reset(reason: Reason) -> Flags {
    Flags { reset: true, remote: true, reason: Some(reason), ..NONE }
}

fn flags(error: &h2::Error) -> Flags {
    Flags {
        go_away: error.is_go_away(),
        reset: error.is_reset(),
        remote: error.is_remote(),
        library: error.is_library(),
        io: error.is_io(),
        reason: error.reason(),
    }
}

async fn connect(server: &Server) -> SendRequest<Bytes> {
    connect_to(server.addr()).await
}

async fn connect_to(address: SocketAddr) -> SendRequest<Bytes> {
    let socket = TcpStream::connect(address).await.unwrap();
    let (sender, connection) = h2::client::handshake(socket).await.unwrap();
    tokio::spawn(connection);
    sender
}

/// Opens the next stream, with a body that goes on.
async fn open(sender: &SendRequest<Bytes>) -> (ResponseFuture, SendStream<Bytes>) {
    let mut sender = sender.clone().ready().await.unwrap();
    sender.send_request(Request::post("http://localhost/").body(()).unwrap(), false).unwrap()
}

async fn get(sender: &SendRequest<Bytes>) -> ResponseFuture {
    let mut sender = sender.clone().ready().await.unwrap();
    sender.send_request(Request::get("http://localhost/").body(()).unwrap(), true).unwrap().0
}

async fn error(response: ResponseFuture) -> Flags {
    flags(&timeout(LONG, response).await.unwrap().unwrap_err())
}

async fn status(response: ResponseFuture) -> u16 {
    timeout(LONG, response).await.unwrap().unwrap().status().as_u16()
}

/// Whether the connection takes another request, once what the server said has come.
async fn next(sender: &SendRequest<Bytes>) -> Option<Flags> {
    timeout(LONG, sender.clone().ready()).await.unwrap().err().as_ref().map(flags)
}

/// A peer that says `103 Early Hints` of the first stream and then resets it.
async fn hints_then_reset() -> Peer {
    Peer::start(|_, mut socket| async move {
        frames::accept(&mut socket, &[]).await;
        let stream = frames::next_request(&mut socket).await.unwrap();
        let mut said = Vec::new();
        frames::early_hints(&mut said, stream).await;
        frames::reset(&mut said, stream, Reason::REFUSED_STREAM.into()).await;
        socket.write_all(&said).await.unwrap();
        while frames::read(&mut socket).await.is_some() {}
    })
    .await
}

/// An interim answer is passed over, and the reset behind it is told as one without.
#[tokio::test]
async fn an_interim_answer_changes_nothing_of_a_reset() {
    let peer = hints_then_reset().await;
    let sender = connect_to(peer.address).await;
    assert_eq!(error(get(&sender).await).await, was_reset(Reason::REFUSED_STREAM));
}

fn on_second(fault: impl Into<Fault>) -> Script {
    // Long enough for the second to come before the first is answered.
    Script::new().service_time_ms(20).rule(Rule::at(Moment::Request).nth(2).does(fault))
}

#[tokio::test]
async fn goaway_fails_the_streams_above_its_last_id_and_spares_the_others() {
    for (code, reason) in [
        (ErrorCode::NO_ERROR, Reason::NO_ERROR),
        (ErrorCode::ENHANCE_YOUR_CALM, Reason::ENHANCE_YOUR_CALM),
        (ErrorCode::INTERNAL_ERROR, Reason::INTERNAL_ERROR),
    ] {
        let server = serve(on_second(Fault::goaway().last(LastId::Id(1)).code(code).then(Then::Stay))).await;
        let sender = connect(&server).await;
        let (first, second) = (get(&sender).await, get(&sender).await);
        assert_eq!(error(second).await, went_away(reason));
        assert_eq!(next(&sender).await, Some(went_away(reason)), "nothing more is sent");
        assert_eq!(status(first).await, 200);
    }
}

#[tokio::test]
async fn goaway_and_the_end_of_the_connection_are_told_apart() {
    for then in [Then::Close, Then::Reset] {
        let server = serve(on_second(Fault::goaway().last(LastId::Id(1)).then(then))).await;
        let sender = connect(&server).await;
        let (first, second) = (get(&sender).await, get(&sender).await);
        assert_eq!(error(second).await, went_away(Reason::NO_ERROR));
        assert_eq!(error(first).await, IO);
    }
}

#[tokio::test]
async fn a_narrowed_goaway_fails_what_the_first_had_spared() {
    let rule = Rule::at(Moment::Request)
        .nth(2)
        .does(Fault::goaway().last(LastId::Max))
        .does(Fault::goaway().last(LastId::Id(1)).then(Then::Stay));
    let server = serve(Script::new().service_time_ms(20).rule(rule)).await;
    let sender = connect(&server).await;
    let (first, second) = (get(&sender).await, get(&sender).await);
    assert_eq!(error(second).await, went_away(Reason::NO_ERROR));
    assert_eq!(status(first).await, 200);
}

#[tokio::test]
async fn after_the_first_phase_of_a_goaway_nothing_more_is_sent_and_what_was_is_answered() {
    let server = serve(on_second(Fault::goaway().last(LastId::Max))).await;
    let sender = connect(&server).await;
    let (first, second) = (get(&sender).await, get(&sender).await);
    assert_eq!((status(first).await, status(second).await), (200, 200));
    assert_eq!(next(&sender).await, Some(went_away(Reason::NO_ERROR)));
}

#[tokio::test]
async fn a_reset_carries_its_code_and_says_that_it_is_the_peers() {
    for (code, reason) in [
        (ErrorCode::REFUSED_STREAM, Reason::REFUSED_STREAM),
        (ErrorCode::NO_ERROR, Reason::NO_ERROR),
        (ErrorCode::CANCEL, Reason::CANCEL),
        (ErrorCode::INTERNAL_ERROR, Reason::INTERNAL_ERROR),
    ] {
        let server = serve(Script::new().rule(Rule::at(Moment::Request).does(Fault::ResetStream(code)))).await;
        let sender = connect(&server).await;
        assert_eq!(error(get(&sender).await).await, was_reset(reason));
        assert_eq!(next(&sender).await, None, "the connection goes on");
    }
}

#[tokio::test]
async fn a_lost_connection_is_an_io_error_without_a_code() {
    for lost in [Fault::Close, Fault::Reset] {
        let server = serve(Script::new().rule(Rule::at(Moment::Received).does(lost))).await;
        let sender = connect(&server).await;
        assert_eq!(error(get(&sender).await).await, IO);
        assert_eq!(next(&sender).await, Some(IO));
    }
}

#[tokio::test]
async fn a_body_that_is_cut_is_an_io_error_too() {
    let server = serve(Script::new().rule(Rule::at(Moment::AnswerBody(1)).does(Fault::Close))).await;
    let mut body = get(&connect(&server).await).await.await.unwrap().into_body();
    assert_eq!(body.data().await.unwrap().unwrap(), "o");
    assert_eq!(flags(&body.data().await.unwrap().unwrap_err()), IO);
}

#[tokio::test]
async fn an_idle_connection_that_ended_takes_no_request() {
    let server = serve(Script::new().rule(Rule::at(Moment::Answered).does(Fault::Close))).await;
    let sender = connect(&server).await;
    assert_eq!(status(get(&sender).await).await, 200);
    let ended = timeout(LONG, async {
        loop {
            if let Some(flags) = next(&sender).await {
                return flags;
            }
            tokio::task::yield_now().await;
        }
    });
    assert_eq!(ended.await.unwrap(), IO);
}

/// The server allows one stream, and is known to.
async fn with_one_stream_open(fault: Fault) -> (Server, SendRequest<Bytes>, ResponseFuture) {
    let script = Script::new()
        .max_concurrent_streams(1)
        .rule(Rule::at(Moment::Received).nth(2).does(Fault::Wait(20)).does(fault));
    let server = serve(script).await;
    let sender = connect(&server).await;
    assert_eq!(status(get(&sender).await).await, 200);
    let first = get(&sender).await;
    (server, sender, first)
}

/// `ready` waits for those that wait for a free stream: what is queued inside `h2` got there unasked.
async fn queued(sender: &SendRequest<Bytes>) -> ResponseFuture {
    let mut sender = sender.clone();
    sender.send_request(Request::get("http://localhost/").body(()).unwrap(), true).unwrap().0
}

/// What was never sent and what was look the same. Only the shim tells them apart.
#[tokio::test]
async fn a_stream_queued_in_h2_fails_like_one_that_was_sent() {
    let (server, sender, first) = with_one_stream_open(Fault::Close).await;
    let second = queued(&sender).await;
    assert_eq!((error(first).await, error(second).await), (IO, IO));
    assert_eq!(server.log().totals().heads, 2);

    let (server, sender, first) = with_one_stream_open(Fault::from(Fault::goaway())).await;
    let second = queued(&sender).await;
    assert_eq!(error(second).await, went_away(Reason::NO_ERROR));
    assert_eq!((status(first).await, server.log().totals().heads), (200, 2));
}

/// The reason why a request that was caught in h2's queue is never sent again: its HEADERS still go out.
#[tokio::test]
async fn a_stream_queued_in_h2_and_cancelled_is_sent_all_the_same() {
    let (server, sender, first) = with_one_stream_open(Fault::Wait(1)).await;
    drop(queued(&sender).await);
    assert_eq!(status(first).await, 200);
    assert!(server.log().wait_until(LONG, |log| log.totals().heads == 3).await);
    let zombie = |log: &oncebox_faults::Log| log.all_tries()[2].reset_received == Some(ErrorCode::CANCEL);
    assert!(server.log().wait_until(LONG, zombie).await);
}

#[tokio::test]
async fn a_lowered_cap_holds_later_streams_back_and_fails_none() {
    let lower = Rule::at(Moment::Request).nth(3).does(Settings::streams(1));
    let server = serve(Script::new().service_time_ms(20).rule(lower)).await;
    let sender = connect(&server).await;
    let open = [get(&sender).await, get(&sender).await, get(&sender).await];
    for response in open {
        assert_eq!(status(response).await, 200);
    }
    assert_eq!(status(get(&sender).await).await, 200);
}

#[tokio::test]
async fn a_cap_of_zero_holds_all_streams_back_and_fails_none() {
    let raise = Rule::at(Moment::Age(60)).does(Settings::streams(1));
    let server = serve(Script::new().max_concurrent_streams(0).rule(raise)).await;
    let sender = connect(&server).await;
    let acknowledged = |log: &oncebox_faults::Log| {
        let ack = |what: &Happening| {
            matches!(what, Happening::Frame { direction: Direction::Received, kind: 4, flags: 1, .. })
        };
        log.events().iter().any(|event| ack(&event.what))
    };
    assert!(server.log().wait_until(LONG, acknowledged).await);
    let response = queued(&sender).await;
    assert_eq!(status(response).await, 200);
}

#[tokio::test]
async fn a_dropped_response_resets_its_stream() {
    let server = serve(Script::new().rule(Rule::at(Moment::Received).does(Fault::Hold))).await;
    let sender = connect(&server).await;
    let response = get(&sender).await;
    assert!(server.log().wait_until(LONG, |log| log.totals().heads == 1).await);
    drop(response);
    let reset = |log: &oncebox_faults::Log| log.all_tries()[0].reset_received == Some(ErrorCode::CANCEL);
    assert!(server.log().wait_until(LONG, reset).await);
}

/// Both say GOAWAY, but this one is our own: nothing is promised about any stream.
#[tokio::test]
async fn a_violation_of_the_protocol_is_the_librarys_goaway_and_not_the_peers() {
    for violation in [
        ProtocolError::DataOnStreamZero,
        ProtocolError::PingOfWrongLength,
        ProtocolError::BadHpack,
        ProtocolError::LoneContinuation,
        ProtocolError::FrameTooLarge,
        ProtocolError::SettingsAckWithPayload,
    ] {
        let rule = Rule::at(Moment::Received).does(Fault::ProtocolError(violation));
        let server = serve(Script::new().rule(rule)).await;
        let sender = connect(&server).await;
        let seen = error(get(&sender).await).await;
        assert_eq!(Flags { reason: None, ..seen }, Flags { go_away: true, library: true, ..NONE }, "{violation:?}");
    }
}

/// The limit that the shim's filter is for: it counts over the connection's life, and there is no option for it.
#[tokio::test]
async fn a_hundred_and_one_empty_data_frames_end_the_connection_for_all_streams() {
    let padded = Answer { empty_data_every: Some(10), frame_size: Some(10), ..Answer::default().size(3000) };
    let server = serve(Script::new().rule(Rule::at(Moment::Request).nth(2).does(Fault::answer(padded)))).await;
    let sender = connect(&server).await;
    assert_eq!(status(get(&sender).await).await, 200);
    let mut body = get(&sender).await.await.unwrap().into_body();
    let cut = timeout(LONG, async {
        while let Some(data) = body.data().await {
            match data {
                Ok(data) => body.flow_control().release_capacity(data.len()).unwrap(),
                Err(error) => return Some(flags(&error)),
            }
        }
        None
    });
    let cut = cut.await.unwrap().unwrap();
    assert_eq!(cut, Flags { go_away: true, library: true, reason: Some(Reason::ENHANCE_YOUR_CALM), ..NONE });
}

/// An upload that the peer stops in order, after its whole answer.
#[tokio::test]
async fn a_reset_without_error_after_the_answer_is_told_to_the_upload_only() {
    let early = Answer::status(413).text("too large");
    let server = serve(Script::new().rule(Rule::at(Moment::Request).does(Fault::answer(early)))).await;
    let sender = connect(&server).await;
    let (response, mut upload) = open(&sender).await;
    let mut body = timeout(LONG, response).await.unwrap().unwrap().into_body();
    let reset = timeout(LONG, poll_fn(|cx| upload.poll_reset(cx))).await.unwrap();
    assert_eq!(reset.unwrap(), Reason::NO_ERROR);
    assert_eq!(body.data().await.unwrap().unwrap(), "too large");
    assert!(body.data().await.is_none() && body.trailers().await.unwrap().is_none());
}
