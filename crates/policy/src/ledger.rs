//! The record of one call: what was tried, what came of it, what is left.

use core::fmt;
use core::time::Duration;

use smallvec::SmallVec;

use crate::facts::CallFacts;
use crate::outcome::Outcome;
use crate::policy::Policy;
use crate::verdict::{ReturnReason, Verdict, WaitReason};

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
        for (index, record) in self.records.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            write!(f, "  {}. ", index + 1)?;
            record.fmt(f)?;
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
