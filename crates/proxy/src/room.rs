//! How much the proxy does at a time, and what whoever is too much is told.

use std::sync::Arc;
use std::time::Duration;

use http::header::RETRY_AFTER;
use http::{HeaderValue, Response, StatusCode};
use http_body_util::BodyExt;
use oncebox_protocol::headers::SHOULD_RETRY;
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use crate::answer::{AnswerBody, Refusal};

/// Room for so many connections and calls.
pub(crate) struct Room {
    connections: Arc<Semaphore>,
    calls: Arc<Semaphore>,
    max_connections: usize,
    max_calls: usize,
}

/// The right to be one of them.
pub(crate) type Permit = OwnedSemaphorePermit;

impl Room {
    pub(crate) fn new(max_connections: usize, max_calls: usize) -> Self {
        let room = |most| Arc::new(Semaphore::new(most));
        Self { connections: room(max_connections), calls: room(max_calls), max_connections, max_calls }
    }

    pub(crate) fn connection(&self) -> Option<Permit> {
        Arc::clone(&self.connections).try_acquire_owned().ok()
    }

    /// Whether connections that do nothing should make way: more than half are in use.
    pub(crate) fn is_crowded(&self) -> bool {
        self.connections.available_permits() < self.max_connections.div_ceil(2)
    }

    pub(crate) fn call(&self) -> Option<Permit> {
        Arc::clone(&self.calls).try_acquire_owned().ok()
    }

    /// What a call is answered that is one too many.
    pub(crate) fn no_call(&self) -> Response<AnswerBody> {
        crowded(self.max_calls, "calls", "max_calls (--max-calls)")
    }

    /// What a connection is answered that is one too many.
    pub(crate) fn no_connection(&self) -> Response<AnswerBody> {
        crowded(self.max_connections, "connections", "max_clients (--max-clients)")
    }
}

/// Nothing was sent to any server, so that whoever asks again repeats nothing.
fn crowded(most: usize, what: &str, option: &str) -> Response<AnswerBody> {
    let message = format!(
        "the proxy is busy with {most} {what}, the most it takes at a time; nothing was sent: ask again later, or start it with \
         a larger {option}"
    );
    let refusal = Refusal::new(StatusCode::SERVICE_UNAVAILABLE, message).with_code("oncebox_crowded");
    let mut response = refusal.into_response();
    response.headers_mut().insert(SHOULD_RETRY, HeaderValue::from_static("true"));
    response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
    response
}

/// How many calls a connection has, or since when it has none.
#[derive(Clone)]
pub(crate) struct Calls(Arc<Mutex<(usize, Instant)>>);

impl Calls {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Mutex::new((0, Instant::now()))))
    }

    /// One more, until its answer is dropped.
    pub(crate) fn one(&self) -> Call {
        self.0.lock().0 += 1;
        Call { calls: self.clone() }
    }

    /// How long there has been none, if there is none.
    pub(crate) fn idle_for(&self) -> Option<Duration> {
        let (calls, since) = *self.0.lock();
        (calls == 0).then(|| since.elapsed())
    }
}

/// A call on a connection.
pub(crate) struct Call {
    calls: Calls,
}

impl Drop for Call {
    fn drop(&mut self) {
        let mut calls = self.calls.0.lock();
        *calls = (calls.0 - 1, Instant::now());
    }
}

/// Keeps something for as long as an answer's body lives.
pub(crate) fn holding<T: Send + 'static>(response: Response<AnswerBody>, held: T) -> Response<AnswerBody> {
    response.map(|body| {
        let keep = move |frame| {
            let _ = &held;
            frame
        };
        body.map_frame(keep).boxed_unsync()
    })
}
