//! A request body on its way.

use std::future::poll_fn;

use bytes::Bytes;
use h2::{Reason, SendStream};
use http_body_util::BodyExt;

use crate::body::{AttemptBody, BoxError};

/// Why an upload stopped.
pub(super) enum UploadError {
    /// The caller's body failed.
    Source(BoxError),
    /// The peer or the connection ended the stream; the response tells why.
    Stream,
}

/// Sends a body as the peer's window allows.
pub(super) async fn upload(mut body: AttemptBody, mut stream: SendStream<Bytes>) -> Result<(), UploadError> {
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
