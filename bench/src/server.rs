//! A server that costs next to nothing: frames by hand, no HPACK, blocking I/O, a thread a connection.
//!
//! On one port it answers every request whose stream has ended, and takes uploads of any size. On the other each
//! request is answered with a download.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};

use crate::Failed;
use crate::process::{SERVER_CORE, pin};
use crate::transfer::SIZE;

/// The size of an answer's body.
pub(crate) const ANSWER: usize = 128;

/// Streams at once: more than any run asks for.
const STREAMS: u32 = 100_000;

/// How much of a stream may come unasked.
const WINDOW: u32 = 1 << 20;

const FRAME: usize = 16_384;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const WINDOW_UPDATE: u8 = 8;
const END_STREAM: u8 = 1;
const ACK: u8 = 1;
const END_HEADERS: u8 = 4;

/// `:status 200`, `content-type: application/json` and `server: raw`, as literals without indexing.
const HEAD: &[u8] = b"\x88\x0f\x10\x10application/json\x0f\x27\x03raw";

/// Serves until the process ends.
pub(crate) fn run() -> Result<(), Failed> {
    pin(SERVER_CORE);
    let answers = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let downloads = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    println!("{} {}", answers.local_addr()?.port(), downloads.local_addr()?.port());
    std::thread::spawn(move || accept(&downloads, true));
    accept(&answers, false);
    Ok(())
}

fn accept(listener: &TcpListener, downloads: bool) {
    for socket in listener.incoming().flatten() {
        std::thread::spawn(move || {
            let connection = Connection::new(socket, downloads).and_then(Connection::serve);
            // Clients end without a farewell.
            drop(connection);
        });
    }
}

struct Connection {
    socket: TcpStream,
    out: Vec<u8>,
    /// Bytes to give back to the peer's connection window.
    received: u32,
    /// And to the windows of its unfinished uploads.
    uploads: HashMap<u32, u32>,
    downloads: bool,
    download: Option<Download>,
    window: i64,
    initial_window: i64,
}

struct Download {
    stream: u32,
    left: usize,
    window: i64,
}

impl Connection {
    fn new(mut socket: TcpStream, downloads: bool) -> io::Result<Self> {
        socket.set_nodelay(true)?;
        let mut preface = [0; 24];
        socket.read_exact(&mut preface)?;
        let mut out = Vec::with_capacity(1 << 20);
        let mut settings = Vec::new();
        for (id, value) in [(3_u16, STREAMS), (4, WINDOW)] {
            settings.extend(id.to_be_bytes());
            settings.extend(value.to_be_bytes());
        }
        frame(&mut out, SETTINGS, 0, 0, &settings);
        frame(&mut out, WINDOW_UPDATE, 0, 0, &(1_u32 << 30).to_be_bytes());
        Ok(Self {
            socket,
            out,
            received: 0,
            uploads: HashMap::new(),
            downloads,
            download: None,
            window: 65_535,
            initial_window: 65_535,
        })
    }

    fn serve(mut self) -> io::Result<()> {
        let mut input = vec![0; 1 << 18];
        let mut filled = 0;
        loop {
            self.socket.write_all(&self.out)?;
            self.out.clear();
            if self.send_download()? {
                continue;
            }
            let read = self.socket.read(&mut input[filled..])?;
            if read == 0 {
                return Ok(());
            }
            filled += read;
            let mut at = 0;
            while let Some(head) = input[at..filled].first_chunk::<9>() {
                let len = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
                let Some(payload) = input[at + 9..filled].get(..len) else { break };
                let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]) & 0x7fff_ffff;
                self.take(head[3], head[4], stream, payload);
                at += 9 + len;
            }
            input.copy_within(at..filled, 0);
            filled -= at;
        }
    }

    fn take(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
        match kind {
            SETTINGS if flags & ACK == 0 => {
                for setting in payload.chunks_exact(6) {
                    if setting[..2] == [0, 4] {
                        self.initial_window = number(&setting[2..]);
                    }
                }
                frame(&mut self.out, SETTINGS, ACK, 0, &[]);
            }
            PING if flags & ACK == 0 => frame(&mut self.out, PING, ACK, 0, payload),
            WINDOW_UPDATE if stream == 0 => self.window += number(payload),
            WINDOW_UPDATE => {
                if let Some(download) = self.download.as_mut().filter(|download| download.stream == stream) {
                    download.window += number(payload);
                }
            }
            DATA => {
                self.give_back(stream, payload.len() as u32, flags & END_STREAM != 0);
                if flags & END_STREAM != 0 {
                    self.answer(stream);
                }
            }
            HEADERS if flags & END_STREAM != 0 => self.answer(stream),
            _ => {}
        }
    }

    fn give_back(&mut self, stream: u32, bytes: u32, ended: bool) {
        self.received += bytes;
        if self.received >= WINDOW {
            frame(&mut self.out, WINDOW_UPDATE, 0, 0, &self.received.to_be_bytes());
            self.received = 0;
        }
        if !ended {
            let received = self.uploads.entry(stream).or_default();
            *received += bytes;
            if *received >= WINDOW / 2 {
                frame(&mut self.out, WINDOW_UPDATE, 0, stream, &received.to_be_bytes());
                *received = 0;
            }
        } else if !self.uploads.is_empty() {
            self.uploads.remove(&stream);
        }
    }

    fn answer(&mut self, stream: u32) {
        frame(&mut self.out, HEADERS, END_HEADERS, stream, HEAD);
        if self.downloads {
            self.download = Some(Download { stream, left: SIZE, window: self.initial_window });
        } else {
            frame(&mut self.out, DATA, END_STREAM, stream, &[b'x'; ANSWER]);
        }
    }

    /// Whether it wrote anything.
    fn send_download(&mut self) -> io::Result<bool> {
        let Some(download) = &mut self.download else { return Ok(false) };
        while download.left > 0 && self.out.len() + FRAME + 9 < self.out.capacity() {
            let window = self.window.min(download.window).max(0) as usize;
            let len = window.min(download.left).min(FRAME);
            if len == 0 {
                break;
            }
            download.left -= len;
            download.window -= len as i64;
            self.window -= len as i64;
            let flags = if download.left == 0 { END_STREAM } else { 0 };
            frame(&mut self.out, DATA, flags, download.stream, &[b'x'; FRAME][..len]);
        }
        if download.left == 0 {
            self.download = None;
        }
        Ok(!self.out.is_empty())
    }
}

fn frame(out: &mut Vec<u8>, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
    let [_, a, b, c] = (payload.len() as u32).to_be_bytes();
    out.extend_from_slice(&[a, b, c, kind, flags]);
    out.extend_from_slice(&stream.to_be_bytes());
    out.extend_from_slice(payload);
}

fn number(bytes: &[u8]) -> i64 {
    bytes.iter().fold(0, |number, byte| number << 8 | i64::from(*byte))
}
