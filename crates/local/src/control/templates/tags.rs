//! Tags of templates: names for builds.

use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, State};
use http::StatusCode;
use jiff::Timestamp;
use oncebox_protocol::api::{AssignTags, AssignedTags, RemoveTags, TemplateTag};
use serde::Deserialize;
use serde_json::{Value, json};

use super::name::check_tag;
use super::{DEFAULT_TAG, Tag, TemplateName, TemplateRecord};
use crate::control::Control;
use crate::control::body::JsonBody;
use crate::control::sandboxes::IdResult;
use crate::refusal::Refusal;
use crate::store::Draft;

/// `POST /templates/tags`: gives a build more tags.
pub(crate) async fn assign_tags(
    State(control): State<Control>,
    JsonBody(assign): JsonBody<AssignTags>,
) -> Result<(StatusCode, Json<AssignedTags>), Refusal> {
    let target = TemplateName::parse(&assign.target)?;
    let from = target.tag.unwrap_or_else(|| DEFAULT_TAG.to_owned());
    if assign.tags.is_empty() || assign.tags.len() > 100 {
        return Err(Refusal::bad_request("tags takes from 1 to 100 tags"));
    }
    for tag in &assign.tags {
        check_tag(tag)?;
    }
    let template = control.templates.required(&target.name)?;
    let tags = assign.tags.clone();
    let change = move |draft: &mut Draft<'_, TemplateRecord>| {
        let mut template = draft.get(&template.id).cloned().unwrap_or(template);
        let build = template.tagged(&from).map(|build| build.id.clone());
        let build_id = build.ok_or_else(|| Refusal::not_found(format!("no build has the tag '{from}'")))?;
        for tag in tags {
            template.tags.insert(tag, Tag { build_id: build_id.clone(), created_at: Timestamp::now() });
        }
        let superseded = template.supersede();
        draft.put(template.id.clone(), template);
        Ok::<_, Refusal>((build_id, superseded))
    };
    let (build_id, superseded) = control.templates.records.change(change).await?;
    control.templates.remove_files(superseded);
    Ok((StatusCode::CREATED, Json(AssignedTags { tags: assign.tags, build_id })))
}

/// `DELETE /templates/tags`.
pub(crate) async fn remove_tags(
    State(control): State<Control>,
    JsonBody(remove): JsonBody<RemoveTags>,
) -> Result<StatusCode, Refusal> {
    let template = control.templates.required(&remove.name)?;
    let change = move |draft: &mut Draft<'_, TemplateRecord>| {
        let mut template = draft.get(&template.id).cloned().unwrap_or(template);
        for tag in &remove.tags {
            if template.tags.remove(tag).is_none() {
                return Err(Refusal::not_found(format!("tag '{}' not found", tag.escape_debug())));
            }
        }
        let superseded = template.supersede();
        draft.put(template.id.clone(), template);
        Ok(superseded)
    };
    let superseded = control.templates.records.change(change).await?;
    control.templates.remove_files(superseded);
    Ok(StatusCode::NO_CONTENT)
}

fn find(control: &Control, id: IdResult) -> Result<TemplateRecord, Refusal> {
    let Path(id) = id?;
    control.templates.required(&id)
}

/// `GET /templates/{id}/tags`.
pub(crate) async fn tags(State(control): State<Control>, id: IdResult) -> Result<Json<Vec<TemplateTag>>, Refusal> {
    let template = find(&control, id)?;
    let tags =
        template.tags.into_iter().map(|(tag, Tag { build_id, created_at })| TemplateTag { tag, build_id, created_at });
    Ok(Json(tags.collect()))
}

/// `GET /templates/{id}/tags/count`.
pub(crate) async fn count_tags(State(control): State<Control>, id: IdResult) -> Result<Json<Value>, Refusal> {
    Ok(Json(json!({ "count": find(&control, id)?.tags.len() })))
}

#[derive(Debug, Deserialize)]
pub(crate) struct TagQuery {
    tag: String,
}

/// `GET /templates/{id}/tags/exists`.
pub(crate) async fn tag_exists(
    State(control): State<Control>,
    id: IdResult,
    query: Result<Query<TagQuery>, QueryRejection>,
) -> Result<Json<Value>, Refusal> {
    let Query(query) = query?;
    Ok(Json(json!({ "exists": find(&control, id)?.tags.contains_key(&query.tag) })))
}
