//! The clients that are compared. Each sends the same request: the same headers, and a body of 128 bytes.

mod legacy;
mod ours;
mod raw;
mod with_reqwest;

pub(crate) use legacy::Legacy;
pub(crate) use ours::Ours;
pub(crate) use raw::Raw;
pub(crate) use with_reqwest::Reqwest;

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE, USER_AGENT};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Uri, Version};
use http_body::{Frame, SizeHint};

use crate::Failed;

/// Each client by its name on the command line.
pub(crate) const NAMES: [&str; 4] = ["h2", "legacy", "reqwest", "oncebox"];

static BODY: [u8; 128] = [b'q'; 128];

/// One client, on the runtime that it was made on.
pub(crate) trait Client: Clone + Send + Sync + 'static {
    /// One POST, its answer read whole. Returns the answer's length.
    fn exchange(&self) -> impl Future<Output = Result<usize, Failed>> + Send;
}

/// A client that also moves much.
pub(crate) trait Mover: Client {
    /// One POST of that many bytes in chunks.
    fn upload(&self, size: usize) -> impl Future<Output = Result<(), Failed>> + Send;

    /// One GET, its answer read chunk by chunk and dropped. Returns the answer's length.
    fn download(&self) -> impl Future<Output = Result<usize, Failed>> + Send;
}

/// What every request looks like.
#[derive(Debug)]
pub(crate) struct Template {
    uri: Uri,
    headers: HeaderMap,
}

impl Template {
    pub(crate) fn new(port: u16) -> Result<Arc<Self>, Failed> {
        let uri = format!("http://127.0.0.1:{port}/svc.v1.Users/GetUser").parse()?;
        let headers = [
            (CONTENT_TYPE, "application/json"),
            (ACCEPT, "application/json"),
            (USER_AGENT, "sdk/1.0"),
            (AUTHORIZATION, "Bearer 0123456789abcdef0123456789abcdef"),
            (HeaderName::from_static("x-request-id"), "5d6f0c1e-8f6a-4c4e-9b63-3a3f6f1b2c11"),
            // The clients that know HTTP would add it, and raw h2 would have an advantage.
            (CONTENT_LENGTH, "128"),
        ];
        let headers = headers.into_iter().map(|(name, value)| (name, HeaderValue::from_static(value))).collect();
        Ok(Arc::new(Self { uri, headers }))
    }

    /// A POST as an application makes it: what it holds is cloned for each.
    fn post<B>(&self, body: B) -> Request<B> {
        let mut request = self.bare(Method::POST, body);
        *request.headers_mut() = self.headers.clone();
        request
    }

    fn bare<B>(&self, method: Method, body: B) -> Request<B> {
        let mut request = Request::new(body);
        *request.method_mut() = method;
        *request.uri_mut() = self.uri.clone();
        *request.version_mut() = Version::HTTP_2;
        request
    }
}

/// A body in chunks of 64 KiB whose length is not told beforehand.
struct Chunks {
    left: usize,
    chunk: Bytes,
}

impl Chunks {
    fn new(size: usize) -> Self {
        Self { left: size, chunk: Bytes::from(vec![b'q'; 64 << 10]) }
    }
}

impl Iterator for Chunks {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        let len = self.left.min(self.chunk.len());
        self.left -= len;
        (len > 0).then(|| self.chunk.slice(..len))
    }
}

impl http_body::Body for Chunks {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        Poll::Ready(self.next().map(|chunk| Ok(Frame::data(chunk))))
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::default()
    }
}
