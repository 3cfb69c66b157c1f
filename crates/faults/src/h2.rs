//! HTTP/2, frame by frame.

mod exchange;
mod faults;
pub(crate) mod frame;
mod read;
mod state;
mod write;

pub(crate) use read::serve;
pub(crate) use state::H2;
