//! A sandbox in which a template is built: nobody but the server knows of it, and what is left is its files.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use oncebox_protocol::SecretString;
use tokio::sync::OwnedSemaphorePermit;

use super::{CreateError, Lifecycle, Registry, SandboxRecord, copy_tree, remove};
use crate::confined::Confined;
use crate::ids;
use crate::rpc::Envd;

/// A running sandbox for the server's own use.
pub(crate) struct Workshop {
    confined: Arc<Confined>,
    token: SecretString,
    folder: PathBuf,
    /// One of the places for sandboxes that have processes.
    _place: OwnedSemaphorePermit,
}

impl Workshop {
    pub(crate) fn envd(&self) -> Envd<'_> {
        Envd { confined: &self.confined, token: &self.token }
    }

    /// Ends it and moves its files to where nothing is.
    pub(crate) async fn keep(self, to: PathBuf) -> io::Result<()> {
        self.confined.end().await;
        match tokio::fs::rename(&self.folder, &to).await {
            Ok(()) => Ok(()),
            Err(error) => {
                remove(self.folder).await;
                Err(error)
            }
        }
    }

    /// Ends it and removes its files.
    pub(crate) async fn discard(self) {
        self.confined.end().await;
        remove(self.folder).await;
    }
}

impl Registry {
    /// Starts a sandbox that begins with a copy of these files.
    pub(crate) async fn workshop(self: &Arc<Self>, files: Option<PathBuf>) -> Result<Workshop, CreateError> {
        let place = self.place()?;
        let _starting = Arc::clone(&self.starting).read_owned().await;
        if self.is_closed() {
            return Err(CreateError::Stopping);
        }
        let folder = self.state.scratch()?;
        let filled = match files {
            Some(files) => copy_tree(&files, &folder).await,
            None => tokio::fs::create_dir(&folder).await,
        };
        if let Err(error) = filled {
            // A copy may have come half way.
            remove(folder).await;
            return Err(error.into());
        }
        let mut setup =
            self.setup(&ids::sandbox_id()?, &SandboxRecord::new("build".to_owned(), Lifecycle::default()))?;
        setup.directory.clone_from(&folder);
        match Confined::launch(&self.helper, self.isolation, &setup).await {
            Ok(confined) => {
                let confined = Arc::new(confined);
                let mut table = self.table.lock();
                table.workshops.retain(|other| other.strong_count() > 0);
                // A server that stops ends it, whatever the build is doing.
                table.workshops.push(Arc::downgrade(&confined));
                Ok(Workshop { confined, token: setup.access_token, folder, _place: place })
            }
            Err(error) => {
                remove(folder).await;
                Err(error.into())
            }
        }
    }
}
