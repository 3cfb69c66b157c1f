//! Files and folders of the tree that pages link to: pictures as they are, text on a page of its own.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use super::address;
use super::page::{escaped, relative};

/// More of a file than this is not shown.
const MOST_LINES: usize = 5000;

/// Where it is on the site.
pub(super) fn place(file: &Path, files: &BTreeSet<PathBuf>) -> PathBuf {
    if is_picture(file) {
        return file.to_owned();
    }
    let folder = Path::new("source");
    if files.contains(file) {
        folder.join(format!("{}.html", file.display()))
    } else {
        folder.join(file).join("index.html")
    }
}

/// Its place, its title and what the page says. `None`: it is copied as it is.
pub(super) fn show(
    root: &Path,
    file: &Path,
    files: &BTreeSet<PathBuf>,
) -> Result<(PathBuf, String, Option<String>), String> {
    let place = place(file, files);
    let title = file.display().to_string();
    if is_picture(file) {
        return Ok((place, title, None));
    }
    let mut body = format!("<h1>{}</h1>\n", escaped(&title));
    if files.contains(file) {
        let text = fs::read_to_string(root.join(file)).map_err(|error| format!("{title}: {error}"))?;
        body.push_str("<pre><code>");
        for line in text.lines().take(MOST_LINES) {
            let _ = writeln!(body, "{}", escaped(line));
        }
        body.push_str("</code></pre>\n");
        return Ok((place, title, Some(body)));
    }
    body.push_str("<ul>");
    let mut listed = BTreeSet::new();
    for known in files.iter().filter_map(|known| known.strip_prefix(file).ok()) {
        let mut parts = known.components();
        if let Some(first) = parts.next() {
            listed.insert((PathBuf::from(first.as_os_str()), parts.next().is_some()));
        }
    }
    for (name, is_folder) in listed {
        let shown = escaped(&name.to_string_lossy());
        let _ = match name.extension().is_some_and(|ending| ending == "md") {
            true => write!(body, "<li><a href=\"{}\">{shown}</a></li>", relative(&place, &address(&file.join(&name)))),
            false => write!(body, "<li>{shown}{}</li>", if is_folder { "/" } else { "" }),
        };
    }
    body.push_str("</ul>\n");
    Ok((place, title, Some(body)))
}

fn is_picture(file: &Path) -> bool {
    file.extension().is_some_and(|ending| ["svg", "png"].iter().any(|known| ending == *known))
}
