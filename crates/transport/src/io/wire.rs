//! What is known of a connection from the bytes that passed.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use parking_lot::Mutex;

use super::frames::{self, Frame};

/// SETTINGS_MAX_CONCURRENT_STREAMS (RFC 9113 §6.5.2).
const MAX_CONCURRENT_STREAMS: [u8; 2] = [0, 3];

/// How much of a GOAWAY's debug data is kept.
const DEBUG_DATA_LEN: usize = 64;

/// What a GOAWAY said (RFC 9113 §6.8).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GoAway {
    /// Streams above this id were not processed.
    pub(crate) last_stream_id: u32,
    /// Error code.
    pub(crate) code: u32,
    /// Additional debug data, shortened.
    pub(crate) debug_data: Vec<u8>,
}

/// The facts of one connection, shared between its shim and those who use it.
#[derive(Debug, Default)]
pub(crate) struct Wire {
    pub(super) bytes_written: AtomicU64,
    pub(super) bytes_read: AtomicU64,
    highest_headers: AtomicU32,
    settings_seen: AtomicBool,
    /// 0 = not told.
    max_concurrent_streams: AtomicU64,
    goaway: Mutex<Option<GoAway>>,
    going_away: AtomicBool,
    answered: AtomicBool,
    pub(super) ended: AtomicBool,
    pub(super) write_failed: AtomicBool,
    pub(super) check_before_write: AtomicBool,
}

impl Wire {
    /// Bytes that the stream below took, the kernel or TLS, since the connection was opened; with them those that may
    /// have left before a write failed.
    pub(crate) fn bytes_written(&self) -> u64 {
        self.bytes_written.load(Ordering::Acquire)
    }

    /// Bytes that came from the peer, since the connection was opened.
    pub(crate) fn bytes_read(&self) -> u64 {
        self.bytes_read.load(Ordering::Acquire)
    }

    /// Whether a GOAWAY was read.
    pub(crate) fn is_going_away(&self) -> bool {
        self.going_away.load(Ordering::Acquire)
    }

    /// The highest stream id whose HEADERS began to be written; 0 before the first.
    pub(crate) fn highest_headers(&self) -> u32 {
        self.highest_headers.load(Ordering::Acquire)
    }

    /// The peer's stream cap, once its SETTINGS have come: `Some(None)` when it named none.
    pub(crate) fn max_concurrent_streams(&self) -> Option<Option<u32>> {
        if !self.settings_seen.load(Ordering::Acquire) {
            return None;
        }
        let told = self.max_concurrent_streams.load(Ordering::Acquire);
        Some(told.checked_sub(1).map(|cap| cap as u32))
    }

    /// The last GOAWAY, with the lowest last stream id of all.
    pub(crate) fn goaway(&self) -> Option<GoAway> {
        self.goaway.lock().clone()
    }

    /// The lowest last stream id of all GOAWAYs.
    pub(crate) fn goaway_last_stream_id(&self) -> Option<u32> {
        self.goaway.lock().as_ref().map(|goaway| goaway.last_stream_id)
    }

    /// Whether the peer began to answer any request.
    pub(crate) fn answered(&self) -> bool {
        self.answered.load(Ordering::Acquire)
    }

    /// Whether the peer's side ended or failed.
    pub(crate) fn ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    /// Whether a write failed. Over HTTP/2 what has already arrived is still read.
    pub(crate) fn write_failed(&self) -> bool {
        self.write_failed.load(Ordering::Acquire)
    }

    /// Asks for a look at the socket before the next write: an idle connection is about to be used again.
    pub(crate) fn check_before_write(&self) {
        self.check_before_write.store(true, Ordering::Release);
    }

    pub(super) fn outbound(&self, frame: &Frame<'_>) {
        if frame.kind == frames::HEADERS {
            // Only the connection's own task writes it.
            let highest = self.highest_headers.load(Ordering::Relaxed).max(frame.stream_id);
            self.highest_headers.store(highest, Ordering::Release);
        }
    }

    pub(super) fn inbound(&self, frame: &Frame<'_>) {
        match frame.kind {
            frames::HEADERS => self.answered.store(true, Ordering::Release),
            frames::SETTINGS if frame.flags & frames::FLAG_ACK == 0 => {
                for setting in frame.payload.chunks_exact(6) {
                    if setting[..2] == MAX_CONCURRENT_STREAMS {
                        let cap = u32::from_be_bytes([setting[2], setting[3], setting[4], setting[5]]);
                        self.max_concurrent_streams.store(u64::from(cap) + 1, Ordering::Release);
                    }
                }
                self.settings_seen.store(true, Ordering::Release);
            }
            frames::GOAWAY => {
                if let [a, b, c, d, e, f, g, h, debug @ ..] = frame.payload {
                    let last = u32::from_be_bytes([*a, *b, *c, *d]) & 0x7fff_ffff;
                    let mut seen = self.goaway.lock();
                    // The id must not rise (RFC 9113 §6.8); where it does, the promise already given holds.
                    let last = seen.as_ref().map_or(last, |g| g.last_stream_id.min(last));
                    *seen = Some(GoAway {
                        last_stream_id: last,
                        code: u32::from_be_bytes([*e, *f, *g, *h]),
                        debug_data: debug[..debug.len().min(DEBUG_DATA_LEN)].to_vec(),
                    });
                    self.going_away.store(true, Ordering::Release);
                }
            }
            _ => {}
        }
    }
}
