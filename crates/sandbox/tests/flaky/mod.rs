//! Stands between a client and an HTTP/1.1 server: cuts what is long, hides headers, stores half. One request a connection.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// How it behaves.
#[derive(Clone, Default)]
pub(crate) struct Manner {
    /// Cuts an answer to `GET /files` after so many bytes of its body.
    pub(crate) cut_downloads_after: Option<usize>,
    /// Cuts a request to `POST /files` after so many bytes of its body.
    pub(crate) cut_uploads_after: Option<usize>,
    /// No more cuts than these.
    pub(crate) cuts_left: Option<usize>,
    /// Headers of answers that do not get through.
    pub(crate) hidden: Vec<&'static str>,
    /// Passes half of an upload's body on.
    pub(crate) stores_half: bool,
    /// Knows no `/files/compose`.
    pub(crate) no_compose: bool,
    /// Joins parts, and does not say so.
    pub(crate) loses_compose: bool,
}

pub(crate) struct Flaky {
    pub(crate) url: String,
    shared: Arc<Shared>,
}

struct Shared {
    server: String,
    manner: Mutex<Manner>,
    cuts: AtomicUsize,
    requests: AtomicUsize,
}

impl Flaky {
    pub(crate) async fn start(server: &str, manner: Manner) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let server = server.trim_start_matches("http://").trim_end_matches('/').to_owned();
        let shared = Shared { server, manner: Mutex::new(manner), cuts: 0.into(), requests: 0.into() };
        let shared = Arc::new(shared);
        let kept = Arc::clone(&shared);
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                let shared = Arc::clone(&kept);
                tokio::spawn(async move { drop(pass(socket, &shared).await) });
            }
        });
        Self { url, shared }
    }

    pub(crate) fn be(&self, manner: Manner) {
        *self.shared.manner.lock().unwrap() = manner;
    }

    pub(crate) fn stop_cutting_after(&self, cuts: usize) {
        self.shared.manner.lock().unwrap().cuts_left = Some(cuts);
    }

    pub(crate) fn cuts(&self) -> usize {
        self.shared.cuts.load(Ordering::SeqCst)
    }

    pub(crate) fn requests(&self) -> usize {
        self.shared.requests.load(Ordering::SeqCst)
    }
}

/// A head, and what came after it.
async fn head(socket: &mut TcpStream) -> std::io::Result<(String, Vec<u8>)> {
    let mut seen = Vec::new();
    loop {
        if let Some(end) = seen.windows(4).position(|w| w == b"\r\n\r\n") {
            let rest = seen.split_off(end + 4);
            return Ok((String::from_utf8_lossy(&seen).into_owned(), rest));
        }
        if socket.read_buf(&mut seen).await? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
    }
}

fn field<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    let line = head.lines().find(|line| line.to_lowercase().starts_with(&format!("{name}:")))?;
    Some(line[name.len() + 1..].trim())
}

/// The head without some of its fields, and with these instead.
fn rewritten(head: &str, without: &[&str], more: &str) -> String {
    let is_out = |line: &str| without.iter().any(|name| line.to_lowercase().starts_with(&format!("{name}:")));
    let lines: Vec<_> = head.trim_end().lines().filter(|line| !is_out(line)).collect();
    format!("{}\r\n{more}connection: close\r\n\r\n", lines.join("\r\n"))
}

async fn pass(mut client: TcpStream, shared: &Shared) -> std::io::Result<()> {
    let (request, mut body) = head(&mut client).await?;
    shared.requests.fetch_add(1, Ordering::SeqCst);
    let mut manner = shared.manner.lock().unwrap().clone();
    let take_cut = || {
        let mut manner = shared.manner.lock().unwrap();
        match &mut manner.cuts_left {
            Some(0) => return false,
            Some(left) => *left -= 1,
            None => {}
        }
        shared.cuts.fetch_add(1, Ordering::SeqCst);
        true
    };
    let line = request.lines().next().unwrap_or_default().to_owned();
    if manner.no_compose && line.contains("/files/compose") {
        return client
            .write_all(b"HTTP/1.1 404 Not Found\r\ncontent-length: 18\r\nconnection: close\r\n\r\n404 page not found")
            .await;
    }
    let mut server = TcpStream::connect(&shared.server).await?;
    let is_upload = line.starts_with("POST /files?");
    if manner.stores_half && is_upload {
        // Read whole: it may be chunked.
        let length = field(&request, "content-length").and_then(|length| length.parse().ok());
        let whole = whole(&mut client, body, length).await?;
        let half = &whole[..whole.len() / 2];
        let more = format!("content-length: {}\r\n", half.len());
        server
            .write_all(rewritten(&request, &["content-length", "transfer-encoding", "connection"], &more).as_bytes())
            .await?;
        server.write_all(half).await?;
        body = Vec::new();
    } else {
        server.write_all(rewritten(&request, &["connection"], "").as_bytes()).await?;
    }
    let mut cut_upload = manner.cut_uploads_after.filter(|_| is_upload);
    server.write_all(&body).await?;
    let mut sent = body.len();
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    // What the client sends and the server answers, at once.
    let upload = async {
        let mut piece = vec![0; 64 << 10];
        loop {
            let n = from_client.read(&mut piece).await?;
            if n == 0 {
                return Ok::<bool, std::io::Error>(false);
            }
            sent += n;
            if cut_upload.take_if(|after| sent > *after).is_some() && take_cut() {
                return Ok(true);
            }
            to_server.write_all(&piece[..n]).await?;
        }
    };
    let download = async {
        let mut seen = Vec::new();
        let end = loop {
            if let Some(end) = seen.windows(4).position(|w: &[u8]| w == b"\r\n\r\n") {
                break end + 4;
            }
            if from_server.read_buf(&mut seen).await? == 0 {
                return Ok::<(), std::io::Error>(());
            }
        };
        if manner.loses_compose && line.contains("/files/compose") && !seen.starts_with(b"HTTP/1.1 4") {
            return Ok(());
        }
        let mut rest = seen.split_off(end);
        let answer = String::from_utf8_lossy(&seen).into_owned();
        manner.hidden.push("connection");
        to_client.write_all(rewritten(&answer, &manner.hidden, "").as_bytes()).await?;
        let mut left = manner.cut_downloads_after.filter(|_| line.starts_with("GET /files?") && answer.contains(" 20"));
        loop {
            if let Some(after) = left {
                let now = rest.len().min(after);
                to_client.write_all(&rest[..now]).await?;
                if now < rest.len() || after == now {
                    if take_cut() {
                        return Ok(());
                    }
                    to_client.write_all(&rest[now..]).await?;
                    left = None;
                } else {
                    left = Some(after - now);
                }
            } else {
                to_client.write_all(&rest).await?;
            }
            rest.clear();
            if from_server.read_buf(&mut rest).await? == 0 {
                return Ok(());
            }
        }
    };
    tokio::pin!(download);
    tokio::select! {
        cut = upload => if !cut? { download.await? },
        done = &mut download => done?,
    }
    Ok(())
}

/// A request's body, however its end is told.
async fn whole(client: &mut TcpStream, mut seen: Vec<u8>, length: Option<usize>) -> std::io::Result<Vec<u8>> {
    if let Some(length) = length {
        while seen.len() < length {
            client.read_buf(&mut seen).await?;
        }
        return Ok(seen);
    }
    while !seen.ends_with(b"0\r\n\r\n") {
        client.read_buf(&mut seen).await?;
    }
    let (mut whole, mut rest) = (Vec::new(), &seen[..]);
    loop {
        let line = rest.windows(2).position(|w| w == b"\r\n").unwrap();
        let size = usize::from_str_radix(std::str::from_utf8(&rest[..line]).unwrap().trim(), 16).unwrap();
        if size == 0 {
            return Ok(whole);
        }
        whole.extend_from_slice(&rest[line + 2..line + 2 + size]);
        rest = &rest[line + 2 + size + 2..];
    }
}
