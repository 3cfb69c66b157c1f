//! Templates are asked for, listed, changed and removed here.

use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use http::StatusCode;
use jiff::Timestamp;
use oncebox_protocol::api::{
    BuildLogs, BuildStatus, BuildStatusInfo, DefaultTemplates, LogLevel, LogsDirection, NewTemplate, NewTemplateV2,
    RequestedBuild, RequestedBuildV1, StartBuild, Template, TemplateAlias, TemplateBuild, TemplateWithBuilds,
    UpdateTemplate, UpdatedTemplate,
};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::name::check_tag;
use super::{BASE, BuildRecord, DEFAULT_TAG, TemplateName, TemplateRecord, Templates};
use crate::control::body::JsonBody;
use crate::control::observe::severity;
use crate::control::paging::{Page, PageQuery, page};
use crate::control::{Control, ENVD_VERSION};
use crate::ids;
use crate::refusal::Refusal;

/// Builds of a template that are kept, the newest of those that no tag stands for.
const MAX_BUILDS: usize = 100;
/// Most entries of a build's log in one answer.
const MAX_ENTRIES: usize = 100;

type PathResult<T> = Result<Path<T>, PathRejection>;

fn path<T>(path: PathResult<T>) -> Result<T, Refusal> {
    Ok(path?.0)
}

/// `POST /v3/templates`. A name means one template, however often it is asked for: each call asks for a build of it, and
/// supersedes builds of it that have not been started.
pub(crate) async fn create(
    State(control): State<Control>,
    JsonBody(new): JsonBody<NewTemplate>,
) -> Result<(StatusCode, Json<RequestedBuild>), Refusal> {
    let given = new.name.or(new.alias).ok_or_else(|| Refusal::bad_request("a template needs a name"))?;
    let requested = request(&control.templates, &given, new.tags.unwrap_or_default(), new.cpu_count, new.memory_mb);
    Ok((StatusCode::ACCEPTED, Json(requested.await?)))
}

/// `POST /v2/templates`. Superseded.
pub(crate) async fn create_v2(
    State(control): State<Control>,
    JsonBody(new): JsonBody<NewTemplateV2>,
) -> Result<(StatusCode, Json<RequestedBuildV1>), Refusal> {
    let requested = request(&control.templates, &new.alias, Vec::new(), new.cpu_count, new.memory_mb).await?;
    let requested = RequestedBuildV1 {
        template_id: requested.template_id,
        build_id: requested.build_id,
        public: Some(requested.public),
        aliases: requested.aliases,
    };
    Ok((StatusCode::ACCEPTED, Json(requested)))
}

async fn request(
    templates: &Templates,
    given: &str,
    mut tags: Vec<String>,
    cpu_count: Option<i32>,
    memory_mb: Option<i32>,
) -> Result<RequestedBuild, Refusal> {
    let TemplateName { name, tag } = TemplateName::parse(given)?;
    if name == BASE {
        return Err(Refusal::new(StatusCode::FORBIDDEN, "the template 'base' is the local server's own"));
    }
    for tag in &tags {
        check_tag(tag)?;
    }
    tags.extend(tag);
    if tags.is_empty() {
        tags.push(DEFAULT_TAG.to_owned());
    }
    tags.sort();
    tags.dedup();
    if tags.len() > 100 {
        return Err(Refusal::bad_request("a build has at most 100 tags"));
    }
    let (new_id, build_id) = (ids::resource_id("t")?, ids::uuid()?);
    let now = Timestamp::now();
    let build = BuildRecord {
        id: build_id.clone(),
        status: BuildStatus::Waiting,
        tags: tags.clone(),
        cpu_count: cpu_count.unwrap_or(2),
        memory_mb: memory_mb.unwrap_or(1024),
        created_at: now,
        updated_at: now,
        finished_at: None,
        reason: None,
        settings: super::Settings::default(),
        superseded: false,
    };
    let decide = move |draft: &mut crate::store::Draft<'_, TemplateRecord>| {
        let found = draft.all().map(|(_, template)| template).find(|template| template.name.as_deref() == Some(&name));
        let mut template = match found {
            Some(template) => template.clone(),
            None => {
                Templates::check_room(draft.len())?;
                TemplateRecord {
                    id: new_id,
                    name: Some(name.clone()),
                    public: false,
                    created_at: now,
                    updated_at: now,
                    last_spawned_at: None,
                    spawn_count: 0,
                    tags: std::collections::BTreeMap::new(),
                    snapshot_of: None,
                    builds: Vec::new(),
                }
            }
        };
        for waiting in template.builds.iter_mut().filter(|build| build.status == BuildStatus::Waiting) {
            waiting.fail("a newer build was asked for before this one was started", None);
        }
        template.forget_old_builds();
        template.builds.push(build);
        template.updated_at = now;
        let id = template.id.clone();
        draft.put(id.clone(), template);
        Ok::<_, Refusal>((id, name))
    };
    let (template_id, name) = templates.records.change(decide).await?;
    let names = vec![name];
    Ok(RequestedBuild { template_id, build_id, public: false, names: names.clone(), tags, aliases: Some(names) })
}

impl TemplateRecord {
    /// Drops the oldest builds that failed or were superseded, so that a template that is built for ever does not grow for ever.
    pub(super) fn forget_old_builds(&mut self) {
        while self.builds.len() >= MAX_BUILDS {
            let unused = |build: &BuildRecord| build.status == BuildStatus::Error || build.superseded;
            let Some(oldest) = self.builds.iter().position(unused) else { return };
            self.builds.remove(oldest);
        }
    }
}

/// `POST /v2/templates/{id}/builds/{build}`: starts a build that was asked for.
pub(crate) async fn start_build(
    State(control): State<Control>,
    ids: PathResult<(String, String)>,
    JsonBody(start): JsonBody<StartBuild>,
) -> Result<StatusCode, Refusal> {
    let (template, build) = path(ids)?;
    let template = control.templates.required(&template)?;
    Templates::start(&Arc::clone(&control.templates), &template.id, &build, start).await?;
    Ok(StatusCode::ACCEPTED)
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct StatusQuery {
    logs_offset: Option<usize>,
    limit: Option<usize>,
    level: Option<LogLevel>,
}

/// `GET /templates/{id}/builds/{build}/status`.
pub(crate) async fn build_status(
    State(control): State<Control>,
    ids: PathResult<(String, String)>,
    query: Result<Query<StatusQuery>, QueryRejection>,
) -> Result<Json<BuildStatusInfo>, Refusal> {
    let Query(query) = query?;
    let (template, build) = find_build(&control, ids)?;
    let least = query.level.as_ref().map_or(0, severity);
    let mut entries = control.templates.logs.lock().get(&build.id).cloned().unwrap_or_default();
    entries.retain(|entry| severity(&entry.level) >= least);
    let limit = query.limit.unwrap_or(MAX_ENTRIES).min(MAX_ENTRIES);
    let entries: Vec<_> = entries.into_iter().skip(query.logs_offset.unwrap_or(0)).take(limit).collect();
    Ok(Json(BuildStatusInfo {
        template_id: template.id,
        build_id: build.id,
        status: build.status,
        logs: Some(Vec::new()),
        log_entries: entries,
        reason: build.reason,
    }))
}

#[derive(Debug, Deserialize)]
pub(crate) struct BuildLogsQuery {
    /// Milliseconds since 1970.
    cursor: Option<i64>,
    limit: Option<usize>,
    direction: Option<LogsDirection>,
    level: Option<LogLevel>,
}

/// `GET /templates/{id}/builds/{build}/logs`.
pub(crate) async fn build_logs(
    State(control): State<Control>,
    ids: PathResult<(String, String)>,
    query: Result<Query<BuildLogsQuery>, QueryRejection>,
) -> Result<Json<BuildLogs>, Refusal> {
    let Query(query) = query?;
    let (_, build) = find_build(&control, ids)?;
    let backward = query.direction == Some(LogsDirection::Backward);
    let least = query.level.as_ref().map_or(0, severity);
    let mut logs = control.templates.logs.lock().get(&build.id).cloned().unwrap_or_default();
    logs.retain(|entry| {
        let at = entry.timestamp.as_millisecond();
        severity(&entry.level) >= least
            && query.cursor.is_none_or(|cursor| if backward { at <= cursor } else { at >= cursor })
    });
    if backward {
        logs.reverse();
    }
    logs.truncate(query.limit.unwrap_or(MAX_ENTRIES).min(MAX_ENTRIES));
    Ok(Json(BuildLogs { logs }))
}

fn find_build(control: &Control, ids: PathResult<(String, String)>) -> Result<(TemplateRecord, BuildRecord), Refusal> {
    let (template, build_id) = path(ids)?;
    let template = control.templates.required(&template)?;
    let build = template.build(&build_id).cloned();
    let build = build.ok_or_else(|| Refusal::not_found(format!("build '{}' not found", build_id.escape_debug())))?;
    Ok((template, build))
}

/// `GET /templates`.
pub(crate) async fn list_v1(State(control): State<Control>) -> Json<Vec<Template>> {
    Json(control.templates.templates().iter().map(show).collect())
}

/// `GET /v2/templates`.
pub(crate) async fn list(
    State(control): State<Control>,
    query: Result<Query<PageQuery>, QueryRejection>,
) -> Result<Page<Template>, Refusal> {
    let Query(query) = query?;
    page(control.templates.templates(), &query, |template| template.id.clone(), |template| show(&template))
}

/// `GET /default-templates`: the one that is always there.
pub(crate) async fn default_templates() -> Json<DefaultTemplates> {
    let base = [("templateID", BASE), ("name", BASE)].map(|(key, value)| (key.to_owned(), Value::from(value)));
    Json(DefaultTemplates { templates: Some(vec![Map::from_iter(base)]) })
}

impl Templates {
    /// Templates without snapshots, by id.
    fn templates(&self) -> Vec<TemplateRecord> {
        self.records.all().into_iter().filter(|template| template.snapshot_of.is_none()).collect()
    }
}

fn names(template: &TemplateRecord) -> Vec<String> {
    template.name.iter().cloned().collect()
}

fn show(template: &TemplateRecord) -> Template {
    let latest = template.tagged(DEFAULT_TAG).or(template.builds.last());
    Template {
        template_id: template.id.clone(),
        build_id: latest.map(|build| build.id.clone()).unwrap_or_default(),
        cpu_count: latest.map_or(0, |build| build.cpu_count),
        memory_mb: latest.map_or(0, |build| build.memory_mb),
        disk_size_mb: 0,
        public: template.public,
        aliases: Some(names(template)),
        names: names(template),
        created_at: template.created_at,
        updated_at: template.updated_at,
        created_by: None,
        last_spawned_at: template.last_spawned_at,
        spawn_count: template.spawn_count,
        build_count: i32::try_from(template.builds.len()).unwrap_or(i32::MAX),
        envd_version: ENVD_VERSION.to_owned(),
        build_status: latest.map(|build| build.status.clone()),
    }
}

/// `GET /templates/{id}`.
pub(crate) async fn get(
    State(control): State<Control>,
    id: PathResult<String>,
) -> Result<Json<TemplateWithBuilds>, Refusal> {
    let template = control.templates.required(&path(id)?)?;
    let builds = template.builds.iter().rev().map(|build| TemplateBuild {
        build_id: build.id.clone(),
        status: build.status.clone(),
        created_at: build.created_at,
        updated_at: build.updated_at,
        finished_at: build.finished_at,
        cpu_count: build.cpu_count,
        memory_mb: build.memory_mb,
        disk_size_mb: None,
        envd_version: Some(ENVD_VERSION.to_owned()),
    });
    Ok(Json(TemplateWithBuilds {
        builds: builds.collect(),
        public: template.public,
        aliases: Some(names(&template)),
        names: names(&template),
        created_at: template.created_at,
        updated_at: template.updated_at,
        last_spawned_at: template.last_spawned_at,
        spawn_count: template.spawn_count,
        template_id: template.id,
    }))
}

/// `PATCH /v2/templates/{id}`, and the same without `/v2`.
pub(crate) async fn update(
    State(control): State<Control>,
    id: PathResult<String>,
    JsonBody(update): JsonBody<UpdateTemplate>,
) -> Result<Json<UpdatedTemplate>, Refusal> {
    let template = control.templates.required(&path(id)?)?;
    let id = template.id.clone();
    let change = move |draft: &mut crate::store::Draft<'_, TemplateRecord>| {
        if let Some(mut template) = draft.get(&id).cloned() {
            template.public = update.public.unwrap_or(template.public);
            template.updated_at = Timestamp::now();
            draft.put(id, template);
        }
        Ok::<_, Refusal>(())
    };
    control.templates.records.change(change).await?;
    Ok(Json(UpdatedTemplate { names: names(&template) }))
}

/// `DELETE /templates/{id}`, of snapshots too.
pub(crate) async fn delete(State(control): State<Control>, id: PathResult<String>) -> Result<StatusCode, Refusal> {
    let given = path(id)?;
    if given == BASE {
        return Err(Refusal::new(StatusCode::FORBIDDEN, "the template 'base' is the local server's own"));
    }
    let template = control.templates.required(&given)?;
    if control.templates.delete(&template.id).await? {
        Ok(StatusCode::NO_CONTENT)
    } else {
        Err(Refusal::not_found(format!("template '{}' not found", given.escape_debug())))
    }
}

/// `GET /templates/aliases/{alias}`.
pub(crate) async fn alias(
    State(control): State<Control>,
    alias: PathResult<String>,
) -> Result<Json<TemplateAlias>, Refusal> {
    let given = path(alias)?;
    if TemplateName::parse(&given)?.name == BASE {
        return Ok(Json(TemplateAlias { template_id: BASE.to_owned(), public: true }));
    }
    let template = control.templates.required(&given)?;
    Ok(Json(TemplateAlias { template_id: template.id, public: template.public }))
}
