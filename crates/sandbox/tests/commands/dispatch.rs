//! A start whose answer was lost: never made again, and found where it can be.

use std::time::Duration;

use oncebox::{CallOptions, Command, CommandEvent, ErrorKind};

use crate::scripted::{self, Answer, Asked, End, exit, paths, processes, start, stdout, whole};

/// The tag of the one start so far; empty before it.
fn tag_of(log: &scripted::Log) -> String {
    let log = log.lock().unwrap();
    let start = log.iter().find(|asked| asked.path.ends_with("/Start"));
    start.map(|asked| asked.message["tag"].as_str().unwrap().to_owned()).unwrap_or_default()
}

/// Answers that know which tag was started with.
async fn knowing(answer: fn(&Asked, &str) -> Option<Answer>) -> (oncebox::Sandbox, scripted::Log) {
    let seen = scripted::Log::default();
    scripted::sandbox(move |asked| {
        seen.lock().unwrap().push(asked.clone());
        answer(asked, &tag_of(&seen))
    })
    .await
}

#[tokio::test]
async fn a_start_whose_answer_was_lost_is_found_by_its_tag_and_its_gap_is_told() {
    const REST: fn(&Asked, &str) -> Option<Answer> = |asked, tag| {
        Some(match asked.path.as_str() {
            // It takes a moment to show, and others run besides.
            "/process.Process/List" if asked.before == 0 => processes(&[(3, "oncebox-other")]),
            "/process.Process/List" => processes(&[(3, "oncebox-other"), (9, tag)]),
            "/process.Process/Connect" => Answer::Stream(whole(&[start(9), stdout(b"rest"), exit(4)]), End::Whole),
            _ => return None,
        })
    };
    let lost: [fn(&Asked, &str) -> Option<Answer>; 3] = [
        |asked, tag| if asked.path.ends_with("/Start") { Some(Answer::Hangup) } else { REST(asked, tag) },
        |asked, tag| {
            let cut = || Some(Answer::Stream(start(9)[..5].to_vec(), End::Cut));
            if asked.path.ends_with("/Start") { cut() } else { REST(asked, tag) }
        },
        |asked, tag| {
            let gateway = || Some(Answer::Json(502, "bad gateway".to_owned()));
            if asked.path.ends_with("/Start") { gateway() } else { REST(asked, tag) }
        },
    ];
    for answer in lost {
        let (sandbox, log) = knowing(answer).await;
        let mut command = sandbox.commands().start("true").await.unwrap();
        assert_eq!(command.pid(), 9);
        assert!(matches!(command.next().await.unwrap().unwrap(), CommandEvent::Gap(_)));
        assert_eq!(command.next().await.unwrap().unwrap(), CommandEvent::Stdout("rest".into()));
        assert!(matches!(command.next().await.unwrap().unwrap(), CommandEvent::Exit(exit) if exit.code == 4));
        assert!(command.next().await.is_none());
        assert_eq!(paths(&log), ["Start", "List", "List", "Connect"]);
    }
}

#[tokio::test]
async fn a_whole_output_that_may_have_a_gap_is_an_error_that_has_it() {
    let (sandbox, _) = knowing(|asked, tag| {
        Some(match asked.path.as_str() {
            "/process.Process/Start" => Answer::Hangup,
            "/process.Process/List" => processes(&[(9, tag)]),
            "/process.Process/Connect" => Answer::Stream(whole(&[start(9), stdout(b"rest"), exit(4)]), End::Whole),
            _ => return None,
        })
    })
    .await;
    let error = sandbox.commands().run("true").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutputLost, "{error}");
    assert!(error.may_have_been_processed());
    let output = error.output().unwrap();
    assert_eq!((output.stdout_text().as_str(), output.exit_code()), ("rest", 4));
}

#[tokio::test]
async fn a_tag_of_the_callers_stays_his_and_the_process_is_found_all_the_same() {
    let (sandbox, log) = scripted::sandbox(|asked| {
        Some(match asked.path.as_str() {
            "/process.Process/Start" => Answer::Hangup,
            // The same tag on another process: by the tag alone the wrong one would be found.
            "/process.Process/List" => processes(&[(9, "mine")]),
            _ => return None,
        })
    })
    .await;
    let error = sandbox.commands().run(Command::shell("true").tag("mine")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutcomeUnknown, "{error}");
    assert!(error.to_string().contains("ONCEBOX_COMMAND=oncebox-"), "{error}");
    let asked = log.lock().unwrap().iter().find(|asked| asked.path.ends_with("/Start")).unwrap().clone();
    assert_eq!(asked.message["tag"], "mine");
    assert!(asked.message["process"]["envs"]["ONCEBOX_COMMAND"].is_string());
    assert_eq!(
        paths(&log),
        ["Start", "List", "List", "List", "health"],
        "looked for, asked for its health, not repeated"
    );
}

#[tokio::test]
async fn a_start_into_a_black_hole_ends_with_the_limit_that_bounds_it() {
    for silent in [|| Answer::Silence, || Answer::Stream(vec![], End::Hold)] {
        let (sandbox, log) = scripted::sandbox(move |asked| asked.path.ends_with("/Start").then(silent)).await;
        let brief = sandbox.with(CallOptions::new().request_timeout(Duration::from_millis(200))).unwrap();
        let error = brief.commands().run("true").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
        assert!(error.may_have_been_processed(), "{error:?}");
        assert!(error.to_string().contains("request_timeout"), "{error}");
        assert_eq!(paths(&log), ["Start"]);
    }
}

#[tokio::test]
async fn what_was_provably_not_started_is_told_so() {
    let refused = r#"{"code":"invalid_argument","message":"cwd '/x' does not exist"}"#;
    let (sandbox, log) =
        scripted::sandbox(move |asked| asked.path.ends_with("/Start").then(|| Answer::Json(400, refused.to_owned())))
            .await;
    let error = sandbox.commands().run("true").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    assert!(!error.may_have_been_processed());
    assert_eq!(paths(&log), ["Start"]);
}

/// Its port opens only after a moment, or the sandbox is being woken: nothing was started by then.
#[tokio::test]
async fn a_start_that_was_not_delivered_is_sent_again() {
    let refused: [fn(usize) -> Option<Answer>; 2] = [
        |before| {
            let closed =
                r#"{"sandboxId":"i1","message":"The sandbox is running but port is not open","port":49983,"code":502}"#;
            (before < 2).then(|| Answer::Json(502, closed.to_owned()))
        },
        |before| (before < 2).then(|| Answer::Json(409, r#"{"code":409,"message":"sandbox is transitioning"}"#.into())),
    ];
    for refused in refused {
        let (sandbox, log) = scripted::sandbox(move |asked| {
            let started = || Answer::Stream(whole(&[start(9), stdout(b"done"), exit(0)]), End::Whole);
            asked.path.ends_with("/Start").then(|| refused(asked.before).unwrap_or_else(started))
        })
        .await;
        let output = sandbox.commands().run("true").await.unwrap();
        assert_eq!(output.stdout_text(), "done");
        assert_eq!(paths(&log), ["Start", "Start", "Start"]);
    }
}

#[tokio::test]
async fn a_stream_that_ends_as_unavailable_before_it_began_is_retried_where_retries_are_given() {
    for retries in [0, 2] {
        let (sandbox, log) = scripted::sandbox(|asked| {
            let busy = scripted::end_frame(r#"{"error":{"code":"unavailable","message":"busy"}}"#);
            let started = || Answer::Stream(whole(&[start(9), exit(0)]), End::Whole);
            let first = || Answer::Stream(busy.clone(), End::Whole);
            asked.path.ends_with("/Start").then(|| if asked.before == 0 { first() } else { started() })
        })
        .await;
        let sandbox = sandbox.with(CallOptions::new().retries(retries)).unwrap();
        let result = sandbox.commands().run("true").await;
        let starts = paths(&log).iter().filter(|path| *path == "Start").count();
        if retries == 0 {
            let error = result.unwrap_err();
            assert_eq!(starts, 1);
            assert!(error.to_string().contains("unavailable: busy; the sandbox is healthy"), "{error}");
        } else {
            assert_eq!((result.unwrap().exit_code(), starts), (0, 2));
        }
    }
}
