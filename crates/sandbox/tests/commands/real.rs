//! Commands and terminals on the local server.

use std::time::Duration;

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use oncebox::{Client, Command, CommandEvent, CommandHandle, ErrorKind, Sandbox, TerminalSize};

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

/// Reads until the output holds a text.
async fn until(command: &mut CommandHandle, text: &str) -> String {
    let mut seen = String::new();
    while !seen.contains(text) {
        match command.next().await {
            Some(Ok(CommandEvent::Pty(bytes) | CommandEvent::Stdout(bytes))) => {
                seen += &String::from_utf8_lossy(&bytes)
            }
            other => panic!("{other:?} after {seen:?}, which lacks {text:?}"),
        }
    }
    seen
}

#[tokio::test]
async fn a_terminal_is_typed_on_resized_left_and_attached_to_again() {
    let Some(client) = client("a_terminal_is_typed_on_resized_left_and_attached_to_again").await else { return };
    let sandbox = Sandbox::create(&client).await.unwrap();
    let pty = sandbox.pty();
    let mut shell = pty.create(TerminalSize::new(80, 24)).await.unwrap();
    shell.send_stdin("stty size; echo $TERM $LANG\n").await.unwrap();
    let seen = until(&mut shell, "C.UTF-8\r\n").await;
    assert!(seen.contains("24 80") && seen.contains("xterm-256color C.UTF-8"), "{seen}");
    shell.resize(TerminalSize::new(132, 43)).await.unwrap();
    shell.send_stdin("stty size\n").await.unwrap();
    until(&mut shell, "43 132").await;

    let pid = shell.pid();
    drop(shell);
    let mut shell = pty.connect(pid, oncebox::StreamOptions::new()).await.unwrap();
    pty.send(pid, "echo st'i'll\n").await.unwrap();
    until(&mut shell, "still").await;
    pty.stream(pid, stream::iter([Bytes::from("ex"), Bytes::from("it 6\n")])).await.unwrap();
    assert_eq!(shell.wait().await.unwrap().exit_code(), 6);
    assert_eq!(pty.resize(pid, TerminalSize::new(0, 1)).await.unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert_eq!(pty.resize(pid, TerminalSize::new(1, 1)).await.unwrap_err().kind(), ErrorKind::NotFound);
    client.close().await;
}

#[tokio::test]
async fn input_is_streamed_as_it_comes_and_closed() {
    let Some(client) = client("input_is_streamed_as_it_comes_and_closed").await else { return };
    let sandbox = Sandbox::create(&client).await.unwrap();
    let commands = sandbox.commands();
    let sum = commands.start(Command::new("sha256sum").stdin(true)).await.unwrap();
    // 5 MiB, of which some pieces are larger than one message carries.
    let pieces: Vec<Bytes> = (0..5_u8).map(|n| Bytes::from(vec![n; 1 << 20])).collect();
    let expected = {
        use sha2::Digest;
        let digest = sha2::Sha256::digest(pieces.concat());
        digest.iter().map(|byte| format!("{byte:02x}")).collect::<String>()
    };
    commands.stream_stdin(sum.pid(), stream::iter(pieces)).await.unwrap();
    sum.close_stdin().await.unwrap();
    assert!(sum.wait().await.unwrap().stdout_text().starts_with(&expected));

    let sum = commands.start(Command::new("wc").arg("-c").stdin(true)).await.unwrap();
    sum.send_stdin(vec![b'x'; 1_500_000]).await.unwrap();
    sum.close_stdin().await.unwrap();
    assert_eq!(sum.wait().await.unwrap().stdout_text().trim(), "1500000");
    let error = commands.stream_stdin(999_999, stream::iter([Bytes::from("x")])).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
    client.close().await;
}

#[tokio::test]
async fn a_handle_is_a_stream_of_events() {
    let Some(client) = client("a_handle_is_a_stream_of_events").await else { return };
    let sandbox = Sandbox::create(&client).await.unwrap();
    let command = sandbox.commands().start("echo out; exit 2").await.unwrap();
    let events: Vec<CommandEvent> = command.map(Result::unwrap).collect().await;
    assert_eq!(events[0], CommandEvent::Stdout("out\n".into()));
    assert!(matches!(&events[1], CommandEvent::Exit(exit) if exit.code == 2), "{events:?}");
    assert_eq!(events.len(), 2);
    client.close().await;
}

#[tokio::test]
async fn a_timeout_is_the_sandboxs_and_says_so() {
    let Some(client) = client("a_timeout_is_the_sandboxs_and_says_so").await else { return };
    let sandbox = Sandbox::create(&client).await.unwrap();
    let sleep = |timeout| Command::new("sleep").arg("0.5").timeout(timeout);
    let exit = sandbox.commands().run(sleep(Duration::from_millis(200))).await.unwrap().exit;
    assert!(exit.timed_out && exit.signal() == Some(9), "{exit:?}");
    let exit = sandbox.commands().run(sleep(Duration::ZERO)).await.unwrap().exit;
    assert!(exit.success() && !exit.timed_out, "{exit:?}");
    client.close().await;
}
