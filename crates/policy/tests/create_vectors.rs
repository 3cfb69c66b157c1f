//! Runs conformance/create/*.json. Their schema is in conformance/README.md.

#![cfg(feature = "serde")]
#![allow(clippy::unwrap_used)] // A vector that cannot be read is a failed test.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::time::Duration;

use oncebox_policy::create::{ApiVersion, Call, Create, Input, Intent, KeyEvidence, Rule, ServerMemory};
use oncebox_policy::{BUDGET_CAPACITY, Budget, IdempotencyKeys, Options, Policy, Purpose, Tokens, Verdict};
use serde::Deserialize;
use serde_json::Value;

/// How far two times may be apart that are meant to be equal: they are sums of floating numbers.
const TOLERANCE: f64 = 1e-6;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(rename = "$schema")]
    _schema: String,
    #[serde(rename = "theme")]
    _theme: String,
    vectors: Vec<Vector>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Vector {
    name: String,
    #[serde(default, rename = "why")]
    _why: String,
    call: CallSetup,
    steps: Vec<StepSetup>,
    #[serde(default)]
    after: After,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CallSetup {
    #[serde(default)]
    mode: Mode,
    intent: Intent,
    idempotency_key: Option<String>,
    began: u64,
    #[serde(default)]
    options: OptionsSetup,
    #[serde(default)]
    policy: Policy,
    #[serde(default)]
    server: ServerMemory,
    earlier_loss: Option<f64>,
    budget: Option<u32>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Mode {
    #[default]
    New,
    Given,
    Resolve,
}

#[derive(Deserialize)]
#[serde(default, deny_unknown_fields)]
struct OptionsSetup {
    request_timeout: Option<f64>,
    idempotency_keys: IdempotencyKeys,
    settle: f64,
    cleanup_timeout: f64,
}

impl Default for OptionsSetup {
    fn default() -> Self {
        Self {
            request_timeout: Some(60.0),
            idempotency_keys: IdempotencyKeys::Auto,
            settle: 10.0,
            cleanup_timeout: 30.0,
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StepSetup {
    at: f64,
    #[serde(default)]
    random: f64,
    input: Input,
    expect: Value,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct After {
    server: Option<AfterServer>,
    used: Option<Used>,
    sends: Option<u32>,
    lost_for: Option<f64>,
    history: Option<Vec<(Purpose, String)>>,
    budget: Option<u32>,
}

#[derive(Deserialize, Debug, PartialEq)]
#[serde(deny_unknown_fields)]
struct AfterServer {
    keys: Option<KeyEvidence>,
    version: Option<ApiVersion>,
}

#[derive(Deserialize, Debug, PartialEq)]
#[serde(deny_unknown_fields)]
struct Used {
    retries: u32,
    connection_retries: u32,
    lookups: u32,
}

#[test]
fn every_vector_gets_its_actions() {
    let vectors = load();
    let wrong: Vec<String> = vectors
        .iter()
        .filter_map(|(file, vector)| run(vector).err().map(|problem| format!("{file}: {}\n    {problem}", vector.name)))
        .collect();
    let steps: usize = vectors.iter().map(|(_, vector)| vector.steps.len()).sum();
    println!("{} vectors, {steps} steps, {} wrong", vectors.len(), wrong.len());
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
    assert_eq!(vectors.len(), counted("create"), "vectors, as every language must run them");
}

#[test]
fn names_are_unique() {
    let mut names = BTreeSet::new();
    for (file, vector) in load() {
        assert!(names.insert(vector.name.clone()), "{file}: {} is there twice", vector.name);
    }
}

#[test]
fn every_action_end_and_rule_is_expected_somewhere() {
    let mut seen: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for (_, vector) in load() {
        for step in &vector.steps {
            let action = &step.expect["action"];
            seen.entry("rule").or_default().insert(step.expect["rule"].as_str().unwrap().to_owned());
            seen.entry("action").or_default().insert(variant(action));
            seen.entry("how").or_default().insert(variant(&action["done"]["how"]));
            seen.entry("not_done").or_default().insert(variant(&action["not_done"]["reason"]));
            seen.entry("unknown").or_default().insert(variant(&action["unknown"]["reason"]));
        }
    }
    let rules = Rule::ALL.iter().map(|rule| serde_json::to_value(rule).unwrap().as_str().unwrap().to_owned());
    let expected = [
        ("rule", rules.collect::<Vec<_>>()),
        ("action", names("send wait probe look_up adopt done not_done unknown superseded kill finished")),
        ("how", names("acknowledged adopted")),
        ("not_done", names("returned intent_mismatch unreadable_answer key_is_the_callers vanished absent")),
        ("unknown", names("deadline look_ups_used cannot_tell abandoned")),
    ];
    for (kind, all) in expected {
        let missing: Vec<_> = all.iter().filter(|name| !seen[kind].contains(*name)).collect();
        assert!(missing.is_empty(), "no vector expects the {kind} {missing:?}");
    }
}

#[test]
fn schema_and_design_name_every_rule() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let schema = fs::read_to_string(root.join("conformance/create.schema.json")).unwrap();
    let schema: Value = serde_json::from_str(&schema).unwrap();
    assert_eq!(schema["$defs"]["rule"]["enum"], serde_json::to_value(Rule::ALL).unwrap());
    let design = fs::read_to_string(root.join("docs/design/0002-create-machine.md")).unwrap();
    for rule in Rule::ALL {
        let name = serde_json::to_value(rule).unwrap();
        let row = format!("| `{}` | {rule} |", name.as_str().unwrap());
        assert!(design.contains(&row), "the design does not say: {row}");
    }
}

fn names(all: &str) -> Vec<String> {
    all.split(' ').map(str::to_owned).collect()
}

/// The name of an enum's variant in JSON, with or without fields.
fn variant(value: &Value) -> String {
    match value {
        Value::String(name) => name.clone(),
        Value::Object(fields) => fields.keys().next().cloned().unwrap_or_default(),
        _ => String::new(),
    }
}

fn run(vector: &Vector) -> Result<(), String> {
    let setup = &vector.call;
    let call = Call {
        options: Options {
            policy: setup.policy.clone(),
            request_timeout: setup.options.request_timeout.map(Duration::from_secs_f64),
            idempotency_keys: setup.options.idempotency_keys,
            settle: Duration::from_secs_f64(setup.options.settle),
            cleanup_timeout: Duration::from_secs_f64(setup.options.cleanup_timeout),
            ..Options::default()
        },
        idempotency_key: setup.idempotency_key.clone(),
        began: Duration::from_secs(setup.began),
        server: setup.server,
        earlier_loss: setup.earlier_loss.map(Duration::from_secs_f64),
    };
    let mut create = match setup.mode {
        Mode::New => Create::new(setup.intent, call),
        Mode::Given => Create::given(setup.intent, call),
        Mode::Resolve => Create::resolve(setup.intent, call),
    };
    let budget = setup.budget.map(|tokens| {
        let budget = Budget::new();
        assert!(budget.take(BUDGET_CAPACITY - tokens, Duration::ZERO));
        budget
    });
    for step in &vector.steps {
        let tokens = budget.as_ref().map(|budget| Tokens { budget, call_started: Duration::ZERO });
        let got = create.step(step.input.clone(), tokens, Duration::from_secs_f64(step.at), step.random);
        let got = serde_json::to_value(got).unwrap();
        if !equal(&got, &step.expect) {
            return Err(format!("at {}: expected {}\n    got {got}", step.at, step.expect));
        }
    }
    let After { server, used, sends, lost_for, history, budget: tokens } = &vector.after;
    let ServerMemory { keys, version } = create.server();
    let got = AfterServer { keys, version };
    if server.as_ref().is_some_and(|server| *server != got) {
        return Err(format!("the server is known as {got:?}"));
    }
    let ledger = create.ledger();
    let got = Used {
        retries: ledger.retries_used(),
        connection_retries: ledger.connection_retries_used(),
        lookups: ledger.look_ups_used(),
    };
    if used.as_ref().is_some_and(|used| *used != got) {
        return Err(format!("used {got:?}"));
    }
    let got: Vec<_> = ledger
        .attempts()
        .iter()
        .map(|record| {
            let verdict = match record.verdict {
                Verdict::Retry(_) => "retry",
                Verdict::Return(_) => "return",
                Verdict::Reconcile => "reconcile",
            };
            (record.purpose, verdict.to_owned())
        })
        .collect();
    if history.as_ref().is_some_and(|history| *history != got) {
        return Err(format!("the history is {got:?}"));
    }
    let ended = vector.steps.last().map_or(0.0, |step| step.at);
    let got = budget.as_ref().map(|budget| budget.available(Duration::from_secs_f64(ended)));
    if tokens.is_some() && *tokens != got {
        return Err(format!("the budget has {got:?} tokens"));
    }
    let got = create.lost_for(Duration::from_secs_f64(ended)).map(|ago| ago.as_secs_f64());
    if lost_for.is_some_and(|expected| got.is_none_or(|got| (got - expected).abs() >= TOLERANCE)) {
        return Err(format!("the last loss is {got:?} ago"));
    }
    if sends.is_some_and(|sends| sends != create.sends()) {
        return Err(format!("{} sends may have made a sandbox", create.sends()));
    }
    Ok(())
}

fn equal(got: &Value, expected: &Value) -> bool {
    match (got, expected) {
        (Value::Number(a), Value::Number(b)) => (a.as_f64().unwrap() - b.as_f64().unwrap()).abs() < TOLERANCE,
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| equal(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| equal(a, b)))
        }
        (a, b) => a == b,
    }
}

/// How many there are, by `conformance/counts.json`.
fn counted(folder: &str) -> usize {
    let counts =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conformance/counts.json")).unwrap();
    let counts: BTreeMap<String, usize> = serde_json::from_str(&counts).unwrap();
    counts[folder]
}

fn load() -> Vec<(String, Vector)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conformance/create");
    let mut paths: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let mut vectors = Vec::new();
    for path in paths {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let text = fs::read_to_string(&path).unwrap();
        let file: File = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
        vectors.extend(file.vectors.into_iter().map(|vector| (name.clone(), vector)));
    }
    vectors
}
