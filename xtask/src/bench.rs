//! `cargo xtask bench NAME`: figures that are claimed somewhere. Each bench fails outside its band.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::command::{cargo, run};
use crate::js;
use crate::test::{TOOLS_FOLDER, virtual_environment};

type Bench = fn(&Path) -> Result<(), String>;

/// Those that Node runs.
const JAVASCRIPT: [(&str, Bench); 2] = [("js", js::bench), ("wasm", js::bench_policy)];

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
    ("transport", &["run", "--quiet", "--release", "-p", "oncebox-bench", "--bin", "oncebox-bench"]),
];

/// Requests lost and doubled under retirement, beside clients in other languages. `write` draws the README's picture.
pub(crate) fn retirement(root: &Path, write: bool) -> Result<(), String> {
    let peers = root.join("bench/peers");
    virtual_environment(root, "bench-python", &peers.join("requirements.txt"))?;
    let node = root.join(TOOLS_FOLDER).join("bench-node");
    fs::create_dir_all(&node).map_err(|error| format!("{}: {error}", node.display()))?;
    // Node looks for packages beside the file that imports them.
    for file in ["package.json", "undici_posts.mjs"] {
        fs::copy(peers.join(file), node.join(file)).map_err(|error| format!("{file}: {error}"))?;
    }
    let npm = ["install", "--ignore-scripts", "--no-audit", "--no-fund", "--no-package-lock", "--loglevel", "error"];
    run(Command::new("npm").args(npm).current_dir(&node))?;
    let bench = ["run", "--quiet", "-p", "oncebox-bench", "--bin", "oncebox-bench-retirement", "--"];
    run(cargo(root, &bench).arg(root).args(write.then_some("--write")))
}

/// Runs one bench.
pub(crate) fn run_one(root: &Path, name: &str) -> Result<(), String> {
    if let Some((_, bench)) = JAVASCRIPT.iter().find(|(bench, _)| *bench == name) {
        return bench(root);
    }
    let known = || [&BENCHES.map(|(name, _)| name)[..], &JAVASCRIPT.map(|(name, _)| name)].concat().join(", ");
    let (_, args) = BENCHES
        .iter()
        .find(|(bench, _)| *bench == name)
        .ok_or_else(|| format!("there is no bench {name:?}; there are {}", known()))?;
    run(&mut cargo(root, args))
}
