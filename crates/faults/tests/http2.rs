//! HTTP/2 faults as a raw socket sees them.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use std::time::Duration;

use oncebox_faults::{
    Answer, ErrorCode, Fault, FrameStream, LastId, Moment, Number, ProtocolError, RawFrame, Rule, Script, Settings,
    Then, Withhold,
};
use support::*;

fn at_request(fault: impl Into<Fault>) -> Script {
    Script::new().rule(Rule::at(Moment::Request).does(fault))
}

#[tokio::test]
async fn without_rules_it_answers_and_logs() {
    let server = serve(Script::new()).await;
    let mut raw = Raw::h2(&server).await;
    raw.post(1, "a").await;
    raw.data(1, "hel", false).await;
    raw.data(1, "lo", true).await;
    raw.expect_ok(1).await;
    assert!(server.log().wait_until(LONG, |log| log.totals().answered == 1).await);
    let a_try = server.log().tries("a").remove(0);
    assert_eq!((a_try.connection, a_try.stream, a_try.body_bytes), (1, 1, 5));
    assert_eq!(a_try.body_digest, oncebox_faults::digest(b"hello"));
    assert!(a_try.complete && a_try.processed && a_try.answered);
    assert_eq!((a_try.method.as_str(), a_try.path.as_str()), ("POST", "/"));
    assert_eq!(server.log().processed("a"), 1);
}

#[tokio::test]
async fn settings_are_what_the_script_says() {
    let settings = Settings {
        max_concurrent_streams: Some(7),
        max_header_list_size: Some(9),
        other: [(0xabc, 5)].into(),
        ..Settings::none()
    };
    let server = serve(Script::new().settings(settings)).await;
    let mut raw = Raw::connect(server.addr()).await;
    raw.preface().await;
    let payload = [0, 3, 0, 0, 0, 7, 0, 6, 0, 0, 0, 9, 0x0a, 0xbc, 0, 0, 0, 5];
    raw.expect(frame(SETTINGS, 0, 0, payload)).await;
}

#[tokio::test]
async fn settings_can_be_withheld_or_late() {
    let server = serve(Script::new().settings(None)).await;
    let mut raw = Raw::connect(server.addr()).await;
    raw.preface().await;
    assert_eq!(raw.read_any().await, Some(frame(SETTINGS, ACK, 0, [])));
    raw.get(1, "").await;
    raw.expect_ok(1).await;

    let late = Settings { after_ms: 30, ..Settings::streams(3) };
    let server = serve(Script::new().settings(late)).await;
    let mut raw = Raw::connect(server.addr()).await;
    raw.preface().await;
    raw.get(1, "").await;
    raw.expect_ok(1).await;
    raw.expect(frame(SETTINGS, 0, 0, [0, 3, 0, 0, 0, 3])).await;
}

#[tokio::test]
async fn a_connection_is_retired_after_n_streams_exactly() {
    let server = serve(Script::retiring(3)).await;
    let mut raw = Raw::h2(&server).await;
    // All in one write: the fourth is there before the GOAWAY is.
    let heads: Vec<u8> = [1, 3, 5, 7]
        .iter()
        .flat_map(|id| bytes(&frame(HEADERS, 5, *id, block("GET", "/", &format!("r{id}")))))
        .collect();
    raw.write(heads).await;
    raw.expect_ok(1).await;
    raw.expect_ok(3).await;
    raw.expect(goaway(5, 0, "max_age")).await;
    raw.expect_ok(5).await;
    assert_eq!(raw.rest().await, (vec![], End::Fin));
    let log = server.log();
    assert_eq!(log.streams_after_goaway(), [(1, 7)]);
    assert_eq!((log.heads("r7"), log.processed("r7"), log.processed("r5")), (1, 0, 1));
    let connection = log.connections().remove(0);
    assert_eq!((connection.heads, connection.heads_after_goaway, connection.processed), (4, 1, 3));
    assert_eq!(connection.goaways, [(5, ErrorCode::NO_ERROR)]);
}

#[tokio::test]
async fn a_random_retirement_follows_the_seed() {
    let mut runs = Vec::new();
    for _ in 0..2 {
        let server = serve(Script::retiring(Number::Random { from: 1, to: 40 }).seed(5)).await;
        let mut lives = Vec::new();
        for _ in 0..4 {
            let mut raw = Raw::h2(&server).await;
            let heads: Vec<u8> =
                (0..41).flat_map(|n| bytes(&frame(HEADERS, 5, 2 * n + 1, block("GET", "/", "")))).collect();
            raw.write(heads).await;
            raw.rest().await;
            lives.push(server.log().connections().pop().unwrap().processed);
        }
        runs.push(lives);
    }
    assert_eq!(runs[0], runs[1]);
    assert!(runs[0].iter().any(|life| life != &runs[0][0]), "{runs:?}");
}

#[tokio::test]
async fn a_reset_follows_the_answers_below_the_last_id() {
    let script = Script::new()
        .service_time_ms(20)
        .rule(Rule::at(Moment::Request).nth(2).does(Fault::goaway().then(Then::ResetWhenDone)));
    let server = serve(script).await;
    let mut raw = Raw::h2(&server).await;
    raw.get(1, "").await;
    raw.get(3, "").await;
    raw.expect(goaway(3, 0, "")).await;
    raw.expect_ok(1).await;
    raw.expect_ok(3).await;
    assert_eq!(raw.rest().await, (vec![], End::Reset));
}

#[tokio::test]
async fn goaway_comes_in_two_phases() {
    let rule = Rule::at(Moment::Request)
        .nth(1)
        .does(Fault::goaway().last(LastId::Max).debug("shutdown"))
        .does(Fault::wait(Duration::from_millis(40)))
        .does(Fault::goaway());
    let server = serve(Script::new().rule(rule)).await;
    let mut raw = Raw::h2(&server).await;
    raw.get(1, "a").await;
    raw.expect(goaway(0x7fff_ffff, 0, "shutdown")).await;
    raw.get(3, "b").await;
    raw.expect_ok(3).await;
    raw.expect(goaway(3, 0, "")).await;
    raw.get(5, "c").await;
    raw.expect_ok(1).await;
    assert_eq!(raw.rest().await, (vec![], End::Fin));
    assert!(server.log().wait_until(LONG, |log| log.streams_after_goaway() == [(1, 3), (1, 5)]).await);
    assert_eq!((server.log().processed("b"), server.log().processed("c")), (1, 0));
}

#[tokio::test]
async fn a_narrowing_goaway_disowns_what_was_not_processed() {
    let script = Script::new().rule(
        Rule::at(Moment::Request)
            .nth(3)
            .does(Fault::goaway().last(LastId::Id(5)).then(Then::Stay))
            .does(Fault::goaway().last(LastId::Id(1)).code(ErrorCode::ENHANCE_YOUR_CALM)),
    );
    let server = serve(script).await;
    let mut raw = Raw::h2(&server).await;
    raw.post(1, "a").await;
    raw.post(3, "b").await;
    raw.get(5, "c").await;
    raw.expect(goaway(5, 0, "")).await;
    raw.expect(goaway(1, 11, "")).await;
    raw.data(3, "x", true).await;
    raw.data(1, "x", true).await;
    raw.expect_ok(1).await;
    assert_eq!(raw.rest().await, (vec![], End::Fin));
    let log = server.log();
    assert_eq!(["a", "b", "c"].map(|id| log.processed(id)), [1, 0, 0]);
    assert!(log.tries("b")[0].disowned && log.tries("c")[0].disowned);
}

#[tokio::test]
async fn a_goaway_can_refuse_the_request_at_hand_or_lie() {
    let server = serve(at_request(Fault::goaway().last(LastId::Previous))).await;
    let mut raw = Raw::h2(&server).await;
    raw.get(1, "a").await;
    raw.expect(goaway(0, 0, "")).await;
    assert_eq!(raw.rest().await, (vec![], End::Fin));
    assert_eq!(server.log().processed("a"), 0);

    let server = serve(at_request(Fault::goaway().last(LastId::Id(0)).lying().then(Then::Stay))).await;
    let mut raw = Raw::h2(&server).await;
    raw.get(1, "a").await;
    raw.expect(goaway(0, 0, "")).await;
    raw.expect_ok(1).await;
    assert_eq!(server.log().processed("a"), 1);
}

#[tokio::test]
async fn goaway_on_accept() {
    let server = serve(Script::new().rule(Rule::at(Moment::Preface).does(Fault::goaway().debug("full")))).await;
    let mut raw = Raw::h2(&server).await;
    raw.expect(goaway(0, 0, "full")).await;
    assert_eq!(raw.rest().await.1, End::Fin);
}

#[tokio::test]
async fn a_stream_opened_after_the_client_read_the_goaway_is_told_apart() {
    let script = at_request(Fault::goaway().then(Then::Stay)).rule(Rule::at(Moment::Request).does(Fault::Ping));
    let server = serve(script).await;
    let mut raw = Raw::h2(&server).await;
    raw.get(1, "a").await;
    raw.expect(goaway(1, 0, "")).await;
    raw.expect(frame(PING, 0, 0, "oncebox!")).await;
    raw.expect_ok(1).await;
    raw.get(3, "b").await;
    raw.send(frame(PING, ACK, 0, "oncebox!")).await;
    raw.get(5, "c").await;
    raw.send(frame(PING, 0, 0, "12345678")).await;
    raw.expect(frame(PING, ACK, 0, "12345678")).await;
    let seen = |id: &str| server.log().tries(id)[0].after_goaway_was_seen;
    assert_eq!((seen("b"), seen("c")), (false, true));
}

#[tokio::test]
async fn streams_are_reset_with_any_code_at_any_point() {
    let script = Script::new()
        .rule(Rule::at(Moment::Request).request_id("refused").does(Fault::Refuse))
        .rule(Rule::at(Moment::Request).request_id("cancelled").does(Fault::ResetStream(ErrorCode::CANCEL)))
        .rule(Rule::at(Moment::RequestBody(3)).request_id("body").does(Fault::Refuse))
        .rule(Rule::at(Moment::Processed).request_id("done").does(Fault::ResetStream(ErrorCode::INTERNAL_ERROR)))
        .rule(Rule::at(Moment::AnswerBody(0)).request_id("head").does(Fault::ResetStream(ErrorCode(0xbeef))))
        .rule(Rule::at(Moment::AnswerBody(1)).request_id("half").does(Fault::ResetStream(ErrorCode::NO_ERROR)));
    let server = serve(script).await;
    let mut raw = Raw::h2(&server).await;
    raw.get(1, "refused").await;
    raw.expect(rst_stream(1, 7)).await;
    raw.get(3, "cancelled").await;
    raw.expect(rst_stream(3, 8)).await;
    raw.post(5, "body").await;
    raw.data(5, "ab", false).await;
    raw.data(5, "cd", false).await;
    raw.expect(rst_stream(5, 7)).await;
    raw.get(7, "done").await;
    raw.expect(rst_stream(7, 2)).await;
    raw.get(9, "head").await;
    assert_eq!(raw.read().await.unwrap().kind, HEADERS);
    raw.expect(rst_stream(9, 0xbeef)).await;
    raw.get(11, "half").await;
    assert_eq!(raw.read().await.unwrap().kind, HEADERS);
    raw.expect(frame(DATA, 0, 11, "o")).await;
    raw.expect(rst_stream(11, 0)).await;
    let log = server.log();
    let processed = ["refused", "cancelled", "body", "done", "head", "half"].map(|id| log.processed(id));
    assert_eq!(processed, [0, 0, 0, 1, 1, 1]);
    assert_eq!(log.tries("body")[0].body_bytes, 4);
    assert_eq!(log.totals().refused, 2);
}

#[tokio::test]
async fn the_first_tries_of_some_requests_are_refused() {
    let script = Script::new().rule(Rule::at(Moment::Request).attempt(1..=2).share(0.5).does(Fault::Refuse));
    let server = serve(script).await;
    let mut raw = Raw::h2(&server).await;
    let (mut stream, mut refused) = (1, 0);
    for n in 0..40 {
        let id = format!("r{n}");
        let mut refusals = 0;
        loop {
            raw.get(stream, &id).await;
            let answer = raw.read().await.unwrap();
            stream += 2;
            if answer.kind == HEADERS {
                raw.read().await.unwrap();
                break;
            }
            assert_eq!(answer, rst_stream(stream - 2, 7));
            refusals += 1;
        }
        assert!(refusals == 0 || refusals == 2, "{refusals}");
        refused += refusals / 2;
        assert_eq!((server.log().heads(&id), server.log().processed(&id)), (refusals + 1, 1));
    }
    assert!((10..=30).contains(&refused), "{refused}");
}

#[tokio::test]
async fn a_stream_that_both_sides_ended_or_either_reset_counts_no_longer_towards_the_cap() {
    // The server is still busy with each when the next one comes.
    let busy = Rule::at(Moment::Answered).does(Fault::Wait(LONG.as_millis() as u64));
    let held = Rule::at(Moment::Cancelled).does(Fault::Wait(LONG.as_millis() as u64));
    let reset = Rule::at(Moment::Request).request_id("reset").does(Fault::ResetStream(ErrorCode::CANCEL));
    let holding = Rule::at(Moment::Request).request_id("held").does(Fault::Hold);
    let reset = reset.does(Fault::Wait(LONG.as_millis() as u64));
    let script = Script::new().max_concurrent_streams(1).rule(busy).rule(held).rule(reset).rule(holding);
    let server = serve(script).await;
    let mut raw = Raw::h2(&server).await;
    raw.get(1, "ended by both").await;
    raw.expect_ok(1).await;
    raw.get(3, "reset").await;
    raw.expect(frame(RST_STREAM, 0, 3, [0, 0, 0, 8])).await;
    raw.get(5, "held").await;
    raw.send(frame(RST_STREAM, 0, 5, [0, 0, 0, 8])).await;
    // The answer is whole before the request is: open until the server resets it.
    raw.post(7, "early").await;
    raw.data(7, "all of it", true).await;
    raw.expect_ok(7).await;
    let log = server.log();
    assert_eq!(log.totals().violations, 0, "{:#?}", log.events());
    let record = log.connections().remove(0);
    assert_eq!((record.most_open, record.open), (1, 0));

    // One that is open does count.
    raw.get(9, "held").await;
    raw.get(11, "too many").await;
    raw.expect(frame(RST_STREAM, 0, 11, [0, 0, 0, 7])).await;
    assert_eq!(log.totals().violations, 1);
    let record = log.connections().remove(0);
    assert_eq!((record.most_open, record.open), (2, 1), "one that was refused is not open");
}

#[tokio::test]
async fn the_stream_cap_is_lowered_mid_flight_and_minded() {
    let script =
        Script::new().service_time_ms(60_000).rule(Rule::at(Moment::Request).nth(2).does(Settings::streams(1)));
    let server = serve(script).await;
    let mut raw = Raw::h2(&server).await;
    raw.get(1, "").await;
    raw.get(3, "").await;
    raw.expect(frame(SETTINGS, 0, 0, [0, 3, 0, 0, 0, 1])).await;
    // Not acknowledged yet: the old cap holds.
    raw.get(5, "").await;
    raw.send(frame(SETTINGS, ACK, 0, [])).await;
    raw.get(7, "").await;
    raw.expect(rst_stream(7, 7)).await;
    assert_eq!(server.log().totals().violations, 1);
    assert_eq!(server.log().connections()[0].most_open, 4);
}

#[tokio::test]
async fn uploads_starve_without_window_updates() {
    let script = Script::new()
        .settings(Settings { initial_window_size: Some(10), ..Settings::none() })
        .rule(Rule::at(Moment::Connect).does(Fault::Withhold(vec![Withhold::WindowUpdates])));
    let server = serve(script).await;
    let mut raw = Raw::h2(&server).await;
    raw.post(1, "a").await;
    raw.data(1, "0123456789", false).await;
    raw.send(frame(PING, 0, 0, "12345678")).await;
    let mut seen = Vec::new();
    while let Some(frame) = raw.read_any().await {
        seen.push(frame.kind);
        if frame.kind == PING {
            break;
        }
    }
    assert!(!seen.contains(&WINDOW_UPDATE), "{seen:?}");
    assert_eq!(server.log().tries("a")[0].body_bytes, 10);
}

#[tokio::test]
async fn window_updates_follow_what_was_read() {
    let script = Script::new().settings(Settings { initial_window_size: Some(10), ..Settings::none() });
    let server = serve(script).await;
    let mut raw = Raw::h2(&server).await;
    raw.post(1, "a").await;
    raw.data(1, "0123456789", false).await;
    raw.expect(frame(WINDOW_UPDATE, 0, 1, [0, 0, 0, 10])).await;
}

#[tokio::test]
async fn pings_and_settings_can_stay_unacknowledged() {
    let what = vec![Withhold::PingAcks, Withhold::SettingsAcks];
    let server = serve(Script::new().rule(Rule::at(Moment::Connect).does(Fault::Withhold(what)))).await;
    let mut raw = Raw::h2(&server).await;
    raw.send(frame(PING, 0, 0, "12345678")).await;
    raw.get(1, "").await;
    let mut kinds = Vec::new();
    while kinds.last() != Some(&DATA) {
        kinds.push(raw.read_any().await.unwrap().kind);
    }
    assert_eq!(kinds, [WINDOW_UPDATE, HEADERS, DATA]);
}

#[tokio::test]
async fn frames_are_tiny_padded_and_empty() {
    let tiny = Answer { frame_size: Some(1), ..Answer::default() };
    let padded = Answer { padding: Some(3), ..Answer::default() };
    let empty = Answer { empty_data_every: Some(1), ..Answer::default().text("abc") };
    let script = Script::new()
        .rule(Rule::at(Moment::Processed).nth(1).does(Fault::answer(tiny)))
        .rule(Rule::at(Moment::Processed).nth(2).does(Fault::answer(padded)))
        .rule(Rule::at(Moment::Processed).nth(3).does(Fault::answer(empty)));
    let server = serve(script).await;
    let mut raw = Raw::h2(&server).await;
    raw.get(1, "").await;
    raw.read().await;
    raw.expect(frame(DATA, 0, 1, "o")).await;
    raw.expect(frame(DATA, END_STREAM, 1, "k")).await;
    raw.get(3, "").await;
    raw.read().await;
    raw.expect(frame(DATA, END_STREAM | 8, 3, b"\x03ok\0\0\0")).await;
    raw.get(5, "").await;
    raw.read().await;
    for (data, flags) in [("a", 0), ("", 0), ("b", 0), ("", 0), ("c", END_STREAM)] {
        raw.expect(frame(DATA, flags, 5, data)).await;
    }
}

#[tokio::test]
async fn an_answer_minds_the_clients_windows_unless_told() {
    let script = |ignore_windows| Script::new().answer(Answer { ignore_windows, ..Answer::default().size(100_000) });
    let server = serve(script(false)).await;
    let mut raw = Raw::h2(&server).await;
    raw.get(1, "").await;
    raw.read().await;
    let mut received = 0;
    while received < 65_535 {
        received += raw.read().await.unwrap().payload.len();
    }
    assert_eq!(received, 65_535);
    raw.expect_silence(Duration::from_millis(30)).await;
    raw.send(frame(WINDOW_UPDATE, 0, 0, [0, 1, 0, 0])).await;
    raw.send(frame(WINDOW_UPDATE, 0, 1, [0, 1, 0, 0])).await;
    while received < 100_000 {
        received += raw.read().await.unwrap().payload.len();
    }

    let server = serve(script(true)).await;
    let mut raw = Raw::h2(&server).await;
    raw.get(1, "").await;
    raw.read().await;
    let mut received = 0;
    while received < 100_000 {
        received += raw.read().await.unwrap().payload.len();
    }
}

#[tokio::test]
async fn late_frames_come_for_closed_streams() {
    let server = serve(Script::new().rule(Rule::at(Moment::Answered).does(Fault::LateFrames))).await;
    let mut raw = Raw::h2(&server).await;
    raw.get(1, "").await;
    raw.expect_ok(1).await;
    raw.expect(frame(WINDOW_UPDATE, 0, 1, [0, 0, 0, 1])).await;
    raw.expect(frame(HEADERS, END_HEADERS, 1, [0x88])).await;
    raw.expect(frame(DATA, END_STREAM, 1, "late")).await;
    raw.expect(rst_stream(1, 8)).await;
}

#[tokio::test]
async fn what_follows_a_refusal_in_its_rule_happens_too() {
    let rule =
        Rule::at(Moment::Request).does(Fault::Refuse).does(Fault::Wait(5)).does(Fault::LateFrames).does(Fault::Close);
    let server = serve(Script::new().rule(rule)).await;
    let mut raw = Raw::h2(&server).await;
    raw.get(1, "a").await;
    raw.expect(rst_stream(1, 7)).await;
    raw.expect(frame(WINDOW_UPDATE, 0, 1, [0, 0, 0, 1])).await;
    raw.expect(frame(HEADERS, END_HEADERS, 1, [0x88])).await;
    raw.expect(frame(DATA, END_STREAM, 1, "late")).await;
    raw.expect(rst_stream(1, 8)).await;
    assert_eq!(raw.rest().await, (vec![], End::Fin));
    assert_eq!(server.log().processed("a"), 0);
}

#[tokio::test]
async fn a_cancelled_stream_is_answered_late() {
    let answer = Answer { even_if_cancelled: true, ..Answer::default() };
    let server = serve(Script::new().service_time_ms(60_000).answer(answer)).await;
    let mut raw = Raw::h2(&server).await;
    raw.get(1, "a").await;
    raw.send(rst_stream(1, 8)).await;
    raw.expect_ok(1).await;
    let a_try = server.log().tries("a").remove(0);
    assert_eq!((a_try.processed, a_try.reset_received), (true, Some(ErrorCode::CANCEL)));
}

#[tokio::test]
async fn an_answer_can_be_withheld() {
    let server = serve(Script::new().rule(Rule::at(Moment::Processed).nth(1).does(Fault::Hold))).await;
    let mut raw = Raw::h2(&server).await;
    raw.get(1, "a").await;
    raw.get(3, "b").await;
    raw.expect_ok(3).await;
    assert_eq!((server.log().processed("a"), server.log().totals().answered), (1, 1));
}

#[tokio::test]
async fn an_early_answer_ends_the_upload() {
    let answer = Answer::status(503).header("retry-after", "1").text("later");
    let server = serve(at_request(Fault::answer(answer))).await;
    let mut raw = Raw::h2(&server).await;
    raw.post(1, "a").await;
    let headers = raw.read().await.unwrap();
    assert_eq!(headers.payload[..6], [0x08, 0x03, b'5', b'0', b'3', 0x0f]);
    raw.expect(frame(DATA, END_STREAM, 1, "later")).await;
    raw.expect(rst_stream(1, 0)).await;
    assert_eq!((server.log().processed("a"), server.log().tries("a")[0].status), (0, Some(503)));
}

#[tokio::test]
async fn frames_are_made_by_hand() {
    let raw_frame = RawFrame {
        kind: 0xfa,
        flags: 0x5a,
        stream: FrameStream::Id(0x8000_0009),
        payload: "xyz".into(),
        length: Some(4),
    };
    let server =
        serve(at_request(Fault::Frame(raw_frame)).rule(Rule::at(Moment::Request).does(Fault::Send("!".into())))).await;
    let mut raw = Raw::h2(&server).await;
    raw.get(1, "").await;
    raw.expect(frame(0xfa, 0x5a, 0x8000_0009, "xyz!")).await;
}

#[tokio::test]
async fn http2_is_violated() {
    let idle = 0x7fff_ffff;
    let expected = [
        (ProtocolError::DataOnIdleStream, vec![frame(DATA, 0, idle, "x")]),
        (ProtocolError::DataOnStreamZero, vec![frame(DATA, 0, 0, "x")]),
        (ProtocolError::ResetOfIdleStream, vec![rst_stream(idle, 8)]),
        (ProtocolError::PingOfWrongLength, vec![frame(PING, 0, 0, [0; 7])]),
        (ProtocolError::BadHpack, vec![frame(HEADERS, 5, 1, [0xff, 0xff, 0x7f])]),
        (ProtocolError::LoneContinuation, vec![frame(CONTINUATION, 4, 1, [0x88])]),
        (ProtocolError::InterruptedHeaders, vec![frame(HEADERS, 0, 1, [0x88]), frame(PING, 0, 0, [0; 8])]),
        (ProtocolError::PushPromise, vec![frame(PUSH_PROMISE, 4, 1, [0, 0, 0, 2, 0x82, 0x86, 0x84, 1, 1, b'a'])]),
        (ProtocolError::BadSetting, vec![frame(SETTINGS, 0, 0, [0, 5, 0, 0, 0, 1])]),
        (ProtocolError::UpperCaseHeader, vec![frame(HEADERS, 5, 1, [0x88, 0, 1, b'X', 1, b'y'])]),
    ];
    for (error, frames) in expected {
        let server = serve(at_request(Fault::ProtocolError(error))).await;
        let mut raw = Raw::h2(&server).await;
        raw.get(1, "").await;
        for frame in frames {
            assert_eq!(raw.read().await, Some(frame), "{error:?}");
        }
    }
    let bytes = [
        (ProtocolError::FrameTooLarge, vec![0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 1]),
        (ProtocolError::WindowUpdateOfZero, vec![0, 0, 4, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
        (ProtocolError::WindowOverflow, vec![0, 0, 4, 8, 0, 0, 0, 0, 0, 0x7f, 0xff, 0xff, 0xff]),
        (ProtocolError::SettingsAckWithPayload, vec![0, 0, 6, 4, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
        (ProtocolError::Http1Text, b"HTTP/1.1 400 Bad Request\r\n".to_vec()),
    ];
    for (error, bytes) in bytes {
        let server = serve(at_request(Fault::ProtocolError(error))).await;
        let mut raw = Raw::h2(&server).await;
        // The acknowledgement of SETTINGS and the connection's window.
        raw.exactly(22).await;
        raw.get(1, "").await;
        assert_eq!(raw.exactly(bytes.len()).await, bytes, "{error:?}");
    }
}

#[tokio::test]
async fn a_client_that_breaks_http2_is_told_and_noted() {
    let server = serve(Script::new()).await;
    let mut raw = Raw::h2(&server).await;
    raw.data(1, "x", false).await;
    raw.expect(goaway(0, 1, "DATA on stream 1, which is not open")).await;
    assert_eq!(raw.rest().await, (vec![], End::Fin));
    assert_eq!(server.log().totals().violations, 1);
}

#[tokio::test]
async fn a_client_that_overruns_a_window_is_told_and_noted() {
    let script = Script::new()
        .settings(Settings { initial_window_size: Some(10), ..Settings::none() })
        .rule(Rule::at(Moment::Connect).does(Fault::Withhold(vec![Withhold::WindowUpdates])));
    let server = serve(script).await;
    let mut raw = Raw::h2(&server).await;
    // Once this is answered, the acknowledgement of SETTINGS was read.
    raw.send(frame(PING, 0, 0, "12345678")).await;
    raw.expect(frame(PING, ACK, 0, "12345678")).await;
    raw.post(1, "a").await;
    raw.data(1, "0123456789", false).await;
    raw.data(1, "x", false).await;
    raw.expect(goaway(1, 3, "DATA beyond the window of stream 1")).await;
    assert_eq!(server.log().totals().violations, 1);
}

#[tokio::test]
async fn heads_in_pieces_padding_and_trailers_are_read() {
    let server = serve(Script::new()).await;
    let mut raw = Raw::h2(&server).await;
    let block = block("POST", "/pieces", "a");
    let (first, rest) = block.split_at(10);
    raw.send(frame(HEADERS, 0, 1, first)).await;
    raw.send(frame(CONTINUATION, END_HEADERS, 1, rest)).await;
    raw.send(frame(DATA, 8, 1, b"\x02hello\0\0")).await;
    raw.send(frame(HEADERS, END_STREAM | END_HEADERS, 1, b"\0\x01a\x01b")).await;
    raw.expect_ok(1).await;
    let a_try = server.log().tries("a").remove(0);
    assert_eq!((a_try.path.as_str(), a_try.body_bytes, a_try.complete), ("/pieces", 5, true));
}

#[tokio::test]
async fn interim_answers_trailers_and_pauses() {
    let answer = Answer {
        interim: vec![103],
        trailers: [("a".to_owned(), "b".to_owned())].into(),
        frame_size: Some(1),
        pause_ms: 20,
        ..Answer::default()
    };
    let server = serve(Script::new().answer(answer)).await;
    let mut raw = Raw::h2(&server).await;
    let began = std::time::Instant::now();
    raw.get(1, "").await;
    raw.expect(frame(HEADERS, END_HEADERS, 1, b"\x08\x03103")).await;
    assert_eq!(raw.read().await.unwrap().payload[0], 0x88);
    raw.expect(frame(DATA, 0, 1, "o")).await;
    raw.expect(frame(DATA, 0, 1, "k")).await;
    raw.expect(frame(HEADERS, END_STREAM | END_HEADERS, 1, b"\0\x01a\x01b")).await;
    assert!(began.elapsed() >= Duration::from_millis(20));
    raw.send(frame(HEADERS, END_STREAM | END_HEADERS, 3, block("HEAD", "/", ""))).await;
    raw.read().await.unwrap();
    assert_eq!(raw.read().await.unwrap().payload[0], 0x88);
    raw.expect(frame(HEADERS, END_STREAM | END_HEADERS, 3, b"\0\x01a\x01b")).await;
}

#[tokio::test]
async fn goaway_and_close_leave_what_is_open_unanswered() {
    let script = Script::new()
        .service_time_ms(60_000)
        .rule(Rule::at(Moment::Request).nth(2).does(Fault::goaway().last(LastId::Previous).then(Then::Close)));
    let server = serve(script).await;
    let mut raw = Raw::h2(&server).await;
    raw.get(1, "a").await;
    raw.get(3, "b").await;
    raw.expect(goaway(1, 0, "")).await;
    assert_eq!(raw.rest().await, (vec![], End::Fin));
    assert_eq!((server.log().processed("a"), server.log().processed("b")), (1, 0));
}

#[tokio::test]
async fn rules_choose_by_connection_in_rounds() {
    let script = Script::new()
        .rule(
            Rule::at(Moment::Request).connection(Number::round([1, 2], 4)).does(Fault::goaway().last(LastId::Previous)),
        )
        .rule(Rule::at(Moment::Connect).connection(Number::round([3], 4)).does(Fault::Reset))
        .rule(Rule::at(Moment::Received).connection(Number::round([4], 4)).does(Fault::answer(Answer::status(503))))
        .rule(Rule::at(Moment::Answered).connection(Number::round([4], 4)).does(Fault::Close));
    let server = serve(script).await;
    let mut seen = Vec::new();
    for _ in 0..8 {
        let mut raw = Raw::connect(server.addr()).await;
        let begun = bytes(&frame(HEADERS, 5, 1, block("GET", "/", "a")));
        let preface = [&b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0"[..], &begun].concat();
        // A connection that was reset at once may refuse even this.
        let _ = tokio::io::AsyncWriteExt::write_all(&mut raw.socket, &preface).await;
        let (answer, end) = raw.rest().await;
        let goaway = answer.windows(9).any(|head| head == [0, 0, 8, 7, 0, 0, 0, 0, 0]);
        let status = answer.windows(5).any(|text| text == [8, 3, b'5', b'0', b'3']);
        seen.push(match (goaway, status, end) {
            (true, false, End::Fin) => "goaway",
            (false, true, End::Fin) => "503",
            (false, false, End::Reset) => "reset",
            other => panic!("{other:?}"),
        });
    }
    assert_eq!(seen, ["goaway", "goaway", "reset", "503", "goaway", "goaway", "reset", "503"]);
    assert_eq!((server.log().heads("a"), server.log().processed("a")), (6, 0));
}

/// A request whose header block begins with these bytes.
async fn get_with(raw: &mut Raw, stream: u32, begin: &[u8]) {
    let block = [begin, &block("GET", "/", "")[..]].concat();
    raw.send(frame(HEADERS, END_STREAM | END_HEADERS, stream, block)).await;
}

/// RFC 7541, section 4.2, and RFC 9113, section 6.5.3: a smaller table is one from when the client has acknowledged it.
#[tokio::test]
async fn a_smaller_header_table_is_one_when_it_was_acknowledged() {
    const METHOD: &[u8] = &[0x42, 3, b'P', b'U', b'T'];
    const FROM_TABLE: &[u8] = &[0xbe];
    let none = Settings { header_table_size: Some(0), ..Settings::none() };
    let server = serve(Script::new().settings(none)).await;
    let mut raw = Raw::connect(server.addr()).await;
    raw.preface().await;
    let settings = raw.read().await.unwrap();
    assert_eq!((settings.kind, &settings.payload[..]), (SETTINGS, &[0, 1, 0, 0, 0, 0][..]));
    let put =
        |begin: &[u8]| [begin, &block("GET", "/", "")[..1], &block("GET", "/", "")[block_method_end()..]].concat();
    raw.send(frame(HEADERS, END_STREAM | END_HEADERS, 1, put(METHOD))).await;
    raw.expect_ok(1).await;
    raw.send(frame(HEADERS, END_STREAM | END_HEADERS, 3, put(FROM_TABLE))).await;
    raw.expect_ok(3).await;
    assert_eq!(server.log().all_tries().iter().map(|a_try| a_try.method.as_str()).collect::<Vec<_>>(), ["PUT", "PUT"]);
    raw.send(frame(SETTINGS, ACK, 0, [])).await;
    get_with(&mut raw, 5, &[0x20]).await;
    raw.expect_ok(5).await;
    raw.send(frame(HEADERS, END_STREAM | END_HEADERS, 7, put(FROM_TABLE))).await;
    let end = raw.read().await.unwrap();
    assert_eq!((end.kind, end.payload[7]), (GOAWAY, 9), "{end:?}");
}

/// Where the literal method of [`block`] ends.
fn block_method_end() -> usize {
    1 + 1 + 1 + ":method".len() + 1 + "GET".len()
}
