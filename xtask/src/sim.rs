//! The simulation of network and server, over many seeds.

use std::path::Path;

use crate::command::{cargo, run};

/// Runs the seeds up to `seeds`. The first that fails is printed, with how to run it again.
pub(crate) fn run_all(root: &Path, seeds: &str) -> Result<(), String> {
    let seeds: u64 = seeds.parse().map_err(|error| format!("--seeds {seeds}: {error}"))?;
    let args = ["test", "--package", "oncebox-transport", "--test", "sim", "--", "--nocapture"];
    run(cargo(root, &args).env("ONCEBOX_SEEDS", seeds.to_string()))
}
