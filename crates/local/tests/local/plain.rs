//! Without isolation. Commands here run on this machine as this user: harmless ones only.

use http::Method;
use serde_json::json;

use super::support::{eventually, mark, plain, processes, shell};

#[tokio::test]
async fn commands_and_files_share_a_home() {
    let server = plain().await;
    let sandbox = server.sandbox().await;
    let output = sandbox.run("echo out; echo err >&2; exit 7").await;
    assert_eq!((output.text(), output.errors(), output.code()), ("out\n", "err\n", 7));

    let written = sandbox.write("/home/user/a/file", "text").await.json();
    assert_eq!(written[0]["path"], "/home/user/a/file");
    assert_eq!(sandbox.run("cat a/file").await.text(), "text");
    assert_eq!(sandbox.run("cat $HOME/a/file").await.text(), "text");
    sandbox.run("echo more >b").await;
    assert_eq!(sandbox.read("/home/user/b").await.body, "more\n");
    assert_eq!(sandbox.read("b").await.body, "more\n");
    let stat = sandbox.call("filesystem.Filesystem/Stat", json!({ "path": "b" })).await.unwrap();
    assert_eq!(stat["entry"]["path"], "/home/user/b");

    let mut request = shell("pwd");
    request["process"]["cwd"] = "/home/user/a".into();
    let (_, events) = sandbox.start(request, &[]).await;
    let output = events.output().await;
    assert!(output.text().trim().ends_with(&format!("{}/a", sandbox.id)), "{}", output.text());
    assert_eq!(sandbox.read(output.text().trim_end_matches("\n").trim()).await.status, 400, "it is a folder there too");
}

#[tokio::test]
async fn kill_ends_every_descendant() {
    let server = plain().await;
    let (sandbox, other) = (server.sandbox().await, server.sandbox().await);
    let (mine, others) = (mark(), mark());
    let daemon =
        |mark: &str| shell(&format!("(setsid sh -c 'trap \"\" TERM HUP; sleep {mark}' &); sleep {mark} & exit 0"));
    let (_, events) = sandbox.start(daemon(&mine), &[]).await;
    assert_eq!(events.output().await.code(), 0);
    let (_, events) = other.start(daemon(&others), &[]).await;
    assert_eq!(events.output().await.code(), 0);
    eventually("daemons run", || !processes(&format!("sleep {mine} ")).is_empty()).await;
    eventually("daemons run", || !processes(&format!("sleep {others} ")).is_empty()).await;
    assert_eq!(server.http.api(Method::DELETE, &format!("/sandboxes/{}", sandbox.id), None).await.status, 204);
    assert_eq!(processes(&mine), [""; 0]);
    assert!(!processes(&others).is_empty(), "another sandbox's processes are not touched");
    server.server.stop().await;
    assert_eq!(processes(&others), [""; 0]);
}

#[tokio::test]
async fn nothing_of_the_server_is_inherited_here_either() {
    let server = plain().await;
    let sandbox = server.sandbox().await;
    assert_eq!(sandbox.run("ls /proc/self/fd | tr '\\n' ' '").await.text(), "0 1 2 3 ");
    let env = sandbox.run("env | cut -d= -f1 | sort | tr '\\n' ' '").await;
    assert_eq!(env.text(), "E2B_SANDBOX E2B_SANDBOX_ID E2B_TEMPLATE_ID HOME LOGNAME PATH PWD USER ");
}

#[tokio::test]
async fn a_timeout_of_zero_ends_a_sandbox_now() {
    let server = plain().await;
    let (over, other) = (server.sandbox().await, server.sandbox().await);
    let set =
        server.http.api(Method::POST, &format!("/sandboxes/{}/timeout", over.id), Some(json!({ "timeout": 0 }))).await;
    assert_eq!(set.status, 204);
    let mut left = 500;
    while server.http.api(Method::GET, &format!("/sandboxes/{}", over.id), None).await.status != 404 {
        left -= 1;
        assert!(left > 0, "it lives on");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    assert_eq!(server.http.api(Method::GET, &format!("/sandboxes/{}", other.id), None).await.status, 200);
}
