//! What is left when a sandbox or a server ends: nothing.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use http::Method;
use oncebox_local::{Helper, Isolation, LocalServer, StartError};
use serde_json::json;

use super::support::{Fixture, Sandbox, eventually, helper, isolated, mark, processes, serve, shell};

/// Starts processes in a sandbox that would like to stay: one in the foreground, one in the background, one in a session
/// of its own that ignores signals.
async fn settle(sandbox: &Sandbox, mark: &str) {
    let script = format!("trap '' TERM HUP; setsid sleep {mark} & sleep {mark} & sleep {mark}");
    let (_, events) = sandbox.start(shell(&script), &[]).await;
    drop(events);
    // The shell, and what it has forked and not replaced yet, have it in their command lines too.
    let sleeps = |line: &String| line.starts_with("sleep ");
    eventually("three processes run", || processes(mark).iter().filter(|line| sleeps(line)).count() >= 3).await;
}

fn folders(base: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(base).unwrap().map(|entry| entry.unwrap().path());
    entries.filter(|path| path.is_dir()).collect()
}

#[tokio::test]
async fn kill_leaves_no_process_and_no_file() {
    let Some(server) = isolated("kill_leaves_no_process_and_no_file").await else { return };
    let sandbox = server.sandbox().await;
    let mark = mark();
    settle(&sandbox, &mark).await;
    sandbox.run("mkdir -p closed/in; chmod 000 closed").await;
    assert_eq!(server.http.api(Method::DELETE, &format!("/sandboxes/{}", sandbox.id), None).await.status, 204);
    // At once: the answer comes when it is done.
    assert_eq!(processes(&mark), [""; 0]);
    let instance = folders(&server.base.path().join("state")).remove(0);
    assert_eq!(folders(&instance.join("sandboxes")), [""; 0].map(PathBuf::from));
}

#[tokio::test]
async fn stopping_and_dropping_leave_nothing() {
    for stop in [true, false] {
        let Some(Fixture { server, base, http }) = isolated("stopping_and_dropping_leave_nothing").await else {
            return;
        };
        let sandbox = http.create(json!({ "templateID": "base" })).await;
        let mark = mark();
        settle(&sandbox, &mark).await;
        let addr = server.addr();
        if stop {
            server.stop().await;
        } else {
            drop(server);
        }
        assert_eq!(processes(&mark), [""; 0], "stop: {stop}");
        assert_eq!(folders(&base.path().join("state")), [""; 0].map(PathBuf::from));
        eventually("the port is closed", || std::net::TcpStream::connect(addr).is_err()).await;
    }
}

#[tokio::test]
async fn a_killed_server_takes_its_sandboxes_along_and_the_next_cleans_up() {
    let test = "a_killed_server_takes_its_sandboxes_along_and_the_next_cleans_up";
    let Some(_probe) = isolated(test).await else { return };
    let base = tempfile::tempdir().unwrap();
    let state = base.path().join("state");
    let (mut child, http) = serve(&state, false);
    let sandbox = http.create(json!({ "templateID": "base" })).await;
    let mark = mark();
    settle(&sandbox, &mark).await;
    let left: Vec<PathBuf> = folders(&state);
    child.kill().unwrap();
    child.wait().unwrap();
    eventually("no process of the sandbox is left", || processes(&mark).is_empty()).await;
    assert_eq!(folders(&state), left, "nobody was there to remove it");

    let next = LocalServer::builder().helper(helper()).state_base(&state).start().await.unwrap();
    let now = folders(&state);
    assert!(now.len() == 1 && now != left, "{now:?}");
    next.stop().await;
}

/// The launcher of a sandbox, outside: the child of this process among the ancestors of the sandbox's process.
fn launcher(mark: &str) -> rustix::process::Pid {
    let field = |pid: i32, name: &str| {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix(name).map(str::trim).map(str::to_owned));
        line.unwrap_or_default()
    };
    let pids = std::fs::read_dir("/proc").unwrap();
    let pids = pids.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok());
    let mut pid = pids
        .filter(|pid| field(*pid, "Name:") == "sleep")
        .find(|pid| {
            std::fs::read(format!("/proc/{pid}/cmdline"))
                .is_ok_and(|line| line.ends_with(format!("{mark}\0").as_bytes()))
        })
        .unwrap();
    let own = i32::try_from(std::process::id()).unwrap();
    loop {
        match field(pid, "PPid:").parse().unwrap() {
            parent if parent == own => return rustix::process::Pid::from_raw(pid).unwrap(),
            parent => pid = parent,
        }
    }
}

#[tokio::test]
async fn a_sandbox_whose_launcher_is_killed_is_gone() {
    let Some(server) = isolated("a_sandbox_whose_launcher_is_killed_is_gone").await else { return };
    let sandbox = server.sandbox().await;
    let mark = mark();
    settle(&sandbox, &mark).await;
    rustix::process::kill_process(launcher(&mark), rustix::process::Signal::KILL).unwrap();
    eventually("its processes are gone", || processes(&mark).is_empty()).await;
    let path = format!("/sandboxes/{}", sandbox.id);
    for _ in 0..200 {
        if server.http.api(Method::GET, &path, None).await.status == 404 {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    server.http.api(Method::GET, &path, None).await.error(404);
    assert_eq!(sandbox.send(Method::GET, "/health", &[], "").await.error(502), "The sandbox was not found");
}

#[tokio::test]
async fn two_servers_share_a_state_base() {
    let Some(one) = isolated("two_servers_share_a_state_base").await else { return };
    let sandbox = one.sandbox().await;
    let other =
        LocalServer::builder().helper(helper()).state_base(one.base.path().join("state")).start().await.unwrap();
    assert_eq!(sandbox.run("echo alive").await.text(), "alive\n");
    other.stop().await;
    assert_eq!(sandbox.run("echo alive").await.text(), "alive\n");
}

#[tokio::test]
async fn a_server_that_cannot_start_says_why_and_what_to_do() {
    let base = tempfile::tempdir().unwrap();
    let builder =
        || LocalServer::builder().helper(helper()).state_base(base.path().join("state")).isolation(Isolation::None);
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let text = builder().port(port).start().await.unwrap_err().to_string();
    assert!(text.contains(&format!("127.0.0.1:{port}")) && text.contains("`port`"), "{text}");

    let text = builder().helper(Helper::new("/no/such/helper")).start().await.unwrap_err().to_string();
    assert!(text.contains("/no/such/helper") && text.contains("`helper`"), "{text}");
    let text = builder().helper(Helper::new("/bin/true")).start().await.unwrap_err().to_string();
    assert!(text.contains("/bin/true"), "{text}");

    // A helper on a machine where namespaces are forbidden.
    let forbidden =
        Helper::new("/bin/sh").arg("-c").arg(r#"echo '{"NotAllowed":"unshare(CLONE_NEWUSER): EPERM"}' >&0"#);
    let hint = "oncebox run --local --no-isolation -- make test";
    let error = builder().isolation(Isolation::Namespaces).helper(forbidden).no_isolation_hint(hint).start().await;
    let error = error.unwrap_err();
    assert!(matches!(error, StartError::IsolationUnavailable { .. }));
    let text = error.to_string();
    assert!(text.contains("unshare(CLONE_NEWUSER): EPERM") && text.ends_with(hint), "{text}");
    assert_eq!(folders(&base.path().join("state")), [""; 0].map(PathBuf::from), "nothing is left of failed starts");
}

#[test]
fn the_helper_by_hand_says_what_it_is() {
    for args in [vec![], vec!["launch"], vec!["plain"], vec!["--help"]] {
        let output = Command::new(env!("CARGO_BIN_EXE_oncebox-envd")).args(args).stdin(Stdio::null()).output().unwrap();
        assert_eq!(output.status.code(), Some(2));
        assert!(String::from_utf8_lossy(&output.stderr).contains("started by an oncebox server"));
    }
}
