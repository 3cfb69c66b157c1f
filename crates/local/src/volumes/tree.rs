//! Files of a volume, reached from outside.
//!
//! Sandboxes write to the same folder, links included, while it is used here. So every path is resolved by the kernel with
//! the volume as its root (`openat2`), and what is then done is done relative to the folder that was opened.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use oncebox_protocol::volume::{Entry, EntryType};
use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, ResolveFlags, XattrFlags};
use rustix::io::Errno;

use crate::ids;
use crate::removal::remove_tree;

/// Most entries of one list.
const MAX_ENTRIES: usize = 10_000;
/// Most names in a path.
const MAX_NAMES: usize = 256;
/// Where owner and group are noted. All files are the server's user's: there is no other in sandboxes.
const OWNER: &str = "user.oncebox.owner";

/// A volume's folder.
#[derive(Debug, Clone)]
pub(crate) struct Tree(PathBuf);

/// Owner, group and mode that something is to have.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Attributes {
    pub(crate) uid: Option<u32>,
    pub(crate) gid: Option<u32>,
    pub(crate) mode: Option<u32>,
}

/// A file that is being written, and appears when all of it is there.
pub(crate) struct NewFile {
    pub(crate) file: std::fs::File,
    parent: OwnedFd,
    temporary: String,
    name: String,
    kept: bool,
}

impl Tree {
    pub(crate) fn new(folder: PathBuf) -> Self {
        Self(folder)
    }

    /// Describes what is there, without following a link that is there.
    pub(crate) fn stat(&self, path: &str) -> io::Result<Entry> {
        let names = names(path)?;
        let Some((name, parents)) = names.split_last() else {
            return entry(self.root()?.as_fd(), "/", "/");
        };
        entry(self.folder(parents)?.as_fd(), name, &joined(&names))
    }

    /// Lists a folder, so many levels deep.
    pub(crate) fn list(&self, path: &str, depth: u32) -> io::Result<Vec<Entry>> {
        let mut found = Vec::new();
        // By their paths: of folders that wait there may be as many as entries, and none of them holds a descriptor.
        let mut levels = vec![(joined(&names(path)?), 1)];
        while let Some((at, level)) = levels.pop() {
            let folder = match self.folder(&names(&at)?) {
                Ok(folder) => folder,
                // Removed meanwhile.
                Err(Errno::NOENT | Errno::NOTDIR) if level > 1 => continue,
                Err(error) => return Err(error.into()),
            };
            for child in Dir::read_from(&folder)? {
                let child = child?;
                let Ok(name) = child.file_name().to_str() else { continue };
                if matches!(name, "." | "..") {
                    continue;
                }
                if found.len() >= MAX_ENTRIES {
                    return Err(io::Error::new(
                        io::ErrorKind::InvalidInput,
                        format!("more than {MAX_ENTRIES} entries"),
                    ));
                }
                let path = format!("{}/{name}", at.trim_end_matches('/'));
                // It may have been removed meanwhile.
                let Ok(entry) = entry(folder.as_fd(), name, &path) else { continue };
                if entry.r#type == EntryType::Directory && level < depth {
                    levels.push((path, level + 1));
                }
                found.push(entry);
            }
        }
        found.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(found)
    }

    /// Makes a folder; with `parents` those above it too, and then one that is there is no error.
    pub(crate) fn make_folder(&self, path: &str, parents: bool, attributes: Attributes) -> io::Result<Entry> {
        let names = names(path)?;
        let (name, above) = names.split_last().ok_or(Errno::EXIST)?;
        let parent = if parents { self.make_folders(above)? } else { self.folder(above)? };
        match rustix::fs::mkdirat(&parent, *name, Mode::from_raw_mode(0o755)) {
            Err(Errno::EXIST) if parents => {}
            other => other?,
        }
        set(open_folder(parent.as_fd(), name)?.as_fd(), attributes)?;
        entry(parent.as_fd(), name, &joined(&names))
    }

    /// Opens a file to be read, and says how long it is.
    pub(crate) fn read(&self, path: &str) -> io::Result<(std::fs::File, u64)> {
        let names = names(path)?;
        // Not blocking, for pipes; they are refused below.
        let file: std::fs::File = self.resolve(&names, OFlags::RDONLY | OFlags::NONBLOCK)?.into();
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("'{path}' is not a file")));
        }
        Ok((file, metadata.len()))
    }

    /// Begins to write a file.
    pub(crate) fn write(&self, path: &str, parents: bool) -> io::Result<NewFile> {
        let names = names(path)?;
        let (name, above) = names.split_last().ok_or(Errno::ISDIR)?;
        let parent = if parents { self.make_folders(above)? } else { self.folder(above)? };
        if rustix::fs::statat(&parent, *name, AtFlags::SYMLINK_NOFOLLOW)
            .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Directory)
        {
            return Err(Errno::ISDIR.into());
        }
        let temporary = format!(".{}.part", ids::random_name()?);
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&parent, temporary.as_str(), flags, Mode::from_raw_mode(0o644))?;
        Ok(NewFile { file: file.into(), parent, temporary, name: (*name).to_owned(), kept: false })
    }

    /// Changes owner, group and mode.
    pub(crate) fn update(&self, path: &str, attributes: Attributes) -> io::Result<Entry> {
        let names = names(path)?;
        let target = self.resolve(&names, OFlags::RDONLY | OFlags::NONBLOCK)?;
        set(target.as_fd(), attributes)?;
        self.stat(path)
    }

    /// Removes a file, or a folder with all below it.
    pub(crate) fn remove(&self, path: &str) -> io::Result<()> {
        let names = names(path)?;
        let (name, above) =
            names.split_last().ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "the volume itself stays"))?;
        let parent = self.folder(above)?;
        match rustix::fs::unlinkat(&parent, *name, AtFlags::empty()) {
            Err(Errno::ISDIR | Errno::PERM) => {
                // The folder that was opened, wherever it is by now; what is in it is not followed.
                let parent = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&parent));
                remove_tree(&Path::new(&parent).join(OsStr::from_bytes(name.as_bytes())))
            }
            other => Ok(other?),
        }
    }

    fn root(&self) -> Result<OwnedFd, Errno> {
        rustix::fs::openat(CWD, &self.0, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
    }

    fn folder(&self, names: &[&str]) -> Result<OwnedFd, Errno> {
        self.resolve(names, OFlags::RDONLY | OFlags::DIRECTORY)
    }

    fn resolve(&self, names: &[&str], flags: OFlags) -> Result<OwnedFd, Errno> {
        let root = self.root()?;
        if names.is_empty() {
            return Ok(root);
        }
        let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
        rustix::fs::openat2(&root, names.join("/"), flags | OFlags::CLOEXEC, Mode::empty(), resolve)
    }

    fn make_folders(&self, names: &[&str]) -> Result<OwnedFd, Errno> {
        for length in 1..=names.len() {
            let (name, above) = names.get(..length).and_then(<[_]>::split_last).ok_or(Errno::INVAL)?;
            match rustix::fs::mkdirat(self.folder(above)?, *name, Mode::from_raw_mode(0o755)) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(error) => return Err(error),
            }
        }
        self.folder(names)
    }
}

impl NewFile {
    /// Puts the file where it belongs, in place of what is there.
    pub(crate) fn keep(mut self, path: &str, attributes: Attributes) -> io::Result<Entry> {
        set(self.file.as_fd(), attributes)?;
        rustix::fs::renameat(&self.parent, self.temporary.as_str(), &self.parent, self.name.as_str())?;
        self.kept = true;
        entry(self.parent.as_fd(), &self.name, &joined(&names(path)?))
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if !self.kept {
            // Nobody was promised it.
            let _ = rustix::fs::unlinkat(&self.parent, self.temporary.as_str(), AtFlags::empty());
        }
    }
}

/// The names in a path; the volume is its root, and its `..` leads nowhere else.
fn names(path: &str) -> io::Result<Vec<&str>> {
    if path.contains('\0') {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "a path contains a NUL byte"));
    }
    let mut names = Vec::new();
    for name in path.split('/') {
        match name {
            "" | "." => {}
            ".." => {
                names.pop();
            }
            name => names.push(name),
        }
    }
    if names.len() > MAX_NAMES {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("a path has more than {MAX_NAMES} names")));
    }
    Ok(names)
}

fn joined(names: &[&str]) -> String {
    format!("/{}", names.join("/"))
}

fn open_folder(parent: impl AsFd, name: &str) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(parent, name, flags, Mode::empty())
}

fn set(target: impl AsFd, attributes: Attributes) -> io::Result<()> {
    let target = target.as_fd();
    if let Some(mode) = attributes.mode {
        rustix::fs::fchmod(target, Mode::from_raw_mode(mode & 0o777))?;
    }
    if attributes.uid.is_some() || attributes.gid.is_some() {
        let (uid, gid) = owner(target);
        let owner = format!("{}:{}", attributes.uid.unwrap_or(uid), attributes.gid.unwrap_or(gid));
        match rustix::fs::fsetxattr(target, OWNER, owner.as_bytes(), XattrFlags::empty()) {
            // A file system that keeps no such notes.
            Ok(()) | Err(Errno::OPNOTSUPP) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// What was said about owner and group; user 0, whom everything belongs to, where nothing was.
fn owner(target: impl AsFd) -> (u32, u32) {
    let mut buffer = [0_u8; 32];
    let noted = rustix::fs::fgetxattr(target, OWNER, &mut buffer[..]).ok();
    let noted = noted.and_then(|length| std::str::from_utf8(buffer.get(..length)?).ok());
    noted
        .and_then(|noted| noted.split_once(':'))
        .and_then(|(uid, gid)| Some((uid.parse().ok()?, gid.parse().ok()?)))
        .unwrap_or((0, 0))
}

fn entry(parent: impl AsFd, name: &str, path: &str) -> io::Result<Entry> {
    let parent = parent.as_fd();
    let at = if name == "/" { "." } else { name };
    let stat = rustix::fs::statat(parent, at, AtFlags::SYMLINK_NOFOLLOW)?;
    let kind = FileType::from_raw_mode(stat.st_mode);
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let (uid, gid) = match kind {
        FileType::RegularFile | FileType::Directory => {
            rustix::fs::openat(parent, at, flags, Mode::empty()).map_or((0, 0), owner)
        }
        _ => (0, 0),
    };
    let target = (kind == FileType::Symlink).then(|| rustix::fs::readlinkat(parent, at, Vec::new())).transpose()?;
    let time = |seconds: i64, nanoseconds: u64| {
        Timestamp::new(seconds, i32::try_from(nanoseconds).unwrap_or(0)).unwrap_or(Timestamp::UNIX_EPOCH)
    };
    Ok(Entry {
        name: name.to_owned(),
        r#type: match kind {
            FileType::RegularFile => EntryType::File,
            FileType::Directory => EntryType::Directory,
            FileType::Symlink => EntryType::Symlink,
            _ => EntryType::Unknown,
        },
        path: path.to_owned(),
        size: stat.st_size,
        mode: stat.st_mode & 0o7777,
        uid,
        gid,
        atime: time(stat.st_atime, stat.st_atime_nsec),
        mtime: time(stat.st_mtime, stat.st_mtime_nsec),
        ctime: time(stat.st_ctime, stat.st_ctime_nsec),
        target: target.map(|target| target.to_string_lossy().into_owned()),
    })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn files_are_made_told_of_changed_and_removed() {
        let folder = tempfile::tempdir().unwrap();
        let tree = Tree::new(folder.path().to_owned());
        assert!(tree.write("a/b/file", false).is_err(), "the folder is missing");
        let mut new = tree.write("a/b/file", true).unwrap();
        new.file.write_all(b"hello").unwrap();
        assert!(tree.stat("/a/b/file").is_err(), "not all of it is there");
        let entry = new.keep("a/b/file", Attributes { mode: Some(0o600), uid: Some(1000), gid: None }).unwrap();
        assert_eq!((entry.path.as_str(), entry.size, entry.mode, entry.uid), ("/a/b/file", 5, 0o600, 1000));
        assert_eq!(tree.read("a/b/file").unwrap().1, 5);
        assert_eq!(
            tree.list("/", 3).unwrap().iter().map(|entry| &*entry.path).collect::<Vec<_>>(),
            ["/a", "/a/b", "/a/b/file"]
        );
        assert_eq!(tree.list("/", 1).unwrap().len(), 1);
        assert!(tree.make_folder("a", false, Attributes::default()).is_err());
        assert!(tree.make_folder("a", true, Attributes::default()).is_ok());
        tree.remove("a").unwrap();
        assert!(tree.stat("a").is_err() && tree.remove("/").is_err() && tree.remove("a").is_err());
    }

    /// Set for the process that has few descriptors, which is this very test.
    const WITH_FEW: &str = "ONCEBOX_TEST_WITH_FEW_DESCRIPTORS";

    #[test]
    fn a_list_of_many_folders_needs_few_descriptors() {
        if std::env::var_os(WITH_FEW).is_none() {
            let this = "volumes::tree::tests::a_list_of_many_folders_needs_few_descriptors";
            let status = std::process::Command::new("sh")
                .args(["-c", "ulimit -n 64 && exec \"$0\" \"$@\""])
                .arg(std::env::current_exe().unwrap())
                .args([this, "--exact", "--test-threads=1"])
                .env(WITH_FEW, "1")
                .status();
            assert!(status.unwrap().success());
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        for number in 0..200 {
            fs::create_dir_all(folder.path().join(format!("{number}/in"))).unwrap();
        }
        let listed = Tree::new(folder.path().to_owned()).list("/", 3).unwrap();
        assert_eq!(listed.len(), 400);
    }

    #[test]
    fn links_and_dots_lead_nowhere_outside() {
        let folder = tempfile::tempdir().unwrap();
        let (volume, outside) = (folder.path().join("volume"), folder.path().join("outside"));
        fs::create_dir(&volume).unwrap();
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("secret"), "x").unwrap();
        symlink(&outside, volume.join("out")).unwrap();
        symlink("../outside", volume.join("up")).unwrap();
        symlink(outside.join("secret"), volume.join("file")).unwrap();
        let tree = Tree::new(volume.clone());
        for path in [
            "out/secret",
            "up/secret",
            "../outside/secret",
            "file",
            "/../../outside/secret",
            "out/../../outside/secret",
        ] {
            assert!(tree.read(path).is_err(), "{path}");
        }
        for path in ["out/new", "up/new", "../outside/new"] {
            // What is made, if anything, is made inside.
            let _ = tree.write(path, true).and_then(|new| new.keep(path, Attributes::default()));
            let _ = tree.make_folder(path, true, Attributes::default());
            let _ = tree.remove(path);
        }
        let _ = tree.update("file", Attributes { mode: Some(0o777), ..Attributes::default() });
        tree.remove("out").unwrap();
        assert_eq!(fs::read_dir(&outside).unwrap().count(), 1);
        assert_eq!(fs::read(outside.join("secret")).unwrap(), b"x");
    }
}
