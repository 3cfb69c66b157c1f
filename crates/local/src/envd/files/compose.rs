//! `POST /files/compose`: one file made of several, which are gone afterwards.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use axum::response::{IntoResponse, Response};
use http::StatusCode;
use oncebox_protocol::envd_rest::ComposeFiles;

use super::super::answer::Refusal;
use super::super::paths::Paths;
use super::target::{Temporary, target};
use super::upload::Written;

/// Files that one request may name.
const MAX_PARTS: usize = 10_000;

/// Joins the parts in the order of the request. The destination, which may be one of them, appears when it is complete;
/// then the parts are removed.
pub(super) async fn answer(request: ComposeFiles, paths: Arc<Paths>) -> Result<Response, Refusal> {
    let bad = |message: String| Refusal::new(StatusCode::BAD_REQUEST, message);
    let user = paths.user(request.username.as_deref());
    let user = user.map_err(|error| Refusal::new(StatusCode::UNAUTHORIZED, error))?;
    if request.source_paths.is_empty() || request.source_paths.len() > MAX_PARTS {
        return Err(bad(format!("{} source_paths: 1 to {MAX_PARTS} can be joined", request.source_paths.len())));
    }
    if request.destination.is_empty() {
        return Err(bad("destination is empty".to_owned()));
    }
    let destination = super::resolve(&paths, &request.destination, user)?;
    let parts = request.source_paths.iter().map(|path| super::resolve(&paths, path, user));
    let parts: Vec<PathBuf> = parts.collect::<Result<_, _>>()?;
    let joined = tokio::task::spawn_blocking(move || join(&parts, &destination, &paths)).await;
    let written =
        joined.unwrap_or_else(|error| Err(Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string())))?;
    Ok(axum::Json(written).into_response())
}

fn join(parts: &[PathBuf], destination: &Path, paths: &Paths) -> Result<Written, Refusal> {
    let name = paths.display(destination);
    let failed = |error: io::Error| Refusal::of_io("composing", &name, &error);
    let (target, permissions) = target(destination, &name)?;
    let folder = target.parent().map_or_else(|| PathBuf::from("/"), PathBuf::from);
    // Looked at first, so that nothing is made where a part is missing.
    for part in parts {
        let of_part = |error: io::Error| Refusal::of_io("reading", &paths.display(part), &error);
        if !fs::metadata(part).map_err(of_part)?.is_file() {
            let message = format!("path is not a regular file: {}", paths.display(part));
            return Err(Refusal::new(StatusCode::BAD_REQUEST, message));
        }
    }
    fs::create_dir_all(&folder).map_err(failed)?;
    let (mut file, temporary) = Temporary::create(&folder, permissions.is_some()).map_err(failed)?;
    for part in parts {
        let of_part = |error: io::Error| Refusal::of_io("reading", &paths.display(part), &error);
        let mut part = File::open(part).map_err(of_part)?;
        // The kernel copies, where the file system can do so.
        io::copy(&mut part, &mut file).map_err(failed)?;
    }
    if let Some(permissions) = permissions {
        file.set_permissions(permissions).map_err(failed)?;
    }
    drop(file);
    temporary.become_file(&target).map_err(failed)?;
    for part in parts {
        let same = fs::canonicalize(part).is_ok_and(|part| part == target);
        if !same {
            // A part named twice is gone by now, and one that stays does no harm.
            let _ = fs::remove_file(part);
        }
    }
    Ok(Written::new(destination, name, Default::default()))
}
