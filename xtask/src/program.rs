//! The `oncebox` program, as packages bring it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::command::{cargo, is_present, run};
use crate::test::target_folder;

/// How things are built: quickly, or as they are published, which takes minutes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Profile {
    Dev,
    Release,
}

impl Profile {
    /// What cargo and maturin are told.
    pub(crate) fn flags(self) -> &'static [&'static str] {
        match self {
            Self::Dev => &[],
            Self::Release => &["--release"],
        }
    }

    /// Where cargo puts what it builds, below the target folder.
    pub(crate) fn folder(self) -> &'static str {
        match self {
            Self::Dev => "debug",
            Self::Release => "release",
        }
    }
}

/// Builds the program, and returns a copy without symbols, of which a debug build is mostly made.
pub(crate) fn build(root: &Path, profile: Profile) -> Result<PathBuf, String> {
    run(cargo(root, &["build", "--package", "oncebox-cli"]).args(profile.flags()))?;
    let built = target_folder(root).join(profile.folder()).join("oncebox");
    let folder = target_folder(root).join("dist/program").join(profile.folder());
    let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
    fs::create_dir_all(&folder).map_err(failed)?;
    let copy = folder.join("oncebox");
    // A new file, since the old one may be running.
    if copy.exists() {
        fs::remove_file(&copy).map_err(failed)?;
    }
    if profile == Profile::Dev && is_present("strip") {
        run(Command::new("strip").arg("-o").arg(&copy).arg(&built))?;
    } else {
        fs::copy(&built, &copy).map_err(failed)?;
    }
    Ok(copy)
}
