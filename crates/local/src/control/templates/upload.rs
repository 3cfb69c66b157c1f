//! Files for a build's COPY steps: a link, and what is sent there.

use std::io;

use axum::Json;
use axum::body::Body;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query, Request, State};
use http::{StatusCode, header};
use http_body_util::BodyExt;
use oncebox_protocol::api::TemplateUpload;
use serde::Deserialize;
use tokio::io::AsyncWriteExt;

use crate::control::Control;
use crate::idle::Moving;
use crate::refusal::Refusal;

/// Largest archive.
const MAX_UPLOAD: u64 = 8 << 30;

/// `GET /templates/{id}/files/{hash}`: whether the files are here, and where they can be sent.
pub(crate) async fn upload_link(
    State(control): State<Control>,
    path: Result<Path<(String, String)>, PathRejection>,
    request: Request,
) -> Result<(StatusCode, Json<TemplateUpload>), Refusal> {
    let Path((template, hash)) = path?;
    check_hash(&hash)?;
    let template = control.templates.required(&template)?;
    let name = file_name(&template.id, &hash);
    let present = tokio::fs::try_exists(control.registry.state().upload(&name)).await.unwrap_or(false);
    let token = control.registry.upload_token(&name)?;
    // As the client reached the server, which has checked that name.
    let host = request.headers().get(header::HOST).and_then(|host| host.to_str().ok());
    let host = request.uri().authority().map(|authority| authority.as_str()).or(host);
    let host = host.map_or_else(|| control.addr.to_string(), str::to_owned);
    let url = format!("http://{host}/oncebox-uploads/{}/{hash}?token={token}", template.id);
    Ok((StatusCode::CREATED, Json(TemplateUpload { present, url: Some(url.into()), headers: None })))
}

#[derive(Debug, Deserialize)]
pub(crate) struct UploadQuery {
    token: String,
}

/// `PUT /oncebox-uploads/{id}/{hash}`: what the link leads to. The link is the permission.
pub(crate) async fn receive(
    State(control): State<Control>,
    path: Result<Path<(String, String)>, PathRejection>,
    query: Result<Query<UploadQuery>, QueryRejection>,
    request: Request,
) -> Result<StatusCode, Refusal> {
    let Path((template, hash)) = path?;
    let Query(query) = query?;
    check_hash(&hash)?;
    let name = file_name(&template, &hash);
    let expected = control.registry.upload_token(&name)?;
    if !crate::signature::same(expected.as_bytes(), query.token.as_bytes()) {
        return Err(Refusal::new(StatusCode::UNAUTHORIZED, "this is not a link that the server gave"));
    }
    let template = control.templates.required(&template)?;
    let name = file_name(&template.id, &hash);
    let scratch = control.registry.state().scratch()?;
    let received = write(request.into_body(), &scratch).await;
    let kept = match received {
        Ok(()) => tokio::fs::rename(&scratch, control.registry.state().upload(&name)).await.map_err(Refusal::from),
        Err(refusal) => Err(refusal),
    };
    if kept.is_err() {
        // It is a file, and may not be there.
        let _ = tokio::fs::remove_file(&scratch).await;
    }
    kept.map(|()| StatusCode::OK)
}

async fn write(body: Body, to: &std::path::Path) -> Result<(), Refusal> {
    let mut file = tokio::fs::File::create(to).await?;
    let mut body = std::pin::pin!(Moving::new(body, crate::control::body::BODY_LIMIT));
    let mut written = 0_u64;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| Refusal::bad_request(format!("the upload ended early: {error}")))?;
        let Ok(data) = frame.into_data() else { continue };
        written = written.saturating_add(u64::try_from(data.len()).unwrap_or(u64::MAX));
        if written > MAX_UPLOAD {
            return Err(Refusal::new(
                StatusCode::PAYLOAD_TOO_LARGE,
                format!("the upload is larger than {MAX_UPLOAD} bytes"),
            ));
        }
        file.write_all(&data).await.map_err(full)?;
    }
    file.flush().await.map_err(full)?;
    Ok(())
}

fn full(error: io::Error) -> Refusal {
    match error.kind() {
        io::ErrorKind::StorageFull => Refusal::new(StatusCode::INSUFFICIENT_STORAGE, error.to_string()),
        _ => error.into(),
    }
}

fn check_hash(hash: &str) -> Result<(), Refusal> {
    if hash.len() == 64 && hash.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte)) {
        return Ok(());
    }
    Err(Refusal::bad_request(format!("'{}' is no hash: 64 hexadecimal digits", hash.escape_debug())))
}

/// Removes the archives that were sent for a template: they are of use to no other.
pub(super) async fn forget(state: &crate::state::State, template: &str) {
    let (folder, prefix) = (state.upload(""), file_name(template, ""));
    let removing = tokio::task::spawn_blocking(move || {
        for entry in std::fs::read_dir(folder)?.flatten() {
            if entry.file_name().to_string_lossy().starts_with(&prefix) {
                std::fs::remove_file(entry.path())?;
            }
        }
        Ok::<_, io::Error>(())
    });
    if let Ok(Err(error)) = removing.await {
        tracing::warn!(template, %error, "a template's uploads were not removed");
    }
}

/// The name of the archive of a build step's files.
pub(super) fn file_name(template: &str, hash: &str) -> String {
    format!("{template}-{hash}")
}
