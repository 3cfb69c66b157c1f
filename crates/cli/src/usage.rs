//! Wrong use, told in one line.

use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::exit::{USAGE, say};

/// Shows what the parser found: help and version as they are, mistakes as one line that names the value and the rule.
pub(crate) fn report(error: &clap::Error) -> ExitCode {
    if !error.use_stderr() {
        // A closed pipe is the reader's choice.
        let _ = error.print();
        return ExitCode::SUCCESS;
    }
    say(one_line(error));
    ExitCode::from(USAGE)
}

fn one_line(error: &clap::Error) -> String {
    let context = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.clone()),
        Some(ContextValue::Strings(texts)) => Some(texts.join(", ")),
        _ => None,
    };
    let argument = context(ContextKind::InvalidArg).unwrap_or_default();
    let value = context(ContextKind::InvalidValue);
    match error.kind() {
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand | ErrorKind::MissingSubcommand => {
            "nothing to do: name a task, such as `oncebox run --local -- echo hi`, or see `oncebox --help`".to_owned()
        }
        ErrorKind::MissingRequiredArgument if argument.contains("CMD") => {
            "the command is empty: give it after `--`, such as `oncebox run --local -- echo hi`".to_owned()
        }
        ErrorKind::UnknownArgument => {
            let hint =
                context(ContextKind::SuggestedArg).map(|known| format!(", is {known} meant?")).unwrap_or_default();
            format!("unknown option or argument {argument:?}{hint} (a command for the sandbox goes after `--`)")
        }
        ErrorKind::ValueValidation => {
            let rule = std::error::Error::source(error).map(ToString::to_string).unwrap_or_default();
            format!("{} {:?}: {rule}", option(&argument), value.unwrap_or_default())
        }
        _ => {
            let text = error.render().to_string();
            let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
            let first = lines.next().unwrap_or_default();
            let first = first.strip_prefix("error: ").unwrap_or(first);
            // "The following required arguments were not provided:" means nothing without the next line.
            match lines.next() {
                Some(next) if first.ends_with(':') => format!("{first} {next}"),
                _ => first.to_owned(),
            }
        }
    }
}

/// `--retries <N>` without its placeholder.
fn option(argument: &str) -> &str {
    argument.split(' ').next().unwrap_or(argument)
}
