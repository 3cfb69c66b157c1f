//! The files of a volume.

mod call;
mod change;

use bytes::Bytes;
use http_body_util::StreamBody;
use oncebox_protocol::{operations, volume};
use oncebox_transport::{Body, ResponseBody};
use tokio::io::AsyncRead;
use tokio_util::io::ReaderStream;

use super::{Volume, VolumeEntry};
use crate::error::{Error, ErrorKind};
use crate::files::MAX_WHOLE_FILE;

use call::{Content, collected};
pub use change::{MakeVolumeDir, UpdateVolumeEntry, WriteVolumeFile};

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
        MakeVolumeDir::new(self, path.into())
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
        UpdateVolumeEntry::new(self, path.into())
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
        WriteVolumeFile::new(self, path.into(), data.into())
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
