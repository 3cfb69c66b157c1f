//! The same over HTTP/1.1, for clients that speak that without TLS: every request gets a fixed answer, and the server
//! knows no more of HTTP than where a request ends.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};

use crate::Failed;
use crate::process::{SERVER_CORE, pin};

/// What an SDK is told of the sandbox that it connects to.
const SANDBOX: &str = r#"{"sandboxID":"i0123456789abcdefghij","templateID":"base","clientID":"c","envdVersion":"0.6.13","envdAccessToken":"token"}"#;

/// An empty list of processes, among other things.
const OTHERWISE: &str = "{}";

/// Serves until the process ends.
pub(crate) fn run() -> Result<(), Failed> {
    pin(SERVER_CORE);
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    println!("{}", listener.local_addr()?.port());
    for socket in listener.incoming().flatten() {
        std::thread::spawn(move || {
            // Clients end without a farewell.
            drop(serve(socket));
        });
    }
    Ok(())
}

fn serve(mut socket: TcpStream) -> io::Result<()> {
    socket.set_nodelay(true)?;
    let [connect, otherwise] = [SANDBOX, OTHERWISE].map(answer);
    let mut input = vec![0; 1 << 16];
    let (mut filled, mut out) = (0, Vec::new());
    loop {
        let read = socket.read(&mut input[filled..])?;
        if read == 0 {
            return Ok(());
        }
        filled += read;
        let mut at = 0;
        while let Some(length) = request(&input[at..filled]) {
            let line = &input[at..at + length.min(128)];
            let is_connect = line.windows(9).take_while(|bytes| bytes[0] != b'\n').any(|bytes| bytes == b"/connect ");
            out.extend_from_slice(if is_connect { &connect } else { &otherwise });
            at += length;
        }
        input.copy_within(at..filled, 0);
        filled -= at;
        socket.write_all(&out)?;
        out.clear();
    }
}

/// The length of the request that the input begins with, once all of it is there.
fn request(input: &[u8]) -> Option<usize> {
    let head = find(input, b"\r\n\r\n")? + 4;
    let mut fields = input[..head].split(|byte| *byte == b'\n');
    let length = fields.find_map(|field| {
        let (name, value) = field.split_at_checked(15)?;
        name.eq_ignore_ascii_case(b"content-length:").then(|| std::str::from_utf8(value).ok()?.trim().parse().ok())?
    });
    let chunked = find(&input[..head], b"chunked").is_some();
    let body = match length {
        _ if chunked => find(&input[head..], b"0\r\n\r\n")? + 5,
        Some(length) => length,
        None => 0,
    };
    (input.len() >= head + body).then_some(head + body)
}

fn find(input: &[u8], wanted: &[u8]) -> Option<usize> {
    input.windows(wanted.len()).position(|window| window == wanted)
}

fn answer(body: &str) -> Vec<u8> {
    let length = body.len();
    format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}").into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_ends_where_its_body_does() {
        assert_eq!(request(b"GET / HTTP/1.1\r\nhost: a\r\n\r\nGET"), Some(27));
        assert_eq!(request(b"POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\nabcP"), Some(41));
        assert_eq!(request(b"POST / HTTP/1.1\r\ncontent-length: 3\r\n\r\nab"), None);
        assert_eq!(request(b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n"), Some(58));
        assert_eq!(request(b"GET / HTTP/1.1\r\n"), None);
    }
}
