//! Programs that write down how they were called, in the places of the real ones.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::Duration;

use oncebox::local::{Isolation, LocalServer};
use oncebox::{Client, ErrorKind, MouseButton, Sandbox, ScrollDirection};

use crate::installed;

/// What a PNG file begins with, and a byte that is no text.
const PICTURE: &[u8] = b"\x89PNG\r\n\x1a\n\xff\x00picture";

/// A folder of programs, and what they left.
struct Fakes(PathBuf);

impl Fakes {
    fn new() -> Self {
        let mut random = [0; 8];
        getrandom::fill(&mut random).unwrap();
        let folder = std::env::temp_dir().join(format!("oncebox-desktop-{:016x}", u64::from_ne_bytes(random)));
        std::fs::create_dir(&folder).unwrap();
        Self(folder)
    }

    /// A program that writes down its name, display and arguments, and goes on with `script`, in its folder.
    fn program(&self, name: &str, script: &str) {
        let folder = self.0.display();
        let text = format!("#!/bin/bash\ncd '{folder}' && echo \"$DISPLAY {name} $*\" >> log\n{script}\n");
        let path = self.0.join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.0.join(name)).unwrap_or_default()
    }

    /// What was called since the last time.
    fn calls(&self) -> Vec<String> {
        let calls = self.read("log").lines().map(str::to_owned).collect();
        let _ = std::fs::remove_file(self.0.join("log"));
        calls
    }

    /// All programs of this machine but these.
    fn all_but(&self, missing: &[&str]) {
        for folder in std::env::split_paths(&std::env::var_os("PATH").unwrap()) {
            for program in std::fs::read_dir(folder).into_iter().flatten().flatten() {
                if !missing.iter().any(|name| program.file_name() == *name) {
                    // The first of a name is the one that counts.
                    let _ = std::os::unix::fs::symlink(program.path(), self.0.join(program.file_name()));
                }
            }
        }
    }

    async fn sandbox(&self) -> (Client, Sandbox) {
        self.sandbox_with(&format!("{}:{}", self.0.display(), std::env::var("PATH").unwrap())).await
    }

    async fn sandbox_with(&self, path: &str) -> (Client, Sandbox) {
        let server = LocalServer::builder().isolation(Isolation::None).start().await.unwrap();
        let client = Client::of(server).unwrap();
        let sandbox = Sandbox::create(&client).env("PATH", path).await.unwrap();
        (client, sandbox)
    }
}

impl Drop for Fakes {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[tokio::test]
async fn mouse_and_keyboard_are_worked() {
    let fakes = Fakes::new();
    let where_ = "case \"$1 $2\" in
        getmouselocation*) printf 'X=12\\nY=34\\nSCREEN=0\\n';;
        type*) cat >> typed;;
        'key Return') echo >> typed;;
        esac";
    fakes.program("xdotool", where_);
    let (client, sandbox) = fakes.sandbox().await;
    let desktop = sandbox.desktop();
    desktop.move_mouse(1, 2).await.unwrap();
    desktop.click(MouseButton::Right, Some((3, 4))).await.unwrap();
    desktop.click(MouseButton::Middle, None).await.unwrap();
    desktop.double_click(None).await.unwrap();
    desktop.mouse_press(MouseButton::Left).await.unwrap();
    desktop.mouse_release(MouseButton::Left).await.unwrap();
    desktop.drag((1, 2), (3, 4)).await.unwrap();
    desktop.scroll(ScrollDirection::Down, 3).await.unwrap();
    desktop.scroll(ScrollDirection::Up, 1).await.unwrap();
    desktop.clone().display(":7").press(&["ctrl", "alt", "F2"]).await.unwrap();
    assert_eq!(
        fakes.calls(),
        [
            ":0 xdotool mousemove 1 2 getmouselocation",
            ":0 xdotool mousemove 3 4 click --repeat 1 3",
            ":0 xdotool click --repeat 1 2",
            ":0 xdotool click --repeat 2 1",
            ":0 xdotool mousedown 1",
            ":0 xdotool mouseup 1",
            ":0 xdotool mousemove 1 2 mousedown 1 mousemove 3 4 mouseup 1",
            ":0 xdotool click --repeat 3 5",
            ":0 xdotool click --repeat 1 4",
            ":7 xdotool key -- Control_L+Alt_L+F2",
        ]
    );
    assert_eq!(desktop.cursor_position().await.unwrap(), (12, 34));
    // What is typed is in no argument.
    fakes.calls();
    desktop.write("a p4ssword\n'\"$ü").await.unwrap();
    assert_eq!(fakes.read("typed"), "a p4ssword\n'\"$ü");
    let line = ":0 xdotool type --delay 75 --file -";
    assert_eq!(fakes.calls(), [line, ":0 xdotool key Return", line]);
    desktop.write_with_delay("\r\n\\ %s ", Duration::from_millis(5)).await.unwrap();
    let error = desktop.write_with_delay("a", Duration::MAX).await.unwrap_err();
    assert!(error.kind() == ErrorKind::InvalidArgument && error.to_string().contains("at most 3600s"), "{error}");
    assert_eq!(fakes.read("typed"), "a p4ssword\n'\"$ü\n\\ %s ");
    assert_eq!(fakes.calls(), [":0 xdotool key Return", ":0 xdotool type --delay 5 --file -"]);
    desktop.write("").await.unwrap();
    assert!(fakes.calls().is_empty());
    for error in [
        desktop.scroll(ScrollDirection::Up, 0).await.unwrap_err(),
        desktop.press(&[]).await.unwrap_err(),
        desktop.press(&["ctrl+c"]).await.unwrap_err(),
        desktop.write("\0").await.unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    }
    assert!(fakes.calls().is_empty());
    client.close().await;
}

#[tokio::test]
async fn windows_are_found_and_programs_started() {
    let fakes = Fakes::new();
    let answers = "case \"$1 $4\" in
        'getdisplaygeometry '*) echo '1024 768';;
        'getwindowfocus '*) echo 77;;
        'search firefox') printf '1\\n22\\n';;
        'search '*) exit 1;;
        'getwindowname '*) [ $2 = 77 ] || { echo 'X Error of failed request: BadWindow' >&2; exit 1; }; echo 'A title – ü';;
        esac";
    fakes.program("xdotool", answers);
    fakes.program("xdg-open", "");
    fakes.program("gtk-launch", "");
    let (client, sandbox) = fakes.sandbox().await;
    let desktop = sandbox.desktop();
    assert_eq!(desktop.screen_size().await.unwrap(), (1024, 768));
    assert_eq!(desktop.current_window_id().await.unwrap(), "77");
    assert_eq!(desktop.application_windows("firefox").await.unwrap(), ["1", "22"]);
    assert!(desktop.application_windows("none").await.unwrap().is_empty());
    assert_eq!(desktop.window_title("77").await.unwrap(), "A title – ü");
    let error = desktop.window_title("1").await.unwrap_err();
    assert!(error.kind() == ErrorKind::CommandFailed && error.to_string().contains("BadWindow"), "{error}");
    assert_eq!(desktop.window_title("--x").await.unwrap_err().kind(), ErrorKind::InvalidArgument);
    fakes.calls();
    desktop.open("https://example.com/?a b").await.unwrap();
    desktop.launch("google-chrome", Some("https://example.com")).await.unwrap();
    desktop.launch("editor", None).await.unwrap();
    // They are left running: when they begin is theirs to say.
    let mut calls = Vec::new();
    while calls.len() < 3 {
        tokio::time::sleep(Duration::from_millis(10)).await;
        calls.extend(fakes.calls());
    }
    calls.sort_unstable();
    assert_eq!(
        calls,
        [
            ":0 gtk-launch editor",
            ":0 gtk-launch google-chrome https://example.com",
            ":0 xdg-open https://example.com/?a b"
        ]
    );
    client.close().await;
}

#[tokio::test]
async fn a_screenshot_is_a_picture_by_whichever_program_there_is() {
    let fakes = Fakes::new();
    let (client, sandbox) = fakes.sandbox().await;
    let desktop = sandbox.desktop();
    if ["scrot", "import"].iter().all(|program| !installed(program)) {
        let error = desktop.screenshot().await.unwrap_err();
        assert!(error.kind() == ErrorKind::Unsupported && error.to_string().contains("neither scrot nor"), "{error}");
    }
    std::fs::write(fakes.0.join("picture"), PICTURE).unwrap();
    fakes.program("import", "cp picture \"${3#png:}\"; echo noise");
    if !installed("scrot") {
        assert_eq!(desktop.screenshot().await.unwrap(), PICTURE);
    }
    fakes.program("scrot", "cp picture \"$2\"");
    assert_eq!(desktop.screenshot().await.unwrap(), PICTURE);
    let call = fakes.calls().pop().unwrap();
    let file = call.strip_prefix(":0 scrot --pointer ").unwrap();
    assert!(!std::path::Path::new(file).exists(), "{file} is left");
    fakes.program("scrot", "echo 'no display' >&2; exit 2");
    let error = desktop.screenshot().await.unwrap_err();
    assert!(error.kind() == ErrorKind::CommandFailed && error.to_string().contains("no display"), "{error}");
    fakes.program("scrot", "echo text > \"$2\"");
    assert_eq!(desktop.screenshot().await.unwrap_err().kind(), ErrorKind::Server);
    client.close().await;
}

#[tokio::test]
async fn what_the_template_has_not_is_named() {
    let fakes = Fakes::new();
    fakes.all_but(&["xdotool", "xdg-open", "gtk-launch", "x11vnc"]);
    let (client, sandbox) = fakes.sandbox_with(fakes.0.to_str().unwrap()).await;
    let desktop = sandbox.desktop();
    for (program, result) in [
        ("xdotool", desktop.move_mouse(1, 1).await),
        ("xdotool", desktop.start(800, 600, 96).await.map(drop)),
        ("xdg-open", desktop.open("x").await),
        ("gtk-launch", desktop.launch("x", None).await),
        ("x11vnc", desktop.stream().await.map(drop)),
    ] {
        let error = result.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        assert!(error.to_string().contains(program) && error.to_string().contains("template"), "{error}");
    }
    client.close().await;
}

#[tokio::test]
async fn a_display_is_started_once() {
    let fakes = Fakes::new();
    fakes.program("xdotool", "[ -e display ] && echo '800 600' || { echo 'no display' >&2; exit 1; }");
    fakes.program("Xvfb", "touch display");
    let (client, sandbox) = fakes.sandbox().await;
    let desktop = sandbox.desktop();
    assert!(desktop.start(800, 600, 96).await.unwrap());
    assert!(!desktop.start(800, 600, 96).await.unwrap());
    let calls = fakes.calls();
    let started: Vec<_> = calls.iter().filter(|call| call.contains("Xvfb")).collect();
    assert_eq!(started, [":0 Xvfb :0 -ac -screen 0 800x600x24 -retro -dpi 96 -nolisten tcp -noreset"]);
    assert_eq!(desktop.start(0, 600, 96).await.unwrap_err().kind(), ErrorKind::InvalidArgument);
    client.close().await;
}

#[tokio::test]
async fn a_session_is_waited_for() {
    let fakes = Fakes::new();
    fakes.program("xdotool", "[ -e display ] && echo '800 600' || exit 1");
    fakes.program("Xvfb", "touch display");
    // One part begins when the other one runs.
    fakes.program("xfce4-session", "sleep 1; touch session; xfwm4 & xfdesktop & sleep 60");
    fakes.program("xfwm4", "sleep 60");
    fakes.program("xfdesktop", "sleep 60");
    fakes.program("startxfce4", "exec xfce4-session");
    let (client, sandbox) = fakes.sandbox().await;
    assert!(sandbox.desktop().start(800, 600, 96).await.unwrap());
    assert!(fakes.0.join("session").exists(), "{:?}", fakes.calls());
    client.close().await;
}

#[tokio::test]
async fn a_stream_has_a_page_and_a_key_and_ends() {
    let test = "a_stream_has_a_page_and_a_key_and_ends";
    if !installed("python3") {
        println!("SKIP {test}: python3 is not installed");
        return;
    }
    let fakes = Fakes::new();
    let listen = "exec python3 -c 'import socket, sys, time\n\
                  s = socket.create_server((\"127.0.0.1\", int(sys.argv[1])))\n\
                  while True: s.accept()[0].close()'";
    let after = |option: &str| format!("while [ \"$1\" != {option} ]; do shift; done; port=$2");
    fakes.program(
        "x11vnc",
        &format!(
            "all=\"$*\"; {}; case \"$all\" in *passwdfile*) f=${{all##*rm:}}; cp \"$f\" key; rm \"$f\";; esac; {listen} $port",
            after("-rfbport")
        ),
    );
    fakes.program("websockify", "exit 1");
    fakes.program("novnc_proxy", &format!("{}; {listen} $port", after("--listen")));
    let (client, sandbox) = fakes.sandbox().await;
    let desktop = sandbox.desktop();
    let free = || std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let (vnc, page) = (free(), free());
    let stream = desktop.stream().vnc_port(vnc).port(page).require_auth(true).window_id("77").await.unwrap();
    let key = stream.auth_key().unwrap().expose().to_owned();
    assert_eq!(fakes.read("key").trim(), key);
    let calls = fakes.calls();
    let of = |name: &str| calls.iter().find(|call| call.contains(name)).unwrap().clone();
    assert!(
        of("x11vnc").contains(&format!("-display :0 -forever -wait 50 -shared -rfbport {vnc} -id 77 -passwdfile rm:"))
    );
    assert!(of("novnc_proxy").contains(&format!("--vnc localhost:{vnc} --listen {page}")), "{calls:?}");
    assert!(!format!("{calls:?} {stream:?}").contains(&key));
    let base = format!("http://{page}-{}.localhost:", sandbox.id());
    let url = stream.url().build();
    assert!(url.starts_with(&base) && url.ends_with("/vnc.html?autoconnect=true&resize=scale"), "{url}");
    assert_eq!(desktop.stream_url(Some(page)).build(), url);
    assert!(desktop.stream_url(None).build().starts_with("http://6080-"));
    let url = stream.url().auto_connect(false).view_only(true).resize("off").auth_key(key.as_str()).build();
    assert!(url.ends_with(&format!("?autoconnect=false&resize=off&view_only=true&password={key}")), "{url}");
    let twice = desktop.stream().vnc_port(vnc).port(page).await.unwrap_err();
    assert_eq!(twice.kind(), ErrorKind::Conflict, "{twice}");
    stream.stop().await.unwrap();
    // Its ports are free again.
    let again = loop {
        match desktop.stream().vnc_port(vnc).port(page).await {
            Ok(again) => break again,
            Err(error) => assert_eq!(error.kind(), ErrorKind::Conflict, "{error}"),
        }
    };
    assert!(again.auth_key().is_none());
    assert!(fakes.calls().iter().any(|call| call.ends_with("-nopw")));
    again.stop().await.unwrap();
    client.close().await;
}
