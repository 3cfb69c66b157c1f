//! Copies of a sandbox's files.
//!
//! `cp` of the machine does it: it keeps modes, times, links and extended attributes, follows no link, shares blocks where
//! the file system can, and works through trees of any depth.

use std::io;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;

/// Longest time that a copy may take.
const COPY_LIMIT: Duration = Duration::from_secs(600);

/// Copies a folder with all that is in it to a place where nothing is. Nobody may change it meanwhile.
pub(crate) async fn copy_tree(from: &Path, to: &Path) -> io::Result<()> {
    let copying = Command::new("cp")
        .args(["-a", "--reflink=auto", "--"])
        .args([from, to])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .env("LC_ALL", "C")
        .kill_on_drop(true)
        .output();
    let output = tokio::time::timeout(COPY_LIMIT, copying)
        .await
        .map_err(|_| io::Error::new(io::ErrorKind::TimedOut, format!("files were not copied within {COPY_LIMIT:?}")))?
        .map_err(|error| io::Error::new(error.kind(), format!("copying files needs `cp` of this machine: {error}")))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let first = said.lines().next().unwrap_or("it said nothing").to_owned();
    Err(io::Error::other(format!("copying files: {first}")))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[tokio::test]
    async fn a_copy_has_modes_and_links_and_a_failure_its_reason() {
        let folder = tempfile::tempdir().unwrap();
        let (from, to) = (folder.path().join("from"), folder.path().join("to"));
        fs::create_dir_all(from.join("sub")).unwrap();
        fs::write(from.join("sub/file"), "x").unwrap();
        fs::set_permissions(from.join("sub/file"), fs::Permissions::from_mode(0o751)).unwrap();
        symlink("/etc/passwd", from.join("link")).unwrap();
        copy_tree(&from, &to).await.unwrap();
        assert_eq!(fs::read(to.join("sub/file")).unwrap(), b"x");
        assert_eq!(fs::metadata(to.join("sub/file")).unwrap().permissions().mode() & 0o777, 0o751);
        assert_eq!(fs::read_link(to.join("link")).unwrap(), Path::new("/etc/passwd"));
        let error = copy_tree(&folder.path().join("missing"), &folder.path().join("x")).await.unwrap_err();
        assert!(error.to_string().contains("No such file"), "{error}");
    }
}
