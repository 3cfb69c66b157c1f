//! `/files`: contents in and out, streamed.

mod compose;
mod conditions;
mod download;
mod form;
mod gzip;
mod metadata;
mod target;
mod upload;

use std::path::PathBuf;
use std::sync::Arc;

use axum::Json;
use axum::Router;
use axum::extract::rejection::{JsonRejection, QueryRejection};
use axum::extract::{Query, Request, State};
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, StatusCode};

use oncebox_protocol::envd_rest::ComposeFiles;

pub(super) use self::metadata::kept_with;
pub(super) use self::target::{UploadKind, upload_kind};
use super::answer::Refusal;
use super::paths::Paths;
use super::users::User;
use crate::signature::FilesQuery;

/// The routes of this module.
pub(super) fn routes(paths: Arc<Paths>) -> Router {
    Router::new()
        .route("/files", axum::routing::get(read).post(write).fallback(no_such_method))
        .route("/files/compose", axum::routing::post(compose).fallback(no_such_method))
        .with_state(paths)
}

async fn no_such_method() -> Refusal {
    Refusal::new(
        StatusCode::METHOD_NOT_ALLOWED,
        "/files is read with GET and written with POST, and composed with POST",
    )
}

type QueryResult = Result<Query<FilesQuery>, QueryRejection>;

async fn read(State(paths): State<Arc<Paths>>, query: QueryResult, headers: HeaderMap) -> Response {
    let path = checked(&paths, query)
        .and_then(|(query, user)| resolve(&paths, query.path.as_deref().unwrap_or_default(), user));
    match path {
        Ok(path) => download::answer(&path, &paths, &headers).await.unwrap_or_else(IntoResponse::into_response),
        Err(refusal) => refusal.into_response(),
    }
}

async fn write(State(paths): State<Arc<Paths>>, query: QueryResult, request: Request) -> Response {
    let written = match checked(&paths, query) {
        Ok((query, user)) => upload::answer(query.path, user, &paths, request).await,
        Err(refusal) => Err(refusal),
    };
    written.unwrap_or_else(IntoResponse::into_response)
}

async fn compose(State(paths): State<Arc<Paths>>, body: Result<Json<ComposeFiles>, JsonRejection>) -> Response {
    let composed = match body {
        Ok(Json(request)) => compose::answer(request, paths).await,
        Err(error) => Err(Refusal::new(StatusCode::BAD_REQUEST, error.body_text())),
    };
    composed.unwrap_or_else(IntoResponse::into_response)
}

/// The query and the user it names.
fn checked(paths: &Paths, query: QueryResult) -> Result<(FilesQuery, User), Refusal> {
    let Query(query) = query.map_err(|error| Refusal::new(StatusCode::BAD_REQUEST, error.body_text()))?;
    let user = paths.user(query.username.as_deref()).map_err(|error| Refusal::new(StatusCode::UNAUTHORIZED, error))?;
    Ok((query, user))
}

pub(super) fn resolve(paths: &Paths, path: &str, user: User) -> Result<PathBuf, Refusal> {
    paths.resolve(path, user).map_err(|error| Refusal::new(StatusCode::BAD_REQUEST, error))
}
