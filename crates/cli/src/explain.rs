//! `oncebox explain`: what would happen after an attempt, and by which rule.

mod args;

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::Duration;

use oncebox_policy::{
    Attempt, Budget, CallFacts, DEFAULT_REQUEST_TIMEOUT, Explanation, Ledger, Outcome, Permit, Policy, RequestBody,
    Scope, Tokens, Verdict, explain, judge,
};
use oncebox_protocol::{Operation, Plane, operations};
use serde_json::{Value, json};

use crate::exit::{Failure, print};

pub(crate) use args::ExplainArgs;
use args::{Preset, outcome};

/// Explains one decision.
pub(crate) fn run(args: &ExplainArgs) -> Result<u8, Failure> {
    let Some(id) = &args.operation else { return list(args.json) };
    let operation = find(id)?;
    let case = Case::new(args, operation)?;
    let told = case.tell(args)?;
    if args.json {
        print(case.json(&told)?)?;
    } else {
        print(format!("{}\n{}", case.heading(&told), told.explanation))?;
    }
    Ok(0)
}

/// What is asked.
struct Case {
    operation: &'static Operation,
    policy: Policy,
    facts: CallFacts,
    outcome: Outcome,
}

/// The attempt that is explained: the one asked for, or an earlier one that ends the call.
struct Told {
    attempt: u32,
    asked: u32,
    elapsed: Duration,
    explanation: Explanation,
}

impl Case {
    fn new(args: &ExplainArgs, operation: &'static Operation) -> Result<Self, Failure> {
        if args.key && !operation.accepts_idempotency_key {
            return Err(Failure::usage(format!("--key: {} takes no idempotency key", operation.id)));
        }
        let preset = match args.preset {
            Preset::Default => Policy::default(),
            Preset::E2b2_52 => Policy::e2b_2_52(),
            Preset::E2b2_63 => Policy::e2b_2_63(),
        };
        let scope = match operation.plane {
            Plane::ControlPlane => Scope::ControlPlane,
            _ => Scope::Sandbox,
        };
        let policy = Policy {
            retries: scope.retries(args.retries, preset.retries),
            connection_retries: args.connection_retries.unwrap_or(preset.connection_retries),
            ..preset
        };
        let deadline = args.request_timeout.map_or(Some(DEFAULT_REQUEST_TIMEOUT), |limit| limit.0);
        let facts = CallFacts {
            permit: operation.permit().or(args.key.then_some(Permit::IdempotencyKey)),
            mints: operation.mints,
            // With a key goes an intent by which the effect can be found.
            reconciles: args.key && operation.mints,
            body: match operation.method.as_str() {
                _ if args.streamed => RequestBody::StreamMirrored,
                "GET" | "HEAD" => RequestBody::None,
                _ => RequestBody::Bytes,
            },
            // How long a streamed body takes is its sender's matter.
            deadline: deadline.filter(|_| !args.streamed),
        };
        Ok(Self { operation, policy, facts, outcome: outcome(args)? })
    }

    /// Plays the attempts before, then explains the one that is asked for.
    fn tell(&self, args: &ExplainArgs) -> Result<Told, Failure> {
        let random = if args.random { draw() } else { 0.5 };
        let budget = Budget::new();
        let tokens = Some(Tokens { budget: &budget, call_started: Duration::ZERO });
        let mut ledger = Ledger::new();
        let mut now = Duration::ZERO;
        for number in 1..=args.attempt {
            let last = number == args.attempt;
            let elapsed = args.elapsed.map_or(now, |given| if last { given } else { now.min(given) });
            let attempt = Attempt { failed_dials: number, ..Attempt::new(self.outcome) };
            let explanation = explain(&self.policy, &self.facts, &ledger, tokens, &attempt, elapsed, random);
            let Verdict::Retry(retry) = explanation.verdict else {
                return Ok(Told { attempt: number, asked: args.attempt, elapsed, explanation });
            };
            if last {
                return Ok(Told { attempt: number, asked: number, elapsed, explanation });
            }
            judge(&self.policy, &self.facts, &mut ledger, tokens, &attempt, elapsed, random);
            now = elapsed.saturating_add(retry.after);
        }
        Err(Failure::usage("--attempt: there is no attempt 0"))
    }

    fn heading(&self, told: &Told) -> String {
        let Operation { id, method, path, .. } = self.operation;
        let mut text = format!("{id} ({method} {path}), attempt {}", told.attempt);
        if told.attempt < told.asked {
            text.push_str(&format!(": the call ends here, and there is no attempt {}", told.asked));
        }
        match self.operation.repeat.reason() {
            Some(reason) => format!("{text}\n{reason}\n"),
            None => format!("{text}\n"),
        }
    }

    fn json(&self, told: &Told) -> Result<Value, Failure> {
        let broken = |error: serde_json::Error| Failure::infrastructure(error);
        let steps: Vec<Value> = told
            .explanation
            .steps
            .iter()
            .map(
                |step| json!({"number": step.rule.number(), "rule": step.rule, "effect": step.effect, "why": step.why}),
            )
            .collect();
        Ok(json!({
            "operation": {
                "id": self.operation.id,
                "method": self.operation.method.as_str(),
                "path": self.operation.path,
                "repeat_reason": self.operation.repeat.reason(),
            },
            "policy": serde_json::to_value(&self.policy).map_err(broken)?,
            "call": serde_json::to_value(self.facts).map_err(broken)?,
            "attempt": told.attempt,
            "elapsed": told.elapsed.as_secs_f64(),
            "outcome": serde_json::to_value(told.explanation.outcome).map_err(broken)?,
            "decided_by": told.explanation.decided_by(),
            "steps": steps,
            "verdict": serde_json::to_value(told.explanation.verdict).map_err(broken)?,
        }))
    }
}

fn find(id: &str) -> Result<&'static Operation, Failure> {
    if let Some(operation) = operations::ALL.iter().find(|operation| operation.id.eq_ignore_ascii_case(id)) {
        return Ok(operation);
    }
    let near = near(id);
    let hint = if near.is_empty() { String::new() } else { format!(", is one of these meant: {}?", near.join(", ")) };
    Err(Failure::usage(format!(
        "--operation {id:?}: there is no such operation{hint}; `oncebox explain --list` tells all there are"
    )))
}

/// Those that hold what was typed, or else those that differ least from it.
fn near(id: &str) -> Vec<&'static str> {
    let wanted = id.to_ascii_lowercase();
    let all = operations::ALL.iter().map(|operation| (&*operation.id, operation.id.to_ascii_lowercase()));
    let holding: Vec<_> = all.clone().filter(|(_, known)| known.contains(&wanted)).map(|(id, _)| id).collect();
    if !wanted.is_empty() && !holding.is_empty() {
        return holding;
    }
    let mut by_distance: Vec<_> = all.map(|(id, known)| (distance(&wanted, &known), id)).collect();
    by_distance.sort();
    let Some(&(least, _)) = by_distance.first() else { return Vec::new() };
    // So that at least every second letter is right.
    let nearest = by_distance.into_iter().filter(|(distance, id)| *distance == least && distance * 2 <= id.len());
    nearest.map(|(_, id)| id).take(3).collect()
}

/// How many letters must be put in, left out or changed to make one text of the other (Levenshtein).
fn distance(one: &str, other: &str) -> usize {
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (i, a) in one.bytes().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, b) in other.bytes().enumerate() {
            let changed = diagonal + usize::from(a != b);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row.last().copied().unwrap_or_default()
}

fn list(as_json: bool) -> Result<u8, Failure> {
    if as_json {
        let all = operations::ALL.iter().map(|operation| {
            json!({"id": operation.id, "method": operation.method.as_str(), "path": operation.path, "mints": operation.mints})
        });
        print(json!(all.collect::<Vec<_>>()))?;
        return Ok(0);
    }
    let line = |operation: &&Operation| format!("{:<32} {:<7} {}", operation.id, operation.method, operation.path);
    print(operations::ALL.iter().map(line).collect::<Vec<_>>().join("\n"))?;
    Ok(0)
}

/// A random number in [0, 1), from the seed that the standard library gives each of its hash maps.
fn draw() -> f64 {
    const BITS: u32 = 53;
    let random = RandomState::new().build_hasher().finish();
    (random >> (u64::BITS - BITS)) as f64 / (1_u64 << BITS) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use oncebox_policy::{ReturnReason, Rule};

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        args: ExplainArgs,
    }

    #[test]
    fn the_nearest_operations_are_found() {
        assert_eq!(near("craeteSandbox"), ["createSandbox"]);
        assert!(near("fork").contains(&"forkSandbox"));
        assert_eq!((near("quux"), distance("kitten", "sitting")), (Vec::new(), 3));
    }

    fn told(line: &str) -> (Case, Told) {
        let args = Line::try_parse_from(["explain"].into_iter().chain(line.split(' '))).unwrap().args;
        let case = Case::new(&args, find(args.operation.as_deref().unwrap()).unwrap()).unwrap();
        let told = case.tell(&args).unwrap();
        (case, told)
    }

    fn reason(told: &Told) -> Option<ReturnReason> {
        match told.explanation.verdict {
            Verdict::Return(end) => Some(end.reason),
            _ => None,
        }
    }

    #[test]
    fn an_hour_is_returned_with_the_hint() {
        let (case, told) = told("--operation createSandbox --status 503 --retry-after 3600");
        assert_eq!(told.explanation.decided_by(), Rule::Deadline);
        let text = format!("{}\n{}", case.heading(&told), told.explanation);
        assert!(text.starts_with("createSandbox (POST "), "{text}");
        assert!(text.contains("ask again after 3600 s"), "{text}");
        let json = case.json(&told).unwrap();
        assert_eq!(json["verdict"]["return"]["reason"], "deadline_too_close");
        assert_eq!(json["verdict"]["return"]["retry_after"], 3600.0);
        assert_eq!(json["decided_by"], "deadline");
    }

    #[test]
    fn a_keyed_create_is_reconciled_and_another_is_returned() {
        let (_, keyed) = told("--operation createSandbox --outcome sent-unknown --key");
        assert_eq!(keyed.explanation.verdict, Verdict::Reconcile);
        let (_, bare) = told("--operation createSandbox --outcome sent-unknown");
        assert_eq!(reason(&bare), Some(ReturnReason::NoPermit));
    }

    #[test]
    fn attempts_before_count() {
        let (_, third) = told("--operation createSandbox --status 503 --attempt 3");
        assert!(third.explanation.to_string().contains("2 of 3 retries used"));
        assert_eq!(third.elapsed, Duration::from_millis(225));
        let (case, fifth) = told("--operation createSandbox --status 503 --attempt 5");
        assert_eq!((fifth.attempt, reason(&fifth)), (4, Some(ReturnReason::RetriesUsed)));
        assert!(case.heading(&fifth).contains("there is no attempt 5"));
    }

    #[test]
    fn time_presets_and_limits_count() {
        let (_, late) = told("--operation listSandboxes --outcome sent-unknown --elapsed 59.99");
        assert_eq!(reason(&late), Some(ReturnReason::DeadlineTooClose));
        let (_, ours) = told("--operation createSandbox --status 502");
        assert_eq!(reason(&ours), Some(ReturnReason::NoPermit));
        let (_, theirs) = told("--operation createSandbox --status 502 --preset e2b-2-52");
        assert!(matches!(theirs.explanation.verdict, Verdict::Retry(_)));
        let (_, none) = told("--operation createSandbox --outcome goaway --connection-retries 0");
        assert_eq!(reason(&none), Some(ReturnReason::ConnectionRetriesUsed));
    }

    #[test]
    fn wrong_use_names_the_option() {
        let failure = |line: &str| {
            let args = Line::try_parse_from(["explain"].into_iter().chain(line.split(' '))).unwrap().args;
            let failed =
                find(args.operation.as_deref().unwrap()).and_then(|operation| Case::new(&args, operation)).err();
            format!("{failed:?}")
        };
        assert!(failure("--operation forkSandbox --status 503 --key").contains("takes no idempotency key"));
        assert!(failure("--operation fork --status 503").contains("forkSandbox"));
        assert!(failure("--operation createSandbox --outcome refused --status 503").contains("--status"));
        assert!(Line::try_parse_from(["explain", "--operation", "createSandbox"]).is_err());
    }
}
