//! Runs `conformance/operations/*.json`.

mod common;

use http::Method;
use oncebox_policy::Permit;
use oncebox_protocol::{Plane, Table, operations};
use serde::Deserialize;
use std::collections::BTreeSet;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    plane: String,
    method: String,
    path: String,
    operation: Option<String>,
    permit: Option<String>,
    #[serde(default)]
    mints: bool,
    #[serde(default)]
    idempotency_key: bool,
}

fn plane(name: &str) -> (&'static Table, Plane) {
    match name {
        "control_plane" => (Table::control_plane(), Plane::ControlPlane),
        "volume_content" => (Table::volume_content(), Plane::VolumeContent),
        "envd" => (Table::envd(), Plane::Envd),
        "code_interpreter" => (Table::code_interpreter(), Plane::CodeInterpreter),
        other => panic!("unknown plane {other:?}"),
    }
}

fn word(permit: Permit) -> &'static str {
    match permit {
        Permit::SafeMethod => "safe_method",
        Permit::IdempotentMethod => "idempotent_method",
        Permit::OperationTable => "operation_table",
        Permit::IdempotencyKey => "idempotency_key",
    }
}

#[test]
fn every_vector_holds() {
    let mut ran = 0;
    for (file, name, case) in common::cases::<Case>("operations") {
        let at = format!("{file}: {name}");
        let (table, plane) = plane(&case.plane);
        let method = Method::from_bytes(case.method.as_bytes()).unwrap();
        let found = table.find(&method, &case.path);
        assert_eq!(found.map(|found| found.id.as_ref()), case.operation.as_deref(), "{at}");
        assert_eq!(table.permit(&method, &case.path).map(word), case.permit.as_deref(), "{at}");
        assert_eq!(found.is_some_and(|found| found.mints), case.mints, "{at}");
        assert_eq!(found.is_some_and(|found| found.accepts_idempotency_key), case.idempotency_key, "{at}");
        assert!(found.is_none_or(|found| found.plane == plane), "{at}");
        ran += 1;
    }
    assert_eq!(ran, common::counted("operations"), "cases, as every language must run them");
}

#[test]
fn every_operation_has_a_vector_and_neighbours() {
    let mut listed = BTreeSet::new();
    let mut neighbours = BTreeSet::new();
    for (_, name, case) in common::cases::<Case>("operations") {
        match name.split_once(": ") {
            Some((id, _)) => neighbours.insert(id.to_owned()),
            None => listed.insert(case.operation.unwrap_or_default()),
        };
    }
    for operation in operations::ALL {
        assert!(listed.contains(operation.id.as_ref()), "{operation} has no vector");
        assert!(neighbours.contains(operation.id.as_ref()), "{operation} has no neighbours");
    }
}
