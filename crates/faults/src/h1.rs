//! HTTP/1.1, as text.

pub(crate) mod parse;
mod read;
mod tunnel;
mod write;

pub(crate) use read::serve;
