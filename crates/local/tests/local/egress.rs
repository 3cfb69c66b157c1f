//! The way out of a sandbox, by `pasta`. The machine's network is one that the test makes, in namespaces of its own: with an
//! interface that leads nowhere, and a service at an address that is this machine's and not a sandbox's.

use std::net::{TcpListener, TcpStream};
use std::process::Command;

use http::Method;
use oncebox_local::{LocalServer, Network};
use serde_json::json;

use super::support::{Http, Sandbox, eventually, helper};

/// Where the service is.
const SERVICE: &str = "198.51.100.7";
const GATEWAY: &str = "192.0.2.1";
const MAKE: &str = "ip link set lo up && ip addr add 198.51.100.7/32 dev lo && ip link add d0 type bridge && \
                    ip addr add 192.0.2.9/24 dev d0 && ip link set d0 up && ip route add default via 192.0.2.1 dev d0";

/// Runs the process of that name, which is this very program, in the network that the test makes; `false` if that cannot be.
fn in_a_network(test: &str, process: &str) -> bool {
    let inside = |script: String| {
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "--net", "--", "sh", "-c", &script]);
        command
    };
    let made = inside(MAKE.to_owned()).output().is_ok_and(|output| output.status.success());
    let pasta = Command::new("pasta").arg("--version").output().is_ok();
    if !made || !pasta {
        println!("SKIP {test}: it needs pasta, and unshare, ip and a bridge in a namespace");
        return false;
    }
    let this = std::env::current_exe().unwrap();
    let script = format!("{MAKE} && exec '{}' --ignored --exact egress::{process} --nocapture", this.display());
    let output = inside(script).output().unwrap();
    assert!(
        output.status.success(),
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    true
}

/// Whether a sandbox reaches an address.
async fn reaches(sandbox: &Sandbox, host: &str, port: u16) -> bool {
    let connect = format!("exec 3<>/dev/tcp/{host}/{port} && read -r line <&3 && echo \"$line\"");
    let script = format!("timeout 5 bash -c '{connect}'");
    sandbox.run(&script).await.text() == "hello\n"
}

/// Says hello to everybody.
fn service(host: &str) -> u16 {
    let listener = TcpListener::bind((host, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for connection in listener.incoming() {
            let mut connection: TcpStream = connection.unwrap();
            let _ = std::io::Write::write_all(&mut connection, b"hello\n");
        }
    });
    port
}

/// How many `pasta` run for servers of this process: each is a child of a helper, which is a child of ours.
fn pastas() -> usize {
    let parent = |pid: u32| -> Option<u32> {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        status.lines().find_map(|line| line.strip_prefix("PPid:"))?.trim().parse().ok()
    };
    let is_pasta = |pid: &u32| {
        std::fs::read_to_string(format!("/proc/{pid}/cmdline")).is_ok_and(|line| {
            line.contains("--config-net") && parent(*pid).and_then(parent) == Some(std::process::id())
        })
    };
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter(is_pasta).count()
}

#[test]
fn a_sandbox_reaches_the_network_and_not_this_machine() {
    in_a_network("a_sandbox_reaches_the_network_and_not_this_machine", "a_process_in_a_network");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "a process that another test starts"]
async fn a_process_in_a_network() {
    let base = tempfile::tempdir().unwrap();
    let builder = LocalServer::builder().helper(helper()).state_base(base.path().join("state"));
    assert_eq!(builder.clone().available_network().await.unwrap(), Ok(Network::Egress));
    let server = builder.network(Network::Egress).start().await.unwrap();
    let http = Http::new(server.url());
    let (port, local) = (service(SERVICE), service("127.0.0.1"));

    let (one, two) =
        tokio::join!(http.create(json!({"templateID": "base"})), http.create(json!({"templateID": "base"})));
    assert!(reaches(&one, SERVICE, port).await && reaches(&two, SERVICE, port).await);
    // By no name of this machine's: not its loopback address, not its own, and not the gateway's, which pasta can make one.
    for host in ["127.0.0.1", "192.0.2.9", GATEWAY] {
        assert!(!reaches(&one, host, local).await, "{host}");
        let control = format!("timeout 3 bash -c 'exec 3<>/dev/tcp/{host}/{}'", server.addr().port());
        assert_ne!(one.run(&control).await.code(), 0, "the control plane at {host}");
    }
    let closed = http.create(json!({"templateID": "base", "allow_internet_access": false})).await;
    assert!(!reaches(&closed, SERVICE, port).await);
    let denied = json!({"templateID": "base", "network": {"denyOut": ["10.0.0.0/8"]}});
    assert!(!reaches(&http.create(denied).await, SERVICE, port).await, "less than all is none");

    let path = format!("/sandboxes/{}/network", one.id);
    for (rules, reached) in [
        (json!({"denyOut": ["0.0.0.0/0"]}), false),
        (json!({}), true),
        (json!({"allow_internet_access": false}), false),
    ] {
        let reply = http.api(Method::PUT, &path, Some(rules.clone())).await;
        assert_eq!(reply.status, 204, "{reply:?}");
        assert_eq!(reaches(&one, SERVICE, port).await, reached, "{rules}");
    }
    assert!(reaches(&two, SERVICE, port).await, "another sandbox's");

    // Paused without memory and resumed.
    let pause = http.api(Method::POST, &format!("/sandboxes/{}/pause", two.id), Some(json!({"memory": false}))).await;
    assert_eq!(pause.status, 204, "{pause:?}");
    eventually("no pasta of a paused sandbox", || pastas() == 0).await;
    let resumed = http.api(Method::POST, &format!("/sandboxes/{}/connect", two.id), Some(json!({"timeout": 60}))).await;
    assert_eq!(resumed.status, 201, "{resumed:?}");
    assert!(reaches(&two, SERVICE, port).await);

    assert_eq!(pastas(), 1);
    server.stop().await;
    eventually("no pasta of a stopped server", || pastas() == 0).await;
}
