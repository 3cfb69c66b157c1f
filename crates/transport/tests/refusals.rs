//! Servers that refuse streams: nothing that was not processed is lost, and nothing is sent twice that may have been.

#![allow(clippy::unwrap_used)] // A test panics when it fails.

mod support;

use http::Method;
use oncebox_faults::{Answer, ErrorCode, Fault, Moment, Rule, Script, Server};
use oncebox_transport::Body;
use oncebox_transport::policy::{Cause, Outcome, Refusal, ReturnReason, Unknown};
use support::load::{BODIES, Payload, call, http2, post, posts, request, serve};
use support::{Peer, frames};
use tokio::io::AsyncWriteExt;

/// Many, since most of the time they wait before they are sent again.
const AT_ONCE: usize = 300;

fn refusing(rules: impl IntoIterator<Item = Rule>) -> Script {
    rules.into_iter().fold(Script::new().seed(7), |script, rule| script.rule(rule.does(Fault::Refuse)))
}

#[tokio::test]
async fn the_first_tries_of_many_requests_are_refused_and_none_fails() {
    let script = refusing([
        Rule::at(Moment::Request).attempt(1).share(0.5),
        Rule::at(Moment::Request).attempt(1..=2).share(0.1),
        Rule::at(Moment::Request).attempt(1..=3).share(0.02),
    ]);
    for payload in BODIES {
        let server = serve(script.clone()).await;
        let run = posts(&http2().build(), &server, 2000, AT_ONCE, payload).await;
        run.assert_all_done_once(&server, 3);
        assert!(server.log().totals().refused > 1000);
    }
}

#[tokio::test]
async fn one_in_ten_streams_is_refused_and_none_fails_with_eight_retries() {
    for payload in BODIES {
        let server = serve(refusing([Rule::at(Moment::Request).probability(0.1)])).await;
        let run = posts(&http2().connection_retries(8).build(), &server, 2000, AT_ONCE, payload).await;
        run.assert_all_done_once(&server, 8);
    }
}

#[tokio::test]
async fn half_of_all_streams_are_refused_and_exactly_those_fail_that_were_refused_four_times() {
    for payload in BODIES {
        let server = serve(refusing([Rule::at(Moment::Request).probability(0.5)])).await;
        let run = posts(&http2().build(), &server, 1000, AT_ONCE, payload).await;
        run.assert_histories_agree(&server);
        let log = server.log();
        assert_eq!(log.doubled(), []);
        let mut refused_four_times = log.request_ids();
        refused_four_times.retain(|id| log.processed(id) == 0);
        assert!((30..100).contains(&refused_four_times.len()), "{}", refused_four_times.len());
        assert_eq!(run.failed(), refused_four_times);
        for done in &run.done {
            let Err(error) = &done.result else { continue };
            let streams: Vec<_> = log.tries(&done.id).iter().map(|a_try| a_try.stream).collect();
            let told: Vec<_> = done
                .outcomes()
                .iter()
                .map(|outcome| match outcome {
                    Outcome::Refused(Refusal::RefusedStream { stream_id }) => *stream_id,
                    other => panic!("{other}"),
                })
                .collect();
            assert_eq!((told.len(), &told), (4, &streams), "{error}");
            assert_eq!(error.reason(), Some(ReturnReason::ConnectionRetriesUsed));
            assert!(!error.may_have_been_processed());
            let text = error.to_string();
            assert!(
                streams.iter().all(|stream| text.contains(&format!("REFUSED_STREAM on stream {stream}"))),
                "{text}"
            );
        }
    }
}

/// Of a mebibyte, all that is refused was read beyond what is mirrored.
#[tokio::test]
async fn a_long_stream_that_was_read_beyond_the_mirror_fails_as_refused_and_says_why() {
    let server = serve(refusing([Rule::at(Moment::RequestBody(100_000)).share(0.5)])).await;
    let run = posts(&http2().build(), &server, 40, 8, Payload::Stream(1 << 20)).await;
    run.assert_histories_agree(&server);
    let log = server.log();
    let mut refused = log.request_ids();
    refused.retain(|id| log.tries(id)[0].reset_sent == Some(ErrorCode::REFUSED_STREAM));
    assert!((10..30).contains(&refused.len()), "{}", refused.len());
    assert_eq!(run.failed(), refused);
    let digest = oncebox_faults::digest(&run.payload.bytes());
    for done in &run.done {
        let Err(error) = &done.result else {
            assert_eq!(log.tries(&done.id)[0].body_digest, digest);
            continue;
        };
        assert!(matches!(error.outcome(), Some(Outcome::Refused(_))), "{error}");
        assert_eq!(error.attempts().len(), 1);
        let text = error.to_string();
        assert!(text.contains("body not replayable: ") && text.contains("replay_buffer_limit 65,536"), "{text}");
    }
}

/// What can be read from its start again is never lost, and not doubled either.
#[tokio::test]
async fn a_long_body_that_can_be_rewound_is_replayed_whole_however_much_of_it_was_read() {
    let server = serve(refusing([Rule::at(Moment::RequestBody(100_000)).attempt(1).share(0.5)])).await;
    let run = posts(&http2().build(), &server, 40, 8, Payload::Rewindable(1 << 20)).await;
    assert!(run.failed().is_empty(), "{:?}", run.errors());
    run.assert_done_once(&server, 1);
    run.assert_histories_agree(&server);
    let log = server.log();
    let refused = log.request_ids().iter().filter(|id| log.tries(id).len() == 2).count();
    assert!((10..30).contains(&refused), "{refused}");
}

#[tokio::test]
async fn at_the_mirrors_size_a_stream_is_replayed_and_one_byte_above_it_is_not() {
    for (length, replayed) in [(65_536, true), (65_537, false)] {
        let refuse_the_first = Rule::at(Moment::RequestBody(length)).attempt(1);
        let server = serve(refusing([refuse_the_first])).await;
        let called = call(&http2().build(), post(&server, "a", Payload::Stream(length as usize))).await;
        match called {
            Ok(_) => assert!(replayed),
            Err(error) => {
                assert!(!replayed, "{error}");
                let why = "body not replayable: 65,537 bytes read, replay_buffer_limit 65,536";
                assert!(error.to_string().contains(why), "{error}");
            }
        }
        let tries = server.log().tries("a");
        assert_eq!((tries.len(), server.log().processed("a")), if replayed { (2, 1) } else { (1, 0) });
        assert!(tries.iter().all(|a_try| a_try.body_bytes == length));
    }
}

/// RFC 9113 promises nothing of these: the request may have been processed.
#[tokio::test]
async fn a_reset_with_another_code_is_never_a_replay() {
    for code in [ErrorCode::NO_ERROR, ErrorCode::CANCEL, ErrorCode::INTERNAL_ERROR] {
        for at in [Moment::Request, Moment::Received, Moment::Processed] {
            for payload in [Payload::None, Payload::Bytes(9), Payload::Stream(9), Payload::Rewindable(9)] {
                let server = serve(Script::new().rule(Rule::at(at).does(Fault::ResetStream(code)))).await;
                let error = call(&http2().build(), post(&server, "a", payload)).await.unwrap_err();
                let Some(Outcome::SentUnknown(Unknown { cause, stream_id, .. })) = error.outcome() else {
                    panic!("{error}");
                };
                assert_eq!((*cause, *stream_id), (Cause::Reset { code: code.0 }, Some(1)), "{error}");
                assert_eq!((error.attempts().len(), server.log().heads("a")), (1, 1));
                assert!(error.may_have_been_processed());
            }
        }
    }
}

/// A reset without error ends an upload, and no answer: that is cut.
#[tokio::test]
async fn an_answer_that_a_reset_without_error_cuts_is_not_whole() {
    for status in [200, 421, 425] {
        for method in [Method::POST, Method::GET] {
            let reset = Rule::at(Moment::AnswerBody(1)).attempt(1).does(Fault::ResetStream(ErrorCode::NO_ERROR));
            let begun = Fault::answer(Answer::status(status).text("begun, and cut"));
            let server =
                serve(Script::new().rule(reset).rule(Rule::at(Moment::Processed).attempt(1).does(begun))).await;
            let answer = call(&http2().build(), request(&server, method.clone(), "a", Payload::Bytes(9))).await;
            let tries = server.log().tries("a").len();
            if method == Method::GET {
                assert_eq!((answer.unwrap().status().as_u16(), tries), (200, 2));
            } else {
                let error = answer.unwrap_err();
                assert!(matches!(error.outcome(), Some(Outcome::Responded(_))), "{status}: {error}");
                assert!(error.may_have_been_processed() && tries == 1, "{status}: {error}");
            }
        }
    }
}

/// After the answer has begun REFUSED_STREAM is as late as any other code.
#[tokio::test]
async fn a_refusal_after_the_answer_began_is_none() {
    let script = refusing([Rule::at(Moment::AnswerBody(1))]);
    let server = serve(script).await;
    let error = call(&http2().build(), post(&server, "a", Payload::Bytes(9))).await.unwrap_err();
    assert!(matches!(error.outcome(), Some(Outcome::Responded(_))), "{error}");
    assert_eq!((error.attempts().len(), server.log().heads("a")), (1, 1));
    assert!(error.may_have_been_processed());
}

/// What a peer says of its first stream.
#[derive(Clone, Copy, Debug)]
enum Say {
    /// `103 Early Hints`.
    Hints,
    Reset(ErrorCode),
    /// With this last stream id.
    GoAway(u32),
}

/// A POST to a peer that says this of it, `in_one` piece or each when the last was read, and answers what comes later.
async fn post_to(said: &'static [Say], in_one: bool) -> Result<Vec<Outcome>, (Outcome, usize)> {
    let peer = Peer::start(move |connection, mut socket| async move {
        frames::accept(&mut socket, &[]).await;
        if connection == 0
            && let Some(stream) = frames::next_request(&mut socket).await
        {
            let mut all = Vec::new();
            for say in said {
                match say {
                    Say::Hints => frames::early_hints(&mut all, stream).await,
                    Say::Reset(code) => frames::reset(&mut all, stream, code.0).await,
                    Say::GoAway(last) => frames::goaway(&mut all, *last, 0, b"").await,
                }
                if !in_one {
                    socket.write_all(&std::mem::take(&mut all)).await.unwrap();
                    frames::until_read(&mut socket).await;
                }
            }
            socket.write_all(&all).await.unwrap();
        }
        while let Some(stream) = frames::next_request(&mut socket).await {
            frames::ok(&mut socket, stream).await;
        }
    })
    .await;
    let request = http::Request::post(peer.url("/")).body(Body::from("work")).unwrap();
    match call(&http2().build(), request).await {
        Ok(answer) => Ok(answer.history().ledger().attempts().iter().map(|record| record.outcome).collect()),
        Err(error) => Err((*error.outcome().unwrap(), error.attempts().len())),
    }
}

/// An interim answer is none yet: whoever passes a request on may give one, and nothing was done for it.
#[tokio::test]
async fn a_refusal_after_an_interim_answer_is_one() {
    const SAID: &[Say] = &[Say::Hints, Say::Hints, Say::Reset(ErrorCode::REFUSED_STREAM)];
    for (said, in_one) in [(SAID, true), (SAID, false), (&SAID[2..], true)] {
        let outcomes = post_to(said, in_one).await.unwrap();
        assert_eq!(outcomes[0], Outcome::Refused(Refusal::RefusedStream { stream_id: 1 }), "{said:?}");
        assert_eq!(outcomes.len(), 2, "{said:?}");
    }
}

/// A reset says nothing of what became of the request, and a GOAWAY behind it does.
#[tokio::test]
async fn a_reset_stream_that_a_goaway_disowns_was_not_processed() {
    const DISOWNED: [&[Say]; 4] = [
        &[Say::Reset(ErrorCode::CANCEL), Say::GoAway(0)],
        &[Say::Reset(ErrorCode::INTERNAL_ERROR), Say::GoAway(0)],
        &[Say::GoAway(9), Say::Reset(ErrorCode::NO_ERROR), Say::GoAway(0)],
        &[Say::Hints, Say::Reset(ErrorCode::CANCEL), Say::GoAway(0)],
    ];
    for said in DISOWNED {
        let outcomes = post_to(said, true).await.unwrap_or_else(|failed| panic!("{said:?}: {failed:?}"));
        assert_eq!(outcomes[0], Outcome::after_goaway(1, 0, 0, b""), "{said:?}");
        assert_eq!(outcomes.len(), 2, "{said:?}");
    }
    const ITS_OWN: &[Say] = &[Say::Reset(ErrorCode::CANCEL), Say::GoAway(1)];
    let (outcome, attempts) = post_to(ITS_OWN, true).await.unwrap_err();
    assert_eq!((outcome, attempts), (Outcome::after_reset(1, ErrorCode::CANCEL.0, false), 1));
}

async fn misdirected(max_connections: usize) -> (Server, u16) {
    let misdirect = Fault::answer(Answer::status(421));
    let server = serve(Script::new().rule(Rule::at(Moment::Request).attempt(1).does(misdirect))).await;
    let client = http2().max_connections(max_connections).build();
    let answer = call(&client, post(&server, "a", Payload::Bytes(9))).await.unwrap();
    (server, answer.status().as_u16())
}

#[tokio::test]
async fn a_misdirected_request_is_sent_again_on_a_fresh_connection() {
    let (server, status) = misdirected(2).await;
    let connections: Vec<_> = server.log().tries("a").iter().map(|a_try| a_try.connection).collect();
    assert_eq!((status, connections), (200, vec![1, 2]));
}

#[tokio::test]
async fn a_fresh_connection_is_no_way_around_the_bound() {
    let (server, status) = misdirected(1).await;
    let connections: Vec<_> = server.log().tries("a").iter().map(|a_try| a_try.connection).collect();
    assert_eq!((status, connections), (200, vec![1, 1]));
}

/// A header that HTTP/2 has no place for is left out, as it describes a connection (RFC 9113 §8.2.2).
#[tokio::test]
async fn headers_of_a_connection_do_not_end_one() {
    let server = serve(Script::new()).await;
    let client = http2().build();
    for (name, value) in [
        ("connection", "keep-alive, x-hop"),
        ("keep-alive", "timeout=5"),
        ("proxy-connection", "close"),
        ("transfer-encoding", "chunked"),
        ("upgrade", "websocket"),
        ("te", "gzip"),
    ] {
        let mut with_header = request(&server, Method::GET, name, Payload::None);
        with_header.headers_mut().insert(name, value.parse().unwrap());
        with_header.headers_mut().insert("x-hop", "1".parse().unwrap());
        assert_eq!(call(&client, with_header).await.unwrap().status(), 200, "{name}");
    }
    let totals = server.log().totals();
    assert_eq!((totals.connections, totals.heads, totals.violations), (1, 6, 0));
}
