//! The body of a request, as JavaScript yields it.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame};
use napi_derive::napi;
use oncebox_transport::BoxError;
use oncebox_transport::blocking::IoRuntime;
use parking_lot::Mutex;
use tokio::sync::mpsc;

use crate::client::io;
use crate::port::{Event, Port, Teller};

type Piece = Result<Bytes, BoxError>;

/// Takes a request's body piece by piece. Two are held at most: one that waits to be sent, and one behind it.
#[napi]
pub struct NativeUpload {
    sender: Mutex<Option<mpsc::Sender<Piece>>>,
    body: Mutex<Option<UploadBody>>,
    io: Arc<IoRuntime>,
    teller: Teller,
    number: u32,
}

#[napi]
impl NativeUpload {
    /// One whose news are told by this number.
    ///
    /// # Errors
    ///
    /// When the system gives no thread for I/O.
    #[napi(constructor)]
    pub fn new(port: &Port, number: u32) -> napi::Result<Self> {
        let (sender, receiver) = mpsc::channel(1);
        let teller = port.teller();
        let body = UploadBody { receiver, teller: teller.clone(), number };
        Ok(Self { sender: Some(sender).into(), body: Some(body).into(), io: io()?, teller, number })
    }

    /// Hands a piece over. Whether the next one may follow at once; else that is told, unless nothing more is wanted.
    #[napi]
    pub fn write(&self, piece: &[u8]) -> bool {
        let Some(sender) = self.sender.lock().clone() else { return true };
        let piece = match sender.try_send(Ok(Bytes::copy_from_slice(piece))) {
            Ok(()) => return true,
            // That nothing more is wanted is told by the body.
            Err(mpsc::error::TrySendError::Closed(_)) => return false,
            Err(mpsc::error::TrySendError::Full(piece)) => piece,
        };
        let (teller, number) = (self.teller.clone(), self.number);
        self.io.handle().spawn(async move {
            if sender.send(piece).await.is_ok() {
                teller.tell(number, Event::Taken);
            }
        });
        false
    }

    /// The body has ended.
    #[napi]
    pub fn end(&self) {
        self.sender.lock().take();
    }

    /// The body failed: the request is given up.
    #[napi]
    pub fn fail(&self, reason: String) {
        let Some(sender) = self.sender.lock().take() else { return };
        self.io.handle().spawn(async move {
            // Where nobody takes it, it is not wanted.
            let _ = sender.send(Err(std::io::Error::other(reason).into())).await;
        });
    }

    /// What is sent. `None` when it was taken before.
    pub(crate) fn take(&self) -> Option<UploadBody> {
        self.body.lock().take()
    }
}

/// A request's body that comes from JavaScript. When it is dropped, nothing more is wanted of it.
pub(crate) struct UploadBody {
    receiver: mpsc::Receiver<Piece>,
    teller: Teller,
    number: u32,
}

impl Drop for UploadBody {
    fn drop(&mut self) {
        self.teller.tell(self.number, Event::Unwanted);
    }
}

impl Body for UploadBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        Poll::Ready(ready!(self.receiver.poll_recv(cx)).map(|piece| piece.map(Frame::data)))
    }
}
