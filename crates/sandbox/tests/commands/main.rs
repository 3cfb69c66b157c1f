//! Commands: their streams cut, their output whole, their ends told truly.
#![allow(clippy::unwrap_used)] // A test panics when it fails.
#![allow(unreachable_pub)] // It is one crate.

mod cut;
mod dispatch;
#[cfg(feature = "local")]
mod durable;
#[path = "../../benches/commands/streams.rs"]
mod many;
#[cfg(feature = "local")]
mod real;
mod reattach;
mod retired;
mod scripted;
#[cfg(feature = "local")]
mod storm;
