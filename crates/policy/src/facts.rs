//! What the policy must know of a call.

use core::time::Duration;

/// Why an unknown outcome may be repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "snake_case"))]
pub enum Permit {
    /// The method is safe (RFC 9110 §9.2.1).
    SafeMethod,
    /// The method is idempotent (RFC 9110 §9.2.2).
    IdempotentMethod,
    /// The operation table says that a repeat has no further effect.
    OperationTable,
    /// The server recognises the repeat by its idempotency key.
    IdempotencyKey,
}

impl Permit {
    /// The permit that a method alone gives: GET, HEAD and OPTIONS are safe, PUT and DELETE idempotent; POST, PATCH
    /// and what is unknown give none.
    pub fn of_method(method: &str) -> Option<Self> {
        match method {
            "GET" | "HEAD" | "OPTIONS" => Some(Self::SafeMethod),
            "PUT" | "DELETE" => Some(Self::IdempotentMethod),
            _ => None,
        }
    }
}

/// A request body, as far as it can be sent again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "snake_case"))]
pub enum RequestBody {
    /// There is none.
    #[default]
    None,
    /// Bytes at hand.
    Bytes,
    /// A stream that nobody has read.
    StreamUnread,
    /// A stream whose read part is mirrored.
    StreamMirrored,
    /// A stream of which more was read than is mirrored.
    StreamConsumed {
        /// Bytes read so far.
        read: u64,
        /// `replay_buffer_limit`, in bytes.
        limit: u64,
    },
}

impl RequestBody {
    /// Whether it is read as it is sent.
    pub fn is_stream(self) -> bool {
        matches!(self, Self::StreamUnread | Self::StreamMirrored | Self::StreamConsumed { .. })
    }

    /// Whether it can be sent from the first byte again.
    pub fn is_replayable(self) -> bool {
        !matches!(self, Self::StreamConsumed { .. })
    }
}

/// What stays the same over the attempts of a call, save the body's state.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(default, deny_unknown_fields))]
pub struct CallFacts {
    /// Why an unknown outcome may be repeated, if it may.
    pub permit: Option<Permit>,
    /// Whether the operation makes something new, so that even a 500 proves nothing.
    pub mints: bool,
    /// Whether somebody can find out what an unknown outcome did (a create with its look-up).
    pub reconciles: bool,
    /// The body, after the attempt.
    pub body: RequestBody,
    /// The call's deadline, counted from its begin. `None`: there is none.
    #[cfg_attr(feature = "serde", serde(with = "crate::seconds::option"))]
    pub deadline: Option<Duration>,
}

impl CallFacts {
    /// The deadline of a child call that begins at `now` with a timeout of its own, on the parent's clock: never later
    /// than the parent's.
    ///
    /// ```
    /// use std::time::Duration;
    /// use oncebox_policy::CallFacts;
    ///
    /// let seconds = Duration::from_secs;
    /// let parent = CallFacts { deadline: Some(seconds(60)), ..CallFacts::default() };
    /// assert_eq!(parent.child_deadline(seconds(50), Some(seconds(5))), Some(seconds(55)));
    /// assert_eq!(parent.child_deadline(seconds(50), Some(seconds(30))), Some(seconds(60)));
    /// assert_eq!(parent.child_deadline(seconds(50), None), Some(seconds(60)));
    /// ```
    pub fn child_deadline(&self, now: Duration, timeout: Option<Duration>) -> Option<Duration> {
        let own = timeout.map(|timeout| now.saturating_add(timeout));
        match (self.deadline, own) {
            (Some(parent), Some(own)) => Some(parent.min(own)),
            (parent, own) => parent.or(own),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_method_permits_what_its_definition_says() {
        for method in ["GET", "HEAD", "OPTIONS"] {
            assert_eq!(Permit::of_method(method), Some(Permit::SafeMethod), "{method}");
        }
        for method in ["PUT", "DELETE"] {
            assert_eq!(Permit::of_method(method), Some(Permit::IdempotentMethod), "{method}");
        }
        // Methods are case-sensitive (RFC 9110 §9.1).
        for method in ["POST", "PATCH", "TRACE", "CONNECT", "get", "", "BREW"] {
            assert_eq!(Permit::of_method(method), None, "{method}");
        }
    }

    #[test]
    fn only_a_consumed_stream_cannot_be_sent_again() {
        let consumed = RequestBody::StreamConsumed { read: 2, limit: 1 };
        for (body, stream, replayable) in [
            (RequestBody::None, false, true),
            (RequestBody::Bytes, false, true),
            (RequestBody::StreamUnread, true, true),
            (RequestBody::StreamMirrored, true, true),
            (consumed, true, false),
        ] {
            assert_eq!((body.is_stream(), body.is_replayable()), (stream, replayable), "{body:?}");
        }
    }
}
