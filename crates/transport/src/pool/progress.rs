//! How far an attempt has come.

use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};

/// How far the running attempt has come, and where. It outlives an attempt that is dropped at the deadline, whose
/// outcome nobody else can tell.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    stage: AtomicU8,
    /// 0: on none yet.
    stream: AtomicU32,
    /// 0: on none yet.
    connection: AtomicU64,
}

/// Waits for HTTP/1.1 connections that others use; so it begins.
const WAITS: u8 = 0;
/// Waits for a connection that is made for it.
const DIALS: u8 = 1;
/// Waits for a stream.
const IN_LINE: u8 = 2;
/// The head may have been written.
const SENT: u8 = 3;
/// The response's head has come, and its body is being read.
const READS: u8 = 4;

impl Progress {
    fn is(&self, stage: u8) {
        self.stage.store(stage, Ordering::Release);
    }

    fn stage(&self) -> u8 {
        self.stage.load(Ordering::Acquire)
    }

    pub(super) fn waits(&self) {
        self.is(WAITS);
    }

    pub(super) fn dials(&self) {
        self.is(DIALS);
    }

    pub(super) fn is_dialling(&self) -> bool {
        self.stage() == DIALS
    }

    pub(super) fn joins_line(&self) {
        self.is(IN_LINE);
    }

    pub(super) fn is_in_line(&self) -> bool {
        self.stage() == IN_LINE
    }

    /// The head is about to be written on this connection.
    pub(super) fn sends_on(&self, connection: u64) {
        self.connection.store(connection, Ordering::Relaxed);
        self.is(SENT);
    }

    pub(super) fn has_stream(&self, stream: u32) {
        self.stream.store(stream, Ordering::Relaxed);
    }

    pub(crate) fn reads_body(&self) {
        self.is(READS);
    }

    pub(crate) fn reads(&self) -> bool {
        self.stage() == READS
    }

    pub(crate) fn is_sent(&self) -> bool {
        self.stage() >= SENT
    }

    /// The connection that the head may have been written on.
    pub(crate) fn connection(&self) -> Option<u64> {
        Some(self.connection.load(Ordering::Relaxed)).filter(|id| *id != 0)
    }

    /// Its stream, where that is one of HTTP/2.
    pub(crate) fn stream(&self) -> Option<u32> {
        Some(self.stream.load(Ordering::Relaxed)).filter(|id| *id != 0)
    }
}
