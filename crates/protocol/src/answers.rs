//! What a sandbox's answers say that their status does not.

use http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use http::response::Parts;
use oncebox_policy::Reading;
use serde::Deserialize;

use crate::{ErrorBody, edge};

/// What the answer to a request to a sandbox, never to the control plane, says in its body, as far as it has come:
///
/// - the proxy in front of sandboxes says that nothing was delivered, or that no such sandbox runs;
/// - a stream of a Connect RPC ends with an error before its first message: unavailable, resource_exhausted and
///   deadline_exceeded are what 503, 429 and 504 are to other calls (Connect protocol, error codes).
///
/// `ended`: no more of the body comes. Where the head alone tells that the body says nothing more, nothing of it has to be
/// there. It is what the transport's `CallOptions::answer_reader` takes.
///
/// ```
/// use oncebox_policy::Reading;
/// use oncebox_protocol::answers;
///
/// let (head, ()) = http::Response::builder().status(502).body(())?.into_parts();
/// assert_eq!(answers::read(&head, br#"{"message": "port is not"#, false), Reading::More);
/// assert_eq!(answers::read(&head, b"bad gateway", true), Reading::Nothing);
/// # Ok::<(), http::Error>(())
/// ```
pub fn read(head: &Parts, begun: &[u8], ended: bool) -> Reading {
    if is_connect_stream(head) {
        return first_envelope(begun);
    }
    let status = head.status.as_u16();
    if !edge::ANSWERS.iter().any(|answer| answer.status == status) {
        return Reading::Nothing;
    }
    if !ended {
        return Reading::More;
    }
    let message = ErrorBody::parse(begun).message.unwrap_or_default();
    edge::classify(status, &message).map_or(Reading::Nothing, |answer| Reading::Edge(answer.edge))
}

/// Flags, and a length in four bytes (Connect protocol, enveloped messages).
const ENVELOPE_HEAD: usize = 5;

/// The envelope's content is compressed. Nobody looks into such.
const COMPRESSED: u8 = 1;

/// The envelope ends the stream.
const END_STREAM: u8 = 2;

/// Nobody looks into one with a `Content-Encoding`.
fn is_connect_stream(head: &Parts) -> bool {
    let is_connect = |kind: &http::HeaderValue| kind.as_bytes().starts_with(b"application/connect+");
    head.status.is_success()
        && !head.headers.contains_key(CONTENT_ENCODING)
        && head.headers.get(CONTENT_TYPE).is_some_and(is_connect)
}

fn first_envelope(begun: &[u8]) -> Reading {
    let Some((&flags, rest)) = begun.split_first() else { return Reading::More };
    if flags & END_STREAM == 0 || flags & COMPRESSED != 0 {
        return Reading::Nothing;
    }
    let Some((length, content)) = rest.split_first_chunk::<{ ENVELOPE_HEAD - 1 }>() else { return Reading::More };
    let length = usize::try_from(u32::from_be_bytes(*length)).unwrap_or(usize::MAX);
    let Some(content) = content.get(..length) else { return Reading::More };
    end_of_stream(content)
}

fn end_of_stream(content: &[u8]) -> Reading {
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
        return Reading::Nothing;
    };
    match code.as_str() {
        "unavailable" => edge::classify_rpc(&message).map_or(Reading::Like(503), |answer| Reading::Edge(answer.edge)),
        "resource_exhausted" => Reading::Like(429),
        "deadline_exceeded" => Reading::Like(504),
        _ => Reading::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use oncebox_policy::Edge;

    use super::*;

    fn answer(status: u16, kind: &str, body: &[u8]) -> Vec<Reading> {
        let head = http::Response::builder().status(status).header(CONTENT_TYPE, kind).body(()).unwrap().into_parts().0;
        // As it comes byte by byte, and then at its end.
        let mut said: Vec<Reading> = (0..body.len()).map(|come| read(&head, &body[..come], false)).collect();
        said.push(read(&head, body, true));
        said.dedup();
        said
    }

    fn envelope(flags: u8, content: &str) -> Vec<u8> {
        let length = u32::try_from(content.len()).unwrap().to_be_bytes();
        [&[flags][..], &length, content.as_bytes()].concat()
    }

    #[test]
    fn the_edges_answers_are_read_whole() {
        let json = "application/json";
        let cases: [(u16, &[u8], Vec<Reading>); 6] = [
            (502, br#"{"message": "The sandbox was not found"}"#, vec![Reading::More, Reading::Edge(Edge::NotRunning)]),
            (
                502,
                b"The sandbox is running but port is not open",
                vec![Reading::More, Reading::Edge(Edge::NotDelivered)],
            ),
            (409, br#"{"message": "still transitioning"}"#, vec![Reading::More, Reading::Edge(Edge::NotDelivered)]),
            (502, b"bad gateway", vec![Reading::More, Reading::Nothing]),
            (502, b"", vec![Reading::Nothing]),
            (500, b"port is not open", vec![Reading::Nothing]),
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
            ("unavailable", "busy", Reading::Like(503)),
            ("resource_exhausted", "slow down", Reading::Like(429)),
            ("deadline_exceeded", "late", Reading::Like(504)),
            ("internal", "broken", Reading::Nothing),
            ("unavailable", "port is not open", Reading::Edge(Edge::NotDelivered)),
            ("not_found", "the file was not found", Reading::Nothing),
        ] {
            let body = envelope(END_STREAM, &error(code, message));
            assert_eq!(answer(200, kind, &body), [Reading::More, said], "{code}: {message}");
        }
        let unavailable = error("unavailable", "busy");
        let nothing = [Reading::More, Reading::Nothing];
        assert_eq!(answer(200, kind, &envelope(0, "{}")), nothing, "a message");
        assert_eq!(answer(200, kind, &envelope(END_STREAM | COMPRESSED, &unavailable)), nothing, "compressed");
        assert_eq!(answer(200, kind, &envelope(END_STREAM, "{}")), nothing, "ended well");
        assert_eq!(answer(200, kind, &envelope(END_STREAM, "no JSON")), nothing);
        let mut after_a_message = envelope(0, "{}");
        after_a_message.extend(envelope(END_STREAM, &unavailable));
        assert_eq!(answer(200, kind, &after_a_message), nothing);
        assert_eq!(answer(200, "application/json", &envelope(END_STREAM, &unavailable)), [Reading::Nothing]);
    }
}
