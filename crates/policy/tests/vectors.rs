//! Runs conformance/policy/*.json. Their schema is in conformance/README.md.

#![allow(clippy::unwrap_used)] // A vector that cannot be read is a failed test.

#[path = "vectors/check.rs"]
mod check;
#[path = "vectors/coverage.rs"]
mod coverage;
#[path = "vectors/schema.rs"]
mod schema;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use coverage::Coverage;
use schema::{File, Vector};

#[test]
fn every_vector_gets_its_verdict() {
    let vectors = load();
    let mut wrong = Vec::new();
    let mut coverage = Coverage::default();
    for (file, vector) in &vectors {
        for problem in check::run(vector, &mut coverage) {
            wrong.push(format!("{file}: {}\n    {problem}", vector.name));
        }
    }
    let steps: usize = vectors.iter().map(|(_, vector)| vector.steps.len()).sum();
    println!("{} vectors, {steps} steps, {} wrong", vectors.len(), wrong.len());
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
    assert_eq!(vectors.len(), counted("policy"), "vectors, as every language must run them");
}

#[test]
fn names_are_unique() {
    let mut names = BTreeSet::new();
    for (file, vector) in load() {
        assert!(names.insert(vector.name.clone()), "{file}: {} is there twice", vector.name);
    }
}

#[test]
fn every_reason_is_expected_somewhere() {
    let mut coverage = Coverage::default();
    for (_, vector) in load() {
        check::run(&vector, &mut coverage);
    }
    assert_eq!(coverage.missing(), Vec::<String>::new());
}

/// How many there are, by `conformance/counts.json`.
fn counted(folder: &str) -> usize {
    let counts =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conformance/counts.json")).unwrap();
    let counts: BTreeMap<String, usize> = serde_json::from_str(&counts).unwrap();
    counts[folder]
}

fn load() -> Vec<(String, Vector)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conformance/policy");
    let mut paths: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let mut vectors = Vec::new();
    for path in paths.iter().filter(|path| path.extension().is_some_and(|extension| extension == "json")) {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let file: File =
            serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap_or_else(|error| panic!("{name}: {error}"));
        vectors.extend(file.vectors.into_iter().map(|vector| (name.clone(), vector)));
    }
    vectors
}
