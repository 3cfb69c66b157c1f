//! The server behind a proxy, spoken to in HTTP/1.1.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::Instant;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;

use crate::h1::parse::{self, Decoder, Step};
use crate::head::{Field, Head};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// How long an idle connection is used again: less than common servers keep theirs.
const KEEP: Duration = Duration::from_secs(3);

/// How much is read at once.
const READ: usize = 16 * 1024;

/// How many idle connections are kept.
const MOST_IDLE: usize = 256;

/// Fields that concern one connection and are not passed on.
const HOP_BY_HOP: [&[u8]; 10] = [
    b"connection",
    b"expect",
    b"host",
    b"keep-alive",
    b"proxy-authenticate",
    b"proxy-authorization",
    b"proxy-connection",
    b"te",
    b"transfer-encoding",
    b"upgrade",
];

pub(crate) trait Io: AsyncRead + AsyncWrite + Send + Sync + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Sync + Unpin> Io for T {}

pub(crate) struct Upstream {
    host: String,
    port: u16,
    /// What the path of a request is appended to.
    prefix: String,
    tls: Option<(TlsConnector, ServerName<'static>)>,
    keep_host: bool,
    idle: Mutex<Vec<(Box<dyn Io>, Instant)>>,
}

/// Why a URL cannot be an upstream. The text names the value and the rule.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the upstream {url:?}: {reason}")]
pub struct UpstreamError {
    url: String,
    reason: String,
}

impl Upstream {
    pub(crate) fn new(url: &str, keep_host: bool) -> Result<Self, UpstreamError> {
        let wrong = |reason: &str| UpstreamError { url: url.to_owned(), reason: reason.to_owned() };
        let (scheme, rest) = url.split_once("://").ok_or_else(|| wrong("it must look like http://HOST:PORT"))?;
        let (authority, prefix) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let default = match scheme {
            "http" => 80,
            "https" => 443,
            _ => return Err(wrong("the scheme must be http or https")),
        };
        // An IPv6 address has its colons in brackets.
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => {
                (host, port.parse().map_err(|_| wrong("the port must be a number up to 65535"))?)
            }
            _ => (authority, default),
        };
        let host = host.trim_start_matches('[').trim_end_matches(']');
        if host.is_empty() || authority.contains(['@', '?', '#']) || prefix.contains(['?', '#']) {
            return Err(wrong("it must be a host, a port and a path, and no more"));
        }
        let tls = match scheme {
            "https" => {
                let name = ServerName::try_from(host.to_owned()).map_err(|_| wrong("the host is not a name"))?;
                let connector = crate::tls::connector().map_err(|error| wrong(&error.to_string()))?;
                Some((connector, name))
            }
            _ => None,
        };
        let prefix = prefix.trim_end_matches('/').to_owned();
        Ok(Self { host: host.to_owned(), port, prefix, tls, keep_host, idle: Mutex::default() })
    }

    /// Sends the head of a request. `length`: of its body, where known. `upgrade`: the protocol that the client asks for.
    pub(crate) async fn open(
        self: &Arc<Self>,
        head: &Head,
        length: Option<u64>,
        upgrade: Option<&str>,
    ) -> io::Result<Flight> {
        let mut text = format!("{} {}{} HTTP/1.1\r\n", head.method, self.prefix, head.path).into_bytes();
        let host = if self.keep_host && !head.authority.is_empty() { head.authority.clone() } else { self.address() };
        text.extend(format!("host: {host}\r\n").bytes());
        let told = head.value("content-length").is_some();
        for field in head.fields.iter().filter(|field| passes(field)) {
            push(&mut text, field);
        }
        if let Some(protocol) = upgrade {
            text.extend(format!("connection: upgrade\r\nupgrade: {protocol}\r\n").bytes());
        }
        let chunked = match length {
            _ if told => false,
            Some(0) => false,
            Some(length) => {
                text.extend(format!("content-length: {length}\r\n").bytes());
                false
            }
            None => true,
        };
        if chunked {
            text.extend_from_slice(b"transfer-encoding: chunked\r\n");
        }
        text.extend_from_slice(b"\r\n");
        let mut io = self.connect().await?;
        io.write_all(&text).await?;
        io.flush().await?;
        Ok(Flight {
            io: Some(io),
            upstream: self.clone(),
            buffer: BytesMut::new(),
            head_only: head.method == "HEAD",
            upgrades: upgrade.is_some(),
            chunked,
            uploaded: length == Some(0),
            status: 0,
            fields: Vec::new(),
            body: Decoder::Done,
            reusable: false,
        })
    }

    /// Its host and port as they stand in a URL: an IPv6 address in brackets.
    fn address(&self) -> String {
        let Self { host, port, .. } = self;
        if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
    }

    async fn connect(&self) -> io::Result<Box<dyn Io>> {
        loop {
            let Some((mut io, since)) = self.idle.lock().pop() else { break };
            if since.elapsed() < KEEP && is_quiet(&mut io).await {
                return Ok(io);
            }
        }
        let connecting = async {
            let stream = TcpStream::connect((self.host.as_str(), self.port)).await?;
            stream.set_nodelay(true)?;
            Ok(match &self.tls {
                None => Box::new(stream) as Box<dyn Io>,
                Some((connector, name)) => Box::new(connector.connect(name.clone(), stream).await?),
            })
        };
        let timeout = || io::Error::new(io::ErrorKind::TimedOut, "no connection in 10 s");
        let connected = tokio::time::timeout(CONNECT_TIMEOUT, connecting).await.map_err(|_| timeout())?;
        connected.map_err(|error: io::Error| {
            io::Error::new(error.kind(), format!("connecting to {}: {error}", self.address()))
        })
    }
}

/// Whether an idle connection is as an idle connection should be: open, with nothing to read.
async fn is_quiet(io: &mut Box<dyn Io>) -> bool {
    let mut byte = [0];
    poll_fn(|cx| {
        let mut buffer = ReadBuf::new(&mut byte);
        Poll::Ready(Pin::new(&mut *io).poll_read(cx, &mut buffer).is_pending())
    })
    .await
}

fn passes(field: &Field) -> bool {
    !HOP_BY_HOP.contains(&&field.name[..])
}

fn push(text: &mut Vec<u8>, field: &Field) {
    text.extend_from_slice(&field.name);
    text.extend_from_slice(b": ");
    text.extend_from_slice(&field.value);
    text.extend_from_slice(b"\r\n");
}

/// One request on its way to the upstream and back.
pub(crate) struct Flight {
    io: Option<Box<dyn Io>>,
    upstream: Arc<Upstream>,
    buffer: BytesMut,
    head_only: bool,
    /// The client asks for another protocol.
    upgrades: bool,
    /// The request's body is sent in chunks.
    chunked: bool,
    uploaded: bool,
    status: u16,
    fields: Vec<Field>,
    body: Decoder,
    reusable: bool,
}

impl Flight {
    pub(crate) fn status(&self) -> u16 {
        self.status
    }

    pub(crate) fn take_fields(&mut self) -> Vec<Field> {
        std::mem::take(&mut self.fields)
    }

    pub(crate) fn is_at_end(&self) -> bool {
        self.body == Decoder::Done
    }

    pub(crate) async fn write(&mut self, piece: &[u8]) -> io::Result<()> {
        let chunked = self.chunked;
        let io = self.io()?;
        if chunked {
            io.write_all(format!("{:x}\r\n", piece.len()).as_bytes()).await?;
            io.write_all(piece).await?;
            io.write_all(b"\r\n").await?;
        } else {
            io.write_all(piece).await?;
        }
        io.flush().await
    }

    /// The request's body is whole.
    pub(crate) async fn finish(&mut self) -> io::Result<()> {
        self.uploaded = true;
        if self.chunked {
            let io = self.io()?;
            io.write_all(b"0\r\n\r\n").await?;
            io.flush().await?;
        }
        Ok(())
    }

    fn io(&mut self) -> io::Result<&mut Box<dyn Io>> {
        self.io.as_mut().ok_or_else(|| io::ErrorKind::NotConnected.into())
    }

    async fn fill(&mut self) -> io::Result<()> {
        let Some(io) = &mut self.io else { return Err(io::ErrorKind::NotConnected.into()) };
        self.buffer.reserve(READ);
        match io.read_buf(&mut self.buffer).await? {
            0 => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the upstream closed in the middle of an answer")),
            _ => Ok(()),
        }
    }

    /// The connection, which speaks another protocol now, and what came of that already.
    pub(crate) fn into_connection(self) -> Option<(BytesMut, Box<dyn Io>)> {
        Some((self.buffer, self.io?))
    }

    /// Waits for the head of the answer. Loses nothing when dropped.
    pub(crate) async fn head(&mut self) -> io::Result<()> {
        let invalid = |what: String| io::Error::new(io::ErrorKind::InvalidData, format!("the upstream sent {what}"));
        loop {
            let Some(head) = parse::head(&mut self.buffer).map_err(invalid)? else {
                self.fill().await?;
                continue;
            };
            let status = head.first.split(' ').nth(1).and_then(|status| status.parse().ok());
            self.status = status.ok_or_else(|| invalid(format!("the status line {:?}", head.first)))?;
            if self.status == 101 && self.upgrades {
                self.fields = head.fields;
                return Ok(());
            }
            if (100..200).contains(&self.status) {
                continue;
            }
            let bodiless = self.head_only || matches!(self.status, 204 | 304);
            self.body = if bodiless { Decoder::Done } else { head.framing(Decoder::UntilEnd).map_err(invalid)? };
            self.reusable = head.first.starts_with("HTTP/1.1")
                && !head.lists("connection", "close")
                && self.body != Decoder::UntilEnd;
            let chunked = self.body == Decoder::ChunkHead;
            self.fields = head.fields;
            self.fields.retain(|field| passes(field) && !(chunked && &field.name[..] == b"content-length"));
            self.recycle();
            return Ok(());
        }
    }

    /// The next piece of the answer's body; `None`: its end. Loses nothing when dropped.
    pub(crate) async fn next_piece(&mut self) -> io::Result<Option<Bytes>> {
        loop {
            let step = self.body.next(&mut self.buffer);
            match step
                .map_err(|what| io::Error::new(io::ErrorKind::InvalidData, format!("the upstream sent {what}")))?
            {
                Step::Piece(piece) => {
                    self.recycle();
                    return Ok(Some(piece));
                }
                Step::End => {
                    self.recycle();
                    return Ok(None);
                }
                Step::More => {
                    let until_end = self.body == Decoder::UntilEnd;
                    match self.fill().await {
                        Err(error) if until_end && error.kind() == io::ErrorKind::UnexpectedEof => {
                            self.body = Decoder::Done;
                            return Ok(None);
                        }
                        done => done?,
                    }
                }
            }
        }
    }

    /// Puts the connection aside for the next request, once this one is over in both directions.
    fn recycle(&mut self) {
        if self.is_at_end() && self.reusable && self.uploaded && self.buffer.is_empty() {
            let Some(io) = self.io.take() else { return };
            let mut idle = self.upstream.idle.lock();
            if idle.len() < MOST_IDLE {
                idle.push((io, Instant::now()));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_read() {
        let upstream = Upstream::new("http://localhost:3000/api/", false).unwrap();
        assert_eq!((upstream.host.as_str(), upstream.port, upstream.prefix.as_str()), ("localhost", 3000, "/api"));
        let upstream = Upstream::new("http://[::1]:81", false).unwrap();
        assert_eq!((upstream.host.as_str(), upstream.port, upstream.prefix.as_str()), ("::1", 81, ""));
        assert_eq!(upstream.address(), "[::1]:81");
        assert_eq!(Upstream::new("http://a", false).unwrap().port, 80);
        for bad in ["localhost:1", "ftp://a", "http://", "http://a:x", "http://u@a", "http://a/?q"] {
            assert!(Upstream::new(bad, false).is_err(), "{bad}");
        }
    }
}
