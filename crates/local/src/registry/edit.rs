//! Changes of what is known of a sandbox: written down first, and then so.

use std::sync::Arc;

use super::{Registry, Sandbox, SandboxRecord};
use crate::store::{Draft, StoreError};

impl Registry {
    /// Changes what is known of a sandbox. It is written down first: where that fails, nothing has changed. Once begun it is
    /// done, even if the caller stops waiting.
    pub(crate) async fn edit(
        self: &Arc<Self>,
        sandbox: &Arc<Sandbox>,
        change: impl FnOnce(&mut SandboxRecord) + Send + 'static,
    ) -> Result<(), StoreError> {
        let (registry, sandbox) = (Arc::clone(self), Arc::clone(sandbox));
        let edited = tokio::spawn(async move { registry.edit_now(&sandbox, change).await });
        edited.await.map_err(StoreError::of)?
    }

    /// The same for those who are not stopped.
    pub(super) async fn edit_now(
        &self,
        sandbox: &Sandbox,
        change: impl FnOnce(&mut SandboxRecord) + Send,
    ) -> Result<(), StoreError> {
        let _turn = sandbox.editing.lock().await;
        let mut record = sandbox.record();
        change(&mut record);
        let (id, written) = (sandbox.id.clone(), record.clone());
        let write = move |draft: &mut Draft<'_, SandboxRecord>| {
            // One that was killed meanwhile is not written down again.
            if draft.get(&id).is_some() {
                draft.put(id, written);
            }
            Ok(())
        };
        self.records.change(write).await?;
        sandbox.set(record);
        Ok(())
    }

    /// Changes what is known of a sandbox, since it is so, whether it can be written down or not.
    pub(super) async fn edit_anyhow(&self, sandbox: &Sandbox, change: impl Fn(&mut SandboxRecord) + Send + Sync) {
        if let Err(error) = self.edit_now(sandbox, &change).await {
            tracing::warn!(id = %sandbox.id, %error, "its record was not written");
            let mut record = sandbox.record();
            change(&mut record);
            sandbox.set(record);
        }
    }
}
