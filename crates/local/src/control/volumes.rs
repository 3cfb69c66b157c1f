//! Volumes, and what is in them.

use axum::Json;
use axum::body::Body;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query, Request, State};
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, StatusCode, header};
use http_body_util::BodyExt;
use oncebox_protocol::api::{NewVolume, Volume, VolumeAndToken};
use oncebox_protocol::volume::{Entry, UpdateEntry};
use serde::Deserialize;
use serde_json::json;

use super::Control;
use super::body::{BODY_LIMIT, JsonBody};
use super::sandboxes::IdResult;
use crate::file_body::FileBody;
use crate::idle::Moving;
use crate::refusal::Refusal;
use crate::signature::same;
use crate::volumes::VolumeRecord;
use crate::volumes::tree::{Attributes, Tree};

fn id(id: IdResult) -> Result<String, Refusal> {
    Ok(id?.0)
}

fn not_found(id: &str) -> Refusal {
    Refusal::not_found(format!("volume '{}' not found", id.escape_debug()))
}

fn with_token(volume: VolumeRecord) -> VolumeAndToken {
    // The SDKs take the content API's address from their configuration.
    VolumeAndToken { volume_id: volume.id, name: volume.name, token: volume.token, domain: None }
}

/// `POST /volumes`.
pub(super) async fn create(
    State(control): State<Control>,
    JsonBody(new): JsonBody<NewVolume>,
) -> Result<(StatusCode, Json<VolumeAndToken>), Refusal> {
    let volume = control.volumes.create(new.name).await?;
    Ok((StatusCode::CREATED, Json(with_token(volume))))
}

/// `GET /volumes`.
pub(super) async fn list(State(control): State<Control>) -> Json<Vec<Volume>> {
    let volumes = control.volumes.all().into_iter();
    Json(volumes.map(|volume| Volume { volume_id: volume.id, name: volume.name }).collect())
}

/// `GET /volumes/{id}`.
pub(super) async fn get(State(control): State<Control>, path: IdResult) -> Result<Json<VolumeAndToken>, Refusal> {
    let id = id(path)?;
    control.volumes.get(&id).map(|volume| Json(with_token(volume))).ok_or_else(|| not_found(&id))
}

/// `DELETE /volumes/{id}`.
pub(super) async fn delete(State(control): State<Control>, path: IdResult) -> Result<StatusCode, Refusal> {
    let id = id(path)?;
    if control.volumes.delete(&id).await? { Ok(StatusCode::NO_CONTENT) } else { Err(not_found(&id)) }
}

/// A refusal of the content API, whose code is a word.
pub(super) struct ContentRefusal {
    status: StatusCode,
    code: &'static str,
    message: String,
}

impl ContentRefusal {
    fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self { status, code, message: message.into() }
    }

    fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "bad_request", message)
    }
}

impl IntoResponse for ContentRefusal {
    fn into_response(self) -> Response {
        (self.status, Json(json!({ "code": self.code, "message": self.message }))).into_response()
    }
}

impl From<PathRejection> for ContentRefusal {
    fn from(error: PathRejection) -> Self {
        Self::bad_request(error.body_text())
    }
}

impl From<QueryRejection> for ContentRefusal {
    fn from(error: QueryRejection) -> Self {
        Self::bad_request(error.body_text())
    }
}

impl From<std::io::Error> for ContentRefusal {
    fn from(error: std::io::Error) -> Self {
        use std::io::ErrorKind;
        // A loop of links has no kind of its own yet.
        if error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error()) {
            return Self::bad_request(error.to_string());
        }
        let (status, code) = match error.kind() {
            ErrorKind::NotFound => (StatusCode::NOT_FOUND, "not_found"),
            ErrorKind::AlreadyExists => (StatusCode::CONFLICT, "already_exists"),
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => (StatusCode::INSUFFICIENT_STORAGE, "storage_full"),
            ErrorKind::InvalidInput
            | ErrorKind::NotADirectory
            | ErrorKind::IsADirectory
            | ErrorKind::InvalidFilename => (StatusCode::BAD_REQUEST, "bad_request"),
            ErrorKind::PermissionDenied => (StatusCode::FORBIDDEN, "forbidden"),
            _ => (StatusCode::INTERNAL_SERVER_ERROR, "internal"),
        };
        Self::new(status, code, error.to_string())
    }
}

/// The query of a request for content.
#[derive(Debug, Deserialize)]
pub(super) struct ContentQuery {
    path: String,
    depth: Option<u32>,
    uid: Option<u32>,
    gid: Option<u32>,
    mode: Option<u32>,
    #[serde(default)]
    force: bool,
}

impl ContentQuery {
    fn attributes(&self) -> Attributes {
        Attributes { uid: self.uid, gid: self.gid, mode: self.mode }
    }
}

type QueryResult = Result<Query<ContentQuery>, QueryRejection>;

/// The volume's folder, for whoever knows its token, and what is asked of it.
fn open(
    control: &Control,
    path: IdResult,
    headers: &HeaderMap,
    query: QueryResult,
) -> Result<(Tree, ContentQuery), ContentRefusal> {
    let Path(id) = path?;
    let given = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let given = given.and_then(|value| value.strip_prefix("Bearer ")).unwrap_or_default();
    // An unknown volume is as closed as one whose token is not known.
    let volume = control.volumes.get(&id).filter(|volume| same(volume.token.expose().as_bytes(), given.as_bytes()));
    let volume = volume.ok_or_else(|| {
        ContentRefusal::new(StatusCode::UNAUTHORIZED, "unauthorized", "Authorization is not this volume's token")
    })?;
    let Query(query) = query?;
    Ok((Tree::new(control.registry.state().volume(&volume.id)), query))
}

async fn blocking<T: Send + 'static>(
    act: impl FnOnce() -> std::io::Result<T> + Send + 'static,
) -> Result<T, ContentRefusal> {
    let done = tokio::task::spawn_blocking(act).await.map_err(std::io::Error::other)?;
    Ok(done?)
}

/// `GET /volumecontent/{id}/path`.
pub(super) async fn stat(
    State(control): State<Control>,
    path: IdResult,
    headers: HeaderMap,
    query: QueryResult,
) -> Result<Json<Entry>, ContentRefusal> {
    let (tree, query) = open(&control, path, &headers, query)?;
    Ok(Json(blocking(move || tree.stat(&query.path)).await?))
}

/// `PATCH /volumecontent/{id}/path`.
pub(super) async fn update(
    State(control): State<Control>,
    path: IdResult,
    query: QueryResult,
    headers: HeaderMap,
    body: JsonBody<UpdateEntry>,
) -> Result<Json<Entry>, ContentRefusal> {
    let (tree, query) = open(&control, path, &headers, query)?;
    let JsonBody(UpdateEntry { uid, gid, mode }) = body;
    Ok(Json(blocking(move || tree.update(&query.path, Attributes { uid, gid, mode })).await?))
}

/// `DELETE /volumecontent/{id}/path`.
pub(super) async fn remove(
    State(control): State<Control>,
    path: IdResult,
    headers: HeaderMap,
    query: QueryResult,
) -> Result<StatusCode, ContentRefusal> {
    let (tree, query) = open(&control, path, &headers, query)?;
    blocking(move || tree.remove(&query.path)).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// `GET /volumecontent/{id}/dir`.
pub(super) async fn list_dir(
    State(control): State<Control>,
    path: IdResult,
    headers: HeaderMap,
    query: QueryResult,
) -> Result<Json<Vec<Entry>>, ContentRefusal> {
    let (tree, query) = open(&control, path, &headers, query)?;
    Ok(Json(blocking(move || tree.list(&query.path, query.depth.unwrap_or(1))).await?))
}

/// `POST /volumecontent/{id}/dir`.
pub(super) async fn make_dir(
    State(control): State<Control>,
    path: IdResult,
    headers: HeaderMap,
    query: QueryResult,
) -> Result<(StatusCode, Json<Entry>), ContentRefusal> {
    let (tree, query) = open(&control, path, &headers, query)?;
    let made = blocking(move || tree.make_folder(&query.path, query.force, query.attributes())).await?;
    Ok((StatusCode::CREATED, Json(made)))
}

/// `GET /volumecontent/{id}/file`.
pub(super) async fn read(
    State(control): State<Control>,
    path: IdResult,
    headers: HeaderMap,
    query: QueryResult,
) -> Result<Response, ContentRefusal> {
    let (tree, query) = open(&control, path, &headers, query)?;
    let (file, _) = blocking(move || tree.read(&query.path)).await?;
    let body = Body::new(FileBody::new(tokio::fs::File::from_std(file)));
    Ok(([(header::CONTENT_TYPE, "application/octet-stream")], body).into_response())
}

/// `PUT /volumecontent/{id}/file`. The file appears when all of it has arrived, or not at all.
pub(super) async fn write(
    State(control): State<Control>,
    path: IdResult,
    query: QueryResult,
    request: Request,
) -> Result<(StatusCode, Json<Entry>), ContentRefusal> {
    use std::io::Write;
    let (tree, query) = open(&control, path, request.headers(), query)?;
    let (at, force) = (query.path.clone(), query.force);
    let mut new = blocking(move || tree.write(&at, force)).await?;
    let mut body = std::pin::pin!(Moving::new(request.into_body(), BODY_LIMIT));
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| ContentRefusal::bad_request(format!("the file ended early: {error}")))?;
        let Ok(data) = frame.into_data() else { continue };
        new = blocking(move || new.file.write_all(&data).map(|()| new)).await?;
    }
    let entry = blocking(move || new.keep(&query.path, query.attributes())).await?;
    Ok((StatusCode::CREATED, Json(entry)))
}
