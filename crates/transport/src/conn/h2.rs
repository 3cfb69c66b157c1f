//! HTTP/2 connections, driven directly over the `h2` crate.
//!
//! What `h2` does not tell comes from the shim below it ([`crate::io`]): the highest stream id whose HEADERS were
//! written, and GOAWAY with its last stream id.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use h2::client::SendRequest;
use h2::{Reason, SendStream};
use http::{Request, Response};
use http_body::Body as _;
use http_body_util::BodyExt;
use oncebox_policy::Cause;
use tokio::net::TcpStream;
use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::Failure;
use super::slots::{Slot, Slots};
use crate::body::{AttemptBody, BoxError};
use crate::io::{Observed, Protocol, Wire};

/// Stream window: how much of one response may wait unread.
const STREAM_WINDOW: u32 = 1 << 20;

/// Connection window. As large as it can be, so that responses which nobody reads cannot starve the others.
const CONNECTION_WINDOW: u32 = (1 << 31) - 1;

/// Streams assumed to be allowed by a peer whose SETTINGS name no limit.
const UNLIMITED: u32 = u32::MAX;

/// How long a connection whose writes fail is still read, for what has already arrived.
const READ_AFTER_WRITE_ERROR: Duration = Duration::from_millis(250);

/// An HTTP/2 connection. Clones share it.
#[derive(Clone)]
pub(crate) struct H2Connection {
    sender: SendRequest<Bytes>,
    wire: Arc<Wire>,
    slots: Arc<Slots>,
    id: u64,
}

/// A response whose body is still to come.
pub(crate) struct H2Response {
    pub(crate) response: Response<h2::RecvStream>,
    pub(crate) guard: H2Stream,
}

/// What a response body holds: the stream's slot, and the rest of the upload if there is any.
pub(crate) struct H2Stream {
    upload: Option<AbortHandle>,
    _slot: Slot,
}

impl Drop for H2Stream {
    fn drop(&mut self) {
        if let Some(upload) = &self.upload {
            upload.abort();
        }
    }
}

impl H2Connection {
    /// Takes over a new socket. `initial_streams` may be open before the peer's first SETTINGS.
    pub(crate) async fn open(socket: TcpStream, id: u64, initial_streams: u32) -> Result<Self, h2::Error> {
        let (io, wire) = Observed::new(socket, Protocol::Http2);
        let (sender, driver) = h2::client::Builder::new()
            .enable_push(false)
            .initial_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            // Late answers to cancelled streams must not end the connection for everyone else.
            .max_local_error_reset_streams(None)
            .max_concurrent_reset_streams(1024)
            .handshake::<_, Bytes>(io)
            .await?;
        let slots = Slots::new(initial_streams);
        tokio::spawn(drive(driver, wire.clone(), slots.clone(), id));
        Ok(Self { sender, wire, slots, id })
    }

    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// Whether it takes no more streams.
    pub(crate) fn is_draining(&self) -> bool {
        self.slots.is_draining()
    }

    /// Waits for a free stream. Fails when the connection drains before there is one.
    pub(crate) async fn acquire(&self) -> Result<Slot, Failure> {
        self.slots.acquire().await.map_err(|_| Failure::not_sent("the connection was retired before a stream was free"))
    }

    /// Sends a request and waits for the response's head.
    pub(crate) async fn send(&self, slot: Slot, request: Request<AttemptBody>) -> Result<H2Response, Failure> {
        let (head, body) = request.into_parts();
        let head = Request::from_parts(head, ());
        let mut sender = self.sender.clone();
        if let Err(error) = poll_fn(|cx| sender.poll_ready(cx)).await {
            self.slots.drain();
            return Err(Failure::not_sent(error));
        }
        let (response, mut stream) = match sender.send_request(head, body.is_end_stream()) {
            Ok(sent) => sent,
            Err(error) => {
                self.slots.drain();
                return Err(Failure::not_sent(error));
            }
        };
        let stream_id = response.stream_id().as_u32();
        let fail = |error: h2::Error| self.classify(error, stream_id);

        let mut guard = H2Stream { upload: None, _slot: slot };
        let response = match body.into_whole() {
            Ok(None) => response.await.map_err(fail)?,
            Ok(Some(bytes)) => {
                if let Err(error) = stream.send_data(bytes, true) {
                    // The response tells more: a refusal, a reset, or an answer that came before the body.
                    tracing::debug!(connection = self.id, stream = stream_id, %error, "upload stopped");
                }
                response.await.map_err(fail)?
            }
            Err(body) => {
                let mut upload = Box::pin(upload(body, stream));
                let mut uploading = true;
                tokio::pin!(response);
                let response = loop {
                    tokio::select! {
                        biased;
                        response = &mut response => break response.map_err(fail)?,
                        done = &mut upload, if uploading => {
                            uploading = false;
                            if let Err(UploadError::Source(error)) = done {
                                return Err(Failure::unknown(Cause::RequestBody, Some(stream_id), error));
                            }
                        }
                    }
                };
                if uploading {
                    guard.upload = Some(tokio::spawn(upload).abort_handle());
                }
                response
            }
        };
        Ok(H2Response { response, guard })
    }

    /// What is known of a request whose stream ended in an error.
    fn classify(&self, error: h2::Error, stream_id: u32) -> Failure {
        if self.wire.highest_headers() < stream_id {
            return Failure::not_sent(error);
        }
        if error.is_reset() && error.is_remote() {
            let code = error.reason().map_or(0, u32::from);
            if error.reason() == Some(Reason::REFUSED_STREAM) {
                return Failure::refused_stream(stream_id, error);
            }
            return Failure::unknown(Cause::Reset { code }, Some(stream_id), error);
        }
        match self.wire.goaway() {
            Some(goaway) if stream_id > goaway.last_stream_id => Failure::goaway(stream_id, &goaway, error),
            _ if error.is_library() => Failure::unknown(Cause::Protocol, Some(stream_id), error),
            _ => Failure::unknown(Cause::ConnectionLost, Some(stream_id), error),
        }
    }
}

/// Runs the connection: keeps the cap current, and drains it on GOAWAY or when it ends.
async fn drive(
    mut driver: h2::client::Connection<Observed<TcpStream>, Bytes>,
    wire: Arc<Wire>,
    slots: Arc<Slots>,
    id: u64,
) {
    let mut write_error_grace = None;
    let ended = poll_fn(|cx| {
        let polled = Pin::new(&mut driver).poll(cx);
        if let Some(cap) = wire.max_concurrent_streams() {
            slots.set_cap(cap.unwrap_or(UNLIMITED));
        }
        if wire.goaway().is_some() {
            slots.drain();
        }
        if polled.is_pending() && wire.write_failed() {
            slots.drain();
            let grace = write_error_grace
                .get_or_insert_with(|| Box::pin(tokio::time::sleep_until(Instant::now() + READ_AFTER_WRITE_ERROR)));
            return grace.as_mut().poll(cx).map(|()| Ok(()));
        }
        polled
    })
    .await;
    slots.drain();
    if let Err(error) = ended {
        tracing::debug!(connection = id, %error, "HTTP/2 connection ended with an error");
    }
}

enum UploadError {
    /// The caller's body failed.
    Source(BoxError),
    /// The peer or the connection ended the stream; the response tells why.
    Stream,
}

/// Sends a body as the peer's window allows.
async fn upload(mut body: AttemptBody, mut stream: SendStream<Bytes>) -> Result<(), UploadError> {
    loop {
        let frame = tokio::select! {
            biased;
            _ = poll_fn(|cx| stream.poll_reset(cx)) => return Err(UploadError::Stream),
            frame = body.frame() => frame,
        };
        match frame {
            None => {
                return stream.send_data(Bytes::new(), true).map_err(|_| UploadError::Stream);
            }
            Some(Err(error)) => {
                stream.send_reset(Reason::CANCEL);
                return Err(UploadError::Source(error));
            }
            Some(Ok(frame)) => match frame.into_data() {
                Ok(data) => send_data(&mut stream, data).await?,
                Err(frame) => {
                    if let Ok(trailers) = frame.into_trailers() {
                        return stream.send_trailers(trailers).map_err(|_| UploadError::Stream);
                    }
                }
            },
        }
    }
}

async fn send_data(stream: &mut SendStream<Bytes>, mut data: Bytes) -> Result<(), UploadError> {
    while !data.is_empty() {
        stream.reserve_capacity(data.len());
        let granted = match poll_fn(|cx| stream.poll_capacity(cx)).await {
            Some(Ok(granted)) => granted.min(data.len()),
            Some(Err(_)) | None => return Err(UploadError::Stream),
        };
        stream.send_data(data.split_to(granted), false).map_err(|_| UploadError::Stream)?;
    }
    Ok(())
}
