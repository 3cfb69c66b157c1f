//! Durable commands on the local server: each shell, each end, and what goes wrong.

use std::time::Duration;

use oncebox::local::{Isolation, LocalServer};
use oncebox::{
    Client, Command, CommandEvent, CommandOutput, DurableCommand, ErrorKind, HttpVersion, Offsets, Sandbox,
    StreamOptions, WhenFull,
};

/// A sandbox on a host of its own, without isolation, so that it runs on every machine.
pub struct Host {
    pub sandbox: Sandbox,
    pub client: Client,
    pub server: LocalServer,
    _spool: tempfile::TempDir,
}

impl Host {
    pub async fn start() -> Self {
        let server = LocalServer::builder().isolation(Isolation::None).start().await.unwrap();
        let client = client_of(&server.url(), HttpVersion::Http1);
        let spool = tempfile::tempdir().unwrap();
        let path = spool.path().to_str().unwrap().to_owned();
        let sandbox = Sandbox::create(&client).env("ONCEBOX_SPOOL", path).await.unwrap();
        Self { sandbox, client, server, _spool: spool }
    }
}

pub fn client_of(url: &str, version: HttpVersion) -> Client {
    let builder = Client::builder().api_key("test").api_url(url).sandbox_url(url).http_version(version);
    builder.request_timeout(Duration::from_secs(30)).build().unwrap()
}

/// The shells that the wrapper must run in; those that are missing are named.
fn shells(test: &str) -> Vec<Vec<&'static str>> {
    let all: [&[&str]; 4] = [&["/bin/sh"], &["dash"], &["bash", "--posix"], &["busybox", "sh"]];
    let there = |shell: &&[&'static str]| {
        let there = std::process::Command::new(shell[0]).args(&shell[1..]).args(["-c", "true"]).status();
        let there = there.is_ok_and(|status| status.success());
        if !there {
            println!("SKIP {test}: there is no {}", shell[0]);
        }
        there
    };
    all.into_iter().filter(there).map(<[_]>::to_vec).collect()
}

fn sh(script: &str) -> Command {
    Command::new("sh").arg("-c").arg(script).timeout(Duration::from_secs(60))
}

fn told(output: &CommandOutput) -> (String, String, i32) {
    (output.stdout_text(), output.stderr_text(), output.exit_code())
}

#[tokio::test]
async fn every_shell_keeps_outputs_ends_and_arguments_as_they_are() {
    let host = Host::start().await;
    let commands = host.sandbox.commands();
    for shell in shells("every_shell_keeps_outputs_ends_and_arguments_as_they_are") {
        let run = async |command: Command| {
            commands.durable(command).shell(shell.clone()).await.unwrap().wait().await.unwrap()
        };
        let output = run(sh("printf 'out\\n'; echo err >&2; exit 7")).await;
        assert_eq!(told(&output), ("out\n".into(), "err\n".into(), 7), "{shell:?}");

        // Quotes, newlines, expansions and all bytes that an argument can have, in every argument.
        let odd = ["", " ", "it's", "\"$HOME\" `id` $(id)", "a\nb\n", "\\", "-n", "--", "*", "ä😀", "%s", "\t\r"];
        let output = run(Command::new("printf").arg("%s|").args(odd)).await;
        assert_eq!(output.stdout_text(), odd.join("|") + "|", "{shell:?}");

        // What a wrapper must not change: variables, directory, file mask, ignored signals.
        let plain = commands.run(sh(SURROUNDINGS).env("A", "x y\nz").cwd("/tmp")).await.unwrap();
        let durable = run(sh(SURROUNDINGS).env("A", "x y\nz").cwd("/tmp")).await;
        assert_eq!(durable.stdout_text(), plain.stdout_text(), "{shell:?}");

        // What a start attaches to, with an id that was used, can be told from what was to be started.
        let id = format!("odd-{}", shell.join("-").replace('/', ""));
        let start = |command| commands.durable(command).id(&id).shell(shell.clone());
        let words = [&["printf", "%s|"][..], &odd].concat();
        let first = start(Command::new("printf").arg("%s|").args(odd)).await.unwrap();
        assert_eq!(first.argv().await.unwrap().unwrap(), words, "{shell:?}");
        let other = start(Command::new("true")).await.unwrap();
        assert_eq!(other.argv().await.unwrap().unwrap(), words, "{shell:?}");
        assert_eq!(other.wait().await.unwrap().stdout_text(), odd.join("|") + "|", "{shell:?}");

        let output = run(sh("kill -TERM $$")).await;
        assert_eq!((output.exit.signal(), output.exit.exited), (Some(15), false), "{shell:?}");
        let output = run(sh("sleep 60").timeout(Duration::from_millis(300))).await;
        assert!(output.exit.timed_out && output.exit.signal() == Some(9), "{shell:?}: {:?}", output.exit);
        let output = run(Command::new("no-such-program")).await;
        assert_eq!(output.exit_code(), 127, "{shell:?}");
        assert!(output.stderr_text().contains("no-such-program"), "{shell:?}");
        // Opening the standard output anew must not cut off what was written.
        let output = run(sh("echo a; echo b >/dev/stdout; echo c; echo d >/dev/stderr")).await;
        assert_eq!(told(&output), ("a\nb\nc\n".into(), "d\n".into(), 0), "{shell:?}");
        let output = run(sh("echo a; sleep 5 & exit 3")).await;
        assert_eq!((output.stdout_text().as_str(), output.exit_code(), output.exit.left_behind), ("a\n", 3, true));
        assert!(!run(sh("true")).await.exit.left_behind, "{shell:?}");
    }
    host.client.close().await;
    host.server.stop().await;
}

/// As on Alpine: every small program that the wrapper uses is busybox's own.
#[tokio::test]
async fn the_wrapper_makes_do_with_busyboxs_own_programs() {
    if !shells("the_wrapper_makes_do_with_busyboxs_own_programs").contains(&vec!["busybox", "sh"]) {
        return;
    }
    let host = Host::start().await;
    let commands = host.sandbox.commands();
    let install = "mkdir applets && busybox --install -s applets && readlink -f applets/dd && pwd";
    let installed = commands.run(sh(install)).await.unwrap().stdout_text();
    let [dd, folder] = installed.lines().collect::<Vec<_>>()[..] else { panic!("{installed}") };
    assert!(dd.ends_with("busybox"), "{dd}");
    let shell = vec![format!("{folder}/applets/sh")];
    let only = |command: Command| command.env("PATH", format!("{folder}/applets"));
    let script = "readlink -f /proc/self/exe; head -c 3000000 /dev/zero | tr '\\0' x; echo end >&2; cat; exit 5";
    let command = commands.durable(only(sh(script).stdin(true))).shell(shell.clone()).await.unwrap();
    command.send_stdin("typed\n").await.unwrap();
    command.close_stdin().await.unwrap();
    let (out, err, code) = told(&command.wait().await.unwrap());
    assert!(out == format!("{dd}\n{}typed\n", "x".repeat(3_000_000)), "{} bytes", out.len());
    assert_eq!((err.as_str(), code), ("end\n", 5));
    let killed = commands.durable(only(sh("sleep 60"))).shell(shell.clone()).await.unwrap();
    assert!(killed.kill().await.unwrap());
    assert_eq!(killed.wait().await.unwrap().exit.signal(), Some(9));
    let limited = only(sh("sleep 60")).timeout(Duration::from_millis(300));
    let limited = commands.durable(limited).shell(shell).await.unwrap().wait().await.unwrap();
    assert!(limited.exit.timed_out, "{:?}", limited.exit);
    host.client.close().await;
    host.server.stop().await;
}

/// Without what differs from run to run, and the signals that a shell cannot pass on where `env` is too old.
const SURROUNDINGS: &str = "pwd; umask; env | grep -v -E '^(_|SHLVL|ONCEBOX_COMMAND)=' | sort";

#[tokio::test]
async fn every_shell_passes_input_on_once_and_kills_the_whole_group() {
    let host = Host::start().await;
    let commands = host.sandbox.commands();
    for shell in shells("every_shell_passes_input_on_once_and_kills_the_whole_group") {
        // 10 MiB, in pieces of all sizes.
        let data: Vec<u8> = (0..10 << 20).map(|n: u32| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        let command = commands.durable(Command::new("sha256sum").stdin(true).timeout(Duration::ZERO));
        let sum = command.shell(shell.clone()).await.unwrap();
        let (first, rest) = data.split_at(3_333_333);
        sum.send_stdin(first.to_vec()).await.unwrap();
        // Another client goes on.
        let other = commands.attach(sum.id()).shell(shell.clone()).await.unwrap();
        other.send_stdin(rest.to_vec()).await.unwrap();
        let error = sum.send_stdin("once too often").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Conflict, "{shell:?}: {error}");
        other.close_stdin().await.unwrap();
        let expected = {
            use sha2::Digest;
            sha2::Sha256::digest(&data).iter().map(|byte| format!("{byte:02x}")).collect::<String>()
        };
        assert!(sum.wait().await.unwrap().stdout_text().starts_with(&expected), "{shell:?}");
        assert_eq!(other.send_stdin("x").await.unwrap_err().kind(), ErrorKind::NotFound, "{shell:?}");

        let mark = format!("7{:05}", std::process::id() % 100_000);
        let script = format!("sleep {mark}.5 & sleep {mark}.5");
        let mut group = commands.durable(sh(&script)).shell(shell.clone()).await.unwrap();
        assert!(group.kill().await.unwrap(), "{shell:?}");
        match group.next().await {
            Some(Ok(CommandEvent::Exit(exit))) => assert_eq!(exit.signal(), Some(9)),
            other => panic!("{other:?}"),
        }
        assert!(!group.kill().await.unwrap(), "{shell:?}");
        let left = commands.run(sh(&format!("ps -ef 2>/dev/null | grep -c '[s]leep {mark}'"))).await.unwrap();
        assert_eq!(left.stdout_text(), "0\n", "{shell:?}");
    }
    let unfed = commands.durable("true").await.unwrap();
    let error = unfed.send_stdin("x").await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::InvalidArgument | ErrorKind::NotFound), "{error}");
    host.client.close().await;
    host.server.stop().await;
}

#[tokio::test]
async fn any_client_attaches_from_any_offset_also_two_at_once() {
    let host = Host::start().await;
    let script = "for n in 1 2 3 4 5 6 7 8 9; do echo $n; echo e$n >&2; sleep 0.1; done; exit 9";
    let mut first = host.sandbox.commands().durable(sh(script)).id("mine-1").await.unwrap();
    let Some(Ok(CommandEvent::Stdout(_) | CommandEvent::Stderr(_))) = first.next().await else { panic!() };
    let seen = first.offsets();
    assert_eq!(first.id(), "mine-1");
    drop(first);

    // A client of another process would know no more than this.
    let other = client_of(&host.server.url(), HttpVersion::Http2);
    let sandbox = Sandbox::connect(&other, host.sandbox.id()).await.unwrap();
    let attach = async |from: Offsets| sandbox.commands().attach("mine-1").from(from).await.unwrap().wait().await;
    let (whole, rest, again) = tokio::join!(
        attach(Offsets::default()),
        attach(seen),
        // The same start again is the same command.
        async { host.sandbox.commands().durable(sh("echo another")).id("mine-1").await.unwrap().wait().await }
    );
    let whole = whole.unwrap();
    let numbers: String = (1..=9).map(|n| format!("{n}\n")).collect();
    let errors: String = (1..=9).map(|n| format!("e{n}\n")).collect();
    assert_eq!(told(&whole), (numbers.clone(), errors.clone(), 9));
    assert_eq!(again.unwrap(), whole);
    let rest = rest.unwrap();
    assert_eq!(rest.stdout, whole.stdout[seen.stdout as usize..]);
    assert_eq!(rest.stderr, whole.stderr[seen.stderr as usize..]);
    // After its end, too, and beyond its end.
    assert_eq!(attach(Offsets { stdout: 18, stderr: 27 }).await.unwrap().exit_code(), 9);

    let ended = sandbox.commands().attach("mine-1").await.unwrap();
    ended.forget().await.unwrap();
    for gone in ["mine-1", "never-was"] {
        let error = sandbox.commands().attach(gone).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
    }
    let error = host.sandbox.commands().durable("true").id("mine-1").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound, "an id that was forgotten is not used again: {error}");
    host.client.close().await;
    host.server.stop().await;
}

/// The processes of a spool, from its files.
async fn pid(host: &Host, id: &str, file: &str) -> u32 {
    let output = host.sandbox.commands().run(sh(&format!("cat $ONCEBOX_SPOOL/{id}/{file}"))).await.unwrap();
    output.stdout_text().split(' ').next().unwrap().parse().unwrap()
}

async fn kill(host: &Host, pid: u32) {
    assert!(host.sandbox.commands().run(sh(&format!("kill -9 {pid}"))).await.unwrap().success());
}

#[tokio::test]
async fn a_wrapper_that_is_killed_costs_the_exit_code_at_most_and_never_hangs() {
    let host = Host::start().await;
    // Whoever only reads is started again.
    let mut read = host.sandbox.commands().durable(sh("echo a; sleep 1; echo b; exit 4")).id("read").await.unwrap();
    assert_eq!(read.next().await.unwrap().unwrap(), CommandEvent::Stdout("a\n".into()));
    let reader = host.sandbox.commands().list().await.unwrap();
    let reader = reader.iter().find(|process| process.tag.as_deref() == Some("oncebox-durable-read")).unwrap();
    assert!(host.sandbox.commands().kill(reader.pid).await.unwrap());
    assert_eq!(told(&read.wait().await.unwrap()), ("b\n".into(), String::new(), 4));

    // Whoever waits for it cannot be: all output comes, and then that nobody knows.
    let script = "echo a; sleep 0.7; echo b; exit 4";
    let mut lost = host.sandbox.commands().durable(sh(script)).id("lost").await.unwrap();
    assert_eq!(lost.next().await.unwrap().unwrap(), CommandEvent::Stdout("a\n".into()));
    kill(&host, pid(&host, "lost", "runner").await).await;
    assert_eq!(lost.next().await.unwrap().unwrap(), CommandEvent::Stdout("b\n".into()));
    let error = lost.next().await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::CommandLost, "{error}");
    assert!(error.to_string().contains("4 and 0 bytes"), "{error}");
    assert!(lost.next().await.is_none());
    assert_eq!(lost.offsets(), Offsets { stdout: 4, stderr: 0 });

    // It is killed from outside when the wrapper is gone, and whoever attaches later hears the same.
    let orphan = host.sandbox.commands().durable(sh("echo a; sleep 60")).id("orphan").await.unwrap();
    kill(&host, pid(&host, "orphan", "runner").await).await;
    assert_eq!(host.sandbox.commands().attach("orphan").forget().await.unwrap_err().kind(), ErrorKind::Conflict);
    assert!(orphan.kill().await.unwrap());
    let error = host.sandbox.commands().attach("orphan").await.unwrap().wait().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::CommandLost, "{error}");
    assert!(host.sandbox.commands().attach("orphan").forget().await.unwrap());
    host.client.close().await;
    host.server.stop().await;
}

#[tokio::test]
async fn a_process_of_another_boot_is_not_taken_for_it() {
    let host = Host::start().await;
    let id = "boot";
    let command = host.sandbox.commands().durable(sh("echo a; sleep 60")).id(id).await.unwrap();
    let process = pid(&host, id, "child").await;
    // As if the machine had started anew, and the numbers meant other processes.
    let script = format!(
        "cd $ONCEBOX_SPOOL/{id}; for f in runner child; do read p s b <$f; echo $p $s other-boot >$f.new; mv $f.new $f; done"
    );
    assert!(host.sandbox.commands().run(sh(&script)).await.unwrap().success());
    assert!(!command.kill().await.unwrap(), "what another boot's process is called must not be killed");
    let error = host.sandbox.commands().attach(id).await.unwrap().wait().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::CommandLost, "{error}");
    kill(&host, process).await;
    host.client.close().await;
    host.server.stop().await;
}

/// Reads to the end, and hands on what is read without keeping it.
async fn drain(mut command: DurableCommand, mut see: impl FnMut(&[u8])) -> Result<i32, oncebox::Error> {
    while let Some(event) = command.next().await {
        match event? {
            CommandEvent::Stdout(bytes) => see(&bytes),
            CommandEvent::Exit(exit) => return Ok(exit.code),
            _ => {}
        }
    }
    panic!("no end")
}

/// `ONCEBOX_OUTPUT_MIB=300` is the whole of it.
#[tokio::test]
async fn output_of_many_times_the_spools_size_comes_whole() {
    use sha2::Digest;

    let mib: u64 = std::env::var("ONCEBOX_OUTPUT_MIB").map_or(40, |text| text.parse().unwrap());
    let limit = if mib >= 300 { 64 << 20 } else { 8 << 20 };
    let host = Host::start().await;
    let script = format!("seq 1 999999999 | head -c {} | tee $HOME/all; exit 5", mib << 20);
    let command = host.sandbox.commands().durable(sh(&script).timeout(Duration::ZERO)).spool_limit(limit);
    let command = command.await.unwrap();
    let second = host.sandbox.commands().attach(command.id()).await.unwrap();
    let (mut one, mut two) = (sha2::Sha256::new(), sha2::Sha256::new());
    let (mut length, began) = (0_u64, std::time::Instant::now());
    let read_one = drain(command, |bytes| {
        one.update(bytes);
        length += bytes.len() as u64;
    });
    // The second reader is slower, and nothing may be removed that it has not taken.
    let read_two = drain(second, |bytes| two.update(bytes));
    let (first, second) = tokio::join!(read_one, read_two);
    assert_eq!((first.unwrap(), second.unwrap(), length), (5, 5, mib << 20));
    println!("{mib} MiB to two readers in {:?}", began.elapsed());
    let sum = host.sandbox.commands().run(sh("sha256sum <$HOME/all")).await.unwrap().stdout_text();
    let hex = |hash: sha2::Sha256| hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    assert!(sum.starts_with(&hex(one)) && sum.starts_with(&hex(two)));
    host.client.close().await;
    host.server.stop().await;
}

#[tokio::test]
async fn a_full_spool_blocks_the_command_or_kills_it_as_asked() {
    let host = Host::start().await;
    let commands = host.sandbox.commands();
    let script = "seq 1 1000000 | tee -p $HOME/wrote | cat; echo done >$HOME/done";
    let blocked = commands.durable(sh(script)).spool_limit(1 << 20).await.unwrap();
    let id = blocked.id().to_owned();
    drop(blocked);
    // Nobody reads any more: it stops, and is not done.
    let size = async || commands.run(sh("stat -c %s wrote 2>/dev/null || echo 0")).await.unwrap().stdout_text();
    let mut last = size().await;
    loop {
        tokio::time::sleep(Duration::from_millis(700)).await;
        let now = size().await;
        if now == last && now != "0\n" {
            break;
        }
        last = now;
    }
    assert!(last.trim().parse::<u64>().unwrap() < 3 << 20, "{last}");
    assert!(!host.sandbox.files().exists("done").await.unwrap());
    // The place of a reader who went away is kept for a minute. It is over.
    let age = format!("touch -d '2 minutes ago' $ONCEBOX_SPOOL/{id}/a.*");
    assert!(commands.run(sh(&age)).await.unwrap().success());
    let output = commands.attach(&id).await.unwrap().wait().await.unwrap();
    let expected: String = (1..=1_000_000).map(|n| format!("{n}\n")).collect();
    assert_eq!((output.stdout.len(), output.exit_code()), (expected.len(), 0));
    assert!(output.stdout == expected.as_bytes());
    // What has made room for more cannot be had again.
    let error = commands.attach(&id).await.unwrap().wait().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutputLost, "{error}");

    let killed = commands.durable(sh("seq 1 10000000")).spool_limit(1 << 20).when_full(WhenFull::Kill).await.unwrap();
    let id = killed.id().to_owned();
    drop(killed);
    let mut again = commands.attach(&id).await.unwrap();
    let mut length = 0;
    let error = loop {
        match again.next().await.unwrap() {
            Ok(CommandEvent::Stdout(bytes)) => length += bytes.len(),
            Ok(other) => panic!("{other:?}"),
            Err(error) => break error,
        }
    };
    assert_eq!(error.kind(), ErrorKind::SpoolFull, "{error}");
    assert!(error.to_string().contains("1048576 bytes") && error.to_string().contains("spool_limit"), "{error}");
    assert!((500_000..=1 << 20).contains(&length), "{length}");
    host.client.close().await;
    host.server.stop().await;
}

#[tokio::test]
async fn what_was_read_of_one_output_makes_room_for_the_other() {
    let host = Host::start().await;
    let commands = host.sandbox.commands();
    for when_full in [WhenFull::Block, WhenFull::Kill] {
        let script = "head -c 900000 /dev/zero >&2; read line; head -c 200000 /dev/zero";
        let spool = commands.durable(sh(script).stdin(true)).spool_limit(1 << 20).when_full(when_full);
        let mut command = spool.await.unwrap();
        let control = command.control();
        let (mut out, mut err) = (0, 0);
        loop {
            match command.next().await.unwrap() {
                Ok(CommandEvent::Stdout(bytes)) => out += bytes.len(),
                Ok(CommandEvent::Stderr(bytes)) => err += bytes.len(),
                Ok(CommandEvent::Exit(exit)) => {
                    assert_eq!(exit.code, 0, "{when_full:?}: {exit:?}");
                    break;
                }
                other => panic!("{when_full:?} after {out} and {err}: {other:?}"),
            }
            if (out, err) == (0, 900_000) {
                control.send_stdin("on\n").await.unwrap();
            }
        }
        assert_eq!((out, err), (200_000, 900_000), "{when_full:?}");
    }
    host.client.close().await;
    host.server.stop().await;
}

#[tokio::test]
async fn what_ended_a_day_ago_is_removed_and_what_runs_is_not() {
    let host = Host::start().await;
    let commands = host.sandbox.commands();
    let ended = commands.durable("true").id("ended").await.unwrap();
    ended.wait().await.unwrap();
    let fresh = commands.durable("true").id("fresh").await.unwrap();
    fresh.wait().await.unwrap();
    let running = commands.durable(sh("sleep 60")).id("running").await.unwrap();
    let old = "cd $ONCEBOX_SPOOL; touch -d '25 hours ago' ended/status ended running";
    assert!(commands.run(sh(old)).await.unwrap().success());
    commands.durable("true").await.unwrap().wait().await.unwrap();
    let list = commands.run(sh("ls $ONCEBOX_SPOOL")).await.unwrap().stdout_text();
    assert!(!list.contains("ended") && list.contains("fresh") && list.contains("running"), "{list}");
    assert!(running.kill().await.unwrap());
    host.client.close().await;
    host.server.stop().await;
}

#[tokio::test]
async fn what_makes_no_sense_is_refused_before_anything_happens() {
    let host = Host::start().await;
    let commands = host.sandbox.commands();
    for (command, words) in [
        (commands.durable("true").id("A/B"), "id: \"A/B\""),
        (commands.durable("true").spool_limit(1), "spool_limit: 1"),
        (commands.durable(Command::login_shell(oncebox::TerminalSize::new(1, 1))), "terminal"),
        (commands.durable("true").shell(["sh", "-c 'x'"]), "shell"),
        (commands.durable(Command::new("")), "empty"),
        (commands.durable(Command::new("a").stream(StreamOptions::new().keepalive(Duration::ZERO))), "keepalive"),
    ] {
        let error = command.await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(error.to_string().contains(words), "{error}");
    }
    assert!(commands.list().await.unwrap().is_empty());
    let error = commands.durable("true").shell(["/no/such/shell"]).await.unwrap_err();
    assert!(error.to_string().contains("/no/such/shell") && !error.may_have_been_processed(), "{error:?}");
    host.client.close().await;
    host.server.stop().await;
}
