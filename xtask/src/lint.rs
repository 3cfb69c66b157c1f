//! Formatting, clippy and documentation with warnings denied, and generated files that are current.

use std::path::Path;

use crate::codegen;
use crate::command::{cargo, run};

/// Runs every check and reports all that failed.
pub(crate) fn run_all(root: &Path) -> Result<(), String> {
    let checks = [
        run(&mut cargo(root, &["fmt", "--all", "--check"])),
        run(&mut cargo(root, &["clippy", "--workspace", "--all-targets", "--all-features", "--", "-D", "warnings"])),
        run(cargo(root, &["doc", "--workspace", "--no-deps", "--all-features"]).env("RUSTDOCFLAGS", "-D warnings")),
        codegen::run(root, true),
    ];
    let failures: Vec<String> = checks.into_iter().filter_map(Result::err).collect();
    if failures.is_empty() { Ok(()) } else { Err(failures.join("\n")) }
}
