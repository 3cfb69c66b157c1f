//! Lifetimes, pauses and copies of sandboxes.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use oncebox_protocol::api::{LogLevel, PauseMode};

use super::sandbox::{Body, Live, after};
use super::{CreateError, Registry, Sandbox, copy_tree};
use crate::confined::Confined;
use crate::events::Event;
use crate::freeze;
use crate::store::StoreError;

/// Why a sandbox was not paused.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PauseError {
    #[error("it is paused already")]
    Paused,
    #[error("its processes could not be stopped: {0}")]
    Processes(io::Error),
    #[error("{0}")]
    Store(#[from] StoreError),
}

impl Registry {
    /// Ends or pauses a sandbox when its time is over, and ends it when its processes do. For one start of its processes.
    pub(super) async fn watch_over(self: Arc<Self>, sandbox: Arc<Sandbox>, confined: Arc<Confined>) {
        let mut end_at = sandbox.end_at.subscribe();
        loop {
            let left = end_at.borrow_and_update().duration_since(Timestamp::now());
            let left = Duration::try_from(left).unwrap_or(Duration::ZERO);
            if left.is_zero() && sandbox.is_running() {
                if self.is_closed() || !self.knows(&sandbox.id) {
                    // Somebody else is ending it, and may have to wait for a copy of it.
                    confined.gone().await;
                    break;
                }
                self.expire(&sandbox).await;
                continue;
            }
            // A paused sandbox has time. Otherwise not all of it at once: the wall clock may be set meanwhile.
            let wait = if sandbox.is_running() { left.min(Duration::from_secs(60)) } else { Duration::from_secs(3600) };
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                changed = end_at.changed() => if changed.is_err() { return },
                () = confined.gone() => break,
            }
        }
        let _turn = sandbox.turn.lock().await;
        let running = match &*sandbox.body.lock() {
            Body::Running(live) if Arc::ptr_eq(&live.confined, &confined) => true,
            Body::Frozen(live) if Arc::ptr_eq(&live.confined, &confined) => false,
            // It was ended by who has something else to do with the sandbox.
            _ => return,
        };
        if self.is_closed() {
            return;
        }
        if running {
            drop(_turn);
            tracing::debug!(id = %sandbox.id, "the sandbox ended by itself");
            if let Err(error) = self.kill(&sandbox.id).await {
                tracing::warn!(id = %sandbox.id, %error, "its record was not removed");
            }
            return;
        }
        // Stopped processes were killed from outside. The files are still what was paused.
        confined.end().await;
        *sandbox.body.lock() = Body::Stored;
        sandbox.note(LogLevel::Warn, "its processes ended while it was paused; its files are kept");
        self.edit_anyhow(&sandbox, |record| record.paused = Some(PauseMode::Filesystem)).await;
    }

    /// What happens at the end of a lifetime.
    async fn expire(self: &Arc<Self>, sandbox: &Arc<Sandbox>) {
        let record = sandbox.record();
        tracing::debug!(id = %sandbox.id, "the sandbox's time is over");
        let done = if record.lifecycle.auto_pause {
            match self.pause(sandbox, record.lifecycle.auto_pause_memory).await {
                Ok(()) | Err(PauseError::Paused) => Ok(()),
                Err(error) => {
                    // Better ended than running on.
                    sandbox.note(LogLevel::Error, format!("it was not paused at the end of its lifetime: {error}"));
                    self.kill(&sandbox.id).await.map(drop)
                }
            }
        } else {
            self.kill(&sandbox.id).await.map(drop)
        };
        if let Err(error) = done {
            tracing::warn!(id = %sandbox.id, %error, "its record was not removed; trying again");
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    }

    /// Pauses a sandbox. With `memory` its processes are stopped where they are, and go on when it is resumed; otherwise
    /// they are ended. Once begun it is done, even if the caller stops waiting.
    pub(crate) async fn pause(self: &Arc<Self>, sandbox: &Arc<Sandbox>, memory: bool) -> Result<(), PauseError> {
        let (registry, sandbox) = (Arc::clone(self), Arc::clone(sandbox));
        let paused = tokio::spawn(async move { registry.pause_now(&sandbox, memory).await });
        paused.await.map_err(|error| PauseError::Processes(io::Error::other(error)))?
    }

    async fn pause_now(&self, sandbox: &Arc<Sandbox>, memory: bool) -> Result<(), PauseError> {
        let _turn = sandbox.turn.lock().await;
        let confined = sandbox.confined().map_err(|_| PauseError::Paused)?;
        let mode = if memory { PauseMode::Full } else { PauseMode::Filesystem };
        // First, so that nothing has changed where it cannot be written down.
        self.edit_now(sandbox, |record| record.paused = Some(mode)).await?;
        if !memory {
            confined.end().await;
        } else if let Err(error) = self.freeze(&confined).await {
            self.edit_anyhow(sandbox, |record| record.paused = None).await;
            return Err(PauseError::Processes(error));
        }
        {
            let mut body = sandbox.body.lock();
            *body = match std::mem::replace(&mut *body, Body::Stored) {
                Body::Running(live) if memory => Body::Frozen(live),
                _ => Body::Stored,
            };
        }
        sandbox.cuts.send_modify(|cuts| *cuts += 1);
        self.tell(sandbox, Event::PAUSED);
        Ok(())
    }

    /// Lets a paused sandbox run again, for that long; `false` if it was running, and then lives at least so long.
    /// Without `memory` its processes start anew, whatever was kept of them.
    pub(crate) async fn resume(
        self: &Arc<Self>,
        sandbox: &Arc<Sandbox>,
        lifetime: Duration,
        memory: bool,
        auto_pause: Option<bool>,
    ) -> Result<bool, CreateError> {
        let (registry, sandbox) = (Arc::clone(self), Arc::clone(sandbox));
        let resumed = tokio::spawn(async move { registry.resume_now(&sandbox, lifetime, memory, auto_pause).await });
        resumed.await.map_err(io::Error::other)?
    }

    async fn resume_now(
        self: &Arc<Self>,
        sandbox: &Arc<Sandbox>,
        lifetime: Duration,
        memory: bool,
        auto_pause: Option<bool>,
    ) -> Result<bool, CreateError> {
        let starting = Arc::clone(&self.starting).read_owned().await;
        let _turn = sandbox.turn.lock().await;
        if self.is_closed() {
            return Err(CreateError::Stopping);
        }
        if sandbox.is_running() {
            self.edit_now(sandbox, |record| record.live_at_least(lifetime)).await?;
            return Ok(false);
        }
        let before = sandbox.record();
        // First, so that nothing has changed where it cannot be written down.
        self.edit_now(sandbox, |record| {
            record.paused = None;
            record.end_at = after(lifetime);
            record.lifecycle.lifetime = lifetime;
            if let Some(auto_pause) = auto_pause {
                record.lifecycle.auto_pause = auto_pause;
            }
        })
        .await?;
        if let Err(error) = self.start_again(sandbox, memory).await {
            let is_frozen = matches!(*sandbox.body.lock(), Body::Frozen(_));
            let paused = before.paused.clone().filter(|_| is_frozen).unwrap_or(PauseMode::Filesystem);
            self.edit_anyhow(sandbox, |record| {
                record.clone_from(&before);
                record.paused = Some(paused.clone());
            })
            .await;
            return Err(error);
        }
        self.tell(sandbox, Event::RESUMED);
        drop(starting);
        Ok(true)
    }

    /// Lets the processes of a paused sandbox go on, or starts new ones.
    async fn start_again(self: &Arc<Self>, sandbox: &Arc<Sandbox>, memory: bool) -> Result<(), CreateError> {
        let body = std::mem::replace(&mut *sandbox.body.lock(), Body::Stored);
        let place = match body {
            Body::Frozen(live) if memory => {
                let thawed = self.thaw(&live.confined).await;
                // What was not thawed, or not all of it, is as paused as its record says.
                *sandbox.body.lock() = if thawed.is_ok() { Body::Running(live) } else { Body::Frozen(live) };
                thawed?;
                None
            }
            Body::Frozen(Live { confined, place }) => {
                confined.end().await;
                Some(place)
            }
            Body::Running(_) | Body::Stored => Some(self.place()?),
        };
        if let Some(place) = place {
            let setup = self.setup(&sandbox.id, &sandbox.record())?;
            let confined = Arc::new(Confined::launch(&self.helper, self.isolation, &setup).await?);
            *sandbox.body.lock() = Body::Running(Live { confined: Arc::clone(&confined), place });
            tokio::spawn(Arc::clone(self).watch_over(Arc::clone(sandbox), confined));
        }
        Ok(())
    }

    /// Resumes a paused sandbox that is to be resumed when somebody uses it.
    pub(crate) async fn wake(self: &Arc<Self>, id: &str) {
        let Some(sandbox) = self.look_up(id).filter(|sandbox| !sandbox.is_running()) else { return };
        let lifecycle = sandbox.record().lifecycle;
        if !lifecycle.auto_resume {
            return;
        }
        if let Err(error) = self.resume(&sandbox, lifecycle.lifetime, true, None).await {
            sandbox.note(LogLevel::Error, format!("it was not resumed on use: {error}"));
        }
    }

    /// A copy of a sandbox's files, made while its processes stand still. The caller removes it.
    pub(crate) async fn copy_files(self: &Arc<Self>, sandbox: &Arc<Sandbox>) -> io::Result<PathBuf> {
        let (registry, sandbox) = (Arc::clone(self), Arc::clone(sandbox));
        let copied = tokio::spawn(async move {
            let _turn = sandbox.turn.lock().await;
            let to = registry.state.scratch()?;
            let running = sandbox.confined().ok();
            if let Some(confined) = &running {
                registry.freeze(confined).await?;
            }
            let mut copied = copy_tree(&registry.state.sandbox(&sandbox.id), &to).await;
            if let Some(confined) = &running {
                let thawed = registry.thaw(confined).await;
                copied = copied.and(thawed);
            }
            if let Err(error) = copied {
                super::remove(to).await;
                return Err(error);
            }
            Ok(to)
        });
        copied.await.map_err(io::Error::other)?
    }

    async fn freeze(&self, confined: &Arc<Confined>) -> io::Result<()> {
        self.stand_still(confined, freeze::freeze).await
    }

    async fn thaw(&self, confined: &Arc<Confined>) -> io::Result<()> {
        self.stand_still(confined, freeze::thaw).await
    }

    async fn stand_still(
        &self,
        confined: &Arc<Confined>,
        act: fn(u32, crate::confined::Isolation) -> io::Result<()>,
    ) -> io::Result<()> {
        let Some(helper) = confined.helper_pid() else { return Err(io::Error::other("it is ending")) };
        let isolation = self.isolation;
        tokio::task::spawn_blocking(move || act(helper, isolation)).await.map_err(io::Error::other)?
    }
}
