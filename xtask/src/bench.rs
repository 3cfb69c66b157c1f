//! `cargo xtask bench NAME`: figures that are claimed somewhere. Each bench fails outside its band.

use std::path::Path;

use crate::command::{cargo, run};
use crate::js;

/// The one that Node runs.
const JAVASCRIPT: &str = "js";

/// A bench's name, and how cargo runs it.
const BENCHES: [(&str, &[&str]); 8] = [
    ("commands", &["bench", "--quiet", "-p", "oncebox", "--bench", "commands"]),
    ("faults", &["bench", "--quiet", "-p", "oncebox-faults", "--bench", "peer"]),
    ("local", &["bench", "--quiet", "-p", "oncebox-cli", "--bench", "local"]),
    // By the profile of tests: what it measures is the waits, and the server's helper is where tests have it.
    ("files", &["bench", "--quiet", "--profile", "dev", "-p", "oncebox", "--features", "local", "--bench", "files"]),
    ("operations", &["bench", "--quiet", "-p", "oncebox-protocol", "--bench", "operations"]),
    ("policy", &["bench", "--quiet", "-p", "oncebox-policy", "--bench", "decisions"]),
    ("timeouts", &["run", "--quiet", "-p", "oncebox-transport", "--example", "timeouts"]),
    ("transport", &["run", "--quiet", "--release", "-p", "oncebox-bench"]),
];

/// Runs one bench.
pub(crate) fn run_one(root: &Path, name: &str) -> Result<(), String> {
    if name == JAVASCRIPT {
        return js::bench(root);
    }
    let known = || format!("{}, {JAVASCRIPT}", BENCHES.map(|(name, _)| name).join(", "));
    let (_, args) = BENCHES
        .iter()
        .find(|(bench, _)| *bench == name)
        .ok_or_else(|| format!("there is no bench {name:?}; there are {}", known()))?;
    run(&mut cargo(root, args))
}
