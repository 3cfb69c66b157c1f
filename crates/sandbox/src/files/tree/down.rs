//! A directory of the sandbox, to this machine.

use std::future::{Future, IntoFuture};
use std::path::{Path, PathBuf};
use std::pin::Pin;

use futures_util::stream::{self, StreamExt, TryStreamExt};

use super::super::{EntryKind, Files, check_path};
use super::{Counter, Options, TransferProgress, Transferred};
use crate::error::{Error, ErrorKind};
use crate::sandbox::Sandbox;

/// Files at a time.
const AT_ONCE: usize = 8;

/// A directory about to be carried out of the sandbox: see [`Files::download_dir`]. Await it.
#[must_use = "nothing is carried over until it is awaited"]
pub struct DownloadDir {
    sandbox: Sandbox,
    user: Option<String>,
    from: String,
    to: PathBuf,
    options: Options,
}

impl Files<'_> {
    /// Carries a directory of the sandbox, with all that is below it, to this machine, where it takes the place of files of the
    /// same names and leaves others. Each file as by [`download`](Self::download), some at a time. Set options on what this
    /// returns, and await it.
    ///
    /// # Errors
    ///
    /// As [`download`](Self::download); some of the files may be there. [`Server`](ErrorKind::Server) when the sandbox names
    /// an entry that would lie outside the directory.
    pub fn download_dir(&self, from: impl Into<String>, to: impl Into<PathBuf>) -> DownloadDir {
        DownloadDir {
            sandbox: self.sandbox.clone(),
            user: self.user.map(str::to_owned),
            from: from.into(),
            to: to.into(),
            options: Options::default(),
        }
    }
}

impl DownloadDir {
    /// As [`UploadDir::include`](super::UploadDir::include).
    pub fn include(mut self, glob: impl Into<String>) -> Self {
        self.options.include.push(glob.into());
        self
    }

    /// As [`UploadDir::exclude`](super::UploadDir::exclude).
    pub fn exclude(mut self, glob: impl Into<String>) -> Self {
        self.options.exclude.push(glob.into());
        self
    }

    /// Is told how far it is.
    pub fn progress(mut self, listener: impl FnMut(&TransferProgress) + Send + 'static) -> Self {
        self.options.listener = Some(Box::new(listener));
        self
    }

    async fn fetch(self) -> Result<Transferred, Error> {
        check_path(&self.from)?;
        let selection = self.options.selection()?;
        let files = Files { sandbox: &self.sandbox, user: self.user.as_deref() };
        // Directories first: what is to be fetched is then known.
        let (mut found, mut skipped) = (Vec::new(), Vec::new());
        let mut folders = vec![(self.from.clone(), String::new())];
        while let Some((folder, relative)) = folders.pop() {
            make_dir(&self.to.join(&relative), relative.is_empty() || selection.takes_empty()).await?;
            for entry in files.list(&folder, 1).await? {
                let name = checked_name(&entry.name)?;
                let path = if relative.is_empty() { name.to_owned() } else { format!("{relative}/{name}") };
                if selection.leaves_out(&path) {
                    continue;
                }
                match entry.kind {
                    // A link may lead anywhere, also back here.
                    _ if entry.is_symlink => skipped.push(PathBuf::from(path)),
                    EntryKind::Directory => folders.push((entry.path, path)),
                    EntryKind::File if selection.takes_file(&path) => found.push((entry.path, path, entry.size)),
                    EntryKind::File => {}
                    _ => skipped.push(PathBuf::from(path)),
                }
            }
        }
        let counter = Counter::new(self.options.listener);
        counter.tell(|progress| {
            progress.total_files = Some(found.len() as u64);
            progress.total_bytes = Some(found.iter().map(|(.., size)| size).sum());
        });
        let fetches = found.into_iter().map(|(from, path, _)| fetch_one(&files, from, self.to.join(path), &counter));
        let fetched: Result<(), Error> = stream::iter(fetches).buffer_unordered(AT_ONCE).try_collect().await;
        fetched?;
        let TransferProgress { files, bytes, .. } = counter.progress();
        Ok(Transferred { files, bytes, skipped })
    }
}

impl IntoFuture for DownloadDir {
    type Output = Result<Transferred, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.fetch())
    }
}

impl std::fmt::Debug for DownloadDir {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DownloadDir").field("from", &self.from).field("to", &self.to).finish_non_exhaustive()
    }
}

async fn fetch_one(files: &Files<'_>, from: String, to: PathBuf, counter: &Counter) -> Result<(), Error> {
    if let Some(folder) = to.parent() {
        make_dir(folder, true).await?;
    }
    let mut seen = 0;
    files
        .download(&from, &to, |now, _| {
            counter.tell(|progress| progress.bytes = progress.bytes.saturating_sub(seen) + now);
            seen = now;
        })
        .await?;
    counter.tell(|progress| progress.files += 1);
    Ok(())
}

async fn make_dir(path: &Path, wanted: bool) -> Result<(), Error> {
    if !wanted {
        return Ok(());
    }
    let made = tokio::fs::create_dir_all(path).await;
    made.map_err(|error| Error::invalid(format!("{}: {error}", path.display())))
}

/// What a sandbox says is not to be trusted with places outside.
fn checked_name(name: &str) -> Result<&str, Error> {
    let is_separator = |c| matches!(c, '/' | '\0') || std::path::is_separator(c);
    if matches!(name, "" | "." | "..") || name.contains(is_separator) {
        let message = format!("the sandbox names an entry {name:?}, which would lie outside its directory");
        return Err(Error::new(ErrorKind::Server, "read the directory", message));
    }
    Ok(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_leads_out() {
        for name in ["", ".", "..", "a/b", "/etc"] {
            assert_eq!(checked_name(name).unwrap_err().kind(), ErrorKind::Server, "{name}");
        }
        assert_eq!(checked_name("..a").unwrap(), "..a");
    }
}
