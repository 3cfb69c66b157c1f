//! Effects happen once, against the local server that misbehaves on demand and counts what really happened.
//!
//! Without isolation: hardly a command runs. All times are scaled down together; `settle` stays above effect delay plus list
//! lag.
#![cfg(feature = "local")]
#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

mod creates;
mod fleet;
mod holds;
mod real;
mod secrets;
mod storm;
mod support;
mod surface;
mod template;
mod volumes;
