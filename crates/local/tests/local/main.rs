//! The local server over raw HTTP, as any client sees it.
//!
//! Tests that need isolation print `SKIP <test>: <reason>` where the kernel does not allow it.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests are tests")]

mod commands;
mod confinement;
mod control;
mod dashboard;
mod egress;
mod files;
mod filesystem;
mod fuzz;
mod gate;
mod guarded;
mod idempotency;
mod kept;
mod lifetime;
mod limits;
mod misbehave;
mod pausing;
mod plain;
mod ports;
mod resources;
mod support;
mod templates;
mod terminals;
mod watching;
