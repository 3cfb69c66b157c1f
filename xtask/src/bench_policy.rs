//! `cargo xtask bench policy`: the time and the allocations of a decision.

use std::path::Path;
use std::process::Command;

use crate::command;

/// Runs the bench, which fails when a decision takes too long or allocates.
pub(crate) fn run(root: &Path) -> Result<(), String> {
    let mut bench = Command::new(env!("CARGO"));
    bench.current_dir(root).args(["bench", "--quiet", "-p", "oncebox-policy", "--bench", "decisions"]);
    command::run(&mut bench)
}
