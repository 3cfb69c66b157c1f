//! What an HTTP/2 connection remembers.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::task::AbortHandle;

use super::frame::{DEFAULT_FRAME_SIZE, DEFAULT_WINDOW};
use crate::hpack::Decoder;
use crate::out::Ending;
use crate::script::{Script, Settings};

/// Streams that may be open on one connection, whatever its SETTINGS say: it bounds memory.
pub(super) const MOST_STREAMS: usize = 20_000;

/// The HTTP/2 part of a connection.
pub(crate) struct H2 {
    pub(super) state: Mutex<State>,
    tasks: Mutex<Tasks>,
}

/// The tasks of streams that could not be answered at once.
#[derive(Default)]
struct Tasks {
    running: HashMap<u32, AbortHandle>,
    ended: bool,
}

pub(super) struct State {
    pub(super) streams: HashMap<u32, Arc<Stream>>,
    /// How many of them are not closed (RFC 9113, section 5.1): a stream that is may still be looked after here.
    open: usize,
    pub(super) decoder: Decoder,
    /// The highest stream whose HEADERS came.
    pub(super) highest_seen: u32,
    /// The highest stream that was accepted, and the one accepted before it.
    pub(super) highest_accepted: u32,
    pub(super) accepted_before: u32,
    pub(super) requests: u64,
    /// The lowest last id of a GOAWAY that was sent and meant.
    pub(super) goaway_last: Option<u32>,
    pub(super) goaway_sent: bool,
    /// The client has acknowledged a PING that was sent after a GOAWAY.
    pub(super) goaway_seen: bool,
    /// PINGs that were sent and not acknowledged: whether a GOAWAY had been sent before each.
    pub(super) pings: VecDeque<bool>,
    pub(super) when_done: Option<Ending>,
    /// The SETTINGS that were sent and not acknowledged.
    pub(super) unacknowledged: VecDeque<Announced>,
    /// The stream cap that the client has acknowledged.
    pub(super) cap: Option<u32>,
    /// What is left of the connection's window for our DATA.
    pub(super) send_window: i64,
    /// What the client's SETTINGS make the window of a new stream.
    pub(super) client_window: i64,
    pub(super) client_frame_size: usize,
    /// The window we give a new stream, and the largest frame we take.
    pub(super) stream_window: i64,
    pub(super) frame_size: usize,
    /// Bytes of DATA that were used and not given back to the connection's window.
    pub(super) credit: u32,
    pub(super) credit_at: u32,
}

/// What SETTINGS say that holds from when the client has acknowledged them.
#[derive(Clone, Copy)]
pub(super) struct Announced {
    /// SETTINGS_MAX_CONCURRENT_STREAMS.
    pub(super) cap: Option<u32>,
    /// SETTINGS_HEADER_TABLE_SIZE.
    pub(super) table: Option<u32>,
}

/// One stream.
pub(super) struct Stream {
    pub(super) id: u32,
    pub(super) inner: Mutex<Inner>,
    pub(super) changed: Notify,
    /// A GOAWAY said that it was not processed, or it was reset by us: nothing more happens to it.
    pub(super) over: AtomicBool,
}

pub(super) struct Inner {
    pub(super) chunks: VecDeque<Bytes>,
    /// END_STREAM came.
    pub(super) complete: bool,
    /// RST_STREAM came.
    pub(super) cancelled: bool,
    /// END_STREAM was sent.
    pub(super) answered: bool,
    /// It is no longer counted among the open ones.
    closed: bool,
    pub(super) processed: bool,
    pub(super) send_window: i64,
    /// What the client may still send.
    pub(super) receive_window: i64,
    pub(super) credit: u32,
}

impl Stream {
    pub(super) fn new(id: u32, complete: bool, send_window: i64, receive_window: i64) -> Self {
        let inner = Inner {
            chunks: VecDeque::new(),
            complete,
            cancelled: false,
            answered: false,
            closed: false,
            processed: false,
            send_window,
            receive_window,
            credit: 0,
        };
        Self { id, inner: Mutex::new(inner), changed: Notify::new(), over: AtomicBool::new(false) }
    }

    pub(super) fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    pub(super) fn end(&self) {
        self.over.store(true, Ordering::Relaxed);
        self.changed.notify_waiters();
    }
}

impl H2 {
    pub(crate) fn new(script: &Script) -> Self {
        let unset = Settings::none();
        let settings = script.settings.as_ref().unwrap_or(&unset);
        let table = settings.header_table_size.unwrap_or(4096) as usize;
        let state = State {
            streams: HashMap::new(),
            open: 0,
            // The client may use the default table until it has read our SETTINGS.
            decoder: Decoder::new(table.max(4096)),
            highest_seen: 0,
            highest_accepted: 0,
            accepted_before: 0,
            requests: 0,
            goaway_last: None,
            goaway_sent: false,
            goaway_seen: false,
            pings: VecDeque::new(),
            when_done: None,
            unacknowledged: VecDeque::new(),
            cap: None,
            send_window: DEFAULT_WINDOW,
            client_window: DEFAULT_WINDOW,
            client_frame_size: DEFAULT_FRAME_SIZE,
            stream_window: settings.initial_window_size.map_or(DEFAULT_WINDOW, i64::from),
            frame_size: settings
                .max_frame_size
                .map_or(DEFAULT_FRAME_SIZE, |size| size as usize)
                .max(DEFAULT_FRAME_SIZE),
            credit: 0,
            credit_at: (script.connection_window / 2).clamp(1, 1 << 20),
        };
        Self { state: Mutex::new(state), tasks: Mutex::default() }
    }

    /// Remembers a stream's task, so that it ends with the connection; stream 0 is the connection itself.
    pub(super) fn task(&self, stream: u32, task: AbortHandle) {
        let mut tasks = self.tasks.lock();
        if tasks.ended {
            task.abort();
        } else if stream == 0 || self.state.lock().streams.contains_key(&stream) {
            // A stream is removed before its task is over: one that is still there will say so when it is.
            tasks.running.insert(stream, task);
        }
    }

    pub(super) fn task_is_over(&self, stream: u32) {
        self.tasks.lock().running.remove(&stream);
    }

    /// Ends the tasks of all streams, and any to come.
    pub(crate) fn end_tasks(&self) {
        let mut tasks = self.tasks.lock();
        tasks.ended = true;
        tasks.running.drain().for_each(|(_, task)| task.abort());
    }
}

impl State {
    /// How many streams are open.
    pub(super) fn open(&self) -> usize {
        self.open
    }

    pub(super) fn add(&mut self, stream: Arc<Stream>) {
        self.open += 1;
        self.streams.insert(stream.id, stream);
    }

    /// Counts a stream no longer when both sides have ended it, or either has reset it or has disowned it by GOAWAY.
    /// Whether it was open until now.
    pub(super) fn closes(&mut self, stream: &Stream) -> bool {
        let mut inner = stream.inner.lock();
        let is_closed = inner.cancelled || stream.is_over() || (inner.complete && inner.answered);
        let now = is_closed && !inner.closed;
        inner.closed |= is_closed;
        self.open -= usize::from(now);
        now
    }

    /// Nothing more happens to a stream.
    pub(super) fn remove(&mut self, stream: &Stream) -> bool {
        self.streams.remove(&stream.id);
        let was_open = !std::mem::replace(&mut stream.inner.lock().closed, true);
        self.open -= usize::from(was_open);
        was_open
    }

    /// The window that the client may believe a new stream to have.
    pub(super) fn receive_window(&self) -> i64 {
        // Until it has acknowledged our SETTINGS, it may not have read them.
        if self.unacknowledged.is_empty() { self.stream_window } else { self.stream_window.max(DEFAULT_WINDOW) }
    }

    /// The client has acknowledged the oldest SETTINGS that it had not.
    pub(super) fn acknowledged(&mut self) {
        let Some(Announced { cap, table }) = self.unacknowledged.pop_front() else { return };
        self.cap = cap.or(self.cap);
        if let Some(table) = table {
            // It may have read of more already.
            let later = self.unacknowledged.iter().filter_map(|later| later.table).max();
            self.decoder.allow(table.max(later.unwrap_or(0)) as usize);
        }
    }

    /// Whether a stream with this id is ignored: a GOAWAY said so.
    pub(super) fn is_ignored(&self, stream: u32) -> bool {
        self.goaway_last.is_some_and(|last| stream > last)
    }

    /// The ending that is due once every stream which a GOAWAY left was answered.
    pub(super) fn due(&self) -> Option<Ending> {
        self.when_done.filter(|_| self.streams.keys().all(|stream| self.is_ignored(*stream)))
    }
}
