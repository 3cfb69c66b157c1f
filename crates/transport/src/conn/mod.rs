//! Connections, and what is known of a request when one of them fails.

mod h1;
mod h2;

pub(crate) use h1::H1Connection;
pub(crate) use h2::{Exchange, FAR, H2Connection, H2Response, H2Stream, Liveness, Owner};

use std::error::Error as StdError;

use oncebox_policy::{Cause, NotSent, Outcome, Phase, ShortText, Unknown};

use crate::body::BoxError;
use crate::io::GoAway;

/// An attempt that ended without an answer.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) outcome: Outcome,
    pub(crate) source: BoxError,
}

impl Failure {
    /// The connection ended before any byte of the request's head was written.
    pub(crate) fn not_sent(source: impl Into<BoxError>) -> Self {
        let source = source.into();
        let detail = innermost(&source);
        Self { outcome: Outcome::NotSent(NotSent { phase: Phase::Queue, touched_socket: false, detail }), source }
    }

    /// The same, where the connection served nothing before it ended: that counts as a failed dial, and as an attempt
    /// of each request that was to use it.
    pub(crate) fn unserved(detail: ShortText, source: impl Into<BoxError>) -> Self {
        let not_sent = NotSent { phase: Phase::Queue, touched_socket: true, detail };
        Self { outcome: Outcome::NotSent(not_sent), source: source.into() }
    }

    /// Whether it was a dial that failed, or a connection that counts as one.
    pub(crate) fn is_failed_dial(&self) -> bool {
        matches!(self.outcome, Outcome::NotSent(not_sent) if not_sent.touched_socket)
    }

    /// No connection could be had, for a reason that all who waited share.
    pub(crate) fn no_connection(phase: Phase, detail: ShortText) -> Self {
        Self::dial(phase, detail.to_string())
    }

    /// A dial failed.
    pub(crate) fn dial(phase: Phase, source: impl Into<BoxError>) -> Self {
        let source = source.into();
        let detail = innermost(&source);
        Self { outcome: Outcome::NotSent(NotSent { phase, touched_socket: true, detail }), source }
    }

    /// RST_STREAM before the response.
    pub(crate) fn reset(stream_id: u32, code: u32, source: impl Into<BoxError>) -> Self {
        Self { outcome: Outcome::after_reset(stream_id, code, false), source: source.into() }
    }

    /// Whether the peer said that it did not process the request.
    pub(crate) fn is_refused(&self) -> bool {
        matches!(self.outcome, Outcome::Refused(_))
    }

    /// GOAWAY with a last stream id below the request's.
    pub(crate) fn goaway(stream_id: u32, goaway: &GoAway, source: impl Into<BoxError>) -> Self {
        let outcome = Outcome::after_goaway(stream_id, goaway.last_stream_id, goaway.code, &goaway.debug_data);
        Self { outcome, source: source.into() }
    }

    /// The head was written, and no answer came.
    pub(crate) fn unknown(cause: Cause, stream_id: Option<u32>, source: impl Into<BoxError>) -> Self {
        let source = source.into();
        let detail = innermost(&source);
        Self { outcome: Outcome::SentUnknown(Unknown { cause, stream_id, detail }), source }
    }
}

/// The text of the error at the bottom, which is the one that names what happened.
fn innermost(error: &BoxError) -> ShortText {
    let mut bottom: &(dyn StdError + 'static) = error.as_ref();
    while let Some(source) = bottom.source() {
        bottom = source;
    }
    ShortText::new(&bottom.to_string())
}
