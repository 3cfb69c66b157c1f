//! Files in a sandbox.

mod entry;
mod form;
mod many;
mod parts;
mod read;
mod resume;
mod tree;
mod watch;
mod write;

pub use entry::{Entry, EntryKind};
pub use many::WriteFiles;
pub use read::FileStream;
pub use tree::{DownloadDir, TransferProgress, Transferred, UploadDir};
pub use watch::{DirWatch, FileEvent, FileEventKind, WatchDir, Watcher};
pub use write::WriteFile;

use oncebox_protocol::envd::filesystem::{ListDirRequest, MakeDirRequest, MoveRequest, RemoveRequest, StatRequest};

use crate::error::{Error, ErrorKind};
use crate::rpc::RpcCall;
use crate::sandbox::Sandbox;
use entry::entry;

/// The largest file that is read whole.
pub(crate) const MAX_WHOLE_FILE: usize = 1 << 30;

/// The files of a sandbox: see [`Sandbox::files`]. Relative paths start at the user's home.
#[derive(Clone, Copy, Debug)]
pub struct Files<'a> {
    sandbox: &'a Sandbox,
    user: Option<&'a str>,
}

impl<'a> Files<'a> {
    pub(crate) fn new(sandbox: &'a Sandbox) -> Self {
        Self { sandbox, user: None }
    }

    fn call(&self) -> RpcCall<'a> {
        RpcCall { user: self.user, ..RpcCall::default() }
    }

    /// The same as another user of the sandbox: whose home relative paths start at, whose permissions count, and to whom
    /// what is written belongs. Default: the sandbox's.
    #[must_use]
    pub fn user(self, name: &'a str) -> Self {
        Self { user: Some(name), ..self }
    }

    /// Lists a directory: its entries and those `depth - 1` levels below; 1 lists the directory alone.
    ///
    /// # Errors
    ///
    /// [`NotFound`](ErrorKind::NotFound) when there is no such directory,
    /// [`InvalidArgument`](ErrorKind::InvalidArgument) for a file, or a depth of 0.
    pub async fn list(&self, path: &str, depth: u32) -> Result<Vec<Entry>, Error> {
        check_path(path)?;
        if depth == 0 {
            return Err(Error::invalid("depth: 0 would list nothing; 1 lists the directory itself"));
        }
        let request = ListDirRequest { path: path.to_owned(), depth, ..Default::default() };
        let client = self.sandbox.envd().filesystem(self.call())?;
        let response = client.list_dir(request).await.map_err(|e| Error::rpc("list the directory", e))?;
        Ok(response.into_owned().entries.into_iter().map(Entry::from).collect())
    }

    /// Describes a path.
    ///
    /// # Errors
    ///
    /// [`NotFound`](ErrorKind::NotFound) when it does not exist.
    pub async fn info(&self, path: &str) -> Result<Entry, Error> {
        const ACTION: &str = "describe the path";
        check_path(path)?;
        let client = self.sandbox.envd().filesystem(self.call())?;
        let request = StatRequest { path: path.to_owned(), ..Default::default() };
        let response = client.stat(request).await.map_err(|e| Error::rpc(ACTION, e))?;
        entry(ACTION, response.into_owned().entry.into_option())
    }

    /// Whether a path exists.
    ///
    /// # Errors
    ///
    /// When the sandbox cannot be asked.
    pub async fn exists(&self, path: &str) -> Result<bool, Error> {
        match self.info(path).await {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Makes a directory with its parents. `false`: it was there already.
    ///
    /// # Errors
    ///
    /// [`InvalidArgument`](ErrorKind::InvalidArgument) when a file is in the way;
    /// [`OutcomeUnknown`](ErrorKind::OutcomeUnknown) when the answer was lost.
    pub async fn make_dir(&self, path: &str) -> Result<bool, Error> {
        check_path(path)?;
        let client = self.sandbox.envd().filesystem(self.call())?;
        let request = MakeDirRequest { path: path.to_owned(), ..Default::default() };
        match client.make_dir(request).await.map_err(|e| Error::rpc("make the directory", e)) {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == ErrorKind::Conflict => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Removes a path with all below it. A missing path is a success.
    ///
    /// # Errors
    ///
    /// When the sandbox cannot be asked, or does not allow it.
    pub async fn remove(&self, path: &str) -> Result<(), Error> {
        check_path(path)?;
        let client = self.sandbox.envd().filesystem(self.call())?;
        let request = RemoveRequest { path: path.to_owned(), ..Default::default() };
        client.remove(request).await.map(drop).map_err(|e| Error::rpc("remove the path", e))
    }

    /// Renames a path; the parents of the new one are made.
    ///
    /// # Errors
    ///
    /// [`NotFound`](ErrorKind::NotFound) when the old path does not exist;
    /// [`OutcomeUnknown`](ErrorKind::OutcomeUnknown) when the answer was lost.
    pub async fn rename(&self, from: &str, to: &str) -> Result<Entry, Error> {
        const ACTION: &str = "rename the path";
        check_path(from)?;
        check_path(to)?;
        let client = self.sandbox.envd().filesystem(self.call())?;
        let request = MoveRequest { source: from.to_owned(), destination: to.to_owned(), ..Default::default() };
        let response = client.r#move(request).await.map_err(|e| Error::rpc(ACTION, e))?;
        entry(ACTION, response.into_owned().entry.into_option())
    }
}

pub(crate) fn check_path(path: &str) -> Result<(), Error> {
    if path.is_empty() {
        return Err(Error::invalid("the path is empty"));
    }
    if path.contains('\0') {
        return Err(Error::invalid(format!("{path:?} holds a NUL character, which no path can")));
    }
    Ok(())
}
