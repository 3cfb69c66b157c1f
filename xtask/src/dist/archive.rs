//! The program with its pages, for who has no package manager that knows it.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::clean::Clean;
use super::{Dist, Packed};
use crate::command::{output, run};
use crate::program;

/// Completions of each shell, by the names under which these look for them.
const COMPLETIONS: [(&str, &str); 3] = [("bash", "oncebox.bash"), ("fish", "oncebox.fish"), ("zsh", "_oncebox")];

/// The repository's pages that go with it.
const PAGES: [&str; 4] = ["README.md", "CHANGELOG.md", "LICENSE-MIT", "LICENSE-APACHE"];

pub(super) fn pack(dist: &Dist) -> Result<Vec<Packed>, String> {
    let program = program::build(&dist.root, dist.profile)?;
    let out = dist.folder("archive")?;
    let name = format!("oncebox-{}-{}", dist.version, dist.host()?);
    let folder = out.join(&name);
    fill(&dist.root, &program, &folder)?;
    fs::copy(dist.notices()?, folder.join("THIRD-PARTY.txt"))
        .map_err(|error| format!("{}: {error}", folder.display()))?;
    let archive = out.join(format!("{name}.tar.gz"));
    // The same content in the same order has the same bytes.
    let tar = ["--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--mtime=@0", "-czf"];
    run(Command::new("tar").args(tar).arg(&archive).arg("-C").arg(&out).arg(&name))?;
    fs::remove_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;

    let clean = Clean::new(&[])?;
    run(clean.command("tar").arg("-xzf").arg(&archive))?;
    clean.command_works(&clean.folder().join(&name).join("oncebox"), &dist.version, |_| Ok(()))?;
    println!("passed: the archive, unpacked in an empty folder");
    let install = format!("tar -xzf {} && {name}/oncebox --help", archive.display());
    Ok(vec![Packed { name: "The command, as an archive".into(), install, files: vec![archive] }])
}

fn fill(root: &Path, program: &Path, folder: &Path) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
    let completions = folder.join("completions");
    fs::create_dir_all(&completions).map_err(failed)?;
    fs::copy(program, folder.join("oncebox")).map_err(failed)?;
    for page in PAGES {
        fs::copy(root.join(page), folder.join(page)).map_err(failed)?;
    }
    run(Command::new(program).args(["man", "--dir"]).arg(folder.join("man/man1")))?;
    for (shell, file) in COMPLETIONS {
        let script = output(Command::new(program).args(["completions", shell]))?;
        fs::write(completions.join(file), script).map_err(failed)?;
    }
    Ok(())
}
