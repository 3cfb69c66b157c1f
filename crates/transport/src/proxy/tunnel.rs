//! CONNECT (RFC 9110 §9.3.6).
//!
//! Not hyper-util's `Tunnel`: it reads on behind the proxy's answer, and drops what it finds there. A server that
//! speaks first, as one of HTTP/2 does, would lose its SETTINGS.

use std::io;

use http::HeaderMap;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::{Proxy, host_and_port};

/// The largest head of an answer, in bytes.
const MAX_HEAD: usize = 16 << 10;

/// Answers such as 103 that may come before the one that counts.
const MAX_INTERIM: usize = 10;

/// Asks the proxy for a tunnel. The stream leads to the target afterwards.
pub(crate) async fn open<S>(stream: &mut S, proxy: &Proxy, host: &str, port: u16) -> io::Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let target = host_and_port(host, port);
    let mut headers = HeaderMap::new();
    proxy.tell(&mut headers);
    let mut request = format!("CONNECT {target} HTTP/1.1\r\nhost: {target}\r\n").into_bytes();
    for (name, value) in &headers {
        request.extend_from_slice(name.as_str().as_bytes());
        request.extend_from_slice(b": ");
        request.extend_from_slice(value.as_bytes());
        request.extend_from_slice(b"\r\n");
    }
    request.extend_from_slice(b"\r\n");
    stream.write_all(&request).await?;
    stream.flush().await?;
    for _ in 0..=MAX_INTERIM {
        match status(&read_head(stream).await?)? {
            100..=199 => {}
            200..=299 => return Ok(()),
            407 => {
                let hint = if proxy.user().is_some() { "it refuses the" } else { "it wants" };
                return Err(io::Error::other(format!("407 to CONNECT {target}: {hint} credentials (proxy)")));
            }
            status => return Err(io::Error::other(format!("{status} to CONNECT {target}"))),
        }
    }
    Err(io::Error::other("it goes on and on with interim answers"))
}

/// One byte at a time, so that nothing behind the head is taken.
async fn read_head(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<Vec<u8>> {
    let mut head = Vec::with_capacity(128);
    while !head.ends_with(b"\r\n\r\n") && !head.ends_with(b"\n\n") {
        if head.len() >= MAX_HEAD {
            return Err(io::Error::other(format!("its answer to CONNECT has a head of more than {MAX_HEAD} bytes")));
        }
        match stream.read_u8().await {
            Ok(byte) => head.push(byte),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                return Err(io::Error::other("it closed the connection instead of answering CONNECT"));
            }
            Err(error) => return Err(error),
        }
    }
    Ok(head)
}

fn status(head: &[u8]) -> io::Result<u16> {
    let line = head.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let mut words = line.split(|byte| matches!(byte, b' ' | b'\r'));
    let is_http = words.next().is_some_and(|version| version.starts_with(b"HTTP/1."));
    let status = words.next().filter(|code| code.len() == 3).and_then(|code| str::from_utf8(code).ok()?.parse().ok());
    status.filter(|_| is_http).ok_or_else(|| io::Error::other("its answer to CONNECT is not HTTP/1"))
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn opened(answer: &[u8]) -> (io::Result<()>, Vec<u8>, Vec<u8>) {
        let (mut client, mut server) = tokio::io::duplex(64 << 10);
        let answer = answer.to_vec();
        let server = tokio::spawn(async move {
            let mut request = Vec::new();
            while !request.ends_with(b"\r\n\r\n") {
                server.read_buf(&mut request).await.unwrap();
            }
            server.write_all(&answer).await.unwrap();
            request
        });
        let proxy = Proxy::new("http://user:pass@proxy:1").unwrap();
        let result = open(&mut client, &proxy, "::1", 443).await;
        let request = server.await.unwrap();
        let mut rest = Vec::new();
        client.read_to_end(&mut rest).await.unwrap();
        (result, request, rest)
    }

    #[tokio::test]
    async fn what_comes_behind_the_answer_is_the_targets() {
        let (result, request, rest) = opened(b"HTTP/1.1 200 OK\r\nvia: x\r\n\r\nSETTINGS").await;
        result.unwrap();
        assert_eq!(rest, b"SETTINGS");
        let request = String::from_utf8(request).unwrap();
        assert_eq!(
            request,
            "CONNECT [::1]:443 HTTP/1.1\r\nhost: [::1]:443\r\nproxy-authorization: Basic dXNlcjpwYXNz\r\n\r\n"
        );
    }

    #[tokio::test]
    async fn any_success_will_do_and_interim_answers_are_passed_over() {
        opened(b"HTTP/1.0 204 Fine\r\n\r\n").await.0.unwrap();
        opened(b"HTTP/1.1 103 Early\r\n\r\nHTTP/1.1 200\r\n\r\n").await.0.unwrap();
    }

    #[tokio::test]
    async fn a_refusal_says_what_was_answered() {
        let forever = b"HTTP/1.1 103 Early\r\n\r\n".repeat(20);
        for (answer, expected) in [
            (&b"HTTP/1.1 407 Who?\r\n\r\n"[..], "407 to CONNECT [::1]:443: it refuses the credentials"),
            (b"HTTP/1.1 502 Bad\r\n\r\n", "502 to CONNECT [::1]:443"),
            (b"SSH-2.0-x\r\n\r\n", "is not HTTP/1"),
            (b"HTTP/1.1 2000 OK\r\n\r\n", "is not HTTP/1"),
            (b"HTTP/1.1 200 OK\r\n", "closed the connection"),
            (b"", "closed the connection"),
            (&[b'a'; 20 << 10], "more than"),
            (&forever, "interim"),
        ] {
            let text = opened(answer).await.0.unwrap_err().to_string();
            assert!(text.contains(expected) && !text.contains("pass"), "{text}");
        }
    }
}
