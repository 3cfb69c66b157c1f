//! Uploads by parts, each of which can be sent again on its own, joined in the sandbox (`/files/compose`).

use std::path::{Path, PathBuf};
use std::time::Duration;

use futures_util::TryStreamExt;
use futures_util::stream;
use http::header::CONTENT_TYPE;
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use oncebox_protocol::envd_rest::{ComposeFiles, WrittenFile};
use oncebox_protocol::operations;
use oncebox_transport::{Body, BoxError};
use tokio::io::{AsyncReadExt, AsyncSeekExt};

use super::write::ACTION;
use super::{Files, check_path};
use crate::error::{Error, ErrorKind};
use crate::rpc::header;
use crate::sandbox::Sandbox;

/// The size of a part, in bytes: large enough that its round trip does not count, small enough to be sent again.
const PART: u64 = 16 << 20;

/// Attempts in a row of one part that came to nothing.
const IN_VAIN: u32 = 5;

/// The first wait before a part is sent again; each further one is twice as long.
const FIRST_WAIT: Duration = Duration::from_millis(100);

/// How long the parts of an upload that was given up are tried to be removed.
const CLEANUP: Duration = Duration::from_secs(30);

/// What a file of this machine is read by, in bytes.
const PIECE: u64 = 256 << 10;

impl Files<'_> {
    /// Writes a file of this machine, in bounded memory. A large one goes in parts of 16 MiB, where the sandbox can join
    /// them; a part that was cut is sent again, up to five times in a row, so that a cut costs no more than a part. It appears
    /// when all of it is there. `progress` is told how many bytes are there, and of how many.
    ///
    /// # Errors
    ///
    /// As [`write`](Self::write), and [`InvalidArgument`](ErrorKind::InvalidArgument) when the file cannot be read here.
    /// Parts that are left after an error are removed; those of an upload that is given up are removed in the background.
    pub async fn upload(
        &self,
        from: impl AsRef<Path>,
        path: &str,
        mut progress: impl FnMut(u64, u64),
    ) -> Result<WrittenFile, Error> {
        check_path(path)?;
        let from = from.as_ref();
        let here = |error: std::io::Error| Error::invalid(format!("{}: {error}", from.display()));
        let metadata = tokio::fs::metadata(from).await.map_err(here)?;
        if !metadata.is_file() {
            return Err(Error::invalid(format!("{}: it is no regular file", from.display())));
        }
        let size = metadata.len();
        // Whatever it takes, it is one history.
        let sandbox = self.sandbox.gathering();
        let files = Files { sandbox: &sandbox, user: self.user };
        files.upload_file(from, path, size, &mut progress).await.map_err(|error| sandbox.tell(error))
    }

    async fn upload_file(
        &self,
        from: &Path,
        path: &str,
        size: u64,
        progress: &mut impl FnMut(u64, u64),
    ) -> Result<WrittenFile, Error> {
        if size <= PART || !self.sandbox.composes().await? {
            let written = self.insistently(path, from, 0, size).await?;
            progress(size, size);
            return Ok(written);
        }
        let mut parts = Parts { sandbox: self.sandbox, user: self.user, names: Vec::new() };
        let joined = self.in_parts(from, path, size, &mut parts.names, progress).await;
        let names = std::mem::take(&mut parts.names);
        if joined.is_err() {
            self.remove_parts(&names).await;
        }
        joined
    }

    /// What cannot be removed does no harm, and whoever has it removed knows of what went wrong already.
    async fn remove_parts(&self, names: &[String]) {
        for part in names {
            let _ = self.remove(part).await;
        }
    }

    async fn in_parts(
        &self,
        from: &Path,
        path: &str,
        size: u64,
        parts: &mut Vec<String>,
        progress: &mut impl FnMut(u64, u64),
    ) -> Result<WrittenFile, Error> {
        let mut random = [0; 8];
        getrandom::fill(&mut random)
            .map_err(|error| Error::new(ErrorKind::Unsupported, ACTION, format!("no randomness: {error}")))?;
        let upload: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
        let mut offset = 0;
        while offset < size {
            let length = PART.min(size - offset);
            let part = format!("{path}.oncebox-{upload}-{}", parts.len());
            parts.push(part.clone());
            let sent = self.insistently(&part, from, offset, length).await;
            sent.map_err(|error| error.partly_if(offset > 0))?;
            offset += length;
            progress(offset, size);
        }
        let request = ComposeFiles {
            source_paths: parts.clone(),
            destination: path.to_owned(),
            username: self.user.map(str::to_owned),
        };
        let body = serde_json::to_vec(&request).map_err(|error| Error::invalid(format!("{ACTION}: {error}")))?;
        let headers = header(CONTENT_TYPE, "application/json")?;
        let joined = self.sandbox.envd().send(ACTION, &operations::COMPOSE_FILES, "", headers, Body::from(body)).await;
        let joined = match joined {
            Ok(answer) => answer.into_body().collect().await.map_err(|error| error.to_string()),
            // Nobody knows: what is there tells.
            Err(error) if error.may_have_been_processed() => Err(error.message().to_owned()),
            Err(error) => return Err(error.partly()),
        };
        let written = match joined {
            Ok(answer) => {
                serde_json::from_slice(&answer.to_bytes()).map_err(|error| Error::malformed(ACTION, error))?
            }
            Err(how) => self.was_joined(path, parts, &how).await?,
        };
        self.verify(path, size).await.map_err(Error::partly)?;
        Ok(written)
    }

    /// Whether the parts were joined although nobody said so: then they are gone, and the whole is there.
    async fn was_joined(&self, path: &str, parts: &[String], how: &str) -> Result<WrittenFile, Error> {
        let unknown = |what: &str| {
            Error::new(ErrorKind::OutcomeUnknown, ACTION, format!("{how}, while the parts were joined; {what}"))
        };
        let first = parts.first().map_or("", String::as_str);
        match self.exists(first).await {
            Ok(false) => {}
            Ok(true) => return Err(unknown("they are still there")),
            Err(error) => return Err(unknown(error.message())),
        }
        let entry = self.info(path).await.map_err(|error| unknown(error.message()))?;
        Ok(WrittenFile { name: entry.name, path: entry.path, r#type: "file".to_owned(), metadata: None })
    }

    /// Writes a part of a file of this machine, as often as it takes.
    async fn insistently(&self, path: &str, from: &Path, offset: u64, length: u64) -> Result<WrittenFile, Error> {
        let (mut in_vain, mut begun) = (0, false);
        loop {
            let (name, counts) = (from.to_owned(), (offset, length));
            let data =
                Body::rewindable(Some(length), move || StreamBody::new(pieces(name.clone(), counts.0, counts.1)));
            let error = match self.write(path, data).await {
                Ok(written) => return Ok(written),
                Err(error) => error,
            };
            in_vain += 1;
            if in_vain == IN_VAIN || !may_pass(&error) {
                return Err(self.sandbox.after_loss(error).await.partly_if(begun));
            }
            begun |= error.may_have_been_processed();
            tracing::debug!(%error, path, offset, "a part is sent again");
            let wait = FIRST_WAIT * 2_u32.pow(in_vain - 1);
            tokio::time::sleep(wait.mul_f64(0.5 + self.sandbox.client().transport().draw() / 2.0)).await;
        }
    }
}

/// The parts of an upload under way: removed when it is given up.
struct Parts<'a> {
    sandbox: &'a Sandbox,
    user: Option<&'a str>,
    names: Vec<String>,
}

impl Drop for Parts<'_> {
    fn drop(&mut self) {
        let names = std::mem::take(&mut self.names);
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        if names.is_empty() {
            return;
        }
        let (sandbox, user) = (self.sandbox.clone(), self.user.map(str::to_owned));
        runtime.spawn(async move {
            let files = Files { sandbox: &sandbox, user: user.as_deref() };
            let _ = tokio::time::timeout(CLEANUP, files.remove_parts(&names)).await;
        });
    }
}

/// Whether a whole file that is written again may go better (semantics: writing a whole file is idempotent).
fn may_pass(error: &Error) -> bool {
    use ErrorKind as Kind;
    match error.kind() {
        Kind::OutcomeUnknown | Kind::ConnectionLost | Kind::NotDone | Kind::Busy | Kind::SandboxUnreachable => true,
        Kind::Server => error.status().is_none_or(|status| matches!(status, 500 | 502 | 504)),
        _ => false,
    }
}

/// A part of a file, piece by piece.
fn pieces(
    name: PathBuf,
    offset: u64,
    length: u64,
) -> impl futures_util::Stream<Item = Result<Frame<bytes::Bytes>, BoxError>> + Send {
    stream::try_unfold((None, length), move |(file, left)| {
        let name = name.clone();
        async move {
            if left == 0 {
                return Ok(None);
            }
            let mut file = match file {
                Some(file) => file,
                None => {
                    let mut file = tokio::fs::File::open(&name).await?;
                    file.seek(std::io::SeekFrom::Start(offset)).await?;
                    file
                }
            };
            let mut piece = vec![0; usize::try_from(left.min(PIECE)).unwrap_or_default()];
            file.read_exact(&mut piece).await?;
            let left = left - piece.len() as u64;
            Ok(Some((Frame::data(bytes::Bytes::from(piece)), (Some(file), left))))
        }
    })
    .into_stream()
}

impl Sandbox {
    /// Whether it joins files. Asked once.
    async fn composes(&self) -> Result<bool, Error> {
        if let Some(known) = self.known_to_compose().get() {
            return Ok(*known);
        }
        // Nothing to join: a server that has the operation refuses it, and does nothing.
        let body = Body::from(r#"{"source_paths":[],"destination":""}"#);
        let headers = header(CONTENT_TYPE, "application/json")?;
        let asked =
            self.envd().send("ask whether files can be joined", &operations::COMPOSE_FILES, "", headers, body).await;
        let composes = match asked {
            Ok(_) => true,
            Err(error) => match error.status() {
                Some(404 | 405 | 501) => false,
                Some(400 | 422) => true,
                _ => return Err(error),
            },
        };
        let _ = self.known_to_compose().set(composes);
        Ok(composes)
    }
}
