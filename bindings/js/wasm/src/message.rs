//! The message buffer, and how values are written in it.
//!
//! Integers are little-endian; a text is its length in four bytes and its UTF-8; times are seconds as a double, NaN where
//! there is none; an optional text has the length 2^32 − 1 where there is none; a truth value is a byte, an optional one
//! 0 where there is none, 1 for false, 2 for true. Variants are a byte, in the order of their declaration.

use alloc::string::String;
use alloc::vec::Vec;

use crate::memory::Single;

static MESSAGE: Single<Vec<u8>> = Single::new(Vec::new());

const NO_TEXT: u32 = u32::MAX;

pub(crate) fn reserve(length: usize) -> *mut u8 {
    let mut bytes = MESSAGE.replace(Vec::new());
    bytes.clear();
    bytes.resize(length, 0);
    let address = bytes.as_mut_ptr();
    MESSAGE.replace(bytes);
    address
}

/// Reads the message that the caller wrote.
pub(crate) fn with_message<T>(read: impl FnOnce(Reader<'_>) -> T) -> T {
    let bytes = MESSAGE.replace(Vec::new());
    let result = read(Reader(&bytes));
    MESSAGE.replace(bytes);
    result
}

/// Puts an answer in the message's place, and returns its address.
pub(crate) fn answer(write: impl FnOnce(&mut Writer)) -> *const u8 {
    let mut writer = Writer(MESSAGE.replace(Vec::new()));
    writer.0.clear();
    write(&mut writer);
    let address = writer.0.as_ptr();
    MESSAGE.replace(writer.0);
    address
}

/// Reads a message from its begin. Beyond its end everything is zero.
pub(crate) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, length: usize) -> &'a [u8] {
        let (head, rest) = self.0.split_at_checked(length).unwrap_or_default();
        self.0 = rest;
        head
    }

    fn number<const N: usize>(&mut self) -> [u8; N] {
        self.take(N).try_into().unwrap_or([0; N])
    }

    pub(crate) fn u8(&mut self) -> u8 {
        let [byte] = self.number();
        byte
    }

    pub(crate) fn bool(&mut self) -> bool {
        self.u8() != 0
    }

    pub(crate) fn optional_bool(&mut self) -> Option<bool> {
        match self.u8() {
            0 => None,
            value => Some(value == 2),
        }
    }

    pub(crate) fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.number())
    }

    pub(crate) fn f64(&mut self) -> f64 {
        f64::from_le_bytes(self.number())
    }

    pub(crate) fn bytes(&mut self) -> Option<&'a [u8]> {
        match self.u32() {
            NO_TEXT => None,
            length => Some(self.take(length as usize)),
        }
    }

    pub(crate) fn text(&mut self) -> Option<String> {
        Some(String::from(core::str::from_utf8(self.bytes()?).unwrap_or_default()))
    }
}

pub(crate) struct Writer(Vec<u8>);

impl Writer {
    pub(crate) fn u8(&mut self, value: u8) {
        self.0.push(value);
    }

    pub(crate) fn bool(&mut self, value: bool) {
        self.u8(u8::from(value));
    }

    pub(crate) fn optional_bool(&mut self, value: Option<bool>) {
        self.u8(value.map_or(0, |value| 1 + u8::from(value)));
    }

    pub(crate) fn u32(&mut self, value: u32) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    pub(crate) fn f64(&mut self, value: f64) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    pub(crate) fn text(&mut self, value: Option<&str>) {
        self.u32(value.map_or(NO_TEXT, |value| value.len() as u32));
        self.0.extend_from_slice(value.unwrap_or_default().as_bytes());
    }

    pub(crate) fn texts(&mut self, values: &[String]) {
        self.u32(values.len() as u32);
        for value in values {
            self.text(Some(value));
        }
    }
}
