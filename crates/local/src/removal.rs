//! Removing a folder that untrusted programs filled.
//!
//! However deep the folder is, this takes a bounded stack and few descriptors, and it follows no links.

use std::ffi::{CStr, CString};
use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags};
use rustix::io::Errno;

use crate::ids;

/// How many folders are open at a time. What lies deeper is moved up to the root of the tree first.
const MAX_OPEN: usize = 24;

const OPEN: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Removes a folder, also one in which programs took permissions away from its owner. What links lead to stays.
///
/// It removes what it can: the error is the first one. Blocks.
pub(crate) fn remove_tree(folder: &Path) -> io::Result<()> {
    let root = match open(CWD, folder) {
        Ok(root) => root,
        Err(Errno::NOENT) => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    let first = Removal::of(root)?.run();
    match (fs::remove_dir(folder), first) {
        (Err(error), None) if error.kind() != io::ErrorKind::NotFound => Err(error),
        (Err(_), Some(first)) => Err(first.into()),
        _ => Ok(()),
    }
}

struct Removal {
    root: Dir,
    /// Folders on the way from the root to the one that is being emptied, each with its name in the one before.
    way: Vec<(Dir, CString)>,
    /// Names of folders that are moved to the root: this, and a number.
    prefix: String,
    moved: u64,
    first_error: Option<Errno>,
}

impl Removal {
    fn of(root: OwnedFd) -> io::Result<Self> {
        let prefix = format!(".removed-{}", ids::random_name()?);
        Ok(Self { root: Dir::new(root)?, way: Vec::new(), prefix, moved: 0, first_error: None })
    }

    /// Empties the root.
    fn run(mut self) -> Option<Errno> {
        let mut moved_before = 0;
        loop {
            let current = self.way.last_mut().map_or(&mut self.root, |(folder, _)| folder);
            match current.next() {
                Some(Ok(entry)) if matches!(entry.file_name().to_bytes(), b"." | b"..") => {}
                Some(Ok(entry)) => {
                    let removed = self.remove_entry(entry.file_name(), entry.file_type());
                    self.note(removed);
                }
                Some(Err(error)) => {
                    // The folder cannot be read on; reading it again might not end.
                    self.note(Err(error));
                    if self.way.is_empty() {
                        return self.first_error;
                    }
                    self.leave();
                }
                None if !self.way.is_empty() => self.leave(),
                // Folders that were moved here during this pass may not have been seen.
                None if self.moved > moved_before => {
                    moved_before = self.moved;
                    self.root.rewind();
                }
                None => return self.first_error,
            }
        }
    }

    /// Removes what is not a folder; enters or moves what is.
    fn remove_entry(&mut self, name: &CStr, kind: FileType) -> Result<(), Errno> {
        let current = self.current()?;
        if kind != FileType::Directory {
            match permitted(current, || rustix::fs::unlinkat(current, name, AtFlags::empty())) {
                // A folder after all.
                Err(Errno::ISDIR) => {}
                other => return other,
            }
        }
        if self.way.len() < MAX_OPEN {
            let folder = permitted(current, || open(current, name))?;
            self.way.push((Dir::new(folder)?, name.to_owned()));
            return Ok(());
        }
        let new = format!("{}-{}", self.prefix, self.moved);
        let root = self.root.fd()?;
        let rename = || rustix::fs::renameat(current, name, root, new.as_str());
        let renamed = permitted(current, || permitted(root, rename));
        match renamed {
            // Moving a folder writes to it: it has another parent.
            Err(Errno::ACCESS) => {
                permit(current, name)?;
                rename()?;
            }
            other => other?,
        }
        self.moved += 1;
        Ok(())
    }

    /// Removes the folder that has been emptied from the one before.
    fn leave(&mut self) {
        if let Some((_, name)) = self.way.pop() {
            let removed = self.current().and_then(|parent| {
                permitted(parent, || rustix::fs::unlinkat(parent, name.as_c_str(), AtFlags::REMOVEDIR))
            });
            self.note(removed);
        }
    }

    fn current(&self) -> Result<BorrowedFd<'_>, Errno> {
        self.way.last().map_or(&self.root, |(folder, _)| folder).fd()
    }

    fn note(&mut self, result: Result<(), Errno>) {
        match result {
            // Somebody else removed it.
            Ok(()) | Err(Errno::NOENT) => {}
            Err(error) => {
                self.first_error.get_or_insert(error);
            }
        }
    }
}

/// Opens a folder, and lets its owner read it first where that is needed.
fn open<P: rustix::path::Arg + Copy>(parent: BorrowedFd<'_>, name: P) -> Result<OwnedFd, Errno> {
    let open = || rustix::fs::openat(parent, name, OPEN, Mode::empty());
    match open() {
        Err(Errno::ACCESS) => {
            permit(parent, name)?;
            open()
        }
        other => other,
    }
}

/// Lets the owner of the folder of that name do everything in it.
fn permit<P: rustix::path::Arg>(parent: BorrowedFd<'_>, name: P) -> Result<(), Errno> {
    // Such a descriptor needs no permission on the folder, and holds it: what is renamed meanwhile makes no difference.
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let folder = rustix::fs::openat(parent, name, flags, Mode::empty())?;
    let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&folder));
    rustix::fs::chmodat(CWD, path, Mode::RWXU, AtFlags::empty())
}

/// Does something in a folder, after letting its owner do so where that is needed.
fn permitted<T>(folder: BorrowedFd<'_>, act: impl Fn() -> Result<T, Errno>) -> Result<T, Errno> {
    match act() {
        Err(Errno::ACCESS) => {
            rustix::fs::fchmod(folder.as_fd(), Mode::RWXU)?;
            act()
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    /// Makes that many folders in each other, deeper than any path can say.
    fn nest(folder: &Path, levels: usize, mode: Mode) {
        let mut at = rustix::fs::open(folder, OPEN, Mode::empty()).unwrap();
        for level in 0..levels {
            rustix::fs::mkdirat(&at, "d", Mode::RWXU).unwrap();
            let next = rustix::fs::openat(&at, "d", OPEN, Mode::empty()).unwrap();
            if level % 50 == 0 {
                rustix::fs::symlinkat("/", &at, "up").unwrap();
                rustix::fs::mkdirat(&at, "e", Mode::RWXU).unwrap();
            }
            rustix::fs::fchmod(&at, mode).unwrap();
            at = next;
        }
    }

    #[test]
    fn a_tree_of_3_000_nested_folders_is_removed_on_a_small_stack() {
        let folder = tempfile::tempdir().unwrap();
        let tree = folder.path().join("tree");
        fs::create_dir(&tree).unwrap();
        // Longer than a path may be, a hundred times what is open at a time, and more calls than the stack has room for.
        nest(&tree, 3_000, Mode::RWXU);
        let path = tree.clone();
        let small = std::thread::Builder::new().stack_size(64 * 1024);
        small.spawn(move || remove_tree(&path)).unwrap().join().unwrap().unwrap();
        assert!(!tree.exists());
        remove_tree(&tree).unwrap();
    }

    #[test]
    fn folders_without_permissions_are_removed_and_what_links_lead_to_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let (tree, kept) = (folder.path().join("tree"), folder.path().join("kept"));
        fs::create_dir_all(tree.join("open")).unwrap();
        fs::create_dir(&kept).unwrap();
        fs::write(kept.join("file"), b"").unwrap();
        symlink(&kept, tree.join("link")).unwrap();
        symlink(&kept, tree.join("open/link")).unwrap();
        nest(&tree, 200, Mode::empty());
        fs::set_permissions(&tree, fs::Permissions::from_mode(0o000)).unwrap();
        remove_tree(&tree).unwrap();
        assert!(!tree.exists() && kept.join("file").exists());

        let link = folder.path().join("link");
        symlink(&kept, &link).unwrap();
        assert!(remove_tree(&link).is_err());
        assert!(kept.join("file").exists());
    }
}
