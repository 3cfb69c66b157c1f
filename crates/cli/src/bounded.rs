//! What is read whole.

use std::io::{self, Read};

/// Reads at most so many bytes: a device would never end.
pub(crate) fn read_bytes(from: impl Read, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(most + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        return Err(io::Error::other(format!("it is longer than {most} bytes")));
    }
    Ok(bytes)
}

/// Reads text of at most so many bytes.
pub(crate) fn read_text(from: impl Read, most: u64) -> io::Result<String> {
    // Its length comes before the text is looked at: a cut may be within a character.
    let bytes = read_bytes(from, most)?;
    String::from_utf8(bytes).map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "it is not UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_read_up_to_the_bound_and_never_beyond_it() {
        assert_eq!(read_text(&b"abc"[..], 3).unwrap(), "abc");
        let said = |bytes: &[u8]| read_text(bytes, 3).unwrap_err().to_string();
        assert_eq!(said("abä".as_bytes()), "it is longer than 3 bytes");
        assert_eq!(said(b"\xff"), "it is not UTF-8");
        assert_eq!(read_text(io::repeat(0), 3).unwrap_err().to_string(), "it is longer than 3 bytes");
    }
}
