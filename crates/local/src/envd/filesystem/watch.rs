//! Watching directories, by inotify.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use buffa::{EnumValue, MessageField};
use oncebox_protocol::envd::filesystem::{EventType, FilesystemEvent};
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::entry::describe;
use crate::envd::files::{UploadKind, upload_kind};
use crate::envd::paths::Paths;

/// Most directories that one watch may reach: each costs memory of the kernel's.
const MAX_DIRECTORIES: usize = 10_000;

/// What is asked of the kernel for each directory.
const ASKED: WatchFlags = WatchFlags::CREATE
    .union(WatchFlags::DELETE)
    .union(WatchFlags::DELETE_SELF)
    .union(WatchFlags::MODIFY)
    .union(WatchFlags::ATTRIB)
    .union(WatchFlags::MOVED_FROM)
    .union(WatchFlags::MOVED_TO)
    .union(WatchFlags::MOVE_SELF)
    .union(WatchFlags::ONLYDIR);

/// A watched directory: a stream of what changes in it, for one reader.
#[derive(Debug)]
pub(super) struct Watch {
    inotify: AsyncFd<OwnedFd>,
    root: PathBuf,
    recursive: bool,
    include_entry: bool,
    paths: Arc<Paths>,
    /// The directories by the kernel's number, relative to the root.
    directories: HashMap<i32, PathBuf>,
    /// Entries of new directories that were told of when the directory was read, and may be told of by the kernel again:
    /// while this round of events is taken, and in the one before.
    told: [HashSet<PathBuf>; 2],
    /// The upload that is about to get its name. The kernel tells of both sides of a move one after the other.
    upload: Option<(u32, UploadKind)>,
}

impl Watch {
    /// Starts watching `root`, a directory, and, if `recursive`, all below it.
    #[allow(deprecated, reason = "its fault needs a type whose descriptor can change; an owned descriptor's cannot")]
    pub(super) fn new(root: PathBuf, recursive: bool, include_entry: bool, paths: Arc<Paths>) -> io::Result<Self> {
        let inotify = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?;
        let mut watch = Self {
            inotify: AsyncFd::new(inotify)?,
            root,
            recursive,
            include_entry,
            paths,
            directories: HashMap::new(),
            told: Default::default(),
            upload: None,
        };
        watch.add(Path::new(""), &mut None)?;
        Ok(watch)
    }

    /// What changed since the last call, in order; waits until something has. An error ends the watch.
    pub(super) async fn next(&mut self) -> io::Result<Vec<FilesystemEvent>> {
        loop {
            let (raw, all) = self.inotify.async_io(Interest::READABLE, read).await?;
            let mut changes = Vec::new();
            for event in raw {
                self.take(event, &mut changes)?;
            }
            if all {
                // What the round before told of was in the kernel's queue by now.
                self.told.swap(0, 1);
                self.told[0].clear();
            }
            if !changes.is_empty() {
                return Ok(changes.into_iter().map(|(path, kind)| self.event(&path, kind)).collect());
            }
        }
    }

    fn take(&mut self, event: Raw, changes: &mut Vec<(PathBuf, EventType)>) -> io::Result<()> {
        let flags = event.flags;
        if flags.contains(ReadFlags::QUEUE_OVERFLOW) {
            return Err(io::Error::other("more changed at once than the kernel keeps: events were lost"));
        }
        if flags.contains(ReadFlags::IGNORED) {
            self.directories.remove(&event.directory);
            return Ok(());
        }
        let Some(directory) = self.directories.get(&event.directory).cloned() else { return Ok(()) };
        if flags.intersects(ReadFlags::DELETE_SELF | ReadFlags::MOVE_SELF) {
            // Of others, the directory they are in tells.
            if directory.as_os_str().is_empty() {
                let gone = flags.contains(ReadFlags::DELETE_SELF);
                changes
                    .push((directory, if gone { EventType::EVENT_TYPE_REMOVE } else { EventType::EVENT_TYPE_RENAME }));
            }
            return Ok(());
        }
        let Some(name) = event.name else { return Ok(()) };
        let path = directory.join(&name);
        if let Some(kind) = upload_kind(&name) {
            // Uploads are written under another name first. Whoever watches sees what they asked for.
            if flags.contains(ReadFlags::MOVED_FROM) {
                self.upload = Some((event.cookie, kind));
            }
            return Ok(());
        }
        if flags.intersects(ReadFlags::CREATE | ReadFlags::MOVED_TO) {
            let upload = self.upload.take().filter(|(cookie, _)| *cookie == event.cookie).map(|(_, kind)| kind);
            let told = self.told.iter_mut().any(|told| told.remove(&path));
            if upload != Some(UploadKind::Replaces) && !told {
                changes.push((path.clone(), EventType::EVENT_TYPE_CREATE));
            }
            if upload.is_some() {
                changes.push((path.clone(), EventType::EVENT_TYPE_WRITE));
            }
            if self.recursive && flags.contains(ReadFlags::ISDIR) {
                self.add(&path, &mut Some(changes))?;
            }
        } else if flags.contains(ReadFlags::DELETE) {
            for told in &mut self.told {
                told.remove(&path);
            }
            changes.push((path, EventType::EVENT_TYPE_REMOVE));
        } else if flags.contains(ReadFlags::MOVED_FROM) {
            if flags.contains(ReadFlags::ISDIR) {
                self.forget(&path);
            }
            changes.push((path, EventType::EVENT_TYPE_RENAME));
        } else if flags.contains(ReadFlags::MODIFY) {
            changes.push((path, EventType::EVENT_TYPE_WRITE));
        } else if flags.contains(ReadFlags::ATTRIB) {
            changes.push((path, EventType::EVENT_TYPE_CHMOD));
        }
        Ok(())
    }

    /// Watches a directory and, if asked for, those below it. Of a directory that is new while the watch goes on, its
    /// entries are changes: they came before the kernel was asked to tell of them.
    fn add(&mut self, relative: &Path, changes: &mut Option<&mut Vec<(PathBuf, EventType)>>) -> io::Result<()> {
        let mut walk = vec![relative.to_owned()];
        while let Some(directory) = walk.pop() {
            if self.directories.len() >= MAX_DIRECTORIES {
                return Err(io::Error::other(format!("more than {MAX_DIRECTORIES} directories to watch")));
            }
            let full = self.root.join(&directory);
            // The root may be a link, and nothing below it.
            let flags = if directory.as_os_str().is_empty() { ASKED } else { ASKED | WatchFlags::DONT_FOLLOW };
            match inotify::add_watch(&self.inotify, &full, flags) {
                Ok(number) => self.directories.insert(number, directory.clone()),
                Err(error) if directory.as_os_str().is_empty() => return Err(error.into()),
                Err(error @ (rustix::io::Errno::NOSPC | rustix::io::Errno::NOMEM)) => return Err(error.into()),
                // Gone meanwhile, or not to be read.
                Err(_) => continue,
            };
            if !self.recursive {
                return Ok(());
            }
            let Ok(entries) = fs::read_dir(&full) else { continue };
            for entry in entries.flatten() {
                let path = directory.join(entry.file_name());
                if let Some(changes) = changes
                    && upload_kind(&entry.file_name()).is_none()
                    && self.told[0].insert(path.clone())
                {
                    changes.push((path.clone(), EventType::EVENT_TYPE_CREATE));
                }
                if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                    walk.push(path);
                }
            }
        }
        Ok(())
    }

    /// A directory was moved away: what happens there is no change here.
    fn forget(&mut self, moved: &Path) {
        let inotify = &self.inotify;
        self.directories.retain(|number, directory| {
            let inside = directory.starts_with(moved);
            if inside {
                let _ = inotify::remove_watch(inotify, *number);
            }
            !inside
        });
    }

    fn event(&self, path: &Path, kind: EventType) -> FilesystemEvent {
        let name = if path.as_os_str().is_empty() { ".".into() } else { path.to_string_lossy() };
        let entry = if self.include_entry { describe(&self.root.join(path), &self.paths).ok() } else { None };
        FilesystemEvent {
            name: name.into_owned(),
            r#type: EnumValue::Known(kind),
            entry: entry.map_or_else(MessageField::none, MessageField::some),
            ..FilesystemEvent::default()
        }
    }
}

/// An event as the kernel tells it.
struct Raw {
    directory: i32,
    flags: ReadFlags,
    cookie: u32,
    name: Option<std::ffi::OsString>,
}

/// What there is to read, and whether that is all.
fn read(descriptor: &OwnedFd) -> io::Result<(Vec<Raw>, bool)> {
    let mut buffer = [MaybeUninit::uninit(); 16 << 10];
    let mut reader = inotify::Reader::new(descriptor, &mut buffer);
    let mut events = Vec::new();
    loop {
        match reader.next() {
            Ok(event) => events.push(Raw {
                directory: event.wd(),
                flags: event.events(),
                cookie: event.cookie(),
                name: event.file_name().map(|name| OsStr::from_bytes(name.to_bytes()).to_owned()),
            }),
            Err(rustix::io::Errno::AGAIN) if !events.is_empty() => return Ok((events, true)),
            Err(error) => return Err(error.into()),
        }
        if events.len() >= 4096 && reader.is_buffer_empty() {
            return Ok((events, false));
        }
    }
}
