//! Clients under faults for as long as one likes.

use std::path::Path;

use crate::command::{cargo, run};

/// Fails when a call was not what it must be, or when descriptors, memory or calls under way have grown.
pub(crate) fn run_for(root: &Path, minutes: &str) -> Result<(), String> {
    let minutes: f64 = minutes.parse().map_err(|error| format!("--minutes {minutes}: {error}"))?;
    let args = ["run", "--package", "oncebox-transport", "--example", "soak", "--", &minutes.to_string()];
    run(&mut cargo(root, &args))
}
