//! `POST /files`: files written whole or not at all.

use std::io;
use std::path::Path;

use axum::body::Body;
use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use http::{HeaderMap, StatusCode, header};
use serde::Serialize;
use tokio::fs::{self, File};
use tokio::io::AsyncWriteExt;

use super::super::answer::Refusal;
use super::super::paths::Paths;
use super::super::users::User;
use super::form::Form;
use super::gzip;
use super::metadata::{self, Metadata};
use super::target::{Temporary, target};

/// A file that was written.
#[derive(Debug, Serialize)]
pub(super) struct Written {
    name: String,
    path: String,
    r#type: &'static str,
    #[serde(skip_serializing_if = "Metadata::is_empty")]
    metadata: Metadata,
}

impl Written {
    pub(super) fn new(asked: &Path, path: String, metadata: Metadata) -> Self {
        let name = asked.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        Self { name, path, r#type: "file", metadata }
    }
}

/// Files one multipart request may carry.
const MAX_FILES: usize = 10_000;

/// Writes what the request carries: a file, or a form with fields `file` whose names are paths.
pub(super) async fn answer(
    path: Option<String>,
    user: User,
    paths: &Paths,
    request: Request,
) -> Result<Response, Refusal> {
    let content_type = content_type(request.headers());
    let metadata = metadata::of(request.headers()).map_err(bad_request)?;
    let body = decoded(request)?;
    let written = if content_type.split(';').next().is_some_and(|kind| kind.trim() == "application/octet-stream") {
        let path = path.ok_or_else(|| bad_request("query parameter 'path' is required to write raw bytes"))?;
        vec![write(&path, user, paths, metadata, data_of(body)).await?]
    } else if content_type.starts_with("multipart/") {
        write_form(path.as_deref(), user, paths, metadata, &content_type, body).await?
    } else {
        let found = content_type.escape_debug();
        return Err(bad_request(format!(
            "unsupported content type '{found}': expected multipart/form-data or application/octet-stream"
        )));
    };
    Ok(axum::Json(written).into_response())
}

fn bad_request(message: impl Into<String>) -> Refusal {
    Refusal::new(StatusCode::BAD_REQUEST, message)
}

fn content_type(headers: &HeaderMap) -> String {
    let value = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    // The boundary of a form is case-sensitive; the type is not, but everybody writes it in lower case.
    value.unwrap_or_default().to_owned()
}

/// The body as it was before its sender packed it.
fn decoded(request: Request) -> Result<Body, Refusal> {
    match request.headers().get(header::CONTENT_ENCODING).map(|value| value.as_bytes().to_ascii_lowercase()).as_deref()
    {
        None | Some(b"" | b"identity") => Ok(request.into_body()),
        Some(b"gzip" | b"x-gzip") => Ok(Body::from_stream(gzip::unpacked(request.into_body().into_data_stream()))),
        Some(encoding) => Err(Refusal::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            format!(
                "Content-Encoding '{}' is not supported: gzip is, and files as they are",
                String::from_utf8_lossy(encoding).escape_debug()
            ),
        )),
    }
}

fn data_of(body: Body) -> impl Stream<Item = Result<Bytes, String>> + Send {
    body.into_data_stream().map(|data| data.map_err(|error| said_by(&error)))
}

/// The words of whoever failed first: those around it say only that a body did.
fn said_by(error: &(dyn std::error::Error + 'static)) -> String {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}

async fn write_form(
    path: Option<&str>,
    user: User,
    paths: &Paths,
    metadata: Metadata,
    content_type: &str,
    body: Body,
) -> Result<Vec<Written>, Refusal> {
    let broken = |error: multer::Error| bad_request(format!("error reading the form: {}", said_by(&error)));
    let mut form = Form::new(content_type, body).map_err(broken)?;
    let mut written: Vec<Written> = Vec::new();
    while let Some(file) = form.next_file().await.map_err(broken)? {
        let path = match path.or(file.name()) {
            Some(path) => path.to_owned(),
            None => return Err(bad_request("a field 'file' has no filename, and there is no query parameter 'path'")),
        };
        let resolved = paths.display(&super::resolve(paths, &path, user)?);
        if written.iter().any(|file| file.path == resolved) {
            return Err(bad_request(format!(
                "you cannot upload multiple files to the same path '{resolved}' in one request; the first one was written"
            )));
        }
        if written.len() == MAX_FILES {
            return Err(bad_request(format!("one request can carry {MAX_FILES} files, which are written now")));
        }
        let data = file.map(|data| data.map_err(|error| said_by(&error)));
        written.push(write(&path, user, paths, metadata.clone(), data).await?);
    }
    Ok(written)
}

/// Writes one file, with its parents. It appears, or replaces what was there, when all of it has arrived.
async fn write(
    path: &str,
    user: User,
    paths: &Paths,
    metadata: Metadata,
    data: impl Stream<Item = Result<Bytes, String>> + Send,
) -> Result<Written, Refusal> {
    let asked = super::resolve(paths, path, user)?;
    let name = paths.display(&asked);
    let failed = |error: io::Error| Refusal::of_io("writing", &name, &error);
    let (target, permissions) = target(&asked, &name)?;
    let parent = target.parent().unwrap_or(Path::new("/"));
    fs::create_dir_all(parent).await.map_err(failed)?;

    let (file, temporary) = Temporary::create(parent, permissions.is_some()).map_err(failed)?;
    metadata::keep(&file, &metadata).map_err(failed)?;
    let mut file = File::from_std(file);
    let mut data = std::pin::pin!(data);
    while let Some(chunk) = data.next().await {
        let chunk = chunk
            .map_err(|error| bad_request(format!("'{name}' was not written: the request ended early: {error}")))?;
        file.write_all(&chunk).await.map_err(failed)?;
    }
    if let Some(permissions) = permissions {
        file.set_permissions(permissions).await.map_err(failed)?;
    }
    // A failed write may come to light here only.
    file.flush().await.map_err(failed)?;
    drop(file);
    temporary.become_file(&target).map_err(failed)?;
    Ok(Written::new(&asked, name, metadata))
}
