//! Huffman decoding (RFC 7541, appendix B).
//!
//! The code is canonical: within one length, codes count up with the symbol. So the lengths say everything.

use std::sync::OnceLock;

/// Bits of each symbol's code; the last is the end-of-string symbol, which must not appear.
#[rustfmt::skip]
const LENGTHS: [u8; 257] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28,
    28, 28, 28, 6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6, 5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12,
    10, 13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6, 15, 5, 6,
    5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5, 6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28, 20, 22, 20, 20, 22, 22,
    22, 23, 22, 23, 23, 23, 23, 23, 24, 23, 24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24, 22, 21, 20,
    22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23, 21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23,
    26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25, 19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28,
    27, 27, 27, 20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23, 26, 27, 26, 26, 27, 27, 27, 27, 27, 28,
    27, 27, 27, 27, 27, 26, 30,
];

const LONGEST: usize = 30;

/// For each length: the first code, the first position in `symbols`, and how many codes there are.
struct Canonical {
    rows: [(u32, u32, u32); LONGEST + 1],
    symbols: Vec<u16>,
}

fn canonical() -> &'static Canonical {
    static TABLE: OnceLock<Canonical> = OnceLock::new();
    TABLE.get_or_init(|| {
        let mut rows = [(0, 0, 0); LONGEST + 1];
        let mut symbols = Vec::with_capacity(LENGTHS.len());
        let mut code = 0_u32;
        for (length, row) in rows.iter_mut().enumerate().skip(1) {
            code <<= 1;
            let first = symbols.len() as u32;
            symbols.extend((0_u16..).zip(LENGTHS).filter(|(_, bits)| usize::from(*bits) == length).map(|(s, _)| s));
            let count = symbols.len() as u32 - first;
            *row = (code, first, count);
            code += count;
        }
        Canonical { rows, symbols }
    })
}

/// `None`: the end-of-string symbol inside, or padding that is not the most significant bits of it.
pub(super) fn decode(coded: &[u8]) -> Option<Vec<u8>> {
    let table = canonical();
    let mut text = Vec::with_capacity(coded.len() * 8 / 5);
    let (mut code, mut length) = (0_u32, 0_usize);
    for byte in coded {
        for bit in (0..8).rev() {
            code = code << 1 | u32::from(byte >> bit & 1);
            length += 1;
            let (first_code, first, count) = *table.rows.get(length)?;
            if let Some(offset) = code.checked_sub(first_code).filter(|offset| *offset < count) {
                text.push(u8::try_from(table.symbols[(first + offset) as usize]).ok()?);
                (code, length) = (0, 0);
            }
        }
    }
    (length < 8 && code == (1 << length) - 1).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_code_fills_the_whole_tree() {
        let filled: u64 = LENGTHS.iter().map(|bits| 1_u64 << (LONGEST - usize::from(*bits))).sum();
        assert_eq!(filled, 1 << LONGEST);
    }

    #[test]
    fn the_standards_examples_decode() {
        let coded = [0xf1, 0xe3, 0xc2, 0xe5, 0xf2, 0x3a, 0x6b, 0xa0, 0xab, 0x90, 0xf4, 0xff];
        assert_eq!(decode(&coded).as_deref(), Some(&b"www.example.com"[..]));
        assert_eq!(decode(&[0xa8, 0xeb, 0x10, 0x64, 0x9c, 0xbf]).as_deref(), Some(&b"no-cache"[..]));
        assert_eq!(decode(&[]).as_deref(), Some(&b""[..]));
    }

    #[test]
    fn padding_must_be_ones_and_shorter_than_a_byte() {
        assert_eq!(decode(&[0xa8, 0xeb, 0x10, 0x64, 0x9c, 0xb0]), None);
        assert_eq!(decode(&[0xff]), None);
        assert_eq!(decode(&[0xff; 4]), None);
    }
}
