//! Snapshots: templates that are copies of a sandbox's files.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use http::StatusCode;
use jiff::Timestamp;
use oncebox_protocol::api::{BuildStatus, NewSnapshot, Snapshot};
use serde::Deserialize;

use super::{BASE, BuildRecord, DEFAULT_TAG, Settings, Tag, TemplateName, TemplateRecord, Templates};
use crate::control::Control;
use crate::control::body::JsonBody;
use crate::control::paging::{Page, PageQuery, page};
use crate::control::sandboxes::{IdResult, find};
use crate::ids;
use crate::refusal::Refusal;
use crate::registry::remove;
use crate::store::Draft;

/// `POST /sandboxes/{id}/snapshots`. Files are copied, processes are not: the `memory` that may be asked for is not kept.
pub(crate) async fn create_snapshot(
    State(control): State<Control>,
    id: IdResult,
    JsonBody(new): JsonBody<NewSnapshot>,
) -> Result<(StatusCode, Json<Snapshot>), Refusal> {
    let sandbox = find(&control, id)?;
    let named = new.name.as_deref().map(TemplateName::parse).transpose()?;
    if named.as_ref().is_some_and(|named| named.name == BASE) {
        return Err(Refusal::new(StatusCode::FORBIDDEN, "the template 'base' is the local server's own"));
    }
    // In a task of its own: what is copied is recorded or removed even if the client goes away.
    let made = tokio::spawn(async move { make(&control, &sandbox, named).await });
    let template = made.await.map_err(Refusal::internal)??;
    Ok((StatusCode::CREATED, Json(show(&template))))
}

async fn make(
    control: &Control,
    sandbox: &std::sync::Arc<crate::registry::Sandbox>,
    named: Option<TemplateName>,
) -> Result<TemplateRecord, Refusal> {
    let files = control.registry.copy_files(sandbox).await?;
    let build_id = ids::uuid()?;
    let kept = control.templates.files(&build_id);
    if let Err(error) = tokio::fs::rename(&files, &kept).await {
        remove(files).await;
        return Err(error.into());
    }
    let settings = Settings::of(sandbox.record().defaults);
    let (id, sandbox_id, now) = (ids::resource_id("s")?, sandbox.id.clone(), Timestamp::now());
    let change = move |draft: &mut Draft<'_, TemplateRecord>| {
        let TemplateName { name, tag } = match named {
            Some(TemplateName { name, tag }) => TemplateName { name, tag },
            None => TemplateName { name: String::new(), tag: None },
        };
        let tag = tag.unwrap_or_else(|| DEFAULT_TAG.to_owned());
        let same_name = |template: &&TemplateRecord| template.name.as_deref() == Some(&name) && !name.is_empty();
        let found = draft.all().map(|(_, template)| template).find(same_name).cloned();
        if found.as_ref().is_some_and(|template| template.snapshot_of.is_none()) {
            return Err(Refusal::conflict(format!("'{name}' is the name of a template")));
        }
        if found.is_none() {
            Templates::check_room(draft.len())?;
        }
        // A snapshot that has the name already gets another build, as a template would.
        let mut template = found.unwrap_or_else(|| TemplateRecord {
            id,
            name: (!name.is_empty()).then_some(name),
            public: false,
            created_at: now,
            updated_at: now,
            last_spawned_at: None,
            spawn_count: 0,
            tags: BTreeMap::new(),
            snapshot_of: None,
            builds: Vec::new(),
        });
        template.snapshot_of = Some(sandbox_id);
        template.updated_at = now;
        template.builds.push(BuildRecord {
            id: build_id.clone(),
            status: BuildStatus::Ready,
            tags: vec![tag.clone()],
            cpu_count: 0,
            memory_mb: 0,
            created_at: now,
            updated_at: now,
            finished_at: Some(now),
            reason: None,
            settings: settings.clone(),
            superseded: false,
        });
        template.tags.insert(tag, Tag { build_id, created_at: now });
        let superseded = template.supersede();
        template.forget_old_builds();
        draft.put(template.id.clone(), template.clone());
        Ok((template, superseded))
    };
    match control.templates.records.change(change).await {
        Ok((template, superseded)) => {
            control.templates.remove_files(superseded);
            Ok(template)
        }
        Err(refusal) => {
            remove(kept).await;
            Err(refusal)
        }
    }
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SnapshotsQuery {
    #[serde(rename = "sandboxID")]
    sandbox_id: Option<String>,
    name: Option<String>,
    limit: Option<usize>,
    next_token: Option<String>,
}

/// `GET /snapshots`.
pub(crate) async fn list_snapshots(
    State(control): State<Control>,
    query: Result<Query<SnapshotsQuery>, QueryRejection>,
) -> Result<Page<Snapshot>, Refusal> {
    let Query(query) = query?;
    let name = query.name.as_deref().map(TemplateName::parse).transpose()?;
    let mut found = control.templates.records.all();
    found.retain(|template| {
        template.snapshot_of.is_some()
            && query.sandbox_id.as_ref().is_none_or(|id| template.snapshot_of.as_ref() == Some(id))
            && name.as_ref().is_none_or(|name| template.name.as_ref() == Some(&name.name))
    });
    let pages = PageQuery { limit: query.limit, next_token: query.next_token };
    page(found, &pages, |template| template.id.clone(), |template| show(&template))
}

/// The id is that of the template with the newest tag, which create takes.
fn show(template: &TemplateRecord) -> Snapshot {
    let newest = template.tags.iter().max_by_key(|(_, tag)| tag.created_at).map(|(name, _)| name.as_str());
    let tag = newest.unwrap_or(DEFAULT_TAG);
    Snapshot {
        snapshot_id: format!("{}:{tag}", template.id),
        names: template
            .name
            .iter()
            .flat_map(|name| template.tags.keys().map(move |tag| format!("{name}:{tag}")))
            .collect(),
    }
}
