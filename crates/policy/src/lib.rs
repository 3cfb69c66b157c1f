//! What to do after an attempt: a pure function, shared by every Oncebox front.
//!
//! A *call* is what the user asked for. It is made in *attempts*, each of which ends in an [`Outcome`]: what is
//! known, not what probably happened. [`judge`] takes an outcome, the call's [facts](CallFacts) and its [`Ledger`],
//! and returns a [`Verdict`] with its reason. There is no socket, no clock and no source of randomness here; time and
//! random numbers are arguments, so that the same seed gives the same trace and the same vector the same verdict in
//! every language.
//!
//! ```
//! use std::time::Duration;
//! use oncebox_policy::*;
//!
//! // A POST that nothing permits to repeat is lost after it was sent: the call ends, and says so.
//! let lost = Outcome::SentUnknown(Unknown { cause: Cause::ConnectionLost, stream_id: None, detail: "".into() });
//! let facts = CallFacts { body: RequestBody::Bytes, ..CallFacts::default() };
//! let mut ledger = Ledger::new();
//! let verdict = judge(&Policy::default(), &facts, &mut ledger, None, &Attempt::new(lost), Duration::ZERO, 0.5);
//! assert!(matches!(verdict, Verdict::Return(Return { reason: ReturnReason::NoPermit, .. })));
//!
//! // A GOAWAY proves that the same POST was not processed: it is replayed at once on another connection.
//! let refused = Outcome::Refused(Refusal::GoAway {
//!     stream_id: 43, last_stream_id: 41, code: 0, debug_data: "max_age".into(),
//! });
//! let attempt = Attempt { other_connection: true, ..Attempt::new(refused) };
//! let verdict = judge(&Policy::default(), &facts, &mut Ledger::new(), None, &attempt, Duration::ZERO, 0.5);
//! assert!(matches!(verdict, Verdict::Retry(Retry { after: Duration::ZERO, .. })));
//! ```
//!
//! # The order of the rules
//!
//! Rules 1 to 6 propose, in this order; 7 to 11 may turn a proposal into a return.
//!
//! 1. Cancelled, or past the deadline: return.
//! 2. Nothing sent, or refused (GOAWAY above the last stream id, REFUSED_STREAM, 421, 425): replay on
//!    `connection_retries`, if the body can be sent again.
//! 3. `Should-Retry` on a status of 400 and above: `true` makes it retryable, but is no permit; anything else returns.
//! 4. An unknown outcome of an operation that can be looked up: reconcile.
//! 5. The status table: 503; 429 with `Retry-After`; 502 and 408 with a permit; everything else returns.
//! 6. Sent and unknown, or a cut body: with a permit.
//! 7. A streamed request body is not retried.
//! 8. `retries` and `connection_retries`.
//! 9. The wait: the server's `Retry-After` exactly, else backoff.
//! 10. A wait that reaches the deadline returns at once.
//! 11. The retry budget.
//!
//! [`explain`] tells a decision rule by rule, with the facts that each looked at. The reasons for the order and for
//! every number are in `docs/design/0001-decision-order.md`; `conformance/policy` holds it for every language.
//!
//! # Who spends what
//!
//! A call has one [`Ledger`], shared by all layers that work on it, so that limits add and never multiply. Whoever
//! reconciles an unknown outcome spends `lookups` ([`Ledger::start_look_up`], [`judge_look_up`]), and asks
//! [`judge_reconciled`] before the request is sent again.

#![no_std]
#![deny(missing_docs)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod backoff;
mod budget;
pub mod create;
mod explain;
mod facts;
mod judge;
mod ledger;
mod options;
mod outcome;
mod policy;
mod reading;
mod retry_after;
#[cfg(feature = "serde")]
mod seconds;
mod should_retry;
mod text;
mod trace;
mod verdict;

pub use backoff::{backoff, dial_backoff};
pub use budget::{BUDGET_CAPACITY, Budget, COST_STATUS, COST_UNKNOWN, REFILL_PER_SECOND, SUCCESS_REFUND, Tokens};
pub use explain::{Effect, Explanation, Step, explain};
pub use facts::{CallFacts, Permit, RequestBody};
pub use judge::{judge, judge_adopted, judge_look_up, judge_reconciled, judge_traced};
pub use ledger::{Attempt, ClosedLedger, Ledger, Numbered, Purpose, Record};
pub use options::{
    CLEANUP_LOOKUPS, DEFAULT_CLEANUP_TIMEOUT, DEFAULT_SETTLE, IdempotencyKeys, MAX_TIMEOUT, OptionError, Options,
    Scope, check_at_least_one, check_duration, retries_option, timeout_option,
};
pub use outcome::{Cause, Edge, ErrorCode, NotSent, Outcome, Phase, Refusal, Response, ResponseBody, Unknown};
pub use policy::{
    BACKOFF_BASE, BACKOFF_CAP, DEFAULT_CONNECTION_RETRIES, DEFAULT_LOOKUPS, DEFAULT_READ_IDLE_TIMEOUT,
    DEFAULT_REPLAY_BUFFER_LIMIT, DEFAULT_REQUEST_TIMEOUT, DEFAULT_RETRIES, DIAL_BACKOFF_BASE, DIAL_BACKOFF_CAP,
    FREE_REPEATS, LOOKUP_PAGES, MAX_RETRIES, Policy, RETRY_WINDOW_WITHOUT_DEADLINE, RepeatUnknown,
};
pub use reading::Reading;
pub use retry_after::{http_date, retry_after};
pub use should_retry::should_retry;
pub use text::ShortText;
pub use trace::{DecidedBy, Rule, Trace};
pub use verdict::{Connection, Retry, RetryReason, Return, ReturnReason, Verdict, WaitReason};
