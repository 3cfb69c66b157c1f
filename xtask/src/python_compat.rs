//! The Python package beneath the official SDK: its versions, and this repository's own tests of it.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::command::{cargo, run};
use crate::program::Profile;
use crate::python::{pytest, skip};
use crate::test::{TOOLS_FOLDER, target_folder, virtual_environment};
use crate::{compat, python};

/// Where the tests are, below the repository's root.
const TESTS: &str = "bindings/python/tests/http/compat";

/// Versions of the SDK beside the newest: the oldest that is supported, the last that spreads streams over connections
/// itself, and the last whose statuses are those of the older preset.
const OLDER: [&str; 3] = ["2.52.0", "2.55.1", "2.59.0"];

/// Runs the package's tests beneath older versions, and the official SDK's tests on the local server with the package beneath
/// it. What cannot be installed is named, and skipped: an index need not have every old version.
pub(crate) fn test(root: &Path, wheel: &Path, skipped: &mut BTreeSet<String>) -> Result<(), String> {
    let installed = installed_apart(root, wheel)?;
    let tests = |python: &Path| {
        let mut command = Command::new(python);
        command
            .current_dir(root)
            .args(["-m", "pytest", "-q", "-p", "no:cacheprovider"])
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .env("ONCEBOX_BIN", oncebox(root));
        command
    };
    for version in OLDER {
        let requirements = root.join(TESTS).join(format!("e2b-{version}.txt"));
        let python = match virtual_environment(root, &format!("python-e2b-{version}"), &requirements) {
            Ok(python) => python,
            Err(reason) => {
                skip(skipped, &format!("the Python package beneath e2b {version}"), &reason);
                continue;
            }
        };
        println!("e2b {version}, with the package beneath it:");
        let own = ["-c", "bindings/python/pyproject.toml", "--rootdir", "bindings/python", "-m", "not on_top", TESTS];
        pytest(tests(&python).args(own).env("PYTHONPATH", &installed), skipped)?;
    }
    let sdk = match compat::python(root) {
        Ok(sdk) => sdk,
        Err(reason) => {
            skip(skipped, "the official SDK's tests with the Python package beneath it", &reason);
            return Ok(());
        }
    };
    let records = root.join(TOOLS_FOLDER).join("compat-enabled");
    fs::create_dir_all(&records).map_err(|error| format!("{}: {error}", records.display()))?;
    println!("the official SDK's tests on the local server, with the package beneath it:");
    let path = std::env::join_paths([&installed, &root.join(TESTS)]).map_err(|error| error.to_string())?;
    pytest(
        tests(&sdk)
            .args(["-p", "enabled", "crates/local/tests/python"])
            .env("PYTHONPATH", path)
            .env("ONCEBOX_COMPAT", &records),
        skipped,
    )
}

/// The measured faults, with the official SDK and with ours. Fails where ours does wrong.
pub(crate) fn faults(root: &Path, write: bool) -> Result<(), String> {
    let python = python::environment(root)?;
    let wheel = python::build(root, &python, Profile::Dev)?;
    python::install(&python, &wheel)?;
    let mut command = python::package(root, &python);
    command.arg("faults/measure.py").env("ONCEBOX_BIN", oncebox(root)).env("PYTHONDONTWRITEBYTECODE", "1");
    if write {
        command.arg("--write").arg(root.join("docs/python-faults.md"));
    }
    run(&mut command)
}

/// What the package costs, by the wheel as it is published. Fails outside of the bands. `options` are those of `bench.py`.
pub(crate) fn bench(root: &Path, options: &[&str]) -> Result<(), String> {
    let python = python::environment(root)?;
    // What it calls: scripted servers.
    run(&mut cargo(root, &["build", "--package", "oncebox-cli"]))?;
    let wheel = python::build_without_program(root, &python, Profile::Release)?;
    python::install(&python, &wheel)?;
    run(&mut cargo(root, &["build", "--release", "--package", "oncebox-bench", "--bin", "oncebox-bench"]))?;
    run(python::package(root, &python)
        .arg("bench/bench.py")
        .args(options)
        .env("ONCEBOX_BENCH", target_folder(root).join("release/oncebox-bench"))
        .env("ONCEBOX_BIN", oncebox(root))
        .env("PYTHONDONTWRITEBYTECODE", "1"))
}

/// The command that serves faults and sandboxes.
pub(crate) fn oncebox(root: &Path) -> PathBuf {
    target_folder(root).join("debug/oncebox")
}

/// The wheel in a folder of its own, for environments that are not the package's.
fn installed_apart(root: &Path, wheel: &Path) -> Result<PathBuf, String> {
    let folder = root.join(TOOLS_FOLDER).join("python-wheel");
    if folder.exists() {
        fs::remove_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    }
    run(Command::new("python3")
        .args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", "--target"])
        .arg(&folder)
        .arg(wheel))?;
    Ok(folder)
}
