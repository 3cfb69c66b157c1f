//! The site of the documentation: the tree's pages, and the references of each language, in `target/site`.
//!
//! Everything on it is in the folder: nothing is fetched from elsewhere when it is read, and each link leads somewhere.

mod links;
mod page;
mod parts;
mod sources;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::test::target_folder;
use page::Page;

const STYLE: &str = include_str!("site/style.css");

/// The groups of the navigation, and what is in each. Pages that none names are in the last.
const GROUPS: [(&str, &[&str]); 4] = [
    ("Begin", &["README.md", "docs/GUIDE.md", "docs/python.md", "docs/javascript.md", "docs/javascript-sdk.md"]),
    (
        "Look up",
        &["docs/options.md", "docs/cli.md", "docs/compatibility.md", "docs/testing.md", "crates/faults/README.md"],
    ),
    ("Trust", &["docs/GUARANTEES.md", "docs/benchmarks.md", "docs/python-faults.md", "SECURITY.md"]),
    ("Inside", &["docs/ARCHITECTURE.md", "docs/TENETS.md", "CONTRIBUTING.md", "CHANGELOG.md"]),
];

/// Builds the pages, and with `all` the references whose tools are there.
pub(crate) fn build(root: &Path, all: bool) -> Result<(), String> {
    let out = target_folder(root).join("site");
    if out.exists() {
        fs::remove_dir_all(&out).map_err(|error| format!("{}: {error}", out.display()))?;
    }
    let mut references = Vec::new();
    if all {
        for (title, folder, begins, part) in parts::ALL {
            match part(root, &out.join(folder)) {
                Ok(()) => references.push((title, format!("{folder}/{begins}"))),
                Err(reason) => println!("SKIP {title}: {reason}"),
            }
        }
    }
    let written = pages(root, &out, &references)?;
    links::check(&out, &written)?;
    println!("{}: {} pages, every link of theirs leads somewhere", out.join("index.html").display(), written.len());
    Ok(())
}

/// Writes the tree's pages, and what of the tree they link to.
fn pages(root: &Path, out: &Path, references: &[(&str, String)]) -> Result<BTreeMap<PathBuf, String>, String> {
    let files = tracked(root)?;
    let mut all = BTreeMap::new();
    for file in files.iter().filter(|file| file.extension().is_some_and(|ending| ending == "md")) {
        let text = fs::read_to_string(root.join(file)).map_err(|error| format!("{}: {error}", file.display()))?;
        all.insert(file.clone(), Page::new(file, &text));
    }
    let mut written = BTreeMap::new();
    let mut wanted = BTreeSet::new();
    let titles: Vec<(PathBuf, String)> = all.iter().map(|(file, page)| (file.clone(), page.title.clone())).collect();
    let navigation = groups(&titles);
    for (file, page) in &all {
        let body = page.html(&files, &mut wanted)?;
        let place = address(file);
        let html = page::whole(&place, &page.title, &body, &page.headings, &navigation, references);
        written.insert(place, html);
    }
    for file in wanted {
        let (place, title, body) = sources::show(root, &file, &files)?;
        if let Some(body) = body {
            written.insert(place.clone(), page::whole(&place, &title, &body, &[], &navigation, references));
        } else {
            copy(&root.join(&file), &out.join(&place))?;
        }
    }
    for (place, html) in &written {
        write(&out.join(place), html)?;
    }
    write(&out.join("style.css"), STYLE)?;
    Ok(written)
}

/// What git knows of.
fn tracked(root: &Path) -> Result<BTreeSet<PathBuf>, String> {
    let listed = Command::new("git").args(["ls-files"]).current_dir(root).output();
    let listed = listed.map_err(|error| format!("git ls-files: {error}"))?;
    // A page that is not committed yet is looked at, too.
    let untracked = Command::new("git").args(["ls-files", "--others", "--exclude-standard"]).current_dir(root).output();
    let untracked = untracked.map_err(|error| format!("git ls-files: {error}"))?;
    let all = [listed.stdout, untracked.stdout].concat();
    Ok(String::from_utf8_lossy(&all).lines().map(PathBuf::from).filter(|file| root.join(file).exists()).collect())
}

/// Where a page is on the site.
fn address(file: &Path) -> PathBuf {
    match file.to_str() {
        Some("README.md") => PathBuf::from("index.html"),
        _ => file.with_extension("html"),
    }
}

/// A group's title, and its pages with their titles.
type Group = (String, Vec<(PathBuf, String)>);

fn groups(titles: &[(PathBuf, String)]) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for (title, files) in GROUPS {
        let of_file = |file: &&str| titles.iter().find(|(known, _)| known == Path::new(file)).cloned();
        groups.push((title.to_owned(), files.iter().filter_map(of_file).collect()));
    }
    let (decisions, others): (Vec<_>, Vec<_>) = titles
        .iter()
        .filter(|(file, _)| !GROUPS.iter().any(|(_, files)| files.iter().any(|known| file == Path::new(known))))
        .cloned()
        .partition(|(file, _)| file.starts_with("docs/design"));
    if let Some((_, inside)) = groups.last_mut() {
        inside.extend(others);
    }
    groups.push(("Decisions".to_owned(), decisions));
    groups
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("{}: {error}", path.display());
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(failed)?;
    }
    fs::write(path, text).map_err(failed)
}

fn copy(from: &Path, to: &Path) -> Result<(), String> {
    if let Some(folder) = to.parent() {
        fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    }
    fs::copy(from, to).map(drop).map_err(|error| format!("{}: {error}", from.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_that_no_group_names_is_in_the_navigation_all_the_same() {
        let titles: Vec<(PathBuf, String)> = ["README.md", "docs/new.md", "docs/design/0001-x.md"]
            .map(|file| (PathBuf::from(file), file.to_owned()))
            .to_vec();
        let groups = groups(&titles);
        let all: usize = groups.iter().map(|(_, pages)| pages.len()).sum();
        assert_eq!(all, 3);
        assert_eq!(groups.last().unwrap().1[0].0, Path::new("docs/design/0001-x.md"));
    }
}
