//! Very many commands at a time, over HTTP/2 connections that a scripted envd retires.

use std::time::Duration;

use oncebox::{Client, CommandEvent, HttpVersion, Sandbox};
use oncebox_faults::{Answer, Fault, Framing, Moment, Rule, Script, Settings};
use tokio::task::JoinSet;

/// Events of each stream: its start, its output, its end, and the end of the stream.
const EVENTS: u64 = 13;

/// The length of one event as JSON. Shorter ones are filled up, so that each is one DATA frame; and it is less than 128, so
/// that its length is one byte of text.
const EVENT: usize = 96;

/// What each command writes: one word an event.
fn output() -> String {
    (0..EVENTS - 3).map(|n| format!("{n};")).collect()
}

/// A control plane and an envd whose every command goes on for this long, on connections of so many streams, each of which is
/// retired once it has carried that many.
pub fn script(streams: u32, time: Duration) -> Script {
    use base64::Engine;
    let encode = |text: String| base64::engine::general_purpose::STANDARD.encode(text);
    let mut events = vec![r#"{"event":{"start":{"pid":7}}}"#.to_owned()];
    events.extend(
        (0..EVENTS - 3).map(|n| format!(r#"{{"event":{{"data":{{"stdout":"{}"}}}}}}"#, encode(format!("{n};")))),
    );
    events.push(r#"{"event":{"end":{"exitCode":3,"exited":true,"status":"exit status 3"}}}"#.to_owned());
    events.push("{}".to_owned());
    let last = events.len() - 1;
    let frame = |(number, event): (usize, &String)| {
        let flags = if number == last { '\u{2}' } else { '\0' };
        format!("{flags}\0\0\0{}{event:EVENT$}", EVENT as u8 as char)
    };
    let stream = Answer {
        frame_size: Some(EVENT + 5),
        pause_ms: u64::try_from(time.as_millis()).unwrap() / (EVENTS - 1),
        framing: Framing::Chunked,
        ..Answer::default().text(&events.iter().enumerate().map(frame).collect::<String>())
    };
    let sandbox = r#"{"templateID":"base","sandboxID":"i1","clientID":"c","envdVersion":"0.6.13"}"#;
    let json = Answer { status: 201, ..Answer::default() }.header("content-type", "application/json").text(sandbox);
    let settings = Some(Settings { max_concurrent_streams: Some(streams), ..Settings::default() });
    let retires = Rule::at(Moment::Request).nth(u64::from(streams)).does(Fault::goaway());
    let answers = |path: &str, answer: Answer| Rule::at(Moment::Processed).path(path).does(Fault::answer(answer));
    Script { settings, ..Script::new() }
        .rule(retires)
        .rule(answers("/v2/sandboxes", json))
        .rule(answers("/process.Process/Start", stream.header("content-type", "application/connect+json")))
}

/// What became of the commands.
#[derive(Debug, Default)]
pub struct Tally {
    /// Those whose whole output and end came, each once.
    pub whole: usize,
    /// Those that did not, and why the first of them did not.
    pub wrong: usize,
    pub first: Option<String>,
}

/// Runs so many commands at once, and calls `all_run` when each has begun and none has ended.
pub async fn run(url: &str, count: usize, all_run: impl FnOnce()) -> Tally {
    let client = Client::builder().api_key("k").api_url(url).sandbox_url(url).http_version(HttpVersion::Http2);
    let client = client.request_timeout(Duration::from_secs(120)).build().unwrap();
    let sandbox = Sandbox::create(&client).await.unwrap();
    let (begun, mut beginnings) = tokio::sync::mpsc::unbounded_channel();
    let mut tasks = JoinSet::new();
    for _ in 0..count {
        let (sandbox, begun) = (sandbox.clone(), begun.clone());
        tasks.spawn(async move { one(&sandbox, begun).await });
    }
    drop(begun);
    let mut running = 0;
    while running < count && beginnings.recv().await.is_some() {
        running += 1;
    }
    all_run();
    let mut tally = Tally::default();
    while let Some(ended) = tasks.join_next().await {
        match ended.unwrap() {
            Ok(()) => tally.whole += 1,
            Err(why) => {
                tally.wrong += 1;
                tally.first.get_or_insert(why);
            }
        }
    }
    tally
}

async fn one(sandbox: &Sandbox, begun: tokio::sync::mpsc::UnboundedSender<()>) -> Result<(), String> {
    let mut command = sandbox.commands().start("true").await.map_err(|error| error.to_string())?;
    let _ = begun.send(());
    let mut text = Vec::new();
    while let Some(event) = command.next().await {
        match event.map_err(|error| error.to_string())? {
            CommandEvent::Stdout(bytes) => text.extend_from_slice(&bytes),
            CommandEvent::Exit(exit) if exit.code == 3 && text == output().as_bytes() => return Ok(()),
            other => return Err(format!("{other:?} after {:?}", String::from_utf8_lossy(&text))),
        }
    }
    Err("no end".to_owned())
}
