//! The decision.

use core::time::Duration;

use crate::backoff::{backoff, dial_backoff, unit};
use crate::budget::{COST_STATUS, COST_UNKNOWN, SUCCESS_REFUND, Tokens};
use crate::facts::{CallFacts, Permit, RequestBody};
use crate::ledger::{Attempt, Ledger, Purpose, Record};
use crate::outcome::{Edge, NotSent, Outcome, Refusal, Response, ResponseBody};
use crate::policy::{FREE_REPEATS, Policy, RETRY_WINDOW_WITHOUT_DEADLINE, RepeatUnknown};
use crate::trace::{NoTrace, Rule, Trace};
use crate::verdict::{Connection, Retry, RetryReason, Return, ReturnReason, Verdict, WaitReason};

/// Decides what happens after an attempt, and writes the attempt with the decision into the ledger.
///
/// `now` counts from the call's begin, `random` is in [0, 1). The same arguments always give the same verdict.
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
    judge_traced(policy, facts, ledger, tokens, attempt, now, random, &mut NoTrace)
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
    let mut judge = Judge { policy, facts, ledger, tokens, attempt, now, random, trace };
    let verdict = match judge.decide() {
        Ok(verdict) => verdict,
        Err(reason) => Verdict::Return(Return { reason, retry_after: retry_after(&attempt.outcome) }),
    };
    if let Verdict::Return(Return { reason: ReturnReason::Success, .. }) = verdict {
        judge.refund();
    }
    ledger.records.push(Record {
        purpose: Purpose::Call,
        started: attempt.started,
        ended: now,
        connection: attempt.connection,
        outcome: attempt.outcome,
        verdict,
    });
    verdict
}

struct Judge<'a, T> {
    policy: &'a Policy,
    facts: &'a CallFacts,
    ledger: &'a mut Ledger,
    tokens: Option<Tokens<'a>>,
    attempt: &'a Attempt,
    now: Duration,
    random: f64,
    trace: &'a mut T,
}

/// What steps 1 to 6 propose.
struct Proposal {
    reason: RetryReason,
    counter: Counter,
    connection: Connection,
    cost: u32,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Counter {
    Retries,
    ConnectionRetries,
    Free,
}

impl<T: Trace> Judge<'_, T> {
    fn decide(&mut self) -> Result<Verdict, ReturnReason> {
        self.check(
            Rule::CallEnded,
            match self.attempt.outcome {
                Outcome::Cancelled { .. } => Some(ReturnReason::Cancelled),
                Outcome::TimedOut { .. } => Some(ReturnReason::DeadlinePassed),
                _ if self.facts.deadline.is_some_and(|deadline| self.now >= deadline) && !self.is_success() => {
                    Some(ReturnReason::DeadlinePassed)
                }
                _ => None,
            },
        )?;
        let Some(proposal) = self.propose()? else {
            return Ok(Verdict::Reconcile);
        };

        let is_replay = proposal.reason.is_replay();
        self.check(
            Rule::StreamedBody,
            (self.facts.body.is_stream() && !is_replay).then_some(ReturnReason::StreamedBody),
        )?;
        self.check(
            Rule::Counter,
            match proposal.counter {
                Counter::Retries if self.ledger.retries >= self.policy.retries => Some(ReturnReason::RetriesUsed),
                Counter::ConnectionRetries if self.ledger.connection_retries >= self.policy.connection_retries => {
                    Some(ReturnReason::ConnectionRetriesUsed)
                }
                _ => None,
            },
        )?;
        let (after, wait) = self.wait(&proposal);
        self.check(Rule::Deadline, self.too_late(after))?;
        let paid = self.pay(proposal.cost);
        self.check(Rule::Budget, (!paid).then_some(ReturnReason::BudgetEmpty))?;

        match proposal.counter {
            Counter::Retries => self.ledger.retries += 1,
            Counter::ConnectionRetries => self.ledger.connection_retries += 1,
            Counter::Free => self.ledger.free_repeats += 1,
        }
        match wait {
            WaitReason::Backoff => self.ledger.backoffs += 1,
            WaitReason::None if matches!(self.attempt.outcome, Outcome::Refused(_)) => {
                self.ledger.prompt_replay_taken = true;
            }
            _ => {}
        }
        match status(&self.attempt.outcome) {
            Some(421) => self.ledger.misdirected = true,
            Some(425) => self.ledger.too_early = true,
            _ => {}
        }
        Ok(Verdict::Retry(Retry { after, wait, connection: proposal.connection, reason: proposal.reason }))
    }

    /// Steps 2 to 6. `None` proposes to reconcile.
    fn propose(&mut self) -> Result<Option<Proposal>, ReturnReason> {
        let response = match self.attempt.outcome {
            Outcome::NotSent(not_sent) => return self.not_sent(&not_sent).map(Some),
            Outcome::Refused(refusal) => return self.refused(&refusal).map(Some),
            Outcome::Responded(response) => {
                if let Some(proposal) = self.refused_by_answer(&response)? {
                    return Ok(Some(proposal));
                }
                Some(response)
            }
            _ => None,
        };

        let asked = response.and_then(|r| self.should_retry(&r));
        self.check(Rule::ShouldRetry, (asked == Some(false)).then_some(ReturnReason::ServerForbids))?;

        let unknown = self.attempt.outcome.is_unknown(self.facts.mints);
        if unknown && self.facts.reconciles {
            self.trace.decided(Rule::Reconcile);
            return Ok(None);
        }
        self.trace.passed(Rule::Reconcile);

        let permitted = self.permit().is_some();
        let reason = match response {
            Some(response) if response.body == ResponseBody::Complete => {
                let verdict = self.status(&response, asked == Some(true), permitted);
                self.check(Rule::Status, verdict.err())?;
                if asked == Some(true) { RetryReason::ServerAsks } else { RetryReason::Status }
            }
            _ => {
                self.check(Rule::UnknownOutcome, (!permitted).then_some(ReturnReason::NoPermit))?;
                RetryReason::Permitted
            }
        };
        Ok(Some(Proposal {
            reason,
            counter: Counter::Retries,
            connection: Connection::Any,
            cost: if unknown { COST_UNKNOWN } else { COST_STATUS },
        }))
    }

    fn not_sent(&mut self, not_sent: &NotSent) -> Result<Proposal, ReturnReason> {
        self.check(Rule::Unprocessed, self.body_is_gone())?;
        let free = !not_sent.touched_socket && self.ledger.free_repeats < FREE_REPEATS;
        Ok(Proposal {
            reason: RetryReason::NotSent,
            counter: if free { Counter::Free } else { Counter::ConnectionRetries },
            connection: Connection::Any,
            cost: 0,
        })
    }

    fn refused(&mut self, _: &Refusal) -> Result<Proposal, ReturnReason> {
        self.check(Rule::Unprocessed, self.body_is_gone())?;
        Ok(Proposal {
            reason: RetryReason::Refused,
            counter: Counter::ConnectionRetries,
            connection: Connection::PreferOther,
            cost: 0,
        })
    }

    /// Answers that say the request was not processed: 421, 425, and what the edge did not deliver.
    fn refused_by_answer(&mut self, response: &Response) -> Result<Option<Proposal>, ReturnReason> {
        if response.body == ResponseBody::Broken {
            return Ok(None);
        }
        if response.edge == Some(Edge::NotRunning) {
            return Err(self.decided(Rule::Unprocessed, ReturnReason::SandboxNotRunning));
        }
        let not_delivered = response.edge == Some(Edge::NotDelivered);
        let used = match response.status {
            421 if self.policy.replay_misdirected_and_early => self.ledger.misdirected,
            425 if self.policy.replay_misdirected_and_early => self.ledger.too_early,
            _ if not_delivered => false,
            _ => return Ok(None),
        };
        let forbidden = self.should_retry(response) == Some(false);
        self.check(
            Rule::Unprocessed,
            if forbidden {
                Some(ReturnReason::ServerForbids)
            } else if used {
                Some(ReturnReason::RefusedAgain)
            } else {
                self.body_is_gone()
            },
        )?;
        Ok(Some(Proposal {
            reason: if not_delivered { RetryReason::NotDelivered } else { RetryReason::Refused },
            counter: Counter::ConnectionRetries,
            connection: if response.status == 421 { Connection::Fresh } else { Connection::Any },
            cost: 0,
        }))
    }

    fn status(&self, response: &Response, asked: bool, permitted: bool) -> Result<(), ReturnReason> {
        let with_permit = if permitted { Ok(()) } else { Err(ReturnReason::NoPermit) };
        match response.status {
            0..400 => Err(ReturnReason::Success),
            503 if self.policy.trust_service_unavailable => Ok(()),
            503 => with_permit,
            502 if self.policy.trust_bad_gateway => Ok(()),
            502 => with_permit,
            429 if asked || response.retry_after.is_some() || self.policy.retry_rate_limit_without_hint => Ok(()),
            429 => Err(ReturnReason::NoRetryAfter),
            408 if asked || self.policy.retry_request_timeout_status => with_permit,
            504 if asked || self.policy.retry_gateway_timeout => with_permit,
            500 if asked && self.facts.mints => with_permit,
            _ if asked => Ok(()),
            _ => Err(ReturnReason::StatusFinal),
        }
    }

    /// Step 3 reads the header on error statuses only.
    fn should_retry(&self, response: &Response) -> Option<bool> {
        response.should_retry.filter(|_| self.policy.honor_should_retry && response.status >= 400)
    }

    fn permit(&self) -> Option<Permit> {
        self.facts.permit.filter(|permit| match self.policy.repeat_unknown {
            RepeatUnknown::Never => false,
            RepeatUnknown::Safe => *permit == Permit::SafeMethod,
            RepeatUnknown::Permitted => true,
        })
    }

    fn body_is_gone(&self) -> Option<ReturnReason> {
        match self.facts.body {
            RequestBody::StreamConsumed { read, limit } => Some(ReturnReason::BodyNotReplayable { read, limit }),
            _ => None,
        }
    }

    fn wait(&self, proposal: &Proposal) -> (Duration, WaitReason) {
        if let Some(wait) = retry_after(&self.attempt.outcome) {
            let jitter = unit(self.policy.retry_after_jitter) * unit(self.random);
            return (wait.saturating_add(wait.mul_f64(jitter)), WaitReason::RetryAfter);
        }
        let none = (Duration::ZERO, WaitReason::None);
        match self.attempt.outcome {
            Outcome::NotSent(not_sent) if not_sent.phase.is_dial() => {
                (dial_backoff(self.attempt.failed_dials, self.random), WaitReason::DialBackoff)
            }
            Outcome::NotSent(_) if proposal.counter == Counter::Free => none,
            Outcome::Refused(_) if self.attempt.other_connection && !self.ledger.prompt_replay_taken => none,
            _ => (backoff(self.ledger.backoffs, self.random), WaitReason::Backoff),
        }
    }

    fn too_late(&self, after: Duration) -> Option<ReturnReason> {
        let start = self.now.saturating_add(after);
        match self.facts.deadline {
            Some(deadline) => (start >= deadline).then_some(ReturnReason::DeadlineTooClose),
            None => (start >= RETRY_WINDOW_WITHOUT_DEADLINE).then_some(ReturnReason::RetryWindowOver),
        }
    }

    fn pay(&mut self, cost: u32) -> bool {
        let Some(tokens) = self.tokens.filter(|_| self.policy.retry_budget && cost > 0) else {
            return true;
        };
        let paid = tokens.budget.take(cost, tokens.call_started.saturating_add(self.now));
        if paid {
            self.ledger.tokens += cost;
        }
        paid
    }

    fn refund(&mut self) {
        if let Some(tokens) = self.tokens.filter(|_| self.policy.retry_budget) {
            let refund = self.ledger.tokens + SUCCESS_REFUND;
            self.ledger.tokens = 0;
            tokens.budget.refund(refund, tokens.call_started.saturating_add(self.now));
        }
    }

    fn is_success(&self) -> bool {
        matches!(
            self.attempt.outcome,
            Outcome::Responded(Response { status: 0..400, body: ResponseBody::Complete, .. })
        )
    }

    fn check(&mut self, rule: Rule, verdict: Option<ReturnReason>) -> Result<(), ReturnReason> {
        match verdict {
            Some(reason) => Err(self.decided(rule, reason)),
            None => {
                self.trace.passed(rule);
                Ok(())
            }
        }
    }

    fn decided(&mut self, rule: Rule, reason: ReturnReason) -> ReturnReason {
        self.trace.decided(rule);
        reason
    }
}

fn status(outcome: &Outcome) -> Option<u16> {
    outcome.status()
}

fn retry_after(outcome: &Outcome) -> Option<Duration> {
    match outcome {
        Outcome::Responded(response) => response.retry_after,
        _ => None,
    }
}
