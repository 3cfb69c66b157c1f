//! What to do after an attempt, and why.

use core::fmt;
use core::time::Duration;

use crate::policy::RETRY_WINDOW_WITHOUT_DEADLINE;

/// What to do after an attempt.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "snake_case"))]
pub enum Verdict {
    /// The call ends with this attempt's outcome.
    Return(Return),
    /// Send the request again.
    Retry(Retry),
    /// Find out what the attempt did before anything else.
    Reconcile,
}

/// Why a call ends.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Return {
    /// The reason.
    pub reason: ReturnReason,
    /// When the server would like to be asked again, where it said so.
    #[cfg_attr(feature = "serde", serde(default, with = "crate::seconds::option"))]
    pub retry_after: Option<Duration>,
}

/// A repeat.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Retry {
    /// How long to wait before.
    #[cfg_attr(feature = "serde", serde(with = "crate::seconds"))]
    pub after: Duration,
    /// Where the length of the wait comes from.
    pub wait: WaitReason,
    /// On which connection.
    pub connection: Connection,
    /// Why the request may be sent again.
    pub reason: RetryReason,
}

/// Which connection a repeat should take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "snake_case"))]
pub enum Connection {
    /// Any.
    #[default]
    Any,
    /// Another than the last, where there is one.
    PreferOther,
    /// A new one (RFC 9110 §15.5.20).
    Fresh,
}

/// Why a call ends with the attempt at hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "snake_case"))]
pub enum ReturnReason {
    /// The caller gave up.
    Cancelled,
    /// The deadline has passed.
    DeadlinePassed,
    /// An answer below 400, complete.
    Success,
    /// The status is not one that is retried.
    StatusFinal,
    /// `Should-Retry` says something other than `true`.
    ServerForbids,
    /// The sandbox is not running.
    SandboxNotRunning,
    /// 429 without a usable `Retry-After`.
    NoRetryAfter,
    /// 421 or 425, a second time.
    RefusedAgain,
    /// The request may have been processed, and nothing permits a repeat.
    NoPermit,
    /// More of the streamed request body was read than is mirrored.
    BodyNotReplayable {
        /// Bytes read.
        read: u64,
        /// `replay_buffer_limit`, in bytes.
        limit: u64,
    },
    /// A streamed request body: statuses and unknown outcomes are not retried.
    StreamedBody,
    /// `retries` used up.
    RetriesUsed,
    /// `connection_retries` used up.
    ConnectionRetriesUsed,
    /// The wait would reach the deadline.
    DeadlineTooClose,
    /// There is no deadline, and the time in which retries may start is over.
    RetryWindowOver,
    /// The retry budget is empty.
    BudgetEmpty,
    /// `lookups` used up.
    LookUpsUsed,
    /// A reconciler's own attempts are not repeated.
    SingleAttempt,
}

/// Why a request may be sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "snake_case"))]
pub enum RetryReason {
    /// Nothing was sent.
    NotSent,
    /// The peer did not process it.
    Refused,
    /// The sandbox edge did not deliver it.
    NotDelivered,
    /// The status is one that is retried.
    Status,
    /// `Should-Retry: true`.
    ServerAsks,
    /// The outcome is unknown and a repeat is permitted.
    Permitted,
    /// The outcome was unknown, and a reconciler says that a repeat does no harm.
    Reconciled,
}

impl RetryReason {
    /// A *replay* resends what was provably unprocessed; anything else is a *retry*.
    pub fn is_replay(self) -> bool {
        matches!(self, Self::NotSent | Self::Refused | Self::NotDelivered)
    }
}

/// Where the length of a wait comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "snake_case"))]
pub enum WaitReason {
    /// No wait: no socket was touched, or another connection is at hand.
    None,
    /// The server's `Retry-After`.
    RetryAfter,
    /// Exponential backoff with jitter.
    Backoff,
    /// The origin's backoff between dials.
    DialBackoff,
}

impl fmt::Display for ReturnReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Cancelled => "the caller cancelled",
            Self::DeadlinePassed => "the deadline passed (request_timeout)",
            Self::Success => "success",
            Self::StatusFinal => "this status is final",
            Self::ServerForbids => "the server's Should-Retry forbids a retry",
            Self::SandboxNotRunning => "the sandbox is not running",
            Self::NoRetryAfter => "rate limited without a usable Retry-After",
            Self::RefusedAgain => "refused a second time",
            Self::NoPermit => {
                "it may have been processed, and nothing permits a repeat (repeat_unknown, idempotency key)"
            }
            Self::BodyNotReplayable { read, limit } => {
                return write!(
                    f,
                    "body not replayable: {} bytes read, replay_buffer_limit {}",
                    Thousands(*read),
                    Thousands(*limit)
                );
            }
            Self::StreamedBody => "a streamed request body is not retried after an answer or an unknown outcome",
            Self::RetriesUsed => "retries used up (retries)",
            Self::ConnectionRetriesUsed => "connection retries used up (connection_retries)",
            Self::DeadlineTooClose => "the wait would reach the deadline (request_timeout)",
            Self::RetryWindowOver => {
                return write!(f, "no deadline, and no retry starts after {RETRY_WINDOW_WITHOUT_DEADLINE:?}");
            }
            Self::BudgetEmpty => "the retry budget is empty (retry_budget)",
            Self::LookUpsUsed => "look-ups used up (lookups)",
            Self::SingleAttempt => "a single attempt",
        })
    }
}

impl fmt::Display for RetryReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotSent => "nothing was sent",
            Self::Refused => "the peer did not process it",
            Self::NotDelivered => "the edge did not deliver it",
            Self::Status => "this status is retried",
            Self::ServerAsks => "the server's Should-Retry asks for it",
            Self::Permitted => "a repeat is permitted",
            Self::Reconciled => "reconciled",
        })
    }
}

impl fmt::Display for WaitReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "at once",
            Self::RetryAfter => "Retry-After",
            Self::Backoff => "backoff",
            Self::DialBackoff => "dial backoff",
        })
    }
}

/// A number with its thousands set off: `1,048,576`.
struct Thousands(u64);

impl fmt::Display for Thousands {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut unit = 1;
        while self.0 / unit >= 1000 {
            unit *= 1000;
        }
        write!(f, "{}", self.0 / unit)?;
        while unit > 1 {
            unit /= 1000;
            write!(f, ",{:03}", self.0 / unit % 1000)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn a_body_beyond_the_mirror_says_how_far() {
        let reason = ReturnReason::BodyNotReplayable { read: 1_048_576, limit: 65_536 };
        assert_eq!(reason.to_string(), "body not replayable: 1,048,576 bytes read, replay_buffer_limit 65,536");
        let reason = ReturnReason::BodyNotReplayable { read: 1_000, limit: 0 };
        assert_eq!(reason.to_string(), "body not replayable: 1,000 bytes read, replay_buffer_limit 0");
    }
}
