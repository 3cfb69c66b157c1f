//! The intent of a create, and the idempotency keys derived from it.

use alloc::string::String;
use core::fmt;

use sha2::{Digest, Sha256};

/// What a user asked for once: one sandbox. It is made before the first attempt, sent with each of them as metadata
/// ([`INTENT_METADATA`]), and stays the same whatever happens, so that the sandbox can be found again from any
/// process. 32 lower-case hex digits.
///
/// ```
/// use oncebox_policy::create::Intent;
///
/// let intent = Intent::from_random([0xab; 16]);
/// assert_eq!(intent.as_str(), "abababababababababababababababab");
/// assert_eq!(Intent::parse(intent.as_str()), Ok(intent));
/// assert!(Intent::parse("ABABABABABABABABABABABABABABABAB").is_err());
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Intent([u8; Self::LENGTH]);

/// The metadata key under which a sandbox carries its intent.
pub const INTENT_METADATA: &str = "oncebox.intent";

impl Intent {
    /// Length of its text.
    pub const LENGTH: usize = 32;

    /// An intent of random bytes: nobody else has it.
    pub fn from_random(bytes: [u8; 16]) -> Self {
        Self(hex(&bytes))
    }

    /// An intent given as text.
    pub fn parse(text: &str) -> Result<Self, InvalidIntent> {
        let bytes: [u8; Self::LENGTH] = text.as_bytes().try_into().map_err(|_| InvalidIntent)?;
        // Exactly one spelling: sandboxes are compared with it byte by byte.
        let valid = bytes.iter().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        if valid { Ok(Self(bytes)) } else { Err(InvalidIntent) }
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        core::str::from_utf8(&self.0).unwrap_or_default()
    }

    /// The idempotency key number `n`: the intent itself, and from 1 on the first 32 hex digits of SHA-256 over the
    /// intent and `n` in decimal. Every process that knows the intent knows its keys.
    pub fn key(&self, n: u32) -> String {
        if n == 0 {
            return self.as_str().into();
        }
        let mut digits = [0; MAX_DIGITS];
        let digest = Sha256::new().chain_update(self.0).chain_update(decimal(n, &mut digits)).finalize();
        let mut first = [0; 16];
        first.copy_from_slice(&digest[..16]);
        Self(hex(&first)).as_str().into()
    }
}

/// The text is not 32 lower-case hex digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidIntent;

impl fmt::Display for InvalidIntent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an intent is 32 lower-case hex digits")
    }
}

impl core::error::Error for InvalidIntent {}

impl fmt::Display for Intent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for Intent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Intent({self})")
    }
}

#[cfg(feature = "serde")]
impl serde::Serialize for Intent {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

#[cfg(feature = "serde")]
impl<'de> serde::Deserialize<'de> for Intent {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <alloc::borrow::Cow<'de, str> as serde::Deserialize>::deserialize(deserializer)?;
        Self::parse(&text).map_err(serde::de::Error::custom)
    }
}

/// As many as the largest number has.
const MAX_DIGITS: usize = 10;

/// Writes a number's digits. Not by `format!`, whose machinery would be a tenth of the policy as WebAssembly.
fn decimal(mut n: u32, digits: &mut [u8; MAX_DIGITS]) -> &[u8] {
    let mut length = 0;
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + (n % 10) as u8;
        length += 1;
        n /= 10;
        if n == 0 {
            break;
        }
    }
    digits.get(MAX_DIGITS - length..).unwrap_or_default()
}

fn hex(bytes: &[u8; 16]) -> [u8; Intent::LENGTH] {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = [0; Intent::LENGTH];
    for (pair, byte) in text.chunks_exact_mut(2).zip(bytes) {
        pair[0] = DIGITS[usize::from(byte >> 4)];
        pair[1] = DIGITS[usize::from(byte & 15)];
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_follow_from_the_intent() {
        let intent = Intent::parse("00000000000000000000000000000001").unwrap();
        assert_eq!(intent.key(0), intent.as_str());
        // printf '%s' 000000000000000000000000000000011 | sha256sum, and likewise with 12 at the end for 12.
        assert_eq!(intent.key(1), "6695cd8297896ccfa704a1907749912d");
        assert_eq!(intent.key(12), "21ed00384567d12918041f8b46652164");
    }

    #[test]
    fn a_number_is_written_in_decimal() {
        for n in [0, 1, 9, 10, 100, 4_294_967_295] {
            assert_eq!(decimal(n, &mut [0; MAX_DIGITS]), alloc::format!("{n}").as_bytes());
        }
    }

    #[test]
    fn only_one_spelling_is_an_intent() {
        for text in ["", "0", "0000000000000000000000000000000g", "000000000000000000000000000000001"] {
            assert_eq!(Intent::parse(text), Err(InvalidIntent), "{text}");
        }
    }
}
