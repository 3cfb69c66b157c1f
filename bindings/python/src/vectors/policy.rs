//! The decision after each attempt: one call, step by step.

use std::time::Duration;

use oncebox_policy::{
    Attempt, Budget, CallFacts, Ledger, NotSent, Outcome, Policy, Purpose, RequestBody, Response, Return, Rule,
    ShortText, Tokens, Trace, Unknown, Verdict, judge_adopted, judge_look_up, judge_reconciled, judge_traced,
    retry_after, should_retry,
};
use serde_json::{Map, Value, json};

use super::read;

/// The local clock where a vector does not set it: Sun, 30 Nov 2025 00:00:00 GMT.
const CLOCK: u64 = 1_764_460_800;

/// What is decided at each step.
pub(super) fn run(vector: &Value) -> Result<Value, String> {
    let (policy, mut facts) = (policy(&vector["policy"])?, facts(&vector["call"])?);
    let clock = vector["clock"].as_u64().unwrap_or(CLOCK);
    let level = vector["budget"].as_u64().map(|level| u32::try_from(level).unwrap_or(u32::MAX));
    let budget = level.map(Budget::with_level);
    let mut ledger = Ledger::new();
    let mut all = Vec::new();
    for step in vector["steps"].as_array().into_iter().flatten() {
        let at = step["at"].as_f64().ok_or("a step has no `at`")?;
        let (now, random) = (Duration::from_secs_f64(at), step["random"].as_f64().unwrap_or(0.5));
        let tokens = budget.as_ref().map(|budget| Tokens { budget, call_started: Duration::ZERO });
        facts.body = read::<Option<RequestBody>>(&step["body"])?.unwrap_or(facts.body);
        let mut by = By(None);
        let verdict = if let Some(ended) = step.get("attempt") {
            let attempt = Attempt {
                other_connection: step["other_connection"].as_bool().unwrap_or(false),
                failed_dials: read::<Option<u32>>(&step["failed_dials"])?.unwrap_or(0),
                ..Attempt::new(outcome(ended, clock + at as u64)?)
            };
            Some(judge_traced(&policy, &facts, &mut ledger, tokens, &attempt, now, random, &mut by))
        } else if step["resend"] == true {
            Some(judge_reconciled(&policy, &facts, &mut ledger, tokens, now, random))
        } else if step["start_look_up"] == true {
            let ended = ledger.start_look_up(&policy, &facts, now).err();
            ended.map(|reason| Verdict::Return(Return { reason, retry_after: None }))
        } else if let Some(ended) = step.get("look_up") {
            let attempt = Attempt::new(outcome(ended, clock + at as u64)?);
            Some(judge_look_up(&facts, &mut ledger, Purpose::LookUp, &attempt, now))
        } else if step["adopted"] == true {
            judge_adopted(&policy, &mut ledger, tokens, now);
            None
        } else {
            return Err("a step does nothing".to_owned());
        };
        let mut told = verdict.map_or_else(|| json!({"go": true}), told);
        told["rule"] = json!(by.0);
        told["counters"] = json!({
            "retries": ledger.retries_used(),
            "connection_retries": ledger.connection_retries_used(),
            "free_repeats": ledger.free_repeats_used(),
            "backoffs": ledger.backoffs_taken(),
            "lookups": ledger.look_ups_used(),
        });
        told["tokens"] = json!(budget.as_ref().map(|budget| budget.available(now)));
        all.push(told);
    }
    Ok(Value::Array(all))
}

/// A verdict in the words of the vectors.
fn told(verdict: Verdict) -> Value {
    match verdict {
        Verdict::Return(end) => {
            // Reasons that hold more are objects of one key.
            let reason = match json!(end.reason) {
                Value::Object(reason) => reason.keys().next().cloned().unwrap_or_default(),
                reason => reason.as_str().unwrap_or_default().to_owned(),
            };
            json!({"return": reason, "retry_after": end.retry_after.map(|wait| wait.as_secs_f64())})
        }
        Verdict::Retry(retry) => json!({"retry": {
            "after_ms": retry.after.as_secs_f64() * 1000.0,
            "wait": retry.wait,
            "connection": retry.connection,
            "reason": retry.reason,
        }}),
        Verdict::Reconcile => json!({"reconcile": true}),
    }
}

fn policy(given: &Value) -> Result<Policy, String> {
    let mut fields = given.as_object().cloned().unwrap_or_default();
    let preset = match fields.remove("preset").as_ref().and_then(Value::as_str) {
        None | Some("default") => Policy::default(),
        Some("e2b_2_52") => Policy::e2b_2_52(),
        Some("e2b_2_63") => Policy::e2b_2_63(),
        Some(name) => return Err(format!("no preset {name}")),
    };
    let mut all: Map<String, Value> = read(&json!(preset))?;
    all.extend(fields);
    read(&Value::Object(all))
}

fn facts(given: &Value) -> Result<CallFacts, String> {
    let seconds = |value: &Value| value.as_f64().map(Duration::from_secs_f64);
    let own = match given.get("deadline") {
        None => Some(Duration::from_secs(60)),
        Some(deadline) => seconds(deadline),
    };
    let parent = CallFacts { deadline: seconds(&given["parent_deadline"]), ..CallFacts::default() };
    Ok(CallFacts {
        permit: read(&given["permit"])?,
        mints: given["mints"].as_bool().unwrap_or(false),
        reconciles: given["reconciles"].as_bool().unwrap_or(false),
        body: read::<Option<RequestBody>>(&given["body"])?.unwrap_or(RequestBody::None),
        deadline: parent.child_deadline(Duration::ZERO, own),
    })
}

/// What is known of an attempt that ended thus.
fn outcome(ended: &Value, now: u64) -> Result<Outcome, String> {
    let number = |value: &Value| read::<u32>(value);
    if ended.get("status").is_some() {
        let headers: Map<String, Value> = read::<Option<_>>(&ended["headers"])?.unwrap_or_default();
        let header = |name: &str| {
            let (_, value) = headers.iter().find(|(key, _)| key.eq_ignore_ascii_case(name))?;
            value.as_str().map(str::as_bytes)
        };
        return Ok(Outcome::Responded(Response {
            retry_after: header("retry-after").and_then(|value| retry_after(value, header("date"), now)),
            should_retry: header("should-retry").map(should_retry),
            body: read::<Option<_>>(&ended["body"])?.unwrap_or_default(),
            edge: read(&ended["edge"])?,
            paced: ended["paced"].as_bool().unwrap_or(false),
            ..Response::new(read(&ended["status"])?)
        }));
    }
    if let Some(phase) = ended.get("not_sent") {
        let touched_socket = ended["touched_socket"].as_bool().unwrap_or(false);
        return Ok(Outcome::NotSent(NotSent { phase: read(phase)?, touched_socket, detail: ShortText::EMPTY }));
    }
    if let Some(goaway) = ended.get("goaway") {
        let (stream, last) = (number(&goaway["stream_id"])?, number(&goaway["last_stream_id"])?);
        return Ok(Outcome::after_goaway(stream, last, number(&goaway["code"])?, b""));
    }
    if let Some(reset) = ended.get("reset") {
        let began = reset["response_began"].as_bool().unwrap_or(false);
        return Ok(Outcome::after_reset(number(&reset["stream_id"])?, number(&reset["code"])?, began));
    }
    if let Some(cause) = ended.get("sent_unknown") {
        let unknown = Unknown { cause: read(cause)?, stream_id: None, detail: ShortText::EMPTY };
        return Ok(Outcome::SentUnknown(unknown));
    }
    match (ended.get("cancelled"), ended.get("timed_out")) {
        (Some(when), None) => Ok(Outcome::Cancelled { sent: when == "after_sent" }),
        (None, Some(when)) => Ok(Outcome::TimedOut { sent: when == "after_sent" }),
        _ => Err(format!("an attempt does not end like {ended}")),
    }
}

/// The rule that a verdict comes from: the one that ended the call, else the one that proposed what happens.
struct By(Option<Rule>);

impl Trace for By {
    fn passed(&mut self, _: Rule) {}

    fn proposed(&mut self, rule: Rule) {
        self.0 = Some(rule);
    }

    fn decided(&mut self, rule: Rule) {
        self.0 = Some(rule);
    }
}
