//! `fetch` of the JavaScript package over [`oncebox_transport`], for the runtimes that load addons: Node, Bun, Deno.
//!
//! All I/O is on one thread of its own. What becomes of a call is told by a `Port`: one JavaScript function
//! that is called with the number of the call, so that a call costs two crossings and a response's body one for each
//! piece. What makes a `Response` of it, and promises, is TypeScript (`src/native`), and so is every default.

// Rust code never calls what is for JavaScript.
#![allow(unreachable_pub)]

mod body;
mod call;
mod client;
mod history;
mod options;
mod port;
mod told;
mod upload;
