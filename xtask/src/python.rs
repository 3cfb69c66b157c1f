//! The Python package: its wheel built, installed, and tested as installed.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::command::{is_present, run, run_watched};
use crate::program::{self, Profile};
use crate::python_compat;
use crate::test::{Outcome, TOOLS_FOLDER, target_folder, virtual_environment};

/// Where the package is, below the repository's root.
const PACKAGE: &str = "bindings/python";

/// The Pythons that the wheel is tried on beside the one that runs all tests, where they are present.
const OTHERS: [&str; 5] = ["python3.10", "python3.11", "python3.12", "python3.13", "python3.14"];

/// Builds the wheel, installs it in an environment of its own, and runs everything there is for it. What a part of it needs and
/// cannot be had is named, and that part is skipped.
pub(crate) fn test(root: &Path, skipped: &mut BTreeSet<String>) -> Outcome {
    for program in ["python3", "node"] {
        if !is_present(program) {
            return Outcome::Skipped(format!("no {program}"));
        }
    }
    let python = match environment(root) {
        Ok(python) => python,
        Err(reason) => return Outcome::Skipped(reason),
    };
    match test_all(root, &python, skipped) {
        Ok(()) => Outcome::Passed,
        Err(reason) => Outcome::Failed(reason),
    }
}

fn test_all(root: &Path, python: &Path, skipped: &mut BTreeSet<String>) -> Result<(), String> {
    let wheel = build(root, python, Profile::Dev)?;
    install(python, &wheel)?;
    run(package(root, python).args(["tools/twin.py", "--check"]))?;
    run(package(root, python).args(["-m", "ruff", "check"]))?;
    run(package(root, python).args(["-m", "ruff", "format", "--check"]))?;
    // The package as it was installed: what is beside the tests is not it.
    let site = site_packages(python)?;
    run(package(root, python).args(["-m", "mypy", "--config-file", "pyproject.toml", "-p", "oncebox"]))?;
    run(package(root, python).args(["-m", "pyright", "--pythonpath"]).arg(python))?;
    docs(root, python)?;
    pytest(
        package(root, python)
            .args(["-m", "pytest", "-q"])
            .env("ONCEBOX_TEST_INSTALLED_IN", site)
            .env("ONCEBOX_BIN", python_compat::oncebox(root)),
        skipped,
    )?;
    // What the documentation shows, as it stands there.
    let shown = ["test_recipes.py", "test_guide.py"].map(|test| root.join("crates/local/tests/recipes").join(test));
    pytest(
        package(root, python)
            .args(["-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", "/dev/null"])
            .args(shown)
            .env("ONCEBOX_RECIPES", "oncebox")
            .env("ONCEBOX_BIN", python_compat::oncebox(root)),
        skipped,
    )?;
    python_compat::test(root, &wheel, skipped)?;
    for name in OTHERS {
        let Some(other) = find(name) else { continue };
        match bare(root, name, &other) {
            Ok(own) => smoke(root, &own, &wheel)?,
            Err(reason) => skip(skipped, &format!("the Python package on {name}"), &reason),
        }
    }
    Ok(())
}

/// The reference, from docstrings, in `target/python-docs`.
fn docs(root: &Path, python: &Path) -> Result<(), String> {
    pdoc(root, python, &target_folder(root).join("python-docs"))
}

/// The same in a folder, of the package as it is now.
pub(crate) fn reference(root: &Path, folder: &Path) -> Result<(), String> {
    if !is_present("python3") {
        return Err("no python3".to_owned());
    }
    let python = environment(root)?;
    let wheel = build(root, &python, Profile::Dev)?;
    install(&python, &wheel)?;
    pdoc(root, &python, folder)
}

fn pdoc(root: &Path, python: &Path, folder: &Path) -> Result<(), String> {
    run(package(root, python)
        .args(["-m", "pdoc", "--docformat", "restructuredtext", "--output-directory"])
        .arg(folder)
        .args(["oncebox", "oncebox.exceptions", "oncebox.testing", "oncebox.httpx", "oncebox.pyqwest"])
        .args(["oncebox.code_interpreter", "oncebox.desktop", "oncebox.compat.e2b"]))
}

/// What the wheel depends on.
const DEPENDENCIES: [&str; 1] = ["typing-extensions>=4.12"];

/// An environment of another Python that has what the wheel needs, and nothing else.
fn bare(root: &Path, name: &str, python: &Path) -> Result<PathBuf, String> {
    let folder = root.join(TOOLS_FOLDER).join(format!("smoke-{name}"));
    let own = folder.join("bin/python");
    if !own.exists() {
        run(Command::new(python).args(["-m", "venv"]).arg(&folder))?;
    }
    run(Command::new(&own)
        .args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"])
        .args(DEPENDENCIES))?;
    Ok(own)
}

/// The wheel on another Python: installed, imported, used.
fn smoke(root: &Path, python: &Path, wheel: &Path) -> Result<(), String> {
    install(python, wheel)?;
    run(package(root, python).arg("tests/smoke.py"))
}

/// Says that a part is skipped, and why.
pub(crate) fn skip(skipped: &mut BTreeSet<String>, part: &str, reason: &str) {
    let line = format!("{part}: {reason}");
    println!("SKIP {line}");
    skipped.insert(line);
}

/// Runs pytest, and takes down which tests it says it skipped.
pub(crate) fn pytest(command: &mut Command, skipped: &mut BTreeSet<String>) -> Result<(), String> {
    run_watched(command.arg("-rfEs"), |line| {
        if let Some(skip) = line.strip_prefix("SKIPPED ") {
            skipped.insert(skip.to_owned());
        }
    })
}

/// A Python by its name: on the path, or among pyenv's.
fn find(name: &str) -> Option<PathBuf> {
    let version = name.strip_prefix("python")?;
    let pyenv = std::env::var_os("PYENV_ROOT").map(PathBuf::from);
    let pyenv = pyenv.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".pyenv")))?;
    let versions = fs::read_dir(pyenv.join("versions")).into_iter().flatten().flatten();
    let of_pyenv = versions
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(&format!("{version}.")))
        .map(|entry| entry.path().join("bin/python"))
        .find(|python| python.exists());
    of_pyenv.or_else(|| is_present(name).then(|| PathBuf::from(name)))
}

pub(crate) fn environment(root: &Path) -> Result<PathBuf, String> {
    virtual_environment(root, "python-binding", &root.join(PACKAGE).join("requirements-dev.txt"))
}

/// Builds the wheel with the `oncebox` program in it.
pub(crate) fn build(root: &Path, python: &Path, profile: Profile) -> Result<PathBuf, String> {
    let program = program::build(root, profile)?;
    let wheel = build_without_program(root, python, profile)?;
    run(package(root, python).arg("tools/with_file.py").arg(&wheel).args(["program", "oncebox"]).arg(program))?;
    Ok(wheel)
}

/// The wheel without the command, which takes as long to build by itself.
pub(crate) fn build_without_program(root: &Path, python: &Path, profile: Profile) -> Result<PathBuf, String> {
    let wheels = target_folder(root).join("wheels");
    for old in fs::read_dir(&wheels).into_iter().flatten().flatten() {
        if old.file_name().to_string_lossy().ends_with(".whl") {
            fs::remove_file(old.path()).map_err(|error| format!("{}: {error}", old.path().display()))?;
        }
    }
    run(package(root, python)
        .args(["-m", "maturin", "build", "--quiet", "--interpreter"])
        .arg(python)
        .args(profile.flags())
        .arg("--out")
        .arg(&wheels))?;
    let mut built = fs::read_dir(&wheels).into_iter().flatten().flatten().map(|entry| entry.path());
    built
        .find(|path| path.extension().is_some_and(|ending| ending == "whl"))
        .ok_or_else(|| format!("maturin left no wheel in {}", wheels.display()))
}

pub(crate) fn install(python: &Path, wheel: &Path) -> Result<(), String> {
    run(Command::new(python)
        .args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--force-reinstall", "--no-deps"])
        .arg(wheel))
}

/// Where the environment has its packages.
fn site_packages(python: &Path) -> Result<String, String> {
    let asked = Command::new(python)
        .args(["-c", "import sysconfig; print(sysconfig.get_path('platlib'))"])
        .output()
        .map_err(|error| format!("{}: {error}", python.display()))?;
    Ok(String::from_utf8_lossy(&asked.stdout).trim().to_owned())
}

/// The Python, in the package's folder.
pub(crate) fn package(root: &Path, python: &Path) -> Command {
    let mut command = Command::new(python);
    command.current_dir(root.join(PACKAGE));
    command
}
