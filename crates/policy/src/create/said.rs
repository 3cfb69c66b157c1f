//! What the end of a send says about the intent.

use alloc::string::String;

use super::input::{Answer, ServerError};
use crate::outcome::{Outcome, Response, ResponseBody};
use crate::policy::Policy;

/// What the end of a send says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Said {
    /// Here is the sandbox.
    Acknowledged(String),
    /// The call ended while it ran.
    CallEnded {
        /// Whether the head was written.
        sent: bool,
    },
    /// It was not processed: not sent, refused, 421, 425, 429.
    Unprocessed,
    /// A trusted 503: nothing was made.
    Busy,
    /// 404 or 405: perhaps the path version is not there.
    NoRoute(u16),
    /// Any other status of the 4xx class: nothing was made.
    Final,
    /// The server still works on the key's first request.
    InProgress,
    /// The key was used for another request.
    Mismatch,
    /// Nobody knows.
    Unknown(Doubt),
}

/// What kind of not knowing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Doubt {
    /// No answer, 408, or a cut one: the same key may still bring it.
    Lost,
    /// A status of the 5xx class, which a server may have recorded under the key, or a proxy may have written.
    Failed,
    /// The server recorded under the key that it failed, or that it does not know.
    Recorded,
    /// Success without a sandbox that can be read, or a redirect: the same key would bring the same.
    Unreadable,
}

impl Said {
    /// `unresolved`: an earlier send's outcome is unknown. A 503 is then no word about that send.
    pub(super) fn of(answer: &Answer, policy: &Policy, unresolved: bool) -> Self {
        let response = match &answer.outcome {
            Outcome::Cancelled { sent } | Outcome::TimedOut { sent } => return Self::CallEnded { sent: *sent },
            Outcome::NotSent(_) | Outcome::Refused(_) => return Self::Unprocessed,
            Outcome::SentUnknown(_) => return Self::Unknown(Doubt::Lost),
            Outcome::Responded(Response { body: ResponseBody::Broken, .. }) => return Self::Unknown(Doubt::Lost),
            Outcome::Responded(response) => response,
        };
        let code = answer.error.as_ref().and_then(|error| error.error_code.as_deref()).unwrap_or_default();
        match (response.status, code) {
            (400.., "idempotency_in_progress") => Self::InProgress,
            (400.., "idempotency_request_mismatch") => Self::Mismatch,
            (400.., "idempotency_outcome_unknown") => Self::Unknown(Doubt::Recorded),
            (200..300, _) => match &answer.sandbox {
                Some(id) => Self::Acknowledged(id.clone()),
                None => Self::Unknown(Doubt::Unreadable),
            },
            (..400, _) => Self::Unknown(Doubt::Unreadable),
            (status @ (404 | 405), _) => Self::NoRoute(status),
            (408, _) => Self::Unknown(Doubt::Lost),
            (421 | 425 | 429, _) => Self::Unprocessed,
            (400..500, _) => Self::Final,
            (500, _) if answer.error.is_some() => Self::Unknown(Doubt::Recorded),
            (503, _) if policy.trust_service_unavailable && !unresolved => Self::Busy,
            (500.., _) => Self::Unknown(Doubt::Failed),
        }
    }

    /// Whether the send may have made a sandbox, by anything but the server's own promise that it did not begin.
    pub(super) fn may_have_made_one(&self) -> bool {
        match self {
            Self::Unprocessed | Self::NoRoute(_) => false,
            Self::CallEnded { sent } => *sent,
            // A 503 is trusted when it comes to sending again, and checked when it comes to doubles.
            _ => true,
        }
    }
}

/// Whether the text asks for the same key ("retry with the same key" is what the server says when its store of keys is
/// down, and nothing was recorded).
pub(super) fn asks_for_same_key(error: Option<&ServerError>) -> bool {
    error.is_some_and(|error| {
        let text = error.message.as_bytes();
        let has = |wanted: &[u8]| text.windows(wanted.len()).any(|part| part.eq_ignore_ascii_case(wanted));
        has(b"same key") || has(b"same idempotency key") || has(b"same idempotency-key")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(status: u16, error: Option<ServerError>, unresolved: bool) -> Said {
        let answer = Answer { error, ..Answer::new(Outcome::Responded(Response::new(status))) };
        Said::of(&answer, &Policy::DEFAULT, unresolved)
    }

    #[test]
    fn only_trusted_answers_say_that_nothing_was_made() {
        for status in [500, 501, 502, 504, 520, 524, 599] {
            assert_eq!(said(status, None, false), Said::Unknown(Doubt::Failed), "{status}");
        }
        assert_eq!(said(500, Some(ServerError::default()), false), Said::Unknown(Doubt::Recorded));
        assert_eq!(said(503, None, false), Said::Busy);
        assert_eq!(said(503, None, true), Said::Unknown(Doubt::Failed));
        for status in [200, 201, 204, 302] {
            assert_eq!(said(status, None, false), Said::Unknown(Doubt::Unreadable), "{status}");
        }
        for status in [400, 401, 403, 409, 422] {
            assert_eq!(said(status, None, false), Said::Final, "{status}");
        }
    }

    #[test]
    fn the_text_is_read_in_any_case() {
        let error = |message: &str| ServerError { error_code: None, message: message.into() };
        assert!(asks_for_same_key(Some(&error("Store down, retry with the SAME key"))));
        assert!(asks_for_same_key(Some(&error("use the same Idempotency-Key"))));
        assert!(!asks_for_same_key(Some(&error("no capacity"))));
        assert!(!asks_for_same_key(None));
    }
}
