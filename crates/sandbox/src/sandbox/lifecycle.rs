//! Pausing, forking, snapshots: what happens to a sandbox as a whole.

use std::sync::Arc;
use std::time::Duration;

use oncebox_protocol::{ErrorBody, api, operations};

use super::{Came, ListSnapshots, Sandbox, lifetime_seconds};
use tokio::time::Instant;

use crate::Client;
use crate::client::{ApiCall, parse};
use crate::error::{Error, ErrorKind};
use crate::mint;

/// Forks that one call makes at most (protocol fact).
const MAX_FORKS: u32 = 100;

/// How to pause a sandbox.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pause {
    filesystem: bool,
    strict: bool,
}

impl Pause {
    /// Keeps memory and files.
    pub fn full() -> Self {
        Self::default()
    }

    /// Keeps files alone: the sandbox boots anew when it is resumed.
    pub fn filesystem() -> Self {
        Self { filesystem: true, ..Self::default() }
    }

    /// The protocol's word for it: absent, memory is kept.
    pub(super) fn keeps_memory_flag(self) -> Option<bool> {
        self.filesystem.then_some(false)
    }

    /// Refuses to pause a sandbox whose daemon does not answer.
    #[must_use]
    pub fn strict(mut self) -> Self {
        self.strict = true;
        self
    }
}

/// What a pause found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Paused {
    /// This call paused the sandbox.
    Now,
    /// An earlier attempt of this call, whose answer was lost, may have paused it.
    ByEarlierAttempt,
    /// It was paused, or was changing at this moment (409).
    Already,
}

/// A snapshot, from which sandboxes can be made: its id is a template.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Snapshot {
    /// Its id.
    pub id: String,
    /// Its names.
    pub names: Vec<String>,
}

impl From<api::Snapshot> for Snapshot {
    fn from(snapshot: api::Snapshot) -> Self {
        Self { id: snapshot.snapshot_id, names: snapshot.names }
    }
}

impl Sandbox {
    /// Pauses it; [`connect`](Self::connect) resumes it.
    ///
    /// # Errors
    ///
    /// [`NotFound`](ErrorKind::NotFound) when it has ended; [`Conflict`](ErrorKind::Conflict) when a strict pause met a
    /// daemon that does not answer. That it is paused already is no error.
    pub async fn pause(&self, how: Pause) -> Result<Paused, Error> {
        let body =
            api::PauseSandbox { memory: how.keeps_memory_flag(), require_healthy_guest: how.strict.then_some(true) };
        let call = ApiCall::new(&operations::PAUSE_SANDBOX, "pause the sandbox", [self.id()]).json(&body)?;
        match self.call(call).await {
            Ok(_) => Ok(Paused::Now),
            Err(error) if error.kind() == ErrorKind::Conflict && !error.is_guest_unresponsive() => {
                let by_us = error.had_unknown_attempt();
                Ok(if by_us { Paused::ByEarlierAttempt } else { Paused::Already })
            }
            Err(error) => Err(error),
        }
    }

    /// Copies it, as it runs, `count` times. Each fork is a value of its own, made or failed. A fork is never made twice
    /// by this call: when its outcome is unknown, nothing is sent again, and the error names
    /// [candidates](Error::candidates), sandboxes that appeared within `settle`. Lifetime: from now;
    /// `None` is the server's, 15 s. Where the create of this handle had to be sent twice, it is first waited until its doubles
    /// are swept (`settle`, at most `cleanup_timeout`): a fork looks like one.
    ///
    /// # Errors
    ///
    /// [`InvalidArgument`](ErrorKind::InvalidArgument) for none or more than 100 forks, before any I/O; whatever kept all
    /// of them from being made.
    pub async fn fork(&self, count: u32, lifetime: Option<Duration>) -> Result<Vec<Result<Self, Error>>, Error> {
        const ACTION: &str = "fork the sandbox";
        if !(1..=MAX_FORKS).contains(&count) {
            return Err(Error::invalid(format!("count: {count} is not from 1 to {MAX_FORKS}")));
        }
        let body = api::ForkSandbox {
            timeout: lifetime.map(lifetime_seconds).transpose()?,
            count: Some(i32::try_from(count).unwrap_or(1)),
        };
        // A fork copies the tag of its create, and the protocol has no field to write another one: a sweep that still goes
        // on could take it for a double.
        self.inner.fate.swept().await;
        let call = ApiCall::new(&operations::FORK_SANDBOX, ACTION, [self.id()]).json(&body)?;
        let began = Instant::now();
        let answer = self.call(call).await.and_then(|response| parse::<Vec<api::ForkResult>>(ACTION, &response));
        let forks = match answer {
            Ok(forks) => forks,
            Err(error) if error.may_have_been_processed() => {
                let candidates = mint::forks_since(self, began, usize::try_from(count).unwrap_or(usize::MAX)).await;
                return Err(mint::unknown(error, candidates));
            }
            Err(error) => return Err(error),
        };
        let client = self.client();
        let fork = |fork: api::ForkResult| match fork {
            api::ForkResult { sandbox: Some(made), .. } => {
                Self::build(client, made, None, Came::Created, Arc::default())
            }
            api::ForkResult { error: Some(error), .. } => Err(failed(ACTION, &error)),
            _ => Err(Error::malformed(ACTION, "it holds neither a sandbox nor an error")),
        };
        Ok(forks.into_iter().map(fork).collect())
    }

    /// Takes a snapshot of it, while it goes on running.
    ///
    /// # Errors
    ///
    /// [`NotFound`](ErrorKind::NotFound) when it has ended. When nobody knows whether one was taken, nothing is sent again, and
    /// the error names [candidates](Error::candidates): snapshots of this sandbox that were not there before.
    pub async fn snapshot(&self, name: Option<&str>) -> Result<Snapshot, Error> {
        self.snapshot_as(name, None).await
    }

    /// As [`snapshot`](Self::snapshot), of its files alone: what is made from it boots anew.
    ///
    /// # Errors
    ///
    /// As [`snapshot`](Self::snapshot).
    pub async fn snapshot_files(&self, name: Option<&str>) -> Result<Snapshot, Error> {
        self.snapshot_as(name, Some(false)).await
    }

    async fn snapshot_as(&self, name: Option<&str>, memory: Option<bool>) -> Result<Snapshot, Error> {
        const ACTION: &str = "take a snapshot";
        let body = api::NewSnapshot { name: name.map(str::to_owned), memory };
        let call = ApiCall::new(&operations::CREATE_SNAPSHOT, ACTION, [self.id()]).json(&body)?;
        let before = self.client().snapshots(Some(self.id())).await;
        let answer = self.call(call).await.and_then(|response| parse::<api::Snapshot>(ACTION, &response));
        match (answer, before) {
            (Ok(taken), _) => Ok(taken.into()),
            (Err(error), Ok(before)) if error.may_have_been_processed() => {
                let now = self.client().snapshots(Some(self.id())).await.unwrap_or_default();
                let new = now.into_iter().filter(|snapshot| !before.contains(snapshot)).map(|snapshot| snapshot.id);
                Err(mint::unknown(error, new.collect()))
            }
            (Err(error), _) => Err(error),
        }
    }
}

impl Client {
    /// All snapshots, or those of one sandbox.
    ///
    /// # Errors
    ///
    /// When the server could not be asked.
    pub async fn snapshots(&self, sandbox: Option<&str>) -> Result<Vec<Snapshot>, Error> {
        let mut listing = self.list_snapshots();
        if let Some(sandbox) = sandbox {
            listing = listing.sandbox(sandbox);
        }
        let (mut pages, mut found) = (listing.pages(), Vec::new());
        while let Some(page) = pages.next().await? {
            found.extend(page);
        }
        Ok(found)
    }

    /// Lists snapshots, a page at a time. Set filters on what this returns.
    pub fn list_snapshots(&self) -> ListSnapshots {
        ListSnapshots::new(self)
    }

    /// Deletes a snapshot; `false`: there is no such one (any more).
    ///
    /// # Errors
    ///
    /// When the server could not be asked.
    pub async fn delete_snapshot(&self, id: &str) -> Result<bool, Error> {
        let call = ApiCall::new(&operations::DELETE_TEMPLATE, "delete the snapshot", [id]);
        self.call_unless_missing(call).await
    }
}

fn failed(action: &str, error: &ErrorBody) -> Error {
    let body = serde_json::to_vec(error).unwrap_or_default();
    let status = match error.code {
        Some(oncebox_protocol::ErrorCode::Number(code)) => u16::try_from(code).unwrap_or(500),
        _ => 500,
    };
    Error::answer(action, status, &body, None)
}
