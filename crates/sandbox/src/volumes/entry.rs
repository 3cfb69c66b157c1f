//! What a volume's content is described by.

use jiff::Timestamp;
use oncebox_protocol::volume;

pub use oncebox_protocol::volume::EntryType as VolumeEntryKind;

/// A file, directory or symbolic link of a volume.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct VolumeEntry {
    /// The last component of its path.
    pub name: String,
    /// Its path inside the volume.
    pub path: String,
    /// What it is.
    pub kind: VolumeEntryKind,
    /// Size in bytes.
    pub size: u64,
    /// Permission bits.
    pub mode: u32,
    /// Owner, by number.
    pub uid: u32,
    /// Group, by number.
    pub gid: u32,
    /// Last access.
    pub accessed_at: Timestamp,
    /// Last change of content.
    pub modified_at: Timestamp,
    /// Last change of the entry.
    pub changed_at: Timestamp,
    /// Where a symbolic link leads.
    pub target: Option<String>,
}

impl From<volume::Entry> for VolumeEntry {
    fn from(entry: volume::Entry) -> Self {
        Self {
            name: entry.name,
            path: entry.path,
            kind: entry.r#type,
            size: u64::try_from(entry.size).unwrap_or_default(),
            mode: entry.mode,
            uid: entry.uid,
            gid: entry.gid,
            accessed_at: entry.atime,
            modified_at: entry.mtime,
            changed_at: entry.ctime,
            target: entry.target,
        }
    }
}
