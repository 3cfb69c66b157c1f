//! The files of a volume.

use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT_ENCODING, AUTHORIZATION, CONTENT_TYPE, USER_AGENT};
use http::{HeaderValue, Request, Response};
use http_body_util::{BodyExt, Limited, StreamBody};
use oncebox_protocol::{Operation, operations, volume};
use oncebox_transport::policy::Permit;
use oncebox_transport::{Body, CallOptions, History, ResponseBody, TrafficClass};
use serde::de::DeserializeOwned;
use tokio::io::AsyncRead;
use tokio_util::io::ReaderStream;

use super::{Volume, VolumeEntry};
use crate::client::AGENT;
use crate::error::{Error, ErrorKind};
use crate::files::{MAX_WHOLE_FILE, check_path};
use crate::rpc::{data_options, query, read_error, secret};

/// How long the transfer of a file may take (protocol fact: what the official SDK allows).
const FILE_TIMEOUT: Duration = Duration::from_secs(3600);

/// The longest description of entries that is read.
const MAX_ANSWER: usize = 256 << 20;

/// What a reader is read by, in bytes.
const PIECE: usize = 64 << 10;

impl Volume {
    /// Lists a directory of the volume: its entries and those `depth - 1` levels below; 1 lists the directory alone.
    ///
    /// # Errors
    ///
    /// [`NotFound`](ErrorKind::NotFound) when there is no such directory,
    /// [`InvalidArgument`](ErrorKind::InvalidArgument) for a file, or a depth of 0.
    pub async fn list_dir(&self, path: &str, depth: u32) -> Result<Vec<VolumeEntry>, Error> {
        const ACTION: &str = "list the volume's directory";
        if depth == 0 {
            return Err(Error::invalid("depth: 0 would list nothing; 1 lists the directory itself"));
        }
        let depth = depth.to_string();
        let call = Content::new(&operations::LIST_VOLUME_DIR, ACTION, path).query("depth", Some(depth));
        let listed: Vec<volume::Entry> = call.parsed(self).await?;
        Ok(listed.into_iter().map(VolumeEntry::from).collect())
    }

    /// Makes a directory. Set its owner, group and permissions on what this returns, and await it.
    ///
    /// # Errors
    ///
    /// [`Conflict`](ErrorKind::Conflict) when it is there already, [`NotFound`](ErrorKind::NotFound) when its parent is
    /// not, both unless [`force`](MakeVolumeDir::force) is set; [`OutcomeUnknown`](ErrorKind::OutcomeUnknown) when the
    /// answer was lost.
    pub fn make_dir(&self, path: impl Into<String>) -> MakeVolumeDir {
        MakeVolumeDir { volume: self.clone(), path: path.into(), attributes: Attributes::default(), force: None }
    }

    /// Whether a path exists.
    ///
    /// # Errors
    ///
    /// When the volume cannot be asked.
    pub async fn exists(&self, path: &str) -> Result<bool, Error> {
        match self.entry(path).await {
            Ok(_) => Ok(true),
            Err(error) if error.is_not_found() => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Describes a path.
    ///
    /// # Errors
    ///
    /// [`NotFound`](ErrorKind::NotFound) when it does not exist.
    pub async fn entry(&self, path: &str) -> Result<VolumeEntry, Error> {
        let call = Content::new(&operations::STAT_VOLUME_PATH, "describe the volume's path", path);
        call.parsed::<volume::Entry>(self).await.map(VolumeEntry::from)
    }

    /// Changes the owner, group or permissions of a path: set them on what this returns, and await it.
    ///
    /// # Errors
    ///
    /// [`NotFound`](ErrorKind::NotFound) when it does not exist,
    /// [`InvalidArgument`](ErrorKind::InvalidArgument) when nothing is to be changed, before any I/O.
    pub fn update_metadata(&self, path: impl Into<String>) -> UpdateVolumeEntry {
        UpdateVolumeEntry { volume: self.clone(), path: path.into(), attributes: Attributes::default() }
    }

    /// Reads a file whole, up to 1 GiB; [`read_stream`](Self::read_stream) has no limit.
    ///
    /// # Errors
    ///
    /// [`NotFound`](ErrorKind::NotFound) when there is no such file,
    /// [`ConnectionLost`](ErrorKind::ConnectionLost) when it was cut.
    pub async fn read_file(&self, path: &str) -> Result<Bytes, Error> {
        let body = self.read_stream(path).await?;
        collected("read the volume's file", body, MAX_WHOLE_FILE, ErrorKind::ConnectionLost).await
    }

    /// Reads a file whole as text.
    ///
    /// # Errors
    ///
    /// As [`read_file`](Self::read_file), and when it is not UTF-8.
    pub async fn read_text(&self, path: &str) -> Result<String, Error> {
        let bytes = self.read_file(path).await?;
        String::from_utf8(bytes.into()).map_err(|error| Error::malformed("read the volume's file as text", error))
    }

    /// Reads a file as a stream, in bounded memory.
    ///
    /// # Errors
    ///
    /// As [`read_file`](Self::read_file); a cut shows in the stream.
    pub async fn read_stream(&self, path: &str) -> Result<ResponseBody, Error> {
        let call = Content::new(&operations::READ_VOLUME_FILE, "read the volume's file", path).bulk();
        Ok(call.send(self, Body::empty()).await?.into_body())
    }

    /// Writes a file: bytes, text or a [stream](Body::stream). It takes the place of what was there. Set its owner, group and
    /// permissions on what this returns, and await it.
    ///
    /// An upload that was cut, or met a 503, is sent again whole where [retries](Volume::with) are asked for and `data` can
    /// be: bytes, text, and what is [rewindable](Body::rewindable).
    ///
    /// # Errors
    ///
    /// [`NotEnoughSpace`](ErrorKind::NotEnoughSpace) when there is no room,
    /// [`NotFound`](ErrorKind::NotFound) when the parent does not exist, unless [`force`](WriteVolumeFile::force) is set.
    pub fn write_file(&self, path: impl Into<String>, data: impl Into<Body>) -> WriteVolumeFile {
        let attributes = Attributes::default();
        WriteVolumeFile { volume: self.clone(), path: path.into(), data: data.into(), attributes, force: None }
    }

    /// As [`write_file`](Self::write_file), from a reader, in bounded memory. It is read once, so that nothing is sent again
    /// of which any byte was read.
    pub fn write_reader(&self, path: impl Into<String>, reader: impl AsyncRead + Send + 'static) -> WriteVolumeFile {
        use futures_util::TryStreamExt;
        let frames = ReaderStream::with_capacity(reader, PIECE).map_ok(http_body::Frame::data);
        self.write_file(path, Body::stream(StreamBody::new(frames)))
    }

    /// Removes a file, or a directory with all below it.
    ///
    /// # Errors
    ///
    /// [`NotFound`](ErrorKind::NotFound) when it does not exist.
    pub async fn remove(&self, path: &str) -> Result<(), Error> {
        let call = Content::new(&operations::REMOVE_VOLUME_PATH, "remove the volume's path", path);
        call.send(self, Body::empty()).await.map(drop)
    }
}

/// Owner, group and permissions.
#[derive(Clone, Copy, Debug, Default)]
struct Attributes {
    uid: Option<u32>,
    gid: Option<u32>,
    mode: Option<u32>,
}

/// A directory about to be made: see [`Volume::make_dir`].
#[derive(Clone, Debug)]
#[must_use = "nothing is done until this is awaited"]
pub struct MakeVolumeDir {
    volume: Volume,
    path: String,
    attributes: Attributes,
    force: Option<bool>,
}

/// A change of owner, group or permissions about to be made: see [`Volume::update_metadata`].
#[derive(Clone, Debug)]
#[must_use = "nothing is done until this is awaited"]
pub struct UpdateVolumeEntry {
    volume: Volume,
    path: String,
    attributes: Attributes,
}

/// A file about to be written: see [`Volume::write_file`].
#[derive(Debug)]
#[must_use = "nothing is done until this is awaited"]
pub struct WriteVolumeFile {
    volume: Volume,
    path: String,
    data: Body,
    attributes: Attributes,
    force: Option<bool>,
}

macro_rules! attributes {
    ($($name:ident),+) => {$(
        impl $name {
            /// Its owner, by number.
            pub fn uid(mut self, uid: u32) -> Self {
                self.attributes.uid = Some(uid);
                self
            }

            /// Its group, by number.
            pub fn gid(mut self, gid: u32) -> Self {
                self.attributes.gid = Some(gid);
                self
            }

            /// Its permission bits, such as `0o644`.
            pub fn mode(mut self, mode: u32) -> Self {
                self.attributes.mode = Some(mode);
                self
            }
        }

        impl IntoFuture for $name {
            type Output = Result<VolumeEntry, Error>;
            type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

            fn into_future(self) -> Self::IntoFuture {
                Box::pin(self.send())
            }
        }
    )+};
}

attributes!(MakeVolumeDir, UpdateVolumeEntry, WriteVolumeFile);

impl MakeVolumeDir {
    /// Makes parents too, and accepts a directory that is there already. Default: no.
    pub fn force(mut self, force: bool) -> Self {
        self.force = Some(force);
        self
    }

    async fn send(self) -> Result<VolumeEntry, Error> {
        let mut call = Content::new(&operations::MAKE_VOLUME_DIR, "make the volume's directory", &self.path);
        call = call.attributes(self.attributes).query("force", self.force.map(|force| force.to_string()));
        if self.force == Some(true) {
            // The second time finds what the first one made.
            call.options = call.options.permit(Permit::OperationTable);
        }
        call.parsed::<volume::Entry>(&self.volume).await.map(VolumeEntry::from)
    }
}

impl UpdateVolumeEntry {
    async fn send(self) -> Result<VolumeEntry, Error> {
        const ACTION: &str = "change the volume's path";
        let Attributes { uid, gid, mode } = self.attributes;
        if (uid, gid, mode) == (None, None, None) {
            return Err(Error::invalid("nothing to change: give uid, gid or mode"));
        }
        let body = serde_json::to_vec(&volume::UpdateEntry { uid, gid, mode });
        let body = body.map_err(|error| Error::invalid(format!("{ACTION}: {error}")))?;
        let call = Content::new(&operations::UPDATE_VOLUME_PATH, ACTION, &self.path).content_type("application/json");
        let response = call.send(&self.volume, Body::from(body)).await?;
        read::<volume::Entry>(ACTION, response).await.map(VolumeEntry::from)
    }
}

impl WriteVolumeFile {
    /// Makes parents too. Default: no.
    pub fn force(mut self, force: bool) -> Self {
        self.force = Some(force);
        self
    }

    async fn send(self) -> Result<VolumeEntry, Error> {
        const ACTION: &str = "write the volume's file";
        let call = Content::new(&operations::WRITE_VOLUME_FILE, ACTION, &self.path).bulk();
        let call = call.attributes(self.attributes).query("force", self.force.map(|force| force.to_string()));
        let response = call.content_type("application/octet-stream").send(&self.volume, self.data).await?;
        read::<volume::Entry>(ACTION, response).await.map(VolumeEntry::from)
    }
}

/// A call about content.
struct Content<'a> {
    operation: &'static Operation,
    action: &'static str,
    path: &'a str,
    query: Vec<(&'static str, String)>,
    content_type: Option<&'static str>,
    options: CallOptions,
}

impl<'a> Content<'a> {
    fn new(operation: &'static Operation, action: &'static str, path: &'a str) -> Self {
        let options = data_options(operation);
        Self { operation, action, path, query: Vec::new(), content_type: None, options }
    }

    fn query(mut self, name: &'static str, value: Option<String>) -> Self {
        self.query.extend(value.map(|value| (name, value)));
        self
    }

    fn attributes(self, Attributes { uid, gid, mode }: Attributes) -> Self {
        let text = |number: Option<u32>| number.map(|number| number.to_string());
        self.query("uid", text(uid)).query("gid", text(gid)).query("mode", text(mode))
    }

    fn content_type(mut self, content_type: &'static str) -> Self {
        self.content_type = Some(content_type);
        self
    }

    /// The content of a file: off the connections of short calls, and with the time that it takes.
    fn bulk(mut self) -> Self {
        self.options = self.options.class(TrafficClass::Bulk).request_timeout(FILE_TIMEOUT);
        self
    }

    async fn send(self, volume: &Volume, body: Body) -> Result<Response<ResponseBody>, Error> {
        check_path(self.path)?;
        let action = self.action;
        let wrong = |error: &dyn std::fmt::Display| Error::invalid(format!("{action}: {error}"));
        let path = self.operation.path_for(&[&volume.id]).map_err(|e| wrong(&e))?;
        let pairs = self.query.iter().map(|(name, value)| (*name, value.as_str()));
        let query = query([("path", self.path)].into_iter().chain(pairs));
        let uri = volume.client.endpoint().volume(volume.domain.as_deref(), &format!("{path}{query}"));
        let mut request =
            Request::builder().method(self.operation.method.clone()).uri(uri).body(body).map_err(|e| wrong(&e))?;
        let headers = request.headers_mut();
        headers.insert(USER_AGENT, AGENT.clone());
        // What is compressed on the way has no length that could be checked.
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        headers
            .insert(AUTHORIZATION, secret(&format!("Bearer {}", volume.token.expose()), "the volume's access token")?);
        if let Some(content_type) = self.content_type {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
        }
        let options = volume.client.own().apply(self.options);
        let response = volume.client.transport().send(request, options).await;
        let response = response.map_err(|error| Error::transport(action, error))?.into_http();
        if response.status().is_success() {
            return Ok(response);
        }
        let status = response.status().as_u16();
        let history = response.extensions().get::<History>().cloned();
        let body = read_error(response.into_body()).await;
        Err(Error::answer(action, status, &body, history.as_ref()))
    }

    async fn parsed<T: DeserializeOwned>(self, volume: &Volume) -> Result<T, Error> {
        let action = self.action;
        read(action, self.send(volume, Body::empty()).await?).await
    }
}

async fn read<T: DeserializeOwned>(action: &str, response: Response<ResponseBody>) -> Result<T, Error> {
    let cut = if response.status() == 201 { ErrorKind::OutcomeUnknown } else { ErrorKind::ConnectionLost };
    let body = collected(action, response.into_body(), MAX_ANSWER, cut).await?;
    serde_json::from_slice(&body).map_err(|error| Error::malformed(action, error))
}

async fn collected(action: &str, body: ResponseBody, limit: usize, cut: ErrorKind) -> Result<Bytes, Error> {
    match Limited::new(body, limit).collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.is::<http_body_util::LengthLimitError>() => {
            let message = format!("it is longer than {limit} bytes; read it as a stream");
            Err(Error::new(ErrorKind::Unsupported, action, message))
        }
        Err(error) => Err(Error::new(cut, action, error.to_string())),
    }
}
