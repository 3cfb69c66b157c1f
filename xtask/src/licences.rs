//! The licences of everything that is linked in, and the one version of all packages.

use std::fs;
use std::path::Path;

use serde_json::Value;
use spdx::{Expression, ParseMode};

use crate::command::cargo;

/// Licences that ask for no more than a notice. Of an expression, one way to fulfil it has to be among them.
const ALLOWED: [&str; 9] =
    ["0BSD", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "CDLA-Permissive-2.0", "ISC", "MIT", "Unicode-3.0", "Zlib"];

/// Fails for a dependency whose licence is none of these, or is not told.
pub(crate) fn check(root: &Path) -> Result<(), String> {
    let refused: Vec<String> = packages(root)?.iter().filter_map(refused).collect();
    if refused.is_empty() { Ok(()) } else { Err(format!("licences that are not allowed:\n  {}", refused.join("\n  "))) }
}

/// Fails where a package of another language has another version than the workspace.
pub(crate) fn versions(root: &Path) -> Result<(), String> {
    const PAGE: &str = "bindings/js/package.json";
    let packages = packages(root)?;
    let ours = packages.iter().find(|package| package["name"] == "oncebox").map(|package| &package["version"]);
    let text = fs::read_to_string(root.join(PAGE)).map_err(|error| format!("{PAGE}: {error}"))?;
    let manifest: Value = serde_json::from_str(&text).map_err(|error| format!("{PAGE}: {error}"))?;
    // The Python package takes its version from its crate.
    match ours {
        Some(version) if manifest["version"] == *version => Ok(()),
        _ => Err(format!(
            "{PAGE}: the version is {}, and the workspace's is {}",
            manifest["version"],
            ours.unwrap_or(&Value::Null)
        )),
    }
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
    use serde_json::json;

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
}
