//! Directories, up and down.

mod down;
mod up;

pub use down::DownloadDir;
pub use up::UploadDir;

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};

use crate::error::Error;

/// How far the transfer of a directory is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TransferProgress {
    /// Files that are there.
    pub files: u64,
    /// Bytes that are there, those of files under way included.
    pub bytes: u64,
    /// Files in all; `None` as long as they are still being found.
    pub total_files: Option<u64>,
    /// Bytes in all; `None` as long as files are still being found.
    pub total_bytes: Option<u64>,
}

/// What came of the transfer of a directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Transferred {
    /// Files that were carried over.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// What was left out because it is neither file nor directory: symbolic links, devices, pipes. Relative paths.
    pub skipped: Vec<PathBuf>,
}

/// Told how far a transfer is.
type Listener = Box<dyn FnMut(&TransferProgress) + Send>;

/// What is carried over, and who is told of it.
#[derive(Default)]
struct Options {
    include: Vec<String>,
    exclude: Vec<String>,
    listener: Option<Listener>,
}

impl Options {
    fn selection(&self) -> Result<Selection, Error> {
        let include = (!self.include.is_empty()).then(|| globs("include", &self.include)).transpose()?;
        Ok(Selection { include, exclude: globs("exclude", &self.exclude)? })
    }
}

/// Which paths are carried over, relative to the directory.
struct Selection {
    include: Option<GlobSet>,
    exclude: GlobSet,
}

impl Selection {
    fn takes_file(&self, path: &str) -> bool {
        self.include.as_ref().is_none_or(|include| include.is_match(path)) && !self.leaves_out(path)
    }

    /// Whether a path, and with it all that is below, is left out.
    fn leaves_out(&self, path: &str) -> bool {
        self.exclude.is_match(path)
    }

    /// Whether directories without files are carried over.
    fn takes_empty(&self) -> bool {
        self.include.is_none()
    }
}

fn globs(option: &str, patterns: &[String]) -> Result<GlobSet, Error> {
    let wrong = |error: globset::Error| Error::invalid(format!("{option}: {error}"));
    let mut set = GlobSetBuilder::new();
    for pattern in patterns {
        set.add(GlobBuilder::new(pattern).literal_separator(true).build().map_err(wrong)?);
    }
    set.build().map_err(wrong)
}

/// The count, and who is told of it.
struct Counter {
    inner: Mutex<(TransferProgress, Option<Listener>)>,
}

impl Counter {
    fn new(listener: Option<Listener>) -> Self {
        Self { inner: Mutex::new((TransferProgress::default(), listener)) }
    }

    fn tell(&self, change: impl FnOnce(&mut TransferProgress)) {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let (progress, listener) = &mut *inner;
        change(progress);
        if let Some(listener) = listener {
            listener(progress);
        }
    }

    fn progress(&self) -> TransferProgress {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner).0
    }
}

/// A path of the sandbox below another.
fn below(folder: &str, relative: &str) -> String {
    match (folder, relative) {
        (folder, "") => folder.to_owned(),
        (folder, relative) => format!("{}/{relative}", folder.trim_end_matches('/')),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs_choose_by_the_whole_path() {
        let options = Options { include: vec!["**/*.py".into()], exclude: vec!["target".into()], listener: None };
        let selection = options.selection().unwrap();
        assert!(selection.takes_file("a.py") && selection.takes_file("deep/er/a.py") && !selection.takes_file("a.rs"));
        assert!(selection.leaves_out("target") && !selection.leaves_out("src/target") && !selection.takes_empty());
        let wrong = Options { include: vec!["a[".into()], ..Options::default() };
        assert!(wrong.selection().err().unwrap().to_string().contains("include"));
        assert_eq!(below("/", "a"), "/a");
        assert_eq!((below("d/", "a/b"), below("d", "")), ("d/a/b".to_owned(), "d".to_owned()));
    }
}
