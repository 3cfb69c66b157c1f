//! Writing many files in few requests.

use std::collections::BTreeMap;
use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use futures_util::stream::{self, StreamExt, TryStreamExt};
use http::header::CONTENT_TYPE;
use oncebox_protocol::envd_rest::WrittenFile;
use oncebox_transport::Body;

use super::form::{Form, is_plain};
use super::write::{compare, metadata};
use super::{Files, check_path};
use crate::error::Error;
use crate::rpc::header;
use crate::sandbox::Sandbox;

const ACTION: &str = "write the files";

/// Files in one request: servers have bounds of their own.
const MAX_FILES: usize = 1000;

/// Bytes in one request, as long as it has more than one file.
const MAX_BYTES: usize = 16 << 20;

/// Requests at a time.
const AT_ONCE: usize = 4;

/// Files about to be written: see [`Files::write_files`]. Await it.
#[must_use = "nothing is written until it is awaited"]
pub struct WriteFiles {
    sandbox: Sandbox,
    user: Option<String>,
    files: Vec<(String, Body)>,
    metadata: Vec<(String, String)>,
    verify: bool,
}

impl Files<'_> {
    /// Writes many files, in as few requests as they fit into: 1,000 files or 16 MiB each. What is [streamed](Body::stream)
    /// has a request of its own, and so has a file whose name servers might read from a form in different ways. Sizes are
    /// checked afterwards, a directory at a time. Set options on what this returns, and await it: it gives what was written,
    /// in the order of `files`.
    ///
    /// ```no_run
    /// # async fn example(sandbox: oncebox::Sandbox) -> Result<(), oncebox::Error> {
    /// sandbox.files().write_files([("src/a.py", "print(1)"), ("src/b.py", "print(2)")]).await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`write`](Self::write); some of the files may have been written. [`InvalidArgument`](crate::ErrorKind::InvalidArgument)
    /// for a path that is named twice, before any I/O.
    pub fn write_files<P, D>(&self, files: impl IntoIterator<Item = (P, D)>) -> WriteFiles
    where
        P: Into<String>,
        D: Into<Body>,
    {
        WriteFiles {
            sandbox: self.sandbox.clone(),
            user: self.user.map(str::to_owned),
            files: files.into_iter().map(|(path, data)| (path.into(), data.into())).collect(),
            metadata: Vec::new(),
            verify: true,
        }
    }
}

/// Files of one request, with their places among all.
type Batch = Vec<(usize, String, Bytes)>;

impl WriteFiles {
    /// As [`WriteFile::metadata`](super::WriteFile::metadata), for each of them.
    pub fn metadata(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.metadata.push((name.into(), value.into()));
        self
    }

    /// As [`WriteFile::verify`](super::WriteFile::verify).
    pub fn verify(mut self, verify: bool) -> Self {
        self.verify = verify;
        self
    }

    async fn send(self) -> Result<Vec<WrittenFile>, Error> {
        let mut seen = std::collections::HashSet::new();
        for (path, _) in &self.files {
            check_path(path)?;
            if !seen.insert(path.as_str()) {
                return Err(Error::invalid(format!("write_files: {path:?} is named twice")));
            }
        }
        let headers = metadata(&self.sandbox, &self.metadata)?;
        let count = self.files.len();
        let (batches, alone) = sorted(self.files);
        let files = Files { sandbox: &self.sandbox, user: self.user.as_deref() };
        // Those that were done, and those that are on their way when another one fails.
        let begun = &AtomicUsize::new(0);
        let batches = batches.into_iter().map(|batch| {
            let headers = headers.clone();
            async move {
                begun.fetch_add(1, Ordering::Relaxed);
                let posted = files.post_batch(batch, headers, self.verify).await;
                if posted.as_ref().is_err_and(|error| !error.may_have_been_processed()) {
                    begun.fetch_sub(1, Ordering::Relaxed);
                }
                posted
            }
        });
        let partly = |error: Error| error.partly_if(begun.load(Ordering::Relaxed) > 0);
        let mut written: Vec<Option<WrittenFile>> = (0..count).map(|_| None).collect();
        let mut batches = std::pin::pin!(stream::iter(batches).buffer_unordered(AT_ONCE));
        while let Some(batch) = batches.try_next().await.map_err(partly)? {
            for (place, file) in batch {
                written[place] = Some(file);
            }
        }
        for (place, path, data) in alone {
            let mut write = files.write(path, data).verify(self.verify);
            for (name, value) in &self.metadata {
                write = write.metadata(name, value);
            }
            written[place] = Some(write.await.map_err(partly)?);
            begun.fetch_add(1, Ordering::Relaxed);
        }
        Ok(written.into_iter().flatten().collect())
    }
}

impl IntoFuture for WriteFiles {
    type Output = Result<Vec<WrittenFile>, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.send())
    }
}

impl std::fmt::Debug for WriteFiles {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WriteFiles").field("files", &self.files.len()).finish_non_exhaustive()
    }
}

impl Files<'_> {
    async fn post_batch(
        &self,
        batch: Batch,
        mut headers: http::HeaderMap,
        verify: bool,
    ) -> Result<Vec<(usize, WrittenFile)>, Error> {
        let form = Form::new(ACTION)?;
        headers.extend(header(CONTENT_TYPE, &form.content_type())?);
        let (places, files): (Vec<usize>, Vec<(String, Bytes)>) =
            batch.into_iter().map(|(place, path, data)| (place, (path, data))).unzip();
        let written = self.post(ACTION, None, headers, form.of_many(&files)).await?;
        if written.len() != files.len() {
            let message = format!("{} files were sent, and it names {}", files.len(), written.len());
            return Err(Error::malformed(ACTION, message));
        }
        if verify {
            let sizes = files.iter().map(|(_, data)| data.len() as u64);
            let sizes = written.iter().map(|file| file.path.clone()).zip(sizes).collect();
            self.verify_all(sizes).await.map_err(Error::partly)?;
        }
        Ok(places.into_iter().zip(written).collect())
    }

    /// Compares sizes by the lists of their directories: one request for each of these.
    async fn verify_all(&self, sizes: Vec<(String, u64)>) -> Result<(), Error> {
        let mut folders: BTreeMap<String, Vec<(String, u64)>> = BTreeMap::new();
        for (path, size) in sizes {
            let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
            let folder = if folder.is_empty() { "/" } else { folder }.to_owned();
            folders.entry(folder).or_default().push((path, size));
        }
        let checks = folders.into_iter().map(|(folder, files)| self.verify_folder(folder, files));
        stream::iter(checks).buffer_unordered(AT_ONCE).try_collect().await
    }

    async fn verify_folder(&self, folder: String, files: Vec<(String, u64)>) -> Result<(), Error> {
        if let [(path, size)] = &files[..] {
            return self.verify(path, *size).await;
        }
        let listed = self.list(&folder, 1).await?;
        let listed: BTreeMap<&str, &super::Entry> = listed.iter().map(|entry| (entry.path.as_str(), entry)).collect();
        for (path, size) in &files {
            match listed.get(path.as_str()) {
                Some(entry) if !entry.is_symlink => compare(entry, *size)?,
                _ => self.verify(path, *size).await?,
            }
        }
        Ok(())
    }
}

/// Those that go together, and those that go alone.
fn sorted(files: Vec<(String, Body)>) -> (Vec<Batch>, Vec<(usize, String, Body)>) {
    let (mut batches, mut alone) = (Vec::<Batch>::new(), Vec::new());
    let mut bytes = 0;
    for (place, (path, data)) in files.into_iter().enumerate() {
        if data.is_stream() || !is_plain(&path) {
            alone.push((place, path, data));
            continue;
        }
        let data = data.into_bytes().unwrap_or_default();
        match batches.last_mut().filter(|batch| batch.len() < MAX_FILES && bytes + data.len() <= MAX_BYTES) {
            Some(batch) => {
                bytes += data.len();
                batch.push((place, path, data));
            }
            None => {
                bytes = data.len();
                batches.push(vec![(place, path, data)]);
            }
        }
    }
    (batches, alone)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_go_together_as_far_as_they_fit() {
        let many = (0..1001).map(|n| (format!("f{n}"), Body::from("x"))).collect();
        let (batches, alone) = sorted(many);
        assert_eq!((batches.iter().map(Vec::len).collect::<Vec<_>>(), alone.len()), (vec![1000, 1], 0));
        let large = || Body::from(vec![0; MAX_BYTES]);
        let odd = ("a\"b".to_owned(), Body::from("x"));
        let stream = ("s".to_owned(), Body::stream(http_body_util::Full::new(Bytes::new())));
        let (batches, alone) =
            sorted(vec![("a".into(), large()), odd, ("b".into(), "x".into()), stream, ("c".into(), large())]);
        assert_eq!(batches.iter().map(|batch| batch[0].0).collect::<Vec<_>>(), [0, 2, 4]);
        assert_eq!(alone.iter().map(|(place, ..)| *place).collect::<Vec<_>>(), [1, 3]);
    }
}
