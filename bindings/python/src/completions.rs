//! How an event loop learns that operations have ended: a file descriptor that becomes readable, and a list.

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use parking_lot::Mutex;
use pyo3::prelude::*;

/// How many are taken at a time. Each wakes a task; between two lots the loop comes to its timers and to what else it has to do,
/// however many operations end at a time.
const LOT: usize = 128;

/// The operations of one event loop that have ended and were not yet seen.
///
/// The loop watches [`fileno`](Completions::fileno) and calls [`take`](Completions::take) when it is readable: one wake-up
/// for all that ended meanwhile, or for a hundred of them where they are more.
#[pyclass(frozen, module = "oncebox._core")]
pub(crate) struct Completions {
    queue: Arc<Queue>,
    reader: UnixStream,
}

/// The end of it that the IO thread has.
pub(crate) struct Queue {
    ended: Mutex<Ended>,
    writer: UnixStream,
}

#[derive(Default)]
struct Ended {
    tokens: VecDeque<u64>,
    /// Whether the descriptor is readable, or about to be.
    told: bool,
}

impl Queue {
    pub(crate) fn push(&self, token: u64) {
        let mut ended = self.ended.lock();
        ended.tokens.push_back(token);
        if !std::mem::replace(&mut ended.told, true) {
            drop(ended);
            self.tell();
        }
    }

    fn tell(&self) {
        // It cannot be full: one byte at a time is in it. A loop that has gone does not care.
        drop((&self.writer).write(&[0]));
    }
}

#[pymethods]
impl Completions {
    #[new]
    fn new() -> PyResult<Self> {
        let (reader, writer) = UnixStream::pair()?;
        reader.set_nonblocking(true)?;
        writer.set_nonblocking(true)?;
        Ok(Self { queue: Arc::new(Queue { ended: Mutex::default(), writer }), reader })
    }

    /// The descriptor that is readable when there is something to take.
    fn fileno(&self) -> i32 {
        self.reader.as_raw_fd()
    }

    /// The tokens of what has ended since the last time, the oldest first. Where they are many, some of them, and the descriptor
    /// is readable still.
    fn take(&self) -> Vec<u64> {
        let mut bytes = [0; 16];
        // Before the list is taken: what is pushed in between is in the list, and its byte is read the next time.
        drop((&self.reader).read(&mut bytes));
        let mut ended = self.queue.ended.lock();
        ended.told = ended.tokens.len() > LOT;
        if !ended.told {
            // Their room goes with them: a loop that once had very many need not keep it.
            return std::mem::take(&mut ended.tokens).into();
        }
        let lot = ended.tokens.drain(..LOT).collect();
        drop(ended);
        self.queue.tell();
        lot
    }
}

impl Completions {
    pub(crate) fn queue(&self) -> Arc<Queue> {
        Arc::clone(&self.queue)
    }
}
