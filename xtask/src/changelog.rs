//! The changelog's entries name the packages that they touch.

use std::fs;
use std::path::Path;

use crate::licences;

const PAGE: &str = "CHANGELOG.md";

/// What an entry may name beside the published crates: the packages of other languages, and what is not published.
const OTHERS: [&str; 3] = ["Python", "JavaScript", "Repository"];

/// Fails for an entry of what is not released yet that does not begin with packages.
pub(crate) fn check(root: &Path) -> Result<(), String> {
    let text = fs::read_to_string(root.join(PAGE)).map_err(|error| format!("{PAGE}: {error}"))?;
    let crates = licences::published(root)?;
    let wrong: Vec<String> =
        entries(&text).filter(|entry| !names_packages(entry, &crates)).map(str::to_owned).collect();
    if wrong.is_empty() {
        return Ok(());
    }
    Err(format!(
        "{PAGE}: these entries do not begin with the packages that they touch, such as \"`oncebox-cli`, Python: …\" \
         ({}, {}):\n  {}",
        crates.join(", "),
        OTHERS.join(", "),
        wrong.join("\n  ")
    ))
}

/// The first lines of the entries under "Unreleased".
fn entries(text: &str) -> impl Iterator<Item = &str> {
    let lines = text.lines().skip_while(|line| !line.starts_with("## [Unreleased]")).skip(1);
    lines.take_while(|line| !line.starts_with("## ")).filter_map(|line| line.strip_prefix("- "))
}

fn names_packages(entry: &str, crates: &[String]) -> bool {
    let is_crate = |name: &str| {
        let name = name.strip_prefix('`').and_then(|name| name.strip_suffix('`'));
        name.is_some_and(|name| crates.iter().any(|one| one == name))
    };
    match entry.split_once(": ") {
        Some((names, _)) => names.split(", ").all(|name| OTHERS.contains(&name) || is_crate(name)),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_entries_of_what_is_not_released_are_looked_at() {
        let text = "# Changelog\n- a\n## [Unreleased]\n### Added\n- b\n  goes on\n- c\n## [0.1.0]\n- d\n";
        assert_eq!(entries(text).collect::<Vec<_>>(), ["b", "c"]);
    }

    #[test]
    fn an_entry_begins_with_packages() {
        let crates = ["oncebox".to_owned(), "oncebox-cli".to_owned()];
        for right in
            ["`oncebox`: more", "`oncebox-cli`, `oncebox`: more", "Python, JavaScript: `x`: more", "Repository: x"]
        {
            assert!(names_packages(right, &crates), "{right}");
        }
        for wrong in
            ["more", "`oncebox-clo`: more", "oncebox: more", "`oncebox`:more", "Python and JavaScript: more", ": x"]
        {
            assert!(!names_packages(wrong, &crates), "{wrong}");
        }
    }
}
