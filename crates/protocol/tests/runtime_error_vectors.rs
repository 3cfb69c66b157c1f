//! Runs `conformance/runtime-errors/*.json`.

mod common;

use oncebox_policy::Phase;
use oncebox_protocol::runtime_errors::{CHAIN_LIMIT, Outcome, ROWS, RuntimeError, classify_thrown};
use serde::Deserialize;
use serde_json::Value;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    #[serde(rename = "seen")]
    _seen: Option<String>,
    #[serde(default)]
    aborted: bool,
    thrown: Value,
    outcome: String,
    phase: Option<String>,
}

fn words(outcome: Outcome) -> (&'static str, Option<&'static str>) {
    match outcome {
        Outcome::Cancelled => ("cancelled", None),
        Outcome::Rethrown => ("rethrown", None),
        Outcome::NotSent { phase: Phase::Dns } => ("not_sent", Some("dns")),
        Outcome::NotSent { phase: Phase::Connect } => ("not_sent", Some("connect")),
        Outcome::NotSent { phase: Phase::Tls } => ("not_sent", Some("tls")),
        Outcome::Refused => ("refused", None),
        Outcome::SentUnknown => ("sent_unknown", None),
        other => panic!("{other:?} has no word"),
    }
}

#[test]
fn every_vector_holds() {
    let mut ran = 0;
    for (file, name, case) in common::cases::<Case>("runtime-errors") {
        let (outcome, phase) = words(classify_thrown(case.aborted, &case.thrown));
        let wanted = (case.outcome.as_str(), case.phase.as_deref());
        assert_eq!((outcome, phase), wanted, "{file}: {name}");
        ran += 1;
    }
    assert_eq!(ran, common::counted("runtime-errors"), "cases, as every language must run them");
}

/// Every error of a chain or aggregate, outermost first.
fn links<'a>(error: &'a RuntimeError, found: &mut Vec<&'a RuntimeError>) {
    found.push(error);
    for inner in error.cause.as_deref().into_iter().chain(error.errors.iter().flatten()) {
        links(inner, found);
    }
}

#[test]
fn every_row_has_a_vector() {
    let errors: Vec<RuntimeError> = common::cases::<Case>("runtime-errors")
        .into_iter()
        .map(|(_, _, case)| case)
        .filter(|case| !case.aborted && case.thrown.is_object())
        .map(|case| serde_json::from_value(case.thrown).unwrap())
        .collect();
    for row in &ROWS {
        let held = errors.iter().any(|error| {
            let mut found = Vec::new();
            links(error, &mut found);
            found.len() <= CHAIN_LIMIT && found.iter().any(|link| row.matches(link))
        });
        assert!(held, "row {:?} has no vector", row.id);
    }
}
