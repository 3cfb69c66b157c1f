//! What a path is.

use std::collections::BTreeMap;

use jiff::Timestamp;
use oncebox_protocol::envd::filesystem::{EntryInfo, FileType};

use crate::error::Error;

/// What an entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum EntryKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link whose target is neither, or is gone.
    Symlink,
    /// Something else.
    Other,
}

/// A file, directory or symbolic link.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Entry {
    /// The last component of its path.
    pub name: String,
    /// Absolute path.
    pub path: String,
    /// What it is; for a symbolic link, what its target is.
    pub kind: EntryKind,
    /// Whether the entry itself is a symbolic link.
    pub is_symlink: bool,
    /// Where a symbolic link leads.
    pub symlink_target: Option<String>,
    /// Size in bytes.
    pub size: u64,
    /// Permission bits.
    pub mode: u32,
    /// Owner's name.
    pub owner: String,
    /// Group's name.
    pub group: String,
    /// When its content last changed.
    pub modified: Option<Timestamp>,
    /// User metadata kept with it.
    pub metadata: BTreeMap<String, String>,
}

pub(super) fn entry(action: &str, entry: Option<EntryInfo>) -> Result<Entry, Error> {
    entry.map(Entry::from).ok_or_else(|| Error::malformed(action, "it describes no entry"))
}

impl From<EntryInfo> for Entry {
    fn from(info: EntryInfo) -> Self {
        let kind = match info.r#type.as_known() {
            Some(FileType::FILE_TYPE_FILE) => EntryKind::File,
            Some(FileType::FILE_TYPE_DIRECTORY) => EntryKind::Directory,
            Some(FileType::FILE_TYPE_SYMLINK) => EntryKind::Symlink,
            _ => EntryKind::Other,
        };
        let modified = info.modified_time.into_option();
        Self {
            name: info.name,
            path: info.path,
            kind,
            is_symlink: info.is_symlink || kind == EntryKind::Symlink,
            symlink_target: info.symlink_target,
            size: u64::try_from(info.size).unwrap_or_default(),
            mode: info.mode,
            owner: info.owner,
            group: info.group,
            modified: modified.and_then(|time| Timestamp::new(time.seconds, time.nanos).ok()),
            metadata: info.metadata.into_iter().collect(),
        }
    }
}
