//! `cargo xtask bench operations`: the time it takes to find an operation in the whole table.

use std::path::Path;
use std::process::Command;

/// Runs the bench, which fails when a match takes too long.
pub(crate) fn run(root: &Path) -> Result<(), String> {
    let status = Command::new(env!("CARGO"))
        .current_dir(root)
        .args(["bench", "--quiet", "-p", "oncebox-protocol", "--bench", "operations"])
        .status()
        .map_err(|e| format!("cargo: {e}"))?;
    if status.success() { Ok(()) } else { Err(format!("the bench of operations failed ({status})")) }
}
