//! Reads options where the code declares them: name, type, and what its documentation says.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use super::Language;

/// An option as the code has it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) name: String,
    /// Its type, in the words of its language.
    pub(super) kind: String,
    /// What its documentation says first, but for its default.
    pub(super) meaning: String,
}

/// Where options are declared: a file, the line that their declaration begins with, and its form.
type Place = (&'static str, &'static str, Form);

#[derive(Clone, Copy)]
enum Form {
    /// Methods of a builder.
    Builder,
    /// Public fields of a struct.
    Fields,
    /// Members of a class, with their types.
    Members,
    /// Named arguments of `__init__`.
    Arguments,
    /// Members of an interface.
    Interface,
}

const RETRY: &str = "bindings/js/src/retry/options.ts";
const SDK: &str = "bindings/js/src/sdk/options.ts";

fn places(section: &str, language: Language) -> Vec<Place> {
    use Form::{Arguments, Builder, Fields, Interface, Members};
    match (section, language) {
        ("client", Language::Rust) => vec![("crates/sandbox/src/client/builder.rs", "impl ClientBuilder {", Builder)],
        ("client", Language::Python) => ["class PolicyParams(", "class TransportParams(", "class ApiParams("]
            .map(|class| ("bindings/python/python/oncebox/_params.py", class, Members))
            .to_vec(),
        ("client", Language::TypeScript) => {
            let of_calls = ["PolicyOptions", "TimeoutOptions", "ClockOptions"].map(|name| (RETRY, name, Interface));
            let of_sdk = ["ConnectionOpts", "ConnectionsOpts"].map(|name| (SDK, name, Interface));
            [&of_calls[..], &of_sdk[..]].concat()
        }
        ("policy", Language::Rust) => vec![("crates/policy/src/policy.rs", "pub struct Policy {", Fields)],
        ("policy", Language::Python) => {
            vec![("bindings/python/python/oncebox/_policy.py", "class RetryPolicy", Members)]
        }
        ("policy", Language::TypeScript) => vec![(RETRY, "PolicyOptions", Interface)],
        ("transport", Language::Rust) => {
            vec![("crates/transport/src/client/builder.rs", "impl ClientBuilder {", Builder)]
        }
        ("transport", Language::Python) => {
            vec![("bindings/python/python/oncebox/_async/_transport.py", "class AsyncTransport(", Arguments)]
        }
        ("transport", Language::TypeScript) => vec![
            ("bindings/js/src/native/fetch.ts", "NativeOptions", Interface),
            ("bindings/js/src/transport.ts", "TransportOptions", Interface),
        ],
        ("retry", Language::Python) => {
            vec![("bindings/python/python/oncebox/_async/_retry.py", "class AsyncRetryTransport(", Arguments)]
        }
        ("retry", Language::TypeScript) => {
            ["RetryOptions", "TimeoutOptions", "ClockOptions"].map(|name| (RETRY, name, Interface)).to_vec()
        }
        _ => Vec::new(),
    }
}

/// The options of a section that a language has.
pub(super) fn read(root: &Path, section: &str, language: Language) -> Result<Vec<Found>, String> {
    let mut all = Vec::new();
    for (file, begins, form) in places(section, language) {
        all.extend(declared(root, file, begins, form)?);
    }
    // An interface may say more of what it has from another.
    let mut names = BTreeSet::new();
    all.retain(|found: &Found| names.insert(found.name.clone()));
    Ok(all)
}

/// The options that single calls of the Rust SDK take.
pub(super) fn per_call(root: &Path) -> Result<Vec<Found>, String> {
    declared(root, "crates/sandbox/src/options.rs", "impl CallOptions {", Form::Builder)
}

fn declared(root: &Path, file: &str, begins: &str, form: Form) -> Result<Vec<Found>, String> {
    let text = fs::read_to_string(root.join(file)).map_err(|error| format!("{file}: {error}"))?;
    let found = parse(&text, begins, form);
    if found.is_empty() { Err(format!("{file}: no options were found after {begins:?}")) } else { Ok(found) }
}

fn parse(text: &str, begins: &str, form: Form) -> Vec<Found> {
    let begins = |line: &&str| match form {
        Form::Interface => line.starts_with(&format!("export interface {begins} ")),
        _ => line.starts_with(begins),
    };
    let mut lines = text.lines().skip_while(|line| !begins(line));
    let head = lines.next();
    // What is not indented ends it.
    let body: Vec<&str> = lines.take_while(|line| line.is_empty() || line.starts_with([' ', ')'])).collect();
    match form {
        _ if head.is_none() => Vec::new(),
        Form::Builder => builder(&body),
        Form::Fields => rust_items(&body, |line| line.strip_prefix("    pub ")?.split_once(": ")),
        Form::Members => members(&body, 4),
        Form::Arguments => {
            let init = body.iter().skip_while(|line| line.trim() != "def __init__(").skip(1);
            let named = init.take_while(|line| !line.starts_with("    )")).skip_while(|line| line.trim() != "*,");
            members(&named.copied().collect::<Vec<_>>(), 8)
        }
        Form::Interface => interface(&body),
    }
}

/// Methods that take and return the builder.
fn builder(body: &[&str]) -> Vec<Found> {
    // Signatures of several lines become one.
    let mut joined: Vec<String> = Vec::new();
    let mut open = false;
    for line in body {
        match joined.last_mut().filter(|_| open) {
            Some(last) => *last = format!("{last} {}", line.trim()),
            None => joined.push((*line).to_owned()),
        }
        open = joined.last().is_some_and(|line| line.starts_with("    pub fn ") && !line.ends_with('{'));
    }
    let lines: Vec<&str> = joined.iter().map(String::as_str).collect();
    rust_items(&lines, |line| {
        let (name, rest) = line.strip_prefix("    pub fn ")?.split_once(['(', '<'])?;
        let (_, rest) = rest.split_once("mut self, ").or_else(|| rest.split_once("mut self"))?;
        Some((name, rest.split(") ->").next().unwrap_or_default()))
    })
    .into_iter()
    .map(|found| Found { kind: arguments(&found.kind), ..found })
    .collect()
}

/// The types of arguments, as a reader wants to know them.
fn arguments(text: &str) -> String {
    let mut types: Vec<&str> = Vec::new();
    for argument in text.split(", ") {
        let Some((_, kind)) = argument.trim_end_matches(',').split_once(": ") else { continue };
        types.push(match kind {
            "impl Into<String>" => "String",
            "impl Into<Vec<u8>>" => "Vec<u8>",
            // A parameter of the method, which the documentation of Rust tells more of.
            kind if kind.len() == 1 => "async Fn",
            kind => kind.strip_prefix("impl ").unwrap_or(kind).split(" + ").next().unwrap_or(kind),
        });
    }
    types.join(", ")
}

fn rust_items<'a>(lines: &[&'a str], item: impl Fn(&'a str) -> Option<(&'a str, &'a str)>) -> Vec<Found> {
    let mut documentation = Vec::new();
    let mut all = Vec::new();
    for line in lines.iter().copied() {
        let trimmed = line.trim();
        if let Some(said) = trimmed.strip_prefix("///") {
            documentation.push(said.trim());
        } else if let Some((name, kind)) = item(line) {
            let meaning = first(&documentation);
            all.push(Found { name: name.to_owned(), kind: kind.trim_end_matches(',').to_owned(), meaning });
            documentation.clear();
        } else if !trimmed.starts_with("#[") {
            documentation.clear();
        }
    }
    all
}

/// The first paragraph up to the default, with links as plain words.
fn first(documentation: &[&str]) -> String {
    let paragraph: Vec<&str> = documentation.iter().copied().take_while(|line| !line.is_empty()).collect();
    let mut text = paragraph.join(" ");
    if let Some(at) = text.find("Default ").into_iter().chain(text.find("Default: ")).min() {
        text.truncate(at);
    }
    let mut plain = String::new();
    let mut rest = text.as_str();
    while let Some((before, after)) = rest.split_once('[') {
        plain.push_str(before);
        let Some((words, after)) = after.split_once(']') else { break };
        plain.push_str(words);
        rest = match after.strip_prefix('(').and_then(|after| after.split_once(')')) {
            Some((_, after)) => after,
            None => after,
        };
    }
    plain.push_str(rest);
    plain.trim().to_owned()
}

/// `name: type` or `name: type = default`, so many spaces in.
fn members(body: &[&str], indent: usize) -> Vec<Found> {
    let mut all = Vec::new();
    for line in body {
        let Some(line) = line.get(indent..).filter(|line| !line.starts_with(' ')) else { continue };
        let Some((name, kind)) = line.split_once(": ") else { continue };
        if name.starts_with('_') || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
            continue;
        }
        let kind = kind.split(" = ").next().unwrap_or(kind).trim_end_matches(',');
        let kind = kind.strip_suffix(" | None").unwrap_or(kind).to_owned();
        all.push(Found { name: name.to_owned(), kind, meaning: String::new() });
    }
    all
}

fn interface(body: &[&str]) -> Vec<Found> {
    let mut all = Vec::new();
    let mut lines = body.iter();
    while let Some(line) = lines.next() {
        let Some(line) = line.strip_prefix("  ").filter(|line| !line.starts_with([' ', '/', '*'])) else { continue };
        // A type may have lines of its own.
        let mut member = line.to_owned();
        while !member.ends_with(';') {
            let Some(more) = lines.next() else { break };
            member = format!("{member} {}", more.trim());
        }
        let member = member.strip_prefix("readonly ").unwrap_or(&member);
        let Some((name, kind)) = member.split_once("?:") else { continue };
        let kind = kind.trim_end_matches(';').trim().trim_start_matches("| ");
        let kind = kind.strip_suffix(" | undefined").unwrap_or(kind);
        let is_wrapped = kind.starts_with('(') && kind.ends_with(')') && kind.matches('(').count() > 1;
        let kind = if is_wrapped { &kind[1..kind.len() - 1] } else { kind };
        all.push(Found { name: name.to_owned(), kind: kind.to_owned(), meaning: String::new() });
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str, begins: &str, form: Form) -> Vec<(String, String)> {
        parse(text, begins, form).into_iter().map(|found| (found.name, found.kind)).collect()
    }

    fn pair(name: &str, kind: &str) -> (String, String) {
        (name.into(), kind.into())
    }

    #[test]
    fn builders_and_fields_are_read_with_what_they_mean() {
        let text = "impl B {\n    /// A [time](Self::x) of\n    /// its own; zero means none. Default 60 s.\n    ///\n    /// More.\n    \
                    #[must_use]\n    pub fn wait(mut self, time: Duration) -> Self {\n        self\n    }\n\n    /// Two.\n    \
                    pub fn pair(\n        mut self,\n        a: impl Into<String>,\n        b: u32,\n    ) -> Self {\n    }\n    \
                    pub fn build(self) -> C {\n    }\n}\nimpl C {\n    pub fn no(mut self) -> Self {\n";
        let found = parse(text, "impl B {", Form::Builder);
        assert_eq!(found.len(), 2, "{found:?}");
        assert_eq!((found[0].name.as_str(), found[0].kind.as_str()), ("wait", "Duration"));
        assert_eq!(found[0].meaning, "A time of its own; zero means none.");
        assert_eq!((found[1].name.as_str(), found[1].kind.as_str()), ("pair", "String, u32"));
        let fields = "pub struct P {\n    /// How many.\n    pub retries: u32,\n    hidden: u8,\n}\n";
        assert_eq!(names(fields, "pub struct P {", Form::Fields), [pair("retries", "u32")]);
    }

    #[test]
    fn classes_arguments_and_interfaces_are_read() {
        let class = "class P(X):\n    \"\"\"Says: this.\"\"\"\n\n    a: int | None\n    \"\"\"No: member.\"\"\"\n    b: str = \"x\"\n    \
                     def f(self) -> None:\n        c: int = 1\n\nd: int\n";
        assert_eq!(names(class, "class P(", Form::Members), [pair("a", "int"), pair("b", "str")]);
        let init = "class T(X):\n    def __init__(\n        self,\n        inner: Y,\n        *,\n        a: float | None = None,\n    \
                    ) -> None:\n        b: int = 1\n";
        assert_eq!(names(init, "class T(", Form::Arguments), [pair("a", "float")]);
        let interface = "export interface O extends P {\n  /** Says: this. */\n  readonly a?: number | undefined;\n  b?: 'x' | 'y';\n  c?:\n    | ((x: y) => z)\n    | undefined;\n}\nlet c?: d;\n";
        assert_eq!(
            names(interface, "O", Form::Interface),
            [pair("a", "number"), pair("b", "'x' | 'y'"), pair("c", "(x: y) => z")]
        );
    }
}
