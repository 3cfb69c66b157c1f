//! Runs one vector.

use std::time::Duration;

use oncebox_policy::{
    Attempt, Budget, CallFacts, DecidedBy, Ledger, Policy, Purpose, Return, ReturnReason, Rule, Tokens, Verdict,
    explain, judge_adopted, judge_look_up, judge_reconciled, judge_traced,
};

use crate::coverage::Coverage;
use crate::schema::{Counters, Expect, Step, Vector};

/// Waits are equal when they differ by less than this many milliseconds.
const ROUNDING_MS: f64 = 0.001;

/// What is wrong, step by step.
pub(crate) fn run(vector: &Vector, coverage: &mut Coverage) -> Vec<String> {
    let mut problems = Vec::new();
    let mut call = Running::new(vector);
    for (index, step) in vector.steps.iter().enumerate() {
        let decided = call.take(step);
        coverage.note(&step.expect);
        if let Err(problem) = call.compare(step, &decided) {
            problems.push(format!("step {}: {problem}", index + 1));
        }
    }
    problems
}

struct Running<'a> {
    vector: &'a Vector,
    policy: Policy,
    facts: CallFacts,
    ledger: Ledger,
    budget: Option<Budget>,
}

/// What the engine said to a step.
#[derive(Debug)]
enum Decided {
    Verdict(Verdict, Option<Rule>),
    Go,
}

impl<'a> Running<'a> {
    fn new(vector: &'a Vector) -> Self {
        Self {
            vector,
            policy: vector.policy(),
            facts: vector.facts(),
            ledger: Ledger::new(),
            budget: vector.budget.map(Budget::with_level),
        }
    }

    fn take(&mut self, step: &Step) -> Decided {
        let now = Duration::from_secs_f64(step.at);
        let tokens = self.budget.as_ref().map(|budget| Tokens { budget, call_started: Duration::ZERO });
        self.facts.body = step.body.unwrap_or(self.facts.body);
        let (policy, facts, ledger) = (&self.policy, &self.facts, &mut self.ledger);
        let clock = self.vector.clock + step.at as u64;
        match step {
            Step {
                attempt: Some(ended), resend: false, start_look_up: false, look_up: None, adopted: false, ..
            } => {
                let attempt = Attempt {
                    other_connection: step.other_connection,
                    failed_dials: step.failed_dials,
                    ..Attempt::new(ended.outcome(clock))
                };
                let told = explain(policy, facts, ledger, tokens, &attempt, now, step.random);
                let mut by = DecidedBy::default();
                let verdict = judge_traced(policy, facts, ledger, tokens, &attempt, now, step.random, &mut by);
                assert_eq!((told.verdict, Some(told.decided_by())), (verdict, by.0), "{}:\n{told}", self.vector.name);
                assert!(told.steps.iter().all(|step| !step.why.is_empty()), "{}:\n{told}", self.vector.name);
                Decided::Verdict(verdict, by.0)
            }
            Step { attempt: None, resend: true, start_look_up: false, look_up: None, adopted: false, .. } => {
                Decided::Verdict(judge_reconciled(policy, facts, ledger, tokens, now, step.random), None)
            }
            Step { attempt: None, resend: false, start_look_up: true, look_up: None, adopted: false, .. } => {
                match ledger.start_look_up(policy, facts, now) {
                    Ok(()) => Decided::Go,
                    Err(reason) => Decided::Verdict(Verdict::Return(Return { reason, retry_after: None }), None),
                }
            }
            Step {
                attempt: None, resend: false, start_look_up: false, look_up: Some(ended), adopted: false, ..
            } => {
                let attempt = Attempt::new(ended.outcome(clock));
                Decided::Verdict(judge_look_up(facts, ledger, Purpose::LookUp, &attempt, now), None)
            }
            Step { attempt: None, resend: false, start_look_up: false, look_up: None, adopted: true, .. } => {
                judge_adopted(policy, ledger, tokens, now);
                Decided::Go
            }
            _ => panic!("{}: a step does exactly one thing", self.vector.name),
        }
    }

    fn compare(&self, step: &Step, decided: &Decided) -> Result<(), String> {
        let expect = &step.expect;
        equal(decided, expect)?;
        let ledger = &self.ledger;
        let counters = Counters {
            retries: ledger.retries_used(),
            connection_retries: ledger.connection_retries_used(),
            free_repeats: ledger.free_repeats_used(),
            backoffs: ledger.backoffs_taken(),
            lookups: ledger.look_ups_used(),
        };
        same("counters", &counters, &expect.counters)?;
        let now = Duration::from_secs_f64(step.at);
        match (expect.tokens, &self.budget) {
            (None, _) => Ok(()),
            (Some(_), None) => Err("tokens are expected, but there is no budget".to_owned()),
            (Some(tokens), Some(budget)) => same("tokens", &budget.available(now), &tokens),
        }
    }
}

fn equal(decided: &Decided, expect: &Expect) -> Result<(), String> {
    let (verdict, rule) = match (decided, expect) {
        (Decided::Go, Expect { go: true, ended: None, retry: None, reconcile: false, rule: None, .. }) => return Ok(()),
        (Decided::Go, _) => return Err("nothing stops it".to_owned()),
        (Decided::Verdict(verdict, rule), _) => (verdict, rule),
    };
    match (verdict, expect) {
        (Verdict::Return(end), Expect { ended: Some(reason), retry: None, reconcile: false, go: false, .. }) => {
            same("reason", &name(end.reason).as_str(), &reason.as_str())?;
            same("retry_after", &end.retry_after.map(|d| d.as_secs_f64()), &expect.retry_after)?;
        }
        (Verdict::Retry(retry), Expect { ended: None, retry: Some(expected), reconcile: false, go: false, .. }) => {
            same("reason", &retry.reason, &expected.reason)?;
            same("wait", &retry.wait, &expected.wait)?;
            same("connection", &retry.connection, &expected.connection)?;
            let after_ms = retry.after.as_secs_f64() * 1000.0;
            if (after_ms - expected.after_ms).abs() >= ROUNDING_MS {
                same("after_ms", &after_ms, &expected.after_ms)?;
            }
        }
        (Verdict::Reconcile, Expect { ended: None, retry: None, reconcile: true, go: false, .. }) => {}
        _ => return Err(format!("the verdict is {verdict:?}")),
    }
    same("rule", rule, &expect.rule)
}

fn same<T: PartialEq + std::fmt::Debug>(what: &str, got: &T, expected: &T) -> Result<(), String> {
    if got == expected { Ok(()) } else { Err(format!("{what} is {got:?}, not {expected:?}")) }
}

/// The reason as vectors write it.
fn name(reason: ReturnReason) -> String {
    match serde_json::to_value(reason).unwrap() {
        serde_json::Value::String(name) => name,
        other => other.as_object().unwrap().keys().next().unwrap().clone(),
    }
}
