//! A request body on its way.

use std::future::poll_fn;

use bytes::Bytes;
use h2::{Reason, SendStream};
use http_body::Body as _;
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
                Ok(data) => {
                    let ends = body.is_end_stream();
                    send_data(&mut stream, data, ends).await?;
                    if ends {
                        return Ok(());
                    }
                }
                Err(frame) => {
                    if let Ok(trailers) = frame.into_trailers() {
                        return stream.send_trailers(trailers).map_err(|_| UploadError::Stream);
                    }
                }
            },
        }
    }
}

/// The most that a window is asked for at once, in bytes. `h2` takes no more than 2 GiB.
const PIECE: usize = 1 << 20;

/// Sends a piece of a body; `ends`: its last.
async fn send_data(stream: &mut SendStream<Bytes>, mut data: Bytes, ends: bool) -> Result<(), UploadError> {
    if data.is_empty() && ends {
        return stream.send_data(data, true).map_err(|_| UploadError::Stream);
    }
    while !data.is_empty() {
        stream.reserve_capacity(data.len().min(PIECE));
        let granted = match poll_fn(|cx| stream.poll_capacity(cx)).await {
            Some(Ok(granted)) => granted.min(data.len()),
            Some(Err(_)) | None => return Err(UploadError::Stream),
        };
        let piece = data.split_to(granted);
        stream.send_data(piece, ends && data.is_empty()).map_err(|_| UploadError::Stream)?;
    }
    Ok(())
}
