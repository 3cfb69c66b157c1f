//! Builds and runs every test whose tools are present, and says what was left out and why.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::command::{cargo, is_present, run, run_watched};
use crate::{compat, js, python, site};

/// A test prints this, its name and the reason when a tool or a kernel feature that it needs is missing.
const SKIP_MARK: &str = "SKIP ";

/// Packages of other languages go here; git ignores it.
pub(crate) const TOOLS_FOLDER: &str = ".tools";

/// Runs all. With `no_skip` a skipped test is a failure.
pub(crate) fn run_all(root: &Path, no_skip: bool) -> Result<(), String> {
    let mut report = Report::default();
    report.take("build", run(&mut cargo(root, &["build", "--workspace", "--all-targets"])));
    if report.failed.is_empty() {
        rust(root, &pythons(root), &mut report);
        report.take("documentation examples", run(&mut cargo(root, &["test", "--workspace", "--doc"])));
        report.take("the site of the documentation", site::build(root, false));
        report.suite("the official SDKs and CLI on the local server", compat::run_all(root, false));
        let javascript = js::run_all(root, &mut report.skipped);
        report.suite("JavaScript", javascript);
        let package = python::test(root, &mut report.skipped);
        report.suite("the Python package", package);
    }
    report.finish(no_skip)
}

/// Runs the tests of the Python package alone.
pub(crate) fn run_python(root: &Path) -> Result<(), String> {
    let mut report = Report::default();
    let package = python::test(root, &mut report.skipped);
    report.suite("the Python package", package);
    report.finish(false)
}

/// Builds what the JavaScript package needs, and runs its tests alone.
pub(crate) fn run_javascript(root: &Path) -> Result<(), String> {
    let mut report = Report::default();
    let mut build = cargo(root, &["build"]);
    for package in ["oncebox-cli", "oncebox-local", "oncebox-js"] {
        build.args(["--package", package]);
    }
    report.take("build", run(&mut build));
    let javascript = js::run_all(root, &mut report.skipped);
    report.suite("JavaScript", javascript);
    report.finish(false)
}

/// nextest where it is installed, since it isolates tests from one another; else cargo's own runner.
fn rust(root: &Path, pythons: &[(&str, PathBuf)], report: &mut Report) {
    let mut command = if is_present("cargo-nextest") {
        // The marks of skipped tests are in the output of tests that passed.
        cargo(root, &["nextest", "run", "--workspace", "--success-output", "immediate", "--no-fail-fast"])
    } else {
        cargo(root, &["test", "--workspace", "--lib", "--bins", "--tests", "--no-fail-fast", "--", "--nocapture"])
    };
    for (variable, python) in pythons {
        command.env(variable, python);
    }
    // nextest prints its report and the tests' output to standard error.
    command.env("CARGO_TERM_COLOR", "never");
    let mut wrapped = Command::new("sh");
    wrapped.arg("-c").arg("exec \"$@\" 2>&1").arg("sh").arg(command.get_program());
    wrapped.args(command.get_args()).current_dir(root);
    for (name, value) in command.get_envs() {
        if let Some(value) = value {
            wrapped.env(name, value);
        }
    }
    let result = run_for_skips(&mut wrapped, &mut report.skipped);
    report.take("Rust tests", result);
}

/// Runs tests, and takes down which of them say that they were skipped.
pub(crate) fn run_for_skips(command: &mut Command, skipped: &mut BTreeSet<String>) -> Result<(), String> {
    run_watched(command, |line| {
        if let Some(skip) = line.trim_start().strip_prefix(SKIP_MARK) {
            skipped.insert(skip.to_owned());
        }
    })
}

/// Pythons with what tests need of them, by the variables that name them: the `h2` package, an HTTP/2 client by others for
/// the tests of the scripted servers, the kernel of the code interpreter, and the official SDK, which is there for Node too. A
/// test whose Python could not be made says that it was skipped.
fn pythons(root: &Path) -> Vec<(&'static str, PathBuf)> {
    let h2 = virtual_environment(root, "python-h2", &root.join("crates/faults/tests/requirements.txt"));
    let sdk = compat::python(root);
    let named = [
        ("ONCEBOX_PYTHON_WITH_H2", h2),
        ("ONCEBOX_PYTHON_WITH_IPYKERNEL", sdk.clone()),
        ("ONCEBOX_PYTHON_WITH_E2B", sdk),
        ("ONCEBOX_NODE_WITH_E2B", compat::node_packages(root)),
    ];
    named.into_iter().filter_map(|(variable, python)| Some((variable, python.ok()?))).collect()
}

/// How a suite in another language ended.
pub(crate) enum Outcome {
    Passed,
    /// A tool or a package is missing.
    Skipped(String),
    Failed(String),
}

/// Where cargo builds.
pub(crate) fn target_folder(root: &Path) -> PathBuf {
    root.join(std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into()))
}

/// Makes a virtual environment with the pinned packages, or brings one up to date. Returns its Python.
pub(crate) fn virtual_environment(root: &Path, name: &str, requirements: &Path) -> Result<PathBuf, String> {
    let folder = root.join(TOOLS_FOLDER).join(name);
    let python = folder.join("bin/python");
    if !python.exists() {
        run(Command::new("python3").args(["-m", "venv"]).arg(&folder))?;
    }
    run(Command::new(&python)
        .args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--requirement"])
        .arg(requirements))?;
    Ok(python)
}

#[derive(Default)]
struct Report {
    passed: Vec<&'static str>,
    failed: Vec<String>,
    skipped: BTreeSet<String>,
}

impl Report {
    fn take(&mut self, name: &'static str, result: Result<(), String>) {
        match result {
            Ok(()) => self.passed.push(name),
            Err(error) => self.failed.push(format!("{name}: {error}")),
        }
    }

    fn suite(&mut self, name: &'static str, outcome: Outcome) {
        match outcome {
            Outcome::Passed => self.take(name, Ok(())),
            Outcome::Skipped(reason) => {
                self.skipped.insert(format!("{name}: {reason}"));
            }
            Outcome::Failed(reason) => self.take(name, Err(reason)),
        }
    }

    fn finish(self, no_skip: bool) -> Result<(), String> {
        println!();
        for name in &self.passed {
            println!("passed   {name}");
        }
        for reason in &self.skipped {
            println!("skipped  {reason}");
        }
        if self.skipped.is_empty() {
            println!("nothing was skipped");
        }
        for failure in &self.failed {
            println!("FAILED   {failure}");
        }
        if !self.failed.is_empty() {
            return Err("some tests failed".into());
        }
        if no_skip && !self.skipped.is_empty() {
            return Err("--no-skip: some tests were skipped".into());
        }
        Ok(())
    }
}
