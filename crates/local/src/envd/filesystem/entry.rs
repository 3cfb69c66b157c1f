//! A directory entry in the protocol's words.

use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;
use std::time::UNIX_EPOCH;

use buffa::{EnumValue, MessageField};
use buffa_types::google::protobuf::Timestamp;
use oncebox_protocol::envd::filesystem::{EntryInfo, FileType};

use crate::envd::files::kept_with;
use crate::envd::paths::Paths;

/// Describes the entry at `path`: itself, not what a link leads to. Of a link's target it tells the type, the mode and
/// the path.
pub(super) fn describe(path: &Path, paths: &Paths) -> io::Result<EntryInfo> {
    let metadata = fs::symlink_metadata(path)?;
    let is_symlink = metadata.is_symlink();
    // A link that leads nowhere has no target to tell of, and names itself as its target.
    let target = is_symlink.then(|| fs::canonicalize(path).ok());
    let target_metadata = match &target {
        None => Some(metadata.clone()),
        Some(target) => target.as_ref().and_then(|target| fs::metadata(target).ok()),
    };
    let (kind, mode) = match &target_metadata {
        Some(metadata) => (kind_of(metadata), metadata.mode() & 0o777),
        None => (FileType::FILE_TYPE_UNSPECIFIED, 0),
    };
    Ok(EntryInfo {
        name: path.file_name().map_or_else(|| "/".to_owned(), |name| name.to_string_lossy().into_owned()),
        r#type: EnumValue::Known(kind),
        path: paths.display(path),
        size: i64::try_from(metadata.len()).unwrap_or(i64::MAX),
        mode,
        permissions: permissions(&metadata),
        owner: owner(metadata.uid(), rustix::process::getuid().as_raw()),
        group: owner(metadata.gid(), rustix::process::getgid().as_raw()),
        modified_time: modified(&metadata).map_or_else(MessageField::none, MessageField::some),
        symlink_target: target.map(|target| paths.display(target.as_deref().unwrap_or(path))),
        metadata: if metadata.is_file() { kept_with(path).into_iter().collect() } else { Default::default() },
        is_symlink,
        ..EntryInfo::default()
    })
}

fn kind_of(metadata: &Metadata) -> FileType {
    if metadata.is_file() {
        FileType::FILE_TYPE_FILE
    } else if metadata.is_dir() {
        FileType::FILE_TYPE_DIRECTORY
    } else {
        FileType::FILE_TYPE_UNSPECIFIED
    }
}

/// The letters envd prints: those of `ls`, but for `L` (link), `S` (socket), `D` (device), `Dc` (character device), and
/// set-id and sticky bits as letters in front.
fn permissions(metadata: &Metadata) -> String {
    let (kind, mode) = (metadata.file_type(), metadata.mode());
    let letters = [
        (kind.is_dir(), "d"),
        (kind.is_symlink(), "L"),
        (kind.is_block_device() || kind.is_char_device(), "D"),
        (kind.is_fifo(), "p"),
        (kind.is_socket(), "S"),
        (mode & 0o4000 != 0, "u"),
        (mode & 0o2000 != 0, "g"),
        (kind.is_char_device(), "c"),
        (mode & 0o1000 != 0, "t"),
    ];
    let mut text: String = letters.iter().filter(|(is, _)| *is).map(|(_, letter)| *letter).collect();
    if text.is_empty() {
        text.push('-');
    }
    for (bit, letter) in (0..9).rev().zip("rwxrwxrwx".chars()) {
        text.push(if mode & (1 << bit) != 0 { letter } else { '-' });
    }
    text
}

/// The one user is called `user`; files of anybody else have a number.
fn owner(id: u32, own: u32) -> String {
    if id == own { "user".to_owned() } else { id.to_string() }
}

fn modified(metadata: &Metadata) -> Option<Timestamp> {
    let time = metadata.modified().ok()?;
    let since = time.duration_since(UNIX_EPOCH).ok()?;
    Some(Timestamp {
        seconds: i64::try_from(since.as_secs()).ok()?,
        nanos: i32::try_from(since.subsec_nanos()).ok()?,
        ..Timestamp::default()
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn a_link_tells_of_its_target() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let (file, link, broken) = (root.join("file"), root.join("link"), root.join("broken"));
        fs::write(&file, b"12345").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
        symlink("file", &link).unwrap();
        symlink("nowhere", &broken).unwrap();
        let paths = Paths::of_sandbox();

        let entry = describe(&file, &paths).unwrap();
        assert_eq!((entry.name.as_str(), entry.size, entry.mode), ("file", 5, 0o640));
        assert_eq!(entry.permissions, "-rw-r-----");
        assert_eq!((entry.owner.as_str(), entry.group.as_str()), ("user", "user"));
        assert!(!entry.is_symlink && entry.symlink_target.is_none() && entry.modified_time.is_set());

        let entry = describe(&link, &paths).unwrap();
        assert_eq!(entry.r#type, EnumValue::Known(FileType::FILE_TYPE_FILE));
        assert_eq!((entry.mode, entry.permissions.as_str()), (0o640, "Lrwxrwxrwx"));
        assert_eq!(entry.symlink_target.as_deref(), file.to_str());
        assert!(entry.is_symlink);

        let entry = describe(&broken, &paths).unwrap();
        assert_eq!(entry.r#type, EnumValue::Known(FileType::FILE_TYPE_UNSPECIFIED));
        assert_eq!(entry.symlink_target.as_deref(), broken.to_str());

        assert_eq!(permissions(&fs::metadata("/dev/null").unwrap()), "Dcrw-rw-rw-");
        assert!(permissions(&fs::metadata("/tmp").unwrap()).starts_with("dtrwx"));
    }
}
