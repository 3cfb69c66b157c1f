//! Volumes: folders that outlive sandboxes and can be shown in several.

pub(crate) mod tree;

use std::sync::Arc;

use http::StatusCode;
use jiff::Timestamp;
use oncebox_protocol::SecretString;
use serde::{Deserialize, Serialize};

use crate::ids;
use crate::refusal::Refusal;
use crate::registry::{MountedVolume, Registry, remove};
use crate::store::{Draft, Records, Store, StoreError};
use crate::uses::{Use, Uses};

/// Most volumes of a server.
const MAX_VOLUMES: usize = 1000;

/// A volume.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct VolumeRecord {
    pub(crate) id: String,
    pub(crate) name: String,
    /// What its content API asks for.
    pub(crate) token: SecretString,
    pub(crate) created_at: Timestamp,
}

/// All volumes of a server.
pub(crate) struct Volumes {
    records: Records<VolumeRecord>,
    registry: Arc<Registry>,
    /// Those that sandboxes are being made with.
    uses: Uses,
}

impl Volumes {
    /// The volumes that the store has. Blocks.
    pub(crate) fn open(registry: Arc<Registry>, store: &Store) -> Result<Self, StoreError> {
        Ok(Self { records: Records::open(store, "volume")?, registry, uses: Uses::default() })
    }

    pub(crate) fn get(&self, id: &str) -> Option<VolumeRecord> {
        self.records.get(id)
    }

    /// The volumes of these names. None of them is deleted as long as its use is kept.
    pub(crate) async fn named(&self, names: Vec<String>) -> Result<Vec<(VolumeRecord, Use)>, Refusal> {
        let uses = self.uses.clone();
        // As a change, since deleting is one: they follow one another.
        let find = move |draft: &mut Draft<'_, VolumeRecord>| {
            let each = names.into_iter().map(|name| {
                let found = draft.all().map(|(_, volume)| volume).find(|volume| volume.name == name).cloned();
                let unknown = || Refusal::not_found(format!("volume '{}' not found", name.escape_debug()));
                let volume = found.ok_or_else(unknown)?;
                let used = uses.take(&volume.id);
                Ok((volume, used))
            });
            each.collect()
        };
        self.records.change(find).await
    }

    /// Whether a sandbox is being made with one of them.
    #[cfg(test)]
    pub(crate) fn are_being_used(&self, id: &str) -> bool {
        self.uses.has(id)
    }

    /// All of them, by id.
    pub(crate) fn all(&self) -> Vec<VolumeRecord> {
        self.records.all()
    }

    /// Makes an empty volume.
    pub(crate) async fn create(&self, name: String) -> Result<VolumeRecord, Refusal> {
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
        if !(1..=128).contains(&name.len()) || !name.bytes().all(allowed) {
            return Err(Refusal::bad_request("a volume's name has 1 to 128 letters, digits, - and _"));
        }
        let volume = VolumeRecord {
            id: ids::resource_id("v")?,
            name,
            token: ids::secret("vol_")?.into(),
            created_at: Timestamp::now(),
        };
        let folder = self.registry.state().volume(&volume.id);
        tokio::fs::create_dir(&folder).await?;
        let record = volume.clone();
        let made = self.records.change(move |draft| {
            if draft.all().any(|(_, other)| other.name == record.name) {
                return Err(Refusal::bad_request(format!("a volume of the name '{}' exists", record.name)));
            }
            if draft.len() >= MAX_VOLUMES {
                let message = format!("there are {MAX_VOLUMES} volumes, the limit");
                return Err(Refusal::new(StatusCode::TOO_MANY_REQUESTS, message));
            }
            draft.put(record.id.clone(), record);
            Ok(())
        });
        if let Err(refusal) = made.await {
            remove(folder).await;
            return Err(refusal);
        }
        Ok(volume)
    }

    /// Removes a volume with all that is in it; `false` if there was none.
    pub(crate) async fn delete(&self, id: &str) -> Result<bool, Refusal> {
        let (registry, uses, key) = (Arc::clone(&self.registry), self.uses.clone(), id.to_owned());
        let take = move |draft: &mut Draft<'_, VolumeRecord>| {
            // In this order: a sandbox is there before it is no longer being made.
            if uses.has(&key) {
                return Err(Refusal::conflict("the volume is in use by a sandbox that is being made"));
            }
            let shows = |volumes: &[MountedVolume]| volumes.iter().any(|volume| volume.volume_id == key);
            if let Some(sandbox) = registry.all().into_iter().find(|sandbox| shows(&sandbox.record().volumes)) {
                return Err(Refusal::conflict(format!("the volume is in use by sandbox {}", sandbox.id)));
            }
            Ok(draft.take(&key))
        };
        if self.records.change(take).await?.is_none() {
            return Ok(false);
        }
        remove(self.registry.state().volume(id)).await;
        Ok(true)
    }
}
