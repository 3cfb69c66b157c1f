//! Reading files: as a stream that goes on after a cut, whole, or into a file of this machine.

use std::path::Path;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use futures_util::stream::{self, BoxStream, Stream, StreamExt};
use tokio::io::AsyncWriteExt;

use super::resume::{Download, RESUMES};
use super::{Files, MAX_WHOLE_FILE, check_path};
use crate::error::{Error, ErrorKind};

const ACTION: &str = "read the file";

/// The bytes of a file, in bounded memory. A connection that is cut is made up for: what is left is asked for from where it
/// was cut, when the server lets it be told that the file is still the same.
pub struct FileStream {
    size: Option<u64>,
    pieces: BoxStream<'static, Result<Bytes, Error>>,
}

impl FileStream {
    async fn open(files: &Files<'_>, path: &str) -> Result<Self, Error> {
        let download = Download::open(files, path).await?;
        let size = download.size();
        let pieces = stream::try_unfold(download, |mut download| async move {
            Ok(download.piece().await?.map(|piece| (piece, download)))
        });
        Ok(Self { size, pieces: pieces.boxed() })
    }

    /// The file's size in bytes, where the server told it.
    pub fn size(&self) -> Option<u64> {
        self.size
    }

    /// The next piece; `None` at the end. Dropping the future loses nothing.
    ///
    /// # Errors
    ///
    /// After an error nothing follows: [`CannotResume`](ErrorKind::CannotResume) when the file changed after a cut, or
    /// nothing tells whether it did; [`ConnectionLost`](ErrorKind::ConnectionLost), or what the sandbox turned out to be,
    /// when it was cut five times in a row without a byte.
    pub async fn next(&mut self) -> Option<Result<Bytes, Error>> {
        self.pieces.next().await
    }
}

impl Stream for FileStream {
    type Item = Result<Bytes, Error>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.pieces.poll_next_unpin(cx)
    }
}

impl std::fmt::Debug for FileStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FileStream").field("size", &self.size).finish_non_exhaustive()
    }
}

impl Files<'_> {
    /// Reads a file whole, up to 1 GiB; [`read_stream`](Self::read_stream) and [`download`](Self::download) have no limit.
    /// What is cut is resumed, and read anew where the file changed meanwhile.
    ///
    /// # Errors
    ///
    /// [`NotFound`](ErrorKind::NotFound) when there is no such file,
    /// [`ConnectionLost`](ErrorKind::ConnectionLost) when it was cut again and again.
    pub async fn read(&self, path: &str) -> Result<Bytes, Error> {
        let mut restarts = 0;
        'anew: loop {
            let mut stream = self.read_stream(path).await?;
            let mut whole = BytesMut::new();
            while let Some(piece) = stream.next().await {
                match piece {
                    Ok(piece) if whole.len() + piece.len() > MAX_WHOLE_FILE => {
                        let message = "it is larger than 1 GiB; read it as a stream";
                        return Err(Error::new(ErrorKind::Unsupported, ACTION, message));
                    }
                    Ok(piece) => whole.extend_from_slice(&piece),
                    Err(error) => {
                        count_restart(&mut restarts, error)?;
                        continue 'anew;
                    }
                }
            }
            return Ok(whole.freeze());
        }
    }

    /// Reads a file whole as text.
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read), and when it is not UTF-8.
    pub async fn read_text(&self, path: &str) -> Result<String, Error> {
        let bytes = self.read(path).await?;
        String::from_utf8(bytes.into()).map_err(|error| Error::malformed("read the file as text", error))
    }

    /// Reads a file as a stream, in bounded memory.
    ///
    /// ```no_run
    /// # async fn example(sandbox: oncebox::Sandbox) -> Result<(), oncebox::Error> {
    /// let mut stream = sandbox.files().read_stream("large.bin").await?;
    /// while let Some(piece) = stream.next().await {
    ///     println!("{} bytes", piece?.len());
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read); what comes later shows in the stream.
    pub async fn read_stream(&self, path: &str) -> Result<FileStream, Error> {
        check_path(path)?;
        FileStream::open(self, path).await
    }

    /// Reads a file into one of this machine, in bounded memory. It appears when all of it has come, in place of what was
    /// there. `progress` is told how many bytes have come, and of how many where that is known.
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read), and [`InvalidArgument`](ErrorKind::InvalidArgument) when the file cannot be written here.
    pub async fn download(
        &self,
        path: &str,
        to: impl AsRef<Path>,
        mut progress: impl FnMut(u64, Option<u64>),
    ) -> Result<u64, Error> {
        let to = to.as_ref();
        let here = |error: std::io::Error| Error::invalid(format!("{}: {error}", to.display()));
        let mut stream = self.read_stream(path).await?;
        let folder = to.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        // Removed by itself unless it becomes the file.
        let temporary = tempfile::Builder::new().prefix(".oncebox-download-").tempfile_in(folder).map_err(here)?;
        let (file, temporary) = temporary.into_parts();
        let mut file = tokio::fs::File::from_std(file);
        let (mut received, mut restarts) = (0, 0);
        while let Some(piece) = stream.next().await {
            match piece {
                Ok(piece) => {
                    file.write_all(&piece).await.map_err(here)?;
                    received += piece.len() as u64;
                }
                Err(error) => {
                    count_restart(&mut restarts, error)?;
                    stream = self.read_stream(path).await?;
                    file.set_len(0).await.map_err(here)?;
                    tokio::io::AsyncSeekExt::rewind(&mut file).await.map_err(here)?;
                    received = 0;
                }
            }
            progress(received, stream.size());
        }
        file.flush().await.map_err(here)?;
        drop(file);
        temporary.persist(to).map_err(|error| here(error.error))?;
        readable_as_usual(to).await.map_err(here)?;
        Ok(received)
    }
}

/// Whether it may be read from its first byte again: what came of it is this side's to throw away.
fn count_restart(restarts: &mut u32, error: Error) -> Result<(), Error> {
    if error.kind() != ErrorKind::CannotResume || *restarts == RESUMES {
        return Err(error);
    }
    *restarts += 1;
    Ok(())
}

/// Temporary files are for their owner alone; this one is as any new file is.
async fn readable_as_usual(path: &Path) -> std::io::Result<()> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        tokio::fs::set_permissions(path, std::fs::Permissions::from_mode(0o644)).await?;
    }
    #[cfg(not(unix))]
    let _ = path;
    Ok(())
}
