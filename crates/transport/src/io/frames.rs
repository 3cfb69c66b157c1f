//! Finds HTTP/2 frames in a byte stream that arrives in pieces (RFC 9113 §4.1).

/// Length of the client's connection preface (RFC 9113 §3.4).
pub(super) const PREFACE_LEN: usize = 24;

/// DATA.
const DATA: u8 = 0x0;
/// HEADERS.
pub(super) const HEADERS: u8 = 0x1;
/// SETTINGS.
pub(super) const SETTINGS: u8 = 0x4;
/// GOAWAY.
pub(super) const GOAWAY: u8 = 0x7;

/// The flag of SETTINGS that marks an acknowledgement.
pub(super) const FLAG_ACK: u8 = 0x1;

/// The flag of DATA that ends a stream.
const FLAG_END_STREAM: u8 = 0x1;

/// How much of a control frame's payload is kept: all SETTINGS that a peer can usefully send, and enough of a
/// GOAWAY's debug data to name its reason.
const KEPT_PAYLOAD: usize = 1024;

const HEAD_LEN: usize = 9;

/// One frame, as far as it is of interest.
#[derive(Debug, PartialEq)]
pub(super) struct Frame<'a> {
    pub(super) kind: u8,
    pub(super) flags: u8,
    pub(super) stream_id: u32,
    /// For SETTINGS and GOAWAY the payload (its first kilobyte), else empty.
    pub(super) payload: &'a [u8],
}

/// An incremental reader. HEADERS are reported as soon as their head is complete, SETTINGS and GOAWAY once their
/// payload is; other kinds are passed over.
#[derive(Debug)]
pub(super) struct FrameReader {
    preface_left: usize,
    head: [u8; HEAD_LEN],
    head_len: usize,
    payload_left: usize,
    /// The control frame being gathered.
    kept: Option<Vec<u8>>,
}

impl FrameReader {
    /// A reader of what a client sends: the preface, then frames.
    pub(super) fn outbound() -> Self {
        Self::new(PREFACE_LEN)
    }

    /// A reader of what a server sends: frames from the first byte.
    pub(super) fn inbound() -> Self {
        Self::new(0)
    }

    fn new(preface_left: usize) -> Self {
        Self { preface_left, head: [0; HEAD_LEN], head_len: 0, payload_left: 0, kept: None }
    }

    /// Takes the next bytes and reports the frames that they complete.
    pub(super) fn feed(&mut self, mut bytes: &[u8], mut report: impl FnMut(Frame<'_>)) {
        let preface = self.preface_left.min(bytes.len());
        self.preface_left -= preface;
        bytes = &bytes[preface..];

        while !bytes.is_empty() {
            // Most frames come whole, and nothing of what is in them is kept.
            if self.payload_left == 0
                && self.head_len == 0
                && let Some((head, rest)) = bytes.split_first_chunk::<HEAD_LEN>()
                && let Some(rest) = rest.get(payload_len(head)..)
                && !matches!(head[3], SETTINGS | GOAWAY)
            {
                (self.head, bytes) = (*head, rest);
                if self.kind() == HEADERS {
                    report(self.frame(&[]));
                }
            } else if self.payload_left > 0 {
                let n = self.payload_left.min(bytes.len());
                if let Some(kept) = &mut self.kept {
                    let room = KEPT_PAYLOAD.saturating_sub(kept.len());
                    kept.extend_from_slice(&bytes[..n.min(room)]);
                }
                self.payload_left -= n;
                bytes = &bytes[n..];
            } else {
                if let (0, Some((head, rest))) = (self.head_len, bytes.split_first_chunk()) {
                    (self.head, bytes) = (*head, rest);
                } else {
                    let n = (HEAD_LEN - self.head_len).min(bytes.len());
                    self.head[self.head_len..self.head_len + n].copy_from_slice(&bytes[..n]);
                    self.head_len += n;
                    bytes = &bytes[n..];
                    if self.head_len < HEAD_LEN {
                        return;
                    }
                    self.head_len = 0;
                }
                self.payload_left = payload_len(&self.head);
                match self.kind() {
                    SETTINGS | GOAWAY => self.kept = Some(Vec::new()),
                    HEADERS => report(self.frame(&[])),
                    _ => {}
                }
            }
            if self.payload_left == 0
                && let Some(kept) = self.kept.take()
            {
                report(self.frame(&kept));
            }
        }
    }

    fn kind(&self) -> u8 {
        self.head[3]
    }

    fn frame<'a>(&self, payload: &'a [u8]) -> Frame<'a> {
        let id = u32::from_be_bytes([self.head[5], self.head[6], self.head[7], self.head[8]]);
        Frame { kind: self.kind(), flags: self.head[4], stream_id: id & 0x7fff_ffff, payload }
    }
}

fn payload_len(head: &[u8; HEAD_LEN]) -> usize {
    u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize
}

/// Takes empty DATA frames that end nothing out of what a server sends. `h2` counts them, and ends a connection at its
/// hundredth; some edges pad long downloads with them.
///
/// A frame's head that is not complete yet is held back, so that what passes never ends within one.
#[derive(Debug)]
pub(super) struct EmptyDataFilter {
    payload_left: usize,
    held: [u8; HEAD_LEN],
    held_len: usize,
}

impl EmptyDataFilter {
    pub(super) fn new() -> Self {
        Self { payload_left: 0, held: [0; HEAD_LEN], held_len: 0 }
    }

    /// What is held back, to be put before the next bytes. The caller must do so.
    pub(super) fn take_held(&mut self) -> ([u8; HEAD_LEN], usize) {
        (self.held, std::mem::take(&mut self.held_len))
    }

    /// Moves what passes to the front of `bytes`, and returns its length.
    pub(super) fn filter(&mut self, bytes: &mut [u8]) -> usize {
        let (mut from, mut to) = (0, 0);
        while from < bytes.len() {
            let n = if self.payload_left > 0 {
                let n = self.payload_left.min(bytes.len() - from);
                self.payload_left -= n;
                n
            } else {
                let Some(head) = bytes[from..].first_chunk::<HEAD_LEN>() else {
                    let rest = &bytes[from..];
                    self.held[..rest.len()].copy_from_slice(rest);
                    self.held_len = rest.len();
                    break;
                };
                let len = payload_len(head);
                if len == 0 && head[3] == DATA && head[4] & FLAG_END_STREAM == 0 {
                    from += HEAD_LEN;
                    continue;
                }
                let n = (HEAD_LEN + len).min(bytes.len() - from);
                self.payload_left = HEAD_LEN + len - n;
                n
            };
            if from != to {
                bytes.copy_within(from..from + n, to);
            }
            from += n;
            to += n;
        }
        to
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, flags: u8, id: u32, payload: &[u8]) -> Vec<u8> {
        let mut out = (payload.len() as u32).to_be_bytes()[1..].to_vec();
        out.push(kind);
        out.push(flags);
        out.extend(id.to_be_bytes());
        out.extend(payload);
        out
    }

    type Seen = (u8, u8, u32, Vec<u8>);

    fn read(reader: &mut FrameReader, pieces: &[&[u8]]) -> Vec<Seen> {
        let mut seen = Vec::new();
        for piece in pieces {
            reader.feed(piece, |f| seen.push((f.kind, f.flags, f.stream_id, f.payload.to_vec())));
        }
        seen
    }

    #[test]
    fn frames_are_found_however_the_bytes_are_cut() {
        let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
        bytes.extend(frame(SETTINGS, 0, 0, &[0, 3, 0, 0, 0, 10]));
        bytes.extend(frame(HEADERS, 4, 1, b"head"));
        bytes.extend(frame(0, 1, 1, b"data"));
        bytes.extend(frame(SETTINGS, FLAG_ACK, 0, &[]));
        bytes.extend(frame(GOAWAY, 0, 0x8000_0000, b"\0\0\0\x01\0\0\0\0max_age"));
        let want: Vec<Seen> = vec![
            (SETTINGS, 0, 0, vec![0, 3, 0, 0, 0, 10]),
            (HEADERS, 4, 1, vec![]),
            (SETTINGS, FLAG_ACK, 0, vec![]),
            (GOAWAY, 0, 0, b"\0\0\0\x01\0\0\0\0max_age".to_vec()),
        ];
        for size in 1..bytes.len() {
            let pieces: Vec<&[u8]> = bytes.chunks(size).collect();
            assert_eq!(read(&mut FrameReader::outbound(), &pieces), want, "pieces of {size}");
        }
    }

    #[test]
    fn a_long_goaway_is_kept_in_part_and_the_next_frame_is_still_found() {
        let mut bytes = frame(GOAWAY, 0, 0, &vec![7; 100_000]);
        bytes.extend(frame(HEADERS, 0, 9, &[]));
        let seen = read(&mut FrameReader::inbound(), &[&bytes]);
        assert_eq!(seen[0].3.len(), KEPT_PAYLOAD);
        assert_eq!(seen[1], (HEADERS, 0, 9, vec![]));
    }

    #[test]
    fn empty_data_that_ends_nothing_is_taken_out_however_the_bytes_are_cut() {
        let empty = frame(DATA, 0, 1, &[]);
        let kept = [
            frame(HEADERS, 4, 1, b"head"),
            frame(DATA, 0, 1, b"data"),
            frame(DATA, FLAG_END_STREAM, 1, &[]),
            frame(SETTINGS, 0, 0, &[]),
        ];
        let mut bytes = empty.clone();
        for frame in &kept {
            bytes.extend(frame);
            bytes.extend(&empty);
            bytes.extend(&empty);
        }
        for size in 1..=bytes.len() {
            let mut filter = EmptyDataFilter::new();
            let mut passed = Vec::new();
            for piece in bytes.chunks(size) {
                let (held, len) = filter.take_held();
                let mut piece = [&held[..len], piece].concat();
                let n = filter.filter(&mut piece);
                passed.extend_from_slice(&piece[..n]);
            }
            assert_eq!(passed, kept.concat(), "pieces of {size}");
        }
    }
}
