//! A digest that tells bytes apart, not one that keeps secrets.

const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const PRIME: u64 = 0x0100_0000_01b3;

/// FNV-1a over 64 bits: a test compares it with [`TryRecord::body_digest`](crate::TryRecord::body_digest) to see that
/// what came is what was sent.
///
/// ```
/// assert_eq!(oncebox_faults::digest(b"hello"), 0xa430_d846_80aa_bd0b);
/// ```
pub fn digest(bytes: &[u8]) -> u64 {
    more(OFFSET, bytes)
}

/// The digest of what had `digest`, followed by these bytes.
pub(crate) fn more(digest: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(digest, |digest, byte| (digest ^ u64::from(*byte)).wrapping_mul(PRIME))
}
