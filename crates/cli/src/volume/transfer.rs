//! Files on their way into volumes and out of them, with a bar on the terminal.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::Frame;
use http_body_util::BodyExt;
use indicatif::{ProgressBar, ProgressStyle};
use oncebox::{Body, Error, Volume, VolumeEntry};

use super::{DownloadArgs, RETRIES, UploadArgs, is_stream};
use crate::exit::{self, Failure};
use crate::signals::Signals;

/// A file is read in pieces of this size.
const PIECE: usize = 64 << 10;

/// What was done; or the exit code of the signal that ended it.
type Done<T> = Result<Result<T, u8>, Failure>;

pub(super) async fn upload(args: &UploadArgs) -> Done<VolumeEntry> {
    let mut signals = Signals::new()?;
    // A file that cannot be read is told before anything is asked for.
    let file = if is_stream(&args.file) { None } else { Some(file_body(&args.file)?) };
    let volume = args.plain.open(&args.volume).await?;
    let (write, bar) = match file {
        Some((body, bar)) => (volume.write_file(&args.path, body), bar),
        None => (volume.write_reader(&args.path, tokio::io::stdin()), ProgressBar::hidden()),
    };
    let written = tokio::select! {
        written = apply(write, args) => Ok(written),
        signal = signals.next() => Err(exit::SIGNAL.saturating_add(signal)),
    };
    bar.finish_and_clear();
    match written {
        Ok(written) => written.map(Ok).map_err(|error| Failure::of(&error, args.plain.json)),
        Err(signal) => Ok(Err(signal)),
    }
}

fn apply(mut write: oncebox::WriteVolumeFile, args: &UploadArgs) -> oncebox::WriteVolumeFile {
    if let Some(uid) = args.uid {
        write = write.uid(uid);
    }
    if let Some(gid) = args.gid {
        write = write.gid(gid);
    }
    if let Some(mode) = args.mode {
        write = write.mode(mode);
    }
    write.force(args.force)
}

/// A file that is read anew for each time it is sent, and a bar that shows how far that is.
fn file_body(path: &Path) -> Result<(Body, ProgressBar), Failure> {
    let wrong = |error: &dyn std::fmt::Display| Failure::usage(format!("{}: {error}", path.display()));
    let file = File::open(path).map_err(|error| Failure::unreadable("FILE", path, &error))?;
    let metadata = file.metadata().map_err(|error| wrong(&error))?;
    if !metadata.is_file() {
        return Err(wrong(&"it is no file; standard input is -"));
    }
    let (length, bar) = (metadata.len(), bar(Some(metadata.len())));
    let (path, shown) = (path.to_owned(), bar.clone());
    let body = Body::rewindable(Some(length), move || {
        shown.set_position(0);
        FileBody { file: File::open(&path).map_err(Some), left: length, bar: shown.clone() }
    });
    Ok((body, bar))
}

struct FileBody {
    /// Or why it could not be opened; nothing once that was told.
    file: Result<File, Option<io::Error>>,
    left: u64,
    bar: ProgressBar,
}

impl http_body::Body for FileBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let this = &mut *self;
        let file = match &mut this.file {
            Ok(file) => file,
            Err(error) => return Poll::Ready(error.take().map(Err)),
        };
        if this.left == 0 {
            return Poll::Ready(None);
        }
        // A local file's piece: that it blocks for a moment does no harm, since nothing else goes on here.
        let mut piece = vec![0; PIECE.min(usize::try_from(this.left).unwrap_or(PIECE))];
        let read = match file.read(&mut piece) {
            Ok(0) => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the file became shorter while it was sent")),
            Ok(read) => Ok(read),
            Err(error) => Err(error),
        };
        Poll::Ready(Some(read.map(|read| {
            this.left -= read as u64;
            this.bar.inc(read as u64);
            piece.truncate(read);
            Frame::data(piece.into())
        })))
    }

    fn size_hint(&self) -> http_body::SizeHint {
        http_body::SizeHint::with_exact(self.left)
    }
}

pub(super) async fn download(volume: &Volume, args: &DownloadArgs) -> Done<u64> {
    let mut signals = Signals::new()?;
    let bar = bar(None);
    let copied = tokio::select! {
        copied = copy(volume, args, &bar) => Ok(copied),
        signal = signals.next() => Err(exit::SIGNAL.saturating_add(signal)),
    };
    bar.finish_and_clear();
    match copied {
        Ok(copied) => copied.map(Ok),
        Err(signal) => Ok(Err(signal)),
    }
}

async fn copy(volume: &Volume, args: &DownloadArgs, bar: &ProgressBar) -> Result<u64, Failure> {
    let failed = |error: Error| Failure::of(&error, args.plain.json);
    let entry = volume.entry(&args.path).await.map_err(failed)?;
    bar.set_length(entry.size);
    if is_stream(&args.file) {
        // What is printed cannot be taken back.
        return once(volume, &args.path, &mut io::stdout(), bar).await.map_err(|lost| lost.failure(args));
    }
    let mut left = args.plain.connection.retries.unwrap_or(RETRIES);
    loop {
        let mut part = Part::new(&args.file)?;
        match once(volume, &args.path, &mut part.file, bar).await {
            Ok(bytes) => return part.keep(&args.file).map(|()| bytes),
            Err(Lost::Cut(error)) if left > 0 => {
                tracing::warn!(%error, "the download was cut, and begins anew");
                left -= 1;
            }
            Err(lost) => return Err(lost.failure(args)),
        }
    }
}

/// Why a download ended early.
enum Lost {
    Request(Error),
    Cut(String),
    Write(io::Error),
}

impl Lost {
    fn failure(&self, args: &DownloadArgs) -> Failure {
        match self {
            Self::Request(error) => Failure::of(error, args.plain.json),
            Self::Cut(how) => Failure::infrastructure(format!("the download was cut: {how}")),
            Self::Write(error) if is_stream(&args.file) => Failure::unwritten(error),
            Self::Write(error) => Failure::infrastructure(format!("{}: {error}", args.file.display())),
        }
    }
}

async fn once(volume: &Volume, path: &str, to: &mut impl Write, bar: &ProgressBar) -> Result<u64, Lost> {
    bar.set_position(0);
    let mut body = volume.read_stream(path).await.map_err(Lost::Request)?;
    let mut bytes = 0;
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(|error| Lost::Cut(error.to_string()))?.into_data() else { continue };
        to.write_all(&data).map_err(Lost::Write)?;
        bytes += data.len() as u64;
        bar.set_position(bytes);
    }
    to.flush().map_err(Lost::Write)?;
    Ok(bytes)
}

/// A file beside the one that is wanted, which takes its place when it is whole, and is removed otherwise.
struct Part {
    file: File,
    path: Option<PathBuf>,
}

impl Part {
    fn new(target: &Path) -> Result<Self, Failure> {
        let wrong = |error: &dyn std::fmt::Display| Failure::usage(format!("{}: {error}", target.display()));
        let name = target.file_name().ok_or_else(|| wrong(&"it names no file"))?.to_string_lossy();
        let path = target.with_file_name(format!(".{name}.{}.part", std::process::id()));
        let file = File::create(&path).map_err(|error| wrong(&error))?;
        Ok(Self { file, path: Some(path) })
    }

    fn keep(mut self, target: &Path) -> Result<(), Failure> {
        let Some(path) = &self.path else { return Ok(()) };
        std::fs::rename(path, target)
            .map_err(|error| Failure::infrastructure(format!("{}: {error}", target.display())))?;
        self.path = None;
        Ok(())
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        if let Some(path) = &self.path {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Shown on a terminal, and nowhere else.
fn bar(length: Option<u64>) -> ProgressBar {
    let style = "{bar:30} {bytes}/{total_bytes} {bytes_per_sec}";
    let bar = ProgressBar::new(length.unwrap_or_default());
    match ProgressStyle::with_template(style) {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}
