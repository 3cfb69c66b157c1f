//! The whole way: SDK, transport, policy, HTTP, the embedded host, real processes.
#![cfg(feature = "local")]
#![allow(clippy::unwrap_used)] // A test panics when it fails.

use std::time::Duration;

use oncebox::{Body, Client, Command, CommandEvent, EntryKind, ErrorKind, Killed, Sandbox, SandboxState};

/// A client on a host of its own; `None`, with the reason printed, where this machine does not let it isolate.
async fn client(test: &str) -> Option<Client> {
    match Client::local().await {
        Ok(client) => Some(client),
        Err(error) if error.to_string().contains("cannot be isolated") => {
            println!("SKIP {test}: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

#[tokio::test]
async fn a_command_runs_and_its_exit_code_is_no_error() {
    let Some(client) = client("a_command_runs_and_its_exit_code_is_no_error").await else { return };
    let sandbox = Sandbox::create(&client).env("FROM_CREATE", "1").await.unwrap();
    let output = sandbox.commands().run("echo out $FROM_CREATE; echo err >&2; exit 7").await.unwrap();
    assert_eq!((output.stdout_text().as_str(), output.stderr_text().as_str()), ("out 1\n", "err\n"));
    assert_eq!((output.exit_code(), output.exit.exited, output.success()), (7, true, false));
    let command = Command::new("printf").arg("%s|").args(["a b", "$HOME", "'\""]).cwd("/tmp");
    assert_eq!(sandbox.commands().run(command).await.unwrap().stdout_text(), "a b|$HOME|'\"|");
    client.close().await;
}

#[tokio::test]
async fn a_running_command_is_followed_fed_and_killed() {
    let Some(client) = client("a_running_command_is_followed_fed_and_killed").await else { return };
    let sandbox = Sandbox::create(&client).await.unwrap();
    let commands = sandbox.commands();
    let mut cat = commands.start(Command::new("cat").stdin(true).tag("mine")).await.unwrap();
    cat.send_stdin("one\n").await.unwrap();
    assert_eq!(cat.next().await.unwrap().unwrap(), CommandEvent::Stdout("one\n".into()));
    let listed = commands.list().await.unwrap();
    assert_eq!((listed.len(), listed[0].pid, listed[0].tag.as_deref()), (1, cat.pid(), Some("mine")));

    // Dropping the handle leaves the command; connecting attaches to it again.
    let pid = cat.pid();
    drop(cat);
    let mut again = commands.connect(pid).await.unwrap();
    again.send_stdin("two\n").await.unwrap();
    assert_eq!(again.next().await.unwrap().unwrap(), CommandEvent::Stdout("two\n".into()));
    again.close_stdin().await.unwrap();
    assert!(again.wait().await.unwrap().success());

    let sleep = commands.start("sleep 100").await.unwrap();
    assert!(sleep.kill().await.unwrap());
    let exit = sleep.wait().await.unwrap().exit;
    assert_eq!((exit.code, exit.exited, exit.status.as_str()), (-1, false, "signal: killed"));
    assert!(!commands.kill(pid).await.unwrap());
    client.close().await;
}

#[tokio::test]
async fn the_sandbox_keeps_a_commands_timeout() {
    let Some(client) = client("the_sandbox_keeps_a_commands_timeout").await else { return };
    let sandbox = Sandbox::create(&client).await.unwrap();
    let output = sandbox.commands().run(Command::new("sleep").arg("100").timeout(Duration::from_millis(300))).await;
    assert_eq!(output.unwrap().exit.status, "signal: killed");
    client.close().await;
}

#[tokio::test]
async fn files_round_trip() {
    let Some(client) = client("files_round_trip").await else { return };
    let sandbox = Sandbox::create(&client).await.unwrap();
    let files = sandbox.files();
    let bytes: Vec<u8> = (0..=255).cycle().take(300_000).collect();
    for (path, data) in [("all bytes.bin", &bytes[..]), ("dir/with \"quotes\" %41 &\nä", b"x"), ("empty", b"")] {
        let written = files.write(path, data.to_vec()).await.unwrap();
        assert_eq!(written.path, format!("/home/user/{path}"));
        assert_eq!(files.read(path).await.unwrap(), data, "{path}");
        assert_eq!(files.info(path).await.unwrap().size, data.len() as u64);
    }
    let stream = http_body_util::Full::new(bytes::Bytes::from_static(b"streamed"));
    files.write("streamed", Body::stream(stream)).await.unwrap();
    assert_eq!(files.read_text("/home/user/streamed").await.unwrap(), "streamed");

    assert!(files.make_dir("made/by/us").await.unwrap());
    assert!(!files.make_dir("made/by/us").await.unwrap());
    let moved = files.rename("streamed", "made/by/us/moved").await.unwrap();
    assert_eq!((moved.path.as_str(), moved.kind), ("/home/user/made/by/us/moved", EntryKind::File));
    let listed = files.list("made", 9).await.unwrap();
    let mut paths: Vec<&str> = listed.iter().map(|entry| entry.path.as_str()).collect();
    paths.sort_unstable();
    assert_eq!(paths, ["/home/user/made/by", "/home/user/made/by/us", "/home/user/made/by/us/moved"]);
    files.remove("made").await.unwrap();
    files.remove("made").await.unwrap();
    assert!(!files.exists("made").await.unwrap());
    assert_eq!(files.read("made").await.unwrap_err().kind(), ErrorKind::NotFound);
    client.close().await;
}

#[tokio::test]
async fn a_sandbox_is_listed_described_connected_to_and_killed() {
    let Some(client) = client("a_sandbox_is_listed_described_connected_to_and_killed").await else { return };
    let sandbox = Sandbox::create(&client).metadata("a b", "c&d").lifetime(Duration::from_secs(100)).await.unwrap();
    Sandbox::create(&client).await.unwrap();
    let found = Sandbox::list(&client).metadata("a b", "c&d").state(SandboxState::Running).await.unwrap();
    assert_eq!(found.iter().map(|s| s.id.as_str()).collect::<Vec<_>>(), [sandbox.id()]);
    assert_eq!(found[0].metadata.iter().collect::<Vec<_>>(), [(&"a b".to_owned(), &"c&d".to_owned())]);
    assert_eq!(Sandbox::list(&client).await.unwrap().len(), 2);

    sandbox.set_timeout(Duration::from_secs(1000)).await.unwrap();
    let info = sandbox.info().await.unwrap();
    let lifetime = info.end_at.duration_since(info.started_at).as_secs();
    assert!((999..=1010).contains(&lifetime), "{lifetime}");

    let same = Sandbox::connect(&client, sandbox.id()).await.unwrap();
    assert_eq!(same.commands().run("echo same").await.unwrap().stdout_text(), "same\n");
    assert_eq!(sandbox.kill().await.unwrap(), Killed::Now);
    assert_eq!(sandbox.kill().await.unwrap(), Killed::Already);
    assert_eq!(same.commands().run("true").await.unwrap_err().kind(), ErrorKind::SandboxNotRunning);
    assert_eq!(same.files().read("x").await.unwrap_err().kind(), ErrorKind::SandboxNotRunning);
    assert_eq!(same.info().await.unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(Sandbox::connect(&client, sandbox.id()).await.unwrap_err().kind(), ErrorKind::NotFound);
    client.close().await;
}

#[tokio::test]
async fn closing_the_client_ends_the_host() {
    let Some(client) = client("closing_the_client_ends_the_host").await else { return };
    Sandbox::create(&client).await.unwrap();
    client.close().await;
    let error = Sandbox::list(&client).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotDone);
}
