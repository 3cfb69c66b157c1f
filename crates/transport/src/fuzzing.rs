//! What is read from the network and from users, given any bytes. For this repository's own tests and fuzz targets.
//!
//! Each function panics when what it looks at does, or when an answer is not what a simpler way of asking gives.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use http::{HeaderMap, Uri};
use tokio::io::{AsyncRead, ReadBuf};

use crate::io::{Observed, Protocol};
use crate::observe::{TraceContext, parse_traceparent};
use crate::pool::{Authority, Redacted};
use crate::proxy::Proxy;

/// What a server sends, through the shim. The first byte says in which pieces it comes, the second how much room the
/// reader has.
pub fn shim(input: &[u8]) {
    let [pieces, room, sent @ ..] = input else { return };
    let pieces = sent.chunks(usize::from(*pieces).max(1)).map(<[u8]>::to_vec).collect();
    let (mut observed, wire) = Observed::new(Pieces(pieces), Protocol::Http2);
    let mut passed = Vec::new();
    let mut cx = Context::from_waker(Waker::noop());
    loop {
        let mut space = vec![0; usize::from(*room).max(1)];
        let mut space = ReadBuf::new(&mut space);
        let read = Pin::new(&mut observed).poll_read(&mut cx, &mut space);
        assert!(matches!(read, Poll::Ready(Ok(()))), "{read:?}");
        if space.filled().is_empty() {
            break;
        }
        passed.extend_from_slice(space.filled());
    }
    let Plain { passed: expected, rest, last, cap } = plain(sent);
    let expected = [expected, rest.to_vec()].concat();
    assert_eq!(passed, expected, "what passes, and in what order");
    assert_eq!(wire.goaway().map(|goaway| goaway.last_stream_id), last, "the lowest last id of all GOAWAYs");
    assert_eq!(wire.max_concurrent_streams(), cap, "the last cap of all SETTINGS");
    assert_eq!(wire.bytes_read(), sent.len() as u64);
}

struct Pieces(VecDeque<Vec<u8>>);

impl AsyncRead for Pieces {
    fn poll_read(mut self: Pin<&mut Self>, _: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if let Some(mut piece) = self.0.pop_front() {
            let rest = piece.split_off(piece.len().min(buf.remaining()));
            buf.put_slice(&piece);
            if !rest.is_empty() {
                self.0.push_front(rest);
            }
        }
        Poll::Ready(Ok(()))
    }
}

/// What the shim makes of what a server sends, read all at once.
#[derive(Default)]
struct Plain<'a> {
    passed: Vec<u8>,
    /// A frame's head that is cut off.
    rest: &'a [u8],
    last: Option<u32>,
    cap: Option<Option<u32>>,
}

fn plain(mut sent: &[u8]) -> Plain<'_> {
    const HEAD: usize = 9;
    // Of a control frame no more is looked at.
    const KEPT: usize = 1024;
    let mut plain = Plain::default();
    while let Some((head, after)) = sent.split_at_checked(HEAD) {
        let length = usize::from(head[0]) << 16 | usize::from(head[1]) << 8 | usize::from(head[2]);
        let (kind, flags) = (head[3], head[4]);
        let payload = &after[..length.min(after.len())];
        if length > 0 || kind != 0 || flags & 1 != 0 {
            plain.passed.extend_from_slice(&sent[..HEAD + payload.len()]);
        }
        sent = &after[payload.len()..];
        if payload.len() < length {
            break;
        }
        let number = |at: usize| Some(u32::from_be_bytes(payload.get(at..at + 4)?.try_into().ok()?));
        match (kind, number(0)) {
            (7, Some(last)) if payload.len() >= 8 => {
                let last = last & 0x7fff_ffff;
                plain.last = Some(plain.last.map_or(last, |before| before.min(last)));
            }
            (4, _) if flags & 1 == 0 => {
                let mut rows = payload[..payload.len().min(KEPT)].chunks_exact(6).filter(|row| row[..2] == [0, 3]);
                let cap = rows.next_back().map(|row| u32::from_be_bytes([row[2], row[3], row[4], row[5]]));
                plain.cap = Some(cap.or(plain.cap.flatten()));
            }
            _ => {}
        }
    }
    if sent.len() < HEAD {
        plain.rest = sent;
    }
    plain
}

/// A `Retry-After`, and a `Date` behind the first line feed.
pub fn retry_after(input: &[u8]) {
    let mut parts = input.splitn(2, |byte| *byte == b'\n');
    let (value, date) = (parts.next().unwrap_or_default(), parts.next());
    let read = |value: &[u8]| oncebox_policy::retry_after(value, date, 1_800_000_000);
    let wait = read(value);
    assert!(wait.is_none_or(|wait| wait <= Duration::from_secs(i32::MAX as u64)), "{wait:?}");
    assert_eq!(read(&[b" ", value, b"\t"].concat()), wait, "white space around it means nothing");
    let digits = value.trim_ascii();
    if !digits.is_empty() && digits.iter().all(u8::is_ascii_digit) {
        assert!(wait.is_some());
    }
    oncebox_policy::should_retry(value);
}

/// A `traceparent`.
pub fn trace_context(input: &[u8]) {
    let Some(context) = parse_traceparent(input) else { return };
    let mut headers = HeaderMap::new();
    context.set(&mut headers);
    let sent = headers["traceparent"].as_bytes();
    assert!(input.len() >= sent.len() && sent[3..35] == input[3..35], "the trace is the caller's");
    let again = parse_traceparent(sent).is_some_and(|again: TraceContext| {
        let mut headers = HeaderMap::new();
        again.set(&mut headers);
        headers["traceparent"].as_bytes()[..35] == sent[..35]
    });
    assert!(again, "what is sent can be read");
}

/// A URL that is called, or a proxy's.
pub fn url(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    if let Ok(proxy) = Proxy::new(text) {
        let _ = proxy.except(text);
    }
    let Ok(uri) = Uri::try_from(text) else { return };
    let shown = Redacted(&uri).to_string();
    assert!(uri.query().is_none_or(|query| query.is_empty() || !shown.contains(&format!("?{query}"))));
    if let Ok(authority) = Authority::of(&uri) {
        assert!(!authority.host().is_empty() && !authority.host().starts_with('['));
    }
}
