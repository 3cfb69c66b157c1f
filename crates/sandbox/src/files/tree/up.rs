//! A directory of this machine, into the sandbox.

use std::collections::HashSet;
use std::future::{Future, IntoFuture};
use std::path::{Path, PathBuf};
use std::pin::Pin;

use super::super::{Files, check_path};
use super::{Counter, Options, Selection, TransferProgress, Transferred, below};
use crate::error::{Error, ErrorKind};
use crate::sandbox::Sandbox;

/// Files up to this size go together.
const SMALL: u64 = 1 << 20;

/// Bytes of small files that are held at a time.
const HELD: u64 = 8 << 20;

/// Small files that are held at a time.
const MAX_HELD: usize = 1000;

/// A directory about to be carried into the sandbox: see [`Files::upload_dir`]. Await it.
#[must_use = "nothing is carried over until it is awaited"]
pub struct UploadDir {
    sandbox: Sandbox,
    user: Option<String>,
    from: PathBuf,
    to: String,
    options: Options,
}

impl Files<'_> {
    /// Carries a directory of this machine, with all that is below it, into the sandbox, where it takes the place of files of
    /// the same names and leaves others. Small files go many in a request, large ones as by [`upload`](Self::upload); in
    /// bounded memory. Set options on what this returns, and await it.
    ///
    /// ```no_run
    /// # async fn example(sandbox: oncebox::Sandbox) -> Result<(), oncebox::Error> {
    /// let done = sandbox.files().upload_dir("project", "project").exclude("target").exclude("**/.git").await?;
    /// println!("{} files, {} bytes", done.files, done.bytes);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`upload`](Self::upload); some of the files may be there.
    pub fn upload_dir(&self, from: impl Into<PathBuf>, to: impl Into<String>) -> UploadDir {
        UploadDir {
            sandbox: self.sandbox.clone(),
            user: self.user.map(str::to_owned),
            from: from.into(),
            to: to.into(),
            options: Options::default(),
        }
    }
}

/// What is to be carried over.
#[derive(Default)]
struct Found {
    /// Relative paths and sizes.
    files: Vec<(String, u64)>,
    /// Directories with nothing in them.
    empty: Vec<String>,
    skipped: Vec<PathBuf>,
}

impl UploadDir {
    /// Carries only files over whose path, relative to the directory, matches this glob (`*` within a name, `**` across
    /// names); may be repeated. Default: all.
    pub fn include(mut self, glob: impl Into<String>) -> Self {
        self.options.include.push(glob.into());
        self
    }

    /// Leaves out what matches this glob, and all that is below it; may be repeated.
    pub fn exclude(mut self, glob: impl Into<String>) -> Self {
        self.options.exclude.push(glob.into());
        self
    }

    /// Is told how far it is.
    pub fn progress(mut self, listener: impl FnMut(&TransferProgress) + Send + 'static) -> Self {
        self.options.listener = Some(Box::new(listener));
        self
    }

    async fn send(self) -> Result<Transferred, Error> {
        check_path(&self.to)?;
        let (selection, from) = (self.options.selection()?, self.from.clone());
        let found = tokio::task::spawn_blocking(move || find(&from, &selection)).await;
        let found =
            found.map_err(|error| Error::new(ErrorKind::Unsupported, "find the files", error.to_string()))??;
        let counter = Counter::new(self.options.listener);
        counter.tell(|progress| {
            progress.total_files = Some(found.files.len() as u64);
            progress.total_bytes = Some(found.files.iter().map(|(_, size)| size).sum());
        });
        let files = Files { sandbox: &self.sandbox, user: self.user.as_deref() };
        let mut begun = false;
        for folder in &found.empty {
            let made = files.make_dir(&below(&self.to, folder)).await;
            made.map_err(|error| error.partly_if(begun))?;
            begun = true;
        }
        let (mut held, mut bytes) = (Vec::new(), 0);
        for (path, size) in &found.files {
            if *size <= SMALL {
                held.push(path.as_str());
                bytes += size;
                if bytes >= HELD || held.len() == MAX_HELD {
                    let sent = send_small(&files, &self.from, &self.to, &std::mem::take(&mut held), &counter).await;
                    sent.map_err(|error| error.partly_if(begun))?;
                    (bytes, begun) = (0, true);
                }
                continue;
            }
            let before = counter.progress().bytes;
            let tell = |now, _| counter.tell(|progress| progress.bytes = before + now);
            let sent = files.upload(self.from.join(path), &below(&self.to, path), tell).await;
            sent.map_err(|error| error.partly_if(begun))?;
            begun = true;
            counter.tell(|progress| progress.files += 1);
        }
        let sent = send_small(&files, &self.from, &self.to, &held, &counter).await;
        sent.map_err(|error| error.partly_if(begun))?;
        let TransferProgress { files, bytes, .. } = counter.progress();
        Ok(Transferred { files, bytes, skipped: found.skipped })
    }
}

impl IntoFuture for UploadDir {
    type Output = Result<Transferred, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.send())
    }
}

impl std::fmt::Debug for UploadDir {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("UploadDir").field("from", &self.from).field("to", &self.to).finish_non_exhaustive()
    }
}

async fn send_small(files: &Files<'_>, from: &Path, to: &str, paths: &[&str], counter: &Counter) -> Result<(), Error> {
    let (mut data, mut bytes) = (Vec::with_capacity(paths.len()), 0);
    for path in paths {
        let name = from.join(path);
        let content = tokio::fs::read(&name).await;
        let content = content.map_err(|error| Error::invalid(format!("{}: {error}", name.display())))?;
        bytes += content.len() as u64;
        data.push((below(to, path), content));
    }
    files.write_files(data).await?;
    counter.tell(|progress| {
        progress.files += paths.len() as u64;
        progress.bytes += bytes;
    });
    Ok(())
}

fn find(from: &Path, selection: &Selection) -> Result<Found, Error> {
    let wrong = |path: &Path, what: &dyn std::fmt::Display| Error::invalid(format!("{}: {what}", path.display()));
    let relative = |path: &Path| {
        let path = path.strip_prefix(from).unwrap_or(path);
        // Sandboxes have `/` between names, whatever this machine has.
        let names = path.components().map(|name| name.as_os_str().to_str());
        names.collect::<Option<Vec<_>>>().map(|names| names.join("/"))
    };
    if !from.is_dir() {
        return Err(wrong(from, &"it is no directory"));
    }
    let (mut found, mut empty) = (Found::default(), HashSet::new());
    let mut walk = walkdir::WalkDir::new(from).min_depth(1).sort_by_file_name().into_iter();
    while let Some(entry) = walk.next() {
        let entry = entry.map_err(|error| wrong(error.path().unwrap_or(from), &error))?;
        let Some(path) = relative(entry.path()) else { return Err(wrong(entry.path(), &"its name is not UTF-8")) };
        let kind = entry.file_type();
        if selection.leaves_out(&path) {
            if kind.is_dir() {
                walk.skip_current_dir();
            }
            continue;
        }
        if let Some((folder, _)) = path.rsplit_once('/') {
            empty.remove(folder);
        }
        if kind.is_dir() {
            empty.insert(path);
        } else if !kind.is_file() {
            found.skipped.push(PathBuf::from(path));
        } else if selection.takes_file(&path) {
            let metadata = entry.metadata().map_err(|error| wrong(entry.path(), &error))?;
            found.files.push((path, metadata.len()));
        }
    }
    if selection.takes_empty() {
        found.empty = empty.into_iter().collect();
    }
    Ok(found)
}
