//! A response that is handed on when its head has come.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::FutureExt;
use http::response::Parts;
use http::{HeaderMap, Version};
use http_body_util::BodyExt;
use oncebox_transport::{History, Response, ResponseBody};
use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};

use super::failure::HttpFailure;
use super::request_body::RequestBody;
use crate::errors;
use crate::kept::Kept;
use crate::pending::{self, Pending};

/// How much of a body is taken along with its head, where it is there already.
const TAKEN_ALONG: usize = 256 * 1024;

/// How often the connection is given a turn to bring the body that came with the head.
const TURNS: usize = 2;

/// A response: its head, and its body as it is read.
#[pyclass(frozen, module = "oncebox._core")]
pub(crate) struct HttpResponse {
    head: Parts,
    history: History,
    body: Arc<tokio::sync::Mutex<Reading>>,
    /// The whole body, where it came with the head; taken once.
    whole: Mutex<Option<Bytes>>,
    trailers: Arc<Mutex<Option<HeaderMap>>>,
    /// What came for a reader who had gone.
    kept: Kept<Item>,
}

struct Reading {
    /// `None`: it is over.
    body: Option<ResponseBody>,
    /// What came before anybody asked.
    first: Option<Bytes>,
    failed: Option<HttpFailure>,
}

/// What a reader is given.
enum Item {
    Piece(Bytes),
    End,
    /// A piece of the request's body is wanted.
    Wanted,
    Failed(HttpFailure),
}

impl HttpResponse {
    pub(super) async fn begin(response: Response<ResponseBody>) -> Self {
        let (head, body, history) = response.into_parts();
        let trailers = Arc::new(Mutex::new(None));
        let mut reading = Reading { body: Some(body), first: None, failed: None };
        let whole = reading.take_along(&trailers).await;
        let (body, whole) = (Arc::new(tokio::sync::Mutex::new(reading)), Mutex::new(whole));
        Self { head, history, body, whole, trailers, kept: Kept::default() }
    }
}

impl Reading {
    /// Reads what is there without waiting for more. A small answer mostly came whole: its reader need not wait again.
    async fn take_along(&mut self, trailers: &Mutex<Option<HeaderMap>>) -> Option<Bytes> {
        let mut pieces = Vec::new();
        let (mut taken, mut turns) = (0, 0);
        while let Some(body) = &mut self.body {
            match body.frame().now_or_never() {
                None if turns < TURNS => {
                    turns += 1;
                    tokio::task::yield_now().await;
                }
                None => break,
                Some(frame) => match self.take(frame, trailers) {
                    Item::Piece(piece) => {
                        taken += piece.len();
                        pieces.push(piece);
                        if taken > TAKEN_ALONG {
                            break;
                        }
                    }
                    Item::Failed(failure) => {
                        self.failed = Some(failure);
                        break;
                    }
                    Item::End | Item::Wanted => return Some(joined(pieces)),
                },
            }
        }
        if !pieces.is_empty() {
            self.first = Some(joined(pieces));
        }
        None
    }

    fn take(
        &mut self,
        frame: Option<Result<http_body::Frame<Bytes>, oncebox_transport::BodyError>>,
        trailers: &Mutex<Option<HeaderMap>>,
    ) -> Item {
        match frame {
            Some(Ok(frame)) => match frame.into_data() {
                Ok(data) => Item::Piece(data),
                Err(frame) => {
                    *trailers.lock() = frame.into_trailers().ok();
                    self.body = None;
                    Item::End
                }
            },
            Some(Err(error)) => {
                self.body = None;
                Item::Failed(HttpFailure::of_body(&error))
            }
            None => {
                self.body = None;
                Item::End
            }
        }
    }

    async fn next(&mut self, trailers: &Mutex<Option<HeaderMap>>) -> Item {
        if let Some(first) = self.first.take() {
            return Item::Piece(first);
        }
        if let Some(failure) = self.failed.take() {
            return Item::Failed(failure);
        }
        let Some(body) = &mut self.body else { return Item::End };
        let frame = body.frame().await;
        self.take(frame, trailers)
    }
}

fn joined(mut pieces: Vec<Bytes>) -> Bytes {
    match pieces.len() {
        0 | 1 => pieces.pop().unwrap_or_default(),
        _ => {
            let mut whole = BytesMut::with_capacity(pieces.iter().map(Bytes::len).sum());
            pieces.iter().for_each(|piece| whole.extend_from_slice(piece));
            whole.freeze()
        }
    }
}

#[pymethods]
impl HttpResponse {
    #[getter]
    fn status(&self) -> u16 {
        self.head.status.as_u16()
    }

    #[getter]
    fn http_version(&self) -> &'static str {
        match self.head.version {
            Version::HTTP_2 => "HTTP/2",
            Version::HTTP_10 => "HTTP/1.0",
            _ => "HTTP/1.1",
        }
    }

    /// Names, in lower case, and values, as text: what is no ASCII is taken for Latin-1.
    #[getter]
    fn text_headers(&self) -> Vec<(&str, String)> {
        text(&self.head.headers)
    }

    /// Names, in lower case, and values, as bytes.
    #[getter]
    fn headers<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        raw(py, &self.head.headers)
    }

    /// The whole body, where it came with the head: bytes, once. `None`: it is to be read.
    fn whole<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyBytes>> {
        self.whole.lock().take().map(|whole| PyBytes::new(py, &whole))
    }

    /// Reads on: bytes; `None` at the end; an [`HttpFailure`]; and, where an `upload` is given, `...` when a piece of the
    /// request's body is wanted. `within` is the longest that it may take, in seconds.
    #[pyo3(signature = (upload = None, within = None))]
    fn next(&self, py: Python<'_>, upload: Option<PyRef<'_, RequestBody>>, within: Option<f64>) -> PyResult<Pending> {
        let (reading, trailers, kept) = (self.body.clone(), self.trailers.clone(), self.kept.clone());
        let upload = upload.map(|upload| upload.shared());
        let late = self.kept.clone();
        let item = async move {
            let mut reading = reading.lock().await;
            if let Some(item) = kept.again() {
                return item;
            }
            kept.unless_taken(match upload {
                None => reading.next(&trailers).await,
                Some(upload) => tokio::select! {
                    biased;
                    item = reading.next(&trailers) => item,
                    () = upload.wanted_after_the_answer() => Item::Wanted,
                },
            })
        };
        let within = within.map(|seconds| Duration::try_from_secs_f64(seconds).unwrap_or(Duration::ZERO));
        let operation = async move {
            match within {
                None => item.await,
                Some(within) => tokio::time::timeout(within, item).await.unwrap_or_else(|_| {
                    let why = "the response did not end before the call's deadline (timeout)";
                    late.unless_taken(Item::Failed(HttpFailure::late(why)))
                }),
            }
        };
        pending::begin_with(py, operation, |py, item| {
            Ok(match item.take() {
                Some(Item::Piece(piece)) => PyBytes::new(py, &piece).into_any().unbind(),
                Some(Item::End) | None => py.None(),
                Some(Item::Wanted) => py.Ellipsis(),
                Some(Item::Failed(failure)) => Py::new(py, failure)?.into_any(),
            })
        })
    }

    /// Gives up what was not read: the stream, or the connection, is free at once.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.whole.lock().take();
        match self.body.try_lock() {
            Ok(mut reading) => {
                let unread = (reading.body.take(), reading.first.take());
                if unread.0.is_some() {
                    // Dropped where its runtime is.
                    crate::runtime::handle(py)?.spawn(async move { drop(unread) });
                }
                Ok(())
            }
            // Somebody reads, and gives it up when they are done or given up.
            Err(_) => {
                let body = self.body.clone();
                crate::runtime::handle(py)?.spawn(async move { drop(body.lock().await.body.take()) });
                Ok(())
            }
        }
    }

    /// The trailers as text, once the body was read.
    #[getter]
    fn text_trailers(&self) -> Vec<(String, String)> {
        let trailers = self.trailers.lock();
        let trailers = trailers.as_ref().map(text).unwrap_or_default();
        trailers.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }

    /// Every attempt of the call.
    #[getter]
    fn attempts<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        errors::attempts(py, self.history.attempts())
    }
}

fn text(headers: &HeaderMap) -> Vec<(&str, String)> {
    headers
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_bytes().iter().map(|b| char::from(*b)).collect()))
        .collect()
}

fn raw<'py>(py: Python<'py>, headers: &HeaderMap) -> PyResult<Bound<'py, PyList>> {
    PyList::new(
        py,
        headers
            .iter()
            .map(|(name, value)| (PyBytes::new(py, name.as_str().as_bytes()), PyBytes::new(py, value.as_bytes())))
            .collect::<Vec<_>>(),
    )
}
