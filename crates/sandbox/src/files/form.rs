//! `multipart/form-data` (RFC 7578): one file for daemons that take nothing else, or many in one request.

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use oncebox_transport::{Body, BoxError};

use crate::error::{Error, ErrorKind};

/// A form's boundary, and the content type that names it.
pub(super) struct Form {
    boundary: String,
}

impl Form {
    pub(super) fn new(action: &str) -> Result<Self, Error> {
        // Long enough that no content will hold it by chance.
        let mut random = [0; 16];
        getrandom::fill(&mut random)
            .map_err(|error| Error::new(ErrorKind::Unsupported, action, format!("no randomness: {error}")))?;
        Ok(Self { boundary: random.iter().map(|byte| format!("{byte:02x}")).collect() })
    }

    pub(super) fn content_type(&self) -> String {
        format!("multipart/form-data; boundary={}", self.boundary)
    }

    fn head(&self, name: &str) -> Bytes {
        let boundary = &self.boundary;
        let name = escaped(name);
        format!(
            "--{boundary}\r\ncontent-disposition: form-data; name=\"file\"; filename=\"{name}\"\r\n\
             content-type: application/octet-stream\r\n\r\n"
        )
        .into()
    }

    /// One file. Its path is in the query, so that its name here is for people.
    pub(super) fn of_one(&self, name: &str, data: Body) -> Body {
        let (head, tail) = (self.head(name), Bytes::from(format!("\r\n--{}--\r\n", self.boundary)));
        let length = data.len().map(|length| length + (head.len() + tail.len()) as u64);
        data.map(length, move |data| {
            let piece = |bytes: &Bytes| {
                let bytes = bytes.clone();
                stream::once(async move { Ok::<_, BoxError>(Frame::data(bytes)) })
            };
            StreamBody::new(
                piece(&head).chain(data.into_data_stream().map(|data| data.map(Frame::data))).chain(piece(&tail)),
            )
        })
    }

    /// Many files, whose names are their paths; see [`is_plain`].
    pub(super) fn of_many(&self, files: &[(String, Bytes)]) -> Body {
        let mut pieces = Vec::with_capacity(files.len() * 3 + 1);
        for (name, data) in files {
            pieces.extend([self.head(name), data.clone(), Bytes::from_static(b"\r\n")]);
        }
        pieces.push(format!("--{}--\r\n", self.boundary).into());
        pieces.retain(|piece| !piece.is_empty());
        let length = pieces.iter().map(|piece| piece.len() as u64).sum();
        Body::rewindable(Some(length), move || {
            // Bytes are shared, not copied.
            let pieces = pieces.clone().into_iter().map(|piece| Ok::<_, BoxError>(Frame::data(piece)));
            StreamBody::new(stream::iter(pieces))
        })
    }
}

/// Whether a name means the same to every server that reads it from a form: in others, browsers and libraries escape what
/// does not fit in different ways.
pub(super) fn is_plain(name: &str) -> bool {
    !name.chars().any(|c| c.is_control() || matches!(c, '"' | '\\' | '%'))
}

fn escaped(name: &str) -> String {
    name.replace('\\', "\\\\").replace('"', "%22").replace(|c: char| c.is_control(), "%0A")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_servers_read_in_different_ways_is_not_plain() {
        for plain in ["a", "/a b/ä.txt", "x;y", "it's"] {
            assert!(is_plain(plain), "{plain}");
        }
        for other in ["a\"b", "a\\b", "a\nb", "100%", "\u{7f}"] {
            assert!(!is_plain(other), "{other}");
        }
    }
}
