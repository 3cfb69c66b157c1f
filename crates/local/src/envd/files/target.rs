//! Where a written file appears, and the file it is until it is complete.

use std::ffi::OsStr;
use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use http::StatusCode;

use super::super::answer::Refusal;

/// Where the bytes go, and the permissions they get: through a link to what it leads to, keeping what was set there. A file
/// without permissions is new.
pub(super) fn target(asked: &Path, name: &str) -> Result<(PathBuf, Option<Permissions>), Refusal> {
    let bad = |message: String| Err(Refusal::new(StatusCode::BAD_REQUEST, message));
    match fs::metadata(asked) {
        Ok(metadata) if metadata.is_dir() => bad(format!("path is a directory: {name}")),
        Ok(metadata) if !metadata.is_file() => bad(format!("path is not a regular file: {name}")),
        Ok(metadata) => {
            let target = fs::canonicalize(asked).map_err(|error| Refusal::of_io("resolving", name, &error))?;
            Ok((target, Some(Permissions::from_mode(metadata.permissions().mode() & 0o777))))
        }
        Err(_) if fs::symlink_metadata(asked).is_ok() => bad(format!("path is a link that leads nowhere: {name}")),
        Err(_) => Ok((asked.to_owned(), None)),
    }
}

/// What the file that gets its name in the end does to what had the name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::envd) enum UploadKind {
    New,
    Replaces,
}

const NEW: &str = ".oncebox-upload-new-";
const REPLACES: &str = ".oncebox-upload-over-";

/// Whether a name is that of a file that is not complete yet.
pub(in crate::envd) fn upload_kind(name: &OsStr) -> Option<UploadKind> {
    let name = name.as_encoded_bytes();
    if name.starts_with(NEW.as_bytes()) {
        Some(UploadKind::New)
    } else if name.starts_with(REPLACES.as_bytes()) {
        Some(UploadKind::Replaces)
    } else {
        None
    }
}

/// A file next to the one it will become, removed unless it does.
pub(super) struct Temporary {
    path: PathBuf,
    kept: bool,
}

impl Temporary {
    pub(super) fn create(folder: &Path, replaces: bool) -> io::Result<(File, Self)> {
        let mut random = [0; 12];
        getrandom::fill(&mut random).map_err(io::Error::other)?;
        let random: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
        let path = folder.join(format!("{}{random}", if replaces { REPLACES } else { NEW }));
        // New, so that no link somebody put there is followed.
        let file = File::create_new(&path)?;
        Ok((file, Self { path, kept: false }))
    }

    pub(super) fn become_file(mut self, target: &Path) -> io::Result<()> {
        fs::rename(&self.path, target)?;
        self.kept = true;
        Ok(())
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if !self.kept {
            // Nothing better can be done about a file that cannot be removed.
            let _ = fs::remove_file(&self.path);
        }
    }
}
