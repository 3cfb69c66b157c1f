//! Scripted peers for the tests of this crate, and many calls at once.

#![allow(dead_code, unreachable_pub)] // Each test binary uses its part.

pub mod load;
pub mod proxies;
pub mod world;

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// A server whose connections are handled by a closure that is told the connection's number, from 0.
pub struct Peer {
    pub address: SocketAddr,
    connections: Arc<AtomicUsize>,
    task: tokio::task::JoinHandle<()>,
}

impl Peer {
    pub async fn start<F, Fut>(handle: F) -> Self
    where
        F: Fn(usize, TcpStream) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let connections = Arc::new(AtomicUsize::new(0));
        let counted = connections.clone();
        let task = tokio::spawn(async move {
            loop {
                let (socket, _) = listener.accept().await.unwrap();
                tokio::spawn(handle(counted.fetch_add(1, Ordering::SeqCst), socket));
            }
        });
        Self { address, connections, task }
    }

    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Reads one HTTP/1.1 request, its body by Content-Length. `None`: the client closed the connection.
pub async fn read_request(socket: &mut TcpStream) -> Option<String> {
    let mut bytes = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head
                .lines()
                .find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse::<usize>().ok())
                .unwrap_or(0);
            if body.len() >= length {
                return Some(text);
            }
        }
        if socket.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    }
}

pub async fn answer(socket: &mut TcpStream, text: &str) {
    let _ = socket.write_all(text.as_bytes()).await;
}

pub const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

/// HTTP/2 frames, written by hand.
pub mod frames {
    use super::*;

    pub const DATA: u8 = 0;
    pub const HEADERS: u8 = 1;
    pub const RST_STREAM: u8 = 3;
    pub const SETTINGS: u8 = 4;
    pub const PING: u8 = 6;
    pub const GOAWAY: u8 = 7;
    pub const ACK: u8 = 1;
    pub const END_STREAM: u8 = 1;
    pub const END_HEADERS: u8 = 4;

    /// `:status: 200` from HPACK's static table.
    const STATUS_200: u8 = 0x88;

    /// `:status: 103`: the name from the table, the value as it is.
    const STATUS_103: [u8; 5] = *b"\x08\x03103";

    #[derive(Debug)]
    pub struct Frame {
        pub kind: u8,
        pub flags: u8,
        pub stream: u32,
        pub payload: Vec<u8>,
    }

    pub async fn accept(socket: &mut (impl AsyncRead + AsyncWrite + Unpin), settings: &[u8]) {
        let mut preface = [0; 24];
        socket.read_exact(&mut preface).await.unwrap();
        write(socket, SETTINGS, 0, 0, settings).await;
    }

    pub async fn write(socket: &mut (impl AsyncWrite + Unpin), kind: u8, flags: u8, stream: u32, payload: &[u8]) {
        let mut frame = (payload.len() as u32).to_be_bytes()[1..].to_vec();
        frame.extend([kind, flags]);
        frame.extend(stream.to_be_bytes());
        frame.extend(payload);
        let _ = socket.write_all(&frame).await;
    }

    pub async fn read(socket: &mut (impl AsyncRead + Unpin)) -> Option<Frame> {
        let mut head = [0; 9];
        socket.read_exact(&mut head).await.ok()?;
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
        let mut payload = vec![0; length];
        socket.read_exact(&mut payload).await.ok()?;
        let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
        Some(Frame { kind: head[3], flags: head[4], stream, payload })
    }

    /// The stream of the next request. Acknowledges nothing: the client does not insist.
    pub async fn next_request(socket: &mut (impl AsyncRead + Unpin)) -> Option<u32> {
        loop {
            let frame = read(socket).await?;
            if frame.kind == HEADERS {
                return Some(frame.stream);
            }
        }
    }

    pub async fn ok(socket: &mut TcpStream, stream: u32) {
        write(socket, HEADERS, END_STREAM | END_HEADERS, stream, &[STATUS_200]).await;
    }

    pub async fn early_hints(socket: &mut (impl AsyncWrite + Unpin), stream: u32) {
        write(socket, HEADERS, END_HEADERS, stream, &STATUS_103).await;
    }

    /// Returns once the client has read all that was written before.
    pub async fn until_read(socket: &mut (impl AsyncRead + AsyncWrite + Unpin)) {
        write(socket, PING, 0, 0, &[7; 8]).await;
        while !matches!(read(socket).await, None | Some(Frame { kind: PING, flags: ACK, .. })) {}
    }

    pub async fn reset(socket: &mut (impl AsyncWrite + Unpin), stream: u32, code: u32) {
        write(socket, RST_STREAM, 0, stream, &code.to_be_bytes()).await;
    }

    pub async fn goaway(socket: &mut (impl AsyncWrite + Unpin), last: u32, code: u32, debug: &[u8]) {
        let mut payload = last.to_be_bytes().to_vec();
        payload.extend(code.to_be_bytes());
        payload.extend(debug);
        write(socket, GOAWAY, 0, 0, &payload).await;
    }
}
