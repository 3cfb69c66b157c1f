//! HTTP/1.1 connections: one exchange at a time, kept alive between them.

use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::task::AbortHandle;

use oncebox_policy::Cause;

use super::Failure;
use crate::body::{AttemptBody, BoxError};
use crate::io::{Observed, Protocol, Stream, Wire};
use crate::pool::Counted;

/// An idle HTTP/1.1 connection.
pub(crate) struct H1Connection {
    sender: http1::SendRequest<Sending>,
    driver: AbortHandle,
    /// There as long as the newest request's body is being sent.
    sending: Weak<()>,
    wire: Arc<Wire>,
    id: u64,
    reused: bool,
    /// It speaks another protocol now, and is somebody else's.
    switched: bool,
}

impl H1Connection {
    /// Takes over a new socket. `id` names the connection in histories, and it is `counted` until its socket is closed,
    /// whoever does so, or somebody else's.
    pub(crate) async fn open(socket: Stream, id: u64, counted: Counted) -> Result<Self, hyper::Error> {
        let (io, wire) = Observed::new(socket, Protocol::Http1);
        let (sender, driver) = http1::Builder::new().preserve_header_case(false).handshake(TokioIo::new(io)).await?;
        // Ends when the connection does or changes its protocol, or when the sender and the response body are dropped.
        let driver = tokio::spawn(async move {
            if let Err(error) = driver.with_upgrades().await {
                tracing::debug!(connection = id, %error, "HTTP/1.1 connection ended with an error");
            }
            drop(counted);
        });
        let driver = driver.abort_handle();
        Ok(Self { sender, driver, sending: Weak::new(), wire, id, reused: false, switched: false })
    }

    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// Whether it is known to take no request any more.
    pub(crate) fn is_closed(&self) -> bool {
        self.switched || self.wire.ended() || self.sender.is_closed()
    }

    /// Gives it up where a request's body is still being sent, although the response has ended: `hyper` would go on with that, and
    /// a further request would wait for it. `None` then.
    pub(crate) fn if_sent(self) -> Option<Self> {
        if !self.switched && self.sending.strong_count() > 0 {
            self.driver.abort();
            return None;
        }
        Some(self)
    }

    /// Sends a request and waits for the response's head. Once its body has ended, the connection may be used again.
    pub(crate) async fn send(
        mut self,
        request: Request<AttemptBody>,
    ) -> Result<(Response<Incoming>, H1Connection), Failure> {
        if self.reused {
            self.wire.check_before_write();
        }
        let before = self.wire.bytes_written();
        if let Err(error) = self.sender.ready().await {
            return Err(self.unsent(error));
        }
        let is_sending = Arc::new(());
        self.sending = Arc::downgrade(&is_sending);
        let request = request.map(|body| Sending { body, _is_sending: is_sending });
        match self.sender.try_send_request(request).await {
            Ok(response) => {
                self.reused = true;
                self.switched = response.status() == StatusCode::SWITCHING_PROTOCOLS;
                Ok((response, self))
            }
            // Bytes that reached the kernel may have reached the server, whatever became of the request object.
            Err(error) if self.wire.bytes_written() == before => Err(self.unsent(error.into_error())),
            Err(error) => Err(Failure::unknown(cause(&error), None, error.into_error())),
        }
    }

    /// What is known of a request of which nothing was written before the connection ended.
    fn unsent(&self, error: hyper::Error) -> Failure {
        // A body that fails is no fault of the connection.
        if self.reused || error.is_user() {
            Failure::not_sent(error)
        } else {
            Failure::unserved("the connection ended before it served anything".into(), error)
        }
    }
}

/// A request's body on its way. `hyper` drops it when all of it is written, or none is wanted any more.
struct Sending {
    body: AttemptBody,
    _is_sending: Arc<()>,
}

impl http_body::Body for Sending {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<http_body::Frame<Bytes>, BoxError>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> http_body::SizeHint {
        self.body.size_hint()
    }
}

fn cause<T>(error: &hyper::client::conn::TrySendError<T>) -> Cause {
    let error = error.error();
    if error.is_parse() {
        Cause::Protocol
    } else if error.is_user() {
        Cause::RequestBody
    } else {
        Cause::ConnectionLost
    }
}
