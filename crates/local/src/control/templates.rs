//! What sandboxes can be made from: this machine's programs and an empty home (`base`), templates built on it, and snapshots
//! of sandboxes.

#[cfg(test)]
mod broken;
mod build;
mod builds;
mod handlers;
mod name;
mod snapshots;
mod tags;
mod upload;

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::Arc;

use jiff::Timestamp;
use oncebox_protocol::api::{BuildLogEntry, BuildStatus, BuildStatusReason, EnvVars};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::lifeline::Defaults;
use crate::refusal::Refusal;
use crate::registry::{Registry, remove};
use crate::store::{Records, Store, StoreError};
use crate::uses::{Use, Uses};

pub(super) use build::boot;
pub(super) use handlers::*;
pub(super) use name::TemplateName;
pub(super) use snapshots::{create_snapshot, list_snapshots};
pub(super) use tags::*;
pub(super) use upload::{receive as receive_upload, upload_link};

/// The id and name of the template that is always there.
pub(super) const BASE: &str = "base";
/// What SDKs of the code interpreter ask for: the same, since every sandbox has the interpreter's port.
const CODE_INTERPRETER: &str = "code-interpreter-v1";
/// What SDKs of desktops ask for: the same, since every sandbox has this machine's programs, those of a desktop included where
/// they are installed.
const DESKTOP: &str = "desktop";
/// All that are there without having been built.
const BUILT_IN: [&str; 3] = [BASE, CODE_INTERPRETER, DESKTOP];
/// The tag that is meant where none is named.
pub(super) const DEFAULT_TAG: &str = "default";
/// Most templates of a server, snapshots included.
const MAX_TEMPLATES: usize = 10_000;

/// A template, or a snapshot.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct TemplateRecord {
    pub(crate) id: String,
    pub(crate) name: Option<String>,
    pub(crate) public: bool,
    pub(crate) created_at: Timestamp,
    pub(crate) updated_at: Timestamp,
    pub(crate) last_spawned_at: Option<Timestamp>,
    pub(crate) spawn_count: i64,
    /// The build that each tag stands for.
    pub(crate) tags: BTreeMap<String, Tag>,
    /// The sandbox that it is a snapshot of, if it is one.
    pub(crate) snapshot_of: Option<String>,
    pub(crate) builds: Vec<BuildRecord>,
}

/// A tag of a template.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Tag {
    pub(crate) build_id: String,
    pub(crate) created_at: Timestamp,
}

/// A build of a template.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct BuildRecord {
    pub(crate) id: String,
    pub(crate) status: BuildStatus,
    /// The tags that it gets when it is ready.
    pub(crate) tags: Vec<String>,
    pub(crate) cpu_count: i32,
    pub(crate) memory_mb: i32,
    pub(crate) created_at: Timestamp,
    pub(crate) updated_at: Timestamp,
    pub(crate) finished_at: Option<Timestamp>,
    pub(crate) reason: Option<BuildStatusReason>,
    /// What it left for builds and sandboxes that begin with it.
    #[serde(default)]
    pub(crate) settings: Settings,
    /// It was ready, and nothing leads to it any more: its files are gone.
    #[serde(default)]
    pub(crate) superseded: bool,
}

/// What a build leaves besides files.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Settings {
    pub(crate) env: EnvVars,
    pub(crate) workdir: Option<String>,
    pub(crate) user: Option<String>,
    pub(crate) start_cmd: Option<String>,
    pub(crate) ready_cmd: Option<String>,
}

impl Settings {
    /// What sandboxes made from it keep.
    pub(crate) fn defaults(&self) -> Defaults {
        Defaults { env: self.env.clone(), workdir: self.workdir.clone(), user: self.user.clone() }
    }

    /// Of a sandbox's files: what it kept, without anything to start.
    pub(crate) fn of(defaults: Defaults) -> Self {
        let Defaults { env, workdir, user } = defaults;
        Self { env, workdir, user, ..Self::default() }
    }
}

impl TemplateRecord {
    pub(super) fn build(&self, id: &str) -> Option<&BuildRecord> {
        self.builds.iter().find(|build| build.id == id)
    }

    pub(super) fn build_mut(&mut self, id: &str) -> Option<&mut BuildRecord> {
        self.builds.iter_mut().find(|build| build.id == id)
    }

    /// Marks the builds that are ready and that no tag stands for: nothing can be made from them. Returns those that had
    /// files until now, which [`Templates::remove_files`] removes once this is written down.
    pub(super) fn supersede(&mut self) -> Vec<String> {
        let Self { tags, builds, .. } = self;
        let is_over = |build: &&mut BuildRecord| {
            build.status == BuildStatus::Ready
                && !build.superseded
                && !tags.values().any(|tag| tag.build_id == build.id)
        };
        builds
            .iter_mut()
            .filter(is_over)
            .map(|build| {
                build.superseded = true;
                build.id.clone()
            })
            .collect()
    }

    /// The build that a tag stands for, if it can be used.
    pub(super) fn tagged(&self, tag: &str) -> Option<&BuildRecord> {
        let build = self.build(&self.tags.get(tag)?.build_id)?;
        (build.status == BuildStatus::Ready).then_some(build)
    }
}

/// What a sandbox begins with.
#[derive(Debug, Clone, Default)]
pub(crate) struct Source {
    pub(crate) template_id: String,
    pub(crate) alias: Option<String>,
    /// The build whose files it gets; none for the base template.
    pub(crate) build: Option<String>,
    pub(crate) settings: Settings,
    /// Keeps the build's files.
    pub(crate) used: Option<Arc<Use>>,
}

/// All templates of a server.
pub(crate) struct Templates {
    pub(super) records: Records<TemplateRecord>,
    pub(super) registry: Arc<Registry>,
    /// Logs of builds, by the build's id.
    pub(super) logs: Mutex<HashMap<String, Vec<BuildLogEntry>>>,
    /// One build at a time: they copy and unpack, and would only slow each other down.
    pub(super) building: tokio::sync::Semaphore,
    /// Builds whose files are being copied.
    uses: Uses,
}

impl Templates {
    /// The templates that the store has. Builds that were under way have failed. Blocks.
    pub(crate) fn open(registry: Arc<Registry>, store: &Store) -> Result<Self, StoreError> {
        let records: Records<TemplateRecord> = Records::open(store, "template")?;
        let is_cut = |build: &BuildRecord| build.status == BuildStatus::Building;
        records.change_blocking(|draft| {
            let cut: Vec<TemplateRecord> = draft
                .all()
                .map(|(_, template)| template)
                .filter(|one| one.builds.iter().any(is_cut))
                .cloned()
                .collect();
            for mut template in cut {
                for build in template.builds.iter_mut().filter(|build| is_cut(build)) {
                    build.fail("the server ended during this build", None);
                }
                draft.put(template.id.clone(), template);
            }
            Ok::<_, StoreError>(())
        })?;
        Ok(Self {
            records,
            registry,
            logs: Mutex::default(),
            building: tokio::sync::Semaphore::new(1),
            uses: Uses::default(),
        })
    }

    /// Whether a record speaks of a build that has files.
    pub(crate) fn knows(&self, build: &str) -> bool {
        let has_files = |build: &BuildRecord| !build.superseded;
        self.records.find(|template| template.build(build).is_some_and(has_files)).is_some()
    }

    /// What a sandbox of that name begins with.
    pub(crate) fn resolve(&self, name: &str) -> Result<Source, Refusal> {
        let unknown = || Refusal::not_found(format!("template '{}' not found", name.escape_debug()));
        let parsed = TemplateName::parse(name).map_err(|_| unknown())?;
        let tag = parsed.tag.as_deref().unwrap_or(DEFAULT_TAG);
        let Some(template) = self.find(&parsed.name) else {
            if tag == DEFAULT_TAG
                && let Some(name) = BUILT_IN.into_iter().find(|name| *name == parsed.name)
            {
                return Ok(Source { template_id: name.to_owned(), alias: Some(name.to_owned()), ..Source::default() });
            }
            return Err(unknown());
        };
        let mut found = Some(template);
        loop {
            let not_ready = || {
                Refusal::not_found(format!("template '{}' has no build with tag '{tag}' that is ready", parsed.name))
            };
            let template = found.ok_or_else(unknown)?;
            let build = template.tagged(tag).ok_or_else(not_ready)?;
            let used = self.uses.take(&build.id);
            // Once more, now that it stays: it may have been superseded just before.
            found = self.find(&parsed.name);
            if found.as_ref().and_then(|template| template.tagged(tag)).is_some_and(|now| now.id == build.id) {
                return Ok(Source {
                    build: Some(build.id.clone()),
                    settings: build.settings.clone(),
                    template_id: template.id.clone(),
                    alias: template.name.clone(),
                    used: Some(Arc::new(used)),
                });
            }
        }
    }

    /// The id of the template that a name means, if there is one.
    pub(crate) fn id_of(&self, name: &str) -> Option<String> {
        let name = TemplateName::parse(name).ok()?.name;
        match self.find(&name) {
            Some(template) => Some(template.id),
            None => BUILT_IN.contains(&name.as_str()).then_some(name),
        }
    }

    /// The template of that id or name.
    pub(super) fn find(&self, name: &str) -> Option<TemplateRecord> {
        self.records.get(name).or_else(|| self.records.find(|template| template.name.as_deref() == Some(name)))
    }

    /// The same for what a request names, which may be encoded and carry a team and a tag.
    pub(super) fn required(&self, given: &str) -> Result<TemplateRecord, Refusal> {
        let unknown = || Refusal::not_found(format!("template '{}' not found", given.escape_debug()));
        let name = TemplateName::parse(given).map_err(|_| unknown())?.name;
        self.find(&name).ok_or_else(unknown)
    }

    /// Notes that a sandbox was made from a template.
    pub(crate) async fn spawned(&self, id: &str) {
        let id = id.to_owned();
        let noted = self.records.change(move |draft| {
            if let Some(mut template) = draft.get(&id).cloned() {
                template.spawn_count += 1;
                template.last_spawned_at = Some(Timestamp::now());
                draft.put(id, template);
            }
            Ok::<_, StoreError>(())
        });
        if let Err(error) = noted.await {
            // A count is not worth a sandbox.
            tracing::warn!(%error, "a template's use was not counted");
        }
    }

    /// Removes a template, its builds and their files.
    pub(super) async fn delete(&self, id: &str) -> Result<bool, Refusal> {
        let Some(template) = self.records.take(id).await? else { return Ok(false) };
        for build in template.builds {
            self.logs.lock().remove(&build.id);
            self.uses.ended(&build.id).await;
            remove(self.files(&build.id)).await;
        }
        upload::forget(self.registry.state(), id).await;
        Ok(true)
    }

    /// Removes the files of builds that were superseded, in the background: as soon as nobody copies them.
    pub(super) fn remove_files(&self, builds: Vec<String>) {
        for build in builds {
            let (uses, files) = (self.uses.clone(), self.files(&build));
            tokio::spawn(async move {
                uses.ended(&build).await;
                remove(files).await;
            });
        }
    }

    pub(super) fn files(&self, build: &str) -> PathBuf {
        self.registry.state().template(build)
    }

    /// Refuses another template where there are too many.
    pub(super) fn check_room(count: usize) -> Result<(), Refusal> {
        if count < MAX_TEMPLATES {
            return Ok(());
        }
        Err(Refusal::new(
            http::StatusCode::TOO_MANY_REQUESTS,
            format!("there are {MAX_TEMPLATES} templates, the limit"),
        ))
    }
}
