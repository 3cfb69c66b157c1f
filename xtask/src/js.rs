//! The JavaScript package: built, typed, linted, tested, looked at as it is published, and tried in every runtime.

pub(crate) mod smoke;

use std::collections::BTreeSet;
use std::env::consts::{DLL_PREFIX, DLL_SUFFIX};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::command::{cargo, is_present, run};
use crate::compat;
use crate::test::{Outcome, TOOLS_FOLDER, run_for_skips, target_folder};

/// The package, below the repository's root.
const PACKAGE: &str = "bindings/js";

/// The oldest Node that its tools run on.
const LEAST_NODE: u32 = 20;

/// Its scripts, in the order in which they need one another.
const SCRIPTS: [&str; 5] = ["build", "typecheck", "lint", "test", "check-package"];

/// Runs all of its scripts, with what cargo has built of the program and the addon.
pub(crate) fn run_all(root: &Path, skipped: &mut BTreeSet<String>) -> Outcome {
    match package(root) {
        Ok(folder) => {
            let kernel = compat::python(root).ok();
            let results = SCRIPTS.iter().map(|script| {
                let mut npm = Command::new("npm");
                npm.args(["run", "--silent", script]).current_dir(&folder).env("CI", "1").env("NO_COLOR", "1");
                npm.env("ONCEBOX_BIN", target_folder(root).join("debug/oncebox"));
                npm.envs(addon(root, "debug").map(|addon| ("ONCEBOX_NATIVE", addon)));
                npm.envs(kernel.iter().map(|python| ("ONCEBOX_PYTHON_WITH_IPYKERNEL", python)));
                run_for_skips(&mut npm, skipped)
            });
            let mut failures: Vec<String> = results.filter_map(Result::err).collect();
            match addon(root, "debug") {
                Some(addon) => failures.extend(smoke::test(root, &folder, &addon, skipped).err()),
                None => {
                    skipped.insert("the smoke tests of the JavaScript package: its addon was not built".to_owned());
                }
            }
            if failures.is_empty() { Outcome::Passed } else { Outcome::Failed(failures.join("; ")) }
        }
        Err(outcome) => outcome,
    }
}

/// What a request costs and what is lost, beside undici: over connections that are retired after 20 streams.
pub(crate) fn bench(root: &Path) -> Result<(), String> {
    let folder = package_or_reason(root)?;
    run(Command::new("npm").args(["run", "--silent", "build"]).current_dir(&folder))?;
    // The server may be slow: what is compared has the same one.
    run(&mut cargo(root, &["build", "--package", "oncebox-cli"]))?;
    run(&mut cargo(root, &["build", "--release", "--package", "oncebox-js"]))?;
    let addon = addon(root, "release").ok_or("the addon cannot be copied to .tools")?;
    let mut node = Command::new("node");
    node.arg("bench/retiring.mjs").current_dir(&folder).env("ONCEBOX_NATIVE", addon);
    run(node.env("ONCEBOX_BIN", target_folder(root).join("debug/oncebox")))
}

/// The policy's module: its size, and how long it takes to be there.
pub(crate) fn bench_policy(root: &Path) -> Result<(), String> {
    let folder = package_or_reason(root)?;
    run(Command::new("npm").args(["run", "--silent", "build"]).current_dir(&folder))?;
    run(Command::new("node").arg("bench/policy.mjs").current_dir(&folder))
}

pub(crate) fn package_or_reason(root: &Path) -> Result<PathBuf, String> {
    package(root).map_err(|outcome| match outcome {
        Outcome::Skipped(reason) | Outcome::Failed(reason) => reason,
        // It stands for no folder.
        Outcome::Passed => String::new(),
    })
}

/// What cargo calls the addon.
pub(crate) fn addon_file() -> String {
    format!("{DLL_PREFIX}oncebox_js{DLL_SUFFIX}")
}

/// The addon as it was built, under a name that Node takes for one. `None`: there is none, and tests of it are skipped.
fn addon(root: &Path, profile: &str) -> Option<PathBuf> {
    let built = target_folder(root).join(profile).join(addon_file());
    let folder = root.join(TOOLS_FOLDER).join("addon").join(profile);
    let addon = folder.join("oncebox.node");
    fs::create_dir_all(&folder).ok()?;
    // A process may have loaded the one before, which must not change under it.
    fs::remove_file(&addon).ok();
    fs::copy(built, &addon).ok()?;
    Some(addon)
}

/// The package's folder, with what it needs installed.
fn package(root: &Path) -> Result<PathBuf, Outcome> {
    for program in ["node", "npm"] {
        if !is_present(program) {
            return Err(Outcome::Skipped(format!("no {program}")));
        }
    }
    let node = node_version().ok_or_else(|| Outcome::Skipped("`node --version` says no version".to_owned()))?;
    if node < LEAST_NODE {
        return Err(Outcome::Skipped(format!("Node {node} is older than {LEAST_NODE}")));
    }
    let folder = root.join(PACKAGE);
    let lock = fs::read(folder.join("package-lock.json"))
        .map_err(|error| Outcome::Failed(format!("{PACKAGE}/package-lock.json: {error}")))?;
    // `npm ci` empties the folder of packages first, which is only worth it when something changed.
    let installed = folder.join("node_modules/.installed-lock.json");
    if fs::read(&installed).ok().as_ref() != Some(&lock) {
        let npm = ["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel", "error"];
        run(Command::new("npm").args(npm).current_dir(&folder)).map_err(Outcome::Skipped)?;
        fs::write(&installed, lock).map_err(|error| Outcome::Failed(format!("{}: {error}", installed.display())))?;
    }
    Ok(folder)
}

/// The major version.
fn node_version() -> Option<u32> {
    let output = Command::new("node").arg("--version").output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    text.trim().strip_prefix('v')?.split('.').next()?.parse().ok()
}
