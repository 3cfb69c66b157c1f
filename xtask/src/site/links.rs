//! Looks where each link of the pages leads, names within pages included.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

/// `pages` by their place below `out`, where everything that they link to is.
pub(super) fn check(out: &Path, pages: &BTreeMap<PathBuf, String>) -> Result<(), String> {
    let mut problems = Vec::new();
    for (place, html) in pages {
        for attribute in ["href=\"", "src=\""] {
            for link in html.split(attribute).skip(1).filter_map(|rest| rest.split('"').next()) {
                if let Some(problem) = wrong(out, pages, place, link, attribute) {
                    problems.push(format!("{}: {link}: {problem}", place.display()));
                }
            }
        }
    }
    if problems.is_empty() { Ok(()) } else { Err(format!("links of the site:\n  {}", problems.join("\n  "))) }
}

fn wrong(
    out: &Path,
    pages: &BTreeMap<PathBuf, String>,
    place: &Path,
    link: &str,
    attribute: &str,
) -> Option<&'static str> {
    if link.contains("://") || link.starts_with("//") || link.starts_with("mailto:") {
        // Where the reader goes is their choice; what the page loads is ours.
        return (attribute == "src=\"").then_some("the page would load it from elsewhere");
    }
    let (path, name) = link.split_once('#').unwrap_or((link, ""));
    let to = if path.is_empty() { place.to_owned() } else { joined(place, path) };
    match pages.get(&to) {
        None if !out.join(&to).is_file() => Some("there is no such file"),
        Some(html) if !name.is_empty() && !html.contains(&format!("id=\"{name}\"")) => Some("no heading has this name"),
        _ => None,
    }
}

fn joined(place: &Path, path: &str) -> PathBuf {
    let mut out = place.parent().unwrap_or(Path::new("")).to_owned();
    for part in Path::new(path).components() {
        match part {
            Component::ParentDir => {
                out.pop();
            }
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_a_heading_and_a_request_elsewhere_are_found_wrong() {
        let html = "<h2 id=\"here\"></h2><a href=\"#here\"></a><a href=\"../a.html#gone\"></a><a href=\"b.html\"></a>\
                    <a href=\"https://e.org/\"></a><img src=\"https://e.org/x.png\">";
        let pages =
            BTreeMap::from([(PathBuf::from("d/p.html"), html.to_owned()), (PathBuf::from("a.html"), String::new())]);
        let problems = check(Path::new("/nowhere"), &pages).unwrap_err();
        let lines: Vec<&str> = problems.lines().skip(1).map(str::trim).collect();
        assert_eq!(
            lines,
            [
                "d/p.html: ../a.html#gone: no heading has this name",
                "d/p.html: b.html: there is no such file",
                "d/p.html: https://e.org/x.png: the page would load it from elsewhere",
            ]
        );
    }
}
