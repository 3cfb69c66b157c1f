//! `spec/options.json`, and the walk over it. The SDK's test of its own options reads it here, too.

use serde_json::{Value, json};

/// A section of the table.
pub(super) struct Section {
    pub(super) options: Vec<Value>,
    kinds: Value,
}

/// An option, with its kind's entry.
pub(super) struct Entry<'a> {
    pub(super) name: &'a str,
    option: &'a Value,
    pub(super) kind: &'a Value,
}

impl Section {
    pub(super) fn read(id: &str) -> Self {
        let mut table: Value = serde_json::from_str(include_str!("../../../../../../spec/options.json")).unwrap();
        let section = table["sections"].as_array_mut().unwrap().iter_mut().find(|section| section["id"] == id).unwrap();
        let Value::Array(options) = section["options"].take() else { panic!("{id} has no options") };
        Self { options, kinds: table["kinds"].take() }
    }

    /// Those that Rust has.
    pub(super) fn entries(&self) -> impl Iterator<Item = Entry<'_>> {
        self.options.iter().filter(|option| option["rust"] != json!(false)).map(|option| Entry {
            name: option["name"].as_str().unwrap(),
            option,
            kind: &self.kinds[option["kind"].as_str().unwrap()],
        })
    }

    /// Each option with its default; there are more than `least`.
    pub(super) fn defaults(&self, least: usize, mut check: impl FnMut(&str, &Value)) {
        let with_default = |entry: Entry<'_>| Some((entry.name.to_owned(), entry.option.get("default")?.clone()));
        let all: Vec<_> = self.entries().filter_map(with_default).collect();
        all.iter().for_each(|(name, default)| check(name, default));
        assert!(all.len() > least, "{}", all.len());
    }

    /// Each option with a value that is another than its default, where the table holds or implies one.
    pub(super) fn others(&self, mut check: impl FnMut(&str, &Value)) {
        for Entry { name, option, .. } in self.entries() {
            match (option.get("other"), option.get("default")) {
                (Some(other), _) => check(name, other),
                (None, Some(Value::Bool(on))) => check(name, &json!(!on)),
                (None, Some(Value::Number(number))) => check(name, &json!(number.as_u64().unwrap() + 1)),
                _ => {}
            }
        }
    }

    /// What is said of each wrong value is what the table says; there are more than `least`.
    pub(super) fn wrong(&self, least: usize, mut said: impl FnMut(&str, &Value) -> String) {
        let (mut checked, mut differences) = (0, Vec::new());
        for Entry { name, option, kind } in self.entries() {
            let wrong = option.get("wrong").map_or(&kind["rust"], |own| &own["rust"]);
            let Some(expected) = wrong["error"].as_str().map(|error| error.replace("{name}", name)) else { continue };
            let said = said(name, &wrong["value"]);
            if said != expected {
                differences.push(format!("{said}, and the table: {expected}"));
            }
            checked += 1;
        }
        assert!(differences.is_empty(), "{}", differences.join("\n"));
        assert!(checked > least, "{checked}");
    }
}
