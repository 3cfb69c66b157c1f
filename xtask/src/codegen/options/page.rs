//! The page as Markdown.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::Value;

use super::sources::Found;
use super::{Entry, Language, Section, Table, Wrong};

const BEGIN: &str = "\
# Options

Every option, in every language. This page is written by `cargo xtask codegen` from the code that takes the options and from
[`spec/options.json`](../spec/options.json), and it fails where one has what the other has not. Tests in Rust, Python and
TypeScript hold the defaults and the errors against the code.

Times are a `Duration` in Rust, seconds in Python, milliseconds in TypeScript (where their names end with `Ms`), and seconds in
variables and flags. A wrong value is refused before anything is sent: with `Error` of the kind `InvalidArgument` in Rust,
`InvalidArgumentException` in Python, `InvalidArgumentError` in the SDK and `TypeError` in `withRetry` and `openTransport` in
TypeScript. [What it says](#what-a-wrong-value-says) is below. What the command reads besides is in [cli](cli.md).
";

type FoundBy<'a> = BTreeMap<(&'a str, Language), Vec<Found>>;

pub(super) fn write(table: &Table, found: &FoundBy<'_>, per_call: &[Found]) -> Result<String, String> {
    let mut page = BEGIN.to_owned();
    for section in &table.sections {
        let _ = write!(page, "\n## {}\n\n{}\n\n", section.title, section.intro);
        let has_rust = section.id != "retry";
        let rust = if has_rust { " Rust |" } else { "" };
        let _ = writeln!(page, "| option | means | default |{rust} Python | TypeScript |");
        let _ = writeln!(page, "|---|---|{}---|---|---|", if has_rust { "---|" } else { "" });
        for entry in &section.options {
            row(&mut page, section, entry, found, per_call, has_rust)?;
        }
    }
    page.push_str("\n## What a wrong value says\n\nWhere a language's types leave no wrong value, there is none.\n\n");
    page.push_str("| rule | options | | value | error |\n|---|---|---|---|---|\n");
    for (name, kind) in &table.kinds {
        let of_kind = |entry: &&Entry| entry.kind == *name && entry.wrong.is_empty();
        let mut options: Vec<&str> =
            table.sections.iter().flat_map(|s| &s.options).filter(of_kind).map(|entry| entry.name.as_str()).collect();
        options.sort_unstable();
        options.dedup();
        let options: Vec<String> = options.into_iter().map(|name| format!("`{name}`")).collect();
        wrong(&mut page, &kind.rule, &options.join(", "), &kind.wrong, "…");
    }
    for section in &table.sections {
        for entry in section.options.iter().filter(|entry| !entry.wrong.is_empty()) {
            let name = format!("`{}` ({})", entry.name, section.title.to_lowercase());
            wrong(&mut page, "its own", &name, &entry.wrong, &entry.name);
        }
    }
    Ok(page)
}

fn row(
    page: &mut String,
    section: &Section,
    entry: &Entry,
    found: &FoundBy<'_>,
    per_call: &[Found],
    has_rust: bool,
) -> Result<(), String> {
    let there = |language: Language| found.get(&(section.id.as_str(), language)).map(Vec::as_slice).unwrap_or_default();
    let cell = |language: Language| {
        let names = entry.names(language);
        let known = |name: &String| there(language).iter().find(|found| found.name == *name);
        let cells: Vec<String> = names
            .iter()
            .map(|name| match known(name).map(|found| found.kind.replace('|', "\\|")).unwrap_or_default() {
                kind if kind.is_empty() => format!("`{name}`"),
                // Named as everywhere.
                kind if *name == entry.name && language != Language::TypeScript => format!("`{kind}`"),
                kind => format!("`{name}`: `{kind}`"),
            })
            .collect();
        if cells.is_empty() { "–".to_owned() } else { cells.join(", ") }
    };
    let of_rust = entry.names(Language::Rust);
    let known = there(Language::Rust).iter().find(|found| of_rust.contains(&found.name));
    // What Rust's clients have of their transport means the same.
    let transport = found.get(&("transport", Language::Rust)).map(Vec::as_slice).unwrap_or_default();
    let known = known.or_else(|| transport.iter().find(|found| found.name == entry.name));
    let mut meaning = match (&entry.meaning, known) {
        (Some(meaning), _) => meaning.clone(),
        (None, Some(found)) => found.meaning.clone(),
        (None, None) => return Err(format!("{}: it has no meaning", entry.name)),
    };
    if section.id == "client" && of_rust.iter().any(|name| per_call.iter().any(|found| found.name == *name)) {
        meaning.push_str(" *Also of one call.*");
    }
    if let Some(why) = &entry.why {
        let _ = write!(meaning, " ({}{})", why.chars().next().unwrap_or_default().to_uppercase(), &why[1..]);
    }
    let mut ways: Vec<String> = entry.variable.iter().map(|name| format!("`{name}`")).collect();
    ways.extend(default(entry));
    let mut option = format!("`{}`", entry.name);
    for flag in entry.flag.iter().flat_map(super::Names::all) {
        let _ = write!(option, " `{flag}`");
    }
    let rust = if has_rust { format!(" {} |", cell(Language::Rust)) } else { String::new() };
    let _ = writeln!(
        page,
        "| {option} | {} | {} |{rust} {} | {} |",
        meaning.replace('|', "\\|"),
        ways.join(", else "),
        cell(Language::Python),
        cell(Language::TypeScript)
    );
    Ok(())
}

fn default(entry: &Entry) -> Option<String> {
    let value = match (entry.default.as_ref(), entry.kind.as_str()) {
        (None, _) => None,
        (Some(Value::Bool(on)), _) => Some(if *on { "on" } else { "off" }.to_owned()),
        (Some(Value::Number(number)), "time") => Some(format!("{number} s")),
        (Some(Value::Number(number)), "bytes") => Some(format!("{} bytes", thousands(&number.to_string()))),
        (Some(Value::Number(number)), _) => Some(number.to_string()),
        (Some(Value::String(text)), _) => Some(format!("`{text}`")),
        (Some(other), _) => Some(format!("`{other}`")),
    };
    match (value, &entry.default_note) {
        (Some(value), Some(note)) => Some(format!("{value}, {note}")),
        (value, note) => value.or_else(|| note.clone()),
    }
}

fn thousands(digits: &str) -> String {
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

fn wrong(page: &mut String, rule: &str, options: &str, wrong: &BTreeMap<Language, Wrong>, name: &str) {
    for (number, (language, Wrong { value, error })) in wrong.iter().enumerate() {
        let (rule, options) = if number == 0 { (rule, options) } else { ("", "") };
        let error = error.replace("{name}", name).replace('|', "\\|");
        let _ = writeln!(page, "| {rule} | {options} | {language:?} | `{value}` | {error} |");
    }
}
