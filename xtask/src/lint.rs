//! Formatting, clippy and documentation with warnings denied, and generated files that are current.

mod blocks;

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::command::{cargo, run};
use crate::{changelog, codegen, licences};

/// Runs every check and reports all that failed.
pub(crate) fn run_all(root: &Path) -> Result<(), String> {
    let checks = [
        run(&mut cargo(root, &["fmt", "--all", "--check"])),
        run(&mut cargo(root, &["clippy", "--workspace", "--all-targets", "--all-features", "--", "-D", "warnings"])),
        run(cargo(root, &["doc", "--workspace", "--no-deps", "--all-features"]).env("RUSTDOCFLAGS", "-D warnings")),
        codegen::run(root, true),
        guarantees(root),
        links(root),
        blocks::check(root),
        changelog::check(root),
        licences::check(root),
        licences::of_other_languages(root),
        licences::versions(root),
    ];
    let failures: Vec<String> = checks.into_iter().filter_map(Result::err).collect();
    if failures.is_empty() { Ok(()) } else { Err(failures.join("\n")) }
}

/// The page of guarantees names tests; each has to be there.
fn guarantees(root: &Path) -> Result<(), String> {
    const PAGE: &str = "docs/GUARANTEES.md";
    let page = fs::read_to_string(root.join(PAGE)).map_err(|error| format!("{PAGE}: {error}"))?;
    let sources = sources(&root.join("crates")).map_err(|error| format!("crates: {error}"))?;
    // What stands alone between back quotes and looks like a sentence is a test's name.
    let named = page
        .split('`')
        .skip(1)
        .step_by(2)
        .filter(|name| name.matches('_').count() > 3 && !name.contains([' ', '(', ':']));
    let missing: Vec<_> = named.filter(|name| !sources.contains(&format!("fn {name}("))).collect();
    if missing.is_empty() {
        Ok(())
    } else {
        Err(format!("{PAGE} names tests that are not there: {}", missing.join(", ")))
    }
}

fn sources(folder: &Path) -> std::io::Result<String> {
    let mut all = String::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            all += &sources(&path)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            all += &fs::read_to_string(&path)?;
        }
    }
    Ok(all)
}

/// Links between pages lead somewhere.
fn links(root: &Path) -> Result<(), String> {
    let output = Command::new("git").args(["ls-files", "*.md"]).current_dir(root).output();
    let listed = output.map_err(|error| format!("git ls-files: {error}"))?;
    let mut broken = Vec::new();
    for page in String::from_utf8_lossy(&listed.stdout).lines() {
        let text = fs::read_to_string(root.join(page)).map_err(|error| format!("{page}: {error}"))?;
        let folder = root.join(page).parent().map(Path::to_owned).unwrap_or_default();
        for link in text.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(link, _)| link) {
            let file = link.split('#').next().unwrap_or_default();
            let is_ours = !file.is_empty() && !file.contains([':', ' ', '`']) && file.contains(['/', '.']);
            if is_ours && !folder.join(file).exists() {
                broken.push(format!("{page}: {link}"));
            }
        }
    }
    if broken.is_empty() { Ok(()) } else { Err(format!("links that lead nowhere:\n  {}", broken.join("\n  "))) }
}
