//! A template for tests.

use std::collections::BTreeMap;

use jiff::Timestamp;
use oncebox_protocol::api::BuildStatus;

use super::{BuildRecord, DEFAULT_TAG, Settings, Tag, TemplateRecord, Templates};
use crate::store::StoreError;

impl Templates {
    /// Adds one whose start command cannot be started.
    pub(in crate::control) async fn add_broken(&self, name: &str) -> Result<(), StoreError> {
        let now = Timestamp::now();
        let settings =
            Settings { user: Some("nobody-there".into()), start_cmd: Some("true".into()), ..Settings::default() };
        let build = BuildRecord {
            id: "build".into(),
            status: BuildStatus::Ready,
            tags: vec![DEFAULT_TAG.into()],
            cpu_count: 1,
            memory_mb: 1,
            created_at: now,
            updated_at: now,
            finished_at: Some(now),
            reason: None,
            settings,
            superseded: false,
        };
        let template = TemplateRecord {
            id: name.into(),
            name: Some(name.into()),
            public: false,
            created_at: now,
            updated_at: now,
            last_spawned_at: None,
            spawn_count: 0,
            tags: BTreeMap::from([(DEFAULT_TAG.into(), Tag { build_id: "build".into(), created_at: now })]),
            snapshot_of: None,
            builds: vec![build],
        };
        std::fs::create_dir(self.files("build")).map_err(StoreError::of)?;
        self.records.put(name, template).await
    }
}
