//! What the Filesystem service does, in blocking code.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use connectrpc::ConnectError;
use oncebox_protocol::envd::filesystem::EntryInfo;

use super::entry::describe;
use crate::envd::paths::Paths;
use crate::removal::remove_tree;

/// Most entries a listing may have. One that is longer is refused rather than cut.
const MAX_ENTRIES: usize = 100_000;

pub(super) fn stat(path: &Path, paths: &Paths) -> Result<EntryInfo, ConnectError> {
    describe(path, paths).map_err(|error| of_io("getting file info of", path, paths, &error))
}

pub(super) fn list(path: &Path, depth: u32, paths: &Paths) -> Result<Vec<EntryInfo>, ConnectError> {
    let failed = |path: &Path, error: &io::Error| of_io("reading directory", path, paths, error);
    let metadata = fs::metadata(path).map_err(|error| failed(path, &error))?;
    if !metadata.is_dir() {
        let message = format!("path is not a directory: {}", paths.display(path));
        return Err(ConnectError::invalid_argument(message));
    }
    let mut entries = Vec::new();
    // Directories still to read, the next one last, so that entries come in the order of a walk.
    let mut walk = vec![(path.to_owned(), depth.max(1))];
    while let Some((directory, levels)) = walk.pop() {
        if directory != path {
            match describe(&directory, paths) {
                Ok(entry) => entries.push(entry),
                // Removed while the walk was under way.
                Err(error) if is_missing(&error) => continue,
                Err(error) => return Err(of_io("getting file info of", &directory, paths, &error)),
            }
        }
        if levels == 0 || !is_real_directory(&directory) && directory != path {
            continue;
        }
        let mut children: Vec<PathBuf> = match fs::read_dir(&directory) {
            Ok(children) => children.filter_map(|child| Some(child.ok()?.path())).collect(),
            // Removed while the walk was under way.
            Err(error) if is_missing(&error) && directory != path => continue,
            Err(error) => return Err(failed(&directory, &error)),
        };
        if entries.len() + walk.len() + children.len() > MAX_ENTRIES {
            let message = format!("'{}' has more than {MAX_ENTRIES} entries: list less depth", paths.display(path));
            return Err(ConnectError::resource_exhausted(message));
        }
        children.sort();
        walk.extend(children.into_iter().rev().map(|child| (child, levels - 1)));
    }
    Ok(entries)
}

fn is_real_directory(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_dir())
}

pub(super) fn make_dir(path: &Path, paths: &Paths) -> Result<EntryInfo, ConnectError> {
    match fs::metadata(path) {
        Ok(metadata) if metadata.is_dir() => {
            let message = format!("directory already exists: {}", paths.display(path));
            return Err(ConnectError::already_exists(message));
        }
        Ok(_) => {
            let message = format!("path already exists but it is not a directory: {}", paths.display(path));
            return Err(ConnectError::invalid_argument(message));
        }
        Err(_) => fs::create_dir_all(path).map_err(|error| of_io("making directory", path, paths, &error))?,
    }
    stat(path, paths)
}

pub(super) fn move_entry(source: &Path, destination: &Path, paths: &Paths) -> Result<EntryInfo, ConnectError> {
    // Looked for first: a failed move should not leave the parents of its destination behind.
    fs::symlink_metadata(source).map_err(|error| of_io("moving", source, paths, &error))?;
    if let Some(parent) = destination.parent() {
        fs::create_dir_all(parent).map_err(|error| of_io("making directory", parent, paths, &error))?;
    }
    fs::rename(source, destination).map_err(|error| of_io("moving", source, paths, &error))?;
    stat(destination, paths)
}

pub(super) fn remove(path: &Path, paths: &Paths) -> Result<(), ConnectError> {
    let removed = match fs::symlink_metadata(path) {
        Ok(metadata) if metadata.is_dir() => remove_tree(path),
        Ok(_) => fs::remove_file(path),
        Err(error) => Err(error),
    };
    match removed {
        Err(error) if !is_missing(&error) => Err(of_io("removing", path, paths, &error)),
        _ => Ok(()),
    }
}

/// A path below a file is as missing as one below nothing.
fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

fn of_io(action: &str, path: &Path, paths: &Paths, error: &io::Error) -> ConnectError {
    let message = format!("error {action} '{}': {error}", paths.display(path));
    match error.kind() {
        _ if is_missing(error) => ConnectError::not_found(message),
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => ConnectError::permission_denied(message),
        io::ErrorKind::InvalidInput | io::ErrorKind::InvalidFilename | io::ErrorKind::AlreadyExists => {
            ConnectError::invalid_argument(message)
        }
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => ConnectError::resource_exhausted(message),
        // Too many links on the way, as in a circle of them.
        _ if error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error()) => {
            ConnectError::failed_precondition(message)
        }
        _ => ConnectError::internal(message),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use connectrpc::ErrorCode;

    use super::*;

    fn code<T: std::fmt::Debug>(result: Result<T, ConnectError>) -> ErrorCode {
        result.unwrap_err().code
    }

    #[test]
    fn operations_answer_as_documented() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let paths = Paths::of_sandbox();
        let at = |name: &str| root.join(name);

        assert_eq!(make_dir(&at("a/b"), &paths).unwrap().name, "b");
        assert_eq!(code(make_dir(&at("a/b"), &paths)), ErrorCode::AlreadyExists);
        fs::write(at("a/file"), b"x").unwrap();
        assert_eq!(code(make_dir(&at("a/file"), &paths)), ErrorCode::InvalidArgument);
        assert_eq!(code(list(&at("a/file"), 1, &paths)), ErrorCode::InvalidArgument);
        assert_eq!(code(list(&at("none"), 1, &paths)), ErrorCode::NotFound);
        assert_eq!(code(stat(&at("none"), &paths)), ErrorCode::NotFound);
        assert_eq!(code(move_entry(&at("none"), &at("x/y"), &paths)), ErrorCode::NotFound);
        assert!(!at("x").exists());
        move_entry(&at("a/file"), &at("c/d/file"), &paths).unwrap();
        symlink("..", at("c/up")).unwrap();

        let names = |depth| -> Vec<String> {
            let entries = list(&root, depth, &paths).unwrap();
            entries.iter().map(|entry| entry.path[root.to_str().unwrap().len()..].to_owned()).collect()
        };
        assert_eq!(names(0), ["/a", "/c"]);
        assert_eq!(names(9), ["/a", "/a/b", "/c", "/c/d", "/c/d/file", "/c/up"]);

        remove(&at("c"), &paths).unwrap();
        remove(&at("c"), &paths).unwrap();
        assert!(root.exists() && at("a/b").exists());
    }

    #[test]
    fn a_listing_during_which_entries_vanish_is_not_not_found() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let paths = Paths::of_sandbox();
        fs::write(root.join("kept"), b"").unwrap();
        let ended = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            let (ended, at) = (&ended, &root);
            let busy = scope.spawn(move || {
                while !ended.load(std::sync::atomic::Ordering::Relaxed) {
                    for number in 0..50 {
                        fs::create_dir(at.join(format!("{number}"))).unwrap();
                    }
                    for number in 0..50 {
                        fs::remove_dir(at.join(format!("{number}"))).unwrap();
                    }
                }
            });
            let lists: Vec<_> = (0..300).map(|_| list(&root, 3, &paths)).collect();
            ended.store(true, std::sync::atomic::Ordering::Relaxed);
            busy.join().unwrap();
            for list in lists {
                assert!(list.unwrap().iter().any(|entry| entry.name == "kept"));
            }
        });
    }
}
