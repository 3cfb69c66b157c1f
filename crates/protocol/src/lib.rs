//! Wire types and operations of the E2B sandbox protocol, generated from the specifications in `spec/`.
//!
//! A client of remote sandboxes talks to four kinds of server, each with an address and credentials of its own:
//!
//! | server | wire types | operations |
//! |---|---|---|
//! | the control plane, which creates and lists sandboxes | [`api`] | [`Table::control_plane`] |
//! | the content API of volumes | [`volume`] | [`Table::volume_content`] |
//! | envd, the daemon inside each sandbox | [`envd`] (its RPCs), [`envd_rest`] (files) | [`Table::envd`] |
//! | the code interpreter, in sandboxes that have it | [`code_interpreter`] | [`Table::code_interpreter`] |
//!
//! This crate says what they say to each other, and sends nothing.
//!
//! # Repeating an operation
//!
//! When a connection breaks after a request was written, its sender cannot know whether it was carried out. Sending it again
//! is fine for some operations and a disaster for others. Methods tell part of it; the rest is written down here: each
//! [`Operation`] says whether it may be repeated and why, a [`Table`] finds the operation that a request is, and gives the
//! [`Permit`](oncebox_policy::Permit) that the policy asks for. What is not listed is judged by its method, so a POST that
//! nobody has reviewed is never repeated.
//!
//! ```
//! use http::Method;
//! use oncebox_policy::Permit;
//! use oncebox_protocol::{Repeat, Table, api, operations};
//!
//! // What to send, and where to.
//! let create = &operations::CREATE_SANDBOX;
//! let body = api::NewSandbox { template_id: "base".to_owned(), timeout: Some(300), ..Default::default() };
//! assert_eq!((&create.method, create.path_for(&[])?.as_str()), (&Method::POST, "/v2/sandboxes"));
//! assert_eq!(serde_json::to_string(&body)?, r#"{"templateID":"base","timeout":300}"#);
//!
//! // A second create would make a second sandbox. A second pause changes nothing.
//! assert!(matches!(&create.repeat, Repeat::No(reason) if reason == "Each call makes another sandbox."));
//! assert_eq!(operations::PAUSE_SANDBOX.permit(), Some(Permit::OperationTable));
//!
//! // The same, for a request whose operation has to be found first.
//! let table = Table::control_plane();
//! assert_eq!(table.permit(&Method::POST, "/sandboxes/i123/pause"), Some(Permit::OperationTable));
//! assert_eq!(table.permit(&Method::POST, "/v2/sandboxes"), None);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Tables of other APIs come from their OpenAPI documents, with the feature `openapi`.
//!
//! # Reading what servers write
//!
//! Types are lenient where servers differ: unknown fields are ignored, a null stands for an absent field or an empty list,
//! enumerations keep values they do not know as `Other`, and an [`ErrorBody`] is made of whatever came. Moments are
//! [`jiff::Timestamp`]s, which read RFC 3339 with any offset and up to nine decimals, as Go servers write it. Credentials are
//! [`SecretString`]s and never printed.
//!
//! [`edge`] recognises what the proxy in front of sandboxes says in place of one, [`headers`] names headers, and
//! [`runtime_errors`] tells what an error of JavaScript's `fetch` proves.
#![deny(missing_docs)]

pub mod answers;
pub mod edge;
mod error_body;
#[cfg(feature = "openapi")]
pub mod openapi;
mod operation;
pub mod runtime_errors;
mod secret;
mod table;
mod wire;

#[path = "generated/api.rs"]
pub mod api;
#[path = "generated/code_interpreter.rs"]
pub mod code_interpreter;
#[path = "generated/envd_rest.rs"]
pub mod envd_rest;
#[path = "generated/headers.rs"]
pub mod headers;
#[path = "generated/operations.rs"]
pub mod operations;
#[path = "generated/volume.rs"]
pub mod volume;

/// envd's RPCs: messages, clients and service traits of its Connect services `process.Process` and `filesystem.Filesystem`.
#[allow(missing_docs, unreachable_pub, rust_2018_idioms, clippy::all, clippy::unwrap_used, clippy::expect_used)]
#[rustfmt::skip]
#[path = "generated/envd/mod.rs"]
pub mod envd;

pub use error_body::{ErrorBody, ErrorCode, codes};
pub use http::Method;
pub use operation::{Operation, PathError, Plane, Repeat};
pub use secret::{SecretString, SecretValue};
pub use table::Table;
