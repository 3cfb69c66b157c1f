//! The notices of everything that is linked into programs and libraries, which their licences want to be handed on.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::command::{cargo, output};
use crate::test::target_folder;

/// What is linked: the command, and the libraries of the bindings.
const ROOTS: [&str; 3] = ["oncebox-cli", "oncebox-js", "oncebox-python"];

/// How files with a licence begin.
const NAMES: [&str; 5] = ["LICENSE", "LICENCE", "COPYING", "COPYRIGHT", "NOTICE"];

/// Writes them to a file, and returns it. `host` is the platform that it is for.
pub(crate) fn write(root: &Path, host: &str) -> Result<PathBuf, String> {
    let metadata = ["metadata", "--format-version", "1", "--locked", "--filter-platform", host];
    let metadata: Value = serde_json::from_str(&output(&mut cargo(root, &metadata))?).map_err(|e| e.to_string())?;
    let file = target_folder(root).join("dist/THIRD-PARTY.txt");
    let failed = |error: std::io::Error| format!("{}: {error}", file.display());
    fs::create_dir_all(target_folder(root).join("dist")).map_err(failed)?;
    fs::write(&file, page(&metadata)?).map_err(failed)?;
    Ok(file)
}

fn page(metadata: &Value) -> Result<String, String> {
    let missing = || "cargo metadata: something is missing".to_owned();
    let packages = metadata["packages"].as_array().ok_or_else(missing)?;
    let linked = linked(metadata).ok_or_else(missing)?;
    let mut list = String::new();
    // Many have the same text, which is then there once.
    let mut texts: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for package in packages.iter().filter(|package| package["id"].as_str().is_some_and(|id| linked.contains(id))) {
        // Ours, whose licences are beside this page.
        if package["source"].is_null() {
            continue;
        }
        let told = |field: &str| package[field].as_str().unwrap_or("?");
        let name = format!("{} {}", told("name"), told("version"));
        let _ = writeln!(list, "{name}: {}", told("license"));
        let folder = Path::new(told("manifest_path")).parent().map(Path::to_owned).unwrap_or_default();
        for text in licence_texts(&folder) {
            texts.entry(text).or_default().insert(name.clone());
        }
    }
    let mut page = format!("What is linked in, and its licences.\n\n{list}");
    for (text, names) in texts {
        let names: Vec<String> = names.into_iter().collect();
        let _ = write!(page, "\n{}\n{}\n\n{}\n", "-".repeat(80), names.join(", "), text.trim_end());
    }
    Ok(page)
}

/// The packages that the roots need when they run: not those that only build or test them.
fn linked(metadata: &Value) -> Option<BTreeSet<&str>> {
    let packages = metadata["packages"].as_array()?;
    let nodes = metadata["resolve"]["nodes"].as_array()?;
    let is_root = |package: &&Value| ROOTS.iter().any(|root| package["name"] == *root);
    let mut wanted: Vec<&str> = packages.iter().filter(is_root).filter_map(|package| package["id"].as_str()).collect();
    let mut found = BTreeSet::new();
    while let Some(id) = wanted.pop() {
        if !found.insert(id) {
            continue;
        }
        let node = nodes.iter().find(|node| node["id"] == id)?;
        let is_normal = |needed: &&Value| {
            needed["dep_kinds"].as_array().is_some_and(|kinds| kinds.iter().any(|kind| kind["kind"].is_null()))
        };
        wanted.extend(node["deps"].as_array()?.iter().filter(is_normal).filter_map(|needed| needed["pkg"].as_str()));
    }
    Some(found)
}

fn licence_texts(folder: &Path) -> Vec<String> {
    let mut files: Vec<PathBuf> =
        fs::read_dir(folder).into_iter().flatten().flatten().map(|file| file.path()).collect();
    files.sort();
    let is_licence = |path: &PathBuf| {
        let name = path.file_name().map(|name| name.to_string_lossy().to_uppercase()).unwrap_or_default();
        NAMES.iter().any(|begin| name.starts_with(begin))
    };
    files.into_iter().filter(is_licence).filter_map(|path| fs::read_to_string(path).ok()).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_what_is_linked_is_named_and_a_text_is_there_once() {
        let folder = tempfile::tempdir().unwrap();
        let package = |name: &str, source: Option<&str>| {
            let home = folder.path().join(name);
            fs::create_dir_all(&home).unwrap();
            fs::write(home.join("LICENSE-MIT"), "do as you like\n").unwrap();
            let manifest = home.join("Cargo.toml");
            json!({"id": name, "name": name, "version": "1.0.0", "license": "MIT", "source": source, "manifest_path": manifest})
        };
        let needs = |name: &str, kind: Value| json!({"pkg": name, "dep_kinds": [{"kind": kind}]});
        let metadata = json!({
            "packages": [
                package("oncebox-cli", None),
                package("a", Some("registry")),
                package("b", Some("registry")),
                package("builds", Some("registry")),
            ],
            "resolve": {"nodes": [
                {"id": "oncebox-cli", "deps": [needs("a", Value::Null), needs("builds", json!("build"))]},
                {"id": "a", "deps": [needs("b", Value::Null)]},
                {"id": "b", "deps": [needs("a", Value::Null)]},
                {"id": "builds", "deps": []},
            ]},
        });
        let page = page(&metadata).unwrap();
        assert!(page.contains("\na 1.0.0: MIT\nb 1.0.0: MIT\n"), "{page}");
        assert!(page.contains("\na 1.0.0, b 1.0.0\n\ndo as you like\n"), "{page}");
        assert_eq!(page.matches("do as you like").count(), 1);
        assert!(!page.contains("builds") && !page.contains("oncebox"), "{page}");
    }
}
