//! The metadata filter of a list: `key=value&key=value`, encoded more than once.
//!
//! Clients encode each key and value, join them as a query string, which encodes them again, and put that into a query,
//! which encodes it a third time. The third is undone before the filter gets here.

use std::collections::BTreeMap;

use percent_encoding::percent_decode_str;

/// The pairs a sandbox's metadata must contain.
pub(super) fn parse(filter: &str) -> Result<BTreeMap<String, String>, String> {
    let pairs = filter.split('&').filter(|pair| !pair.is_empty());
    pairs
        .map(|pair| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            Ok((decode_twice(key)?, decode_twice(value)?))
        })
        .collect()
}

fn decode_twice(text: &str) -> Result<String, String> {
    // A plus sign is a space for those who join query strings, and for nobody else.
    decode(&decode(&text.replace('+', " "))?)
}

fn decode(text: &str) -> Result<String, String> {
    let decoded = percent_decode_str(text).decode_utf8();
    decoded
        .map(std::borrow::Cow::into_owned)
        .map_err(|_| format!("'{}' is not UTF-8 once decoded", text.escape_debug()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_values_are_decoded_twice() {
        let pairs = parse("a%2520b=c%2526d&x=1&empty=").unwrap();
        let expected = [("a b", "c&d"), ("empty", ""), ("x", "1")];
        assert!(pairs.iter().map(|(key, value)| (key.as_str(), value.as_str())).eq(expected));
        assert!(parse("").unwrap().is_empty());
        assert!(parse("%ff=1").is_err());
    }
}
