//! Limits, network and what `explain` says of them, compared with what a sandbox sees.

use http::Method;
use oncebox_local::{Network, StartError};
use serde_json::{Value, json};

use super::support::{isolated, isolated_with, plain, shell};

const MIB: u64 = 1 << 20;

/// Forks until it cannot, waits a while, and prints how many it was; their ends are awaited.
const BOMB: &str = r#"
import os, time
children = []
try:
    for _ in range(3000):
        pid = os.fork()
        if pid == 0:
            time.sleep(60)
            os._exit(0)
        children.append(pid)
except OSError as error:
    print(error.errno, len(children), flush=True)
else:
    print("no limit", flush=True)
for child in children:
    os.kill(child, 9)
    os.waitpid(child, 0)
"#;

/// Takes that many MiB of memory, writes to all of it, and holds it until there is a file.
fn hog(mebibytes: u32) -> String {
    let script = format!(
        r#"
import os, time
held = [b"x" * (1 << 20) for _ in range({mebibytes})]
while not os.path.exists("/tmp/done"):
    time.sleep(0.05)
"#
    );
    quoted(&script)
}

fn python(test: &str) -> bool {
    let there = std::path::Path::new("/usr/bin/python3").exists();
    if !there {
        println!("SKIP {test}: no /usr/bin/python3");
    }
    there
}

fn quoted(script: &str) -> String {
    format!("/usr/bin/python3 -c '{script}'")
}

#[tokio::test]
async fn a_fork_bomb_stays_within_its_sandbox() {
    let test = "a_fork_bomb_stays_within_its_sandbox";
    if !python(test) {
        return;
    }
    let Some(server) = isolated_with(test, |builder| builder.pids(100)).await else { return };
    let (bomb, other) = (server.sandbox().await, server.sandbox().await);
    let output = bomb.run(&quoted(BOMB)).await;
    let words: Vec<u32> = output.text().split_whitespace().map(|word| word.parse().unwrap()).collect();
    let [11, children] = words[..] else { panic!("EAGAIN and a count: {output:?}") };
    // Where no control group counts, 300 more are possible.
    assert!((50..400).contains(&children), "{children}");
    assert_eq!(other.run("echo lives").await.text(), "lives\n");
    assert_eq!(bomb.run("echo lives too").await.text(), "lives too\n");

    // One that nobody stops does not keep its sandbox from being ended.
    let (_, events) = bomb.start(shell("b(){ b | b & }; b; exec sleep 60"), &[]).await;
    drop(events);
    let reply = server.http.api(Method::DELETE, &format!("/sandboxes/{}", bomb.id), None).await;
    assert_eq!(reply.status, 204);
    assert_eq!(other.run("echo still").await.text(), "still\n");
}

#[tokio::test]
async fn a_memory_hog_is_killed_and_nothing_else_is() {
    let test = "a_memory_hog_is_killed_and_nothing_else_is";
    if !python(test) {
        return;
    }
    let Some(server) = isolated_with(test, |builder| builder.memory(256 * MIB)).await else { return };
    let (hog, other) = (server.sandbox().await, server.sandbox().await);
    let (_, quiet) = hog.start(shell("while [ ! -e /tmp/done ]; do sleep 0.1; done"), &[]).await;
    // More than the limit in one process: refused its memory, or killed.
    assert_ne!(hog.run(&self::hog(600)).await.code(), 0);
    // In four, each of which may: whichever ends before there is the file was killed.
    let four = format!("for i in 1 2 3 4; do {} & done; wait -n; echo $?; touch /tmp/done; wait", self::hog(150));
    let four = json!({ "process": { "cmd": "/bin/bash", "args": ["-c", four] }, "stdin": false });
    let output = hog.start(four, &[]).await.1.output().await;
    assert_eq!(output.text(), "137\n", "{output:?}");
    assert_eq!(quiet.output().await.code(), 0, "a small process is not the one that is killed");
    assert_eq!(other.run("echo lives").await.text(), "lives\n");
    assert_eq!(hog.run("echo lives too").await.text(), "lives too\n");
}

#[tokio::test]
async fn a_hog_that_blinds_envd_ends_with_all_its_sandbox_runs() {
    let test = "a_hog_that_blinds_envd_ends_with_all_its_sandbox_runs";
    if !python(test) {
        return;
    }
    let Some(server) = isolated_with(test, |builder| builder.memory(256 * MIB)).await else { return };
    let (hog, other) = (server.sandbox().await, server.sandbox().await);
    let script = r#"
import os, resource, time
resource.prlimit(1, resource.RLIMIT_NOFILE, (0, 0))
for _ in range(4):
    if os.fork() == 0:
        held = b"x" * (150 << 20)
        time.sleep(100)
        os._exit(0)
print(os.wait()[1], flush=True)
"#;
    let (_, events) = hog.start(shell(&quoted(script)), &[]).await;
    let output = events.output().await;
    // A control group kills one of the four, and envd all there is.
    assert!(output.end["status"] == "signal: killed" || output.text() == "9\n", "{output:?}");
    assert_eq!(other.run("echo lives").await.text(), "lives\n");
}

#[tokio::test]
async fn limits_are_told_where_the_machine_was() {
    let test = "limits_are_told_where_the_machine_was";
    let limits = |builder: oncebox_local::LocalServerBuilder| builder.cpus(0.5).memory(300 * MIB);
    let Some(server) = isolated_with(test, limits).await else { return };
    let sandbox = server.sandbox().await;
    let envd: Value = sandbox.send(Method::GET, "/metrics", &[], "").await.json();
    assert_eq!((&envd["cpu_count"], &envd["mem_total"]), (&json!(1), &json!(300 * MIB)), "{envd}");
    let path = format!("/sandboxes/{}", sandbox.id);
    let info = server.http.api(Method::GET, &path, None).await.json();
    assert_eq!((&info["cpuCount"], &info["memoryMB"]), (&json!(1), &json!(300)), "{info}");
    let metrics = server.http.api(Method::GET, &format!("{path}/metrics"), None).await.json();
    assert_eq!((&metrics[0]["cpuCount"], &metrics[0]["memTotal"]), (&json!(1), &json!(300 * MIB)), "{metrics}");
}

#[tokio::test]
async fn limits_that_nothing_could_live_with_are_refused() {
    let builder = oncebox_local::LocalServer::builder;
    for (built, option) in [
        (builder().cpus(0.0), "cpus"),
        (builder().cpus(f64::NAN), "cpus"),
        (builder().memory(1), "memory"),
        (builder().pids(3), "pids"),
    ] {
        match built.start().await {
            Err(StartError::Limit { option: named, .. }) => assert_eq!(named, option),
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn with_the_machines_network_the_server_is_reached_and_a_promise_of_none_is_refused() {
    let test = "with_the_machines_network_the_server_is_reached_and_a_promise_of_none_is_refused";
    if !python(test) {
        return;
    }
    let Some(server) = isolated_with(test, |builder| builder.network(Network::Host)).await else { return };
    let sandbox = server.sandbox().await;
    let port = server.server.addr().port();
    let reach = format!("/usr/bin/python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", {port}), 5)'");
    assert_eq!(sandbox.run(&reach).await.code(), 0);
    assert_eq!(sandbox.run("id -u; ls /proc | grep -c '^[0-9]'").await.text().lines().next(), Some("0"));
    let none = json!({ "templateID": "base", "allow_internet_access": false });
    let reply = server.http.api(Method::POST, "/v2/sandboxes", Some(none)).await;
    assert!(reply.error(400).contains("allow_internet_access"));

    let Some(server) = isolated(test).await else { return };
    assert_ne!(
        server.sandbox().await.run(&reach).await.code(),
        0,
        "the other server's port, from a network of its own"
    );
}

/// What a sandbox sees of a part of the machine: equal to what this process sees, or not.
const SEEN: [(&str, &str); 3] = [("processes", "pid"), ("files", "mnt"), ("network", "net")];

#[tokio::test]
async fn what_is_explained_is_what_a_sandbox_sees() {
    let test = "what_is_explained_is_what_a_sandbox_sees";
    let own = |name: &str| std::fs::read_link(format!("/proc/self/ns/{name}")).unwrap().display().to_string();
    for network in [Network::None, Network::Host] {
        let Some(server) = isolated_with(test, |builder| builder.network(network)).await else { return };
        let told = oncebox_local::LocalServer::builder().helper(super::support::helper()).network(network);
        let told = told.explain().await.unwrap();
        assert!(told.starts && told.problem.is_none(), "{told:?}");
        let isolated = |name: &str| told.parts.iter().find(|part| part.name == name).unwrap().isolated;
        let sandbox = server.sandbox().await;
        for (part, namespace) in SEEN {
            let output = sandbox.run(&format!("readlink /proc/self/ns/{namespace}")).await;
            assert_eq!(isolated(part), output.text().trim() != own(namespace), "{part} {network:?}");
        }
        assert_eq!(isolated("egress"), network == Network::None);
        assert!(!isolated("cpu") && !isolated("disk") && !isolated("kernel"), "{told:?}");
    }
    let server = plain().await;
    let output = server.sandbox().await.run("readlink /proc/self/ns/mnt").await;
    assert_eq!(output.text().trim(), own("mnt"));
    let told = oncebox_local::LocalServer::builder()
        .helper(super::support::helper())
        .isolation(oncebox_local::Isolation::None)
        .explain()
        .await
        .unwrap();
    assert!(told.starts && told.parts.iter().all(|part| !part.isolated || ["memory", "pids"].contains(&part.name)));
}
