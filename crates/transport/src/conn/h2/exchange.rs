//! One request on one stream.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use h2::client::ResponseFuture;
use http::{Request, Response};
use http_body::Body as _;
use oncebox_policy::Cause;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::deadlines::Place;
use super::upload::{UploadError, upload};
use crate::body::{AttemptBody, ResponseBody};
use crate::conn::Failure;
use crate::pool::Permit;

/// A connection is retired before its stream ids run out at 2^31 - 1.
const LAST_STREAM_ID: u32 = 1 << 30;

/// A request that was sent: waits for the response's head.
///
/// It is written out, and small: of calls that wait there are many at once.
pub(crate) struct Exchange {
    response: ResponseFuture,
    upload: Option<Upload>,
    stream_id: u32,
    /// In the connection's list of those whose deadlines are far away.
    deadline: Option<Place>,
    /// After all that holds the stream, so that it is dropped after it, wherever this is cancelled: a slot is never
    /// handed on before the stream that filled it is gone.
    permit: Option<Permit>,
}

/// Bodies up to this many bytes are given to `h2` at once, whatever the windows are. Of a larger one an early answer could leave
/// so much queued that the stream was not over when its slot is handed on.
const AT_ONCE: usize = 16_384;

type Upload = Pin<Box<dyn Future<Output = Result<(), UploadError>> + Send>>;

impl Exchange {
    /// Sends a request on the permit's connection. A body that is at hand is sent at once.
    pub(crate) fn start(permit: Permit, head: Request<()>, body: AttemptBody) -> Result<Self, Failure> {
        let mut sender = permit.connection().sender.clone();
        // A clone has no request of its own pending, so that it is always ready; the stream is within the peer's cap.
        let (response, mut stream) = match sender.send_request(head, body.is_end_stream()) {
            Ok(sent) => sent,
            Err(error) => return Err(unsent(&permit, error)),
        };
        let stream_id = response.stream_id().as_u32();
        if stream_id >= LAST_STREAM_ID {
            permit.lost();
        }
        let upload: Option<Upload> = match body.into_whole() {
            Ok(None) => None,
            Ok(Some(bytes)) if bytes.len() > AT_ONCE => Some(Box::pin(upload(AttemptBody::bytes(Some(bytes)), stream))),
            Ok(Some(bytes)) => {
                if let Err(error) = stream.send_data(bytes, true) {
                    // The response tells more: a refusal, a reset, or an answer that came before the body.
                    tracing::debug!(stream = stream_id, %error, "upload stopped");
                }
                None
            }
            Err(body) => Some(Box::pin(upload(body, stream))),
        };
        Ok(Self { response, upload, stream_id, deadline: None, permit: Some(permit) })
    }

    pub(crate) fn stream_id(&self) -> u32 {
        self.stream_id
    }

    /// Whether the connection wakes this waker when `at`, which was [`FAR`](crate::conn::FAR) away when it was given
    /// first, has come near. `false`: it has.
    pub(crate) fn is_woken_before(&mut self, at: Instant, waker: &Waker) -> bool {
        let Some(permit) = &self.permit else { return false };
        let deadlines = &permit.connection().facts.deadlines;
        match self.deadline {
            Some(place) => !deadlines.is_near(place, waker),
            None => {
                self.deadline = Some(deadlines.join(at, waker));
                true
            }
        }
    }

    fn leave_list(&mut self) {
        if let (Some(place), Some(permit)) = (self.deadline.take(), &self.permit) {
            permit.connection().facts.deadlines.leave(place);
        }
    }

    #[cold]
    fn failed(&mut self, permit: Permit, error: h2::Error) -> Failure {
        if error.is_go_away() || error.is_io() {
            permit.lost();
        }
        let failure = permit.connection().classify(error, self.stream_id);
        self.permit = Some(permit);
        failure
    }

    /// The response does not begin yet: the request's body goes on.
    fn poll_upload(&mut self, cx: &mut Context<'_>) -> Poll<Result<H2Response, Failure>> {
        if let Some(upload) = &mut self.upload
            && let Poll::Ready(done) = upload.as_mut().poll(cx)
        {
            self.upload = None;
            if let Err(UploadError::Source(error)) = done {
                return Poll::Ready(Err(Failure::unknown(Cause::RequestBody, Some(self.stream_id), error)));
            }
        }
        Poll::Pending
    }
}

#[cold]
fn unsent(permit: &Permit, error: h2::Error) -> Failure {
    permit.lost();
    permit.connection().unsent(error)
}

impl Future for Exchange {
    type Output = Result<H2Response, Failure>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let Poll::Ready(response) = Pin::new(&mut this.response).poll(cx) else {
            return if this.upload.is_none() { Poll::Pending } else { this.poll_upload(cx) };
        };
        this.leave_list();
        match (response, this.permit.take()) {
            (Ok(response), Some(permit)) => {
                permit.served();
                let mut guard = H2Stream::new(permit);
                if let Some(upload) = this.upload.take() {
                    guard.goes_on(upload);
                }
                Poll::Ready(Ok(H2Response { response, guard }))
            }
            (Err(error), Some(permit)) => Poll::Ready(Err(this.failed(permit, error))),
            // It was told already.
            (_, None) => Poll::Pending,
        }
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        self.leave_list();
    }
}

/// A response whose body is still to come.
pub(crate) struct H2Response {
    response: Response<h2::RecvStream>,
    guard: H2Stream,
}

impl H2Response {
    pub(crate) fn into_response(self) -> Response<ResponseBody> {
        let Self { response, guard } = self;
        response.map(|body| ResponseBody::http2(body, guard))
    }
}

/// What a response body holds: the stream's permit. It is given up when the stream is over in both directions.
pub(crate) struct H2Stream {
    permit: Option<Permit>,
    /// Whoever still sends the request's body stops when the permit comes, and gives it up.
    upload: Option<oneshot::Sender<Permit>>,
}

impl H2Stream {
    fn new(permit: Permit) -> Self {
        Self { permit: Some(permit), upload: None }
    }

    /// The response has begun, and the request's body goes on.
    fn goes_on(&mut self, mut upload: Upload) {
        let (sender, over) = oneshot::channel();
        self.upload = Some(sender);
        tokio::spawn(async move {
            tokio::select! {
                biased;
                permit = over => {
                    drop(upload);
                    drop(permit);
                }
                _ = &mut upload => {}
            }
        });
    }
}

impl Drop for H2Stream {
    fn drop(&mut self) {
        if let (Some(upload), Some(permit)) = (self.upload.take(), self.permit.take()) {
            // An upload that is over needs it no more.
            let _ = upload.send(permit);
        }
    }
}
