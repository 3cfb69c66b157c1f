//! Everything in this repository that is generated: from `spec/`, and from what fronts share.

mod javascript;
mod operations;
mod options;
mod proto;
mod specs;
mod tables;
mod types;

// Shared with oncebox-protocol as source, so that code generation never waits for generated code.
#[path = "../../crates/protocol/src/openapi/document.rs"]
mod document;
#[path = "../../crates/protocol/src/openapi/node.rs"]
mod node;

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Folders of which every file is generated, so that a left-over is stale too.
const FOLDERS: [&str; 3] = ["crates/protocol/src/generated", "spec/generated", "bindings/js/src/generated"];

/// Writes all generated files, or with `check` only says which are stale.
pub(crate) fn run(root: &Path, check: bool) -> Result<(), String> {
    let files = generate(root)?;
    let stale = stale(root, &files)?;
    if check {
        if stale.is_empty() {
            return Ok(());
        }
        let names: Vec<String> = stale.iter().map(|path| format!("  {}", path.display())).collect();
        return Err(format!("generated files are stale; run `cargo xtask codegen`:\n{}", names.join("\n")));
    }
    for path in stale {
        let full = root.join(&path);
        match files.get(&path) {
            Some(text) => write(&full, text)?,
            None => fs::remove_file(&full).map_err(|e| format!("{}: {e}", full.display()))?,
        }
        println!("{}", path.display());
    }
    Ok(())
}

/// Generates every file, by its path below the root.
fn generate(root: &Path) -> Result<BTreeMap<PathBuf, String>, String> {
    let mut files = BTreeMap::new();
    let rust = Path::new(FOLDERS[0]);

    let scratch = tempfile::tempdir().map_err(|e| format!("temporary folder: {e}"))?;
    let rpcs = proto::generate(root, scratch.path())?;
    for entry in fs::read_dir(scratch.path()).map_err(|e| e.to_string())? {
        let path = entry.map_err(|e| e.to_string())?.path();
        if let Some(name) = path.file_name().filter(|_| path.is_file()) {
            let text = fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
            files.insert(rust.join("envd").join(name), text);
        }
    }

    let specs = specs::load(root)?;
    for spec in &specs {
        let text = types::generate(spec).map_err(|e| format!("{}: {e}", spec.file))?;
        if let Some(text) = text {
            files.insert(rust.join(format!("{}.rs", spec.module)), rustfmt(root, &text)?);
        }
    }

    for (name, text) in [
        ("edge.rs", tables::edge(root)?),
        ("headers.rs", tables::headers(root)?),
        ("runtime_errors.rs", tables::runtime_errors(root)?),
    ] {
        files.insert(rust.join(name), rustfmt(root, &text)?);
    }

    let planes = operations::planes(&specs, rpcs)?;
    files.insert(rust.join("operations.rs"), rustfmt(root, &operations::rust(&planes))?);
    files.insert(Path::new(FOLDERS[1]).join("operations.json"), operations::json(&planes)?);
    for (name, text) in [
        ("operations.ts", javascript::operations(&planes)),
        ("runtime-errors.ts", javascript::runtime_errors(root)?),
        ("edge.ts", javascript::edge(root)?),
        ("durable-wrapper.ts", javascript::durable_wrapper(root)?),
    ] {
        files.insert(Path::new(FOLDERS[2]).join(name), text);
    }
    files.insert(Path::new("docs/options.md").to_owned(), options::page(root)?);
    Ok(files)
}

/// The files whose content on disk is not what was generated, and those that should not be there.
fn stale(root: &Path, files: &BTreeMap<PathBuf, String>) -> Result<Vec<PathBuf>, String> {
    let mut stale: Vec<PathBuf> = files
        .iter()
        .filter(|(path, text)| fs::read_to_string(root.join(path)).ok().as_ref() != Some(text))
        .map(|(path, _)| path.clone())
        .collect();
    for folder in FOLDERS {
        left_over(root, Path::new(folder), files, &mut stale)?;
    }
    stale.sort();
    Ok(stale)
}

fn left_over(
    root: &Path,
    folder: &Path,
    files: &BTreeMap<PathBuf, String>,
    stale: &mut Vec<PathBuf>,
) -> Result<(), String> {
    let Ok(entries) = fs::read_dir(root.join(folder)) else {
        return Ok(());
    };
    for entry in entries {
        let entry = entry.map_err(|e| format!("{}: {e}", folder.display()))?;
        let path = folder.join(entry.file_name());
        if entry.path().is_dir() {
            left_over(root, &path, files, stale)?;
        } else if !files.contains_key(&path) {
            stale.push(path);
        }
    }
    Ok(())
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    }
    fs::write(path, text).map_err(|e| format!("{}: {e}", path.display()))
}

/// Formats Rust as `cargo fmt` would, so that formatting never makes generated files stale.
fn rustfmt(root: &Path, text: &str) -> Result<String, String> {
    let mut child = Command::new("rustfmt")
        .args(["--edition", "2024", "--emit", "stdout", "--config-path"])
        .arg(root)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|e| format!("rustfmt: {e}"))?;
    let mut stdin = child.stdin.take().ok_or("rustfmt: no input")?;
    let input = text.to_owned();
    let writer = std::thread::spawn(move || stdin.write_all(input.as_bytes()));
    let output = child.wait_with_output().map_err(|e| format!("rustfmt: {e}"))?;
    let written = writer.join().map_err(|_| "rustfmt: its input was not written")?;
    if !output.status.success() {
        return Err(format!("rustfmt failed on generated code ({})", output.status));
    }
    written.map_err(|e| format!("rustfmt: {e}"))?;
    String::from_utf8(output.stdout).map_err(|e| format!("rustfmt: {e}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stale_names_what_differs_is_missing_or_left_over() {
        let root = tempfile::tempdir().unwrap();
        let path = |name: &str| Path::new(FOLDERS[1]).join(name);
        let files: BTreeMap<PathBuf, String> =
            ["same", "differs", "missing"].into_iter().map(|name| (path(name), name.to_owned())).collect();
        write(&root.path().join(path("same")), "same").unwrap();
        write(&root.path().join(path("differs")), "old").unwrap();
        write(&root.path().join(path("deep/left-over")), "").unwrap();
        assert_eq!(stale(root.path(), &files).unwrap(), [path("deep/left-over"), path("differs"), path("missing")]);
    }

    #[test]
    fn rustfmt_refuses_what_is_no_rust() {
        assert!(rustfmt(Path::new("."), "pub struct {").is_err());
    }
}
