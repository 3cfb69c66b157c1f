//! Byte streams below HTTP, and what passes over them.
//!
//! `h2` and `hyper` keep facts to themselves that decide whether a request may be replayed: which HEADERS were handed
//! to the kernel, what a GOAWAY said, whether a write failed before what had already arrived was read. [`Observed`]
//! sits between them and the socket and keeps those facts.

mod below;
#[cfg(all(test, feature = "simulation"))]
mod failed_writes;
mod frames;
mod observed;
#[cfg(test)]
mod partial_writes;
mod stale;
mod stream;
mod wire;

pub(crate) use below::{Below, LeftBelow};
pub(crate) use observed::{Observed, Protocol};
pub(crate) use stale::CheckStale;
pub(crate) use stream::Stream;
pub(crate) use wire::{GoAway, Wire};
