//! The create machine, step by step.

use std::time::Duration;

use oncebox_policy::create::{Call, Create};
use oncebox_policy::{BUDGET_CAPACITY, Budget, Options, Tokens, Verdict};
use serde_json::{Value, json};

use super::read;

/// Each step's action and rule, and what is known after the last one.
pub(super) fn run(vector: &Value) -> Result<Value, String> {
    let mut create = create(&vector["call"])?;
    let budget = vector["call"]["budget"].as_u64().map(|level| {
        let budget = Budget::new();
        let spent = BUDGET_CAPACITY.saturating_sub(u32::try_from(level).unwrap_or(u32::MAX));
        budget.take(spent, Duration::ZERO).then_some(budget).ok_or("the budget holds no so many tokens")
    });
    let budget = budget.transpose()?;
    let (mut steps, mut ended) = (Vec::new(), Duration::ZERO);
    for step in vector["steps"].as_array().into_iter().flatten() {
        ended = seconds(&step["at"])?.ok_or("a step has no `at`")?;
        let tokens = budget.as_ref().map(|budget| Tokens { budget, call_started: Duration::ZERO });
        let random = step["random"].as_f64().unwrap_or_default();
        steps.push(json!(create.step(read(&step["input"])?, tokens, ended, random)));
    }
    let (server, ledger) = (create.server(), create.ledger());
    let history: Vec<_> =
        ledger.attempts().iter().map(|record| json!([record.purpose, word(&record.verdict)])).collect();
    Ok(json!({
        "steps": steps,
        "after": {
            "server": {"keys": server.keys, "version": server.version},
            "used": {
                "retries": ledger.retries_used(),
                "connection_retries": ledger.connection_retries_used(),
                "lookups": ledger.look_ups_used(),
            },
            "sends": create.sends(),
            "lost_for": create.lost_for(ended).map(|ago| ago.as_secs_f64()),
            "history": history,
            "budget": budget.as_ref().map(|budget| budget.available(ended)),
        },
    }))
}

fn create(given: &Value) -> Result<Create, String> {
    let options = &given["options"];
    let mut all = Options { policy: read::<Option<_>>(&given["policy"])?.unwrap_or_default(), ..Options::default() };
    if let Some(timeout) = options.get("request_timeout") {
        all.request_timeout = seconds(timeout)?;
    }
    all.idempotency_keys = read::<Option<_>>(&options["idempotency_keys"])?.unwrap_or_default();
    all.settle = seconds(&options["settle"])?.unwrap_or(all.settle);
    all.cleanup_timeout = seconds(&options["cleanup_timeout"])?.unwrap_or(all.cleanup_timeout);
    let call = Call {
        options: all,
        idempotency_key: read(&given["idempotency_key"])?,
        began: Duration::from_secs(read(&given["began"])?),
        server: read::<Option<_>>(&given["server"])?.unwrap_or_default(),
        earlier_loss: seconds(&given["earlier_loss"])?,
    };
    let intent = read(&given["intent"])?;
    match given["mode"].as_str() {
        None | Some("new") => Ok(Create::new(intent, call)),
        Some("given") => Ok(Create::given(intent, call)),
        Some("resolve") => Ok(Create::resolve(intent, call)),
        Some(other) => Err(format!("a create is not {other:?}")),
    }
}

fn seconds(value: &Value) -> Result<Option<Duration>, String> {
    let seconds: Option<f64> = read(value)?;
    seconds.map(|seconds| Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())).transpose()
}

fn word(verdict: &Verdict) -> &'static str {
    match verdict {
        Verdict::Retry(_) => "retry",
        Verdict::Return(_) => "return",
        Verdict::Reconcile => "reconcile",
    }
}
