//! The decoder, with its dynamic table.

use std::collections::VecDeque;

use super::{huffman, tables::STATIC};
use crate::head::Field;

/// What a header block did wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum HpackError {
    #[error("the header block ends in the middle of a field")]
    Short,
    #[error("index {0} is in no table")]
    Index(usize),
    #[error("a number does not fit 32 bits")]
    Number,
    #[error("a Huffman string has a wrong code or padding")]
    Huffman,
    #[error("the dynamic table would grow to {0} bytes, above what was allowed")]
    TableSize(usize),
    #[error("the header list is larger than {0} bytes")]
    ListSize(usize),
}

/// What a field costs in the dynamic table on top of its name and value.
const ENTRY_OVERHEAD: usize = 32;

/// The largest header list that is decoded: it bounds memory, whatever a block refers to.
const MAX_LIST: usize = 256 * 1024;

#[derive(Debug)]
pub(crate) struct Decoder {
    /// The newest entry first.
    dynamic: VecDeque<Field>,
    size: usize,
    limit: usize,
    /// What our SETTINGS allow the client's encoder.
    allowed: usize,
}

impl Decoder {
    pub(crate) fn new(allowed: usize) -> Self {
        Self { dynamic: VecDeque::new(), size: 0, limit: 4096.min(allowed), allowed }
    }

    /// SETTINGS_HEADER_TABLE_SIZE as announced to the client, which may use more from when it has read it.
    pub(crate) fn offer(&mut self, allowed: usize) {
        self.allowed = self.allowed.max(allowed);
    }

    /// The client has acknowledged what it was announced: only now must it use less (RFC 7541, section 4.2).
    pub(crate) fn allow(&mut self, allowed: usize) {
        self.allowed = allowed;
        self.limit = self.limit.min(allowed);
        self.shrink_to(self.limit);
    }

    pub(crate) fn decode(&mut self, mut block: &[u8]) -> Result<Vec<Field>, HpackError> {
        let mut fields = Vec::with_capacity(12);
        let mut total = 0;
        while let Some(first) = block.first().copied() {
            let field = if first & 0x80 != 0 {
                self.at(number(&mut block, 7)?)?
            } else if first & 0x40 != 0 {
                let field = self.literal(&mut block, 6)?;
                self.insert(field.clone());
                field
            } else if first & 0x20 != 0 {
                let size = number(&mut block, 5)?;
                if size > self.allowed {
                    return Err(HpackError::TableSize(size));
                }
                self.limit = size;
                self.shrink_to(size);
                continue;
            } else {
                self.literal(&mut block, 4)?
            };
            total += field.name.len() + field.value.len() + ENTRY_OVERHEAD;
            if total > MAX_LIST {
                return Err(HpackError::ListSize(MAX_LIST));
            }
            fields.push(field);
        }
        Ok(fields)
    }

    fn literal(&self, block: &mut &[u8], prefix: u32) -> Result<Field, HpackError> {
        let name = match number(block, prefix)? {
            0 => string(block)?.into(),
            index => self.at(index)?.name,
        };
        Ok(Field { name, value: string(block)?.into() })
    }

    fn at(&self, index: usize) -> Result<Field, HpackError> {
        let row = index.checked_sub(1).ok_or(HpackError::Index(index))?;
        if let Some((name, value)) = STATIC.get(row) {
            return Ok(Field::from_static(name, value));
        }
        self.dynamic.get(row - STATIC.len()).cloned().ok_or(HpackError::Index(index))
    }

    fn insert(&mut self, field: Field) {
        let size = field.name.len() + field.value.len() + ENTRY_OVERHEAD;
        self.shrink_to(self.limit.saturating_sub(size));
        if size <= self.limit {
            self.size += size;
            self.dynamic.push_front(field);
        }
    }

    fn shrink_to(&mut self, size: usize) {
        while self.size > size {
            let Some(oldest) = self.dynamic.pop_back() else { return };
            self.size -= oldest.name.len() + oldest.value.len() + ENTRY_OVERHEAD;
        }
    }
}

fn number(block: &mut &[u8], prefix: u32) -> Result<usize, HpackError> {
    let mask = (1_u8 << prefix) - 1;
    let mut value = u64::from(byte(block)? & mask);
    if value < u64::from(mask) {
        return Ok(value as usize);
    }
    for shift in (0..=28).step_by(7) {
        let next = byte(block)?;
        value += u64::from(next & 0x7f) << shift;
        if next & 0x80 == 0 {
            return u32::try_from(value).map(|value| value as usize).map_err(|_| HpackError::Number);
        }
    }
    Err(HpackError::Number)
}

fn string(block: &mut &[u8]) -> Result<Vec<u8>, HpackError> {
    let coded = block.first().ok_or(HpackError::Short)? & 0x80 != 0;
    let length = number(block, 7)?;
    let (text, rest) = block.split_at_checked(length).ok_or(HpackError::Short)?;
    *block = rest;
    if coded { huffman::decode(text).ok_or(HpackError::Huffman) } else { Ok(text.to_vec()) }
}

fn byte(block: &mut &[u8]) -> Result<u8, HpackError> {
    let (first, rest) = block.split_first().ok_or(HpackError::Short)?;
    *block = rest;
    Ok(*first)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(text: &str) -> Vec<u8> {
        let digits: Vec<u8> =
            text.bytes().filter_map(|byte| char::from(byte).to_digit(16)).map(|digit| digit as u8).collect();
        digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
    }

    fn lines(fields: &[Field]) -> Vec<String> {
        fields.iter().map(ToString::to_string).collect()
    }

    /// RFC 7541, appendix C.4: three requests with Huffman codes on one connection.
    #[test]
    fn the_standards_requests_decode() {
        let mut decoder = Decoder::new(4096);
        let first = decoder.decode(&hex("8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff")).unwrap();
        assert_eq!(lines(&first), [":method: GET", ":scheme: http", ":path: /", ":authority: www.example.com"]);
        let second = decoder.decode(&hex("8286 84be 5886 a8eb 1064 9cbf")).unwrap();
        assert_eq!(lines(&second)[3..], [":authority: www.example.com", "cache-control: no-cache"]);
        let third = decoder.decode(&hex("8287 85bf 4088 25a8 49e9 5ba9 7d7f 8925 a849 e95b b8e8 b4bf")).unwrap();
        assert_eq!(lines(&third)[4..], ["custom-key: custom-value"]);
        assert_eq!((decoder.dynamic.len(), decoder.size), (3, 164));
    }

    /// RFC 7541, appendix C.5: a table of 256 bytes evicts.
    #[test]
    fn the_table_evicts_the_oldest() {
        let mut decoder = Decoder::new(256);
        let block = "4803 3330 3258 0770 7269 7661 7465 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 2032 303a 3133 \
                     3a32 3120 474d 546e 1768 7474 7073 3a2f 2f77 7777 2e65 7861 6d70 6c65 2e63 6f6d";
        decoder.decode(&hex(block)).unwrap();
        assert_eq!((decoder.dynamic.len(), decoder.size), (4, 222));
        decoder.decode(&hex("4803 3330 37c1 c0bf")).unwrap();
        assert_eq!((decoder.dynamic.len(), decoder.size), (4, 222));
    }

    #[test]
    fn wrong_blocks_are_told_apart() {
        let mut decoder = Decoder::new(4096);
        assert_eq!(decoder.decode(&[0x80]), Err(HpackError::Index(0)));
        assert_eq!(decoder.decode(&[0xff, 0x00]), Err(HpackError::Index(127)));
        assert_eq!(decoder.decode(&[0x40, 0x05, b'a']), Err(HpackError::Short));
        assert_eq!(decoder.decode(&[0x3f, 0xe2, 0x1f]), Err(HpackError::TableSize(4097)));
        assert_eq!(decoder.decode(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff]), Err(HpackError::Number));
        assert_eq!(decoder.decode(&[0x40, 0x81, 0x00, 0x00]), Err(HpackError::Huffman));
    }

    #[test]
    fn a_small_block_cannot_make_a_large_list() {
        let mut decoder = Decoder::new(4096);
        let mut block = vec![0x40, 0x01, b'a', 0x7f, 0xa1, 0x1e];
        block.extend([b'x'; 4000]);
        block.extend([0xbe; 100]);
        assert_eq!(decoder.decode(&block), Err(HpackError::ListSize(MAX_LIST)));
    }
}
