//! The official SDKs and the CLI, as published, against the local server; and the matrix of what they drove.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Deserialize;

use crate::command::{self, cargo, is_present};
use crate::test::{Outcome, TOOLS_FOLDER, target_folder, virtual_environment};

/// The matrix, below the repository's root.
const MATRIX: &str = "docs/compatibility.md";

/// What is tried nowhere, and why.
const NOT_TRIED: &str = "\
## Not tried

- The desktop packages (`e2b-desktop`, `@e2b/desktop`): they start a session of Xfce, which this suite does not install. The local
  server's template `desktop` has what of Xvfb, xdotool, scrot, x11vnc and noVNC its machine has: `oncebox.desktop`, whose names
  are compared with those of `e2b-desktop`, is tried there.

## Works, with a difference

- Network rules are kept and told, and none is carried out in part: a sandbox that forbids or denies anything, by
  `allow_internet_access`, `denyOut` or an egress proxy, reaches nothing at all, also when the rule comes while it runs. Without
  one it reaches what `oncebox serve --network` says. Headers by host (`rules`) and `dnsServers` have no effect.
- `USER` knows `user` and `root`, which are one user under two names.
- There is no limit of disk space; see `oncebox serve --explain-isolation`.
- The code interpreter runs Python only: other languages are Jupyter kernels of their own, which the machine would have to have.
";

/// What one SDK has, and what its tests drove.
#[derive(Debug, Deserialize)]
struct Record {
    /// Its methods, and whether a test that passed drove them.
    driven: BTreeMap<String, bool>,
    /// Why a method is not driven.
    holes: BTreeMap<String, String>,
}

/// Builds the server and runs both suites. Without the tools that they need it fails.
pub(crate) fn run(root: &Path, write: bool) -> Result<(), String> {
    command::run(&mut cargo(root, &["build", "--package", "oncebox-cli", "--package", "oncebox-local"]))?;
    match run_all(root, write) {
        Outcome::Passed => Ok(()),
        Outcome::Skipped(reason) | Outcome::Failed(reason) => Err(reason),
    }
}

/// Runs both suites and compares the matrix with what they drove, or writes it.
pub(crate) fn run_all(root: &Path, write: bool) -> Outcome {
    let records = root.join(TOOLS_FOLDER).join("compat");
    match suites(root, &records).map(|()| matrix(&records)) {
        Ok(Ok(matrix)) => compare(root, &matrix, write),
        Ok(Err(reason)) => Outcome::Failed(reason),
        Err(outcome) => outcome,
    }
}

/// The Python that has the official SDKs, and the kernel of the code interpreter.
pub(crate) fn python(root: &Path) -> Result<PathBuf, String> {
    virtual_environment(root, "python-sdk", &root.join("crates/local/tests/python/requirements.txt"))
}

/// The folder that has the official SDKs for Node.
pub(crate) fn node_packages(root: &Path) -> Result<PathBuf, String> {
    if let Some(missing) = ["node", "npm"].into_iter().find(|program| !is_present(program)) {
        return Err(format!("no {missing}"));
    }
    packages(root).map_err(|outcome| match outcome {
        Outcome::Skipped(reason) | Outcome::Failed(reason) => reason,
        Outcome::Passed => String::new(),
    })
}

fn suites(root: &Path, records: &Path) -> Result<(), Outcome> {
    for program in ["python3", "node", "npm"] {
        if !is_present(program) {
            return Err(Outcome::Skipped(format!("no {program}")));
        }
    }
    let python_tests = root.join("crates/local/tests/python");
    // A server that fails, and a page that says what comes of it.
    let recipes = root.join("crates/local/tests/recipes");
    let python = python(root).map_err(Outcome::Skipped)?;
    let javascript = packages(root)?;
    fs::remove_dir_all(records).ok();
    fs::create_dir_all(records).map_err(|error| Outcome::Failed(format!("{}: {error}", records.display())))?;
    let oncebox = target_folder(root).join("debug/oncebox");
    let first = command::run(
        Command::new(&python)
            .args(["-m", "pytest", "-q", "-p", "no:cacheprovider"])
            .arg(&python_tests)
            .env("ONCEBOX_BIN", &oncebox)
            .env("ONCEBOX_COMPAT", records)
            .env("PYTHONDONTWRITEBYTECODE", "1"),
    );
    let third = command::run(
        Command::new(&python)
            .args(["-m", "pytest", "-q", "-p", "no:cacheprovider"])
            .arg(&recipes)
            .env("ONCEBOX_BIN", &oncebox)
            .env("PYTHONDONTWRITEBYTECODE", "1"),
    );
    let second = command::run(
        Command::new("node")
            .args(["--test-reporter", "spec", "main.mjs"])
            .current_dir(javascript)
            .env("ONCEBOX_BIN", &oncebox)
            .env("ONCEBOX_PYTHON", &python)
            .env("ONCEBOX_COMPAT", records),
    );
    first.and(second).and(third).map_err(Outcome::Failed)
}

/// The JavaScript tests beside the packages they import: Node looks for those beside the importing file.
fn packages(root: &Path) -> Result<PathBuf, Outcome> {
    let tests = root.join("crates/local/tests/javascript");
    let folder = root.join(TOOLS_FOLDER).join("javascript");
    let lock = "package-lock.json";
    let current = fs::read(folder.join(lock)).ok() == fs::read(tests.join(lock)).ok()
        && folder.join("node_modules/.package-lock.json").exists();
    let copied = fs::create_dir_all(&folder).and_then(|()| {
        for file in fs::read_dir(&tests)? {
            let file = file?;
            fs::copy(file.path(), folder.join(file.file_name()))?;
        }
        Ok(())
    });
    copied.map_err(|error| Outcome::Failed(format!("copying the tests to {}: {error}", folder.display())))?;
    if !current {
        let npm = ["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel", "error"];
        command::run(Command::new("npm").args(npm).current_dir(&folder)).map_err(Outcome::Skipped)?;
    }
    Ok(folder)
}

fn compare(root: &Path, matrix: &str, write: bool) -> Outcome {
    println!("{matrix}");
    let path = root.join(MATRIX);
    if write {
        return match fs::write(&path, matrix) {
            Ok(()) => Outcome::Passed,
            Err(error) => Outcome::Failed(format!("{}: {error}", path.display())),
        };
    }
    match fs::read_to_string(&path) {
        Ok(committed) if committed == matrix => Outcome::Passed,
        _ => Outcome::Failed(format!("{MATRIX} is not what ran: `cargo xtask compat --write` writes it")),
    }
}

/// The page, from the records of the suites. Fails for a method that is neither driven nor explained, and for a hole that is none.
fn matrix(records: &Path) -> Result<String, String> {
    let mut all: BTreeMap<String, Record> = BTreeMap::new();
    for suite in ["python.json", "javascript.json"] {
        let path = records.join(suite);
        let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        let suite: BTreeMap<String, Record> =
            serde_json::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))?;
        all.extend(suite);
    }
    let problems: Vec<String> = all.iter().flat_map(|(sdk, record)| problems(sdk, record)).collect();
    if problems.is_empty() { Ok(page(&all)) } else { Err(problems.join("\n")) }
}

fn problems(sdk: &str, record: &Record) -> Vec<String> {
    let mut problems = Vec::new();
    for (method, driven) in &record.driven {
        match (driven, record.holes.contains_key(method)) {
            (false, false) => problems.push(format!("{sdk}: no test drove {method}, and no hole says why")),
            (true, true) => problems.push(format!("{sdk}: {method} is listed as a hole and was driven")),
            _ => {}
        }
    }
    let unknown = record.holes.keys().filter(|method| !record.driven.contains_key(*method));
    problems.extend(unknown.map(|method| format!("{sdk}: the hole {method} is no method")));
    problems
}

fn page(all: &BTreeMap<String, Record>) -> String {
    let mut page = String::from(
        "# Compatibility\n\nWhich methods of the official SDKs and CLI, as published, the tests drive on `oncebox serve`. \
         `cargo xtask compat --write` writes\nthis page from what ran; `cargo xtask test` fails when it is not what ran. \
         A method is listed as working when a test that\npassed called it and it returned.\n\n\
         | package | works | does not |\n|---|---|---|\n",
    );
    for (sdk, record) in all {
        let holes = record.holes.len();
        let _ = writeln!(page, "| {sdk} | {} | {holes} |", record.driven.len() - holes);
    }
    for (sdk, record) in all {
        let _ = write!(page, "\n## {sdk}\n\n| | works |\n|---|---|\n");
        let mut groups: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for (method, _) in record.driven.iter().filter(|(_, driven)| **driven) {
            let (group, name) = method.split_once(['.', ' ']).unwrap_or(("", method));
            groups.entry(group).or_default().insert(name);
        }
        for (group, names) in groups {
            let names: Vec<&str> = names.into_iter().collect();
            let _ = writeln!(page, "| {group} | {} |", names.join(", "));
        }
        if !record.holes.is_empty() {
            page.push_str("\n| does not work | why |\n|---|---|\n");
        }
        for (method, why) in &record.holes {
            let _ = writeln!(page, "| {method} | {why} |");
        }
    }
    page.push('\n');
    page.push_str(NOT_TRIED);
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(driven: &[(&str, bool)], holes: &[&str]) -> Record {
        Record {
            driven: driven.iter().map(|(method, driven)| ((*method).to_owned(), *driven)).collect(),
            holes: holes.iter().map(|method| ((*method).to_owned(), "reason".to_owned())).collect(),
        }
    }

    #[test]
    fn every_method_is_driven_or_explained() {
        assert_eq!(problems("sdk", &record(&[("a.b", true), ("a.c", false)], &["a.c"])), Vec::<String>::new());
        assert_eq!(problems("sdk", &record(&[("a.b", false)], &[])).len(), 1);
        assert_eq!(problems("sdk", &record(&[("a.b", true)], &["a.b"])).len(), 1);
        assert_eq!(problems("sdk", &record(&[], &["a.d"])).len(), 1);
    }
}
