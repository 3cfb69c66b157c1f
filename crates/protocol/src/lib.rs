//! Wire types and operations of the E2B sandbox protocol, generated from spec/.
#![deny(missing_docs)]

mod error_body;
mod operation;
mod secret_string;
mod wire;

#[path = "generated/api.rs"]
pub mod api;
#[path = "generated/code_interpreter.rs"]
pub mod code_interpreter;
#[path = "generated/envd_rest.rs"]
pub mod envd_rest;
#[path = "generated/operations.rs"]
pub mod operations;
#[path = "generated/volume.rs"]
pub mod volume;

#[allow(missing_docs, unreachable_pub, rust_2018_idioms, clippy::all, clippy::unwrap_used, clippy::expect_used)]
#[rustfmt::skip]
#[path = "generated/envd/mod.rs"]
pub mod envd;

pub use error_body::{ErrorBody, ErrorCode, codes};
pub use operation::{Operation, PathError, Plane, Repeat};
pub use secret_string::SecretString;
