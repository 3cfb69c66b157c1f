//! Every block of code on a page is compiled or run by a test. Here is which test, for each; a block that none has is a mistake.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Blocks of other words are pictures, outputs, and text.
const CODE: [&str; 10] = ["rust", "python", "py", "ts", "js", "sh", "bash", "console", "toml", "json"];

/// A page, what its blocks begin with, and the file of the test that takes all such blocks of it.
const CLAIMS: &[(&str, &str, &str)] = &[
    ("README.md", "rust,no_run", "crates/sandbox/src/lib.rs"),
    ("README.md", "python", RECIPES),
    ("README.md", "ts", EXAMPLES),
    ("README.md", "sh", COMMANDS),
    ("bindings/js/README.md", "ts", EXAMPLES),
    ("bindings/python/README.md", "python", "bindings/python/tests/test_readme.py"),
    ("crates/faults/README.md", "rust", "crates/faults/src/lib.rs"),
    ("crates/faults/README.md", "console", COMMANDS),
    ("docs/GUIDE.md", "rust", "crates/sandbox/src/lib.rs"),
    ("docs/GUIDE.md", "python", RECIPES),
    ("docs/GUIDE.md", "ts", EXAMPLES),
    ("docs/GUIDE.md", "sh", COMMANDS),
    ("docs/cli.md", "toml", COMMANDS),
    ("docs/design/0011-control-plane-sdk.md", "json", COMMANDS),
    ("docs/javascript-sdk.md", "ts", EXAMPLES),
    ("docs/javascript.md", "ts", TYPES),
    ("docs/python.md", "python", PYTHON),
    ("docs/python.md", "yaml", PYTHON),
    ("docs/releasing.md", "sh", COMMANDS),
    ("docs/testing.md", "json", FAILURES),
    ("docs/testing.md", "python", FAILURES),
    ("docs/testing.md", "python oncebox", FAILURES),
    ("docs/testing.md", "sh", COMMANDS),
];

const RECIPES: &str = "crates/local/tests/recipes/test_guide.py";
const FAILURES: &str = "crates/local/tests/recipes/test_recipes.py";
const EXAMPLES: &str = "bindings/js/test/sdk/docs.test.ts";
const TYPES: &str = "bindings/js/test/package/docs-types.test.ts";
const PYTHON: &str = "bindings/python/tests/test_docs.py";
const COMMANDS: &str = "crates/cli/tests/documented.rs";

/// Looks at every page that git knows of.
pub(super) fn check(root: &Path) -> Result<(), String> {
    let output = Command::new("git").args(["ls-files", "*.md"]).current_dir(root).output();
    let listed = output.map_err(|error| format!("git ls-files: {error}"))?;
    let mut found = BTreeSet::new();
    let mut problems = Vec::new();
    for page in String::from_utf8_lossy(&listed.stdout).lines() {
        let text = fs::read_to_string(root.join(page)).map_err(|error| format!("{page}: {error}"))?;
        for (line, info) in blocks(&text) {
            if CLAIMS.iter().any(|(claimed, words, _)| (*claimed, *words) == (page, info)) {
                found.insert((page.to_owned(), info.to_owned()));
            } else if is_code(info) {
                problems.push(format!("{page}:{line}: no test has this block (```{info})"));
            }
        }
    }
    for (page, info, test) in CLAIMS {
        if !found.contains(&((*page).to_owned(), (*info).to_owned())) {
            problems.push(format!("{page}: there is no block ```{info}, which {test} is said to have"));
        }
        let source = fs::read_to_string(root.join(test)).unwrap_or_default();
        let name = page.rsplit('/').next().unwrap_or(page);
        if !source.contains(name) {
            problems.push(format!("{test} is said to have the blocks of {page}, and does not name it"));
        }
    }
    if problems.is_empty() { Ok(()) } else { Err(format!("blocks of code:\n  {}", problems.join("\n  "))) }
}

fn is_code(info: &str) -> bool {
    let language = info.split([',', ' ']).next().unwrap_or_default();
    CODE.contains(&language)
}

/// The line and the words of each fenced block's beginning.
fn blocks(text: &str) -> Vec<(usize, &str)> {
    let mut all = Vec::new();
    let mut open: Option<&str> = None;
    for (number, line) in text.lines().enumerate() {
        let line = line.trim_start();
        let fence = &line[..line.len() - line.trim_start_matches(['`', '~']).len()];
        match open {
            Some(begun) if line.trim_end() == fence && fence.starts_with(begun) => open = None,
            None if fence.len() >= 3 => {
                all.push((number + 1, line[fence.len()..].trim()));
                open = Some(fence);
            }
            _ => {}
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_block_of_the_tree_has_its_test() {
        check(&crate::root()).unwrap();
    }

    #[test]
    fn blocks_are_found_with_their_words_and_not_within_one_another() {
        let text =
            "```rust,no_run\nx\n```\ntext\n````md\n```sh\n```\n````\n  ```python oncebox\n  ```\n```\nplain\n```\n";
        let found = blocks(text);
        assert_eq!(found, [(1, "rust,no_run"), (5, "md"), (9, "python oncebox"), (11, "")]);
        assert_eq!(found.iter().filter(|(_, info)| is_code(info)).count(), 2);
    }
}
