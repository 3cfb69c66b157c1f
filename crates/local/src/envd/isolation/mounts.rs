//! Mounts as this process sees them, and the two operations the sandbox's root is built from.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use rustix::mount::MountFlags;

use super::{IsolationError, Step};

/// Shows `source` at `target`, with everything mounted below it, read-only.
pub(super) fn show_read_only(source: &Path, target: &Path) -> Result<(), IsolationError> {
    // Recursive, because the kernel refuses to bind a part of a locked tree: it would reveal what mounts cover.
    rustix::mount::mount_bind_recursive(source, target)
        .step(|| format!("binding {} to {}", source.display(), target.display()))?;
    make_read_only(target, MountFlags::empty())
}

/// Makes every mount at or below `target` read-only and deaf to set-user-id bits, and adds `more` to its flags.
pub(super) fn make_read_only(target: &Path, more: MountFlags) -> Result<(), IsolationError> {
    restrict(target, MountFlags::RDONLY | MountFlags::NOSUID | more)
}

/// Adds `flags` to every mount at or below `target`.
pub(super) fn restrict(target: &Path, flags: MountFlags) -> Result<(), IsolationError> {
    for (point, has) in list().step(|| "reading /proc/self/mountinfo".to_owned())? {
        if point.starts_with(target) {
            // Flags inherited from a more privileged namespace are locked: leaving one out is refused.
            rustix::mount::mount_remount(&point, MountFlags::BIND | has | flags, c"")
                .step(|| format!("remounting {} with {flags:?}", point.display()))?;
        }
    }
    Ok(())
}

/// Mount points with their flags.
fn list() -> io::Result<Vec<(PathBuf, MountFlags)>> {
    let table = fs::read("/proc/self/mountinfo")?;
    Ok(table.split(|byte| *byte == b'\n').filter_map(parse).collect())
}

/// One line of mountinfo: `id parent major:minor root POINT OPTIONS …`.
fn parse(line: &[u8]) -> Option<(PathBuf, MountFlags)> {
    let mut fields = line.split(|byte| *byte == b' ').skip(4);
    let point = PathBuf::from(OsString::from_vec(unescape(fields.next()?)));
    let options = std::str::from_utf8(fields.next()?).ok()?;
    let flags = options.split(',').map(|option| match option {
        "ro" => MountFlags::RDONLY,
        "nosuid" => MountFlags::NOSUID,
        "nodev" => MountFlags::NODEV,
        "noexec" => MountFlags::NOEXEC,
        "noatime" => MountFlags::NOATIME,
        "nodiratime" => MountFlags::NODIRATIME,
        "relatime" => MountFlags::RELATIME,
        _ => MountFlags::empty(),
    });
    Some((point, flags.fold(MountFlags::empty(), |all, flag| all | flag)))
}

/// Spaces, tabs, newlines and backslashes are written as `\` and three octal digits.
fn unescape(field: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((first, tail)) = rest.split_first() {
        let octal = tail.get(..3).filter(|_| *first == b'\\').and_then(|digits| {
            digits.iter().try_fold(0_u32, |value, digit| Some(value * 8 + char::from(*digit).to_digit(8)?))
        });
        match octal.and_then(|value| u8::try_from(value).ok()) {
            Some(byte) => {
                out.push(byte);
                rest = &tail[3..];
            }
            None => {
                out.push(*first);
                rest = tail;
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_mountinfo_gives_point_and_flags() {
        let line =
            b"36 35 98:0 /mnt1 /mnt/with\\040space rw,nosuid,noatime master:1 - ext3 /dev/root rw,errors=continue";
        let (point, flags) = parse(line).unwrap();
        assert_eq!(point, Path::new("/mnt/with space"));
        assert_eq!(flags, MountFlags::NOSUID | MountFlags::NOATIME);
    }

    #[test]
    fn a_backslash_without_digits_stays() {
        assert_eq!(unescape(b"a\\zb\\1"), b"a\\zb\\1");
        assert_eq!(unescape(b"\\134\\011"), b"\\\t");
    }
}
