//! The `Should-Retry` response header (protocol fact: the official SDK obeys it since 2.60).

/// What a `Should-Retry` value says: `true`, trimmed and in any ASCII case, asks for a retry; anything else forbids
/// it.
///
/// ```
/// assert!(oncebox_policy::should_retry(b" True "));
/// assert!(!oncebox_policy::should_retry(b"yes"));
/// ```
pub fn should_retry(value: &[u8]) -> bool {
    value.trim_ascii().eq_ignore_ascii_case(b"true")
}
