//! What comes in on a connection.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::{Buf, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt};

use crate::conn::Conn;
use crate::script::Moment;

/// How much is read at once.
const CHUNK: usize = 32 * 1024;

pub(crate) type Reader = Box<dyn AsyncRead + Send + Unpin>;

/// The reading half of a connection with what was read and not used yet.
pub(crate) struct Inbound {
    reader: Reader,
    pub(crate) buffer: BytesMut,
    conn: Arc<Conn>,
    /// How many of the script's `bytes_in` were passed.
    passed: usize,
}

impl Inbound {
    pub(crate) fn new(reader: Reader, conn: Arc<Conn>) -> Self {
        Self { reader, buffer: BytesMut::new(), conn, passed: 0 }
    }

    /// Reads something more. `false`: the end.
    ///
    /// Never reads past the next `bytes_in` of the script, so that what lies beyond stays in the system's buffer.
    pub(crate) async fn fill(&mut self) -> io::Result<bool> {
        self.conn.out.not_full().await;
        if self.conn.out.is_deaf() {
            std::future::pending::<()>().await;
        }
        let engine = self.conn.engine.clone();
        let before = self.conn.bytes_in.load(Ordering::Relaxed);
        let next = engine.bytes_in.get(self.passed).copied();
        let most = next.map_or(CHUNK, |next| usize::try_from(next - before).unwrap_or(CHUNK).min(CHUNK));
        self.buffer.reserve(most);
        let read = (&mut self.reader).take(most as u64).read_buf(&mut self.buffer).await?;
        let total = before + read as u64;
        self.conn.bytes_in.store(total, Ordering::Relaxed);
        if next == Some(total) {
            self.passed += 1;
            self.conn.happen(Moment::BytesIn(total), None).await;
        }
        Ok(read > 0)
    }

    /// At least so many bytes in the buffer. `false`: the end came before.
    pub(crate) async fn have(&mut self, bytes: usize) -> io::Result<bool> {
        while self.buffer.len() < bytes {
            if !self.fill().await? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    pub(crate) fn take(&mut self, bytes: usize) -> Bytes {
        self.buffer.split_to(bytes).freeze()
    }

    /// Reads to the end and forgets it.
    pub(crate) async fn drain(&mut self) {
        loop {
            let length = self.buffer.len();
            self.buffer.advance(length);
            if !matches!(self.fill().await, Ok(true)) {
                return;
            }
        }
    }
}
