//! W3C Trace Context: a `traceparent` for each attempt.

use http::header::HeaderName;
use http::{HeaderMap, HeaderValue};

static TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

/// Flags of a trace that begins here: sampled, by an identifier that is random.
const BEGUN_HERE: u8 = 3;

/// The trace that a call belongs to.
pub(crate) struct TraceContext {
    trace: u128,
    flags: u8,
}

impl TraceContext {
    /// The caller's own trace, where its headers name one; else a new one.
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        let given = headers.get(&TRACEPARENT).and_then(|value| parse(value.as_bytes()));
        given.unwrap_or_else(|| Self { trace: fastrand::u128(1..), flags: BEGUN_HERE })
    }

    /// Gives an attempt a span of its own within the trace.
    pub(crate) fn set(&self, headers: &mut HeaderMap) {
        let span = fastrand::u64(1..);
        let text = format!("00-{:032x}-{span:016x}-{:02x}", self.trace, self.flags);
        // Hexadecimal digits always are a header's value.
        if let Ok(value) = HeaderValue::try_from(text) {
            headers.insert(TRACEPARENT.clone(), value);
        }
    }
}

/// Reads `version-trace-parent-flags` (Trace Context, section 3.2). A later version may have more behind that.
pub(crate) fn parse(value: &[u8]) -> Option<TraceContext> {
    let text = std::str::from_utf8(value).ok()?;
    let mut parts = text.split('-');
    let version = hex(parts.next()?, 2)?;
    let trace = hex(parts.next()?, 32)?;
    let parent = hex(parts.next()?, 16)?;
    let flags = hex(parts.next()?, 2)?;
    let ends = parts.next().is_none();
    let is_valid = version != 0xff && (ends || version > 0) && trace != 0 && parent != 0;
    // Version 00 knows two flags; what else is set is not ours to pass on.
    is_valid.then_some(TraceContext { trace, flags: flags as u8 & BEGUN_HERE })
}

/// So many digits, in lower case.
fn hex(text: &str, digits: usize) -> Option<u128> {
    let is_hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    if text.len() != digits || !text.bytes().all(is_hex) {
        return None;
    }
    u128::from_str_radix(text, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIVEN: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    fn set(context: &TraceContext) -> String {
        let mut headers = HeaderMap::new();
        context.set(&mut headers);
        headers[&TRACEPARENT].to_str().unwrap().to_owned()
    }

    #[test]
    fn each_attempt_has_a_span_of_its_own_in_the_callers_trace() {
        let headers = HeaderMap::from_iter([(TRACEPARENT.clone(), HeaderValue::from_static(GIVEN))]);
        let context = TraceContext::of(&headers);
        let (first, second) = (set(&context), set(&context));
        for text in [&first, &second] {
            assert_eq!(text.len(), GIVEN.len());
            assert!(text.starts_with("00-4bf92f3577b34da6a3ce929d0e0e4736-") && text.ends_with("-01"), "{text}");
            assert!(parse(text.as_bytes()).is_some());
        }
        assert_ne!(first, second);
        assert!(!first.contains("00f067aa0ba902b7"));
    }

    #[test]
    fn what_is_no_trace_is_replaced_by_one() {
        for text in [
            "",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7",
            "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more",
            "00-+bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        ] {
            assert!(parse(text.as_bytes()).is_none(), "{text}");
        }
        assert!(parse(b"01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more").is_some());
        assert!(parse(set(&TraceContext::of(&HeaderMap::new())).as_bytes()).is_some());
    }
}
