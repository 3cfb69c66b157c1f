//! `cargo xtask bench transport`: what a request costs, beside other clients.

use std::path::Path;

use crate::command;

/// Runs the bench, which fails outside its bands.
pub(crate) fn run(root: &Path) -> Result<(), String> {
    command::run(&mut command::cargo(root, &["run", "--quiet", "--release", "-p", "oncebox-bench"]))
}
