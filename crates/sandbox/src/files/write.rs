//! Writing one file.

use std::future::{Future, IntoFuture};
use std::io::Write;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use futures_util::stream::{self, StreamExt, TryStreamExt};
use http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, StreamBody};
use oncebox_protocol::envd_rest::WrittenFile;
use oncebox_protocol::operations;
use oncebox_transport::{Body, BoxError};
use tokio::io::AsyncRead;
use tokio_util::io::ReaderStream;

use super::form::Form;
use super::{Entry, EntryKind, Files, check_path};
use crate::error::{Error, ErrorKind};
use crate::rpc::{header, query};
use crate::sandbox::Sandbox;

pub(super) const ACTION: &str = "write the file";

/// envd takes a plain byte body from this version on (protocol fact).
const OCTET_STREAM_SINCE: [u64; 3] = [0, 5, 7];

/// envd keeps metadata with files from this version on (protocol fact).
const METADATA_SINCE: [u64; 3] = [0, 6, 2];

/// What a reader is read by, in bytes.
const PIECE: usize = 64 << 10;

/// The longest answer to an upload.
const MAX_ANSWER: usize = 16 << 20;

/// A file about to be written: see [`Files::write`]. Await it.
#[must_use = "nothing is written until it is awaited"]
pub struct WriteFile {
    sandbox: Sandbox,
    user: Option<String>,
    path: String,
    data: Body,
    metadata: Vec<(String, String)>,
    gzip: bool,
    form: Option<bool>,
    verify: bool,
}

impl Files<'_> {
    /// Writes a file: bytes, text or a [stream](Body::stream). It takes the place of what was there; parents are made. Set
    /// options on what this returns, and await it. Afterwards the sandbox is asked for the file's size, and another one than
    /// was sent is an error.
    ///
    /// It is sent once, unless [retries](Sandbox::with) are asked for: then what was cut is sent again whole, where it can be
    /// read again: bytes, text, and what is [rewindable](Body::rewindable).
    ///
    /// # Errors
    ///
    /// [`NotEnoughSpace`](ErrorKind::NotEnoughSpace) when the sandbox's disk is full,
    /// [`Server`](ErrorKind::Server) when less was stored than was sent,
    /// [`Unsupported`](ErrorKind::Unsupported) for an option that the sandbox's envd is too old for, before any I/O.
    pub fn write(&self, path: impl Into<String>, data: impl Into<Body>) -> WriteFile {
        WriteFile {
            sandbox: self.sandbox.clone(),
            user: self.user.map(str::to_owned),
            path: path.into(),
            data: data.into(),
            metadata: Vec::new(),
            gzip: false,
            form: None,
            verify: true,
        }
    }

    /// As [`write`](Self::write), from a reader, in bounded memory. It is read once, so that nothing is sent again of which
    /// any byte was read.
    pub fn write_reader(&self, path: impl Into<String>, reader: impl AsyncRead + Send + 'static) -> WriteFile {
        let frames = ReaderStream::with_capacity(reader, PIECE).map_ok(Frame::data);
        self.write(path, Body::stream(StreamBody::new(frames)))
    }
}

impl WriteFile {
    /// Keeps user metadata with the file, in place of what was kept. Names and values are printable ASCII; names are kept in
    /// lower case. From envd 0.6.2 on.
    pub fn metadata(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.metadata.push((name.into(), value.into()));
        self
    }

    /// Compresses what is sent. Default off: it costs time, and gains where the way is slow and the data is not compressed.
    pub fn gzip(mut self, gzip: bool) -> Self {
        self.gzip = gzip;
        self
    }

    /// Whether the file is sent in a form (`multipart/form-data`) rather than as it is. Default: as the sandbox's envd is
    /// able to, as it is from 0.5.7 on.
    pub fn form(mut self, form: bool) -> Self {
        self.form = Some(form);
        self
    }

    /// Whether the size is checked afterwards. Default on. What is no regular file, a device for one, has none and is not
    /// checked.
    pub fn verify(mut self, verify: bool) -> Self {
        self.verify = verify;
        self
    }

    async fn send(self) -> Result<WrittenFile, Error> {
        check_path(&self.path)?;
        let sandbox = self.sandbox.clone();
        let form = self.form.unwrap_or_else(|| !sandbox.envd_at_least(OCTET_STREAM_SINCE));
        if !form && !sandbox.envd_at_least(OCTET_STREAM_SINCE) {
            return Err(too_old(&sandbox, "to take a file as it is (form)"));
        }
        if form && self.gzip {
            return Err(Error::invalid("gzip: a file in a form is not compressed; leave form or gzip out"));
        }
        let mut headers = metadata(&sandbox, &self.metadata)?;
        let sent = Arc::new(AtomicU64::new(0));
        let data = counted(self.data, &sent);
        let (content_type, body) = if form {
            let form = Form::new(ACTION)?;
            (form.content_type(), form.of_one(&self.path, data))
        } else if self.gzip {
            headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
            ("application/octet-stream".to_owned(), data.map(None, packed))
        } else {
            ("application/octet-stream".to_owned(), data)
        };
        headers.extend(header(CONTENT_TYPE, &content_type)?);
        let files = Files { sandbox: &sandbox, user: self.user.as_deref() };
        let mut written = files.post(ACTION, Some(&self.path), headers, body).await?;
        let written = written.pop().ok_or_else(|| Error::malformed(ACTION, "it names no written file"))?;
        if self.verify {
            files.verify(&self.path, sent.load(Ordering::Relaxed)).await.map_err(Error::partly)?;
        }
        Ok(written)
    }
}

impl IntoFuture for WriteFile {
    type Output = Result<WrittenFile, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.send())
    }
}

impl std::fmt::Debug for WriteFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WriteFile").field("path", &self.path).field("length", &self.data.len()).finish_non_exhaustive()
    }
}

impl Files<'_> {
    /// Sends files, and reads what was written.
    pub(super) async fn post(
        &self,
        action: &str,
        path: Option<&str>,
        headers: HeaderMap,
        body: Body,
    ) -> Result<Vec<WrittenFile>, Error> {
        let pairs = path.map(|path| ("path", path)).into_iter().chain(self.user.map(|user| ("username", user)));
        let query = query(pairs);
        let response = self.sandbox.envd().send(action, &operations::WRITE_FILES, &query, headers, body).await?;
        let answer = http_body_util::Limited::new(response.into_body(), MAX_ANSWER).collect().await;
        let answer = answer.map_err(|error| Error::new(ErrorKind::OutcomeUnknown, action, error.to_string()))?;
        serde_json::from_slice(&answer.to_bytes()).map_err(|error| Error::malformed(action, error))
    }

    /// Compares a file's size with what was sent.
    pub(super) async fn verify(&self, path: &str, sent: u64) -> Result<(), Error> {
        let entry = self.info(path).await.map_err(|error| error.also("its size after the upload was asked for"))?;
        // A link's size is its own: what it leads to was written.
        let entry = match entry.symlink_target.as_deref().filter(|_| entry.is_symlink) {
            Some(target) => {
                self.info(target).await.map_err(|error| error.also("its size after the upload was asked for"))?
            }
            None => entry,
        };
        compare(&entry, sent)
    }
}

/// Whether a file holds as much as was sent.
pub(super) fn compare(entry: &Entry, sent: u64) -> Result<(), Error> {
    if entry.kind != EntryKind::File || entry.size == sent {
        return Ok(());
    }
    let (path, size) = (&entry.path, entry.size);
    let message = format!("{sent} bytes were sent and taken, and {path} has {size} (verify)");
    Err(Error::new(ErrorKind::Server, ACTION, message))
}

/// The data, and how much of it the last attempt read.
fn counted(data: Body, sent: &Arc<AtomicU64>) -> Body {
    // What is at hand stays at hand.
    if let Some(length) = data.len().filter(|_| !data.is_stream()) {
        sent.store(length, Ordering::Relaxed);
        return data;
    }
    let (length, sent) = (data.len(), Arc::clone(sent));
    data.map(length, move |data| {
        let sent = Arc::clone(&sent);
        sent.store(0, Ordering::Relaxed);
        data.map_frame(move |frame| {
            sent.fetch_add(frame.data_ref().map_or(0, |data| data.len() as u64), Ordering::Relaxed);
            frame
        })
    })
}

/// Compressed piece by piece.
fn packed(data: UnsyncBoxBody<Bytes, BoxError>) -> UnsyncBoxBody<Bytes, BoxError> {
    let encoder = Some(GzEncoder::new(Vec::new(), Compression::fast()));
    let pieces = stream::try_unfold((data.into_data_stream(), encoder), |(mut data, mut encoder)| async move {
        loop {
            let Some(packing) = &mut encoder else { return Ok::<_, BoxError>(None) };
            match data.next().await.transpose()? {
                Some(piece) => {
                    packing.write_all(&piece)?;
                    let packed = std::mem::take(packing.get_mut());
                    if !packed.is_empty() {
                        return Ok(Some((Frame::data(Bytes::from(packed)), (data, encoder))));
                    }
                }
                None => {
                    let rest = encoder.take().map(GzEncoder::finish).transpose()?.unwrap_or_default();
                    return Ok(Some((Frame::data(Bytes::from(rest)), (data, None))));
                }
            }
        }
    });
    StreamBody::new(pieces).boxed_unsync()
}

pub(super) fn metadata(sandbox: &Sandbox, metadata: &[(String, String)]) -> Result<HeaderMap, Error> {
    if !metadata.is_empty() && !sandbox.envd_at_least(METADATA_SINCE) {
        return Err(too_old(sandbox, "to keep metadata with files"));
    }
    let mut headers = HeaderMap::new();
    for (name, value) in metadata {
        let header = HeaderName::try_from(format!("x-metadata-{name}"));
        let is_printable = value.bytes().all(|byte| (b' '..=b'~').contains(&byte));
        match (header, HeaderValue::try_from(value)) {
            (Ok(header), Ok(value)) if is_printable && !name.is_empty() => drop(headers.insert(header, value)),
            _ => return Err(Error::invalid(format!("metadata: {name:?} and its value are not printable ASCII"))),
        }
    }
    Ok(headers)
}

pub(super) fn too_old(sandbox: &Sandbox, what: &str) -> Error {
    let version = sandbox.envd_version();
    Error::new(ErrorKind::Unsupported, "", format!("the sandbox's envd, {version}, is too old {what}"))
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    #[tokio::test]
    async fn a_form_holds_the_bytes_as_they_are() {
        let data: Vec<u8> = (0..=255).collect();
        let form = Form::new(ACTION).unwrap();
        let content_type = form.content_type();
        let boundary = content_type.strip_prefix("multipart/form-data; boundary=").unwrap();
        let body = form.of_one("/a \"b\".bin", Body::from(data.clone()));
        let length = body.len();
        let form = body.collect().await.unwrap();
        assert_eq!(length, Some(form.len() as u64));
        let head =
            format!("--{boundary}\r\ncontent-disposition: form-data; name=\"file\"; filename=\"/a %22b%22.bin\"\r\n");
        assert!(form.starts_with(head.as_bytes()));
        let tail = [&data[..], format!("\r\n--{boundary}--\r\n").as_bytes()].concat();
        assert!(form.ends_with(&tail));
    }

    #[tokio::test]
    async fn what_is_packed_is_the_data_and_is_counted_before() {
        let sent = Arc::new(AtomicU64::new(7));
        for data in [&b"hello"[..], b""] {
            let streamed = Body::stream(http_body_util::Full::new(Bytes::copy_from_slice(data)));
            let packed = counted(streamed, &sent).map(None, packed).collect().await.unwrap();
            let mut unpacked = Vec::new();
            flate2::read::GzDecoder::new(&packed[..]).read_to_end(&mut unpacked).unwrap();
            assert_eq!((unpacked.as_slice(), sent.load(Ordering::Relaxed)), (data, data.len() as u64));
        }
    }
}
