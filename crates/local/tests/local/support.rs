//! A server, a client, and the little of the Connect protocol that tests need.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::{Bytes, BytesMut};
use http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use oncebox_local::{Helper, Isolation, LocalServer, LocalServerBuilder, StartError};
use serde_json::{Value, json};
use tempfile::TempDir;

/// The helper of this build.
pub(crate) fn helper() -> Helper {
    Helper::new(env!("CARGO_BIN_EXE_oncebox-envd"))
}

/// A server with a folder of its own.
pub(crate) struct Fixture {
    pub(crate) server: LocalServer,
    pub(crate) base: TempDir,
    pub(crate) http: Http,
}

/// A server with isolated sandboxes, or `None` and a line that says why not.
pub(crate) async fn isolated(test: &str) -> Option<Fixture> {
    isolated_with(test, |builder| builder).await
}

pub(crate) async fn isolated_with(
    test: &str,
    set_up: impl FnOnce(LocalServerBuilder) -> LocalServerBuilder,
) -> Option<Fixture> {
    match start(set_up).await {
        Ok(fixture) => Some(fixture),
        Err(StartError::IsolationUnavailable { why, .. }) => {
            println!("SKIP {test}: {why}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// A server without isolation. What its sandboxes run, this machine runs.
pub(crate) async fn plain() -> Fixture {
    start(|builder| builder.isolation(Isolation::None)).await.unwrap()
}

/// The same with more set up.
pub(crate) async fn plain_with(set_up: impl FnOnce(LocalServerBuilder) -> LocalServerBuilder) -> Fixture {
    start(|builder| set_up(builder.isolation(Isolation::None))).await.unwrap()
}

async fn start(set_up: impl FnOnce(LocalServerBuilder) -> LocalServerBuilder) -> Result<Fixture, StartError> {
    let base = tempfile::tempdir().unwrap();
    let builder = LocalServer::builder().helper(helper()).state_base(base.path().join("state"));
    let server = set_up(builder).start().await?;
    let http = Http::new(server.url());
    Ok(Fixture { server, base, http })
}

impl Fixture {
    /// A new sandbox.
    pub(crate) async fn sandbox(&self) -> Sandbox {
        self.http.create(json!({ "templateID": "base" })).await
    }
}

/// Where the process that [`serve`] starts keeps its files, and whether it keeps them when it ends.
const SERVE_IN: &str = "ONCEBOX_TEST_SERVE_IN";
const SERVE_KEEPS: &str = "ONCEBOX_TEST_SERVE_KEEPS";

/// A server in a process of its own, to be killed: this very program, told to run [`a_server_to_be_killed`] alone. An example
/// would not do, which is built only if somebody asks for it.
pub(crate) fn serve(folder: &Path, keep: bool) -> (Child, Http) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--ignored", "--exact", "support::a_server_to_be_killed", "--nocapture"])
        .env(SERVE_IN, folder)
        .stdout(Stdio::piped());
    if keep {
        command.env(SERVE_KEEPS, "1");
    }
    let mut child = command.spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let url = lines.filter_map(|line| Some(line.get(line.find("http://")?..)?.to_owned())).next().unwrap();
    (child, Http::new(url))
}

#[tokio::test]
#[ignore = "a process that other tests start"]
async fn a_server_to_be_killed() {
    let Some(folder) = std::env::var_os(SERVE_IN) else { return };
    let builder = LocalServer::builder().helper(helper());
    let builder =
        if std::env::var_os(SERVE_KEEPS).is_some() { builder.state(folder) } else { builder.state_base(folder) };
    let server = builder.start().await.unwrap();
    println!("{}", server.url());
    // Killed long before; a test that fails first does not leave it for good.
    tokio::time::sleep(Duration::from_secs(120)).await;
    server.stop().await;
}

/// A client of one server.
#[derive(Clone)]
pub(crate) struct Http {
    pub(crate) url: String,
    client: Client<HttpConnector, Full<Bytes>>,
}

/// An answer, read whole.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Reply {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// An error answer: a JSON object whose code is the status. Returns its message.
    pub(crate) fn error(&self, status: u16) -> String {
        assert_eq!(self.status.as_u16(), status, "{self:?}");
        let body = self.json();
        assert_eq!(body["code"], status, "{body}");
        body["message"].as_str().unwrap().to_owned()
    }
}

impl Http {
    pub(crate) fn new(url: String) -> Self {
        Self { url, client: Client::builder(TokioExecutor::new()).build_http() }
    }

    /// The same server by HTTP/2 without TLS.
    pub(crate) fn h2c(&self) -> Self {
        let client = Client::builder(TokioExecutor::new()).http2_only(true).build_http();
        Self { url: self.url.clone(), client }
    }

    pub(crate) async fn stream(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> http::Response<Incoming> {
        let mut request = Request::builder().method(method).uri(format!("{}{path}", self.url));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        self.client.request(request.body(Full::new(body.into())).unwrap()).await.unwrap()
    }

    pub(crate) async fn send(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> Reply {
        let response = self.stream(method, path, headers, body).await;
        let (parts, body) = response.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        Reply { status: parts.status, headers: parts.headers, body }
    }

    /// A control-plane request.
    pub(crate) async fn api(&self, method: Method, path: &str, body: Option<Value>) -> Reply {
        let body = body.map(|body| body.to_string()).unwrap_or_default();
        self.send(method, path, &[("x-api-key", "any"), ("content-type", "application/json")], body).await
    }

    /// A control-plane request on a connection of its own; `None` when the connection ended without an answer.
    pub(crate) async fn try_api(&self, method: Method, path: &str, body: Option<Value>) -> Option<Reply> {
        let client: Client<_, Full<Bytes>> = Client::builder(TokioExecutor::new()).build_http();
        let request = Request::builder().method(method).uri(format!("{}{path}", self.url)).header("x-api-key", "any");
        let body = body.map(|body| body.to_string()).unwrap_or_default();
        let response = client.request(request.body(Full::new(body.into())).unwrap()).await.ok()?;
        let (parts, body) = response.into_parts();
        Some(Reply { status: parts.status, headers: parts.headers, body: body.collect().await.ok()?.to_bytes() })
    }

    pub(crate) async fn create(&self, body: Value) -> Sandbox {
        let reply = self.api(Method::POST, "/v2/sandboxes", Some(body)).await;
        assert_eq!(reply.status, 201, "{reply:?}");
        let body = reply.json();
        Sandbox {
            http: self.clone(),
            id: body["sandboxID"].as_str().unwrap().to_owned(),
            token: body["envdAccessToken"].as_str().unwrap().to_owned(),
        }
    }
}

/// A sandbox of a server.
#[derive(Clone)]
pub(crate) struct Sandbox {
    pub(crate) http: Http,
    pub(crate) id: String,
    pub(crate) token: String,
}

/// What a command did.
#[derive(Debug, Default)]
pub(crate) struct Output {
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: Vec<u8>,
    pub(crate) end: Value,
}

impl Output {
    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.stdout).unwrap()
    }

    pub(crate) fn errors(&self) -> &str {
        std::str::from_utf8(&self.stderr).unwrap()
    }

    /// Defaults are left out of JSON.
    pub(crate) fn code(&self) -> i64 {
        self.end["exitCode"].as_i64().unwrap_or(0)
    }
}

impl Sandbox {
    fn headers<'h>(&'h self, more: &[(&'h str, &'h str)]) -> Vec<(&'h str, &'h str)> {
        let mut headers = vec![
            ("e2b-sandbox-id", self.id.as_str()),
            ("e2b-sandbox-port", "49983"),
            ("x-access-token", self.token.as_str()),
        ];
        headers.retain(|(name, _)| more.iter().all(|(other, _)| other != name));
        headers.extend(more.iter().filter(|(_, value)| !value.is_empty()));
        headers
    }

    /// An envd request; headers given here replace the usual ones, and empty ones remove them.
    pub(crate) async fn send(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> Reply {
        self.http.send(method, path, &self.headers(headers), body).await
    }

    /// A unary call: the answer, or the code of the error and its message.
    pub(crate) async fn call(&self, method: &str, body: Value) -> Result<Value, (String, String)> {
        self.call_with(method, &[], body).await
    }

    pub(crate) async fn call_with(
        &self,
        method: &str,
        headers: &[(&str, &str)],
        body: Value,
    ) -> Result<Value, (String, String)> {
        let mut all = vec![("content-type", "application/json"), ("connect-protocol-version", "1")];
        all.extend(headers);
        let reply = self.send(Method::POST, &format!("/{method}"), &all, body.to_string()).await;
        let answer = reply.json();
        if reply.status == 200 { Ok(answer) } else { Err(error_of(&answer)) }
    }

    /// A call that answers with a stream.
    pub(crate) async fn events(&self, method: &str, headers: &[(&str, &str)], body: Value) -> Events {
        let mut all = vec![("content-type", "application/connect+json"), ("connect-protocol-version", "1")];
        all.extend(headers);
        let response =
            self.http.stream(Method::POST, &format!("/{method}"), &self.headers(&all), envelope(&body)).await;
        assert_eq!(response.status(), 200);
        Events { body: response.into_body(), buffer: BytesMut::new(), error: None, ended: false }
    }

    /// Starts a command; the first event is its pid.
    pub(crate) async fn start(&self, request: Value, headers: &[(&str, &str)]) -> (u64, Events) {
        let mut events = self.events("process.Process/Start", headers, request).await;
        let start = events.next().await.unwrap_or_else(|| panic!("{:?}", events.error));
        (start["start"]["pid"].as_u64().unwrap(), events)
    }

    /// Runs a shell script to its end.
    pub(crate) async fn run(&self, script: &str) -> Output {
        self.run_as("user", script).await
    }

    pub(crate) async fn run_as(&self, user: &str, script: &str) -> Output {
        let (_, events) = self.start(shell(script), &[("authorization", &basic(user))]).await;
        events.output().await
    }

    /// The URL of `/files` for a path.
    pub(crate) async fn read(&self, path: &str) -> Reply {
        self.send(Method::GET, &files(path), &[], "").await
    }

    pub(crate) async fn write(&self, path: &str, data: impl Into<Bytes>) -> Reply {
        self.send(Method::POST, &files(path), &[("content-type", "application/octet-stream")], data).await
    }
}

pub(crate) fn files(path: &str) -> String {
    format!("/files?path={}", percent_encoding::utf8_percent_encode(path, percent_encoding::NON_ALPHANUMERIC))
}

pub(crate) fn shell(script: &str) -> Value {
    json!({ "process": { "cmd": "/bin/sh", "args": ["-c", script] }, "stdin": false })
}

pub(crate) fn basic(user: &str) -> String {
    format!("Basic {}", STANDARD.encode(format!("{user}:")))
}

pub(crate) fn envelope(message: &Value) -> Vec<u8> {
    let json = message.to_string().into_bytes();
    let mut bytes = vec![0];
    bytes.extend(u32::try_from(json.len()).unwrap().to_be_bytes());
    bytes.extend(json);
    bytes
}

fn error_of(error: &Value) -> (String, String) {
    (error["code"].as_str().unwrap().to_owned(), error["message"].as_str().unwrap_or_default().to_owned())
}

/// The events of a stream, read as they come.
pub(crate) struct Events {
    body: Incoming,
    buffer: BytesMut,
    /// The error that ended the stream, if one did.
    pub(crate) error: Option<(String, String)>,
    /// Whether the stream ended as the protocol wants it.
    pub(crate) ended: bool,
}

impl Events {
    /// The next event of a process; `None` at the end.
    pub(crate) async fn next(&mut self) -> Option<Value> {
        self.next_message().await.map(|message| message["event"].clone())
    }

    /// The next message; `None` at the end.
    pub(crate) async fn next_message(&mut self) -> Option<Value> {
        loop {
            if self.buffer.len() >= 5 {
                let length = u32::from_be_bytes(self.buffer[1..5].try_into().unwrap()) as usize;
                if self.buffer.len() >= 5 + length {
                    let flags = self.buffer[0];
                    let message = self.buffer.split_to(5 + length);
                    let message: Value = serde_json::from_slice(&message[5..]).unwrap();
                    if flags & 2 == 0 {
                        return Some(message);
                    }
                    self.ended = true;
                    self.error = message.get("error").map(error_of);
                    return None;
                }
            }
            let frame =
                tokio::time::timeout(Duration::from_secs(30), self.body.frame()).await.expect("no event in 30 s");
            match frame {
                Some(frame) => self.buffer.extend_from_slice(&frame.unwrap().into_data().unwrap_or_default()),
                None => return None,
            }
        }
    }

    /// The next event that carries output, with its bytes.
    pub(crate) async fn next_output(&mut self) -> Vec<u8> {
        loop {
            let event = self.next().await.expect("output");
            if let Some((_, bytes)) = data(&event) {
                return bytes;
            }
        }
    }

    /// Everything to the end.
    pub(crate) async fn output(mut self) -> Output {
        let mut output = Output::default();
        while let Some(event) = self.next().await {
            match data(&event) {
                Some(("stdout", bytes)) => output.stdout.extend(bytes),
                Some((_, bytes)) => output.stderr.extend(bytes),
                None if !event["end"].is_null() => output.end = event["end"].clone(),
                None => {}
            }
        }
        assert!(self.ended, "the stream was cut");
        assert_eq!(self.error, None);
        output
    }
}

fn data(event: &Value) -> Option<(&'static str, Vec<u8>)> {
    ["stdout", "stderr"].into_iter().find_map(|stream| {
        let bytes = event["data"][stream].as_str()?;
        Some((stream, STANDARD.decode(bytes).unwrap()))
    })
}

/// Processes of this machine whose command line contains `mark`.
pub(crate) fn processes(mark: &str) -> Vec<String> {
    let own = std::process::id().to_string();
    let pids = std::fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    pids.filter(|pid| pid.bytes().all(|byte| byte.is_ascii_digit()) && *pid != own)
        .filter_map(|pid| std::fs::read(format!("/proc/{pid}/cmdline")).ok())
        .map(|line| String::from_utf8_lossy(&line).replace('\0', " "))
        .filter(|line| line.contains(mark))
        .collect()
}

/// Waits for something to become true.
pub(crate) async fn eventually(what: &str, mut check: impl FnMut() -> bool) {
    for _ in 0..500 {
        if check() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("not within 5 s: {what}");
}

/// A number of seconds to sleep that no other test uses, so that a process can be told by it.
pub(crate) fn mark() -> String {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("9{}{:03}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}
