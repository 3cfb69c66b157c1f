//! Wrong use, told in one line: the value, the rule, the way out.

use std::error::Error as _;
use std::process::ExitCode;

use clap::Command;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::exit::{refuse, typed};
use crate::help;

/// Shows what the parser found: help and version as they are, mistakes as one line.
pub(crate) fn report(error: &clap::Error) -> ExitCode {
    if !error.use_stderr() {
        // A closed pipe is the reader's choice.
        let _ = error.print();
        return ExitCode::SUCCESS;
    }
    let words: Vec<String> = typed().skip(1).collect();
    refuse(&one_line(error, &words), wants_json(&words))
}

/// Whether JSON was asked for, as far as that can be told where the words make no sense. What follows `--` is a command's own.
fn wants_json(words: &[String]) -> bool {
    words.iter().take_while(|word| *word != "--").any(|word| word == "--json")
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
            match help::shown(command).collect::<Vec<_>>()[..] {
                [only] => format!("nothing to do: it is `{path} {}`; see `{path} --help`", only.get_name()),
                _ => format!("nothing to do: `{path}` needs one of {}; see `{path} --help`", below(command)),
            }
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
            // What can be given in its place.
            let instead = match option(&argument) {
                "SANDBOX" if has(command, "all") => ", or --all",
                "--operation" if has(command, "list") => ", or --list, which tells all there are",
                _ => "",
            };
            let more = if argument.ends_with("...") { "give one or more" } else { "give it" };
            format!("{}: {more}{instead}; see `{path} --help`", missing(command, &argument, words))
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
            let takes_command = command.get_arguments().any(|argument| argument.get_id() == "command");
            unknown(&path, &argument, context(ContextKind::SuggestedArg).pop(), takes_command)
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
            format!("{} {value:?}: {rule}", option(&argument))
        }
        _ => {
            let text = error.render().to_string();
            let first = text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
            format!("{}; see `{path} --help`", first.strip_prefix("error: ").unwrap_or(first))
        }
    }
}

/// What is said of an option that there is not.
pub(crate) fn unknown(path: &str, option: &str, meant: Option<String>, takes_command: bool) -> String {
    if matches!(option, "--local" | "--no-isolation") {
        return format!(
            "{option} is no option of `{path}`: a server that is started for one command has nothing in it yet; `oncebox run \
             --local` makes a sandbox in it, and `oncebox serve` starts one that stays, to be named by E2B_API_URL"
        );
    }
    let meant = meant.map(|known| format!(", is {known} meant?")).unwrap_or_default();
    let hint = if takes_command { " (a command for the sandbox goes after `--`)" } else { "" };
    format!("unknown option or argument {option:?}{meant}{hint}; see `{path} --help`")
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

/// Options that make another one necessary.
const NEEDED_BY: [(&str, &[&str]); 7] = [
    ("--key", &["--cert"]),
    ("--cert", &["--key"]),
    ("--local", &["--no-isolation"]),
    ("--all", &["--state", "-s", "--metadata", "-m"]),
    ("--tls", &["--ca-out"]),
    ("--status", &["--retry-after", "--should-retry"]),
    ("--ready-cmd", &["--start-cmd"]),
];

/// What is missing, the first of it, what that is, as the table has it, and what needs it.
fn missing(command: &Command, argument: &str, words: &[String]) -> String {
    let known = command.get_arguments().find(|known| option(&known.to_string()) == option(argument));
    let what = known.and_then(clap::Arg::get_help).map(|help| format!(" ({help})")).unwrap_or_default();
    let needed_by = NEEDED_BY.iter().find(|(needed, _)| *needed == option(argument)).map_or(&[][..], |(_, by)| by);
    let given = words.iter().map(|word| word.split('=').next().unwrap_or_default());
    let by = given.filter(|word| needed_by.contains(word)).map(|word| format!(", which {word} needs")).next();
    format!("{argument} is missing{}{what}", by.unwrap_or_default())
}

fn has(command: &Command, long: &str) -> bool {
    command.get_arguments().any(|argument| argument.get_long() == Some(long))
}

/// `--retries <N>` without its placeholder, `[SANDBOX]...` without its brackets.
fn option(argument: &str) -> &str {
    argument.split(' ').next().unwrap_or(argument).trim_end_matches('.').trim_matches(['<', '>', '[', ']'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_number_is_told_its_rule() {
        const NUMBERS: [&str; 13] =
            ["N", "C", "B", "SECONDS", "PORT", "NUMBER", "PID", "UID", "GID", "MODE", "MIB", "BYTES", "CODE"];
        let mut whole = help::command();
        whole.build();
        let mut seen = 0;
        for (path, command) in help::all(&whole) {
            for option in command.get_arguments().filter(|option| !option.is_positional()) {
                let name = option.get_value_names().unwrap_or_default().first().map(|name| name.as_str());
                let (Some(name), Some(long)) = (name, option.get_long()) else { continue };
                if !NUMBERS.contains(&name) {
                    continue;
                }
                seen += 1;
                for value in ["-1", "some"] {
                    let words = [&path[..], &[format!("--{long}"), value.to_owned()]].concat();
                    // What is within a library's range is for the library to say.
                    let Err(error) = whole.clone().try_get_matches_from(&words) else {
                        assert_eq!((name, value), ("NUMBER", "-1"), "{words:?}");
                        continue;
                    };
                    let said = one_line(&error, &words[1..]);
                    assert!(said.starts_with(&format!("--{long} {value:?}: it must be ")), "{words:?}: {said}");
                    assert!(!said.contains("invalid"), "{words:?}: {said}");
                }
            }
        }
        assert!(seen > 100, "{seen} options that are numbers");
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
