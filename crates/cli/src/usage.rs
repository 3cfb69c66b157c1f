//! Wrong use, told in one line: the value, the rule, the way out.

use std::error::Error as _;
use std::process::ExitCode;

use clap::Command;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::exit::{USAGE, say};
use crate::help;

/// Shows what the parser found: help and version as they are, mistakes as one line.
pub(crate) fn report(error: &clap::Error) -> ExitCode {
    if !error.use_stderr() {
        // A closed pipe is the reader's choice.
        let _ = error.print();
        return ExitCode::SUCCESS;
    }
    let words: Vec<String> = std::env::args().skip(1).collect();
    say(one_line(error, &words));
    ExitCode::from(USAGE)
}

fn one_line(error: &clap::Error, words: &[String]) -> String {
    let context = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => vec![text.clone()],
        Some(ContextValue::Strings(texts)) => texts.clone(),
        _ => Vec::new(),
    };
    let mut whole = help::command();
    // Arguments show themselves only when they are built.
    whole.build();
    let (path, command) = named(&whole, words);
    let arguments = context(ContextKind::InvalidArg);
    let argument = arguments.first().cloned().unwrap_or_default();
    let value = context(ContextKind::InvalidValue).pop().unwrap_or_default();
    match error.kind() {
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand | ErrorKind::MissingSubcommand if path == "oncebox" => {
            "nothing to do: name a task, such as `oncebox run --local -- echo hi`, or see `oncebox --help`".to_owned()
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand | ErrorKind::MissingSubcommand => {
            format!("nothing to do: `{path}` needs one of {}; see `{path} --help`", below(command))
        }
        ErrorKind::InvalidSubcommand => {
            let wrong = context(ContextKind::InvalidSubcommand).pop().unwrap_or_default();
            if let Some(instead) = instead_of(&path, &wrong) {
                return format!("{wrong:?} is no command of `{path}`: {instead}");
            }
            let meant = context(ContextKind::SuggestedSubcommand).pop();
            let meant = meant.map(|meant| format!(", is {meant} meant?")).unwrap_or_default();
            format!("{wrong:?} is no command of `{path}`{meant}; there are {}; see `{path} --help`", below(command))
        }
        ErrorKind::MissingRequiredArgument if arguments.iter().any(|argument| argument.contains("CMD")) => {
            let example = if path == "oncebox exec" || path == "oncebox sandbox exec" {
                format!("{path} SANDBOX -- echo hi")
            } else if path == "oncebox fleet run" {
                format!("{path} -n 10 -- echo hi")
            } else {
                "oncebox run --local -- echo hi".to_owned()
            };
            format!("the command is empty: give it after `--`, such as `{example}`")
        }
        ErrorKind::MissingRequiredArgument => {
            format!("{}: give it; see `{path} --help`", missing(command, &argument))
        }
        ErrorKind::ArgumentConflict => {
            let others = context(ContextKind::PriorArg);
            let others: Vec<&str> = others.iter().map(|other| option(other)).collect();
            match &others[..] {
                [other] if *other == option(&argument) => format!("{other} is given more than once: give it once"),
                others => format!(
                    "{} and {} exclude each other: leave one of them out; see `{path} --help`",
                    option(&argument),
                    others.join(", ")
                ),
            }
        }
        ErrorKind::UnknownArgument => {
            let meant = context(ContextKind::SuggestedArg).pop();
            let meant = meant.map(|known| format!(", is {known} meant?")).unwrap_or_default();
            format!(
                "unknown option or argument {argument:?}{meant} (a command for the sandbox goes after `--`); see `{path} --help`"
            )
        }
        ErrorKind::InvalidValue if value.is_empty() => {
            format!("{} needs a value; see `{path} --help`", option(&argument))
        }
        ErrorKind::InvalidValue => {
            let allowed = context(ContextKind::ValidValue);
            format!("{} {value:?}: it must be one of {}", option(&argument), allowed.join(", "))
        }
        ErrorKind::ValueValidation => {
            let rule = error.source().map(ToString::to_string).unwrap_or_default();
            format!("{} {value:?}: {}", option(&argument), range(&rule).unwrap_or(rule))
        }
        _ => {
            let text = error.render().to_string();
            let first = text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
            format!("{}; see `{path} --help`", first.strip_prefix("error: ").unwrap_or(first))
        }
    }
}

/// What users of the official CLI may look for, and what does its work here.
fn instead_of(path: &str, wrong: &str) -> Option<&'static str> {
    match (path, wrong) {
        ("oncebox", "auth" | "login" | "logout") => Some(
            "nobody logs in; set E2B_API_KEY, or `api_key` of a profile in the configuration file; `oncebox config` tells \
             which holds, and `oncebox serve` needs none",
        ),
        ("oncebox template", "init" | "it" | "migrate") => Some(
            "a Dockerfile is a template as it is: `oncebox template build NAME` builds it, and the packages for Rust, \
             Python and JavaScript build templates that are written as programs",
        ),
        _ => None,
    }
}

/// The command that the words lead to, and how it is called.
fn named<'a>(whole: &'a Command, words: &[String]) -> (String, &'a Command) {
    let (mut path, mut command) = ("oncebox".to_owned(), whole);
    for word in words.iter().take_while(|word| *word != "--") {
        // `help` leads to no command of its own: what follows it does.
        if let Some(below) = command.find_subcommand(word).filter(|below| below.get_name() != "help") {
            path = format!("{path} {}", below.get_name());
            command = below;
        }
    }
    (path, command)
}

fn below(command: &Command) -> String {
    help::shown(command).map(Command::get_name).collect::<Vec<_>>().join(", ")
}

/// What is missing, the first of it, and what that is, as the table has it.
fn missing(command: &Command, argument: &str) -> String {
    let known = command.get_arguments().find(|known| option(&known.to_string()) == option(argument));
    match known.and_then(clap::Arg::get_help) {
        Some(help) => format!("{argument} is missing ({help})"),
        None => format!("{argument} is missing"),
    }
}

/// `--retries <N>` without its placeholder, `[SANDBOX]...` without its brackets.
fn option(argument: &str) -> &str {
    argument.split(' ').next().unwrap_or(argument).trim_end_matches('.').trim_matches(['<', '>', '[', ']'])
}

/// The parser's words for numbers, in ours.
fn range(rule: &str) -> Option<String> {
    if rule.contains("invalid digit") || rule.contains("too large to fit") {
        return Some("it must be a whole number of 0 or more, and not too large".to_owned());
    }
    let (from, to) = rule.split_once(" is not in ")?.1.split_once("..")?;
    match to.strip_prefix('=') {
        Some(to) if to != u32::MAX.to_string() => Some(format!("it must be a whole number from {from} to {to}")),
        _ => Some(format!("it must be a whole number of {from} or more")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parsers_words_for_numbers_are_put_in_ours() {
        for (rule, ours) in [
            ("0 is not in 1..=100", "it must be a whole number from 1 to 100"),
            ("0 is not in 1..=4294967295", "it must be a whole number of 1 or more"),
            ("invalid digit found in string", "it must be a whole number of 0 or more, and not too large"),
        ] {
            assert_eq!(range(rule).as_deref(), Some(ours));
        }
        assert_eq!(range("it must be red"), None);
    }

    #[test]
    fn words_lead_to_a_command() {
        let mut whole = help::command();
        // The parser adds `help` when it is built.
        whole.build();
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(named(&whole, &words("-v sbx kl -a")).0, "oncebox sandbox kill");
        assert_eq!(named(&whole, &words("run --local -- exec")).0, "oncebox run");
        assert_eq!(named(&whole, &words("help sandbox nonsense")).0, "oncebox sandbox");
    }
}
