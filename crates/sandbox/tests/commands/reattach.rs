//! Streams that are cut while the command runs.

use std::time::{Duration, Instant};

use oncebox::transport::policy::{Outcome, Purpose};
use oncebox::{CallOptions, Command, CommandEvent, Error, ErrorKind, StreamOptions};

use crate::scripted::{self, Answer, Asked, End, end_frame, exit, frame, paths, processes, start, stdout, whole};

/// A start that is cut after "a", and what comes of attaching again.
async fn cut_then(
    again: impl Fn(&Asked) -> Option<Answer> + Send + Sync + 'static,
) -> (oncebox::Sandbox, scripted::Log) {
    scripted::sandbox(move |asked| match asked.path.as_str() {
        "/process.Process/Start" => Some(Answer::Stream([start(7), stdout(b"a")].concat(), End::Cut)),
        _ => again(asked),
    })
    .await
}

async fn events(mut command: oncebox::CommandHandle) -> Vec<Result<CommandEvent, Error>> {
    let mut events = Vec::new();
    while let Some(event) = command.next().await {
        events.push(event);
    }
    events
}

fn shape(events: &[Result<CommandEvent, Error>]) -> Vec<String> {
    let of = |event: &Result<CommandEvent, Error>| match event {
        Ok(CommandEvent::Stdout(bytes)) => String::from_utf8_lossy(bytes).into_owned(),
        Ok(CommandEvent::Gap(_)) => "gap".to_owned(),
        Ok(CommandEvent::Exit(exit)) => exit.status.clone(),
        Ok(other) => format!("{other:?}"),
        Err(error) => format!("{:?}", error.kind()),
    };
    events.iter().map(of).collect()
}

#[tokio::test]
async fn a_cut_stream_is_attached_to_again_and_the_gap_is_told() {
    let (sandbox, log) = cut_then(|asked| {
        (asked.path == "/process.Process/Connect").then(|| match asked.before {
            0 => Answer::Hangup,
            1 => Answer::Stream([start(7), stdout(b"b")].concat(), End::Whole),
            _ => Answer::Stream(whole(&[start(7), exit(3)]), End::Whole),
        })
    })
    .await;
    let command = sandbox.commands().start("true").await.unwrap();
    assert_eq!(shape(&events(command).await), ["a", "gap", "b", "gap", "exit status 3"]);
    let connect = log.lock().unwrap().iter().find(|asked| asked.path.ends_with("/Connect")).unwrap().clone();
    assert_eq!(connect.message["process"]["pid"], 7, "it is chosen by its process id");
    assert!(connect.head.contains("keepalive-ping-interval: 50\r\n"), "{}", connect.head);
    assert!(!connect.head.contains("connect-timeout-ms"), "{}", connect.head);
}

#[tokio::test]
async fn nothing_comes_of_five_reattachments_in_a_row_and_the_error_says_what_is_left() {
    let (sandbox, log) = cut_then(|asked| {
        // It can be attached to each time, which alone is no progress.
        asked.path.ends_with("/Connect").then(|| Answer::Stream(start(7), End::Cut))
    })
    .await;
    let command = sandbox.commands().start("true").await.unwrap();
    let events = events(command).await;
    assert_eq!(shape(&events), ["a", "gap", "gap", "gap", "gap", "gap", "ConnectionLost"]);
    let error = events.last().unwrap().as_ref().unwrap_err();
    assert!(error.may_have_been_processed());
    assert!(error.to_string().contains("process 7") && error.to_string().contains("the sandbox is healthy"), "{error}");
    assert_eq!(paths(&log).iter().filter(|path| *path == "Connect").count(), 5);
    // All of it is one history: the start, each reattachment with a look at whose process it is, and the probe.
    let purposes: Vec<_> = error.attempts().iter().map(|record| record.purpose).collect();
    assert_eq!(purposes, [[Purpose::Call; 11].as_slice(), &[Purpose::LookUp]].concat(), "{error}");
    assert_eq!(paths(&log).len(), purposes.len(), "{error}");
    let times: Vec<_> = error.attempts().iter().map(|record| record.started).collect();
    assert!(times.is_sorted() && times.last() > times.first(), "{error}");
    assert!(matches!(error.outcome(), Some(Outcome::Responded(answer)) if answer.status == 200), "{error}");
}

#[tokio::test]
async fn output_resets_the_count_of_reattachments() {
    let (sandbox, _) = cut_then(|asked| {
        asked.path.ends_with("/Connect").then(|| match asked.before {
            20 => Answer::Stream(whole(&[start(7), exit(0)]), End::Whole),
            n if n % 2 == 0 => Answer::Stream(start(7), End::Cut),
            _ => Answer::Stream([start(7), stdout(b".")].concat(), End::Cut),
        })
    })
    .await;
    let command = Command::shell("true").stream(StreamOptions::new().reattachments(2));
    let events = events(sandbox.commands().start(command).await.unwrap()).await;
    assert_eq!(shape(&events).iter().filter(|event| *event == ".").count(), 10);
    assert_eq!(shape(&events).last().unwrap(), "exit status 0");
}

#[tokio::test]
async fn another_process_of_the_same_number_is_not_taken_for_it() {
    let (sandbox, _) = cut_then(|asked| match asked.path.as_str() {
        "/process.Process/Connect" => Some(Answer::Stream([start(7), stdout(b"not its output")].concat(), End::Hold)),
        "/process.Process/List" => Some(processes(&[(7, "oncebox-of-another-start")])),
        _ => None,
    })
    .await;
    let command = sandbox.commands().start("true").await.unwrap();
    assert_eq!(shape(&events(command).await), ["a", "CommandLost"]);
}

#[tokio::test]
async fn one_probe_tells_what_a_lost_connection_was() {
    let gone = r#"{"sandboxId":"i1","message":"The sandbox was not found","code":502}"#;
    let detail = |state: &str| {
        format!(
            r#"{{"templateID":"base","sandboxID":"i1","clientID":"c","envdVersion":"0.6.13","state":"{state}",
                "startedAt":"2026-01-01T00:00:00Z","endAt":"2026-01-01T00:05:00Z","cpuCount":1,"memoryMB":1,"diskSizeMB":1}}"#
        )
    };
    type Case = (&'static str, Option<(u16, &'static str)>, Option<String>, ErrorKind, &'static str);
    let cases: [Case; 5] = [
        ("healthy", None, None, ErrorKind::ConnectionLost, "the sandbox is healthy"),
        ("paused", Some((502, gone)), Some(detail("paused")), ErrorKind::SandboxNotRunning, "it is paused"),
        ("ended", Some((502, gone)), None, ErrorKind::SandboxNotRunning, "knows no such sandbox"),
        ("odd", Some((502, gone)), Some(detail("running")), ErrorKind::SandboxNotRunning, "it is running, until 2026"),
        ("hung", Some((503, "{}")), None, ErrorKind::SandboxUnreachable, "did not answer: the server answered 503"),
    ];
    for (case, health, control, kind, words) in cases {
        let (sandbox, log) = cut_then(move |asked| match asked.path.as_str() {
            "/process.Process/Connect" => Some(Answer::Hangup),
            "/health" => health.map(|(status, body)| Answer::Json(status, body.to_owned())),
            "/sandboxes/i1" => control.clone().map(|body| Answer::Json(200, body)),
            _ => None,
        })
        .await;
        let command = Command::shell("true").stream(StreamOptions::new().reattachments(1));
        let events = events(sandbox.commands().start(command).await.unwrap()).await;
        let error = events.last().unwrap().as_ref().unwrap_err();
        assert_eq!(error.kind(), kind, "{case}: {error}");
        assert!(error.to_string().contains(words), "{case}: {error}");
        assert!(error.may_have_been_processed(), "{case}");
        assert_eq!(paths(&log).iter().filter(|path| *path == "health").count(), 1, "{case}: one probe");
    }
}

#[tokio::test]
async fn a_lost_answer_of_a_single_call_is_probed_too_and_stays_unknown() {
    let (sandbox, log) = scripted::sandbox(|asked| asked.path.ends_with("/SendInput").then_some(Answer::Hangup)).await;
    let error = sandbox.commands().send_stdin(7, "x").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutcomeUnknown, "{error}");
    assert!(error.to_string().contains("the sandbox is healthy"), "{error}");
    assert_eq!(paths(&log), ["SendInput", "health"]);
}

/// The socket stays open, and nothing comes on it any more: the keepalives that are missing tell.
#[tokio::test]
async fn a_connection_that_is_silent_is_dead_and_a_command_that_is_silent_is_not() {
    let options = StreamOptions::new().keepalive(Duration::from_secs(1)).silence(Duration::from_millis(1100));
    let (sandbox, log) = scripted::sandbox(|asked| match asked.path.as_str() {
        "/process.Process/Start" => Some(Answer::Stream([start(7), stdout(b"a")].concat(), End::Hold)),
        "/process.Process/Connect" => Some(Answer::Stream(whole(&[start(7), exit(0)]), End::Whole)),
        _ => None,
    })
    .await;
    let command = Command::shell("true").stream(options);
    let mut command = sandbox.commands().start(command).await.unwrap();
    let mut gap = None;
    let mut seen = Vec::new();
    while let Some(event) = command.next().await {
        match event.unwrap() {
            CommandEvent::Gap(how) => gap = Some(how),
            other => seen.push(other),
        }
    }
    assert_eq!(gap.unwrap(), "nothing came, not even a keepalive, for 1.1s (silence)");
    assert!(matches!(seen.last(), Some(CommandEvent::Exit(exit)) if exit.code == 0));
    let asked = log.lock().unwrap().iter().find(|asked| asked.path.ends_with("/Start")).unwrap().clone();
    assert!(asked.head.contains("keepalive-ping-interval: 1\r\n"), "{}", asked.head);
}

#[tokio::test]
async fn a_caller_who_looks_away_again_and_again_does_not_keep_a_stream_from_being_attached_to() {
    let (sandbox, _) = cut_then(|asked| {
        asked.path.ends_with("/Connect").then(|| match asked.before {
            0..3 => Answer::Hangup,
            _ => Answer::Stream(whole(&[start(7), exit(0)]), End::Whole),
        })
    })
    .await;
    let mut command = sandbox.commands().start("true").await.unwrap();
    let began = Instant::now();
    let exit = loop {
        match tokio::time::timeout(Duration::from_millis(5), command.next()).await {
            Ok(Some(Ok(CommandEvent::Exit(exit)))) => break exit,
            Ok(Some(Err(error))) => panic!("{error}"),
            Ok(None) => panic!("no exit"),
            _ => assert!(began.elapsed() < Duration::from_secs(60)),
        }
    };
    assert_eq!(exit.code, 0);
}

#[tokio::test]
async fn a_character_that_is_split_over_frames_comes_out_whole() {
    let smile = "😀".as_bytes();
    let frames: Vec<Vec<u8>> = smile.iter().map(|byte| stdout(&[*byte])).collect();
    let stream = whole(&[vec![start(7)], frames, vec![exit(0)]].concat());
    let (sandbox, _) = scripted::sandbox(move |asked| {
        asked.path.ends_with("/Start").then(|| Answer::Stream(stream.clone(), End::Whole))
    })
    .await;
    let mut decoder = oncebox::Utf8Decoder::new();
    let mut pieces = Vec::new();
    let see = |event: &CommandEvent| {
        if let CommandEvent::Stdout(bytes) = event {
            pieces.push(decoder.push(bytes));
        }
    };
    let output = sandbox.commands().run_with("true", see).await.unwrap();
    assert_eq!((output.stdout_text().as_str(), pieces), ("😀", vec!["".into(), "".into(), "".into(), "😀".to_owned()]));
}

#[tokio::test]
async fn a_deadline_that_the_server_tells_is_the_commands_timeout_and_named() {
    let late = end_frame(r#"{"error":{"code":"deadline_exceeded","message":"context deadline exceeded"}}"#);
    let stream = [start(7), late].concat();
    let (sandbox, log) = scripted::sandbox(move |asked| {
        asked.path.ends_with("/Start").then(|| Answer::Stream(stream.clone(), End::Whole))
    })
    .await;
    let error = sandbox.commands().run(Command::shell("x").timeout(Duration::from_secs(2))).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
    assert!(error.to_string().contains("its timeout of 2s (Command::timeout"), "{error}");
    assert!(log.lock().unwrap().iter().any(|asked| asked.head.contains("connect-timeout-ms: 2000\r\n")));
    let none = sandbox.commands().run(Command::shell("x").timeout(Duration::ZERO)).await.unwrap_err();
    assert_ne!(none.to_string(), error.to_string());
    let last = log.lock().unwrap().iter().rfind(|asked| asked.path.ends_with("/Start")).unwrap().clone();
    assert!(!last.head.contains("connect-timeout-ms"), "zero is none: {}", last.head);
}

#[tokio::test]
async fn a_stream_that_somebody_on_the_way_ended_is_attached_to_again() {
    for code in ["unavailable", "canceled", "internal"] {
        let end = end_frame(&format!(r#"{{"error":{{"code":"{code}","message":"upstream went away"}}}}"#));
        let stream = [start(7), frame(r#"{"event":{"keepalive":{}}}"#), end].concat();
        let (sandbox, _) = scripted::sandbox(move |asked| match asked.path.as_str() {
            "/process.Process/Start" => Some(Answer::Stream(stream.clone(), End::Whole)),
            "/process.Process/Connect" => Some(Answer::Stream(whole(&[start(7), exit(5)]), End::Whole)),
            _ => None,
        })
        .await;
        let command = sandbox.commands().start("true").await.unwrap();
        assert_eq!(shape(&events(command).await), ["gap", "exit status 5"], "{code}");
    }
}

#[tokio::test]
async fn a_call_whose_options_allow_no_probe_still_ends() {
    let (sandbox, _) = cut_then(|asked| match asked.path.as_str() {
        "/process.Process/Connect" => Some(Answer::Hangup),
        "/health" => Some(Answer::Hangup),
        _ => None,
    })
    .await;
    let sandbox = sandbox.with(CallOptions::new().retries(0).connection_retries(0)).unwrap();
    let command = Command::shell("true").stream(StreamOptions::new().reattachments(0));
    let error = sandbox.commands().run(command).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::SandboxUnreachable, "{error}");
}
