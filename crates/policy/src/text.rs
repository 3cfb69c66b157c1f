//! A short text kept inline, so that evidence costs no allocation.

use core::fmt;

/// At most [`ShortText::CAPACITY`] bytes of UTF-8; longer input is cut, and what is not UTF-8 is replaced by `?`.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ShortText {
    len: u8,
    bytes: [u8; Self::CAPACITY],
}

impl ShortText {
    /// The most that is kept, in bytes.
    pub const CAPACITY: usize = 55;

    /// No text.
    pub const EMPTY: Self = Self { len: 0, bytes: [0; Self::CAPACITY] };

    /// Keeps the beginning of a text.
    pub fn new(text: &str) -> Self {
        Self::from_bytes(text.as_bytes())
    }

    /// Keeps the beginning of bytes a peer sent, GOAWAY's debug data for one.
    pub fn from_bytes(bytes: &[u8]) -> Self {
        let mut kept = Self::EMPTY;
        let cut = &bytes[..bytes.len().min(Self::CAPACITY)];
        // The cut may have gone through a character; that is not the peer's fault, so it is left out silently.
        let (text, foreign) = match core::str::from_utf8(cut) {
            Ok(_) => (cut, false),
            Err(e) if e.error_len().is_none() && bytes.len() > cut.len() => (&cut[..e.valid_up_to()], false),
            Err(_) => (cut, true),
        };
        for (to, from) in kept.bytes.iter_mut().zip(text) {
            *to = if foreign && !from.is_ascii() { b'?' } else { *from };
        }
        kept.len = text.len() as u8;
        kept
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        let bytes = self.bytes.get(..usize::from(self.len)).unwrap_or_default();
        core::str::from_utf8(bytes).unwrap_or_default()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl Default for ShortText {
    fn default() -> Self {
        Self::EMPTY
    }
}

impl From<&str> for ShortText {
    fn from(text: &str) -> Self {
        Self::new(text)
    }
}

impl fmt::Debug for ShortText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

impl fmt::Display for ShortText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(feature = "serde")]
impl serde::Serialize for ShortText {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

#[cfg(feature = "serde")]
impl<'de> serde::Deserialize<'de> for ShortText {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <alloc::borrow::Cow<'de, str> as serde::Deserialize>::deserialize(deserializer)?;
        Ok(Self::new(&text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_text_is_cut_between_characters() {
        let text = "ä".repeat(40);
        assert_eq!(ShortText::new(&text).as_str(), "ä".repeat(27));
        assert_eq!(ShortText::new("max_age").as_str(), "max_age");
    }

    #[test]
    fn bytes_that_are_no_text_stay_readable() {
        assert_eq!(ShortText::from_bytes(b"too\xff\xfebusy").as_str(), "too??busy");
        assert!(ShortText::from_bytes(b"").is_empty());
    }
}
