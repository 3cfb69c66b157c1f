//! The references of each language, by the tool that language has for it.

use std::path::Path;
use std::process::Command;

use super::copy;
use crate::command::{cargo, run};
use crate::test::target_folder;
use crate::{js, python};

/// Makes a reference in a folder; the error is why it could not.
type Part = fn(&Path, &Path) -> Result<(), String>;

/// Title, folder, first page, and how it is made.
pub(super) const ALL: [(&str, &str, &str, Part); 3] = [
    ("Rust", "rust", "oncebox/index.html", rust),
    ("Python", "python", "oncebox.html", python_reference),
    ("TypeScript", "typescript", "index.html", typescript),
];

fn rust(root: &Path, folder: &Path) -> Result<(), String> {
    run(&mut cargo(root, &["doc", "--workspace", "--no-deps", "--all-features"]))?;
    copy_folder(&target_folder(root).join("doc"), folder)
}

fn python_reference(root: &Path, folder: &Path) -> Result<(), String> {
    python::reference(root, folder)
}

fn typescript(root: &Path, folder: &Path) -> Result<(), String> {
    let package = js::package_or_reason(root)?;
    run(Command::new("npm").args(["run", "--silent", "docs", "--", "--out"]).arg(folder).current_dir(package))
}

fn copy_folder(from: &Path, to: &Path) -> Result<(), String> {
    let entries = std::fs::read_dir(from).map_err(|error| format!("{}: {error}", from.display()))?;
    for entry in entries {
        let entry = entry.map_err(|error| format!("{}: {error}", from.display()))?;
        let (path, to) = (entry.path(), to.join(entry.file_name()));
        if path.is_dir() {
            copy_folder(&path, &to)?;
        } else {
            copy(&path, &to)?;
        }
    }
    Ok(())
}
