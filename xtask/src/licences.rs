//! The licences of everything that is linked in, and the one version of all packages.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use spdx::{Expression, ParseMode};

use crate::command::{cargo, is_present, output};
use crate::python;

/// Licences that ask for no more than a notice. Of an expression, one way to fulfil it has to be among them.
const ALLOWED: [&str; 10] = [
    "0BSD",
    "Apache-2.0",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "CDLA-Permissive-2.0",
    "ISC",
    "MIT",
    "PSF-2.0",
    "Unicode-3.0",
    "Zlib",
];

/// Fails for a dependency whose licence is none of these, or is not told.
pub(crate) fn check(root: &Path) -> Result<(), String> {
    none_refused(packages(root)?.iter().filter_map(refused).collect())
}

/// The same for what a user of the Python or the JavaScript package gets with it. Tools of ours are not published.
pub(crate) fn of_other_languages(root: &Path) -> Result<(), String> {
    let mut packages = javascript(root)?;
    if is_present("python3") {
        let python = python::environment(root)?;
        let told = output(python::package(root, &python).arg("tools/licences.py"))?;
        let told: Vec<Value> = serde_json::from_str(&told).map_err(|error| format!("tools/licences.py: {error}"))?;
        packages.extend(told);
    } else {
        println!("SKIP licences of Python packages: no python3");
    }
    none_refused(packages.iter().filter_map(refused).collect())
}

/// What the JavaScript package needs when it runs, by its lock.
fn javascript(root: &Path) -> Result<Vec<Value>, String> {
    const PAGE: &str = "bindings/js/package-lock.json";
    let text = fs::read_to_string(root.join(PAGE)).map_err(|error| format!("{PAGE}: {error}"))?;
    let lock: Value = serde_json::from_str(&text).map_err(|error| format!("{PAGE}: {error}"))?;
    needed(&lock).ok_or_else(|| format!("{PAGE}: there are no packages"))
}

/// What a lock of npm has for who installs the package.
fn needed(lock: &Value) -> Option<Vec<Value>> {
    let packages = lock["packages"].as_object()?;
    let is_ours = |name: &str| name.is_empty() || name.starts_with("node_modules/oncebox-");
    // Of what only its tools need, every line says so.
    let is_tool = |package: &Value| package["dev"] == true || package["devOptional"] == true;
    let needed = packages.iter().filter(|(name, package)| !is_ours(name) && !is_tool(package));
    let told = |(name, package): (&String, &Value)| json!({"name": name, "version": package["version"], "license": package["license"]});
    Some(needed.map(told).collect())
}

fn none_refused(refused: Vec<String>) -> Result<(), String> {
    if refused.is_empty() { Ok(()) } else { Err(format!("licences that are not allowed:\n  {}", refused.join("\n  "))) }
}

/// The one version of everything that is published.
pub(crate) fn version(root: &Path) -> Result<String, String> {
    let packages = packages(root)?;
    let ours =
        packages.iter().find(|package| package["name"] == "oncebox").and_then(|package| package["version"].as_str());
    ours.map(str::to_owned).ok_or_else(|| "cargo metadata: there is no package oncebox".into())
}

/// The crates that are published.
pub(crate) fn published(root: &Path) -> Result<Vec<String>, String> {
    let is_ours = |package: &&Value| package["source"].is_null() && package["publish"].is_null();
    let packages = packages(root)?;
    Ok(packages.iter().filter(is_ours).filter_map(|package| package["name"].as_str().map(str::to_owned)).collect())
}

/// Fails where a package of another language has another version than the workspace.
pub(crate) fn versions(root: &Path) -> Result<(), String> {
    let ours = version(root)?;
    // The Python package takes its version from its crate.
    let pages = [("bindings/js/package.json", "/version"), ("bindings/js/package-lock.json", "/packages//version")];
    for (page, place) in pages {
        let text = fs::read_to_string(root.join(page)).map_err(|error| format!("{page}: {error}"))?;
        let manifest: Value = serde_json::from_str(&text).map_err(|error| format!("{page}: {error}"))?;
        let told = manifest.pointer(place).unwrap_or(&Value::Null);
        if *told != ours.as_str() {
            return Err(format!("{page}: the version is {told}, and the workspace's is {ours}"));
        }
    }
    Ok(())
}

fn packages(root: &Path) -> Result<Vec<Value>, String> {
    let output = cargo(root, &["metadata", "--format-version", "1", "--all-features", "--locked"]).output();
    let output = output.map_err(|error| format!("cargo metadata: {error}"))?;
    if !output.status.success() {
        return Err(format!("cargo metadata: {}", String::from_utf8_lossy(&output.stderr)));
    }
    let mut metadata: Value =
        serde_json::from_slice(&output.stdout).map_err(|error| format!("cargo metadata: {error}"))?;
    match metadata["packages"].take() {
        Value::Array(packages) => Ok(packages),
        _ => Err("cargo metadata: there are no packages".into()),
    }
}

/// What is wrong with a package's licence.
fn refused(package: &Value) -> Option<String> {
    let name = format!("{} {}", package["name"].as_str().unwrap_or("?"), package["version"].as_str().unwrap_or("?"));
    let Some(licence) = package["license"].as_str() else { return Some(format!("{name}: none is told")) };
    let expression = match Expression::parse_mode(licence, ParseMode::LAX) {
        Ok(expression) => expression,
        Err(error) => return Some(format!("{name}: {licence:?}: {}", error.reason)),
    };
    let allowed = expression.evaluate(|one| one.license.id().is_some_and(|id| ALLOWED.contains(&id.name)));
    (!allowed).then(|| format!("{name}: {licence}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_way_to_fulfil_a_licence_is_enough() {
        let refused = |licence: Value| refused(&json!({"name": "a", "version": "1", "license": licence}));
        for fine in [
            "MIT",
            "MIT/Apache-2.0",
            "GPL-3.0-only OR MIT",
            "(MIT OR GPL-3.0-only) AND ISC",
            "Apache-2.0 WITH LLVM-exception",
        ] {
            assert_eq!(refused(json!(fine)), None, "{fine}");
        }
        for wrong in [json!("GPL-3.0-only"), json!("MIT AND GPL-3.0-only"), json!("Own"), Value::Null] {
            assert!(refused(wrong.clone()).is_some(), "{wrong}");
        }
    }

    #[test]
    fn of_a_lock_only_what_users_get_is_looked_at() {
        let lock = json!({"packages": {
            "": {"name": "oncebox", "license": "MIT"},
            "node_modules/tool": {"version": "1.0.0", "dev": true, "license": "GPL-3.0-only"},
            "node_modules/needed": {"version": "2.0.0", "license": "GPL-3.0-only"},
            "node_modules/oncebox-linux-x64-gnu": {"optional": true},
        }});
        let told = needed(&lock).unwrap();
        assert_eq!(told, [json!({"name": "node_modules/needed", "version": "2.0.0", "license": "GPL-3.0-only"})]);
        assert!(super::refused(&told[0]).is_some());
    }
}
