//! `GET /files`: one file's bytes.

use std::fs::Metadata;
use std::io::{self, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::Stream;
use http::{HeaderMap, StatusCode, header};
use tokio::fs::{File, OpenOptions};
use tokio::io::{AsyncReadExt, AsyncSeekExt};

use super::super::answer::Refusal;
use super::super::paths::Paths;
use super::conditions::{Validators, Verdict, accepted_encodings, judge};
use super::gzip;

/// What is read and sent at a time: all the memory a download takes, besides the sockets'.
const CHUNK: usize = 64 << 10;

/// Files smaller than this are not worth packing.
const WORTH_PACKING: u64 = 1024;

/// How long a file must have been left alone for its times to tell its contents from others of the same length: as long
/// as the kernel's clock for files stands still.
const CLOCK_TICK: Duration = Duration::from_millis(10);

/// The bytes of the file at `path`, or those of them that are asked for.
pub(super) async fn answer(path: &Path, paths: &Paths, headers: &HeaderMap) -> Result<Response, Refusal> {
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
    let (gzip, identity) = accepted_encodings(headers);
    if !gzip && !identity {
        let message = "Accept-Encoding admits neither gzip nor the file as it is";
        return Err(Refusal::new(StatusCode::NOT_ACCEPTABLE, message));
    }
    let file_name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let mut response = Response::builder()
        .header(header::CONTENT_TYPE, "application/octet-stream")
        .header(header::CONTENT_DISPOSITION, disposition(&file_name))
        .header(header::VARY, "Accept-Encoding");
    if metadata.len() == 0 {
        // Files of /proc claim to be empty and are not: their length is known at their end only.
        let mut first = vec![0; CHUNK];
        let length = file.read(&mut first).await.map_err(failed)?;
        first.truncate(length);
        if length > 0 {
            return finish(response, Body::from_stream(contents(file, first.into(), None)));
        }
    }
    let metadata = settled(&file, metadata).await.map_err(failed)?;
    let length = metadata.len();
    // A part of a file is a part of it as it is; so packing is for those who do not ask for parts.
    let packs = gzip && (length >= WORTH_PACKING || !identity) && !headers.contains_key(header::RANGE);
    let validators = Validators { etag: etag(&metadata, packs), modified: modified(&metadata) };
    response = response.header(header::ETAG, &validators.etag).header(header::ACCEPT_RANGES, "bytes");
    if let Some(modified) = validators.modified {
        response = response.header(header::LAST_MODIFIED, httpdate::fmt_http_date(modified));
    }
    match judge(headers, &validators, length) {
        Verdict::NotModified => finish(response.status(StatusCode::NOT_MODIFIED), Body::empty()),
        Verdict::Failed => Err(Refusal::new(
            StatusCode::PRECONDITION_FAILED,
            format!("'{name}' is not what the request's conditions want: its entity tag is {}", validators.etag),
        )),
        Verdict::OutOfRange => {
            let message = format!("'{name}' has {length} bytes, none of which is in the range");
            let mut refusal = Refusal::new(StatusCode::RANGE_NOT_SATISFIABLE, message).into_response();
            if let Ok(value) = format!("bytes */{length}").parse() {
                refusal.headers_mut().insert(header::CONTENT_RANGE, value);
            }
            Ok(refusal)
        }
        Verdict::Whole if packs => {
            let body = Body::from_stream(gzip::packed(contents(file, Bytes::new(), Some(length))));
            finish(response.header(header::CONTENT_ENCODING, "gzip"), body)
        }
        Verdict::Whole => {
            let body = Body::from_stream(contents(file, Bytes::new(), Some(length)));
            finish(response.header(header::CONTENT_LENGTH, length), body)
        }
        Verdict::Part { first, last } => {
            file.seek(SeekFrom::Start(first)).await.map_err(failed)?;
            let part = (last - first).saturating_add(1);
            let response = response
                .status(StatusCode::PARTIAL_CONTENT)
                .header(header::CONTENT_RANGE, format!("bytes {first}-{last}/{length}"))
                .header(header::CONTENT_LENGTH, part);
            finish(response, Body::from_stream(contents(file, Bytes::new(), Some(part))))
        }
    }
}

fn finish(response: http::response::Builder, body: Body) -> Result<Response, Refusal> {
    response.body(body).map_err(|error| Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))
}

/// Waits out the moment in which another change would leave the file's times as they are, so that its entity tag is its
/// contents'.
async fn settled(file: &File, metadata: Metadata) -> io::Result<Metadata> {
    let changed = UNIX_EPOCH
        + Duration::new(
            u64::try_from(metadata.ctime()).unwrap_or_default(),
            u32::try_from(metadata.ctime_nsec()).unwrap_or_default(),
        );
    // A time to come is a clock that was set.
    let Ok(age) = SystemTime::now().duration_since(changed) else { return Ok(metadata) };
    if age >= CLOCK_TICK {
        return Ok(metadata);
    }
    tokio::time::sleep(CLOCK_TICK - age).await;
    file.metadata().await
}

/// A strong entity tag: other contents have another file, length or time.
fn etag(metadata: &Metadata, packs: bool) -> String {
    let times = [metadata.mtime(), metadata.mtime_nsec(), metadata.ctime(), metadata.ctime_nsec()];
    let times = times.map(|part| format!("{part:x}")).join(".");
    let packed = if packs { "-gzip" } else { "" };
    format!("\"{:x}.{:x}.{:x}.{times}{packed}\"", metadata.dev(), metadata.ino(), metadata.len())
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

fn modified(metadata: &Metadata) -> Option<SystemTime> {
    // The format has no years before 1970.
    metadata.modified().ok().filter(|time| *time >= UNIX_EPOCH)
}

/// `inline` with the name in the form of RFC 5987, which any name fits.
fn disposition(name: &str) -> String {
    let encoded = percent_encoding::utf8_percent_encode(name, percent_encoding::NON_ALPHANUMERIC);
    format!("inline; filename*=UTF-8''{encoded}")
}
