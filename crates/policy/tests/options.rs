//! `spec/options.json` against the policy: its fields, their defaults, and what a wrong value says.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;

use oncebox_policy::Policy;
use serde_json::{Map, Value, json};

fn table() -> Value {
    serde_json::from_str(include_str!("../../../spec/options.json")).unwrap()
}

/// The options that Rust has, by name.
fn options(table: &Value) -> BTreeMap<&str, &Value> {
    let section = table["sections"].as_array().unwrap().iter().find(|section| section["id"] == "policy").unwrap();
    let options = section["options"].as_array().unwrap().iter().filter(|option| option["rust"] != json!(false));
    options.map(|option| (option["name"].as_str().unwrap(), option)).collect()
}

#[test]
fn the_tables_options_are_the_fields_with_their_defaults() {
    let table = table();
    let fields: BTreeMap<String, Value> =
        serde_json::from_value(serde_json::to_value(Policy::DEFAULT).unwrap()).unwrap();
    let listed = options(&table);
    assert_eq!(listed.keys().copied().collect::<Vec<_>>(), fields.keys().map(String::as_str).collect::<Vec<_>>());
    for (name, option) in listed {
        let (listed, held) = (&option["default"], &fields[name]);
        let is_same = match (listed.as_f64(), held.as_f64()) {
            (Some(listed), Some(held)) => (listed - held).abs() < f64::EPSILON,
            _ => listed == held,
        };
        assert!(is_same, "{name}: {held}, and the table: {listed}");
    }
}

#[test]
fn each_wrong_value_of_the_table_says_what_it_says() {
    let table = table();
    let mut checked = 0;
    for (name, option) in options(&table) {
        let wrong = &table["kinds"][option["kind"].as_str().unwrap()]["rust"];
        let Some(expected) = wrong["error"].as_str().map(|error| error.replace("{name}", name)) else { continue };
        let mut fields = Map::new();
        fields.insert(name.to_owned(), wrong["value"].clone());
        let policy: Policy = serde_json::from_value(fields.into()).unwrap();
        assert_eq!(policy.validate().unwrap_err().to_string(), expected);
        checked += 1;
    }
    assert_eq!(checked, 3, "retries, connection_retries, retry_after_jitter");
}
