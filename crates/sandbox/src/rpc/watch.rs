//! How a stream was cut.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::Frame;
use oncebox_transport::{BodyError, History, ResponseBody};

use super::{KEEPALIVE, MISSED_KEEPALIVES};

/// Watches a stream that shows at intervals that it is alive, and learns how its body was cut. The RPC library keeps of
/// that only a text, in which a lost connection looks like an error of the server's.
#[derive(Clone, Debug)]
pub(crate) struct CutWatch {
    /// How often the server is asked to show that it is there. Whole seconds.
    pub(super) keepalive: Duration,
    /// A stream on which nothing came for this long is dead; zero: never.
    pub(super) silence: Duration,
    seen: Arc<Mutex<Seen>>,
}

#[derive(Debug, Default)]
struct Seen {
    cut: Option<String>,
    history: Option<History>,
}

impl CutWatch {
    pub(crate) fn new(keepalive: Duration, silence: Duration) -> Self {
        Self { keepalive, silence, seen: Arc::default() }
    }

    /// How the body was cut; `None` when the server ended the stream itself.
    pub(crate) fn cut(&self) -> Option<String> {
        self.lock().cut.clone()
    }

    /// The attempts of the call whose answer the stream is.
    pub(crate) fn history(&self) -> Option<History> {
        self.lock().history.clone()
    }

    pub(super) fn remember(&self, history: History) {
        self.lock().history = Some(history);
    }

    fn note(&self, how: String) {
        self.lock().cut.get_or_insert(how);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for CutWatch {
    fn default() -> Self {
        Self::new(KEEPALIVE, KEEPALIVE.mul_f64(MISSED_KEEPALIVES))
    }
}

/// A response body whose end is watched. The library stops reading once the stream's own end has come, so whatever ends
/// the body before that cuts it.
pub(super) struct Watched {
    pub(super) body: ResponseBody,
    pub(super) watch: CutWatch,
}

impl http_body::Body for Watched {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = &mut *self;
        let frame = ready!(Pin::new(&mut this.body).poll_frame(cx));
        match &frame {
            Some(Ok(_)) => {}
            Some(Err(error)) if error.is_idle_timeout() => {
                let silence = this.watch.silence;
                this.watch.note(format!("nothing came, not even a keepalive, for {silence:?} (silence)"));
            }
            Some(Err(error)) => this.watch.note(error.to_string()),
            None => this.watch.note("the stream ended too early".to_owned()),
        }
        Poll::Ready(frame)
    }
}
