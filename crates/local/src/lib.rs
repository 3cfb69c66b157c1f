//! The embedded sandbox host: control plane and envd for local processes, on one loopback port.
#![deny(missing_docs)]

mod confined;
mod control;
mod envd;
mod error;
mod front;
mod gate;
mod helper;
mod idle;
mod ids;
mod lifeline;
mod proxy;
mod refusal;
mod registry;
mod server;
mod signature;
mod state;

pub use confined::Isolation;
pub use envd::helper_main;
pub use error::StartError;
pub use helper::Helper;
pub use server::{LocalServer, LocalServerBuilder};
