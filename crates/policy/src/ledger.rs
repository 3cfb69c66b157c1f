//! The record of one call: what was tried, what came of it, what is left.

use alloc::boxed::Box;
use core::fmt;
use core::time::Duration;

use smallvec::SmallVec;

use crate::facts::CallFacts;
use crate::outcome::{Outcome, Response, ResponseBody};
use crate::policy::Policy;
use crate::verdict::{Return, ReturnReason, Verdict, WaitReason};

/// Attempts whose records need no allocation.
const INLINE_ATTEMPTS: usize = 8;

/// One ended attempt, as the judge is told of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Attempt {
    /// When it began, counted from the call's begin.
    pub started: Duration,
    /// The connection it used, by a number that is unique in the process. `None`: it had none.
    pub connection: Option<u64>,
    /// What is known of it.
    pub outcome: Outcome,
    /// Whether another connection to the origin is open or being dialled, so that a refused request need not wait.
    pub other_connection: bool,
    /// How many dials of the origin have failed in a row, this one included.
    pub failed_dials: u32,
}

impl Attempt {
    /// An attempt that began with the call, on no connection.
    pub const fn new(outcome: Outcome) -> Self {
        Self { started: Duration::ZERO, connection: None, outcome, other_connection: false, failed_dials: 0 }
    }
}

/// One attempt in a call's history.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Record {
    /// What the attempt was for.
    pub purpose: Purpose,
    /// When it began, counted from the call's begin.
    #[cfg_attr(feature = "serde", serde(with = "crate::seconds"))]
    pub started: Duration,
    /// When it ended, likewise.
    #[cfg_attr(feature = "serde", serde(with = "crate::seconds"))]
    pub ended: Duration,
    /// The connection it used, by a number that is unique in the process.
    pub connection: Option<u64>,
    /// What is known of it.
    pub outcome: Outcome,
    /// What was decided then.
    pub verdict: Verdict,
}

/// What an attempt was for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "snake_case"))]
pub enum Purpose {
    /// The call itself.
    #[default]
    Call,
    /// A reconciler finds out what an unknown outcome did; one page of it.
    LookUp,
    /// A reconciler asks for the answer of a request that the server still works on, by its key.
    Poll,
    /// A reconciler removes what was made twice.
    Kill,
}

/// The record of one call, shared by every layer that works on it, so that limits add and never multiply.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    pub(crate) records: SmallVec<[Record; INLINE_ATTEMPTS]>,
    pub(crate) retries: u32,
    pub(crate) connection_retries: u32,
    pub(crate) free_repeats: u32,
    pub(crate) backoffs: u32,
    pub(crate) prompt_replay_taken: bool,
    pub(crate) misdirected: bool,
    pub(crate) too_early: bool,
    pub(crate) look_ups: u32,
    /// What this call's retries cost, in tokens of the retry budget.
    pub(crate) tokens: u32,
}

/// A [`Ledger`] that nothing is added to any more, for those who keep it: that of a call whose first attempt was
/// answered is small and needs no allocation.
#[derive(Clone, Debug)]
pub struct ClosedLedger(Closed);

#[derive(Clone, Debug)]
enum Closed {
    /// One attempt, answered in full and with no hint.
    Answered {
        started: Duration,
        ended: Duration,
        connection: Option<u64>,
        status: u16,
        reason: ReturnReason,
    },
    Whole(Box<Ledger>),
}

impl ClosedLedger {
    /// The ledger as it was, to go on with.
    pub fn reopen(&self) -> Ledger {
        match &self.0 {
            Closed::Whole(ledger) => Ledger::clone(ledger),
            &Closed::Answered { started, ended, connection, status, reason } => {
                let outcome = Outcome::Responded(Response::new(status));
                let verdict = Verdict::Return(Return { reason, retry_after: None });
                let mut ledger = Ledger::new();
                ledger.records.push(Record { purpose: Purpose::Call, started, ended, connection, outcome, verdict });
                ledger
            }
        }
    }
}

impl Record {
    pub(crate) fn new(purpose: Purpose, attempt: &Attempt, ended: Duration, verdict: Verdict) -> Self {
        let Attempt { started, connection, outcome, .. } = *attempt;
        Self { purpose, started, ended, connection, outcome, verdict }
    }
}

impl Ledger {
    /// An empty one.
    pub fn new() -> Self {
        Self::default()
    }

    /// The attempts that ended, oldest first.
    pub fn attempts(&self) -> &[Record] {
        &self.records
    }

    /// The same without room for more.
    pub fn close(&self) -> ClosedLedger {
        ClosedLedger(self.answered_at_once().unwrap_or_else(|| Closed::Whole(Box::new(self.clone()))))
    }

    /// Each part is named here, so that none can be forgotten.
    fn answered_at_once(&self) -> Option<Closed> {
        let Self {
            records,
            retries: 0,
            connection_retries: 0,
            free_repeats: 0,
            backoffs: 0,
            prompt_replay_taken: false,
            misdirected: false,
            too_early: false,
            look_ups: 0,
            tokens: 0,
        } = self
        else {
            return None;
        };
        let [Record { purpose: Purpose::Call, started, ended, connection, outcome, verdict }] = records.as_slice()
        else {
            return None;
        };
        let Outcome::Responded(Response {
            status,
            retry_after: None,
            should_retry: None,
            body: ResponseBody::Complete,
            edge: None,
            paced: false,
        }) = *outcome
        else {
            return None;
        };
        let Verdict::Return(Return { reason, retry_after: None }) = *verdict else { return None };
        Some(Closed::Answered { started: *started, ended: *ended, connection: *connection, status, reason })
    }

    /// Charges one single attempt of a reconciler: a look-up with all its pages, a kill, a poll.
    ///
    /// # Errors
    /// When it must not begin: the call's deadline has passed, or `lookups` are used up.
    pub fn start_look_up(&mut self, policy: &Policy, facts: &CallFacts, now: Duration) -> Result<(), ReturnReason> {
        if facts.deadline.is_some_and(|deadline| now >= deadline) {
            return Err(ReturnReason::DeadlinePassed);
        }
        if self.look_ups >= policy.lookups {
            return Err(ReturnReason::LookUpsUsed);
        }
        self.look_ups += 1;
        Ok(())
    }

    /// How many single attempts of a reconciler were charged to `lookups`.
    pub fn look_ups_used(&self) -> u32 {
        self.look_ups
    }

    /// Whether any attempt of the call itself may have been processed: sent, and not provably refused.
    pub fn may_have_been_processed(&self) -> bool {
        self.records.iter().any(|record| record.purpose == Purpose::Call && record.outcome.may_have_been_processed())
    }

    /// How many repeats were charged to `retries`.
    pub fn retries_used(&self) -> u32 {
        self.retries
    }

    /// How many repeats were charged to `connection_retries`.
    pub fn connection_retries_used(&self) -> u32 {
        self.connection_retries
    }

    /// Repeats that touched no socket and were not counted.
    pub fn free_repeats_used(&self) -> u32 {
        self.free_repeats
    }

    /// Backoffs taken, which the next one grows from.
    pub fn backoffs_taken(&self) -> u32 {
        self.backoffs
    }

    /// Attempts that reached the network, or were counted as if: HEADERS sent and counted failed dials. Never more
    /// than [`Policy::bound`](crate::Policy::bound).
    pub fn counted_attempts(&self) -> u32 {
        if self.records.iter().any(|record| record.purpose == Purpose::Call) {
            1 + self.retries + self.connection_retries
        } else {
            0
        }
    }
}

/// The history as people read it: one attempt a line.
impl fmt::Display for Ledger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Numbered { records: &self.records, first: 1 }.fmt(f)
    }
}

/// Attempts as people read them: one a line, with its number.
#[derive(Clone, Copy, Debug)]
pub struct Numbered<'a> {
    /// The attempts.
    pub records: &'a [Record],
    /// The number of the first of them.
    pub first: usize,
}

impl fmt::Display for Numbered<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, record) in self.records.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            write!(f, "  {}. {record}", self.first + index)?;
        }
        Ok(())
    }
}

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at {:.3} s", self.started.as_secs_f64())?;
        if let Some(connection) = self.connection {
            write!(f, " on connection {connection}")?;
        }
        match self.purpose {
            Purpose::Call => {}
            Purpose::LookUp => f.write_str(", look-up")?,
            Purpose::Poll => f.write_str(", poll")?,
            Purpose::Kill => f.write_str(", kill")?,
        }
        write!(f, ": {}", self.outcome)?;
        match self.verdict {
            Verdict::Return(_) if self.purpose != Purpose::Call => Ok(()),
            Verdict::Return(end) => write!(f, "; ended: {}", end.reason),
            Verdict::Reconcile => f.write_str("; to be reconciled"),
            Verdict::Retry(retry) => {
                write!(f, "; sent again: {}", retry.reason)?;
                match retry.wait {
                    WaitReason::None => Ok(()),
                    wait => write!(f, ", after {:.3} s ({wait})", retry.after.as_secs_f64()),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::{Cause, Response, Unknown};
    use crate::verdict::{Connection, Retry, RetryReason, Return};
    use alloc::string::ToString;

    const fn millis(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn record(purpose: Purpose, outcome: Outcome, verdict: Verdict) -> Record {
        let attempt = Attempt { started: millis(100), connection: Some(7), ..Attempt::new(outcome) };
        Record::new(purpose, &attempt, millis(250), verdict)
    }

    fn lost() -> Outcome {
        Outcome::SentUnknown(Unknown { cause: Cause::ConnectionLost, stream_id: Some(5), detail: "reset".into() })
    }

    fn ended(reason: ReturnReason) -> Verdict {
        Verdict::Return(Return { reason, retry_after: None })
    }

    #[test]
    fn a_history_reads_as_one_attempt_a_line() {
        let mut ledger = Ledger::new();
        let retry = |after, wait| {
            Verdict::Retry(Retry { after, wait, connection: Connection::Any, reason: RetryReason::Status })
        };
        let answered = |status| Outcome::Responded(Response::new(status));
        ledger.records.push(record(Purpose::Call, answered(503), retry(millis(75), WaitReason::Backoff)));
        ledger.records.push(record(Purpose::Call, answered(503), retry(Duration::ZERO, WaitReason::None)));
        ledger.records.push(record(Purpose::Call, lost(), Verdict::Reconcile));
        ledger.records.push(record(Purpose::LookUp, answered(200), ended(ReturnReason::Success)));
        ledger.records.push(record(Purpose::Poll, answered(409), ended(ReturnReason::SingleAttempt)));
        ledger.records.push(record(Purpose::Kill, answered(404), ended(ReturnReason::SingleAttempt)));
        let mut no_connection = record(Purpose::Call, answered(404), ended(ReturnReason::StatusFinal));
        no_connection.connection = None;
        ledger.records.push(no_connection);
        assert_eq!(
            ledger.to_string(),
            "  1. at 0.100 s on connection 7: answered 503; sent again: this status is retried, after 0.075 s (backoff)
  2. at 0.100 s on connection 7: answered 503; sent again: this status is retried
  3. at 0.100 s on connection 7: sent, outcome unknown: connection lost on stream 5: reset; to be reconciled
  4. at 0.100 s on connection 7, look-up: answered 200
  5. at 0.100 s on connection 7, poll: answered 409
  6. at 0.100 s on connection 7, kill: answered 404
  7. at 0.100 s: answered 404; ended: this status is final"
        );
    }

    #[test]
    fn only_attempts_of_the_call_itself_may_have_been_processed() {
        let mut ledger = Ledger::new();
        ledger.records.push(record(Purpose::LookUp, lost(), ended(ReturnReason::SingleAttempt)));
        assert!(!ledger.may_have_been_processed());
        let refused = Outcome::after_reset(1, 7, false);
        ledger.records.push(record(Purpose::Call, refused, ended(ReturnReason::ConnectionRetriesUsed)));
        assert!(!ledger.may_have_been_processed());
        ledger.records.push(record(Purpose::Call, lost(), ended(ReturnReason::NoPermit)));
        assert!(ledger.may_have_been_processed());
    }

    #[test]
    fn a_closed_ledger_can_be_gone_on_with() {
        let one = |record| Ledger { records: SmallVec::from_slice(&[record]), ..Ledger::new() };
        let answered = |response| record(Purpose::Call, Outcome::Responded(response), ended(ReturnReason::Success));
        let plain = answered(Response::new(200));
        let hint = Return { reason: ReturnReason::StatusFinal, retry_after: Some(millis(1)) };
        let broken = ResponseBody::Broken;
        let counted = Ledger { retries: 1, connection_retries: 2, free_repeats: 3, backoffs: 4, ..one(plain) };
        let all = [
            Ledger::new(),
            one(plain),
            one(record(Purpose::LookUp, plain.outcome, plain.verdict)),
            one(record(Purpose::Call, lost(), ended(ReturnReason::NoPermit))),
            one(answered(Response { retry_after: Some(millis(2)), ..Response::new(429) })),
            one(answered(Response { should_retry: Some(false), ..Response::new(503) })),
            one(answered(Response { body: broken, ..Response::new(200) })),
            one(answered(Response { paced: true, ..Response::new(429) })),
            one(record(Purpose::Call, plain.outcome, Verdict::Return(hint))),
            Ledger { tokens: 6, ..one(plain) },
            Ledger { prompt_replay_taken: true, misdirected: true, too_early: true, look_ups: 5, ..counted },
            Ledger { records: SmallVec::from_slice(&[plain, plain]), ..Ledger::new() },
        ];
        for ledger in all {
            assert_eq!(std::format!("{:?}", ledger.close().reopen()), std::format!("{ledger:?}"));
        }
        assert!(matches!(one(plain).close().0, Closed::Answered { .. }));
    }

    #[test]
    fn counted_attempts_are_the_first_and_the_charged_repeats() {
        let mut ledger = Ledger { retries: 2, connection_retries: 1, free_repeats: 5, ..Ledger::new() };
        assert_eq!(ledger.counted_attempts(), 0);
        ledger.records.push(record(Purpose::LookUp, lost(), ended(ReturnReason::SingleAttempt)));
        assert_eq!(ledger.counted_attempts(), 0);
        ledger.records.push(record(Purpose::Call, lost(), ended(ReturnReason::NoPermit)));
        assert_eq!(ledger.counted_attempts(), 4);
    }
}
