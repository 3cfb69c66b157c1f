//! A client that is bytes on a socket, so that tests see what was sent and nothing of what a library made of it.

#![allow(dead_code, unreachable_pub)] // Each test binary uses its part.

use std::net::SocketAddr;
use std::time::Duration;

use oncebox_faults::{Script, Server};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

pub const DATA: u8 = 0;
pub const HEADERS: u8 = 1;
pub const RST_STREAM: u8 = 3;
pub const SETTINGS: u8 = 4;
pub const PUSH_PROMISE: u8 = 5;
pub const PING: u8 = 6;
pub const GOAWAY: u8 = 7;
pub const WINDOW_UPDATE: u8 = 8;
pub const CONTINUATION: u8 = 9;
pub const END_STREAM: u8 = 1;
pub const ACK: u8 = 1;
pub const END_HEADERS: u8 = 4;

/// Longer than anything here takes.
pub const LONG: Duration = Duration::from_secs(10);

pub async fn serve(script: Script) -> Server {
    Server::builder(script).start().await.unwrap()
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    pub kind: u8,
    pub flags: u8,
    pub stream: u32,
    pub payload: Vec<u8>,
}

pub fn frame(kind: u8, flags: u8, stream: u32, payload: impl AsRef<[u8]>) -> Frame {
    Frame { kind, flags, stream, payload: payload.as_ref().to_vec() }
}

pub fn bytes(frame: &Frame) -> Vec<u8> {
    let mut bytes = (frame.payload.len() as u32).to_be_bytes()[1..].to_vec();
    bytes.extend([frame.kind, frame.flags]);
    bytes.extend(frame.stream.to_be_bytes());
    bytes.extend(&frame.payload);
    bytes
}

/// A header block of literals: a method, a path, and a request id unless it is empty.
pub fn block(method: &str, path: &str, id: &str) -> Vec<u8> {
    let mut block = vec![0x86];
    let mut literal = |name: &str, value: &str| {
        block.push(0);
        for text in [name, value] {
            block.push(text.len() as u8);
            block.extend(text.bytes());
        }
    };
    literal(":method", method);
    literal(":path", path);
    literal(":authority", "localhost");
    if !id.is_empty() {
        literal("x-request-id", id);
    }
    block
}

/// How a socket ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    Fin,
    Reset,
}

pub struct Raw {
    pub socket: TcpStream,
    /// Whether PING and SETTINGS are acknowledged.
    pub acknowledge: bool,
}

impl Raw {
    pub async fn connect(address: SocketAddr) -> Self {
        Self { socket: TcpStream::connect(address).await.unwrap(), acknowledge: true }
    }

    /// Connects, sends the preface and empty SETTINGS, and reads the server's preamble.
    pub async fn h2(server: &Server) -> Self {
        let mut raw = Self::connect(server.addr()).await;
        raw.preface().await;
        let settings = raw.read().await.unwrap();
        assert_eq!((settings.kind, settings.flags), (SETTINGS, 0), "{settings:?}");
        raw.send(frame(SETTINGS, ACK, 0, [])).await;
        raw
    }

    pub async fn preface(&mut self) {
        self.socket.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await.unwrap();
        self.send(frame(SETTINGS, 0, 0, [])).await;
    }

    pub async fn write(&mut self, bytes: impl AsRef<[u8]>) {
        self.socket.write_all(bytes.as_ref()).await.unwrap();
    }

    pub async fn send(&mut self, frame: Frame) {
        let _ = self.socket.write_all(&bytes(&frame)).await;
    }

    /// A request without a body.
    pub async fn get(&mut self, stream: u32, id: &str) {
        self.send(frame(HEADERS, END_STREAM | END_HEADERS, stream, block("GET", "/", id))).await;
    }

    /// A request whose body follows.
    pub async fn post(&mut self, stream: u32, id: &str) {
        self.send(frame(HEADERS, END_HEADERS, stream, block("POST", "/", id))).await;
    }

    pub async fn data(&mut self, stream: u32, data: impl AsRef<[u8]>, end: bool) {
        self.send(frame(DATA, u8::from(end), stream, data)).await;
    }

    /// The next frame as it comes; `None`: the end, however.
    pub async fn read_any(&mut self) -> Option<Frame> {
        let read = async {
            let mut head = [0; 9];
            self.socket.read_exact(&mut head).await.ok()?;
            let mut payload = vec![0; u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize];
            self.socket.read_exact(&mut payload).await.ok()?;
            let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
            Some(Frame { kind: head[3], flags: head[4], stream, payload })
        };
        tokio::time::timeout(LONG, read).await.expect("a frame or the end comes in time")
    }

    /// The next frame but for acknowledgements of SETTINGS and updates of the connection's window.
    pub async fn read(&mut self) -> Option<Frame> {
        loop {
            let frame = self.read_any().await?;
            match (frame.kind, frame.flags, frame.stream) {
                (SETTINGS, ACK, _) | (WINDOW_UPDATE, _, 0) => {}
                _ => return Some(frame),
            }
        }
    }

    /// The frames of an answer "ok" on a stream.
    pub async fn expect_ok(&mut self, stream: u32) {
        let headers = self.read().await.expect("HEADERS");
        assert_eq!((headers.kind, headers.flags, headers.stream), (HEADERS, END_HEADERS, stream), "{headers:?}");
        assert_eq!(headers.payload[0], 0x88, "status 200");
        assert_eq!(self.read().await, Some(frame(DATA, END_STREAM, stream, "ok")));
    }

    pub async fn expect(&mut self, expected: Frame) {
        assert_eq!(self.read().await, Some(expected));
    }

    /// All bytes up to the end, and how it ended.
    pub async fn rest(&mut self) -> (Vec<u8>, End) {
        let mut bytes = Vec::new();
        let read = async {
            loop {
                match self.socket.read_buf(&mut bytes).await {
                    Ok(0) => return End::Fin,
                    Ok(_) => {}
                    Err(error) => {
                        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
                        return End::Reset;
                    }
                }
            }
        };
        let end = tokio::time::timeout(LONG, read).await.expect("the connection ends in time");
        (bytes, end)
    }

    /// Exactly so many bytes.
    pub async fn exactly(&mut self, count: usize) -> Vec<u8> {
        let mut bytes = vec![0; count];
        tokio::time::timeout(LONG, self.socket.read_exact(&mut bytes)).await.unwrap().unwrap();
        bytes
    }

    /// Nothing comes for so long, and the connection stays.
    pub async fn expect_silence(&mut self, time: Duration) {
        let mut byte = [0];
        assert!(tokio::time::timeout(time, self.socket.read(&mut byte)).await.is_err(), "something came");
    }
}

pub fn goaway(last: u32, code: u32, debug: &str) -> Frame {
    let mut payload = last.to_be_bytes().to_vec();
    payload.extend(code.to_be_bytes());
    payload.extend(debug.bytes());
    frame(GOAWAY, 0, 0, payload)
}

pub fn rst_stream(stream: u32, code: u32) -> Frame {
    frame(RST_STREAM, 0, stream, code.to_be_bytes())
}

/// Sends a request in HTTP/1.1 and returns everything that came until the end, and how it ended.
pub async fn http1(server: &Server, request: &str) -> (String, End) {
    let mut raw = Raw::connect(server.addr()).await;
    raw.write(request).await;
    let (bytes, end) = raw.rest().await;
    (String::from_utf8(bytes).unwrap(), end)
}

pub const GET: &str = "GET / HTTP/1.1\r\nhost: localhost\r\n\r\n";
pub const GET_CLOSE: &str = "GET / HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
pub const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
pub const OK_CLOSE: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok";
