//! For programs without a runtime: calls that block their thread.
//!
//! ```no_run
//! use std::io::Read;
//! use oncebox_transport::{Body, CallOptions, blocking};
//!
//! let client = blocking::Client::new();
//! let request = http::Request::get("http://127.0.0.1:3000/").body(Body::empty()).unwrap();
//! let mut text = String::new();
//! client.send(request, CallOptions::new()).unwrap().into_body().read_to_string(&mut text).unwrap();
//! ```

mod runtime;

pub use runtime::IoRuntime;

use std::io::{self, Read};
use std::sync::Arc;

use bytes::{Buf, Bytes};
use http::Request;
use http_body_util::BodyExt;
use tokio::runtime::Handle;

use crate::body::{Body, ResponseBody};
use crate::client::Client as AsyncClient;
use crate::error::Error;
use crate::options::CallOptions;
use crate::response::Response;

/// Makes calls on the process's [`IoRuntime`] and blocks until they are over. Clones are cheap, and all share their
/// connections. One that was made before `fork` works in the child, with connections of its own.
#[derive(Clone, Debug, Default)]
pub struct Client(AsyncClient);

impl Client {
    /// A client with the default options. Others come from an asynchronous client:
    /// `blocking::Client::from(Client::builder().retries(1).build())`.
    pub fn new() -> Self {
        Self::default()
    }

    /// See [`Client::send`](crate::Client::send).
    ///
    /// # Errors
    ///
    /// As there; and when it is called on a runtime's thread, where it would hold up all that runs there.
    pub fn send(&self, request: Request<Body>, options: CallOptions) -> Result<Response<BlockingBody>, Error> {
        let (client, io) = (self.0.clone(), io_runtime()?);
        let response = io.run(async move { client.send(request, options).await }).unwrap_or_else(|| Err(ended()))?;
        Ok(response.map(|body| BlockingBody { body: Some(body), left: Bytes::new(), io }))
    }

    /// See [`Client::send_collected`](crate::Client::send_collected).
    ///
    /// # Errors
    ///
    /// As there, and as for [`Client::send`].
    pub fn send_collected(&self, request: Request<Body>, options: CallOptions) -> Result<Response<Bytes>, Error> {
        let client = self.0.clone();
        let call = async move { client.send_collected(request, options).await };
        io_runtime()?.run(call).unwrap_or_else(|| Err(ended()))
    }
}

impl From<AsyncClient> for Client {
    fn from(client: AsyncClient) -> Self {
        Self(client)
    }
}

fn io_runtime() -> Result<Arc<IoRuntime>, Error> {
    if Handle::try_current().is_ok() {
        return Err(Error::invalid("blocking::Client was called on a runtime's thread; use Client there"));
    }
    IoRuntime::shared().map_err(|error| Error::invalid(format!("no thread for I/O: {error}")))
}

fn ended() -> Error {
    Error::invalid("the call panicked on the I/O thread, which is a fault in this library or in the request's body")
}

/// A response's body, to be read. An error carries the body's own, which says what was lost.
#[derive(Debug)]
pub struct BlockingBody {
    body: Option<ResponseBody>,
    /// What has come and was not read yet.
    left: Bytes,
    io: Arc<IoRuntime>,
}

impl Read for BlockingBody {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.left.is_empty() && !buffer.is_empty() {
            let Some(mut body) = self.body.take() else { return Ok(0) };
            let next = async move { (body.frame().await, body) };
            let Some((frame, body)) = self.io.run(next) else { return Err(io::Error::other(ended())) };
            match frame {
                None => return Ok(0),
                Some(Err(error)) => return Err(io::Error::other(error)),
                Some(Ok(frame)) => {
                    self.body = Some(body);
                    self.left = frame.into_data().unwrap_or_default();
                }
            }
        }
        let len = buffer.len().min(self.left.len());
        self.left.copy_to_slice(&mut buffer[..len]);
        Ok(len)
    }
}

impl Drop for BlockingBody {
    fn drop(&mut self) {
        if let Some(body) = self.body.take() {
            // Where its connection is: that may be taken up by the next call, or has to be told.
            self.io.handle().spawn(async move { drop(body) });
        }
    }
}
