//! Wire types and operations of the E2B sandbox protocol, generated from spec/.

#[allow(missing_docs, unreachable_pub, rust_2018_idioms, clippy::all, clippy::unwrap_used, clippy::expect_used)]
#[rustfmt::skip]
#[path = "generated/envd/mod.rs"]
pub mod envd;
