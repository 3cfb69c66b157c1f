//! The body of a response, read when it is asked for.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http_body::{Body as _, Frame};
use http_body_util::BodyExt;
use napi_derive::napi;
use oncebox_transport::blocking::IoRuntime;
use oncebox_transport::{BodyError, ResponseBody};
use parking_lot::Mutex;
use tokio::task::AbortHandle;

use crate::port::{Event, Teller};
use crate::told::Told;

/// What is at hand is handed on in one piece of about this size at most.
const PIECE: usize = 64 << 10;

/// The rest of a response's body. It occupies its stream until it was read to its end, is cancelled, or is collected.
#[napi]
pub struct NativeBody {
    rest: Arc<Mutex<Rest>>,
    io: Arc<IoRuntime>,
    teller: Teller,
}

/// What is left of a body.
struct Rest {
    /// `None`: it is being read, or over.
    body: Option<ResponseBody>,
    /// What went wrong behind the piece that was handed on.
    failure: Option<BodyError>,
    reading: Option<AbortHandle>,
    is_cancelled: bool,
}

/// What a body had at hand.
pub(crate) struct AtHand {
    pub(crate) data: Vec<u8>,
    pub(crate) then: Then,
}

/// What follows.
pub(crate) enum Then {
    /// More, later.
    More,
    /// Nothing.
    End,
    /// A failure.
    Failure(BodyError),
}

/// Takes what is at hand, without waiting.
pub(crate) fn at_hand(body: &mut ResponseBody) -> AtHand {
    gather(body, Vec::new())
}

/// Takes what is at hand besides, up to the size of a piece.
fn gather(body: &mut ResponseBody, mut data: Vec<u8>) -> AtHand {
    let mut cx = Context::from_waker(Waker::noop());
    let then = loop {
        if body.is_end_stream() {
            break Then::End;
        }
        if data.len() >= PIECE {
            break Then::More;
        }
        match Pin::new(&mut *body).poll_frame(&mut cx) {
            Poll::Pending => break Then::More,
            Poll::Ready(None) => break Then::End,
            Poll::Ready(Some(Ok(frame))) => append(&mut data, frame),
            Poll::Ready(Some(Err(error))) => break Then::Failure(error),
        }
    };
    AtHand { data, then }
}

fn append(data: &mut Vec<u8>, frame: Frame<Bytes>) {
    // What is no data is trailers, which `fetch` does not show.
    let Ok(piece) = frame.into_data() else { return };
    if data.is_empty() { *data = piece.into() } else { data.extend_from_slice(&piece) }
}

impl NativeBody {
    /// The rest of a body behind what was at hand; `None`: there is none.
    pub(crate) fn behind(then: Then, body: ResponseBody, io: Arc<IoRuntime>, teller: Teller) -> Option<Self> {
        let rest = match then {
            Then::End => return None,
            Then::More => Rest { body: Some(body), failure: None, reading: None, is_cancelled: false },
            Then::Failure(error) => Rest { body: None, failure: Some(error), reading: None, is_cancelled: false },
        };
        Some(Self { rest: Arc::new(Mutex::new(rest)), io, teller })
    }
}

#[napi]
impl NativeBody {
    /// Asks for the next piece, which is told by this number. One at a time.
    #[napi]
    pub fn read(&self, number: u32) {
        let mut rest = self.rest.lock();
        let Some(mut body) = rest.body.take() else {
            let event = rest.failure.take().map_or_else(|| Event::Last(Vec::new()), |error| cut(&error));
            self.teller.tell(number, event);
            return;
        };
        let (shared, teller) = (self.rest.clone(), self.teller.clone());
        let told = Told::new(move |event| teller.tell(number, event), given_up);
        let reading = self.io.handle().spawn(async move {
            let event = match next(&mut body).await {
                AtHand { data, then: Then::End } => Event::Last(data),
                AtHand { data, then: Then::Failure(error) } if data.is_empty() => cut(&error),
                AtHand { data, then: Then::Failure(error) } => {
                    shared.lock().failure = Some(error);
                    Event::Piece(data)
                }
                AtHand { data, then: Then::More } => {
                    let mut rest = shared.lock();
                    // It may have been cancelled while this ran, which could not be stopped any more.
                    rest.body = (!rest.is_cancelled).then_some(body);
                    Event::Piece(data)
                }
            };
            told.tell(event);
        });
        rest.reading = Some(reading.abort_handle());
    }

    /// Gives the rest up: its stream is cancelled, and free for others. Nobody waits any more for what is being read.
    #[napi]
    pub fn cancel(&self) {
        let mut rest = self.rest.lock();
        rest.is_cancelled = true;
        if let Some(reading) = rest.reading.take() {
            reading.abort();
        }
        rest.failure = None;
        if let Some(body) = rest.body.take() {
            // Where its connection is, which has to be told.
            self.io.handle().spawn(async move { drop(body) });
        }
    }
}

impl Drop for NativeBody {
    fn drop(&mut self) {
        self.cancel();
    }
}

/// Waits for something, and takes what came with it.
async fn next(body: &mut ResponseBody) -> AtHand {
    let mut data = Vec::new();
    // A frame may hold no data.
    while data.is_empty() {
        match body.frame().await {
            None => return AtHand { data, then: Then::End },
            Some(Err(error)) => return AtHand { data, then: Then::Failure(error) },
            Some(Ok(frame)) => append(&mut data, frame),
        }
    }
    gather(body, data)
}

/// Without it whoever reads would wait for ever, or take what came for the whole.
fn given_up() -> Event {
    Event::Cut("reading the response's body was given up, or failed on the thread of I/O".into())
}

fn cut(error: &BodyError) -> Event {
    Event::Cut(error.to_string())
}
