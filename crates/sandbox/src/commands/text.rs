//! Bytes into text, piece by piece.

/// Decodes UTF-8 that comes in pieces: a character that is split over two of them is held back until it is whole. What is
/// not UTF-8 becomes U+FFFD, exactly as [`String::from_utf8_lossy`] does with the whole.
///
/// ```
/// use oncebox::Utf8Decoder;
///
/// let mut decoder = Utf8Decoder::new();
/// let bytes = "€".as_bytes();
/// assert_eq!(decoder.push(&bytes[..2]), "");
/// assert_eq!(decoder.push(&bytes[2..]), "€");
/// assert_eq!(decoder.finish(), "");
/// ```
#[derive(Clone, Debug, Default)]
pub struct Utf8Decoder {
    /// The beginning of a character: at most 3 bytes.
    held: Vec<u8>,
}

impl Utf8Decoder {
    /// At the beginning of a text.
    pub fn new() -> Self {
        Self::default()
    }

    /// The text of all bytes so far that was not returned yet, but for a character that has only begun.
    pub fn push(&mut self, bytes: &[u8]) -> String {
        let joined;
        let bytes = if self.held.is_empty() {
            bytes
        } else {
            joined = [self.held.as_slice(), bytes].concat();
            &joined
        };
        let mut text = String::with_capacity(bytes.len());
        let mut held = &[][..];
        for chunk in bytes.utf8_chunks() {
            text.push_str(chunk.valid());
            let invalid = chunk.invalid();
            let is_last = invalid.as_ptr_range().end == bytes.as_ptr_range().end;
            if !invalid.is_empty() {
                if is_last && may_go_on(invalid) { held = invalid } else { text.push(char::REPLACEMENT_CHARACTER) }
            }
        }
        self.held = held.to_vec();
        text
    }

    /// The rest: U+FFFD where the bytes ended within a character.
    pub fn finish(&mut self) -> &'static str {
        if std::mem::take(&mut self.held).is_empty() { "" } else { "\u{fffd}" }
    }
}

/// Whether this is the beginning of a character, rather than something that cannot become one.
fn may_go_on(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_err_and(|error| error.error_len().is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_give_the_same_as_the_whole() {
        let texts: [&[u8]; 8] = [
            "a€😀b".as_bytes(),
            b"",
            b"\xff\xfe\xf0\x9f\x98",
            b"\xe2\x82",
            b"\xe2\x28\xa1",
            b"\xf0\x9f\x98\x80\xf0\x9f\x98",
            b"\xc3\xc3\xa9",
            b"\xed\xa0\x80",
        ];
        for text in texts {
            for first in 0..=text.len() {
                for second in first..=text.len() {
                    let mut decoder = Utf8Decoder::new();
                    let mut got = String::new();
                    for piece in [&text[..first], &text[first..second], &text[second..]] {
                        got += &decoder.push(piece);
                    }
                    got += decoder.finish();
                    assert_eq!(got, String::from_utf8_lossy(text), "{text:?} at {first}, {second}");
                }
            }
        }
    }

    #[test]
    fn a_character_of_four_bytes_comes_out_when_its_last_byte_came() {
        let mut decoder = Utf8Decoder::new();
        let pieces: Vec<String> = "😀".bytes().map(|byte| decoder.push(&[byte])).collect();
        assert_eq!(pieces, ["", "", "", "😀"]);
    }
}
