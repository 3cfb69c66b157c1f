//! `oncebox probe` from outside: proxies, certificates and sockets.

#![allow(clippy::unwrap_used)] // A test panics when it fails.

use std::process::{Command, Stdio};

use oncebox_faults::{Script, Server};
use tokio::runtime::Runtime;

/// A server, and what runs it.
fn serve(tls: bool) -> (Runtime, Server) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let builder = Server::builder(Script::new());
    let server = runtime.block_on(if tls { builder.tls() } else { builder }.start()).unwrap();
    (runtime, server)
}

/// Exit code, and all that was printed.
fn probe(args: &[&str], environment: &[(&str, &str)]) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_oncebox"));
    command.arg("probe").args(args).args(["--connection-retries", "0"]).stdin(Stdio::null());
    for name in ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR", "RUST_LOG"] {
        command.env_remove(name).env_remove(name.to_lowercase());
    }
    let output = command.envs(environment.iter().copied()).output().unwrap();
    let printed = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    (output.status.code(), printed)
}

#[test]
fn a_private_authority_is_trusted_by_option_and_by_environment() {
    let (_runtime, server) = serve(true);
    let folder = tempfile::tempdir().unwrap();
    let ca = folder.path().join("ca.pem");
    std::fs::write(&ca, server.ca_pem().unwrap()).unwrap();
    let (url, ca) = (server.url("/"), ca.to_str().unwrap());
    assert_eq!(probe(&[&url, "--ca", ca], &[]).0, Some(0));
    assert_eq!(probe(&[&url], &[("SSL_CERT_FILE", ca)]).0, Some(0));
    let (code, printed) = probe(&[&url], &[]);
    assert_eq!(code, Some(3), "{printed}");
    assert!(printed.contains("not sent (tls)"), "{printed}");
}

#[test]
fn a_client_certificate_is_read_and_checked_before_anything_is_sent() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("no.pem");
    std::fs::write(&file, "none").unwrap();
    let file = file.to_str().unwrap();
    let (code, printed) = probe(&["https://127.0.0.1:1/", "--cert", file, "--key", file], &[]);
    assert!(code == Some(2) && printed.contains("no certificate in PEM form"), "{code:?} {printed}");
    assert_eq!(probe(&["https://127.0.0.1:1/", "--cert", file], &[]).0, Some(2));
}

/// A server is asked as if it were a proxy: what comes is in absolute form, and answered all the same.
#[test]
fn a_proxy_is_taken_from_the_option_and_else_from_the_environment() {
    let (_runtime, server) = serve(false);
    let (proxy, target) = (server.url(""), "http://service.test/");
    assert_eq!(probe(&[target, "--proxy", &proxy], &[]).0, Some(0));
    assert_eq!(probe(&[target], &[("HTTP_PROXY", &proxy)]).0, Some(0));
    assert_eq!(probe(&[target, "--proxy", &proxy], &[("http_proxy", "http://127.0.0.1:1")]).0, Some(0));
    assert_eq!(server.log().totals().heads, 3);
    // Past the proxy, there is no such host.
    for (args, environment) in [
        (&[target, "--no-proxy"][..], &[("HTTP_PROXY", proxy.as_str())][..]),
        (&[target], &[("HTTP_PROXY", &proxy), ("NO_PROXY", "service.test")]),
    ] {
        let (code, printed) = probe(args, environment);
        assert!(code == Some(3) && printed.contains("not sent (dns)"), "{code:?} {printed}");
    }
    // This host needs none.
    assert_eq!(probe(&[&server.url("/")], &[("ALL_PROXY", "http://127.0.0.1:1")]).0, Some(0));
}

#[test]
fn whoever_logs_in_to_a_proxy_is_never_printed() {
    let (_runtime, server) = serve(false);
    let address = server.addr();
    let login = format!("http://somebody:hunter2@{address}");
    // "somebody:hunter2" as a header has it.
    let secrets = ["hunter2", "somebody", "c29tZWJvZHk6aHVudGVyMg"];
    let wrong = login.replace("http:", "ftp:");
    let log = ("RUST_LOG", "trace");
    for (args, environment, code) in [
        (&["http://service.test/", "--proxy", &login][..], &[log][..], 0),
        (&["http://service.test/"], &[log, ("HTTP_PROXY", &login)], 0),
        (&["https://service.test/", "--proxy", &login], &[log], 3),
        (&["http://service.test/", "--proxy", &wrong], &[log], 2),
        (&["http://service.test/"], &[log, ("HTTP_PROXY", &wrong)], 3),
    ] {
        let (got, printed) = probe(args, environment);
        assert_eq!(got, Some(code), "{printed}");
        for secret in secrets {
            assert!(!printed.contains(secret), "{secret}: {printed}");
        }
    }
}

#[cfg(unix)]
#[test]
fn a_unix_socket_is_connected_to_whatever_the_url_says() {
    use std::io::{Read, Write};
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
    let server = std::thread::spawn(move || {
        let (mut socket, _) = listener.accept().unwrap();
        let mut head = [0; 4096];
        let read = socket.read(&mut head).unwrap();
        socket.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").unwrap();
        String::from_utf8_lossy(&head[..read]).into_owned()
    });
    assert_eq!(probe(&["http://some.name/x", "--unix-socket", path.to_str().unwrap()], &[]).0, Some(0));
    let head = server.join().unwrap();
    assert!(head.starts_with("GET /x HTTP/1.1\r\n") && head.contains("host: some.name"), "{head}");
}
