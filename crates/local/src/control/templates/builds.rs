//! Builds: started, followed, ended.

use std::sync::Arc;

use jiff::Timestamp;
use oncebox_protocol::api::{BuildLogEntry, BuildStatus, BuildStatusReason, LogLevel, StartBuild};

use super::build::{BuildError, Recipe, build};
use super::{BuildRecord, Settings, Source, Tag, TemplateRecord, Templates};
use crate::refusal::Refusal;
use crate::registry::remove;
use crate::store::Draft;

/// Entries of a build's log that are kept, and the longest of them.
const MAX_LOG: usize = 10_000;
const MAX_LINE: usize = 4096;
/// Most steps of a build.
const MAX_STEPS: usize = 1000;
/// Logs that are kept; of the builds above that, the oldest are forgotten first.
const MAX_LOGS: usize = 200;

impl BuildRecord {
    pub(super) fn fail(&mut self, why: impl Into<String>, step: Option<String>) {
        self.status = BuildStatus::Error;
        self.updated_at = Timestamp::now();
        self.finished_at = Some(self.updated_at);
        self.reason = Some(BuildStatusReason { message: why.into(), step, log_entries: None });
    }
}

impl Templates {
    /// Starts a build that waits. A second call for one that has been started changes nothing.
    pub(super) async fn start(
        self: &Arc<Self>,
        template: &str,
        build_id: &str,
        start: StartBuild,
    ) -> Result<(), Refusal> {
        if start.steps.as_ref().is_some_and(|steps| steps.len() > MAX_STEPS) {
            return Err(Refusal::bad_request(format!("a build has at most {MAX_STEPS} steps")));
        }
        let source = self.source(&start)?;
        let (template_id, id) = (template.to_owned(), build_id.to_owned());
        let begun = self.records.change(move |draft: &mut Draft<'_, TemplateRecord>| {
            let gone = || Refusal::not_found(format!("build '{}' not found", id.escape_debug()));
            let mut template = draft.get(&template_id).cloned().ok_or_else(gone)?;
            let build = template.build_mut(&id).ok_or_else(gone)?;
            match build.status {
                BuildStatus::Waiting => {}
                BuildStatus::Error => {
                    let why = build.reason.as_ref().map_or("it failed", |reason| reason.message.as_str());
                    return Err(Refusal::bad_request(format!("this build cannot be started: {why}")));
                }
                _ => return Ok(false),
            }
            build.status = BuildStatus::Building;
            build.updated_at = Timestamp::now();
            draft.put(template_id, template);
            Ok(true)
        });
        if begun.await? {
            let recipe = Recipe { source, start };
            tokio::spawn(Arc::clone(self).run(template.to_owned(), build_id.to_owned(), recipe));
        }
        Ok(())
    }

    /// What a build begins with.
    fn source(&self, start: &StartBuild) -> Result<Source, Refusal> {
        if let Some(template) = &start.from_template {
            return self.resolve(template);
        }
        let image = start.from_image.as_deref().unwrap_or_default();
        // What the SDKs write for the base image.
        let base = matches!(image, "e2bdev/base" | "e2bdev/base:latest") && start.from_image_registry.is_none();
        if base {
            return self.resolve(super::BASE);
        }
        Err(Refusal::bad_request(format!(
            "the local server has no image '{}' and fetches none: use `FROM e2bdev/base`, which has this machine's programs, or \
             begin from a template that is there",
            image.escape_debug()
        )))
    }

    async fn run(self: Arc<Self>, template: String, build_id: String, recipe: Recipe) {
        self.make_room_for_logs(&build_id);
        let log = {
            let (this, id) = (Arc::clone(&self), build_id.clone());
            move |level: LogLevel, step: Option<&str>, message: &str| this.log(&id, level, step, message)
        };
        let built = {
            let _turn = self.building.acquire().await;
            build(&self, &template, &build_id, &recipe, &log).await
        };
        match &built {
            Ok(_) => log(LogLevel::Info, None, "Build finished"),
            Err(error) => log(LogLevel::Error, error.step.as_deref(), &error.why),
        }
        if let Err(error) = self.finish(template, build_id.clone(), built).await {
            tracing::warn!(%error, "a build's end was not written down");
            remove(self.files(&build_id)).await;
        }
    }

    async fn finish(
        &self,
        template_id: String,
        build_id: String,
        built: Result<Settings, BuildError>,
    ) -> Result<(), FinishError> {
        let superseded = self
            .records
            .change(move |draft: &mut Draft<'_, TemplateRecord>| {
                let mut template = draft.get(&template_id).cloned().ok_or(FinishError::Gone)?;
                let build = template.build_mut(&build_id).ok_or(FinishError::Gone)?;
                let now = Timestamp::now();
                let tags = match built {
                    Ok(settings) => {
                        build.status = BuildStatus::Ready;
                        build.settings = settings;
                        build.updated_at = now;
                        build.finished_at = Some(now);
                        build.tags.clone()
                    }
                    Err(error) => {
                        build.fail(error.why, error.step);
                        Vec::new()
                    }
                };
                for tag in tags {
                    template.tags.insert(tag, Tag { build_id: build_id.clone(), created_at: now });
                }
                template.updated_at = now;
                let superseded = template.supersede();
                draft.put(template_id, template);
                Ok::<_, FinishError>(superseded)
            })
            .await?;
        self.remove_files(superseded);
        Ok(())
    }

    fn make_room_for_logs(&self, build_id: &str) {
        let mut logs = self.logs.lock();
        while logs.len() >= MAX_LOGS {
            let oldest = logs
                .iter()
                .min_by_key(|(_, entries)| entries.last().map(|entry| entry.timestamp))
                .map(|(id, _)| id.clone());
            let Some(oldest) = oldest else { break };
            logs.remove(&oldest);
        }
        logs.insert(build_id.to_owned(), Vec::new());
    }

    fn log(&self, build_id: &str, level: LogLevel, step: Option<&str>, message: &str) {
        let mut logs = self.logs.lock();
        let Some(log) = logs.get_mut(build_id) else { return };
        if log.len() >= MAX_LOG {
            return;
        }
        let end = message.char_indices().map(|(at, _)| at).find(|at| *at >= MAX_LINE).unwrap_or(message.len());
        let message = message.get(..end).unwrap_or_default().to_owned();
        log.push(BuildLogEntry { timestamp: Timestamp::now(), message, level, step: step.map(str::to_owned) });
    }
}

#[derive(Debug, thiserror::Error)]
enum FinishError {
    #[error("its template was deleted")]
    Gone,
    #[error("{0}")]
    Store(#[from] crate::store::StoreError),
}
