#![doc = include_str!("../README.md")]
#![deny(missing_docs)]

mod answering;
mod catalog;
mod conn;
mod date;
mod digest;
mod engine;
mod exchange;
mod gate;
mod h1;
mod h2;
mod head;
mod hpack;
mod inbound;
mod link;
mod log;
mod out;
mod script;
mod server;
mod socket;
mod tls;
mod upstream;

pub use catalog::{FaultInfo, ReadyScript, catalog, ready_scripts};
pub use digest::digest;
pub(crate) use digest::more as digest_more;
pub use gate::Blackhole;
pub use log::{ConnectionRecord, Direction, Event, Happening, Log, Report, Totals, TryRecord};
pub use script::{
    Answer, Body, Bytes, ErrorCode, Fault, FrameStream, Framing, Goaway, LastId, Link, Moment, Number, Probability,
    Protocol, ProtocolError, RawFrame, RetryAfter, Rule, Script, ScriptError, Settings, Text, Then, Version, When,
    Withhold,
};
pub use server::{Builder, Peer, Server, StartError};
pub use upstream::UpstreamError;
