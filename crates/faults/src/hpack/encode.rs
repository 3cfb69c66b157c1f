//! The encoder: the static table and literals that are never indexed, so that it needs no state.

use super::tables::STATIC;
use crate::head::Field;

pub(crate) fn encode(fields: &[Field]) -> Vec<u8> {
    let mut block = Vec::with_capacity(64);
    for field in fields {
        let name = |row: &(&str, &str)| row.0.as_bytes() == &field.name[..];
        let same = |row: &(&str, &str)| name(row) && row.1.as_bytes() == &field.value[..];
        if let Some(row) = STATIC.iter().position(same) {
            number(&mut block, 0x80, 7, row + 1);
            continue;
        }
        match STATIC.iter().position(name) {
            Some(row) => number(&mut block, 0, 4, row + 1),
            None => {
                block.push(0);
                string(&mut block, &field.name);
            }
        }
        string(&mut block, &field.value);
    }
    block
}

fn string(block: &mut Vec<u8>, text: &[u8]) {
    number(block, 0, 7, text.len());
    block.extend_from_slice(text);
}

fn number(block: &mut Vec<u8>, flags: u8, prefix: u32, value: usize) {
    let mask = (1_usize << prefix) - 1;
    if value < mask {
        block.push(flags | value as u8);
        return;
    }
    block.push(flags | mask as u8);
    let mut rest = value - mask;
    while rest >= 0x80 {
        block.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    block.push(rest as u8);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hpack::Decoder;

    #[test]
    fn what_is_encoded_decodes_to_the_same() {
        let fields = vec![
            Field::new(":status", "200"),
            Field::new(":status", "503"),
            Field::new("retry-after", "1".repeat(300)),
            Field::new("x-own", "value"),
        ];
        let block = encode(&fields);
        assert_eq!(block[..6], [0x88, 0x08, 0x03, b'5', b'0', b'3']);
        assert_eq!(Decoder::new(4096).decode(&block).unwrap(), fields);
    }
}
