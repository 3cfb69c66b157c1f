//! The proxy before a server that misbehaves.

#![allow(clippy::unwrap_used)]

mod creates;
mod passing;
mod support;
mod tunnels;
