//! Makes the sandbox's own files and folders in a root that may have been lived in.
//!
//! Nothing runs in the sandbox yet, so what is looked at stays as it is; but what is there may have been put there to
//! lead this process, which still sees the whole machine, astray. So every step is looked at without following it, and
//! what is not what it should be is replaced.

use std::fs::{self, Metadata, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::symlink;
use std::path::{Component, Path, PathBuf};

use crate::removal::remove_tree;

/// Makes sure that a folder is there, in a parent that was made sure of; returns whether it was made.
pub(super) fn folder(path: &Path) -> io::Result<bool> {
    match there(path)? {
        Some(metadata) if metadata.is_dir() => return Ok(false),
        Some(_) => fs::remove_file(path)?,
        None => {}
    }
    fs::create_dir(path)?;
    Ok(true)
}

/// Makes sure that a file is there; one that is there keeps what it says.
pub(super) fn file(path: &Path, data: &[u8]) -> io::Result<()> {
    match there(path)? {
        Some(metadata) if metadata.is_file() => return Ok(()),
        Some(metadata) if metadata.is_dir() => remove_tree(path)?,
        Some(_) => fs::remove_file(path)?,
        None => {}
    }
    OpenOptions::new().write(true).create_new(true).open(path)?.write_all(data)
}

/// Makes sure that a link is there and leads there.
pub(super) fn link(leads_to: &Path, path: &Path) -> io::Result<()> {
    match there(path)? {
        Some(metadata) if metadata.is_dir() => remove_tree(path)?,
        Some(_) => fs::remove_file(path)?,
        None => {}
    }
    symlink(leads_to, path)
}

/// Makes sure of each folder on a way below `base`, and returns the last. The way has names only.
pub(super) fn folder_below(base: &Path, way: &str) -> io::Result<PathBuf> {
    let mut path = base.to_owned();
    for component in Path::new(way).components() {
        match component {
            Component::RootDir | Component::CurDir => {}
            Component::Normal(name) => {
                path.push(name);
                folder(&path)?;
            }
            Component::ParentDir | Component::Prefix(_) => {
                return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("{way} has a part that is no name")));
            }
        }
    }
    Ok(path)
}

fn there(path: &Path) -> io::Result<Option<Metadata>> {
    match fs::symlink_metadata(path) {
        Ok(metadata) => Ok(Some(metadata)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_that_were_left_behind_are_replaced_and_not_followed() {
        let folder_ = tempfile::tempdir().unwrap();
        let (root, outside) = (folder_.path().join("root"), folder_.path().join("outside"));
        fs::create_dir(&root).unwrap();
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("passwd"), "outside").unwrap();
        symlink(&outside, root.join("etc")).unwrap();
        symlink(outside.join("passwd"), root.join("passwd")).unwrap();
        symlink(&outside, root.join("mnt")).unwrap();

        assert!(folder(&root.join("etc")).unwrap() && !folder(&root.join("etc")).unwrap());
        file(&root.join("etc/passwd"), b"inside").unwrap();
        file(&root.join("passwd"), b"inside").unwrap();
        file(&root.join("passwd"), b"again").unwrap();
        folder_below(&root, "/mnt/a/b").unwrap();
        assert!(folder_below(&root, "/mnt/../..").is_err());
        link(Path::new("usr/bin"), &root.join("mnt")).unwrap();

        assert_eq!(fs::read_to_string(root.join("passwd")).unwrap(), "inside");
        assert_eq!(fs::read_to_string(outside.join("passwd")).unwrap(), "outside");
        assert_eq!(fs::read_dir(&outside).unwrap().count(), 1, "nothing was made outside");
        assert_eq!(fs::read_link(root.join("mnt")).unwrap(), Path::new("usr/bin"));
    }
}
