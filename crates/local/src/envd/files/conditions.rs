//! Conditional and range requests on one file: RFC 9110, sections 13 and 14.

use std::time::{Duration, SystemTime};

use http::{HeaderMap, header};

/// What identifies a file's contents at one moment.
#[derive(Debug, Clone)]
pub(super) struct Validators {
    /// A strong entity tag, with its quotes.
    pub(super) etag: String,
    /// When the contents last changed, in whole seconds.
    pub(super) modified: Option<SystemTime>,
}

/// What the request's conditions come to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Verdict {
    /// All of it is sent.
    Whole,
    /// Bytes `first` to `last` are sent.
    Part { first: u64, last: u64 },
    /// The client has it: 304.
    NotModified,
    /// What the client wants to hold does not: 412.
    Failed,
    /// No byte of the range exists: 416.
    OutOfRange,
}

/// Judges a GET or HEAD of `length` bytes. Conditions come first (13.2.2), then the range. Several ranges in one request
/// are answered with the whole, as 14.2 allows.
pub(super) fn judge(headers: &HeaderMap, validators: &Validators, length: u64) -> Verdict {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let date = |name| text(name).and_then(|value| httpdate::parse_http_date(value).ok());
    let modified = validators.modified.map(whole_seconds);
    if headers.contains_key(header::IF_MATCH) {
        if !lists(headers, header::IF_MATCH, |tag| tag == validators.etag) {
            return Verdict::Failed;
        }
    } else if let (Some(since), Some(modified)) = (date(header::IF_UNMODIFIED_SINCE), modified)
        && modified > since
    {
        return Verdict::Failed;
    }
    if headers.contains_key(header::IF_NONE_MATCH) {
        if lists(headers, header::IF_NONE_MATCH, |tag| tag.strip_prefix("W/").unwrap_or(tag) == validators.etag) {
            return Verdict::NotModified;
        }
    } else if let (Some(since), Some(modified)) = (date(header::IF_MODIFIED_SINCE), modified)
        && modified <= since
    {
        return Verdict::NotModified;
    }
    let unchanged = match text(header::IF_RANGE) {
        None => true,
        // Strong comparison: a weak tag is never equal.
        Some(tag) if tag.starts_with(['"', 'W']) => tag == validators.etag,
        Some(_) => modified.is_some() && date(header::IF_RANGE) == modified,
    };
    match text(header::RANGE) {
        Some(range) if unchanged && headers.get_all(header::RANGE).iter().count() == 1 => of_range(range, length),
        _ => Verdict::Whole,
    }
}

/// Whether one of the entity tags of a header, or `*`, is meant.
fn lists(headers: &HeaderMap, name: header::HeaderName, is: impl Fn(&str) -> bool) -> bool {
    headers.get_all(name).iter().filter_map(|value| value.to_str().ok()).any(|value| {
        // A comma inside quotes would be cut here, and no tag of ours has one.
        value.split(',').map(str::trim).any(|tag| tag == "*" || is(tag))
    })
}

/// One range of bytes. What is no such range is ignored, as 14.2 wants.
fn of_range(value: &str, length: u64) -> Verdict {
    let Some((unit, set)) = value.split_once('=') else { return Verdict::Whole };
    if !unit.trim().eq_ignore_ascii_case("bytes") || set.contains(',') {
        return Verdict::Whole;
    }
    let Some((first, last)) = set.trim().split_once('-') else { return Verdict::Whole };
    let number = |text: &str| {
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        // Beyond all numbers is beyond the end.
        digits.then(|| text.parse::<u64>().unwrap_or(u64::MAX))
    };
    let end = length.saturating_sub(1);
    match (number(first.trim()), number(last.trim()), first.trim().is_empty(), last.trim().is_empty()) {
        (None, Some(0), true, false) => Verdict::OutOfRange,
        (None, Some(_), true, false) if length == 0 => Verdict::OutOfRange,
        (None, Some(suffix), true, false) => Verdict::Part { first: length.saturating_sub(suffix), last: end },
        (Some(first), Some(last), ..) if last < first => Verdict::Whole,
        (Some(first), ..) if first >= length && (last.trim().is_empty() || number(last.trim()).is_some()) => {
            Verdict::OutOfRange
        }
        (Some(first), Some(last), ..) => Verdict::Part { first, last: last.min(end) },
        (Some(first), None, _, true) => Verdict::Part { first, last: end },
        _ => Verdict::Whole,
    }
}

fn whole_seconds(time: SystemTime) -> SystemTime {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    SystemTime::UNIX_EPOCH + Duration::from_secs(since.as_secs())
}

/// Whether the client takes gzip, and whether it takes the file as it is (RFC 9110, 12.5.3).
pub(super) fn accepted_encodings(headers: &HeaderMap) -> (bool, bool) {
    let (mut gzip, mut identity, mut any) = (None, None, None);
    let values = headers.get_all(header::ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    for coding in values.flat_map(|value| value.split(',')) {
        let mut parts = coding.split(';').map(str::trim);
        let name = parts.next().unwrap_or_default().to_ascii_lowercase();
        let weight = parts.find_map(|part| part.strip_prefix("q=").or(part.strip_prefix("Q=")));
        let wanted = weight.is_none_or(|weight| weight.trim().parse::<f32>().is_ok_and(|weight| weight > 0.0));
        match name.as_str() {
            "gzip" | "x-gzip" => gzip = Some(wanted),
            "identity" => identity = Some(wanted),
            "*" => any = Some(wanted),
            _ => {}
        }
    }
    (gzip.or(any).unwrap_or(false), identity.or(any.filter(|any| !any)).unwrap_or(true))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(pairs: &[(&str, &str)]) -> Verdict {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(http::HeaderName::try_from(*name).unwrap(), value.parse().unwrap());
        }
        let modified = Some(SystemTime::UNIX_EPOCH + Duration::from_millis(784_111_777_500));
        judge(&headers, &Validators { etag: "\"abc\"".to_owned(), modified }, 10)
    }

    const AT: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
    const BEFORE: &str = "Sun, 06 Nov 1994 08:49:36 GMT";

    #[test]
    fn ranges_are_cut_to_the_file_or_refused_or_ignored() {
        let part = |first, last| Verdict::Part { first, last };
        for (range, verdict) in [
            ("bytes=0-0", part(0, 0)),
            ("bytes=2-5", part(2, 5)),
            ("bytes=2-", part(2, 9)),
            ("bytes=-3", part(7, 9)),
            ("bytes=-30", part(0, 9)),
            ("bytes=9-99999999999999999999999", part(9, 9)),
            ("Bytes=1-2", part(1, 2)),
            ("bytes=10-", Verdict::OutOfRange),
            ("bytes=10-20", Verdict::OutOfRange),
            ("bytes=99999999999999999999-", Verdict::OutOfRange),
            ("bytes=-0", Verdict::OutOfRange),
            ("bytes=5-2", Verdict::Whole),
            ("bytes=a-b", Verdict::Whole),
            ("bytes=10-x", Verdict::Whole),
            ("bytes=-", Verdict::Whole),
            ("bytes=+1-2", Verdict::Whole),
            ("bytes=0-1,4-5", Verdict::Whole),
            ("lines=0-1", Verdict::Whole),
            ("bytes", Verdict::Whole),
        ] {
            assert_eq!(of(&[("range", range)]), verdict, "{range}");
        }
    }

    #[test]
    fn conditions_are_judged_in_the_order_of_the_rfc() {
        let part = Verdict::Part { first: 0, last: 1 };
        for (headers, verdict) in [
            (vec![("if-match", "\"abc\"")], Verdict::Whole),
            (vec![("if-match", "*")], Verdict::Whole),
            (vec![("if-match", "\"x\", \"abc\"")], Verdict::Whole),
            (vec![("if-match", "\"x\"")], Verdict::Failed),
            (vec![("if-match", "W/\"abc\"")], Verdict::Failed),
            (vec![("if-match", "\"abc\""), ("if-unmodified-since", BEFORE)], Verdict::Whole),
            (vec![("if-unmodified-since", AT)], Verdict::Whole),
            (vec![("if-unmodified-since", BEFORE)], Verdict::Failed),
            (vec![("if-none-match", "\"abc\"")], Verdict::NotModified),
            (vec![("if-none-match", "W/\"abc\"")], Verdict::NotModified),
            (vec![("if-none-match", "*")], Verdict::NotModified),
            (vec![("if-none-match", "\"x\""), ("if-modified-since", AT)], Verdict::Whole),
            (vec![("if-modified-since", AT)], Verdict::NotModified),
            (vec![("if-modified-since", BEFORE)], Verdict::Whole),
            (vec![("if-modified-since", "soon")], Verdict::Whole),
            (vec![("if-match", "\"x\""), ("if-none-match", "\"abc\"")], Verdict::Failed),
            (vec![("range", "bytes=0-1"), ("if-range", "\"abc\"")], part.clone()),
            (vec![("range", "bytes=0-1"), ("if-range", "\"x\"")], Verdict::Whole),
            (vec![("range", "bytes=0-1"), ("if-range", "W/\"abc\"")], Verdict::Whole),
            (vec![("range", "bytes=0-1"), ("if-range", AT)], part),
            (vec![("range", "bytes=0-1"), ("if-range", BEFORE)], Verdict::Whole),
            (vec![("range", "bytes=10-"), ("if-range", "\"x\"")], Verdict::Whole),
        ] {
            assert_eq!(of(&headers), verdict, "{headers:?}");
        }
    }

    #[test]
    fn encodings_are_taken_as_they_are_weighted() {
        for (value, accepted) in [
            ("gzip", (true, true)),
            ("gzip, deflate", (true, true)),
            ("gzip;q=0", (false, true)),
            ("identity;q=0, gzip", (true, false)),
            ("identity;q=0", (false, false)),
            ("*;q=0", (false, false)),
            ("*", (true, true)),
            ("br", (false, true)),
            ("", (false, true)),
        ] {
            let headers = HeaderMap::from_iter([(header::ACCEPT_ENCODING, value.parse().unwrap())]);
            assert_eq!(accepted_encodings(&headers), accepted, "{value}");
        }
        assert_eq!(accepted_encodings(&HeaderMap::new()), (false, true));
    }
}
