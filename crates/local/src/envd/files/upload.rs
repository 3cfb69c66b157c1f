//! `POST /files`: files written whole or not at all.

use std::fs::Permissions;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

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

/// A file that was written.
#[derive(Debug, Serialize)]
struct Written {
    name: String,
    path: String,
    r#type: &'static str,
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
    refuse_encoded(request.headers())?;
    let content_type = content_type(request.headers());
    let body = request.into_body();
    let written = if content_type.split(';').next().is_some_and(|kind| kind.trim() == "application/octet-stream") {
        let path = path.ok_or_else(|| bad_request("query parameter 'path' is required to write raw bytes"))?;
        vec![write(&path, user, paths, data_of(body)).await?]
    } else if content_type.starts_with("multipart/") {
        write_form(path.as_deref(), user, paths, &content_type, body).await?
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

fn refuse_encoded(headers: &HeaderMap) -> Result<(), Refusal> {
    match headers.get(header::CONTENT_ENCODING).map(|value| value.as_bytes()) {
        None | Some(b"" | b"identity") => Ok(()),
        Some(encoding) => Err(Refusal::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            format!(
                "Content-Encoding '{}' is not supported: send the file as it is",
                String::from_utf8_lossy(encoding).escape_debug()
            ),
        )),
    }
}

fn data_of(body: Body) -> impl Stream<Item = Result<Bytes, String>> + Send {
    body.into_data_stream().map(|data| data.map_err(|error| error.to_string()))
}

async fn write_form(
    path: Option<&str>,
    user: User,
    paths: &Paths,
    content_type: &str,
    body: Body,
) -> Result<Vec<Written>, Refusal> {
    let broken = |error: multer::Error| bad_request(format!("error reading the form: {error}"));
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
        let data = file.map(|data| data.map_err(|error| error.to_string()));
        written.push(write(&path, user, paths, data).await?);
    }
    Ok(written)
}

/// Writes one file, with its parents. It appears, or replaces what was there, when all of it has arrived.
async fn write(
    path: &str,
    user: User,
    paths: &Paths,
    data: impl Stream<Item = Result<Bytes, String>> + Send,
) -> Result<Written, Refusal> {
    let asked = super::resolve(paths, path, user)?;
    let name = paths.display(&asked);
    let failed = |error: io::Error| Refusal::of_io("writing", &name, &error);
    let (target, permissions) = target(&asked, &name).await?;
    let parent = target.parent().unwrap_or(Path::new("/"));
    fs::create_dir_all(parent).await.map_err(failed)?;

    let (mut file, temporary) = Temporary::create(parent).await.map_err(failed)?;
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
    temporary.become_file(&target).await.map_err(failed)?;
    Ok(Written {
        name: asked.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default(),
        path: name,
        r#type: "file",
    })
}

/// Where the bytes go, and the permissions they get: through a link to what it leads to, keeping what was set there.
async fn target(asked: &Path, name: &str) -> Result<(PathBuf, Option<Permissions>), Refusal> {
    match fs::metadata(asked).await {
        Ok(metadata) if metadata.is_dir() => Err(bad_request(format!("path is a directory: {name}"))),
        Ok(metadata) if !metadata.is_file() => Err(bad_request(format!("path is not a regular file: {name}"))),
        Ok(metadata) => {
            let target = fs::canonicalize(asked).await.map_err(|error| Refusal::of_io("resolving", name, &error))?;
            Ok((target, Some(Permissions::from_mode(metadata.permissions().mode() & 0o777))))
        }
        Err(_) if fs::symlink_metadata(asked).await.is_ok() => {
            Err(bad_request(format!("path is a link that leads nowhere: {name}")))
        }
        Err(_) => Ok((asked.to_owned(), None)),
    }
}

/// A file next to the one it will become, removed unless it does.
struct Temporary {
    path: PathBuf,
    kept: bool,
}

impl Temporary {
    async fn create(folder: &Path) -> io::Result<(File, Self)> {
        let mut random = [0; 12];
        getrandom::fill(&mut random).map_err(io::Error::other)?;
        let random: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
        let path = folder.join(format!(".oncebox-upload-{random}"));
        // New, so that no link somebody put there is followed.
        let file = File::create_new(&path).await?;
        Ok((file, Self { path, kept: false }))
    }

    async fn become_file(mut self, target: &Path) -> io::Result<()> {
        fs::rename(&self.path, target).await?;
        self.kept = true;
        Ok(())
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if !self.kept {
            // Nothing better can be done about a file that cannot be removed.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}
