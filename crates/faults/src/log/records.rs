//! What the log keeps.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::engine::Request;
use crate::h2::frame::FrameHead;
use crate::script::{ErrorCode, Version};

/// One connection.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct ConnectionRecord {
    /// Its place among the connections accepted, from 1.
    pub number: u64,
    /// The HTTP version; `None` until a request came.
    pub version: Option<Version>,
    /// Whether it was over TLS.
    pub tls: bool,
    /// Request heads that came.
    pub heads: u64,
    /// Those that came after a GOAWAY was sent.
    pub heads_after_goaway: u64,
    /// Requests processed.
    pub processed: u64,
    /// Requests open now.
    pub open: u64,
    /// The most requests that were open at once.
    pub most_open: u64,
    /// The GOAWAYs that were sent: last id and code.
    pub goaways: Vec<(u32, ErrorCode)>,
    /// Bytes read, above TLS. Known when the connection has ended.
    pub bytes_in: u64,
    /// Bytes written, above TLS. Known when the connection has ended.
    pub bytes_out: u64,
    /// How it ended; `None` while it is open.
    pub ended: Option<String>,
}

impl ConnectionRecord {
    pub(super) fn new(number: u64) -> Self {
        Self {
            number,
            version: None,
            tls: false,
            heads: 0,
            heads_after_goaway: 0,
            processed: 0,
            open: 0,
            most_open: 0,
            goaways: Vec::new(),
            bytes_in: 0,
            bytes_out: 0,
            ended: None,
        }
    }
}

/// One try of a request: one head that came.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct TryRecord {
    /// The connection, from 1.
    pub connection: u64,
    /// The HTTP/2 stream id; for HTTP/1.1 the request's place on its connection, from 1.
    pub stream: u32,
    /// The request id, where one was sent.
    pub request_id: Option<String>,
    /// Its place among the tries of its id, from 1.
    #[serde(rename = "try")]
    pub attempt: u64,
    /// The method.
    pub method: String,
    /// The path with its query.
    pub path: String,
    /// Bytes of the request's body that came.
    pub body_bytes: u64,
    /// The [`digest`](crate::digest) of those bytes.
    pub body_digest: u64,
    /// Whether the whole request came.
    pub complete: bool,
    /// Whether it was processed.
    pub processed: bool,
    /// The status of the answer whose head was written.
    pub status: Option<u16>,
    /// Whether the whole answer was written.
    pub answered: bool,
    /// The code of the RST_STREAM that was sent.
    pub reset_sent: Option<ErrorCode>,
    /// The code of the RST_STREAM that came.
    pub reset_received: Option<ErrorCode>,
    /// Whether the head came when a GOAWAY had been sent or the connection was being closed, so that it was ignored or
    /// would have been by an honest server.
    pub after_goaway: bool,
    /// Whether the client had acknowledged a PING that was sent after the GOAWAY: it had read it, and must not have
    /// opened this stream.
    pub after_goaway_was_seen: bool,
    /// Whether a later GOAWAY said that it was not processed.
    pub disowned: bool,
}

impl TryRecord {
    pub(super) fn new(connection: u64, request: &Request, after_goaway: bool, seen: bool) -> Self {
        Self {
            connection,
            stream: request.stream,
            request_id: request.id.as_ref().map(|id| id.to_string()),
            attempt: request.attempt,
            method: request.head.method.clone(),
            path: request.head.path.clone(),
            body_bytes: 0,
            body_digest: crate::digest(b""),
            complete: false,
            processed: false,
            status: None,
            answered: false,
            reset_sent: None,
            reset_received: None,
            after_goaway,
            after_goaway_was_seen: seen,
            disowned: false,
        }
    }
}

/// One request id.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct RequestRecord {
    /// The id.
    pub id: String,
    /// Heads that came.
    pub heads: u64,
    /// How often it was processed.
    pub processed: u64,
    /// Its tries.
    pub tries: Vec<TryRecord>,
}

/// Sums over everything.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Totals {
    /// Connections accepted.
    pub connections: u64,
    /// Connections open now.
    pub connections_open: u64,
    /// The most connections open at once.
    pub most_connections_open: u64,
    /// Request heads that came.
    pub heads: u64,
    /// Those that came after a GOAWAY was sent on their connection.
    pub heads_after_goaway: u64,
    /// Requests processed.
    pub processed: u64,
    /// Request ids that were processed more than once.
    pub doubled: u64,
    /// Answers written whole.
    pub answered: u64,
    /// RST_STREAM with REFUSED_STREAM that were sent.
    pub refused: u64,
    /// RST_STREAM with any code that were sent.
    pub resets_sent: u64,
    /// Rules of HTTP that the client broke.
    pub violations: u64,
    /// Events beyond the log's limit.
    pub events_not_kept: u64,
    /// Tries beyond the log's limit.
    pub tries_not_kept: u64,
}

/// What a test run was, to be written to a file.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct Report {
    /// Sums over everything.
    pub totals: Totals,
    /// How often faults of each rule happened.
    pub fired: BTreeMap<String, u64>,
    /// The connections.
    pub connections: Vec<ConnectionRecord>,
    /// The requests that had an id, by id.
    pub requests: Vec<RequestRecord>,
    /// The tries of requests that had none.
    pub without_id: Vec<TryRecord>,
}

/// One thing that happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Event {
    /// Microseconds since the server started.
    pub at_us: u64,
    /// The connection, from 1.
    pub connection: u64,
    /// The stream; 0 for the connection as a whole.
    pub stream: u32,
    /// What happened.
    pub what: Happening,
}

/// Who sent a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// The client.
    Received,
    /// The server.
    Sent,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Happening {
    /// A connection was accepted.
    Accepted,
    /// A connection ended, and how.
    Ended(String),
    /// An HTTP/2 frame. Sent DATA and HEADERS are not listed.
    Frame {
        /// Who sent it.
        direction: Direction,
        /// Its type: 0 is DATA, 1 HEADERS, …
        kind: u8,
        /// Its flags.
        flags: u8,
        /// The length of its payload.
        length: usize,
        /// Its error code, last stream id or window increment.
        detail: u32,
    },
    /// A request's head came.
    Head {
        /// Which try of its id it is, from 1.
        attempt: u64,
    },
    /// A request was processed.
    Processed,
    /// An answer was written whole.
    Answered {
        /// Its status.
        status: u16,
    },
    /// A fault happened.
    Fault {
        /// The name of its rule, else `rules[n]`.
        rule: String,
        /// The fault's name in JSON.
        fault: &'static str,
    },
    /// A fault was due that this connection cannot have, of HTTP/2 over HTTP/1.1 or of TLS without it; nothing
    /// happened.
    NotApplicable {
        /// The fault's name in JSON.
        fault: &'static str,
    },
    /// The client broke a rule of HTTP.
    Violation(String),
    /// The upstream of a proxy failed.
    Upstream(String),
}

impl Happening {
    pub(crate) fn frame(direction: Direction, head: &FrameHead, detail: u32) -> Self {
        Self::Frame { direction, kind: head.kind, flags: head.flags, length: head.length, detail }
    }
}
