//! `cargo xtask bench faults`: whether a misbehaving server is fast enough never to be what limits a test.

use std::path::Path;
use std::process::Command;

/// Runs the bench, which fails below its band.
pub(crate) fn run(root: &Path) -> Result<(), String> {
    let status = Command::new(env!("CARGO"))
        .current_dir(root)
        .args(["bench", "--quiet", "-p", "oncebox-faults", "--bench", "peer"])
        .status()
        .map_err(|error| format!("cargo: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("the bench of faults failed ({status})")) }
}
