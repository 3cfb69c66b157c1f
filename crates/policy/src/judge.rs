//! The decision.

mod limits;
mod propose;
mod reconciled;

use core::time::Duration;

use crate::budget::Tokens;
use crate::facts::CallFacts;
use crate::ledger::{Attempt, Ledger, Purpose, Record};
use crate::outcome::{Outcome, Response, ResponseBody};
use crate::policy::Policy;
use crate::trace::{DecidedBy, Rule, Trace};
use crate::verdict::{Connection, Retry, RetryReason, Return, ReturnReason, Verdict};

use limits::refund;
pub(crate) use propose::{is_unknown, permit};
pub use reconciled::{judge_adopted, judge_look_up, judge_reconciled};

/// Decides what happens after an attempt, and writes the attempt with the decision into the ledger.
///
/// `now` counts from the call's begin, `random` is in [0, 1). The same arguments always give the same verdict.
///
/// An abort during a wait is judged too, as an attempt that ended with `Cancelled { sent: false }`, so that the history
/// says how the call ended.
///
/// ```
/// use std::time::Duration;
/// use oncebox_policy::{judge, Attempt, CallFacts, Ledger, Outcome, Policy, Response, Verdict};
///
/// let mut ledger = Ledger::new();
/// let busy = Attempt::new(Outcome::Responded(Response::new(503)));
/// let facts = CallFacts { deadline: Some(Duration::from_secs(60)), ..CallFacts::default() };
/// let verdict = judge(&Policy::default(), &facts, &mut ledger, None, &busy, Duration::ZERO, 0.0);
/// let Verdict::Retry(retry) = verdict else { panic!() };
/// assert_eq!(retry.after, Duration::from_millis(50));
/// assert_eq!(ledger.retries_used(), 1);
/// ```
pub fn judge(
    policy: &Policy,
    facts: &CallFacts,
    ledger: &mut Ledger,
    tokens: Option<Tokens<'_>>,
    attempt: &Attempt,
    now: Duration,
    random: f64,
) -> Verdict {
    // Not a trace of its own kind, so that there is one decision in the machine code.
    judge_traced(policy, facts, ledger, tokens, attempt, now, random, &mut DecidedBy::default())
}

/// Like [`judge`], and reports each rule that it passed.
#[allow(clippy::too_many_arguments)] // The decision has these inputs and no state of its own.
pub fn judge_traced(
    policy: &Policy,
    facts: &CallFacts,
    ledger: &mut Ledger,
    tokens: Option<Tokens<'_>>,
    attempt: &Attempt,
    now: Duration,
    random: f64,
    trace: &mut impl Trace,
) -> Verdict {
    let outcome = &attempt.outcome;
    let hint = outcome.retry_after();
    let mut judge = Judge { policy, facts, ledger, tokens, outcome, hint, now, random, trace };
    let verdict = match judge.decide(attempt) {
        Ok(verdict) => verdict,
        Err(reason) => Verdict::Return(Return { reason, retry_after: hint }),
    };
    if let Verdict::Return(Return { reason: ReturnReason::Success, .. }) = verdict {
        refund(policy, ledger, tokens, now);
    }
    ledger.records.push(Record::new(Purpose::Call, attempt, now, verdict));
    verdict
}

/// One decision under way.
struct Judge<'a, T> {
    policy: &'a Policy,
    facts: &'a CallFacts,
    ledger: &'a mut Ledger,
    tokens: Option<Tokens<'a>>,
    outcome: &'a Outcome,
    /// How long the server asks to wait, from now.
    hint: Option<Duration>,
    now: Duration,
    random: f64,
    trace: &'a mut T,
}

/// What rules 1 to 6 propose: to send the request again.
struct Proposal {
    reason: RetryReason,
    counter: Counter,
    connection: Connection,
    /// In tokens of the retry budget.
    cost: u32,
    wait: Wait,
}

/// Which wait applies where the server names none.
enum Wait {
    /// No wait at all.
    None,
    /// No wait for the first refusal of a call, if another connection is at hand.
    PromptOnce {
        other_connection: bool,
    },
    Backoff,
    Dial {
        failed: u32,
    },
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Counter {
    Retries,
    ConnectionRetries,
    Free,
}

impl<T: Trace> Judge<'_, T> {
    fn decide(&mut self, attempt: &Attempt) -> Result<Verdict, ReturnReason> {
        let ended = self.call_ended();
        self.check(Rule::CallEnded, ended)?;
        match self.propose(attempt)? {
            Some(proposal) => self.limit(&proposal).map(Verdict::Retry),
            // Finding out is not sending again: no counter, wait or budget limits it here; see `judge_look_up`.
            None => Ok(Verdict::Reconcile),
        }
    }

    /// Rules 7 to 11.
    fn limit(&mut self, proposal: &Proposal) -> Result<Retry, ReturnReason> {
        let streamed = self.facts.body.is_stream() && !proposal.reason.is_replay();
        self.check(Rule::StreamedBody, streamed.then_some(ReturnReason::StreamedBody))?;
        let used_up = self.used_up(proposal.counter);
        self.check(Rule::Counter, used_up)?;
        let (after, wait) = self.wait(&proposal.wait);
        self.trace.passed(Rule::Wait);
        let too_late = self.too_late(after);
        self.check(Rule::Deadline, too_late)?;
        let paid = self.pay(proposal.cost);
        self.check(Rule::Budget, (!paid).then_some(ReturnReason::BudgetEmpty))?;

        self.charge(proposal, wait);
        Ok(Retry { after, wait, connection: proposal.connection, reason: proposal.reason })
    }

    /// Rule 1.
    fn call_ended(&self) -> Option<ReturnReason> {
        match self.outcome {
            Outcome::Cancelled { .. } => Some(ReturnReason::Cancelled),
            Outcome::TimedOut { .. } => Some(ReturnReason::DeadlinePassed),
            // An answer that came whole at the last moment is still one.
            outcome if is_success(outcome) => None,
            _ => self.facts.deadline.filter(|deadline| self.now >= *deadline).map(|_| ReturnReason::DeadlinePassed),
        }
    }

    fn check(&mut self, rule: Rule, verdict: Option<ReturnReason>) -> Result<(), ReturnReason> {
        match verdict {
            Some(reason) => {
                self.trace.decided(rule);
                Err(reason)
            }
            None => {
                self.trace.passed(rule);
                Ok(())
            }
        }
    }
}

fn is_success(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Responded(Response { status: 0..400, body: ResponseBody::Complete, .. }))
}
