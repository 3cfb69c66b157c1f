//! Heads and bodies of HTTP/1.1 (RFC 9112), of requests and of answers.

use bytes::{Buf, Bytes, BytesMut};

use crate::head::Field;

/// The largest head that is read.
const MAX_HEAD: usize = 64 * 1024;

/// The longest line that tells a chunk's length.
const MAX_CHUNK_LINE: usize = 256;

/// A head whose first line is not looked into.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct RawHead {
    pub(crate) first: String,
    pub(crate) fields: Vec<Field>,
}

impl RawHead {
    pub(crate) fn value(&self, name: &str) -> Option<&Bytes> {
        self.fields.iter().find(|field| &field.name[..] == name.as_bytes()).map(|field| &field.value)
    }

    /// Whether a list field such as Connection has this token.
    pub(crate) fn lists(&self, name: &str, token: &str) -> bool {
        let has = |value: &[u8]| {
            value.split(|byte| *byte == b',').any(|part| part.trim_ascii().eq_ignore_ascii_case(token.as_bytes()))
        };
        self.fields.iter().any(|field| &field.name[..] == name.as_bytes() && has(&field.value))
    }

    /// How the body ends; `otherwise` if nothing tells.
    pub(crate) fn framing(&self, otherwise: Decoder) -> Result<Decoder, String> {
        if self.lists("transfer-encoding", "chunked") {
            return Ok(Decoder::ChunkHead);
        }
        match self.value("content-length") {
            None => Ok(otherwise),
            Some(value) => {
                let text = String::from_utf8_lossy(value);
                let length = text.trim().parse().map_err(|_| format!("Content-Length is {text:?}"))?;
                Ok(if length == 0 { Decoder::Done } else { Decoder::Length(length) })
            }
        }
    }
}

/// Takes a head from the buffer. `None`: it is not whole yet.
pub(crate) fn head(buffer: &mut BytesMut) -> Result<Option<RawHead>, String> {
    // Empty lines before a request are passed over (RFC 9112, section 2.2).
    while buffer.starts_with(b"\r\n") {
        buffer.advance(2);
    }
    let Some(end) = find(buffer, b"\r\n\r\n") else {
        let too_long = format!("a head of more than {MAX_HEAD} bytes");
        return if buffer.len() > MAX_HEAD { Err(too_long) } else { Ok(None) };
    };
    let text = buffer.split_to(end + 4).freeze();
    let first_end = find(&text, b"\r\n").unwrap_or(end);
    let first = String::from_utf8_lossy(&text[..first_end]).into_owned();
    let mut fields = Vec::with_capacity(12);
    let mut at = first_end + 2;
    while at < end + 2 {
        let length = find(&text[at..], b"\r\n").unwrap_or(0);
        let line = text.slice(at..at + length);
        at += length + 2;
        let colon = line.iter().position(|byte| *byte == b':').filter(|colon| *colon > 0);
        let colon = colon.ok_or_else(|| format!("the header line {:?}", String::from_utf8_lossy(&line)))?;
        let value = line.slice_ref(line[colon + 1..].trim_ascii());
        fields.push(Field { name: line[..colon].to_ascii_lowercase().into(), value });
    }
    Ok(Some(RawHead { first, fields }))
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|window| window == wanted)
}

/// Where in a body we are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Decoder {
    Done,
    Length(u64),
    ChunkHead,
    ChunkData(u64),
    ChunkEnd,
    Trailers,
    UntilEnd,
}

/// What comes next of a body.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Piece(Bytes),
    More,
    End,
}

impl Decoder {
    /// Takes the next piece of a body from the buffer.
    pub(crate) fn next(&mut self, buffer: &mut BytesMut) -> Result<Step, String> {
        loop {
            match *self {
                Self::Done => return Ok(Step::End),
                _ if buffer.is_empty() => return Ok(Step::More),
                Self::UntilEnd => return Ok(Step::Piece(buffer.split().freeze())),
                Self::Length(left) => {
                    let (piece, left) = take(buffer, left);
                    *self = if left == 0 { Self::Done } else { Self::Length(left) };
                    return Ok(Step::Piece(piece));
                }
                Self::ChunkData(left) => {
                    let (piece, left) = take(buffer, left);
                    *self = if left == 0 { Self::ChunkEnd } else { Self::ChunkData(left) };
                    return Ok(Step::Piece(piece));
                }
                Self::ChunkHead => {
                    let Some(line) = line(buffer)? else { return Ok(Step::More) };
                    let digits = line.split(';').next().unwrap_or_default().trim();
                    let size = u64::from_str_radix(digits, 16).map_err(|_| format!("the chunk length {digits:?}"))?;
                    *self = if size == 0 { Self::Trailers } else { Self::ChunkData(size) };
                }
                Self::ChunkEnd => {
                    let Some(line) = line(buffer)? else { return Ok(Step::More) };
                    if !line.is_empty() {
                        return Err(format!("{line:?} after a chunk"));
                    }
                    *self = Self::ChunkHead;
                }
                Self::Trailers => {
                    let Some(line) = line(buffer)? else { return Ok(Step::More) };
                    if line.is_empty() {
                        *self = Self::Done;
                    }
                }
            }
        }
    }
}

fn take(buffer: &mut BytesMut, left: u64) -> (Bytes, u64) {
    let size = buffer.len().min(usize::try_from(left).unwrap_or(usize::MAX));
    (buffer.split_to(size).freeze(), left - size as u64)
}

fn line(buffer: &mut BytesMut) -> Result<Option<String>, String> {
    match find(buffer, b"\r\n") {
        Some(end) => Ok(Some(String::from_utf8_lossy(&buffer.split_to(end + 2)[..end]).into_owned())),
        None if buffer.len() > MAX_CHUNK_LINE => Err("a chunk line without an end".to_owned()),
        None => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_taken_when_it_is_whole() {
        let mut buffer = BytesMut::from("\r\nGET / HTTP/1.1\r\nHost:  a \r\nX-B: c");
        assert_eq!(head(&mut buffer), Ok(None));
        buffer.extend_from_slice(b"\r\n\r\nrest");
        let head = head(&mut buffer).unwrap().unwrap();
        assert_eq!(head.first, "GET / HTTP/1.1");
        assert_eq!(head.fields, [Field::new("host", "a"), Field::new("x-b", "c")]);
        assert_eq!(&buffer[..], b"rest");
    }

    #[test]
    fn bodies_end_as_told() {
        let decode = |mut decoder: Decoder, text: &str| {
            let mut buffer = BytesMut::from(text);
            let mut body = Vec::new();
            loop {
                match decoder.next(&mut buffer)? {
                    Step::Piece(piece) => body.extend_from_slice(&piece),
                    Step::More => return Ok::<_, String>((String::from_utf8(body).unwrap(), false, buffer.len())),
                    Step::End => return Ok((String::from_utf8(body).unwrap(), true, buffer.len())),
                }
            }
        };
        assert_eq!(decode(Decoder::Length(3), "abcd"), Ok(("abc".into(), true, 1)));
        assert_eq!(decode(Decoder::Length(5), "abcd"), Ok(("abcd".into(), false, 0)));
        assert_eq!(
            decode(Decoder::ChunkHead, "3;x=y\r\nabc\r\n1\r\nd\r\n0\r\na: b\r\n\r\n!"),
            Ok(("abcd".into(), true, 1))
        );
        assert_eq!(decode(Decoder::ChunkHead, "3\r\nab"), Ok(("ab".into(), false, 0)));
        assert_eq!(decode(Decoder::UntilEnd, "ab"), Ok(("ab".into(), false, 0)));
        assert!(decode(Decoder::ChunkHead, "zz\r\n").is_err());
        assert!(decode(Decoder::ChunkHead, "1\r\nab\r\n").is_err());
    }

    #[test]
    fn lists_are_read_token_by_token() {
        let mut buffer = BytesMut::from("x\r\nConnection: keep-alive, Close\r\n\r\n");
        let head = head(&mut buffer).unwrap().unwrap();
        assert!(head.lists("connection", "close") && !head.lists("connection", "clos"));
    }
}
