//! What is published: built, packed, and tried where nothing else is installed.

mod archive;
mod clean;
mod crates;
mod javascript;
mod notices;
mod python;
mod stamp;

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use sha2::{Digest, Sha256};

use crate::command::output;
use crate::licences;
use crate::program::Profile;
use crate::test::target_folder;

const USAGE: &str = "usage: cargo xtask dist [crates] [python] [javascript] [archive] [--profile dev|release] [--stamp]

  Builds the packages (all, or those that are named) into target/dist, tries each of them where nothing else is installed,
  and prints how it is installed. --profile dev is quick, and not to be published. --stamp gives them a pre-release version
  that names the branch and counts its commits.";

/// What there is, in the order in which it is built.
const KINDS: [(&str, Pack); 4] =
    [("archive", archive::pack), ("python", python::pack), ("javascript", javascript::pack), ("crates", crates::pack)];

type Pack = fn(&Dist) -> Result<Vec<Packed>, String>;

/// One run: what is built, how, and where it goes.
pub(crate) struct Dist {
    root: PathBuf,
    profile: Profile,
    /// That of all packages.
    version: String,
}

/// A package that is there, and was tried.
pub(crate) struct Packed {
    name: String,
    /// What somebody types who has the files.
    install: String,
    files: Vec<PathBuf>,
}

pub(crate) fn run(root: &Path, args: &[&str]) -> Result<(), String> {
    let mut profile = Profile::Release;
    let mut stamped = false;
    let mut wanted = Vec::new();
    let mut words = args.iter();
    while let Some(word) = words.next() {
        match *word {
            "--stamp" => stamped = true,
            "--profile" => {
                profile = match words.next() {
                    Some(&"dev") => Profile::Dev,
                    Some(&"release") => Profile::Release,
                    other => return Err(format!("--profile {}: dev or release\n\n{USAGE}", other.unwrap_or(&""))),
                }
            }
            name if KINDS.iter().any(|(kind, _)| *kind == name) => wanted.push(name),
            other => return Err(format!("{other:?} is none of them\n\n{USAGE}")),
        }
    }
    if stamped {
        let passed: Vec<&str> = args.iter().copied().filter(|word| *word != "--stamp").collect();
        return stamp::run(root, &passed);
    }
    let dist = Dist { root: root.to_owned(), profile, version: licences::version(root)? };
    let mut packed = Vec::new();
    for (kind, pack) in KINDS {
        if wanted.is_empty() || wanted.contains(&kind) {
            packed.extend(pack(&dist).map_err(|error| format!("dist {kind}: {error}"))?);
        }
    }
    dist.report(&packed)
}

impl Dist {
    /// An empty folder for a kind of package.
    fn folder(&self, kind: &str) -> Result<PathBuf, String> {
        let folder = target_folder(&self.root).join("dist").join(kind);
        fs::remove_dir_all(&folder).ok();
        fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        Ok(folder)
    }

    /// What the compiler calls this machine.
    fn host(&self) -> Result<String, String> {
        let told = output(Command::new("rustc").arg("-vV").current_dir(&self.root))?;
        let host = told.lines().find_map(|line| line.strip_prefix("host: "));
        host.map(str::to_owned).ok_or_else(|| format!("`rustc -vV` names no host: {told}"))
    }

    /// The notices of what is linked in.
    fn notices(&self) -> Result<PathBuf, String> {
        notices::write(&self.root, &self.host()?)
    }

    /// Prints what there is, and writes its sums where `sha256sum --check` finds them.
    fn report(&self, packed: &[Packed]) -> Result<(), String> {
        let base = target_folder(&self.root).join("dist");
        let mut sums = String::new();
        println!(
            "\noncebox {}{}",
            self.version,
            if self.profile == Profile::Dev { " (dev: not to be published)" } else { "" }
        );
        for Packed { name, install, files } in packed {
            println!("\n{name}\n  {install}");
            for file in files {
                let failed = |error: std::io::Error| format!("{}: {error}", file.display());
                let content = fs::read(file).map_err(failed)?;
                let shown = file.strip_prefix(&base).unwrap_or(file).display();
                let sum = Sha256::digest(&content);
                let sum = sum.iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"));
                let _ = writeln!(sums, "{sum}  {shown}");
                println!("  {:>12} bytes  {shown}", content.len());
            }
        }
        let page = base.join("SHA256SUMS");
        fs::write(&page, sums).map_err(|error| format!("{}: {error}", page.display()))?;
        println!("\nIn {}, with SHA256SUMS.", base.display());
        Ok(())
    }
}

/// The files of a folder whose names end so, in order.
fn files(folder: &Path, ending: &str) -> Result<Vec<PathBuf>, String> {
    let entries = fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut found: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().ends_with(ending)))
        .collect();
    found.sort();
    if found.is_empty() { Err(format!("{}: nothing that ends in {ending}", folder.display())) } else { Ok(found) }
}
