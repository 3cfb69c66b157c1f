//! A request body that Python gives piece by piece, when it is asked to.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use parking_lot::Mutex;
use pyo3::prelude::*;
use tokio::sync::Notify;

use crate::pending::{self, Pending};

/// A streamed request body. Nothing is read ahead: Python is asked for the next piece when the server has room for it, so that a
/// body of which nothing was needed is left untouched.
#[pyclass(frozen, module = "oncebox._core")]
pub(crate) struct RequestBody {
    shared: Arc<Shared>,
}

#[pymethods]
impl RequestBody {
    /// A body of `length` bytes; `None`: of unknown length.
    #[new]
    #[pyo3(signature = (length = None))]
    fn new(length: Option<u64>) -> Self {
        Self { shared: Arc::new(Shared { length, state: Mutex::default(), changed: Notify::new() }) }
    }

    /// Waits until a piece is wanted (`True`), or none will be any more (`False`). `after_answer`: the call's answer is no
    /// reason to stop.
    #[pyo3(signature = (after_answer = false))]
    fn wanted(&self, py: Python<'_>, after_answer: bool) -> PyResult<Pending> {
        let shared = self.shared.clone();
        pending::begin_with(py, async move { shared.wanted(after_answer).await }, |py, wanted| {
            Ok(wanted.into_pyobject(py)?.to_owned().into_any().unbind())
        })
    }

    /// Gives the piece that was wanted.
    fn feed(&self, piece: &[u8]) {
        let piece = Bytes::copy_from_slice(piece);
        self.shared.give(|state| state.piece = Some(piece));
    }

    /// Says that there are no more.
    fn end(&self) {
        self.shared.give(|state| state.source = Source::Ended);
    }

    /// Says that the body's source failed: the attempt is cut off, so that the server does not take a part for the whole.
    fn fail(&self, reason: String) {
        self.shared.give(|state| state.source = Source::Failed(reason));
    }

    /// Whether nothing will be wanted any more.
    fn is_over(&self) -> bool {
        self.shared.state.lock().is_over()
    }
}

impl RequestBody {
    /// What the transport reads.
    pub(super) fn body(&self) -> Pulled {
        Pulled(self.shared.clone())
    }

    pub(super) fn shared(&self) -> Arc<Shared> {
        self.shared.clone()
    }
}

pub(super) struct Shared {
    length: Option<u64>,
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Default)]
struct State {
    piece: Option<Bytes>,
    source: Source,
    /// The transport waits for a piece.
    asks: bool,
    /// The transport dropped the body.
    dropped: bool,
    /// The call has ended, or has its answer.
    answered: bool,
    reader: Option<Waker>,
}

#[derive(Default)]
enum Source {
    #[default]
    Open,
    Ended,
    Failed(String),
}

impl State {
    fn is_over(&self) -> bool {
        self.dropped || !matches!(self.source, Source::Open)
    }
}

impl Shared {
    async fn wanted(&self, after_answer: bool) -> bool {
        loop {
            let changed = self.changed.notified();
            {
                let state = self.state.lock();
                if state.is_over() || (state.answered && !after_answer) {
                    return false;
                }
                if state.asks && state.piece.is_none() {
                    return true;
                }
            }
            changed.await;
        }
    }

    /// Waits until a piece is wanted although there is an answer already. Never ends where none will be.
    pub(super) async fn wanted_after_the_answer(&self) {
        loop {
            let changed = self.changed.notified();
            {
                let state = self.state.lock();
                if state.asks && state.piece.is_none() && !state.is_over() {
                    return;
                }
            }
            changed.await;
        }
    }

    /// Whether more of the body may come.
    pub(super) fn is_open(&self) -> bool {
        matches!(self.state.lock().source, Source::Open)
    }

    /// The call has its answer, or never will.
    pub(super) fn answered(&self) {
        self.state.lock().answered = true;
        self.changed.notify_waiters();
    }

    fn give(&self, change: impl FnOnce(&mut State)) {
        let reader = {
            let mut state = self.state.lock();
            state.asks = false;
            change(&mut state);
            state.reader.take()
        };
        if let Some(reader) = reader {
            reader.wake();
        }
    }
}

/// The transport's side of an [`RequestBody`].
pub(super) struct Pulled(Arc<Shared>);

impl Body for Pulled {
    type Data = Bytes;
    type Error = SourceFailed;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, SourceFailed>>> {
        let mut state = self.0.state.lock();
        if let Some(piece) = state.piece.take() {
            return Poll::Ready(Some(Ok(Frame::data(piece))));
        }
        match &state.source {
            Source::Ended => return Poll::Ready(None),
            Source::Failed(reason) => return Poll::Ready(Some(Err(SourceFailed(reason.clone())))),
            Source::Open => {}
        }
        state.reader = Some(cx.waker().clone());
        let asked_before = std::mem::replace(&mut state.asks, true);
        drop(state);
        if !asked_before {
            self.0.changed.notify_waiters();
        }
        Poll::Pending
    }

    fn is_end_stream(&self) -> bool {
        let state = self.0.state.lock();
        state.piece.is_none() && matches!(state.source, Source::Ended)
    }

    fn size_hint(&self) -> SizeHint {
        self.0.length.map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}

impl Drop for Pulled {
    fn drop(&mut self) {
        self.0.state.lock().dropped = true;
        self.0.changed.notify_waiters();
    }
}

/// The caller's own iterator raised.
#[derive(Debug)]
pub(super) struct SourceFailed(String);

impl std::fmt::Display for SourceFailed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the request's body failed: {}", self.0)
    }
}

impl std::error::Error for SourceFailed {}
