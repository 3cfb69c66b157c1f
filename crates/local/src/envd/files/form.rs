//! Forms with files, read in bounded memory.
//!
//! The form parser takes in all that a body has ready before it hands anything on, which for a fast client is all of the
//! body. So the body is given to it a chunk at a time, and what it holds back is counted.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use axum::body::{Body, BodyDataStream};
use bytes::Bytes;
use futures_util::{Stream, StreamExt};

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Most that may lie between two pieces of data: the head of a part, with room to spare for a chunk of the body.
const MAX_HELD_BACK: usize = 2 << 20;

/// The files of a form.
pub(super) struct Form {
    parts: multer::Multipart<'static>,
    held_back: Arc<AtomicUsize>,
}

impl Form {
    /// Reads a form from the body of a request of that content type.
    pub(super) fn new(content_type: &str, body: Body) -> Result<Self, multer::Error> {
        let boundary = multer::parse_boundary(content_type)?;
        let held_back = Arc::new(AtomicUsize::new(0));
        let body = Paced { body: body.into_data_stream(), pause: false, held_back: Arc::clone(&held_back) };
        Ok(Self { parts: multer::Multipart::new(body, boundary), held_back })
    }

    /// The next field `file`; others are read past.
    pub(super) async fn next_file(&mut self) -> Result<Option<FormFile>, multer::Error> {
        while let Some(part) = self.parts.next_field().await? {
            let mut file = FormFile { part, held_back: Arc::clone(&self.held_back) };
            file.held_back.store(0, Ordering::Relaxed);
            if file.part.name() == Some("file") {
                return Ok(Some(file));
            }
            while let Some(data) = file.next().await {
                data?;
            }
        }
        Ok(None)
    }
}

/// One file of a form, a stream of its bytes.
pub(super) struct FormFile {
    part: multer::Field<'static>,
    held_back: Arc<AtomicUsize>,
}

impl FormFile {
    /// The name it was sent with, which is a path here.
    pub(super) fn name(&self) -> Option<&str> {
        self.part.file_name()
    }
}

impl Stream for FormFile {
    type Item = Result<Bytes, multer::Error>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let polled = self.part.poll_next_unpin(cx);
        if polled.is_ready() {
            self.held_back.store(0, Ordering::Relaxed);
        }
        polled
    }
}

/// A body that gives one chunk, and the next when it is asked in another turn.
struct Paced {
    body: BodyDataStream,
    pause: bool,
    held_back: Arc<AtomicUsize>,
}

impl Stream for Paced {
    type Item = Result<Bytes, BoxError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.pause {
            self.pause = false;
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let polled = self.body.poll_next_unpin(cx);
        let Poll::Ready(Some(Ok(chunk))) = polled else {
            return polled.map(|end| end.map(|end| end.map_err(Into::into)));
        };
        self.pause = true;
        let held_back = self.held_back.fetch_add(chunk.len(), Ordering::Relaxed).saturating_add(chunk.len());
        if held_back > MAX_HELD_BACK {
            let message = format!("{MAX_HELD_BACK} bytes of the form are no data of a file");
            return Poll::Ready(Some(Err(message.into())));
        }
        Poll::Ready(Some(Ok(chunk)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form(parts: Vec<Bytes>) -> Form {
        let stream = futures_util::stream::iter(parts.into_iter().map(Ok::<_, BoxError>));
        Form::new("multipart/form-data; boundary=xyz", Body::from_stream(stream)).unwrap()
    }

    fn head(name: &str) -> Bytes {
        format!("--xyz\r\ncontent-disposition: form-data; name=\"{name}\"; filename=\"f\"\r\n\r\n").into()
    }

    #[tokio::test]
    async fn a_large_file_is_not_gathered() {
        let chunk = Bytes::from(vec![b'x'; 100_000]);
        let mut parts = vec![head("other"), chunk.clone(), "\r\n".into(), head("file")];
        parts.extend(std::iter::repeat_n(chunk, 100));
        parts.push("\r\n--xyz--\r\n".into());
        let mut form = form(parts);
        let mut file = form.next_file().await.unwrap().unwrap();
        assert_eq!(file.name(), Some("f"));
        let (mut total, mut largest) = (0, 0);
        while let Some(data) = file.next().await {
            let length = data.unwrap().len();
            total += length;
            largest = largest.max(length);
        }
        assert_eq!(total, 10_000_000);
        assert!(largest <= 200_000, "{largest}");
        drop(file);
        assert!(form.next_file().await.unwrap().is_none());
    }

    #[tokio::test]
    async fn a_head_without_end_is_refused() {
        let endless = std::iter::repeat_n(Bytes::from(vec![b'x'; 100_000]), 1000);
        let mut form = form([Bytes::from("--xyz\r\nx: ")].into_iter().chain(endless).collect());
        assert!(form.next_file().await.is_err());
    }
}
