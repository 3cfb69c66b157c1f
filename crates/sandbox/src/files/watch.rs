//! Changes below a directory, as they come or when they are asked for.

use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_util::stream::{self, BoxStream, Stream, StreamExt};
use oncebox_protocol::envd::filesystem::watch_dir_response::Event;
use oncebox_protocol::envd::filesystem::{
    CreateWatcherRequest, EventType, FilesystemEvent, GetWatcherEventsRequest, RemoveWatcherRequest, WatchDirRequest,
    WatchDirResponse,
};

use super::write::too_old;
use super::{Entry, Files, check_path};
use crate::error::{Error, ErrorKind};
use crate::rpc::{CutWatch, RpcCall};
use crate::sandbox::Sandbox;

const ACTION: &str = "watch the directory";

/// What is watched from which version of envd on (protocol facts).
const RECURSIVE_SINCE: [u64; 3] = [0, 1, 4];
const ENTRIES_SINCE: [u64; 3] = [0, 6, 3];
const NETWORK_MOUNTS_SINCE: [u64; 3] = [0, 6, 4];

/// What happened to a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FileEventKind {
    /// It was made, or moved here.
    Create,
    /// Its content changed.
    Write,
    /// It was removed.
    Remove,
    /// It was moved away.
    Rename,
    /// Its permissions or times changed.
    Chmod,
    /// Something else.
    Other,
}

/// A change below a directory that is watched.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FileEvent {
    /// The path, relative to the directory.
    pub name: String,
    /// What happened to it.
    pub kind: FileEventKind,
    /// What it is now, where that was asked for and it is still there.
    pub entry: Option<Entry>,
}

/// A directory about to be watched: see [`Files::watch`]. Await it for a stream of its changes, or
/// [`poll`](Self::poll) it.
#[derive(Clone, Debug)]
#[must_use = "nothing is watched until it is awaited"]
pub struct WatchDir {
    sandbox: Sandbox,
    user: Option<String>,
    path: String,
    recursive: bool,
    entries: bool,
    network_mounts: bool,
}

impl Files<'_> {
    /// Watches a directory. Set options on what this returns, and await it: it comes back when the sandbox watches, so that
    /// no later change is missed.
    ///
    /// ```no_run
    /// # async fn example(sandbox: oncebox::Sandbox) -> Result<(), oncebox::Error> {
    /// let mut changes = sandbox.files().watch("src").recursive(true).await?;
    /// while let Some(change) = changes.next().await {
    ///     println!("{:?}", change?);
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// [`NotFound`](ErrorKind::NotFound) when there is no such directory, [`InvalidArgument`](ErrorKind::InvalidArgument) for
    /// a file or a network mount, [`Unsupported`](ErrorKind::Unsupported) for an option that the sandbox's envd is too old
    /// for, before any I/O.
    pub fn watch(&self, path: impl Into<String>) -> WatchDir {
        WatchDir {
            sandbox: self.sandbox.clone(),
            user: self.user.map(str::to_owned),
            path: path.into(),
            recursive: false,
            entries: false,
            network_mounts: false,
        }
    }
}

impl WatchDir {
    /// Watches all that is below, too. From envd 0.1.4 on. Default off.
    pub fn recursive(mut self, recursive: bool) -> Self {
        self.recursive = recursive;
        self
    }

    /// Describes with each change what the path is now. From envd 0.6.3 on. Default off.
    pub fn entries(mut self, entries: bool) -> Self {
        self.entries = entries;
        self
    }

    /// Allows directories on network mounts, of which not all changes may be seen. From envd 0.6.4 on. Default off.
    pub fn network_mounts(mut self, allow: bool) -> Self {
        self.network_mounts = allow;
        self
    }

    /// Lets the sandbox gather changes until they are fetched, in place of a stream.
    ///
    /// # Errors
    ///
    /// As [`Files::watch`]; [`OutcomeUnknown`](ErrorKind::OutcomeUnknown) when the answer was lost: a watcher may then
    /// gather changes that nobody fetches, until the sandbox ends.
    pub async fn poll(self) -> Result<Watcher, Error> {
        self.check()?;
        let request = CreateWatcherRequest {
            path: self.path.clone(),
            recursive: self.recursive,
            include_entry: self.entries,
            allow_network_mounts: self.network_mounts,
            ..Default::default()
        };
        let call = RpcCall { user: self.user.as_deref(), ..RpcCall::default() };
        let client = self.sandbox.envd().filesystem(call)?;
        let made = client.create_watcher(request).await.map_err(|error| Error::rpc(ACTION, error))?;
        Ok(Watcher { id: made.into_owned().watcher_id, sandbox: self.sandbox, user: self.user })
    }

    async fn stream(self) -> Result<DirWatch, Error> {
        self.check()?;
        let watch = CutWatch::default();
        let call = RpcCall { user: self.user.as_deref(), stream: Some(watch.clone()), ..RpcCall::default() };
        let request = WatchDirRequest {
            path: self.path.clone(),
            recursive: self.recursive,
            include_entry: self.entries,
            allow_network_mounts: self.network_mounts,
            ..Default::default()
        };
        let stream = self.sandbox.envd().filesystem(call)?.watch_dir(request).await;
        let stream = stream.map_err(|error| Error::rpc(ACTION, error))?;
        let sandbox = self.sandbox.clone();
        let events = stream::try_unfold((stream, watch, sandbox), |(mut stream, watch, sandbox)| async move {
            let message = stream.message::<WatchDirResponse>().await;
            match (watch.cut(), message) {
                (None, Ok(Some(message))) => Ok(Some((message.to_owned_message().event, (stream, watch, sandbox)))),
                (None, Ok(None)) => Ok(None),
                (None, Err(error)) => Err(Error::rpc(ACTION, error)),
                (Some(how), _) => {
                    let message = format!("{how}; changes since then are not known");
                    Err(sandbox.after_loss(Error::new(ErrorKind::ConnectionLost, ACTION, message)).await)
                }
            }
        });
        let mut events = events.boxed();
        // The first message says that it is being watched.
        while let Some(event) = events.next().await {
            if matches!(event?, Some(Event::Start(_))) {
                let changes = events.filter_map(|event| async move {
                    match event {
                        Ok(Some(Event::Filesystem(change))) => Some(Ok(FileEvent::from(*change))),
                        Ok(_) => None,
                        Err(error) => Some(Err(error)),
                    }
                });
                return Ok(DirWatch { changes: changes.boxed() });
            }
        }
        Err(Error::malformed(ACTION, "the stream ended before it began"))
    }

    fn check(&self) -> Result<(), Error> {
        check_path(&self.path)?;
        for (wanted, since, what) in [
            (self.recursive, RECURSIVE_SINCE, "to watch what is below a directory (recursive)"),
            (self.entries, ENTRIES_SINCE, "to describe what changed (entries)"),
            (self.network_mounts, NETWORK_MOUNTS_SINCE, "to be asked for network mounts (network_mounts)"),
        ] {
            if wanted && !self.sandbox.envd_at_least(since) {
                return Err(too_old(&self.sandbox, what));
            }
        }
        Ok(())
    }
}

impl IntoFuture for WatchDir {
    type Output = Result<DirWatch, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.stream())
    }
}

/// The changes of a directory, as they come. Dropping it ends the watch.
pub struct DirWatch {
    changes: BoxStream<'static, Result<FileEvent, Error>>,
}

impl DirWatch {
    /// The next change; `None` when the sandbox ended the stream. Dropping the future loses nothing.
    ///
    /// # Errors
    ///
    /// [`ConnectionLost`](ErrorKind::ConnectionLost), or what the sandbox turned out to be, when the stream was cut; changes
    /// from then on are not known, and nothing follows.
    pub async fn next(&mut self) -> Option<Result<FileEvent, Error>> {
        self.changes.next().await
    }
}

impl Stream for DirWatch {
    type Item = Result<FileEvent, Error>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.changes.poll_next_unpin(cx)
    }
}

impl std::fmt::Debug for DirWatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DirWatch").finish_non_exhaustive()
    }
}

/// A directory whose changes the sandbox gathers until they are fetched. It does so until it is stopped.
#[derive(Clone, Debug)]
pub struct Watcher {
    sandbox: Sandbox,
    user: Option<String>,
    id: String,
}

impl Watcher {
    /// What changed since the last call.
    ///
    /// # Errors
    ///
    /// [`OutcomeUnknown`](ErrorKind::OutcomeUnknown) when the answer was lost: changes that were handed out in it are gone.
    pub async fn events(&self) -> Result<Vec<FileEvent>, Error> {
        let request = GetWatcherEventsRequest { watcher_id: self.id.clone(), ..Default::default() };
        let client = self.sandbox.envd().filesystem(self.call())?;
        let answer =
            client.get_watcher_events(request).await.map_err(|error| Error::rpc("fetch the changes", error))?;
        Ok(answer.into_owned().events.into_iter().map(FileEvent::from).collect())
    }

    /// Stops it.
    ///
    /// # Errors
    ///
    /// When the sandbox cannot be asked. That it is stopped already is no error.
    pub async fn stop(self) -> Result<(), Error> {
        let request = RemoveWatcherRequest { watcher_id: self.id.clone(), ..Default::default() };
        let client = self.sandbox.envd().filesystem(self.call())?;
        match client.remove_watcher(request).await.map_err(|error| Error::rpc("stop watching", error)) {
            Err(error) if !error.is_not_found() => Err(error),
            _ => Ok(()),
        }
    }

    fn call(&self) -> RpcCall<'_> {
        RpcCall { user: self.user.as_deref(), ..RpcCall::default() }
    }
}

impl From<FilesystemEvent> for FileEvent {
    fn from(event: FilesystemEvent) -> Self {
        let kind = match event.r#type.as_known() {
            Some(EventType::EVENT_TYPE_CREATE) => FileEventKind::Create,
            Some(EventType::EVENT_TYPE_WRITE) => FileEventKind::Write,
            Some(EventType::EVENT_TYPE_REMOVE) => FileEventKind::Remove,
            Some(EventType::EVENT_TYPE_RENAME) => FileEventKind::Rename,
            Some(EventType::EVENT_TYPE_CHMOD) => FileEventKind::Chmod,
            _ => FileEventKind::Other,
        };
        Self { name: event.name, kind, entry: event.entry.into_option().map(Entry::from) }
    }
}
