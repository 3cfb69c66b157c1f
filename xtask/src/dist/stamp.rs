//! Pre-releases: a version that names the branch and counts its commits, given to a copy of the tree.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use crate::command::{self, output};
use crate::licences;
use crate::test::{TOOLS_FOLDER, target_folder};

/// How much of a branch's name is in a version.
const LONGEST_NAME: usize = 40;

/// Copies the tree with another version, and runs the task there. It builds in this tree's target folder.
pub(super) fn run(root: &Path, args: &[&str]) -> Result<(), String> {
    let git = |args: &[&str]| output(Command::new("git").args(args).current_dir(root));
    let branch = git(&["rev-parse", "--abbrev-ref", "HEAD"])?;
    let branch = match branch.trim() {
        "HEAD" => format!("at-{}", git(&["rev-parse", "--short", "HEAD"])?.trim()),
        branch => branch.to_owned(),
    };
    let commits = git(&["rev-list", "--count", "HEAD"])?;
    let released = licences::version(root)?;
    let stamp = Stamp::new(&released, &branch, commits.trim());
    println!("{} in Rust and JavaScript, {} in Python", stamp.semver, stamp.pep440);

    let target = target_folder(root);
    let copy = target.join("dist/stamped");
    copy_tree(root, &copy, &git(&["ls-files", "-z", "--cached", "--others", "--exclude-standard"])?)?;
    stamp.write(&copy, &released)?;
    // Tools are the same for all versions.
    for shared in [TOOLS_FOLDER, "bindings/js/node_modules"] {
        let (from, to) = (root.join(shared), copy.join(shared));
        fs::create_dir_all(&from).map_err(|error| format!("{}: {error}", from.display()))?;
        symlink(&from, &to).map_err(|error| format!("{}: {error}", to.display()))?;
    }
    let mut task = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    task.args(["xtask", "dist"]).args(args).current_dir(&copy).env("CARGO_TARGET_DIR", target);
    command::run(&mut task)
}

/// A version before the release, as each registry wants it.
#[derive(Debug, PartialEq, Eq)]
struct Stamp {
    /// `1.2.3-branch.n`: before 1.2.3.
    semver: String,
    /// `1.2.3+branch.n`: a local version, which no public index takes.
    pep440: String,
}

impl Stamp {
    fn new(released: &str, branch: &str, commits: &str) -> Self {
        let mut name = String::new();
        for c in branch.chars().take(LONGEST_NAME) {
            if c.is_ascii_alphanumeric() {
                name.push(c.to_ascii_lowercase());
            } else if !name.is_empty() && !name.ends_with('-') {
                name.push('-');
            }
        }
        let name = match name.trim_end_matches('-') {
            "" => "branch".to_owned(),
            // A number by itself may not begin with a zero, and would be compared as one.
            digits if digits.bytes().all(|byte| byte.is_ascii_digit()) => format!("b{digits}"),
            name => name.to_owned(),
        };
        let local = name.replace('-', ".");
        Self { semver: format!("{released}-{name}.{commits}"), pep440: format!("{released}+{local}.{commits}") }
    }

    /// Gives the version to everything in a copy of the tree.
    fn write(&self, copy: &Path, released: &str) -> Result<(), String> {
        // A requirement of a release does not take what comes before it.
        let is_ours = format!("version = \"{released}\"");
        edit(&copy.join("Cargo.toml"), &is_ours, |line| {
            let wanted = match line {
                _ if line.contains("path = ") => format!("={}", self.semver),
                _ if line == is_ours => self.semver.clone(),
                // A dependency by others that is as old.
                _ => return line.to_owned(),
            };
            line.replace(&is_ours, &format!("version = \"{wanted}\""))
        })?;
        let named = format!("\"version\": \"{released}\"");
        edit(&copy.join("bindings/js/package.json"), &named, |line| {
            line.replace(&named, &format!("\"version\": \"{}\"", self.semver))
        })?;
        // Its crate is not published, and maturin takes the package's version from there: for cargo it is one with a note.
        let shared = "version.workspace = true";
        edit(&copy.join("bindings/python/Cargo.toml"), shared, |line| match line {
            // The compiler's version ends alike.
            _ if line == shared => format!("version = \"{}\"", self.pep440),
            _ => line.to_owned(),
        })?;
        command::run(&mut command::cargo(copy, &["update", "--quiet", "--offline", "--workspace"]))
    }
}

/// Changes the lines of a file that have a mark; there has to be one.
fn edit(file: &Path, mark: &str, changed: impl Fn(&str) -> String) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("{}: {error}", file.display());
    let text = fs::read_to_string(file).map_err(failed)?;
    if !text.contains(mark) {
        return Err(format!("{}: there is no `{mark}`", file.display()));
    }
    let lines = text.lines().map(|line| if line.contains(mark) { changed(line) } else { line.to_owned() });
    fs::write(file, lines.map(|line| line + "\n").collect::<String>()).map_err(failed)
}

/// Copies files with their times, by which cargo knows what it has built already.
fn copy_tree(root: &Path, copy: &Path, listed: &str) -> Result<(), String> {
    let failed = |path: &Path, error: std::io::Error| format!("{}: {error}", path.display());
    if copy.exists() {
        fs::remove_dir_all(copy).map_err(|error| failed(copy, error))?;
    }
    for name in listed.split('\0').filter(|name| !name.is_empty()) {
        let (from, to) = (root.join(name), copy.join(name));
        let copied = to.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| {
            let about = fs::symlink_metadata(&from)?;
            if about.is_symlink() {
                return symlink(fs::read_link(&from)?, &to);
            }
            fs::copy(&from, &to)?;
            fs::File::options().write(true).open(&to)?.set_modified(about.modified()?)
        });
        match copied {
            // One that git knows, and that was deleted.
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            copied => copied.map_err(|error| failed(&from, error))?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stamp(branch: &str) -> [String; 2] {
        let Stamp { semver, pep440 } = Stamp::new("1.2.3", branch, "45");
        [semver, pep440]
    }

    #[test]
    fn any_name_of_a_branch_makes_versions() {
        assert_eq!(stamp("main"), ["1.2.3-main.45", "1.2.3+main.45"]);
        assert_eq!(stamp("feature/New_Pool--2"), ["1.2.3-feature-new-pool-2.45", "1.2.3+feature.new.pool.2.45"]);
        assert_eq!(stamp("007"), ["1.2.3-b007.45", "1.2.3+b007.45"]);
        assert_eq!(stamp("ß/"), ["1.2.3-branch.45", "1.2.3+branch.45"]);
        assert_eq!(stamp(&"a-".repeat(40))[0], format!("1.2.3-{}.45", "a-".repeat(20).trim_end_matches('-')));
    }

    #[test]
    fn a_copy_has_links_and_times() {
        let folder = tempfile::tempdir().unwrap();
        let (tree, copy) = (folder.path().join("tree"), folder.path().join("copy"));
        fs::create_dir_all(tree.join("a")).unwrap();
        fs::write(tree.join("a/file"), "text").unwrap();
        let time = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000);
        fs::File::options().write(true).open(tree.join("a/file")).unwrap().set_modified(time).unwrap();
        symlink("a/file", tree.join("link")).unwrap();
        copy_tree(&tree, &copy, "a/file\0link\0deleted\0").unwrap();
        assert_eq!(fs::read_link(copy.join("link")).unwrap(), Path::new("a/file"));
        assert_eq!(fs::metadata(copy.join("link")).unwrap().modified().unwrap(), time);
    }
}
