//! The server's records: kept in memory, and with `--state` in a database too, written there before anyone is told.
//!
//! One kind of record is one [`Records`]: a sorted map from id to record. A change is decided on the map, written, and only
//! then seen: what was acknowledged is in the database, and what is in the database is whole. The database is one file,
//! held by one server at a time.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use parking_lot::{Mutex, RwLock};
use redb::{Database, ReadableDatabase, TableDefinition};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// All records, by `kind/id`.
const TABLE: TableDefinition<'static, &str, &[u8]> = TableDefinition::new("records");

/// Why a record could not be read or written.
#[derive(Debug, Clone, thiserror::Error)]
#[error("the server's records: {0}")]
pub(crate) struct StoreError(String);

impl StoreError {
    pub(crate) fn of(error: impl std::fmt::Display) -> Self {
        Self(error.to_string())
    }
}

/// Where records are written; nowhere, for a server that keeps nothing.
#[derive(Clone, Default)]
pub(crate) struct Store {
    database: Option<Arc<Mutex<Option<Database>>>>,
    /// How many writes succeed before one fails.
    #[cfg(test)]
    writes_left: Arc<Mutex<Option<usize>>>,
}

impl Store {
    /// A store in this file, which is made if it is missing. Blocks.
    pub(crate) fn open(file: &Path) -> Result<Self, StoreError> {
        let database = Database::create(file).map_err(StoreError::of)?;
        let begin = database.begin_write().map_err(StoreError::of)?;
        // So that reading finds the table.
        begin.open_table(TABLE).map_err(StoreError::of)?;
        begin.commit().map_err(StoreError::of)?;
        Ok(Self {
            database: Some(Arc::new(Mutex::new(Some(database)))),
            #[cfg(test)]
            writes_left: Arc::default(),
        })
    }

    /// Whether records outlive the server.
    pub(crate) fn is_kept(&self) -> bool {
        self.database.is_some()
    }

    /// Lets go of the file. What is to be written after this is refused.
    pub(crate) fn close(&self) {
        if let Some(database) = &self.database {
            database.lock().take();
        }
    }

    fn load<T: DeserializeOwned>(&self, kind: &str) -> Result<BTreeMap<String, T>, StoreError> {
        let mut all = BTreeMap::new();
        let Some(database) = &self.database else { return Ok(all) };
        let database = database.lock();
        let database = database.as_ref().ok_or_else(closed)?;
        let read = database.begin_read().map_err(StoreError::of)?;
        let table = read.open_table(TABLE).map_err(StoreError::of)?;
        // '0' comes right after '/'.
        let (first, end) = (format!("{kind}/"), format!("{kind}0"));
        for entry in table.range(first.as_str()..end.as_str()).map_err(StoreError::of)? {
            let (key, value) = entry.map_err(StoreError::of)?;
            let id = key.value().strip_prefix(&first).unwrap_or_default().to_owned();
            let record = serde_json::from_slice(value.value())
                .map_err(|error| StoreError(format!("{} cannot be read: {error}", key.value())))?;
            all.insert(id, record);
        }
        Ok(all)
    }

    fn write<T: Serialize>(&self, kind: &str, changes: &[(String, Option<T>)]) -> Result<(), StoreError> {
        let Some(database) = &self.database else { return Ok(()) };
        #[cfg(test)]
        self.may_write()?;
        let database = database.lock();
        let database = database.as_ref().ok_or_else(closed)?;
        let write = database.begin_write().map_err(StoreError::of)?;
        {
            let mut table = write.open_table(TABLE).map_err(StoreError::of)?;
            for (id, record) in changes {
                let key = format!("{kind}/{id}");
                match record {
                    Some(record) => {
                        let bytes = serde_json::to_vec(record).map_err(StoreError::of)?;
                        table.insert(key.as_str(), bytes.as_slice()).map_err(StoreError::of)?;
                    }
                    None => {
                        table.remove(key.as_str()).map_err(StoreError::of)?;
                    }
                }
            }
        }
        write.commit().map_err(StoreError::of)
    }
}

#[cfg(test)]
impl Store {
    /// Lets so many writes succeed, and fails those that follow.
    pub(crate) fn fail_after(&self, writes: usize) {
        *self.writes_left.lock() = Some(writes);
    }

    fn may_write(&self) -> Result<(), StoreError> {
        let mut left = self.writes_left.lock();
        let Some(left) = &mut *left else { return Ok(()) };
        *left = left.checked_sub(1).ok_or_else(|| StoreError("no space left, as a test wants it".to_owned()))?;
        Ok(())
    }
}

fn closed() -> StoreError {
    StoreError("the server is stopping".to_owned())
}

/// All records of one kind.
pub(crate) struct Records<T>(Arc<Inner<T>>);

struct Inner<T> {
    kind: &'static str,
    store: Store,
    map: RwLock<BTreeMap<String, T>>,
    /// Held while a change is decided and written, so that changes follow one another in memory as in the database.
    changing: Mutex<()>,
}

impl<T> Clone for Records<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T: Clone + Serialize + DeserializeOwned + Send + Sync + 'static> Records<T> {
    /// The records of that kind that the store has. Blocks.
    pub(crate) fn open(store: &Store, kind: &'static str) -> Result<Self, StoreError> {
        let map = RwLock::new(store.load(kind)?);
        Ok(Self(Arc::new(Inner { kind, store: store.clone(), map, changing: Mutex::default() })))
    }

    pub(crate) fn get(&self, id: &str) -> Option<T> {
        self.0.map.read().get(id).cloned()
    }

    /// All of them, by id.
    pub(crate) fn all(&self) -> Vec<T> {
        self.0.map.read().values().cloned().collect()
    }

    /// All of them with what they are called.
    pub(crate) fn entries(&self) -> Vec<(String, T)> {
        self.0.map.read().iter().map(|(id, record)| (id.clone(), record.clone())).collect()
    }

    /// The first that fits.
    pub(crate) fn find(&self, fits: impl Fn(&T) -> bool) -> Option<T> {
        self.0.map.read().values().find(|record| fits(record)).cloned()
    }

    pub(crate) fn len(&self) -> usize {
        self.0.map.read().len()
    }

    /// Makes a change, whole or not at all. Once begun it is made, even if the caller stops waiting.
    ///
    /// # Errors
    /// What `decide` says, in which case nothing changes; or that the change could not be written, and was not made.
    pub(crate) async fn change<R, E>(
        &self,
        decide: impl FnOnce(&mut Draft<'_, T>) -> Result<R, E> + Send + 'static,
    ) -> Result<R, E>
    where
        R: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        let this = self.clone();
        if !self.0.store.is_kept() {
            return this.change_blocking(decide);
        }
        let changed = tokio::task::spawn_blocking(move || this.change_blocking(decide)).await;
        changed.unwrap_or_else(|error| Err(StoreError::of(error).into()))
    }

    /// The same for those who may block.
    pub(crate) fn change_blocking<R, E: From<StoreError>>(
        &self,
        decide: impl FnOnce(&mut Draft<'_, T>) -> Result<R, E>,
    ) -> Result<R, E> {
        let _turn = self.0.changing.lock();
        let (result, changes) = {
            let map = self.0.map.read();
            let mut draft = Draft { map: &map, changes: Vec::new() };
            let result = decide(&mut draft)?;
            (result, draft.changes)
        };
        if !changes.is_empty() {
            self.0.store.write(self.0.kind, &changes)?;
            let mut map = self.0.map.write();
            for (id, record) in changes {
                match record {
                    Some(record) => map.insert(id, record),
                    None => map.remove(&id),
                };
            }
        }
        Ok(result)
    }

    /// Sets one record.
    pub(crate) async fn put(&self, id: &str, record: T) -> Result<(), StoreError> {
        let id = id.to_owned();
        self.change(move |draft| {
            draft.put(id, record);
            Ok(())
        })
        .await
    }

    /// Removes one record and returns it.
    pub(crate) async fn take(&self, id: &str) -> Result<Option<T>, StoreError> {
        let id = id.to_owned();
        self.change(move |draft| Ok(draft.take(&id))).await
    }
}

/// A change that is being decided.
pub(crate) struct Draft<'m, T> {
    map: &'m BTreeMap<String, T>,
    changes: Vec<(String, Option<T>)>,
}

impl<T: Clone> Draft<'_, T> {
    /// A record as it is before the change.
    pub(crate) fn get(&self, id: &str) -> Option<&T> {
        self.map.get(id)
    }

    /// All records as they are before the change.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&String, &T)> {
        self.map.iter()
    }

    /// How many there are before the change.
    pub(crate) fn len(&self) -> usize {
        self.map.len()
    }

    pub(crate) fn put(&mut self, id: String, record: T) {
        self.changes.push((id, Some(record)));
    }

    /// Removes a record and returns what it was.
    pub(crate) fn take(&mut self, id: &str) -> Option<T> {
        let found = self.map.get(id).cloned();
        if found.is_some() {
            self.changes.push((id.to_owned(), None));
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn records_outlive_their_store_and_kinds_do_not_mix() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("records");
        {
            let store = Store::open(&file).unwrap();
            let (ones, others) = (Records::open(&store, "one").unwrap(), Records::open(&store, "one0").unwrap());
            ones.put("a", 1_u32).await.unwrap();
            ones.put("b", 2_u32).await.unwrap();
            others.put("a", "other".to_owned()).await.unwrap();
            assert_eq!(ones.take("b").await.unwrap(), Some(2));
            assert!(Store::open(&file).is_err(), "one server at a time");
        }
        let store = Store::open(&file).unwrap();
        assert_eq!(Records::<u32>::open(&store, "one").unwrap().entries(), [("a".to_owned(), 1)]);
        assert_eq!(Records::<String>::open(&store, "one0").unwrap().all(), ["other"]);
    }

    #[tokio::test]
    async fn a_change_that_fails_changes_nothing() {
        let records = Records::open(&Store::default(), "one").unwrap();
        records.put("a", 1_u32).await.unwrap();
        let failed: Result<(), StoreError> = records
            .change(|draft| {
                draft.put("b".to_owned(), 2);
                draft.take("a");
                Err(StoreError("no".to_owned()))
            })
            .await;
        assert!(failed.is_err());
        assert_eq!(records.entries(), [("a".to_owned(), 1)]);
    }
}
