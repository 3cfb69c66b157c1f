//! The desktop over commands.
#![cfg(feature = "local")]
#![allow(clippy::unwrap_used)] // A test panics when it fails.

mod real;
mod stand_ins;

fn installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap();
    std::env::split_paths(&path).any(|folder| folder.join(program).exists())
}
