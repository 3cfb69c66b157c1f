//! Bodies whose bytes come from Python piece by piece, and what is written with them.

use std::future::IntoFuture;
use std::io;

use bytes::Bytes;
use futures_util::stream;
use http_body::Frame;
use http_body_util::StreamBody;
use oncebox::{Body, Error, ErrorKind};
use parking_lot::Mutex;
use pyo3::prelude::*;
use tokio::sync::{mpsc, watch};
use tokio::task::AbortHandle;

use crate::convert;
use crate::errors::{Failure, Subject};
use crate::pending::{Pending, begin, begin_with};
use crate::runtime;

/// Pieces that wait to be sent, at most: who gives more waits.
const WAITING: usize = 4;

/// A piece, or that there are no more. A source that ends without having said so has been given up: what is sent then must
/// not be taken for the whole.
type Piece = Option<Bytes>;

/// Something that is written piece by piece. Dropped, it is given up.
pub(crate) struct Writing<T> {
    pieces: Mutex<Option<mpsc::Sender<Piece>>>,
    ended: watch::Receiver<Option<Result<T, Error>>>,
    task: AbortHandle,
    /// The process in which it was begun.
    generation: u64,
}

impl<T: Clone + Send + Sync + 'static> Writing<T> {
    /// Begins what `write` makes of the body.
    pub(crate) fn begin<W>(py: Python<'_>, write: impl FnOnce(Body) -> PyResult<W>) -> PyResult<Self>
    where
        W: IntoFuture<Output = Result<T, Error>>,
        W::IntoFuture: Send + 'static,
    {
        let (pieces, given) = mpsc::channel::<Piece>(WAITING);
        let data = stream::unfold(Some(given), |given| async move {
            let mut given = given?;
            match given.recv().await {
                Some(Some(piece)) => Some((Ok(Frame::data(piece)), Some(given))),
                Some(None) => None,
                None => Some((Err(io::Error::other("the source was given up")), None)),
            }
        });
        let write = write(Body::stream(StreamBody::new(data)))?.into_future();
        let (tell, ended) = watch::channel(None);
        let task = runtime::handle(py)?.spawn(async move {
            let end = write.await;
            tell.send_replace(Some(end));
        });
        let (task, generation) = (task.abort_handle(), runtime::generation(py));
        Ok(Self { pieces: Mutex::new(Some(pieces)), ended, task, generation })
    }

    /// Passes a piece on, and returns when there is room for more. `False`: it has ended already; `finish` tells how.
    pub(crate) fn send(&self, py: Python<'_>, data: Vec<u8>) -> PyResult<Pending> {
        let pieces = self.pieces.lock().clone();
        let sent = async move {
            match pieces {
                Some(pieces) => pieces.send(Some(data.into())).await.is_ok(),
                None => false,
            }
        };
        begin_with(py, sent, convert::flag)
    }

    /// Says that it was all, and waits for the answer.
    pub(crate) fn finish(
        &self,
        py: Python<'_>,
        subject: Subject,
        convert: impl FnOnce(Python<'_>, T) -> PyResult<Py<PyAny>> + Send + 'static,
    ) -> PyResult<Pending> {
        let (pieces, mut ended) = (self.pieces.lock().take(), self.ended.clone());
        let finished = async move {
            if let Some(pieces) = pieces {
                // Nobody takes it where the answer came before the end.
                drop(pieces.send(None).await);
            }
            let ended = ended.wait_for(Option::is_some).await.ok().and_then(|ended| ended.clone());
            let given_up = || Failure::Plain(ErrorKind::NotDone, "the upload was given up".to_owned());
            ended.ok_or_else(given_up)?.map_err(Failure::Sdk)
        };
        begin(py, subject, finished, convert)
    }
}

impl<T> Writing<T> {
    /// Gives it up: the server does not take a part for the whole.
    pub(crate) fn abort(&self) {
        self.task.abort();
    }
}

impl<T> Drop for Writing<T> {
    fn drop(&mut self) {
        // In a child process the task is not there to be aborted.
        if Python::try_attach(|py| runtime::generation(py) == self.generation).unwrap_or(false) {
            self.abort();
        }
    }
}
