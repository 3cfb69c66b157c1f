//! Where the sandboxes of a server live on disk.
//!
//! One folder per user holds one folder per server; a server holds a lock on its own while it lives. A server that starts
//! removes the folders whose lock nobody holds: their servers ended without doing so themselves.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use parking_lot::Mutex;

use crate::error::StartError;
use crate::ids;
use crate::removal::remove_tree;

/// The lock in a server's folder.
const LOCK: &str = "lock";
/// The lock of those who make and remove servers' folders.
const BASE_LOCK: &str = ".lock";

/// The folders in a server's folder.
const SANDBOXES: &str = "sandboxes";
const TEMPLATES: &str = "templates";
const VOLUMES: &str = "volumes";
const UPLOADS: &str = "uploads";
/// What is being made and not yet anything.
const SCRATCH: &str = "scratch";
const PARTS: [&str; 5] = [SANDBOXES, TEMPLATES, VOLUMES, UPLOADS, SCRATCH];

/// The database of a server that keeps its records.
const RECORDS: &str = "records.redb";

/// A server's folder, held by a lock.
#[derive(Debug)]
pub(crate) struct State {
    folder: PathBuf,
    kept: bool,
    lock: Mutex<Option<File>>,
}

impl State {
    /// Makes a folder for this server in `base`, and removes those of servers that are gone. Blocks.
    pub(crate) fn open(base: Option<&Path>) -> Result<Self, StartError> {
        let base = base.map_or_else(default_base, Path::to_owned);
        let failed = |why: String| StartError::State { path: base.clone(), why };
        let real = prepare(&base).map_err(failed)?;
        let failed = |error: io::Error| failed(error.to_string());
        // Otherwise a folder made by one server, and not locked yet, would look abandoned to another.
        let base_lock = File::create(real.join(BASE_LOCK)).map_err(failed)?;
        base_lock.lock().map_err(failed)?;
        remove_abandoned(&real).map_err(failed)?;
        let folder = real.join(ids::random_name().map_err(failed)?);
        DirBuilder::new().mode(0o700).create(&folder).map_err(failed)?;
        let lock = File::create(folder.join(LOCK)).map_err(failed)?;
        lock.try_lock().map_err(|error| failed(error.into()))?;
        make_parts(&folder).map_err(failed)?;
        Ok(Self { folder, kept: false, lock: Mutex::new(Some(lock)) })
    }

    /// Takes a folder whose contents stay when the server ends, made if it is missing. Blocks.
    pub(crate) fn keep(folder: &Path) -> Result<Self, StartError> {
        let failed = |why: String| StartError::KeptState { path: folder.to_owned(), why };
        let real = prepare(folder).map_err(failed)?;
        let failed = |error: io::Error| failed(error.to_string());
        let lock = File::create(real.join(LOCK)).map_err(failed)?;
        lock.try_lock().map_err(|error| StartError::KeptState {
            path: folder.to_owned(),
            why: match error {
                fs::TryLockError::WouldBlock => "another server is using it".to_owned(),
                fs::TryLockError::Error(error) => error.to_string(),
            },
        })?;
        // What was being made when the server ended was promised to nobody.
        remove_tree(&real.join(SCRATCH)).map_err(failed)?;
        make_parts(&real).map_err(failed)?;
        Ok(Self { folder: real, kept: true, lock: Mutex::new(Some(lock)) })
    }

    /// The file for records, if they are to be kept.
    pub(crate) fn records(&self) -> Option<PathBuf> {
        self.kept.then(|| self.folder.join(RECORDS))
    }

    /// Whether what is here outlives the server.
    pub(crate) fn is_kept(&self) -> bool {
        self.kept
    }

    /// Where the sandbox of that id lives.
    pub(crate) fn sandbox(&self, id: &str) -> PathBuf {
        self.folder.join(SANDBOXES).join(id)
    }

    /// Where the files of that build of a template are.
    pub(crate) fn template(&self, build: &str) -> PathBuf {
        self.folder.join(TEMPLATES).join(build)
    }

    /// Where the volume of that id is.
    pub(crate) fn volume(&self, id: &str) -> PathBuf {
        self.folder.join(VOLUMES).join(id)
    }

    /// Where files for a template's build are uploaded to.
    pub(crate) fn upload(&self, name: &str) -> PathBuf {
        self.folder.join(UPLOADS).join(name)
    }

    /// A place for what is being made.
    pub(crate) fn scratch(&self) -> io::Result<PathBuf> {
        Ok(self.folder.join(SCRATCH).join(ids::random_name()?))
    }

    /// Removes sandboxes, templates and volumes that no record speaks of. Blocks.
    pub(crate) fn remove_orphans(&self, known: impl Fn(Part, &str) -> bool) {
        for (part, name) in [(Part::Sandbox, SANDBOXES), (Part::Template, TEMPLATES), (Part::Volume, VOLUMES)] {
            let Ok(entries) = fs::read_dir(self.folder.join(name)) else { continue };
            for entry in entries.flatten() {
                if known(part, &entry.file_name().to_string_lossy()) {
                    continue;
                }
                tracing::info!(folder = %entry.path().display(), "removing what no record speaks of");
                if let Err(error) = remove_tree(&entry.path()) {
                    tracing::warn!(folder = %entry.path().display(), %error, "it was not removed");
                }
            }
        }
    }
}

/// A kind of folder in a server's folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    Sandbox,
    Template,
    Volume,
}

fn make_parts(folder: &Path) -> io::Result<()> {
    for part in PARTS {
        match DirBuilder::new().mode(0o700).create(folder.join(part)) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

impl State {
    /// Removes this server's folder with all that is in it; one that is to be kept is let go of. Blocks.
    pub(crate) fn remove(&self) {
        if self.kept {
            // Another server may have it from now on.
            self.lock.lock().take();
            return;
        }
        if let Err(error) = remove_tree(&self.folder) {
            tracing::warn!(folder = %self.folder.display(), %error, "a server's folder was not removed");
        }
    }
}

impl Drop for State {
    fn drop(&mut self) {
        self.remove();
    }
}

fn default_base() -> PathBuf {
    std::env::temp_dir().join(format!("oncebox-{}", rustix::process::geteuid().as_raw()))
}

/// Makes sure that the folder is there and nobody else's; returns its real path.
///
/// In a folder everybody writes to, as `/tmp`, somebody else may have made one of this name, or a link.
fn prepare(base: &Path) -> Result<PathBuf, String> {
    match DirBuilder::new().mode(0o700).create(base) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(error.to_string()),
    }
    let metadata = fs::symlink_metadata(base).map_err(|error| error.to_string())?;
    let (owner, own) = (metadata.uid(), rustix::process::geteuid().as_raw());
    if metadata.is_symlink() {
        return Err("it is a symbolic link".to_owned());
    }
    if !metadata.is_dir() {
        return Err("it is not a folder".to_owned());
    }
    if owner != own {
        return Err(format!("it belongs to user {owner}, and this is user {own}"));
    }
    if metadata.mode() & 0o077 != 0 {
        return Err(format!("others may enter it: its mode is {:o}, and must be 700", metadata.mode() & 0o777));
    }
    fs::canonicalize(base).map_err(|error| error.to_string())
}

fn remove_abandoned(base: &Path) -> io::Result<()> {
    for entry in fs::read_dir(base)? {
        let entry = entry?;
        if !entry.file_type()?.is_dir() || is_locked(&entry.path().join(LOCK)) {
            continue;
        }
        tracing::info!(folder = %entry.path().display(), "removing the folder of a server that is gone");
        if let Err(error) = remove_tree(&entry.path()) {
            // The next start tries again; this one does not need the folder.
            tracing::warn!(folder = %entry.path().display(), %error, "it was not removed");
        }
    }
    Ok(())
}

/// A lock that cannot be looked at counts as held: better a folder too many than a living server's folder lost.
fn is_locked(lock: &Path) -> bool {
    match File::open(lock) {
        Ok(file) => file.try_lock().is_err(),
        Err(error) => error.kind() != io::ErrorKind::NotFound,
    }
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn why(base: &Path) -> String {
        match State::open(Some(base)) {
            Err(StartError::State { why, .. }) => why,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_base_that_others_can_touch_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let base = folder.path().join("base");
        drop(State::open(Some(&base)).unwrap());
        assert_eq!(fs::metadata(&base).unwrap().mode() & 0o777, 0o700);

        fs::set_permissions(&base, Permissions::from_mode(0o755)).unwrap();
        assert!(why(&base).contains("mode is 755"));
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&base, &link).unwrap();
        assert!(why(&link).contains("symbolic link"));
        let file = folder.path().join("file");
        fs::write(&file, b"").unwrap();
        assert!(why(&file).contains("not a folder"));
    }

    #[test]
    fn folders_of_servers_that_are_gone_are_removed_and_no_others() {
        let folder = tempfile::tempdir().unwrap();
        let base = folder.path().join("base");
        let alive = State::open(Some(&base)).unwrap();
        let gone = base.join("gone");
        fs::create_dir_all(gone.join("sandbox/closed")).unwrap();
        fs::write(gone.join(LOCK), b"").unwrap();
        fs::set_permissions(gone.join("sandbox/closed"), Permissions::from_mode(0o000)).unwrap();
        let next = State::open(Some(&base)).unwrap();
        assert!(!gone.exists());
        assert!(alive.folder.exists() && next.folder.exists());
        let path = alive.folder.clone();
        drop(alive);
        assert!(!path.exists() && next.folder.exists());
    }
}
