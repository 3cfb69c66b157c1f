//! Programs that listen inside a sandbox, reached through the server.

use http::Method;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::support::{Events, Fixture, Sandbox, isolated, plain};

/// Answers every request with its name and what it got; changes to an echo of bytes when asked to.
const SERVER: &str = r#"
import http.server, sys
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        if self.headers.get("Upgrade") == "echo":
            self.send_response(101); self.send_header("Connection", "Upgrade"); self.send_header("Upgrade", "echo")
            self.end_headers(); self.wfile.flush()
            while True:
                data = self.rfile.read1(1000)
                if not data: break
                self.wfile.write(data.upper()); self.wfile.flush()
            self.close_connection = True
            return
        if self.path == "/stream":
            self.send_response(200); self.send_header("Transfer-Encoding", "chunked"); self.end_headers()
            for part in (b"first", b"second"):
                self.wfile.write(b"%x\r\n%s\r\n" % (len(part), part)); self.wfile.flush()
            self.wfile.write(b"0\r\n\r\n")
            return
        names = sorted(name.lower() for name in self.headers if name.lower().startswith(("e2b", "x-")))
        self.answer("%s %s %s %s" % (sys.argv[2], self.path, self.headers["Host"], ",".join(names)))
    def do_POST(self):
        size = 0
        if self.headers.get("Transfer-Encoding") == "chunked":
            while (length := int(self.rfile.readline(), 16)) > 0:
                size += len(self.rfile.read(length)); self.rfile.readline()
            self.rfile.readline()
        else:
            size = len(self.rfile.read(int(self.headers["Content-Length"])))
        self.answer("%s got %d" % (sys.argv[2], size))
    def answer(self, text):
        body = text.encode()
        self.send_response(200); self.send_header("Content-Length", str(len(body))); self.end_headers()
        self.wfile.write(body)
    def log_message(self, *_): pass
server = http.server.ThreadingHTTPServer((sys.argv[3], int(sys.argv[1])), Handler)
print(server.server_port, flush=True)
server.serve_forever()
"#;

const PYTHON: &str = "/usr/bin/python3";

/// Starts the server in the sandbox; the port it listens on.
async fn serve(sandbox: &Sandbox, port: u16, name: &str, address: &str) -> (u16, Events) {
    let args = json!(["-c", SERVER, port.to_string(), name, address]);
    let (_, mut events) = sandbox.start(json!({ "process": { "cmd": PYTHON, "args": args } }), &[]).await;
    let line = String::from_utf8(events.next_output().await).unwrap();
    (line.trim().parse().unwrap(), events)
}

async fn with_python(test: &str) -> Option<Fixture> {
    if !std::path::Path::new(PYTHON).exists() {
        println!("SKIP {test}: there is no {PYTHON}");
        return None;
    }
    isolated(test).await
}

#[tokio::test]
async fn two_sandboxes_serve_on_the_same_port() {
    let Some(server) = with_python("two_sandboxes_serve_on_the_same_port").await else { return };
    let (one, other) = (server.sandbox().await, server.sandbox().await);
    let (_, _first) = serve(&one, 3000, "one", "127.0.0.1").await;
    let (_, _second) = serve(&other, 3000, "other", "0.0.0.0").await;
    for (sandbox, name) in [(&one, "one"), (&other, "other")] {
        let host = format!("3000-{}.localhost:{}", sandbox.id, server.server.addr().port());
        for http in [server.http.clone(), server.http.h2c()] {
            let by_headers = [("e2b-sandbox-id", sandbox.id.as_str()), ("e2b-sandbox-port", "3000")];
            let reply = http.send(Method::GET, "/a?b=c", &by_headers, "").await;
            assert_eq!(reply.status, 200, "{reply:?}");
            let text = String::from_utf8_lossy(&reply.body);
            assert!(text.starts_with(&format!("{name} /a?b=c ")) && !text.contains("e2b"), "{text}");
        }
        // As `get_host` says.
        let reply = server.http.send(Method::GET, "/", &[("host", host.as_str())], "").await;
        assert_eq!(reply.body, format!("{name} / {host} "));
    }
    let routed = [("e2b-sandbox-id", one.id.as_str()), ("e2b-sandbox-port", "3000")];
    let reply = server.http.send(Method::POST, "/", &routed, vec![b'x'; 3_000_000]).await;
    assert_eq!(reply.body, "one got 3000000");
    assert_eq!(server.http.send(Method::GET, "/stream", &routed, "").await.body, "firstsecond");
    // Nobody else's port.
    assert_ne!(one.run("curl -s -m 2 http://127.0.0.1:49983/health").await.code(), 0);
}

#[tokio::test]
async fn a_port_of_the_other_address_family_is_found() {
    let Some(server) = with_python("a_port_of_the_other_address_family_is_found").await else { return };
    if !std::path::Path::new("/proc/net/if_inet6").exists() {
        println!("SKIP a_port_of_the_other_address_family_is_found: this machine has no IPv6");
        return;
    }
    let sandbox = server.sandbox().await;
    let script = "import http.server, socket\nclass S(http.server.HTTPServer): address_family = socket.AF_INET6\n\
                  s = S(('::1', 8080), http.server.SimpleHTTPRequestHandler)\nprint('ready', flush=True)\ns.serve_forever()";
    let python = json!({ "process": { "cmd": PYTHON, "args": ["-c", script] } });
    let (_, mut events) = sandbox.start(python, &[]).await;
    assert_eq!(events.next_output().await, b"ready\n");
    let routed = [("e2b-sandbox-id", sandbox.id.as_str()), ("e2b-sandbox-port", "8080")];
    assert_eq!(server.http.send(Method::GET, "/", &routed, "").await.status, 200);
}

#[tokio::test]
async fn a_connection_that_changes_its_protocol_is_relayed_both_ways() {
    let Some(server) = with_python("a_connection_that_changes_its_protocol_is_relayed_both_ways").await else { return };
    let sandbox = server.sandbox().await;
    let (_, _events) = serve(&sandbox, 8000, "echo", "127.0.0.1").await;
    let mut connection = TcpStream::connect(server.server.addr()).await.unwrap();
    let head = format!(
        "GET /socket HTTP/1.1\r\nHost: 8000-{}.localhost\r\nConnection: keep-alive, Upgrade\r\nUpgrade: echo\r\n\r\n",
        sandbox.id
    );
    connection.write_all(head.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\n") {
        answer.push(connection.read_u8().await.unwrap());
    }
    let answer = String::from_utf8(answer).unwrap().to_lowercase();
    assert!(answer.starts_with("http/1.1 101 ") && answer.contains("\r\nupgrade: echo\r\n"), "{answer}");
    for word in ["hello", "again"] {
        connection.write_all(word.as_bytes()).await.unwrap();
        let mut echo = [0; 5];
        connection.read_exact(&mut echo).await.unwrap();
        assert_eq!(echo, *word.to_uppercase().as_bytes());
    }
    connection.shutdown().await.unwrap();
    assert_eq!(connection.read_to_end(&mut Vec::new()).await.unwrap(), 0);
}

#[tokio::test]
async fn a_port_nobody_listens_on_says_so_in_the_words_clients_look_for() {
    let Some(server) = isolated("a_port_nobody_listens_on_says_so_in_the_words_clients_look_for").await else { return };
    let sandbox = server.sandbox().await;
    let routed = [("e2b-sandbox-id", sandbox.id.as_str()), ("e2b-sandbox-port", "3000")];
    let reply = server.http.send(Method::GET, "/", &routed, "").await;
    assert_eq!(reply.error(502), "The sandbox is running but port is not open");
    let body = reply.json();
    assert_eq!((body["sandboxId"].as_str(), body["port"].as_u64()), (Some(sandbox.id.as_str()), Some(3000)));
    server.http.api(Method::DELETE, &format!("/sandboxes/{}", sandbox.id), None).await;
    let reply = server.http.send(Method::GET, "/", &routed, "").await;
    assert_eq!(reply.error(502), "The sandbox was not found");
    assert_eq!(reply.json()["sandboxId"], sandbox.id.as_str());
}

#[tokio::test]
async fn without_isolation_the_servers_own_port_is_no_circle() {
    let server = plain().await;
    let sandbox = server.sandbox().await;
    let port = server.server.addr().port();
    let host = format!("{port}-{}.localhost:{port}", sandbox.id);
    let reply = server.http.send(Method::GET, "/health", &[("host", host.as_str())], "").await;
    assert!(reply.status.as_u16() < 500, "{reply:?}");
}

#[tokio::test]
async fn the_code_interpreter_says_what_it_needs() {
    let test = "the_code_interpreter_says_what_it_needs";
    let has_it = std::process::Command::new(PYTHON).args(["-c", "import ipykernel"]).output();
    if has_it.is_ok_and(|output| output.status.success()) {
        println!("SKIP {test}: {PYTHON} has ipykernel");
        return;
    }
    let Some(server) = isolated(test).await else { return };
    let sandbox = server.sandbox().await;
    let routed =
        [("e2b-sandbox-id", sandbox.id.as_str()), ("e2b-sandbox-port", "49999"), ("content-type", "application/json")];
    let run = server.http.send(Method::POST, "/execute", &routed, r#"{"code":"1"}"#).await;
    let message = run.error(501);
    assert!(message.starts_with("Unsupported") && message.contains("ipykernel"), "{message}");
    assert_eq!(server.http.send(Method::GET, "/contexts", &routed, "").await.json(), json!([]));
    server.http.send(Method::POST, "/execute", &routed, "{").await.error(400);
    server.http.send(Method::DELETE, "/contexts/none", &routed, "").await.error(404);
    server.http.send(Method::GET, "/nowhere", &routed, "").await.error(404);
    // A program of the sandbox comes first.
    if std::path::Path::new(PYTHON).exists() {
        let (_, _events) = serve(&sandbox, 49999, "own", "127.0.0.1").await;
        assert!(server.http.send(Method::GET, "/", &routed, "").await.body.starts_with(b"own / "));
    }
}

#[tokio::test]
async fn a_python_that_cannot_be_the_code_interpreter_is_refused_at_the_start() {
    let base = tempfile::tempdir().unwrap();
    let start = oncebox_local::LocalServer::builder()
        .helper(super::support::helper())
        .state_base(base.path().join("state"))
        .code_interpreter("/no/such/python")
        .start();
    let error = start.await.unwrap_err().to_string();
    assert!(error.contains("/no/such/python") && error.contains("code_interpreter"), "{error}");
}

/// A Python of which the interpreter sees no difference: it starts when the file `gate` is there, one at a time, says each line
/// again that it is asked to run, and ends when one says so.
fn python(folder: &std::path::Path) -> std::path::PathBuf {
    use std::os::unix::fs::PermissionsExt;
    let at = |name: &str| folder.join(name).display().to_string();
    let script = format!(
        r#"#!/bin/sh
case "$2" in *"json.dumps([sys.prefix"*) echo '["/usr", "/usr"]'; exit;; esac
mkdir '{starting}' || exit 1
until [ -e '{gate}' ]; do sleep 0.02; done
rmdir '{starting}'
echo '{{"type":"done"}}'
while read -r line; do
    echo '{{"type":"stdout","text":"ran","timestamp":1}}'
    echo '{{"type":"done"}}'
    case "$line" in *die*) exit;; esac
done
"#,
        starting = at("starting"),
        gate = at("gate")
    );
    let file = folder.join("python");
    std::fs::write(&file, script).unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
    file
}

#[tokio::test]
async fn a_kernel_starts_whoever_leaves_and_one_that_ended_is_replaced_by_one_that_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let python = python(folder.path());
    let server = super::support::plain_with(|builder| builder.code_interpreter(python)).await;
    let sandbox = server.sandbox().await;
    let routed =
        [("e2b-sandbox-id", sandbox.id.as_str()), ("e2b-sandbox-port", "49999"), ("content-type", "application/json")];
    let execute = async |code: &str| {
        let body = json!({ "code": code }).to_string();
        let reply = server.http.send(Method::POST, "/execute", &routed, body).await;
        assert_eq!(reply.status, 200, "{reply:?}");
        String::from_utf8(reply.body.to_vec()).unwrap()
    };
    // Somebody leaves while the first kernel starts.
    let mut leaves = TcpStream::connect(server.server.addr()).await.unwrap();
    let head = format!(
        "POST /execute HTTP/1.1\r\nHost: localhost\r\nE2b-Sandbox-Id: {}\r\nE2b-Sandbox-Port: 49999\r\nContent-Type: \
         application/json\r\nContent-Length: 12\r\n\r\n{{\"code\":\"1\"}}",
        sandbox.id
    );
    leaves.write_all(head.as_bytes()).await.unwrap();
    super::support::eventually("it starts", || folder.path().join("starting").exists()).await;
    drop(leaves);
    let opens = async {
        // Long enough for one that would start beside it.
        tokio::time::sleep(std::time::Duration::from_millis(500)).await;
        std::fs::write(folder.path().join("gate"), "").unwrap();
    };
    let (ran, ()) = tokio::join!(execute("1"), opens);
    assert!(ran.contains("ran") && !ran.contains("had ended"), "{ran}");
    let contexts = server.http.send(Method::GET, "/contexts", &routed, "").await.json();
    assert_eq!(contexts.as_array().unwrap().len(), 1, "{contexts}");

    execute("die").await;
    let mut told = String::new();
    for _ in 0..500 {
        // Until it is seen that it has ended, what runs there breaks off.
        let body = json!({ "code": "1" }).to_string();
        let answer = server.http.stream(Method::POST, "/execute", &routed, body).await;
        if let Ok(whole) = http_body_util::BodyExt::collect(answer.into_body()).await {
            told = String::from_utf8(whole.to_bytes().to_vec()).unwrap();
            if told.contains("had ended") {
                break;
            }
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    assert!(told.contains("had ended") && told.contains("ran"), "{told}");
    assert!(!execute("1").await.contains("had ended"));
    let contexts = server.http.send(Method::GET, "/contexts", &routed, "").await.json();
    assert_eq!(contexts.as_array().unwrap().len(), 1, "{contexts}");
}
