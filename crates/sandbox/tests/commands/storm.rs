//! Many durable commands whose streams are cut anywhere, some while their sandbox is paused.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::{StreamExt, stream};
use oncebox::{Command, CommandEvent, CommandOutput, Error, ErrorKind, HttpVersion, Pause, Sandbox};
use oncebox_faults::{ErrorCode, Fault, Moment, Rule, Script, Server};

use super::durable::{Host, client_of};

/// Commands; `ONCEBOX_DURABLES` sets another number, 500 is the whole of it.
const COMMANDS: usize = 40;
/// Commands at a time.
const AT_ONCE: usize = 8;

/// Connections that end before, in, and after everything: the head of an answer, its first event, an event's bytes, a frame.
fn weather(seed: u64) -> Script {
    let rule = |moment, probability: f64| {
        Rule::at(moment).path("/process.Process/*").probability(probability).does(Fault::Reset)
    };
    let mut script = Script::new().seed(seed);
    // Before the sandbox hears of it, and after.
    script = script.rule(rule(Moment::Request, 0.04)).rule(rule(Moment::Processed, 0.06));
    for head in [1, 60] {
        script = script.rule(rule(Moment::AnswerHead(head), 0.03));
    }
    // The first event has some 40 bytes, and its envelope 5.
    for body in [0, 1, 4, 5, 20, 41, 47, 90, 130, 200, 333, 700, 1500, 5000, 20_000, 70_000, 200_000] {
        script = script.rule(rule(Moment::AnswerBody(body), 0.05));
    }
    for piece in [1, 2, 3, 5, 9] {
        script = script.rule(rule(Moment::AnswerPiece(piece), 0.05));
        let stream = Rule::at(Moment::AnswerPiece(piece)).path("/process.Process/*").probability(0.05);
        script = script.rule(stream.does(Fault::ResetStream(ErrorCode::INTERNAL_ERROR)));
    }
    script
}

/// What command number `n` writes, how it ends, and the script that does it and leaves a line where it ran.
fn work(n: usize) -> (Command, Vec<u8>, Vec<u8>, i32) {
    let (lines, code) = (20 + (n * 37) % 200, (n % 120) as i32);
    let line = format!("{n} it's \"a line\" {}", "x".repeat(n % 50));
    let script = "echo ran >>\"$HOME/ran.$1\"; i=0; while [ $i -lt $2 ]; do i=$((i+1)); echo \"$i $3\"; \
                  [ $((i % 7)) = 0 ] && echo \"e$i\" >&2; [ $((i % 40)) = 0 ] && sleep 0.1; done; \
                  head -c $4 /dev/zero; exit $5";
    let bulk = (n % 5) * 60_000;
    let args = [n.to_string(), lines.to_string(), line.clone(), bulk.to_string(), code.to_string()];
    let command = Command::new("sh").args(["-c", script, "sh"]).args(args).timeout(Duration::ZERO);
    let mut stdout: Vec<u8> = (1..=lines).flat_map(|i| format!("{i} {line}\n").into_bytes()).collect();
    stdout.extend(vec![0; bulk]);
    let stderr = (1..=lines).filter(|i| i % 7 == 0).flat_map(|i| format!("e{i}\n").into_bytes()).collect();
    (command, stdout, stderr, code)
}

/// Whether asking again makes sense: a connection that is lost, or a sandbox that is paused at this moment.
fn passes(error: &Error) -> bool {
    use ErrorKind::{ConnectionLost, SandboxNotRunning, SandboxUnreachable};
    matches!(error.kind(), ConnectionLost | SandboxUnreachable | SandboxNotRunning)
}

/// Runs one command to its end, whatever happens: by asking again, and by attaching anew from what it has.
async fn run(sandbox: &Sandbox, n: usize, errors: &AtomicUsize) -> CommandOutputOf {
    let id = format!("storm-{n}");
    let (command, ..) = work(n);
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    let mut durable = loop {
        match sandbox.commands().durable(command.clone()).id(&id).await {
            Ok(durable) => break durable,
            Err(error) => {
                assert!(passes(&error), "{n}: {error}");
                errors.fetch_add(1, Ordering::Relaxed);
            }
        }
    };
    let mut events = 0;
    loop {
        match durable.next().await {
            Some(Ok(CommandEvent::Stdout(bytes))) => stdout.extend(bytes),
            Some(Ok(CommandEvent::Stderr(bytes))) => stderr.extend(bytes),
            Some(Ok(CommandEvent::Exit(exit))) => return CommandOutputOf { stdout, stderr, code: exit.code },
            Some(Ok(other)) => panic!("{n}: {other:?}"),
            Some(Err(error)) => {
                assert!(passes(&error), "{n}: {error}");
                errors.fetch_add(1, Ordering::Relaxed);
            }
            None => panic!("{n}: no end"),
        }
        events += 1;
        // Now and then as a client that was started anew.
        if (events + n).is_multiple_of(23) {
            let offsets = durable.offsets();
            durable = loop {
                match sandbox.commands().attach(&id).from(offsets).await {
                    Ok(durable) => break durable,
                    Err(error) => assert!(passes(&error), "{n}: {error}"),
                }
            };
        }
    }
}

struct CommandOutputOf {
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    code: i32,
}

#[tokio::test]
async fn durable_commands_that_are_cut_anywhere_and_paused_run_once_and_lose_nothing() {
    let commands: usize = std::env::var("ONCEBOX_DURABLES").map_or(COMMANDS, |text| text.parse().unwrap());
    let seed: u64 = std::env::var("ONCEBOX_SEED").map_or(7, |text| text.parse().unwrap());
    let host = Host::start().await;
    let proxy = Server::builder(weather(seed)).proxy_to(&host.server.url()).max_connections(500).start().await.unwrap();
    let url = proxy.url("").trim_end_matches('/').to_owned();
    // Half of them each over HTTP/1.1 and over HTTP/2, where a reset takes all streams of a connection with it.
    let mut sandboxes = Vec::new();
    for version in [HttpVersion::Http1, HttpVersion::Http2] {
        sandboxes.push(Sandbox::connect(&client_of(&url, version), host.sandbox.id()).await.unwrap());
    }

    let (errors, pauses, done) = (AtomicUsize::new(0), Arc::new(AtomicU64::new(0)), AtomicUsize::new(0));
    // Paused and resumed, from beside the weather, until all is done.
    let pausing = {
        let (sandbox, client, pauses) = (host.sandbox.clone(), host.client.clone(), Arc::clone(&pauses));
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(Duration::from_millis(2500)).await;
                sandbox.pause(Pause::full()).await.unwrap();
                pauses.fetch_add(1, Ordering::Relaxed);
                tokio::time::sleep(Duration::from_millis(300)).await;
                Sandbox::connect(&client, sandbox.id()).await.unwrap();
            }
        })
    };
    stream::iter(0..commands)
        .for_each_concurrent(AT_ONCE, |n| {
            let (sandbox, errors, done) = (&sandboxes[n % 2], &errors, &done);
            async move {
                let output = run(sandbox, n, errors).await;
                let (_, stdout, stderr, code) = work(n);
                assert!(output.stdout == stdout, "{n}: {} bytes of {}", output.stdout.len(), stdout.len());
                assert!(output.stderr == stderr, "{n}: {} error bytes of {}", output.stderr.len(), stderr.len());
                assert_eq!(output.code, code, "{n}");
                done.fetch_add(1, Ordering::Relaxed);
            }
        })
        .await;
    pausing.abort();
    let _ = pausing.await;
    let direct = Sandbox::connect(&host.client, host.sandbox.id()).await.unwrap();
    let ran: CommandOutput =
        direct.commands().run(Command::shell("cat ran.* | wc -l; ls ran.* | wc -l")).await.unwrap();
    let counts: Vec<usize> = ran.stdout_text().split_whitespace().map(|count| count.parse().unwrap()).collect();
    assert_eq!(counts, [commands, commands], "each ran once");
    let totals = proxy.log().totals();
    println!(
        "{} commands, seed {seed}: {} pauses, {} errors that passed; {totals:?}",
        done.into_inner(),
        pauses.load(Ordering::Relaxed),
        errors.into_inner()
    );
    host.client.close().await;
    host.server.stop().await;
}
