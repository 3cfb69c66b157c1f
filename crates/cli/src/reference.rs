//! `docs/cli.md`, made from the tables that the program itself uses. `ONCEBOX_WRITE_DOCS=1 cargo test -p oncebox-cli` writes it.

use std::fmt::Write as _;
use std::path::Path;

use clap::{Arg, ArgAction, Args, Command, CommandFactory};

use crate::args::Cli;
use crate::config::settings;
use crate::connection::ProviderArgs;
use crate::exit::EXIT_CODES;
use crate::help;

const BEGIN: &str = "\
# The command

This page is written from the program's own table of commands and flags; `oncebox --help`, `oncebox man` and `oncebox completions`
say the same. A test fails when it is not current.

";

const CONFIGURATION: &str = "
## Configuration

Each setting comes from the first of these that has it: a flag, the environment, the profile of the configuration file, the
file's beginning, the default. The four addresses belong together: where a flag or a variable gives one of them, the file's are
left aside. `oncebox config` tells what holds, and where each value is from; of keys no more than their end is shown, of URLs no
user and no password. Where nothing sets `proxy`, the proxies of `HTTP_PROXY`, `HTTPS_PROXY`, `ALL_PROXY` and `NO_PROXY` are told, too.

The file is `$ONCEBOX_CONFIG`, else `$XDG_CONFIG_HOME/oncebox/config.toml`, else `~/.config/oncebox/config.toml`. The profile is
that of `--profile`, else of `ONCEBOX_PROFILE`, else the file's `profile`. A name that is misspelt is refused.

```toml
profile = \"work\"            # used unless another is named
request_timeout = 30          # for all profiles

[profiles.work]
api_key = \"e2b_…\"
domain = \"e2b.app\"

[profiles.here]               # what `oncebox serve` prints
api_key = \"local\"
api_url = \"http://127.0.0.1:3000\"
sandbox_url = \"http://127.0.0.1:3000\"
volume_api_url = \"http://127.0.0.1:3000\"
```

| setting | flag | variable | default |
|---|---|---|---|
";

const OUTPUT: &str = "
## Output

What a program may want to read is printed as JSON with `--json`; errors of calls are then an object on standard output too, with
their kind, their attempts and what is known. Of a command line that is wrong nothing came: the object, of the same form and of the
kind `InvalidArgument`, is then on standard error, and the exit code is 2. What failed on this side without a call is of the kind
`Failed`. Bars and notes go to standard error, bars only where that is a terminal and no `--json` is given. Colours are used on a
terminal only, and not with `NO_COLOR` or `TERM=dumb`.

Where whoever reads the output has gone, as with `| head -1`, the command ends without a word; what it was asked to do, such as
`sandbox kill --all`, it does to its end. A command that `exec` has started is asked to end, unless it is durable.

## What is not there

To kill or delete what is not there is no failure, as with the official SDKs, whose calls return `false` then: it is gone. `sandbox
kill`, `template delete`, `volume delete`, `volume rm`, `secret delete` and `snapshot delete` say so on standard error, or in their
JSON, and exit with 0. All other commands fail with 125 when what they name is not there; so does `template untag`, for which the
server removes either all the tags or none.

## Ids of sandboxes

A sandbox's id is of a-z and 0-9. Old ones have a client's id behind it, a hyphen and 8 hex digits, which is accepted and means
nothing. Anything else behind a hyphen is refused: E2B's servers cut whatever follows one, so that a slip would name another sandbox.

";

fn page() -> String {
    let mut page = BEGIN.to_owned();
    let _ = write!(page, "```text\n{}```\n", help::command().render_help());
    page.push_str(CONFIGURATION);
    for (name, flag, variable, default) in settings() {
        let code = |text: Option<&str>| text.map(|text| format!("`{text}`")).unwrap_or_default();
        let _ = writeln!(page, "| `{name}` | {} | {} | {} |", code(flag), code(variable), default.unwrap_or_default());
    }
    page.push_str(OUTPUT);
    page.push_str("## Exit codes\n\n| code | meaning |\n|---|---|\n");
    for (code, meaning) in EXIT_CODES {
        let _ = writeln!(page, "| {code} | {meaning} |");
    }
    let shared = ProviderArgs::augment_args(Command::new("shared"));
    page.push_str("\n## Connection options\n\nCommands that speak to a provider of sandboxes have these.\n\n");
    table(&mut page, shared.get_arguments());
    let mut whole = Cli::command();
    whole.build();
    for (path, command) in help::all(&whole) {
        if path.len() > 1 {
            section(&mut page, &path, command, &shared);
        }
    }
    page
}

fn section(page: &mut String, path: &[String], command: &Command, shared: &Command) {
    let about = command.get_long_about().or(command.get_about()).map(ToString::to_string).unwrap_or_default();
    let _ = write!(page, "\n{} {}\n\n{about}.\n", if path.len() == 2 { "##" } else { "###" }, path.join(" "));
    let aliases: Vec<String> = command.get_visible_aliases().map(|alias| format!("`{alias}`")).collect();
    if !aliases.is_empty() {
        let _ = write!(page, "\nAlso called {}.\n", aliases.join(", "));
    }
    if command.has_subcommands() {
        return;
    }
    let usage = command.clone().render_usage().to_string();
    let usage = usage.trim().trim_start_matches("Usage:").trim();
    let _ = write!(page, "\n```text\n{usage}\n```\n\n");
    let is_shared = |arg: &Arg| shared.get_arguments().any(|other| other.get_id() == arg.get_id());
    let own = command.get_arguments().filter(|arg| !is_shared(arg) && !is_of_all(arg));
    table(page, own);
    if command.get_arguments().any(is_shared) {
        page.push_str("\nAnd the [connection options](#connection-options).\n");
    }
}

fn is_of_all(arg: &Arg) -> bool {
    ["help", "version", "verbose", "profile"].contains(&arg.get_id().as_str()) || arg.is_hide_set()
}

fn table<'a>(page: &mut String, arguments: impl Iterator<Item = &'a Arg>) {
    let mut rows = String::new();
    for arg in arguments {
        let name = match (arg.get_short(), arg.get_long()) {
            (Some(short), Some(long)) => format!("-{short}, --{long}"),
            (None, Some(long)) => format!("--{long}"),
            (Some(short), None) => format!("-{short}"),
            (None, None) => String::new(),
        };
        let takes = matches!(arg.get_action(), ArgAction::Set | ArgAction::Append);
        let value = arg.get_value_names().filter(|_| takes).and_then(|names| names.first()).map(ToString::to_string);
        let name = [Some(name).filter(|name| !name.is_empty()), value].into_iter().flatten().collect::<Vec<_>>();
        let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
        let defaults: Vec<String> =
            arg.get_default_values().iter().map(|value| value.to_string_lossy().into_owned()).collect();
        let allowed: Vec<String> =
            arg.get_possible_values().iter().map(|value| value.get_name().to_owned()).filter(|_| takes).collect();
        let mut told = help.replace('|', "\\|");
        if !allowed.is_empty() {
            let _ = write!(told, " [{}]", allowed.join(", "));
        }
        if !defaults.is_empty() && takes && !told.contains("[default") {
            let _ = write!(told, " [default: {}]", defaults.join(", "));
        }
        let _ = writeln!(rows, "| `{}` | {told} |", name.join(" "));
    }
    if !rows.is_empty() {
        let _ = write!(page, "| | |\n|---|---|\n{rows}");
    }
}

#[test]
fn the_reference_is_current() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/cli.md");
    let page = page();
    if std::env::var_os("ONCEBOX_WRITE_DOCS").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    let differs = written.lines().zip(page.lines()).find(|(written, now)| written != now);
    assert!(
        written == page,
        "docs/cli.md is not current: `ONCEBOX_WRITE_DOCS=1 cargo test -p oncebox-cli` writes it; first difference: {differs:?}"
    );
}
