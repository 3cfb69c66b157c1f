//! `docs/options.md`: every option in every language, from `spec/options.json` and from the code that takes them.
//!
//! Names, types and meanings are read from the code. What the table lists and the code has not, or the other way round,
//! fails. Defaults and errors are the table's, and tests in each language hold them against the code.

mod page;
mod sources;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde::Deserialize;
use serde_json::Value;

use sources::Found;

const TABLE: &str = "spec/options.json";

/// The file as it is.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    /// For who reads the file.
    #[serde(rename = "about")]
    _about: String,
    /// What wrong values say, for options that have no words of their own.
    kinds: BTreeMap<String, Kind>,
    sections: Vec<Section>,
}

#[derive(Debug, Deserialize)]
struct Kind {
    rule: String,
    #[serde(flatten)]
    wrong: BTreeMap<Language, Wrong>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Section {
    id: String,
    title: String,
    intro: String,
    options: Vec<Entry>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    name: String,
    kind: String,
    default: Option<Value>,
    default_note: Option<String>,
    /// A value that is not the default, for tests.
    #[serde(rename = "other")]
    _other: Option<Value>,
    /// Of the environment, for every language.
    variable: Option<String>,
    /// Of the environment, for the command alone.
    #[serde(rename = "command_variable")]
    _command_variable: Option<String>,
    flag: Option<Names>,
    rust: Option<Names>,
    python: Option<Names>,
    typescript: Option<Names>,
    why: Option<String>,
    /// Where the code of Rust says nothing of it.
    meaning: Option<String>,
    #[serde(default)]
    wrong: BTreeMap<Language, Wrong>,
}

/// `false`, a name, or several.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Names {
    Not(bool),
    One(String),
    Several(Vec<String>),
}

impl Names {
    fn all(&self) -> Vec<String> {
        match self {
            Self::Not(_) => Vec::new(),
            Self::One(name) => vec![name.clone()],
            Self::Several(names) => names.clone(),
        }
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Wrong {
    value: Value,
    error: String,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, PartialOrd, Ord)]
#[serde(rename_all = "lowercase")]
enum Language {
    Rust,
    Python,
    TypeScript,
}

impl Language {
    const ALL: [Self; 3] = [Self::Rust, Self::Python, Self::TypeScript];
}

impl Section {
    fn names(&self, language: Language) -> Vec<String> {
        self.options.iter().flat_map(|entry| entry.names(language)).collect()
    }
}

impl Entry {
    /// What it is called there; empty: it is not there.
    fn names(&self, language: Language) -> Vec<String> {
        let given = match language {
            Language::Rust => &self.rust,
            Language::Python => &self.python,
            Language::TypeScript => &self.typescript,
        };
        match given {
            Some(names) => names.all(),
            None if language == Language::TypeScript => vec![camel(&self.name, self.kind == "time")],
            None => vec![self.name.clone()],
        }
    }
}

/// The page.
pub(super) fn page(root: &Path) -> Result<String, String> {
    let text = fs::read_to_string(root.join(TABLE)).map_err(|error| format!("{TABLE}: {error}"))?;
    let table: Table = serde_json::from_str(&text).map_err(|error| format!("{TABLE}: {error}"))?;
    let mut problems = Vec::new();
    let mut found = BTreeMap::new();
    for section in &table.sections {
        for language in Language::ALL {
            let there = sources::read(root, &section.id, language)?;
            // Clients take what other sections list, too, where the language has no policy or transport of its own for it.
            let elsewhere: Vec<String> = match section.id.as_str() {
                "client" => table.sections[1..].iter().flat_map(|other| other.names(language)).collect(),
                _ => Vec::new(),
            };
            problems.extend(differences(section, language, &there, &elsewhere));
            found.insert((section.id.as_str(), language), there);
        }
        for entry in &section.options {
            problems.extend(incomplete(&table, section, entry));
        }
    }
    if !problems.is_empty() {
        return Err(format!("{TABLE} is not what the code has:\n  {}", problems.join("\n  ")));
    }
    let per_call = sources::per_call(root)?;
    page::write(&table, &found, &per_call)
}

/// What only one side has.
fn differences(section: &Section, language: Language, there: &[Found], elsewhere: &[String]) -> Vec<String> {
    let listed = section.names(language);
    let of = |name: &str, what: &str| format!("{}, {language:?}: {name} is {what}", section.title);
    let missing = listed.iter().filter(|name| !there.iter().any(|found| found.name == **name));
    let unlisted = there.iter().filter(|found| !listed.contains(&found.name) && !elsewhere.contains(&found.name));
    missing
        .map(|name| of(name, "in the table, and the code has no such option"))
        .chain(unlisted.map(|found| of(&found.name, "in the code, and not in the table")))
        .collect()
}

fn incomplete(table: &Table, section: &Section, entry: &Entry) -> Vec<String> {
    let mut problems = Vec::new();
    let mut problem = |what: &str| problems.push(format!("{}: {}: {what}", section.title, entry.name));
    if !table.kinds.contains_key(&entry.kind) {
        problem("its kind is none of the table's");
    }
    if [&entry.rust, &entry.python, &entry.typescript].into_iter().any(|names| matches!(names, Some(Names::Not(true))))
    {
        problem("`true` names nothing");
    }
    // Of a policy of one's own Rust is the policy itself.
    let optional = if section.id == "retry" { &Language::ALL[1..] } else { &Language::ALL[..] };
    if optional.iter().any(|language| entry.names(*language).is_empty()) && entry.why.is_none() {
        problem("a language has it not, and nothing says why");
    }
    problems
}

/// `read_idle_timeout` as `readIdleTimeoutMs`.
fn camel(name: &str, is_time: bool) -> String {
    let mut out = String::new();
    for (number, word) in name.split('_').enumerate() {
        let mut letters = word.chars();
        match letters.next() {
            Some(first) if number > 0 => out.extend(first.to_uppercase().chain(letters)),
            _ => out.push_str(word),
        }
    }
    out + if is_time { "Ms" } else { "" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_side_alone_has_is_named() {
        let json = r#"{"id": "x", "title": "T", "intro": "", "options": [
            {"name": "some_time", "kind": "time"}, {"name": "gone", "kind": "text", "python": false}]}"#;
        let section: Section = serde_json::from_str(json).unwrap();
        let found = |name: &str| Found { name: name.into(), kind: String::new(), meaning: String::new() };
        let differences = |language, names: &[&str]| {
            let there: Vec<Found> = names.iter().map(|name| found(name)).collect();
            super::differences(&section, language, &there, &["other".to_owned()])
        };
        assert_eq!(differences(Language::Python, &["some_time", "other"]), Vec::<String>::new());
        assert_eq!(
            differences(Language::TypeScript, &["someTimeMs", "extra"]),
            [
                "T, TypeScript: gone is in the table, and the code has no such option",
                "T, TypeScript: extra is in the code, and not in the table"
            ]
        );
    }
}
