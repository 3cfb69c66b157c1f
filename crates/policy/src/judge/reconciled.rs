//! What a reconciler does under the call's ledger: single attempts of its own, and sending again what was not done.

use core::time::Duration;

use super::{Counter, Judge, Proposal, Wait, is_success, refund};
use crate::budget::{COST_STATUS, Tokens};
use crate::facts::CallFacts;
use crate::ledger::{Attempt, Ledger, Purpose, Record};
use crate::outcome::Outcome;
use crate::policy::Policy;
use crate::trace::DecidedBy;
use crate::verdict::{Connection, RetryReason, Return, ReturnReason, Verdict};

/// Decides whether a call that was to be reconciled may be sent again, because the reconciler found that it was not
/// done or because the same key makes a repeat harmless. Rules 7 to 11 apply: it counts towards `retries`, waits as
/// after any retry (what is left of the server's wait, else backoff), and costs as much as a retry after a status.
///
/// The decision replaces the verdict of the attempt that was to be reconciled, so that the history tells one story.
///
/// ```
/// use std::time::Duration;
/// use oncebox_policy::*;
///
/// let facts = CallFacts { mints: true, reconciles: true, ..CallFacts::default() };
/// let (policy, mut ledger) = (Policy::default(), Ledger::new());
/// let attempt = Attempt::new(Outcome::Responded(Response::new(504)));
/// let now = Duration::from_secs(1);
/// assert_eq!(judge(&policy, &facts, &mut ledger, None, &attempt, now, 0.5), Verdict::Reconcile);
/// // ... the look-ups say that it was not done ...
/// let verdict = judge_reconciled(&policy, &facts, &mut ledger, None, Duration::from_secs(12), 0.5);
/// assert!(matches!(verdict, Verdict::Retry(Retry { reason: RetryReason::Reconciled, .. })));
/// ```
pub fn judge_reconciled(
    policy: &Policy,
    facts: &CallFacts,
    ledger: &mut Ledger,
    tokens: Option<Tokens<'_>>,
    now: Duration,
    random: f64,
) -> Verdict {
    let last = ledger.records.iter().rposition(|record| record.purpose == Purpose::Call);
    let record = last.and_then(|index| ledger.records.get(index));
    let outcome = record.map_or(Outcome::Cancelled { sent: false }, |record| record.outcome);
    let hint = record.and_then(|record| {
        let asked = record.outcome.retry_after()?;
        Some(asked.saturating_sub(now.saturating_sub(record.ended)))
    });
    let mut judge =
        Judge { policy, facts, ledger, tokens, outcome: &outcome, hint, now, random, trace: &mut DecidedBy::default() };
    let proposal = Proposal {
        reason: RetryReason::Reconciled,
        counter: Counter::Retries,
        connection: Connection::Any,
        cost: COST_STATUS,
        wait: Wait::Backoff,
    };
    let decided = match facts.deadline {
        Some(deadline) if now >= deadline => Err(ReturnReason::DeadlinePassed),
        _ => judge.limit(&proposal),
    };
    let verdict = match decided {
        Ok(retry) => Verdict::Retry(retry),
        Err(reason) => Verdict::Return(Return { reason, retry_after: hint }),
    };
    if let Some(record) = last.and_then(|index| ledger.records.get_mut(index)) {
        record.verdict = verdict;
    }
    verdict
}

/// Writes a reconciler's own attempt into the call's ledger: a look-up (each of its pages), a kill, a poll. Such an
/// attempt is never repeated, and spends nothing but what [`Ledger::start_look_up`] charged before it.
pub fn judge_look_up(
    facts: &CallFacts,
    ledger: &mut Ledger,
    purpose: Purpose,
    attempt: &Attempt,
    now: Duration,
) -> Verdict {
    let reason = match attempt.outcome {
        Outcome::Cancelled { .. } => ReturnReason::Cancelled,
        Outcome::TimedOut { .. } => ReturnReason::DeadlinePassed,
        ref outcome if is_success(outcome) => ReturnReason::Success,
        _ if facts.deadline.is_some_and(|deadline| now >= deadline) => ReturnReason::DeadlinePassed,
        _ => ReturnReason::SingleAttempt,
    };
    let verdict = Verdict::Return(Return { reason, retry_after: attempt.outcome.retry_after() });
    ledger.records.push(Record::new(purpose, attempt, now, verdict));
    verdict
}

/// Tells the budget of a call that a reconciler brought to a good end without another answer of its own, by adopting
/// what an unknown attempt made: a success gives back what its call's retries cost, and a little more.
pub fn judge_adopted(policy: &Policy, ledger: &mut Ledger, tokens: Option<Tokens<'_>>, now: Duration) {
    refund(policy, ledger, tokens, now);
}
