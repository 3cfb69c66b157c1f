//! `GET /files`: one file's bytes.

use std::fs::Metadata;
use std::io;
use std::path::Path;

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use futures_util::Stream;
use http::{StatusCode, header};
use tokio::fs::{File, OpenOptions};
use tokio::io::AsyncReadExt;

use super::super::answer::Refusal;
use super::super::paths::Paths;

/// What is read and sent at a time: all the memory a download takes, besides the sockets'.
const CHUNK: usize = 64 << 10;

/// The bytes of the file at `path`.
pub(super) async fn answer(path: &Path, paths: &Paths) -> Result<Response, Refusal> {
    let name = paths.display(path);
    let failed = |error: io::Error| Refusal::of_io("reading", &name, &error);
    // Not blocking: opening a pipe would wait for its other end.
    let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let mut file = OpenOptions::new().read(true).custom_flags(flags).open(path).await.map_err(failed)?;
    let metadata = file.metadata().await.map_err(failed)?;
    if !metadata.is_file() {
        let what = if metadata.is_dir() { "is a directory" } else { "is not a regular file" };
        return Err(Refusal::new(StatusCode::BAD_REQUEST, format!("path '{name}' {what}")));
    }
    let file_name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let mut response = Response::builder()
        .header(header::CONTENT_TYPE, "application/octet-stream")
        .header(header::CONTENT_DISPOSITION, disposition(&file_name));
    if let Some(modified) = last_modified(&metadata) {
        response = response.header(header::LAST_MODIFIED, modified);
    }
    let body = if metadata.len() == 0 {
        // Files of /proc claim to be empty and are not: their length is known at their end only.
        let mut first = vec![0; CHUNK];
        let length = file.read(&mut first).await.map_err(failed)?;
        first.truncate(length);
        if length == 0 {
            response = response.header(header::CONTENT_LENGTH, 0);
            Body::empty()
        } else {
            Body::from_stream(contents(file, first.into(), None))
        }
    } else {
        response = response.header(header::CONTENT_LENGTH, metadata.len());
        Body::from_stream(contents(file, Bytes::new(), Some(metadata.len())))
    };
    response.body(body).map_err(|error| Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))
}

/// `first`, then the file. With a length announced, exactly that much: a file that grew is cut there, and one that shrank
/// ends the response with an error, so that the client does not take it for whole.
fn contents(mut file: File, first: Bytes, length: Option<u64>) -> impl Stream<Item = io::Result<Bytes>> + Send {
    async_stream::try_stream! {
        if !first.is_empty() {
            yield first;
        }
        let mut left = length.unwrap_or(u64::MAX);
        while left > 0 {
            let most = usize::try_from(left).unwrap_or(CHUNK).min(CHUNK);
            let mut chunk = vec![0; most];
            let read = file.read(&mut chunk).await?;
            if read == 0 {
                if length.is_some() {
                    Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the file shrank while it was read"))?;
                }
                break;
            }
            chunk.truncate(read);
            left = left.saturating_sub(u64::try_from(read).unwrap_or(u64::MAX));
            yield chunk.into();
        }
    }
}

fn last_modified(metadata: &Metadata) -> Option<String> {
    // The format has no years before 1970.
    let time = metadata.modified().ok().filter(|time| *time >= std::time::UNIX_EPOCH)?;
    Some(httpdate::fmt_http_date(time))
}

/// `inline` with the name in the form of RFC 5987, which any name fits.
fn disposition(name: &str) -> String {
    let encoded = percent_encoding::utf8_percent_encode(name, percent_encoding::NON_ALPHANUMERIC);
    format!("inline; filename*=UTF-8''{encoded}")
}
