//! Headers kept for another attempt.

use http::HeaderMap;
use http::header::{HeaderName, HeaderValue};

/// A copy of a request's headers, in one piece of memory: most calls make one attempt and never look at it.
pub(super) struct Headers {
    /// Each field: the length of its name, that of its value with [`SENSITIVE`] in its highest bit, name, value.
    bytes: Vec<u8>,
}

/// Marks a value that is never to be indexed or shown.
const SENSITIVE: u32 = 1 << 31;

const LENGTHS: usize = 8;

/// What a field takes, name and value and all, as a rule.
const USUAL_SIZE: usize = 64;

impl Headers {
    /// Copies the headers, and shows the name of each.
    pub(super) fn of(headers: &HeaderMap, mut see: impl FnMut(&str)) -> Self {
        let mut bytes = Vec::with_capacity(headers.len() * USUAL_SIZE);
        for (name, value) in headers {
            let name = name.as_str();
            see(name);
            let sensitive = if value.is_sensitive() { SENSITIVE } else { 0 };
            let lengths = u64::from(name.len() as u32) << 32 | u64::from(value.len() as u32 | sensitive);
            bytes.extend_from_slice(&lengths.to_be_bytes());
            bytes.extend_from_slice(name.as_bytes());
            bytes.extend_from_slice(value.as_bytes());
        }
        Self { bytes }
    }

    /// Appends each field, in the order in which they were kept.
    pub(super) fn append_to(&self, headers: &mut HeaderMap) {
        let mut left = &self.bytes[..];
        while let Some((lengths, rest)) = left.split_first_chunk::<LENGTHS>() {
            let [a, b, c, d, e, f, g, h] = *lengths;
            let name_len = u32::from_be_bytes([a, b, c, d]) as usize;
            let value_len = u32::from_be_bytes([e, f, g, h]);
            let (name, rest) = rest.split_at(name_len);
            let (value, rest) = rest.split_at((value_len & !SENSITIVE) as usize);
            left = rest;
            // They were a name and a value before.
            if let (Ok(name), Ok(mut value)) = (HeaderName::from_bytes(name), HeaderValue::from_bytes(value)) {
                value.set_sensitive(value_len & SENSITIVE != 0);
                headers.append(name, value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_come_back_as_they_were_with_repeats_empty_values_any_byte_and_what_is_secret() {
        let mut headers = HeaderMap::new();
        headers.append("x-one", HeaderValue::from_static("1"));
        headers.append("accept", HeaderValue::from_static(""));
        headers.append("x-one", HeaderValue::from_bytes(b"\t\xff two").unwrap());
        headers.append("x-long", HeaderValue::from_bytes(&[b'v'; 70_000]).unwrap());
        let mut secret = HeaderValue::from_static("key");
        secret.set_sensitive(true);
        headers.append("authorization", secret);

        let (mut back, mut names) = (HeaderMap::new(), Vec::new());
        Headers::of(&headers, |name| names.push(name.to_owned())).append_to(&mut back);
        assert_eq!(names, ["x-one", "x-one", "accept", "x-long", "authorization"]);
        assert_eq!(back, headers);
        assert!(back["authorization"].is_sensitive() && !back["accept"].is_sensitive());

        Headers::of(&HeaderMap::new(), |_| ()).append_to(&mut back);
        assert_eq!(back, headers);
    }
}
