//! What is known of an attempt once it has ended.

use core::fmt;
use core::time::Duration;

use crate::text::ShortText;

/// What is *known* of one attempt: not what probably happened.
///
/// | outcome | the request was … |
/// |---|---|
/// | [`NotSent`](Outcome::NotSent) | not seen by the peer's HTTP layer |
/// | [`Refused`](Outcome::Refused) | seen, and not processed: the peer says so |
/// | [`Responded`](Outcome::Responded) | answered; the status says how |
/// | [`SentUnknown`](Outcome::SentUnknown) | sent, and nobody knows the rest |
/// | [`Cancelled`](Outcome::Cancelled), [`TimedOut`](Outcome::TimedOut) | given up: the *call* has ended |
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "snake_case"))]
pub enum Outcome {
    /// No byte of the request's head reached the peer's HTTP layer.
    NotSent(NotSent),
    /// The peer says that it did not process the request (RFC 9113 §6.8, §8.7).
    Refused(Refusal),
    /// An answer began.
    Responded(Response),
    /// The head was written and no answer came (RFC 9113 §5.4.3: it cannot be assumed unprocessed).
    SentUnknown(Unknown),
    /// The caller gave the call up.
    Cancelled {
        /// Whether the head of the running attempt had been written.
        sent: bool,
    },
    /// The call's deadline passed while the attempt ran.
    TimedOut {
        /// Whether the head of the running attempt had been written.
        sent: bool,
    },
}

/// Evidence of an attempt that sent nothing.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct NotSent {
    /// Where it ended.
    pub phase: Phase,
    /// Whether a socket was opened, or tried, for this attempt. A request that was only queued touched none.
    #[cfg_attr(feature = "serde", serde(default))]
    pub touched_socket: bool,
    /// What was seen, for people.
    #[cfg_attr(feature = "serde", serde(default))]
    pub detail: ShortText,
}

impl NotSent {
    /// Whether a replay costs nothing: no socket was touched. A failed dial touched one, or tried to.
    pub(crate) fn is_free(&self) -> bool {
        !self.touched_socket && !self.phase.is_dial()
    }
}

/// A step before a request's head is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "snake_case"))]
pub enum Phase {
    /// Resolving the host's name.
    Dns,
    /// Opening a socket.
    Connect,
    /// Asking a proxy for a tunnel.
    Proxy,
    /// The TLS handshake.
    Tls,
    /// Waiting for a free stream or connection.
    Slot,
    /// Queued on a connection that ended before the head was written.
    Queue,
}

impl Phase {
    /// Whether a failure in it is a failed dial.
    pub fn is_dial(self) -> bool {
        matches!(self, Self::Dns | Self::Connect | Self::Proxy | Self::Tls)
    }

    fn as_str(self) -> &'static str {
        match self {
            Self::Dns => "dns",
            Self::Connect => "connect",
            Self::Proxy => "proxy",
            Self::Tls => "tls",
            Self::Slot => "waiting for a slot",
            Self::Queue => "queued on a connection that ended",
        }
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// How the peer said that it did not process the request.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "snake_case"))]
pub enum Refusal {
    /// The stream's id is above GOAWAY's last stream id, whatever the error code (RFC 9113 §6.8).
    GoAway {
        /// The request's stream.
        stream_id: u32,
        /// The last stream that was or might be processed.
        last_stream_id: u32,
        /// GOAWAY's error code (RFC 9113 §7).
        code: u32,
        /// GOAWAY's debug data, shortened.
        #[cfg_attr(feature = "serde", serde(default))]
        debug_data: ShortText,
    },
    /// RST_STREAM with REFUSED_STREAM before any byte of a response (RFC 9113 §8.7).
    RefusedStream {
        /// The request's stream.
        stream_id: u32,
    },
}

/// An answer's facts, as far as decisions rest on them.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Response {
    /// Status code.
    pub status: u16,
    /// A usable `Retry-After`, as the time to wait from receipt; see [`crate::retry_after`].
    #[cfg_attr(feature = "serde", serde(default, with = "crate::seconds::option"))]
    pub retry_after: Option<Duration>,
    /// `Should-Retry`, where present: whether it says `true`; see [`crate::should_retry`].
    #[cfg_attr(feature = "serde", serde(default))]
    pub should_retry: Option<bool>,
    /// Whether the body came whole.
    #[cfg_attr(feature = "serde", serde(default))]
    pub body: ResponseBody,
    /// What the sandbox edge says in a body that it is known to write.
    #[cfg_attr(feature = "serde", serde(default))]
    pub edge: Option<Edge>,
    /// Whether a pacer shared by all calls obeys this 429's wait. It is the budget then: a retry costs no tokens.
    #[cfg_attr(feature = "serde", serde(default))]
    pub paced: bool,
}

impl Response {
    /// An answer with this status, a complete body and no hints.
    pub const fn new(status: u16) -> Self {
        Self { status, retry_after: None, should_retry: None, body: ResponseBody::Complete, edge: None, paced: false }
    }
}

/// Whether a response's body came whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "snake_case"))]
pub enum ResponseBody {
    /// It did, or it is handed to a caller who reads it: that is the commit point.
    #[default]
    Complete,
    /// It was cut. The outcome is unknown, whatever the status.
    Broken,
}

/// What the proxy in front of sandboxes says in place of a sandbox (protocol fact: its 502 and 409 bodies).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "snake_case"))]
pub enum Edge {
    /// There is no such running sandbox: final.
    NotRunning,
    /// Nothing listens on the port, or the sandbox is between two states: the request was not delivered.
    NotDelivered,
}

/// A request that was sent and not answered.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Unknown {
    /// What ended the attempt.
    pub cause: Cause,
    /// The HTTP/2 stream, where there was one.
    #[cfg_attr(feature = "serde", serde(default))]
    pub stream_id: Option<u32>,
    /// What was seen, for people.
    #[cfg_attr(feature = "serde", serde(default))]
    pub detail: ShortText,
}

/// What ended an attempt after its head was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "snake_case"))]
pub enum Cause {
    /// The connection ended or failed.
    ConnectionLost,
    /// RST_STREAM with a code that promises nothing (any but REFUSED_STREAM), or one that came late.
    Reset {
        /// The error code (RFC 9113 §7).
        code: u32,
    },
    /// `attempt_timeout` passed.
    AttemptTimeout,
    /// A PING was not answered.
    PingTimeout,
    /// The peer broke the protocol.
    Protocol,
    /// The caller's own request body failed half-way.
    RequestBody,
    /// The runtime tells nothing more (browsers, Workers).
    Opaque,
}

impl Outcome {
    /// What a GOAWAY proves of a stream that has no answer when its connection ends: refused where its id is above the
    /// last one, whatever the error code (RFC 9113 §6.8); else sent and unknown, since it may have been processed.
    ///
    /// ```
    /// use oncebox_policy::Outcome;
    ///
    /// assert!(matches!(Outcome::after_goaway(43, 41, 0, b"max_age"), Outcome::Refused(_)));
    /// assert!(matches!(Outcome::after_goaway(41, 41, 0, b"max_age"), Outcome::SentUnknown(_)));
    /// ```
    pub fn after_goaway(stream_id: u32, last_stream_id: u32, code: u32, debug_data: &[u8]) -> Self {
        let debug_data = ShortText::from_bytes(debug_data);
        if stream_id > last_stream_id {
            return Self::Refused(Refusal::GoAway { stream_id, last_stream_id, code, debug_data });
        }
        Self::SentUnknown(Unknown { cause: Cause::ConnectionLost, stream_id: Some(stream_id), detail: debug_data })
    }

    /// What RST_STREAM proves: refused where the code is REFUSED_STREAM and no byte of a response came before it (RFC
    /// 9113 §8.7); else sent and unknown, NO_ERROR and CANCEL included.
    ///
    /// ```
    /// use oncebox_policy::Outcome;
    ///
    /// const REFUSED_STREAM: u32 = 7;
    /// assert!(matches!(Outcome::after_reset(43, REFUSED_STREAM, false), Outcome::Refused(_)));
    /// assert!(matches!(Outcome::after_reset(43, REFUSED_STREAM, true), Outcome::SentUnknown(_)));
    /// ```
    pub fn after_reset(stream_id: u32, code: u32, response_began: bool) -> Self {
        const REFUSED_STREAM: u32 = 7;
        if code == REFUSED_STREAM && !response_began {
            return Self::Refused(Refusal::RefusedStream { stream_id });
        }
        let cause = Cause::Reset { code };
        Self::SentUnknown(Unknown { cause, stream_id: Some(stream_id), detail: ShortText::EMPTY })
    }

    /// Whether nobody knows if the request was processed. `mints` says that the operation makes something new, for
    /// which even a 500 proves nothing.
    pub fn is_unknown(&self, mints: bool) -> bool {
        match self {
            Self::SentUnknown(_) => true,
            Self::Cancelled { sent } | Self::TimedOut { sent } => *sent,
            Self::Responded(response) => {
                response.body == ResponseBody::Broken
                    || match response.status {
                        408 | 504 => true,
                        502 => response.edge.is_none(),
                        500 => mints,
                        _ => false,
                    }
            }
            Self::NotSent(_) | Self::Refused(_) => false,
        }
    }

    /// Whether the head of the request was written.
    pub fn was_sent(&self) -> bool {
        match self {
            Self::NotSent(_) => false,
            Self::Refused(_) | Self::Responded(_) | Self::SentUnknown(_) => true,
            Self::Cancelled { sent } | Self::TimedOut { sent } => *sent,
        }
    }

    /// Whether the request may have been processed: sent, and not provably refused.
    pub fn may_have_been_processed(&self) -> bool {
        match self {
            Self::NotSent(_) | Self::Refused(_) => false,
            Self::Responded(response) if response.body == ResponseBody::Complete => {
                !matches!(response.status, 421 | 425 | 429 | 503) && response.edge.is_none()
            }
            Self::Responded(_) | Self::SentUnknown(_) => true,
            Self::Cancelled { sent } | Self::TimedOut { sent } => *sent,
        }
    }

    /// How long the server asks to wait before it is asked again, counted from the outcome's receipt.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Responded(response) => response.retry_after,
            _ => None,
        }
    }

    /// The status, where an answer began.
    pub fn status(&self) -> Option<u16> {
        match self {
            Self::Responded(response) => Some(response.status),
            _ => None,
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotSent(not_sent) => {
                write!(f, "not sent ({})", not_sent.phase)?;
                detail(f, &not_sent.detail)
            }
            Self::Refused(refusal) => refusal.fmt(f),
            Self::Responded(response) => {
                write!(f, "answered {}", response.status)?;
                match response.edge {
                    Some(Edge::NotRunning) => f.write_str(", the sandbox is not running")?,
                    Some(Edge::NotDelivered) => f.write_str(", not delivered")?,
                    None => {}
                }
                if response.body == ResponseBody::Broken {
                    f.write_str(", the body was cut")?;
                }
                Ok(())
            }
            Self::SentUnknown(unknown) => {
                write!(f, "sent, outcome unknown: {}", unknown.cause)?;
                if let Some(stream_id) = unknown.stream_id {
                    write!(f, " on stream {stream_id}")?;
                }
                detail(f, &unknown.detail)
            }
            Self::Cancelled { sent } => write!(f, "cancelled {}", after(*sent)),
            Self::TimedOut { sent } => write!(f, "the call's deadline passed {}", after(*sent)),
        }
    }
}

fn detail(f: &mut fmt::Formatter<'_>, detail: &ShortText) -> fmt::Result {
    if detail.is_empty() { Ok(()) } else { write!(f, ": {detail}") }
}

fn after(sent: bool) -> &'static str {
    if sent { "after the request was sent" } else { "before it was sent" }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::GoAway { stream_id, last_stream_id, code, debug_data } => {
                write!(
                    f,
                    "stream refused by GOAWAY: stream {stream_id} above last stream id {last_stream_id}, {}",
                    ErrorCode(*code)
                )?;
                if debug_data.is_empty() { Ok(()) } else { write!(f, ", {debug_data}") }
            }
            Self::RefusedStream { stream_id } => write!(f, "stream refused: REFUSED_STREAM on stream {stream_id}"),
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ConnectionLost => f.write_str("connection lost"),
            Self::Reset { code } => write!(f, "stream reset with {}", ErrorCode(*code)),
            Self::AttemptTimeout => f.write_str("attempt_timeout passed"),
            Self::PingTimeout => f.write_str("a PING was not answered"),
            Self::Protocol => f.write_str("the peer broke the protocol"),
            Self::RequestBody => f.write_str("the request body failed"),
            Self::Opaque => f.write_str("the runtime does not say"),
        }
    }
}

/// An HTTP/2 error code by its name (RFC 9113 §7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ErrorCode(
    /// The number on the wire.
    pub u32,
);

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const NAMES: [&str; 14] = [
            "NO_ERROR",
            "PROTOCOL_ERROR",
            "INTERNAL_ERROR",
            "FLOW_CONTROL_ERROR",
            "SETTINGS_TIMEOUT",
            "STREAM_CLOSED",
            "FRAME_SIZE_ERROR",
            "REFUSED_STREAM",
            "CANCEL",
            "COMPRESSION_ERROR",
            "CONNECT_ERROR",
            "ENHANCE_YOUR_CALM",
            "INADEQUATE_SECURITY",
            "HTTP_1_1_REQUIRED",
        ];
        match NAMES.get(self.0 as usize) {
            Some(name) => f.write_str(name),
            None => write!(f, "error code {}", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn refusals_name_stream_last_id_code_and_reason() {
        let goaway = Refusal::GoAway { stream_id: 43, last_stream_id: 41, code: 0, debug_data: "max_age".into() };
        assert_eq!(
            Outcome::Refused(goaway).to_string(),
            "stream refused by GOAWAY: stream 43 above last stream id 41, NO_ERROR, max_age"
        );
        assert_eq!(
            Outcome::Refused(Refusal::RefusedStream { stream_id: 43 }).to_string(),
            "stream refused: REFUSED_STREAM on stream 43"
        );
    }

    #[test]
    fn a_500_is_unknown_only_where_something_is_minted() {
        let outcome = Outcome::Responded(Response::new(500));
        assert!(outcome.is_unknown(true) && !outcome.is_unknown(false));
    }

    #[test]
    fn a_cut_answer_is_unknown_whatever_its_status() {
        for status in [200, 404, 429, 503] {
            let cut = Response { body: ResponseBody::Broken, ..Response::new(status) };
            assert!(Outcome::Responded(cut).is_unknown(false), "{status}");
            assert!(Outcome::Responded(cut).may_have_been_processed(), "{status}");
        }
    }

    fn answered(status: u16) -> Outcome {
        Outcome::Responded(Response::new(status))
    }

    fn unsent(phase: Phase) -> Outcome {
        Outcome::NotSent(NotSent { phase, touched_socket: false, detail: "".into() })
    }

    fn lost(cause: Cause) -> Outcome {
        Outcome::SentUnknown(Unknown { cause, stream_id: None, detail: "".into() })
    }

    #[test]
    fn what_may_have_been_processed() {
        let edge = |status, edge| Outcome::Responded(Response { edge: Some(edge), ..Response::new(status) });
        for outcome in [
            unsent(Phase::Connect),
            Outcome::after_reset(1, 7, false),
            Outcome::Cancelled { sent: false },
            Outcome::TimedOut { sent: false },
            answered(421),
            answered(425),
            answered(429),
            answered(503),
            edge(502, Edge::NotRunning),
            edge(409, Edge::NotDelivered),
        ] {
            assert!(!outcome.may_have_been_processed(), "{outcome}");
        }
        for outcome in [
            lost(Cause::ConnectionLost),
            Outcome::after_reset(1, 7, true),
            Outcome::Cancelled { sent: true },
            Outcome::TimedOut { sent: true },
            answered(200),
            answered(404),
            answered(409),
            answered(500),
            answered(502),
        ] {
            assert!(outcome.may_have_been_processed(), "{outcome}");
        }
    }

    #[test]
    fn what_was_sent() {
        for outcome in [unsent(Phase::Queue), Outcome::Cancelled { sent: false }, Outcome::TimedOut { sent: false }] {
            assert!(!outcome.was_sent(), "{outcome}");
        }
        for outcome in [
            Outcome::after_reset(1, 7, false),
            answered(503),
            lost(Cause::Opaque),
            Outcome::Cancelled { sent: true },
            Outcome::TimedOut { sent: true },
        ] {
            assert!(outcome.was_sent(), "{outcome}");
        }
    }

    #[test]
    fn the_ends_of_a_call_are_unknown_once_it_was_sent() {
        for sent in [false, true] {
            assert_eq!(Outcome::Cancelled { sent }.is_unknown(false), sent);
            assert_eq!(Outcome::TimedOut { sent }.is_unknown(false), sent);
        }
    }

    #[test]
    fn dials_are_told_from_waiting_in_line() {
        for phase in [Phase::Dns, Phase::Connect, Phase::Proxy, Phase::Tls] {
            assert!(phase.is_dial(), "{phase}");
        }
        assert!(!Phase::Slot.is_dial() && !Phase::Queue.is_dial());
    }

    #[test]
    fn outcomes_in_words() {
        let refused = NotSent { phase: Phase::Connect, touched_socket: true, detail: "connection refused".into() };
        let cut = Response { body: ResponseBody::Broken, ..Response::new(200) };
        let gone = Response { edge: Some(Edge::NotRunning), ..Response::new(502) };
        let closed = Response { edge: Some(Edge::NotDelivered), ..Response::new(502) };
        let no_reason = Refusal::GoAway { stream_id: 3, last_stream_id: 1, code: 14, debug_data: "".into() };
        for (outcome, text) in [
            (Outcome::NotSent(refused), "not sent (connect): connection refused"),
            (unsent(Phase::Dns), "not sent (dns)"),
            (unsent(Phase::Proxy), "not sent (proxy)"),
            (unsent(Phase::Tls), "not sent (tls)"),
            (unsent(Phase::Slot), "not sent (waiting for a slot)"),
            (unsent(Phase::Queue), "not sent (queued on a connection that ended)"),
            (Outcome::Refused(no_reason), "stream refused by GOAWAY: stream 3 above last stream id 1, error code 14"),
            (Outcome::Responded(cut), "answered 200, the body was cut"),
            (Outcome::Responded(gone), "answered 502, the sandbox is not running"),
            (Outcome::Responded(closed), "answered 502, not delivered"),
            (Outcome::after_reset(5, 8, false), "sent, outcome unknown: stream reset with CANCEL on stream 5"),
            (Outcome::after_goaway(5, 5, 0, b"bye"), "sent, outcome unknown: connection lost on stream 5: bye"),
            (lost(Cause::AttemptTimeout), "sent, outcome unknown: attempt_timeout passed"),
            (lost(Cause::PingTimeout), "sent, outcome unknown: a PING was not answered"),
            (lost(Cause::Protocol), "sent, outcome unknown: the peer broke the protocol"),
            (lost(Cause::RequestBody), "sent, outcome unknown: the request body failed"),
            (lost(Cause::Opaque), "sent, outcome unknown: the runtime does not say"),
            (Outcome::Cancelled { sent: false }, "cancelled before it was sent"),
            (Outcome::Cancelled { sent: true }, "cancelled after the request was sent"),
            (Outcome::TimedOut { sent: false }, "the call's deadline passed before it was sent"),
        ] {
            assert_eq!(outcome.to_string(), text);
        }
    }
}
