//! The real programs, in isolated sandboxes: what a window is told, and what a VNC client sees.

use std::time::Duration;

use oncebox::{Client, Command, Desktop, ErrorKind, MouseButton, Sandbox, ScrollDirection};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::installed;

const WIDTH: u32 = 640;
const HEIGHT: u32 = 480;

/// How long a program may take to show what it was told.
const PATIENCE: Duration = Duration::from_secs(30);

/// A sandbox with a display on it, or nothing where a program is missing or this machine isolates nothing.
async fn display(test: &str, programs: &[&str]) -> Option<(Client, Sandbox)> {
    for program in ["Xvfb", "xdotool"].iter().chain(programs) {
        if !installed(program) {
            println!("SKIP {test}: {program} is not installed");
            return None;
        }
    }
    let client = match Client::local().await {
        Ok(client) => client,
        Err(error) if error.to_string().contains("cannot be isolated") => {
            println!("SKIP {test}: {error}");
            return None;
        }
        Err(error) => panic!("{error}"),
    };
    let sandbox = Sandbox::create(&client).env("DISPLAY", ":0").await.unwrap();
    assert!(sandbox.desktop().start(WIDTH, HEIGHT, 96).await.unwrap());
    Some((client, sandbox))
}

/// Starts a program that stays, and writes to this file.
async fn leave(sandbox: &Sandbox, script: &str, log: &str) {
    let command = Command::new("/bin/bash").args(["-c", &format!("exec {script} > {log} 2>&1")]);
    drop(sandbox.commands().start(command.timeout(Duration::ZERO)).await.unwrap());
}

/// What is looked for, as soon as it is there.
async fn eventually<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let looking = async {
        loop {
            if let Some(found) = look().await {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(PATIENCE, looking).await.unwrap_or_else(|_| panic!("{what} did not come"))
}

/// A file's text; nothing where there is none.
async fn read(sandbox: &Sandbox, path: &str) -> String {
    match sandbox.files().read(path).await {
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(error) if error.is_not_found() => String::new(),
        Err(error) => panic!("{error}"),
    }
}

/// The first window of this class, once it is there.
async fn window(desktop: &Desktop<'_>, class: &str) -> String {
    eventually(class, async || desktop.application_windows(class).await.unwrap().pop()).await
}

/// A window that writes to `/tmp/events` what it is told, and that has the keyboard.
async fn events(sandbox: &Sandbox) {
    leave(sandbox, "stdbuf -oL xev -geometry 400x300+0+0 -event keyboard -event button -event mouse", "/tmp/events")
        .await;
    let named = "xdotool search --onlyvisible --name '^Event Tester$'";
    let id = eventually("the window of xev", async || {
        let found = sandbox.commands().run(named).await.unwrap();
        found.success().then(|| found.stdout_text().trim().to_owned())
    });
    let focus = format!("xdotool windowfocus --sync {}", id.await);
    assert!(sandbox.commands().run(focus).await.unwrap().success());
}

/// What such a window was told of buttons: which went down, and which went up.
fn buttons(events: &str) -> (Vec<u32>, Vec<u32>) {
    let of = |kind: &str| {
        let told = events.split("\n\n").filter(|event| event.trim_start().starts_with(kind));
        let button = told.filter_map(|event| event.split_once("button ")?.1.split_once(',')?.0.parse().ok());
        button.collect()
    };
    (of("ButtonPress"), of("ButtonRelease"))
}

/// What such a window was told of keys: the name of each that went down, with Shift and the like before it.
fn keys(events: &str) -> Vec<String> {
    let told = events.split("\n\n").filter(|event| event.trim_start().starts_with("KeyPress"));
    told.filter_map(|event| Some(event.split_once("keysym ")?.1.split_once(", ")?.1.split_once(')')?.0.to_owned()))
        .collect()
}

/// Width and height of a PNG file, as its header tells them.
fn size(png: &[u8]) -> (u32, u32) {
    assert_eq!(&png[..16], b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR");
    let number = |at: usize| u32::from_be_bytes(png[at..at + 4].try_into().unwrap());
    (number(16), number(20))
}

#[tokio::test]
async fn a_picture_shows_the_whole_display() {
    let test = "a_picture_shows_the_whole_display";
    let Some((client, sandbox)) = display(test, &["scrot", "xmessage"]).await else { return };
    let desktop = sandbox.desktop();
    assert_eq!(desktop.screen_size().await.unwrap(), (WIDTH, HEIGHT));
    assert!(!desktop.start(WIDTH, HEIGHT, 96).await.unwrap(), "it was there");
    let empty = desktop.screenshot().await.unwrap();
    assert_eq!(size(&empty), (WIDTH, HEIGHT));
    assert!(empty.ends_with(b"IEND\xaeB`\x82"), "it is whole");
    leave(&sandbox, "xmessage -geometry 300x200+10+20 question", "/dev/null").await;
    window(&desktop, "Xmessage").await;
    let changed = eventually("another picture", async || {
        Some(desktop.screenshot().await.unwrap()).filter(|picture| *picture != empty)
    });
    assert_eq!(size(&changed.await), (WIDTH, HEIGHT));
    let left = sandbox.commands().run("find /tmp -name '*.png'").await.unwrap();
    assert_eq!(left.stdout_text(), "", "no file is left of it");
    client.close().await;
}

#[tokio::test]
async fn a_window_is_told_of_the_mouse() {
    let Some((client, sandbox)) = display("a_window_is_told_of_the_mouse", &["xev"]).await else { return };
    let desktop = sandbox.desktop();
    events(&sandbox).await;
    desktop.move_mouse(123, 45).await.unwrap();
    assert_eq!(desktop.cursor_position().await.unwrap(), (123, 45));
    // To where it is, and to where nothing is.
    desktop.move_mouse(123, 45).await.unwrap();
    desktop.move_mouse(9999, 9999).await.unwrap();
    assert_eq!(desktop.cursor_position().await.unwrap(), (WIDTH - 1, HEIGHT - 1));
    desktop.click(MouseButton::Left, Some((200, 100))).await.unwrap();
    assert_eq!(desktop.cursor_position().await.unwrap(), (200, 100));
    desktop.click(MouseButton::Middle, Some((200, 100))).await.unwrap();
    desktop.click(MouseButton::Right, None).await.unwrap();
    desktop.double_click(Some((0, 0))).await.unwrap();
    desktop.scroll(ScrollDirection::Up, 2).await.unwrap();
    desktop.scroll(ScrollDirection::Down, 3).await.unwrap();
    desktop.mouse_press(MouseButton::Right).await.unwrap();
    desktop.mouse_release(MouseButton::Right).await.unwrap();
    desktop.drag((10, 20), (30, 40)).await.unwrap();
    assert_eq!(desktop.cursor_position().await.unwrap(), (30, 40));
    let told = eventually("all of the mouse", async || {
        let told = read(&sandbox, "/tmp/events").await;
        (buttons(&told).1.len() >= 12).then_some(told)
    })
    .await;
    let (down, up) = buttons(&told);
    assert_eq!(down, [1, 2, 3, 1, 1, 4, 4, 5, 5, 5, 3, 1]);
    assert_eq!(up, down);
    // Where it was when it was dragged: pressed here, moved with the button down, let go there.
    let dragged = told.rsplit("\n\n").take(6).collect::<Vec<_>>().concat();
    assert!(dragged.contains("root:(10,20)") && dragged.contains("root:(30,40)"), "{dragged}");
    client.close().await;
}

#[tokio::test]
async fn a_window_is_told_of_the_keyboard() {
    let Some((client, sandbox)) = display("a_window_is_told_of_the_keyboard", &["xev"]).await else { return };
    let desktop = sandbox.desktop();
    events(&sandbox).await;
    desktop.write_with_delay("aB -\tü€\n\\%", Duration::from_millis(2)).await.unwrap();
    desktop.press(&["ctrl", "C"]).await.unwrap();
    desktop.press(&["alt_left", "f4"]).await.unwrap();
    desktop.press(&["enter"]).await.unwrap();
    let error = desktop.press(&["no_such_key"]).await.unwrap_err();
    assert!(error.kind() == ErrorKind::CommandFailed && error.to_string().contains("no_such_key"), "{error}");
    let typed = eventually("all keys", async || {
        let typed = keys(&read(&sandbox, "/tmp/events").await);
        (typed.iter().filter(|key| *key == "Return").count() == 2).then_some(typed)
    });
    let shown: Vec<_> = typed.await.into_iter().filter(|key| !key.starts_with("Shift")).collect();
    assert_eq!(
        shown,
        [
            &["a", "B", "space", "minus", "Tab", "udiaeresis", "U20AC", "Return", "backslash", "percent"][..],
            &["Control_L", "c", "Alt_L", "F4", "Return"]
        ]
        .concat()
    );
    client.close().await;
}

#[tokio::test]
async fn windows_are_found_and_what_is_clicked_is_done() {
    let test = "windows_are_found_and_what_is_clicked_is_done";
    let Some((client, sandbox)) = display(test, &["xmessage", "xprop", "xwininfo", "openbox"]).await else { return };
    let desktop = sandbox.desktop();
    // Nothing but the display remembers.
    desktop.move_mouse(7, 8).await.unwrap();
    assert_eq!(desktop.cursor_position().await.unwrap(), (7, 8));
    leave(&sandbox, "openbox", "/dev/null").await;
    let manager = "xprop -root _NET_SUPPORTING_WM_CHECK";
    let managed = eventually("the window manager", async || {
        let told = sandbox.commands().run(manager).await.unwrap().stdout_text();
        told.contains("window id").then_some(())
    });
    managed.await;
    leave(&sandbox, "xmessage -title 'A title' -buttons only:0 -print -center question", "/tmp/answer").await;
    let id = window(&desktop, "xmessage").await;
    assert_eq!(desktop.application_windows("Xmessage").await.unwrap(), [id.as_str()]);
    assert!(desktop.application_windows("nothing_of_the_kind").await.unwrap().is_empty());
    assert_eq!(desktop.window_title(&id).await.unwrap(), "A title");
    // As toolkits of today set it, in UTF-8.
    let titled = format!("xprop -id {id} -f _NET_WM_NAME 8u -set _NET_WM_NAME 'A title – ü'");
    assert!(sandbox.commands().run(titled).await.unwrap().success());
    assert_eq!(desktop.window_title(&id).await.unwrap(), "A title – ü");
    let focused = eventually("the window's focus", async || {
        desktop.current_window_id().await.ok().filter(|current| *current == id)
    });
    focused.await;
    let error = desktop.window_title("4095").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::CommandFailed, "{error}");
    assert!(error.output().is_some_and(|output| output.stderr_text().contains("BadWindow")), "{error}");
    // Its only button is the last of the windows within it, told by its corner: "… 41x25+4+37  +282+269".
    let tree = sandbox.commands().run(format!("xwininfo -id {id} -tree")).await.unwrap().stdout_text();
    let place = tree.split_whitespace().last().unwrap();
    let corner: Vec<u32> = place.split('+').skip(1).map(|number| number.parse().unwrap()).collect();
    let button = (corner[0] + 12, corner[1] + 12);
    desktop.click(MouseButton::Left, Some(button)).await.unwrap();
    let answer =
        eventually("the answer", async || Some(read(&sandbox, "/tmp/answer").await).filter(|it| !it.is_empty()));
    assert_eq!(answer.await.trim(), "only");
    client.close().await;
}

#[tokio::test]
async fn what_is_opened_and_launched_is_started() {
    let test = "what_is_opened_and_launched_is_started";
    let Some((client, sandbox)) = display(test, &["xdg-open", "gtk-launch"]).await else { return };
    let desktop = sandbox.desktop();
    let entry = "[Desktop Entry]\nType=Application\nName=Mine\nExec=/bin/sh /home/user/mine %u\n";
    let handled = "[Default Applications]\ntext/plain=mine.desktop\nx-scheme-handler/https=mine.desktop\n";
    let files = [
        ("mine", "echo \"$DISPLAY $1\" > /tmp/told.new; mv /tmp/told.new /tmp/told"),
        (".local/share/applications/mine.desktop", entry),
        (".config/mimeapps.list", handled),
        ("a file.txt", "text"),
    ];
    for (path, text) in files {
        sandbox.files().write(format!("/home/user/{path}"), text).await.unwrap();
    }
    let told = async || {
        let told =
            eventually("the program", async || Some(read(&sandbox, "/tmp/told").await).filter(|it| !it.is_empty()));
        let told = told.await;
        sandbox.files().remove("/tmp/told").await.unwrap();
        told
    };
    desktop.launch("mine", Some("https://example.com/?a=b&c")).await.unwrap();
    assert_eq!(told().await, ":0 https://example.com/?a=b&c\n");
    desktop.launch("mine", None).await.unwrap();
    assert_eq!(told().await, ":0 \n");
    desktop.open("https://example.com/$HOME").await.unwrap();
    assert_eq!(told().await, ":0 https://example.com/$HOME\n");
    desktop.open("/home/user/a file.txt").await.unwrap();
    assert_eq!(told().await, ":0 /home/user/a file.txt\n");
    client.close().await;
}

/// What a port of the sandbox answers over HTTP, by its own host name as a browser has it: headers, and what follows them
/// until the server closes or `enough` of it has come.
async fn ask(url: &str, headers: &str, enough: usize) -> (String, Vec<u8>) {
    let (host, path) = url.strip_prefix("http://").unwrap().split_once('/').unwrap();
    let port: u16 = host.rsplit_once(':').unwrap().1.parse().unwrap();
    let mut connection = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    let request = format!("GET /{path} HTTP/1.1\r\nHost: {host}\r\n{headers}\r\n");
    connection.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    let reading = async {
        loop {
            let end = answer.windows(4).position(|four| four == b"\r\n\r\n");
            if let Some(end) = end
                && answer.len() >= end + 4 + enough
            {
                let body = answer.split_off(end + 4);
                return (String::from_utf8_lossy(&answer).into_owned(), body);
            }
            let mut piece = [0; 4096];
            let read = connection.read(&mut piece).await.unwrap();
            assert_ne!(read, 0, "{}", String::from_utf8_lossy(&answer));
            answer.extend(&piece[..read]);
        }
    };
    tokio::time::timeout(PATIENCE, reading).await.unwrap()
}

#[tokio::test]
async fn a_stream_is_seen_by_its_url_until_it_is_stopped() {
    let test = "a_stream_is_seen_by_its_url_until_it_is_stopped";
    let Some((client, sandbox)) = display(test, &["x11vnc", "websockify", "xmessage"]).await else { return };
    if !["/opt/noVNC", "/usr/share/novnc"].iter().any(|folder| std::path::Path::new(folder).exists()) {
        println!("SKIP {test}: noVNC is not installed");
        return;
    }
    let desktop = sandbox.desktop();
    let stream = desktop.stream().require_auth(true).await.unwrap();
    let key = stream.auth_key().unwrap().expose().to_owned();
    let url = stream.url().build();
    let (headers, page) = ask(&url, "Connection: close\r\n", 1000).await;
    assert!(headers.starts_with("HTTP/1.1 200"), "{headers}");
    assert!(String::from_utf8_lossy(&page).contains("noVNC"), "{headers}");
    // The page talks to the VNC server over a WebSocket of the same host; the server's first words are its version.
    let socket = url.replace(url.split_once("/vnc.html").unwrap().1, "").replace("/vnc.html", "/websockify");
    let upgrade = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
                   Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Protocol: binary\r\n";
    let (headers, words) = ask(&socket, upgrade, 14).await;
    assert!(headers.starts_with("HTTP/1.1 101"), "{headers}");
    assert_eq!(&words[2..14], b"RFB 003.008\n");
    // The key is asked for, and is nowhere that others of the sandbox could see it.
    assert_eq!(security(&sandbox).await, [2], "VNC authentication, and nothing else");
    assert!(answers(&sandbox, &key).await);
    assert!(!answers(&sandbox, "wrong").await);
    let seen =
        sandbox.commands().run("cat /proc/[0-9]*/cmdline /proc/[0-9]*/environ | tr '\\0' '\\n'; ls -R /tmp ~").await;
    assert!(!seen.unwrap().stdout_text().contains(&key));
    let again = desktop.stream().await.unwrap_err();
    assert_eq!(again.kind(), ErrorKind::Conflict, "{again}");
    stream.stop().await.unwrap();

    // Without a key, of one window alone; its ports are free again.
    leave(&sandbox, "xmessage -geometry 300x200+10+20 question", "/dev/null").await;
    let id = window(&desktop, "Xmessage").await;
    let open = eventually("the ports", async || match desktop.stream().window_id(&id).await {
        Ok(stream) => Some(stream),
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
            None
        }
    });
    let open = open.await;
    assert!(open.auth_key().is_none());
    assert_eq!(security(&sandbox).await, [1], "none");
    open.stop().await.unwrap();
    let gone = eventually("the end", async || {
        let left = sandbox.commands().run("pgrep -x x11vnc; pgrep -f novnc").await.unwrap().stdout_text();
        left.is_empty().then_some(())
    });
    gone.await;
    client.close().await;
}

/// A VNC client of a few lines, that prints the kinds of security that the server offers, and with a key whether it is let in.
const CLIENT: &str = r#"
import socket, sys
with socket.create_connection(("127.0.0.1", 5900)) as s:
    f = s.makefile("rb")
    f.read(12); s.sendall(b"RFB 003.008\n")
    kinds = list(f.read(f.read(1)[0]))
    if len(sys.argv) < 2:
        print(*kinds)
    else:
        import subprocess
        s.sendall(b"\x02")
        challenge = f.read(16)
        # Each byte of the key has its bits the other way round (RFC 6143, section 7.2.2).
        key = bytes(int(f"{byte:08b}"[::-1], 2) for byte in sys.argv[1].encode()[:8].ljust(8, b"\0"))
        des = ["openssl", "enc", "-des-ecb", "-nopad", "-provider", "legacy", "-provider", "default", "-K", key.hex()]
        s.sendall(subprocess.run(des, input=challenge, stdout=subprocess.PIPE, check=True).stdout)
        print(int.from_bytes(f.read(4), "big"))
"#;

async fn security(sandbox: &Sandbox) -> Vec<u8> {
    let told = sandbox.commands().run(Command::new("python3").args(["-c", CLIENT])).await.unwrap();
    told.stdout_text().split_whitespace().map(|kind| kind.parse().unwrap()).collect()
}

async fn answers(sandbox: &Sandbox, key: &str) -> bool {
    let told = sandbox.commands().run(Command::new("python3").args(["-c", CLIENT, key])).await.unwrap();
    assert!(told.success(), "{}", told.stderr_text());
    told.stdout_text().trim() == "0"
}
