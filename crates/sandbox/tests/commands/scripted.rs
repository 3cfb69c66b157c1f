//! A sandbox that says exactly what the test wrote, one connection a request.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use oncebox::{Client, Sandbox};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// A request, as far as answers depend on it.
#[derive(Clone, Debug)]
pub struct Asked {
    pub path: String,
    /// How many there were of this path before.
    pub before: usize,
    /// The body's one message.
    pub message: Value,
    pub head: String,
}

pub enum Answer {
    Json(u16, String),
    /// These bytes of a stream, and then the end.
    Stream(Vec<u8>, End),
    /// Nothing at all, for ever.
    Silence,
    /// The connection ends without a byte.
    Hangup,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// As HTTP has it.
    Whole,
    /// In the middle of the body.
    Cut,
    /// Never.
    Hold,
}

/// What was asked, in order.
pub type Log = Arc<Mutex<Vec<Asked>>>;

pub fn frame(json: &str) -> Vec<u8> {
    let mut frame = vec![0];
    frame.extend((json.len() as u32).to_be_bytes());
    frame.extend(json.as_bytes());
    frame
}

pub fn end_frame(json: &str) -> Vec<u8> {
    let mut frame = frame(json);
    frame[0] = 2;
    frame
}

pub fn start(pid: u32) -> Vec<u8> {
    frame(&format!(r#"{{"event":{{"start":{{"pid":{pid}}}}}}}"#))
}

pub fn stdout(bytes: &[u8]) -> Vec<u8> {
    frame(&serde_json::json!({"event": {"data": {"stdout": base64(bytes)}}}).to_string())
}

pub fn exit(code: i32) -> Vec<u8> {
    frame(&format!(r#"{{"event":{{"end":{{"exitCode":{code},"exited":true,"status":"exit status {code}"}}}}}}"#))
}

pub fn whole(frames: &[Vec<u8>]) -> Vec<u8> {
    let mut stream = frames.concat();
    stream.extend(end_frame("{}"));
    stream
}

fn base64(bytes: &[u8]) -> String {
    use base64::Engine;
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

/// A list of processes with their tags.
pub fn processes(list: &[(u32, &str)]) -> Answer {
    let list: Vec<_> =
        list.iter().map(|(pid, tag)| serde_json::json!({"pid": pid, "tag": tag, "config": {"cmd": "a"}})).collect();
    Answer::Json(200, serde_json::json!({"processes": list}).to_string())
}

pub fn not_found() -> Answer {
    Answer::Stream(end_frame(r#"{"error":{"code":"not_found","message":"no such process"}}"#), End::Whole)
}

/// A sandbox whose daemon answers like this, and a log of what it was asked. It is healthy, and its control plane knows it,
/// unless the answers say otherwise by `None` for what is not theirs.
pub async fn sandbox(answer: impl Fn(&Asked) -> Option<Answer> + Send + Sync + 'static) -> (Sandbox, Log) {
    let (client, log) = client(answer, |builder| builder).await;
    (Sandbox::create(&client).await.unwrap(), log)
}

pub async fn client(
    answer: impl Fn(&Asked) -> Option<Answer> + Send + Sync + 'static,
    options: impl FnOnce(oncebox::ClientBuilder) -> oncebox::ClientBuilder,
) -> (Client, Log) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let log = Log::default();
    let served = Arc::clone(&log);
    let answer = Arc::new(answer);
    tokio::spawn(async move {
        let counts: Arc<Mutex<HashMap<String, usize>>> = Arc::default();
        loop {
            let (socket, _) = listener.accept().await.unwrap();
            tokio::spawn(serve(socket, Arc::clone(&answer), Arc::clone(&served), Arc::clone(&counts)));
        }
    });
    let builder = Client::builder().api_key("k").api_url(&url).sandbox_url(&url);
    (options(builder).build().unwrap(), log)
}

/// The paths that were asked for, from the first of the sandbox's own on.
pub fn paths(log: &Log) -> Vec<String> {
    let log = log.lock().unwrap();
    let short = |asked: &Asked| asked.path.rsplit('/').next().unwrap().to_owned();
    log.iter().filter(|asked| asked.path != "/v2/sandboxes").map(short).collect()
}

async fn serve<F>(mut socket: TcpStream, answer: Arc<F>, log: Log, counts: Arc<Mutex<HashMap<String, usize>>>)
where
    F: Fn(&Asked) -> Option<Answer>,
{
    let Some((head, body)) = read(&mut socket).await else { return };
    let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
    let body = if body.first() == Some(&0) { body[5..].to_vec() } else { body };
    let message = serde_json::from_slice(&body).unwrap_or_default();
    let before = {
        let mut counts = counts.lock().unwrap();
        let count = counts.entry(path.clone()).or_default();
        *count += 1;
        *count - 1
    };
    let asked = Asked { path, before, message, head };
    log.lock().unwrap().push(asked.clone());
    let answer = answer(&asked).unwrap_or_else(|| ordinary(&asked));
    match answer {
        Answer::Json(status, body) => {
            let head = format!(
                "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
                body.len()
            );
            let _ = socket.write_all(format!("{head}{body}").as_bytes()).await;
        }
        Answer::Stream(stream, end) => {
            let head =
                "HTTP/1.1 200 OK\r\ncontent-type: application/connect+json\r\ntransfer-encoding: chunked\r\n\r\n";
            let mut bytes = head.as_bytes().to_vec();
            if !stream.is_empty() {
                bytes.extend(format!("{:x}\r\n", stream.len()).into_bytes());
                bytes.extend(&stream);
                bytes.extend(b"\r\n");
            }
            if end == End::Whole {
                bytes.extend(b"0\r\n\r\n");
            }
            let _ = socket.write_all(&bytes).await;
            if end == End::Hold {
                std::future::pending::<()>().await;
            }
        }
        Answer::Silence => std::future::pending().await,
        Answer::Hangup => return,
    }
    let _ = socket.shutdown().await;
    // What the client still sends must not turn the end into a reset.
    let _ = socket.read_to_end(&mut Vec::new()).await;
}

fn ordinary(asked: &Asked) -> Answer {
    let sandbox = r#"{"templateID":"base","sandboxID":"i1","clientID":"c","envdVersion":"0.6.13"}"#;
    match asked.path.as_str() {
        "/v2/sandboxes" => Answer::Json(201, sandbox.to_owned()),
        "/health" => Answer::Json(204, String::new()),
        "/process.Process/List" => Answer::Json(200, "{}".to_owned()),
        "/process.Process/Connect" => not_found(),
        _ => Answer::Json(404, r#"{"code":404,"message":"no such thing"}"#.to_owned()),
    }
}

/// Head and whole body of a request.
async fn read(socket: &mut TcpStream) -> Option<(String, Vec<u8>)> {
    let mut seen = Vec::new();
    let head_end = loop {
        if let Some(at) = seen.windows(4).position(|window| window == b"\r\n\r\n") {
            break at + 4;
        }
        if socket.read_buf(&mut seen).await.ok()? == 0 {
            return None;
        }
    };
    let head = String::from_utf8_lossy(&seen[..head_end]).to_ascii_lowercase();
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length: "))
        .map_or(0, |length| length.trim().parse().unwrap());
    while seen.len() < head_end + length {
        if socket.read_buf(&mut seen).await.ok()? == 0 {
            return None;
        }
    }
    // The path keeps its case.
    let line = String::from_utf8_lossy(&seen[..head_end]).lines().next().unwrap_or_default().to_owned();
    Some((format!("{line}\r\n{head}"), seen[head_end..].to_vec()))
}
