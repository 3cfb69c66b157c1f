//! `spec/options.json` against the command: its flags, its variables, its defaults.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;

use clap::{Args, Command};
use serde_json::Value;

use super::settings;
use crate::connection::ProviderArgs;

/// The options of the section `client`.
fn options() -> Vec<Value> {
    let table: Value = serde_json::from_str(include_str!("../../../../spec/options.json")).unwrap();
    let sections = table["sections"].as_array().unwrap();
    let client = sections.iter().find(|section| section["id"] == "client").unwrap();
    client["options"].as_array().unwrap().clone()
}

/// A text, or several.
fn texts(value: &Value) -> Vec<&str> {
    match value {
        Value::Array(all) => all.iter().filter_map(Value::as_str).collect(),
        one => one.as_str().into_iter().collect(),
    }
}

#[test]
fn the_tables_flags_are_those_of_commands() {
    let options = options();
    let listed: BTreeSet<String> =
        options.iter().flat_map(|option| texts(&option["flag"])).map(ToOwned::to_owned).collect();
    let command = ProviderArgs::augment_args(Command::new("any"));
    let there: BTreeSet<String> =
        command.get_arguments().filter_map(|arg| arg.get_long()).map(|long| format!("--{long}")).collect();
    assert_eq!(listed, there);
}

#[test]
fn settings_have_the_tables_flags_variables_and_defaults() {
    let options = options();
    for (name, flag, variable, default) in settings() {
        let option = options.iter().find(|option| option["name"] == name);
        let option = option.unwrap_or_else(|| panic!("{name} is a setting, and not in spec/options.json"));
        assert_eq!(flag, option["flag"].as_str(), "{name}");
        let variables = [&option["variable"], &option["command_variable"]];
        assert_eq!(variable, variables.into_iter().find_map(Value::as_str), "{name}");
        let listed = match &option["default"] {
            Value::Number(number) => Some(number.to_string()),
            // What is chosen when nothing is said has no word in the file.
            Value::String(word) if word != "auto" => Some(word.clone()),
            _ => None,
        };
        assert_eq!(default.map(str::to_owned), listed, "{name}");
    }
}
