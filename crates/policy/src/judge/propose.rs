//! Rules 2 to 6: what an outcome calls for.

use super::{Counter, Judge, Proposal, Wait};
use crate::budget::{COST_STATUS, COST_UNKNOWN};
use crate::facts::{CallFacts, Permit, RequestBody};
use crate::ledger::Attempt;
use crate::outcome::{Edge, NotSent, Outcome, Response, ResponseBody};
use crate::policy::{FREE_REPEATS, Policy, RepeatUnknown};
use crate::trace::{Rule, Trace};
use crate::verdict::{Connection, RetryReason, ReturnReason};

impl<T: Trace> Judge<'_, T> {
    /// `None` proposes to reconcile.
    pub(super) fn propose(&mut self, attempt: &Attempt) -> Result<Option<Proposal>, ReturnReason> {
        if let Some(proposal) = self.unprocessed(attempt)? {
            self.trace.proposed(Rule::Unprocessed);
            return Ok(Some(proposal));
        }
        self.trace.passed(Rule::Unprocessed);

        let response = match self.outcome {
            Outcome::Responded(response) => Some(response),
            _ => None,
        };
        let asked = response.and_then(|response| self.should_retry(response));
        self.check(Rule::ShouldRetry, (asked == Some(false)).then_some(ReturnReason::ServerForbids))?;

        let unknown = is_unknown(self.policy, self.facts, self.outcome);
        if unknown && self.facts.reconciles {
            self.trace.proposed(Rule::Reconcile);
            return Ok(None);
        }
        self.trace.passed(Rule::Reconcile);

        let asked = asked == Some(true);
        let (rule, allowed, reason) = match response.filter(|response| response.body == ResponseBody::Complete) {
            Some(response) => {
                let reason = if asked { RetryReason::ServerAsks } else { RetryReason::Status };
                (Rule::Status, self.status(response, asked, unknown), reason)
            }
            None => {
                self.trace.passed(Rule::Status);
                (Rule::UnknownOutcome, self.permitted(), RetryReason::Permitted)
            }
        };
        if let Err(reason) = allowed {
            self.trace.decided(rule);
            return Err(reason);
        }
        self.trace.proposed(rule);
        Ok(Some(Proposal {
            reason,
            counter: Counter::Retries,
            connection: if response.is_some_and(|r| r.status == 421) { Connection::Fresh } else { Connection::Any },
            cost: match response {
                _ if unknown => COST_UNKNOWN,
                Some(Response { status: 429, paced: true, .. }) => 0,
                _ => COST_STATUS,
            },
            wait: Wait::Backoff,
        }))
    }

    /// Rule 2: what was provably not processed, whether by the transport's word or by the answer's.
    fn unprocessed(&mut self, attempt: &Attempt) -> Result<Option<Proposal>, ReturnReason> {
        let proposal = match self.outcome {
            Outcome::NotSent(not_sent) => self.not_sent(not_sent, attempt.failed_dials),
            Outcome::Refused(_) => replay(
                RetryReason::Refused,
                Connection::PreferOther,
                Wait::PromptOnce { other_connection: attempt.other_connection },
            ),
            Outcome::Responded(response) if response.body == ResponseBody::Complete => {
                match self.refused_by_answer(response, attempt.other_connection) {
                    Ok(Some(proposal)) => proposal,
                    Ok(None) => return Ok(None),
                    Err(reason) => return self.end_unprocessed(reason),
                }
            }
            _ => return Ok(None),
        };
        match self.facts.body {
            RequestBody::StreamConsumed { read, limit } => {
                self.end_unprocessed(ReturnReason::BodyNotReplayable { read, limit })
            }
            _ => Ok(Some(proposal)),
        }
    }

    fn end_unprocessed<P>(&mut self, reason: ReturnReason) -> Result<P, ReturnReason> {
        self.trace.decided(Rule::Unprocessed);
        Err(reason)
    }

    fn not_sent(&self, not_sent: &NotSent, failed_dials: u32) -> Proposal {
        let free = not_sent.is_free() && self.ledger.free_repeats < FREE_REPEATS;
        Proposal {
            counter: if free { Counter::Free } else { Counter::ConnectionRetries },
            ..replay(
                RetryReason::NotSent,
                Connection::Any,
                if free {
                    Wait::None
                } else if not_sent.phase.is_dial() || failed_dials > 0 {
                    // A connection that ended before it served anything counts as a failed dial, too.
                    Wait::Dial { failed: failed_dials }
                } else {
                    Wait::Backoff
                },
            )
        }
    }

    /// Answers that say the request was not processed: 421, 425, and what the sandbox edge did not deliver.
    fn refused_by_answer(&self, response: &Response, other_connection: bool) -> Result<Option<Proposal>, ReturnReason> {
        let prompt = Wait::PromptOnce { other_connection };
        let obeyed = self.policy.replay_misdirected_and_early;
        let (used, proposal) = match (response.edge, response.status) {
            (Some(Edge::NotRunning), _) => return Err(ReturnReason::SandboxNotRunning),
            (Some(Edge::NotDelivered), _) => {
                // Another connection leads to the same closed port: this needs time.
                (false, replay(RetryReason::NotDelivered, Connection::Any, Wait::Backoff))
            }
            (None, 421) if obeyed => (self.ledger.misdirected, replay(RetryReason::Refused, Connection::Fresh, prompt)),
            (None, 425) if obeyed => (self.ledger.too_early, replay(RetryReason::Refused, Connection::Any, prompt)),
            _ => return Ok(None),
        };
        match self.should_retry(response) {
            Some(false) => Err(ReturnReason::ServerForbids),
            _ if used => Err(ReturnReason::RefusedAgain),
            _ => Ok(Some(proposal)),
        }
    }

    /// Rule 5.
    fn status(&self, response: &Response, asked: bool, unknown: bool) -> Result<(), ReturnReason> {
        let policy = self.policy;
        match response.status {
            0..400 => return Err(ReturnReason::Success),
            _ if asked => {}
            502 | 503 => {}
            429 if response.retry_after.is_some() || policy.retry_rate_limit_without_hint => {}
            429 => return Err(ReturnReason::NoRetryAfter),
            408 if policy.retry_request_timeout_status => {}
            504 if policy.retry_gateway_timeout => {}
            _ => return Err(ReturnReason::StatusFinal),
        }
        let trusted = response.status == 502 && policy.trust_bad_gateway;
        if unknown && !trusted { self.permitted() } else { Ok(()) }
    }

    /// Rule 3 reads the header on error statuses only.
    fn should_retry(&self, response: &Response) -> Option<bool> {
        response.should_retry.filter(|_| self.policy.honor_should_retry && response.status >= 400)
    }

    fn permitted(&self) -> Result<(), ReturnReason> {
        permit(self.policy, self.facts).map(|_| ()).ok_or(ReturnReason::NoPermit)
    }
}

fn replay(reason: RetryReason, connection: Connection, wait: Wait) -> Proposal {
    Proposal { reason, counter: Counter::ConnectionRetries, connection, cost: 0, wait }
}

/// The call's permit, as far as `repeat_unknown` recognises it.
pub(crate) fn permit(policy: &Policy, facts: &CallFacts) -> Option<Permit> {
    facts.permit.filter(|permit| match policy.repeat_unknown {
        RepeatUnknown::Never => false,
        RepeatUnknown::Safe => *permit == Permit::SafeMethod,
        RepeatUnknown::Permitted => true,
    })
}

/// Whether nobody knows if the request was processed. A 503 that is not trusted proves as little as a 502; trusting a
/// 502 decides about repeating it, but does not make it known.
pub(crate) fn is_unknown(policy: &Policy, facts: &CallFacts, outcome: &Outcome) -> bool {
    let untrusted = !policy.trust_service_unavailable && outcome.status() == Some(503);
    untrusted || outcome.is_unknown(facts.mints)
}
