//! Reads conformance vectors.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests fail by panicking")]

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(rename = "description")]
    _description: String,
    cases: Vec<Value>,
}

/// How many cases every language must run of a folder, by `counts.json`.
pub(crate) fn counted(folder: &str) -> usize {
    let counts = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conformance/counts.json");
    let counts: BTreeMap<String, usize> = serde_json::from_str(&std::fs::read_to_string(counts).unwrap()).unwrap();
    counts[folder]
}

/// Every case of a folder below `conformance/`, each with where it is and its name.
pub(crate) fn cases<C: DeserializeOwned>(folder: &str) -> Vec<(String, String, C)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conformance").join(folder);
    let mut cases = Vec::new();
    for entry in std::fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "json") {
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let file: File = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let mut names = BTreeSet::new();
        for mut case in file.cases {
            // Taken out first, so that a case may refuse every key it does not know.
            let name = case.as_object_mut().and_then(|case| case.remove("name"));
            let name = name.as_ref().and_then(Value::as_str).expect("a case has a name").to_owned();
            assert!(names.insert(name.clone()), "{}: {name:?} is there twice", path.display());
            let case = serde_json::from_value(case).unwrap_or_else(|e| panic!("{}: {name}: {e}", path.display()));
            cases.push((path.display().to_string(), name, case));
        }
    }
    assert!(!cases.is_empty(), "{}: no vectors", folder.display());
    cases
}
