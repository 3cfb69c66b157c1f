//! Frames (RFC 9113, section 4 and 6), as bytes. Nothing here checks what it is told to write.

use crate::script::ErrorCode;

pub(crate) const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
pub(crate) const HEAD_LENGTH: usize = 9;
pub(crate) const DEFAULT_WINDOW: i64 = 65_535;
pub(crate) const DEFAULT_FRAME_SIZE: usize = 16_384;
/// Stream ids and windows have 31 bits.
pub(crate) const MAX_31: u32 = 0x7fff_ffff;

pub(crate) mod kind {
    pub(crate) const DATA: u8 = 0;
    pub(crate) const HEADERS: u8 = 1;
    pub(crate) const RST_STREAM: u8 = 3;
    pub(crate) const SETTINGS: u8 = 4;
    pub(crate) const PUSH_PROMISE: u8 = 5;
    pub(crate) const PING: u8 = 6;
    pub(crate) const GOAWAY: u8 = 7;
    pub(crate) const WINDOW_UPDATE: u8 = 8;
    pub(crate) const CONTINUATION: u8 = 9;
}

pub(crate) mod flag {
    pub(crate) const END_STREAM: u8 = 1;
    pub(crate) const ACK: u8 = 1;
    pub(crate) const END_HEADERS: u8 = 4;
    pub(crate) const PADDED: u8 = 8;
    pub(crate) const PRIORITY: u8 = 0x20;
}

pub(crate) mod setting {
    pub(crate) const HEADER_TABLE_SIZE: u16 = 1;
    pub(crate) const ENABLE_PUSH: u16 = 2;
    pub(crate) const MAX_CONCURRENT_STREAMS: u16 = 3;
    pub(crate) const INITIAL_WINDOW_SIZE: u16 = 4;
    pub(crate) const MAX_FRAME_SIZE: u16 = 5;
    pub(crate) const MAX_HEADER_LIST_SIZE: u16 = 6;
}

/// The head of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FrameHead {
    pub(crate) length: usize,
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    pub(crate) stream: u32,
}

impl FrameHead {
    pub(crate) fn parse(head: &[u8; HEAD_LENGTH]) -> Self {
        Self {
            length: u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize,
            kind: head[3],
            flags: head[4],
            stream: u32::from_be_bytes([head[5], head[6], head[7], head[8]]) & MAX_31,
        }
    }

    pub(crate) fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

/// Appends a frame whose length field is the payload's.
pub(crate) fn put(out: &mut Vec<u8>, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
    put_head(out, payload.len(), kind, flags, stream);
    out.extend_from_slice(payload);
}

pub(crate) fn put_head(out: &mut Vec<u8>, length: usize, kind: u8, flags: u8, stream: u32) {
    let length = (length as u32).to_be_bytes();
    out.extend_from_slice(&[length[1], length[2], length[3], kind, flags]);
    out.extend_from_slice(&stream.to_be_bytes());
}

pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(HEAD_LENGTH + payload.len());
    put(&mut out, kind, flags, stream, payload);
    out
}

pub(crate) fn settings(values: &[(u16, u32)]) -> Vec<u8> {
    let payload: Vec<u8> =
        values.iter().flat_map(|(id, value)| id.to_be_bytes().into_iter().chain(value.to_be_bytes())).collect();
    frame(kind::SETTINGS, 0, 0, &payload)
}

pub(crate) fn goaway(last: u32, code: ErrorCode, debug: &[u8]) -> Vec<u8> {
    let mut payload = last.to_be_bytes().to_vec();
    payload.extend(code.0.to_be_bytes());
    payload.extend_from_slice(debug);
    frame(kind::GOAWAY, 0, 0, &payload)
}

pub(crate) fn rst_stream(stream: u32, code: ErrorCode) -> Vec<u8> {
    frame(kind::RST_STREAM, 0, stream, &code.0.to_be_bytes())
}

pub(crate) fn window_update(stream: u32, increment: u32) -> Vec<u8> {
    frame(kind::WINDOW_UPDATE, 0, stream, &increment.to_be_bytes())
}

/// A header block, cut into HEADERS and CONTINUATION frames of at most `size` bytes.
pub(crate) fn headers(out: &mut Vec<u8>, stream: u32, block: &[u8], end_stream: bool, size: usize) {
    let end_stream = if end_stream { flag::END_STREAM } else { 0 };
    let mut pieces = block.chunks(size.max(1)).peekable();
    let first = pieces.next().unwrap_or_default();
    let end = |more: bool| if more { 0 } else { flag::END_HEADERS };
    put(out, kind::HEADERS, end_stream | end(pieces.peek().is_some()), stream, first);
    while let Some(piece) = pieces.next() {
        put(out, kind::CONTINUATION, end(pieces.peek().is_some()), stream, piece);
    }
}

/// The payload of DATA or HEADERS without padding and priority. `None`: the padding is longer than the frame.
pub(crate) fn unpadded(head: &FrameHead, payload: &[u8]) -> Option<std::ops::Range<usize>> {
    let (mut start, mut end) = (0, payload.len());
    if head.has(flag::PADDED) {
        end = end.checked_sub(usize::from(*payload.first()?))?;
        start = 1;
    }
    if head.kind == kind::HEADERS && head.has(flag::PRIORITY) {
        start += 5;
    }
    (start <= end).then_some(start..end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_have_the_standards_bytes() {
        assert_eq!(settings(&[(3, 100)]), [0, 0, 6, 4, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 100]);
        let goaway = goaway(41, ErrorCode::ENHANCE_YOUR_CALM, b"calm");
        assert_eq!(goaway, [0, 0, 12, 7, 0, 0, 0, 0, 0, 0, 0, 0, 41, 0, 0, 0, 11, b'c', b'a', b'l', b'm']);
        assert_eq!(rst_stream(3, ErrorCode::REFUSED_STREAM), [0, 0, 4, 3, 0, 0, 0, 0, 3, 0, 0, 0, 7]);
        assert_eq!(window_update(0, 1), [0, 0, 4, 8, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
    }

    #[test]
    fn a_long_block_continues() {
        let mut out = Vec::new();
        headers(&mut out, 1, &[1, 2, 3], true, 2);
        assert_eq!(out, [0, 0, 2, 1, 1, 0, 0, 0, 1, 1, 2, 0, 0, 1, 9, 4, 0, 0, 0, 1, 3]);
    }

    #[test]
    fn padding_and_priority_are_taken_off() {
        let head = FrameHead { length: 9, kind: kind::HEADERS, flags: flag::PADDED | flag::PRIORITY, stream: 1 };
        assert_eq!(unpadded(&head, &[1, 0, 0, 0, 0, 0, 0x88, 0x88, 0]), Some(6..8));
        assert_eq!(unpadded(&head, &[9, 0, 0]), None);
    }
}
