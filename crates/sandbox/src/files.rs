//! Files in a sandbox.

use std::collections::BTreeMap;

use bytes::Bytes;
use http::HeaderMap;
use http::header::{ACCEPT_ENCODING, CONTENT_TYPE};
use http_body_util::{BodyExt, Limited};
use oncebox_protocol::envd::filesystem::{
    EntryInfo, FileType, ListDirRequest, MakeDirRequest, MoveRequest, RemoveRequest, StatRequest,
};
use oncebox_protocol::envd_rest::WrittenFile;
use oncebox_protocol::operations;
use oncebox_transport::{Body, ResponseBody};

use crate::error::{Error, ErrorKind};
use crate::rpc::{RpcCall, header, query};
use crate::sandbox::Sandbox;

/// envd takes a plain byte body from this version on (protocol fact).
const OCTET_STREAM_SINCE: [u64; 3] = [0, 5, 7];

/// The largest file that is read whole.
pub(crate) const MAX_WHOLE_FILE: usize = 1 << 30;

/// The files of a sandbox: see [`Sandbox::files`]. Relative paths start at the user's home.
#[derive(Clone, Copy, Debug)]
pub struct Files<'a> {
    sandbox: &'a Sandbox,
}

/// What an entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum EntryKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link whose target is neither, or is gone.
    Symlink,
    /// Something else.
    Other,
}

/// A file, directory or symbolic link.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Entry {
    /// The last component of its path.
    pub name: String,
    /// Absolute path.
    pub path: String,
    /// What it is; for a symbolic link, what its target is.
    pub kind: EntryKind,
    /// Whether the entry itself is a symbolic link.
    pub is_symlink: bool,
    /// Where a symbolic link leads.
    pub symlink_target: Option<String>,
    /// Size in bytes.
    pub size: u64,
    /// Permission bits.
    pub mode: u32,
    /// Owner's name.
    pub owner: String,
    /// Group's name.
    pub group: String,
    /// User metadata kept with it.
    pub metadata: BTreeMap<String, String>,
}

impl<'a> Files<'a> {
    pub(crate) fn new(sandbox: &'a Sandbox) -> Self {
        Self { sandbox }
    }

    /// Reads a file whole, up to 1 GiB; [`read_stream`](Self::read_stream) has no limit.
    ///
    /// # Errors
    ///
    /// [`NotFound`](ErrorKind::NotFound) when there is no such file,
    /// [`ConnectionLost`](ErrorKind::ConnectionLost) when it was cut.
    pub async fn read(&self, path: &str) -> Result<Bytes, Error> {
        const ACTION: &str = "read the file";
        let body = self.read_stream(path).await?;
        match Limited::new(body, MAX_WHOLE_FILE).collect().await {
            Ok(collected) => Ok(collected.to_bytes()),
            Err(error) if error.is::<http_body_util::LengthLimitError>() => {
                Err(Error::new(ErrorKind::Unsupported, ACTION, "it is larger than 1 GiB; read it as a stream"))
            }
            Err(error) => Err(Error::new(ErrorKind::ConnectionLost, ACTION, error.to_string())),
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
    /// # Errors
    ///
    /// As [`read`](Self::read); a cut shows in the stream.
    pub async fn read_stream(&self, path: &str) -> Result<ResponseBody, Error> {
        check_path(path)?;
        // What is compressed on the way has no length that could be checked.
        let headers = header(ACCEPT_ENCODING, "identity")?;
        let query = query([("path", path)]);
        let response =
            self.sandbox.envd().send("read the file", &operations::READ_FILE, &query, headers, Body::empty()).await?;
        Ok(response.into_body())
    }

    /// Writes a file: bytes, text or a [stream](Body::stream). It takes the place of what was there; parents are
    /// made.
    ///
    /// # Errors
    ///
    /// [`NotEnoughSpace`](ErrorKind::NotEnoughSpace) when the sandbox's disk is full,
    /// [`Unsupported`](ErrorKind::Unsupported) for a stream where envd is older than 0.5.7.
    pub async fn write(&self, path: &str, data: impl Into<Body>) -> Result<WrittenFile, Error> {
        const ACTION: &str = "write the file";
        check_path(path)?;
        let data = data.into();
        let (content_type, body) = if self.sandbox.envd_at_least(OCTET_STREAM_SINCE) {
            ("application/octet-stream".to_owned(), data)
        } else {
            multipart(path, data).await?
        };
        let headers: HeaderMap = header(CONTENT_TYPE, &content_type)?;
        let query = query([("path", path)]);
        let response = self.sandbox.envd().send(ACTION, &operations::WRITE_FILES, &query, headers, body).await?;
        let answer = response.into_body().collect().await;
        let answer =
            answer.map_err(|error| Error::new(ErrorKind::OutcomeUnknown, ACTION, error.to_string()))?.to_bytes();
        let mut written: Vec<WrittenFile> =
            serde_json::from_slice(&answer).map_err(|error| Error::malformed(ACTION, error))?;
        written.pop().ok_or_else(|| Error::malformed(ACTION, "it names no written file"))
    }

    /// Lists a directory: its entries and those `depth - 1` levels below; 1 lists the directory alone.
    ///
    /// # Errors
    ///
    /// [`NotFound`](ErrorKind::NotFound) when there is no such directory,
    /// [`InvalidArgument`](ErrorKind::InvalidArgument) for a file, or a depth of 0.
    pub async fn list(&self, path: &str, depth: u32) -> Result<Vec<Entry>, Error> {
        check_path(path)?;
        if depth == 0 {
            return Err(Error::invalid("depth: 0 would list nothing; 1 lists the directory itself"));
        }
        let request = ListDirRequest { path: path.to_owned(), depth, ..Default::default() };
        let client = self.sandbox.envd().filesystem(RpcCall::default())?;
        let response = client.list_dir(request).await.map_err(|e| Error::rpc("list the directory", e))?;
        Ok(response.into_owned().entries.into_iter().map(Entry::from).collect())
    }

    /// Describes a path.
    ///
    /// # Errors
    ///
    /// [`NotFound`](ErrorKind::NotFound) when it does not exist.
    pub async fn info(&self, path: &str) -> Result<Entry, Error> {
        const ACTION: &str = "describe the path";
        check_path(path)?;
        let client = self.sandbox.envd().filesystem(RpcCall::default())?;
        let request = StatRequest { path: path.to_owned(), ..Default::default() };
        let response = client.stat(request).await.map_err(|e| Error::rpc(ACTION, e))?;
        entry(ACTION, response.into_owned().entry.into_option())
    }

    /// Whether a path exists.
    ///
    /// # Errors
    ///
    /// When the sandbox cannot be asked.
    pub async fn exists(&self, path: &str) -> Result<bool, Error> {
        match self.info(path).await {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Makes a directory with its parents. `false`: it was there already.
    ///
    /// # Errors
    ///
    /// [`InvalidArgument`](ErrorKind::InvalidArgument) when a file is in the way;
    /// [`OutcomeUnknown`](ErrorKind::OutcomeUnknown) when the answer was lost.
    pub async fn make_dir(&self, path: &str) -> Result<bool, Error> {
        check_path(path)?;
        let client = self.sandbox.envd().filesystem(RpcCall::default())?;
        let request = MakeDirRequest { path: path.to_owned(), ..Default::default() };
        match client.make_dir(request).await.map_err(|e| Error::rpc("make the directory", e)) {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == ErrorKind::Conflict => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Removes a path with all below it. A missing path is a success.
    ///
    /// # Errors
    ///
    /// When the sandbox cannot be asked, or does not allow it.
    pub async fn remove(&self, path: &str) -> Result<(), Error> {
        check_path(path)?;
        let client = self.sandbox.envd().filesystem(RpcCall::default())?;
        let request = RemoveRequest { path: path.to_owned(), ..Default::default() };
        client.remove(request).await.map(drop).map_err(|e| Error::rpc("remove the path", e))
    }

    /// Renames a path; the parents of the new one are made.
    ///
    /// # Errors
    ///
    /// [`NotFound`](ErrorKind::NotFound) when the old path does not exist;
    /// [`OutcomeUnknown`](ErrorKind::OutcomeUnknown) when the answer was lost.
    pub async fn rename(&self, from: &str, to: &str) -> Result<Entry, Error> {
        const ACTION: &str = "rename the path";
        check_path(from)?;
        check_path(to)?;
        let client = self.sandbox.envd().filesystem(RpcCall::default())?;
        let request = MoveRequest { source: from.to_owned(), destination: to.to_owned(), ..Default::default() };
        let response = client.r#move(request).await.map_err(|e| Error::rpc(ACTION, e))?;
        entry(ACTION, response.into_owned().entry.into_option())
    }
}

pub(crate) fn check_path(path: &str) -> Result<(), Error> {
    if path.is_empty() {
        return Err(Error::invalid("the path is empty"));
    }
    if path.contains('\0') {
        return Err(Error::invalid(format!("{path:?} holds a NUL character, which no path can")));
    }
    Ok(())
}

/// A form with one file, for daemons that take nothing else.
async fn multipart(path: &str, data: Body) -> Result<(String, Body), Error> {
    let Some(data) = data.into_bytes() else {
        return Err(Error::new(ErrorKind::Unsupported, "write the file", "the sandbox's envd is too old for streams"));
    };
    // Long enough that no content will hold it by chance.
    let mut random = [0; 16];
    getrandom::fill(&mut random)
        .map_err(|error| Error::new(ErrorKind::Unsupported, "write the file", format!("no randomness: {error}")))?;
    let boundary: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
    let name = path.replace('\\', "\\\\").replace('"', "%22").replace(['\r', '\n'], "%0A");
    let mut form = format!(
        "--{boundary}\r\ncontent-disposition: form-data; name=\"file\"; filename=\"{name}\"\r\n\
         content-type: application/octet-stream\r\n\r\n"
    )
    .into_bytes();
    form.extend_from_slice(&data);
    form.extend_from_slice(format!("\r\n--{boundary}--\r\n").as_bytes());
    Ok((format!("multipart/form-data; boundary={boundary}"), Body::from(form)))
}

fn entry(action: &str, entry: Option<EntryInfo>) -> Result<Entry, Error> {
    entry.map(Entry::from).ok_or_else(|| Error::malformed(action, "it describes no entry"))
}

impl From<EntryInfo> for Entry {
    fn from(info: EntryInfo) -> Self {
        let kind = match info.r#type.as_known() {
            Some(FileType::FILE_TYPE_FILE) => EntryKind::File,
            Some(FileType::FILE_TYPE_DIRECTORY) => EntryKind::Directory,
            Some(FileType::FILE_TYPE_SYMLINK) => EntryKind::Symlink,
            _ => EntryKind::Other,
        };
        Self {
            name: info.name,
            path: info.path,
            kind,
            is_symlink: info.is_symlink || kind == EntryKind::Symlink,
            symlink_target: info.symlink_target,
            size: u64::try_from(info.size).unwrap_or_default(),
            mode: info.mode,
            owner: info.owner,
            group: info.group,
            metadata: info.metadata.into_iter().collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_form_holds_the_bytes_as_they_are() {
        let data: Vec<u8> = (0..=255).collect();
        let (content_type, body) = multipart("/a \"b\".bin", Body::from(data.clone())).await.unwrap();
        let boundary = content_type.strip_prefix("multipart/form-data; boundary=").unwrap();
        let form = body.into_bytes().unwrap();
        let head =
            format!("--{boundary}\r\ncontent-disposition: form-data; name=\"file\"; filename=\"/a %22b%22.bin\"\r\n");
        assert!(form.starts_with(head.as_bytes()));
        let tail = [&data[..], format!("\r\n--{boundary}--\r\n").as_bytes()].concat();
        assert!(form.ends_with(&tail));
    }
}
