//! What a sandbox's answers say that their status does not.

use oncebox_policy::Edge;
use serde::Deserialize;

use crate::{ErrorBody, edge};

/// What was read of an answer's body, as far as it has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Said {
    /// More of the body is needed. Once it has ended, this says nothing.
    More,
    /// Nothing but what the head says.
    Nothing,
    /// The proxy in front of sandboxes answered in place of a sandbox.
    Edge(Edge),
    /// It is what an answer with this status is to other calls.
    Like(u16),
}

/// The head of an answer to a request to a sandbox, never to the control plane, as far as its body is read by it:
///
/// - the proxy in front of sandboxes says that nothing was delivered, or that no such sandbox runs;
/// - a stream of a Connect RPC ends with an error before its first message: unavailable, resource_exhausted and
///   deadline_exceeded are what 503, 429 and 504 are to other calls (Connect protocol, error codes).
///
/// ```
/// use oncebox_protocol::answers::{Head, Said};
///
/// let head = Head { status: 502, content_type: b"application/json", is_encoded: false };
/// assert!(head.says_more());
/// assert_eq!(head.read(br#"{"message": "port is not"#, false), Said::More);
/// assert_eq!(head.read(b"bad gateway", true), Said::Nothing);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Head<'a> {
    /// Its status.
    pub status: u16,
    /// Its `Content-Type`; empty where there is none.
    pub content_type: &'a [u8],
    /// Whether it has a `Content-Encoding`. Nobody looks into such a stream.
    pub is_encoded: bool,
}

/// Flags, and a length in four bytes (Connect protocol, enveloped messages).
const ENVELOPE_HEAD: usize = 5;

/// The envelope's content is compressed. Nobody looks into such.
const COMPRESSED: u8 = 1;

/// The envelope ends the stream.
const END_STREAM: u8 = 2;

impl Head<'_> {
    /// Whether the body may say more. Where not, nothing of it has to be read.
    pub fn says_more(&self) -> bool {
        edge::ANSWERS.iter().any(|answer| answer.status == self.status) || self.is_connect_stream()
    }

    /// What the body says, as far as it has come; `ended`: no more of it comes.
    pub fn read(&self, begun: &[u8], ended: bool) -> Said {
        if self.is_connect_stream() {
            return first_envelope(begun);
        }
        if !ended {
            return Said::More;
        }
        let message = ErrorBody::parse(begun).message.unwrap_or_default();
        edge::classify(self.status, &message).map_or(Said::Nothing, |answer| Said::Edge(answer.edge))
    }

    fn is_connect_stream(&self) -> bool {
        (200..300).contains(&self.status) && !self.is_encoded && self.content_type.starts_with(b"application/connect+")
    }
}

fn first_envelope(begun: &[u8]) -> Said {
    let Some((&flags, rest)) = begun.split_first() else { return Said::More };
    if flags & END_STREAM == 0 || flags & COMPRESSED != 0 {
        return Said::Nothing;
    }
    let Some((length, content)) = rest.split_first_chunk::<{ ENVELOPE_HEAD - 1 }>() else { return Said::More };
    let length = usize::try_from(u32::from_be_bytes(*length)).unwrap_or(usize::MAX);
    let Some(content) = content.get(..length) else { return Said::More };
    end_of_stream(content)
}

fn end_of_stream(content: &[u8]) -> Said {
    #[derive(Deserialize)]
    struct End {
        error: Option<Failure>,
    }
    #[derive(Deserialize)]
    struct Failure {
        #[serde(default)]
        code: String,
        #[serde(default)]
        message: String,
    }
    let Ok(End { error: Some(Failure { code, message }) }) = serde_json::from_slice(content) else {
        return Said::Nothing;
    };
    match code.as_str() {
        "unavailable" => edge::classify_rpc(&message).map_or(Said::Like(503), |answer| Said::Edge(answer.edge)),
        "resource_exhausted" => Said::Like(429),
        "deadline_exceeded" => Said::Like(504),
        _ => Said::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(status: u16, kind: &str, body: &[u8]) -> Vec<Said> {
        let head = Head { status, content_type: kind.as_bytes(), is_encoded: false };
        if !head.says_more() {
            return Vec::new();
        }
        // As it comes byte by byte, and then at its end.
        let mut read: Vec<Said> = (0..body.len()).map(|come| head.read(&body[..come], false)).collect();
        read.push(head.read(body, true));
        read.dedup();
        read
    }

    fn envelope(flags: u8, content: &str) -> Vec<u8> {
        let length = u32::try_from(content.len()).unwrap().to_be_bytes();
        [&[flags][..], &length, content.as_bytes()].concat()
    }

    #[test]
    fn the_edges_answers_are_read_whole() {
        let json = "application/json";
        let cases: [(u16, &[u8], Vec<Said>); 6] = [
            (502, br#"{"message": "The sandbox was not found"}"#, vec![Said::More, Said::Edge(Edge::NotRunning)]),
            (502, b"The sandbox is running but port is not open", vec![Said::More, Said::Edge(Edge::NotDelivered)]),
            (409, br#"{"message": "still transitioning"}"#, vec![Said::More, Said::Edge(Edge::NotDelivered)]),
            (502, b"bad gateway", vec![Said::More, Said::Nothing]),
            (502, b"", vec![Said::Nothing]),
            (500, b"port is not open", vec![]),
        ];
        for (status, body, expected) in cases {
            assert_eq!(answer(status, json, body), expected, "{status} {}", String::from_utf8_lossy(body));
        }
    }

    #[test]
    fn a_stream_that_ends_before_its_first_message_is_judged_by_its_error() {
        let kind = "application/connect+json";
        let error = |code: &str, message: &str| format!(r#"{{"error": {{"code": "{code}", "message": "{message}"}}}}"#);
        for (code, message, said) in [
            ("unavailable", "busy", Said::Like(503)),
            ("resource_exhausted", "slow down", Said::Like(429)),
            ("deadline_exceeded", "late", Said::Like(504)),
            ("internal", "broken", Said::Nothing),
            ("unavailable", "port is not open", Said::Edge(Edge::NotDelivered)),
            ("not_found", "the file was not found", Said::Nothing),
        ] {
            let body = envelope(END_STREAM, &error(code, message));
            assert_eq!(answer(200, kind, &body), [Said::More, said], "{code}: {message}");
        }
        let unavailable = error("unavailable", "busy");
        let nothing = [Said::More, Said::Nothing];
        assert_eq!(answer(200, kind, &envelope(0, "{}")), nothing, "a message");
        assert_eq!(answer(200, kind, &envelope(END_STREAM | COMPRESSED, &unavailable)), nothing, "compressed");
        assert_eq!(answer(200, kind, &envelope(END_STREAM, "{}")), nothing, "ended well");
        assert_eq!(answer(200, kind, &envelope(END_STREAM, "no JSON")), nothing);
        let mut after_a_message = envelope(0, "{}");
        after_a_message.extend(envelope(END_STREAM, &unavailable));
        assert_eq!(answer(200, kind, &after_a_message), nothing);
        assert_eq!(answer(200, "application/json", &envelope(END_STREAM, &unavailable)), []);
    }
}
