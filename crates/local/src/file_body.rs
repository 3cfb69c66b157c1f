//! A file as a body.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame};
use tokio::fs::File;
use tokio::io::{AsyncRead, ReadBuf};

/// How much is read at a time.
const CHUNK: usize = 64 << 10;

/// The rest of a file, read as it is asked for.
pub(crate) struct FileBody {
    file: File,
    buffer: Box<[u8]>,
}

impl FileBody {
    pub(crate) fn new(file: File) -> Self {
        Self { file, buffer: vec![0; CHUNK].into_boxed_slice() }
    }
}

impl Body for FileBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        let Self { file, buffer } = &mut *self;
        let mut read = ReadBuf::new(buffer);
        ready!(Pin::new(file).poll_read(cx, &mut read))?;
        let data = read.filled();
        if data.is_empty() {
            return Poll::Ready(None);
        }
        Poll::Ready(Some(Ok(Frame::data(Bytes::copy_from_slice(data)))))
    }
}
