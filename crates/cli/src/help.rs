//! The one table of commands and flags, as the parser, the help, the man pages, completions and the reference have it.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::PathBuf;

use clap::{ArgMatches, Args, Command, CommandFactory};
use clap_complete::Shell;

use crate::args::Cli;
use crate::exit::{self, EXIT_CODES, Failure};

/// The commands by what they are for.
const GROUPS: [(&str, &[&str]); 4] = [
    ("Sandboxes", &["run", "exec", "shell", "cp", "sandbox", "snapshot", "fleet"]),
    ("Account", &["template", "volume", "secret", "config"]),
    ("Servers", &["serve", "proxy"]),
    ("Testing", &["probe", "faults", "effects", "explain"]),
];

/// The last group, in one line.
const REST: &str = "More        completions, man, help; -v shows each attempt, --profile NAME, -V";

/// The parser, with its help in groups.
pub(crate) fn command() -> Command {
    let command = Cli::command();
    let mut list = String::new();
    for (group, names) in GROUPS {
        for (number, name) in names.iter().enumerate() {
            let about = command.find_subcommand(name).and_then(Command::get_about).map(ToString::to_string);
            let group = if number == 0 { group } else { "" };
            let _ = writeln!(list, "{group:<11} {name:<9} {}", about.unwrap_or_default());
        }
    }
    list.push_str(REST);
    command.help_template(format!("{{about}}\n\n{{usage-heading}} oncebox <COMMAND> [--help]\n\n{list}\n"))
}

/// Whether the command that was named was told to print JSON.
pub(crate) fn wants_json(matches: &ArgMatches) -> bool {
    let mut matches = matches;
    while let Some((_, below)) = matches.subcommand() {
        matches = below;
    }
    // Not every command has the flag.
    matches.try_get_one::<bool>("json").ok().flatten().copied().unwrap_or_default()
}

#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// The shell
    #[arg(value_name = "SHELL", value_enum)]
    shell: Shell,
}

#[derive(Debug, Args)]
pub(crate) struct ManArgs {
    /// The command whose page it is, such as `sandbox create`; by default the program's own
    #[arg(value_name = "COMMAND")]
    command: Vec<String>,
    /// Write a page for each command into this directory instead
    #[arg(long, value_name = "DIR", conflicts_with = "command")]
    dir: Option<PathBuf>,
}

/// `oncebox completions`
pub(crate) fn completions(args: &CompletionsArgs) -> Result<u8, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command(), "oncebox", &mut script);
    exit::print(String::from_utf8_lossy(&script).trim_end())?;
    Ok(0)
}

/// `oncebox man`
pub(crate) fn man(args: &ManArgs) -> Result<u8, Failure> {
    let broken = |error: std::io::Error| Failure::infrastructure(format!("the page: {error}"));
    let mut whole = Cli::command();
    whole.build();
    if let Some(folder) = &args.dir {
        let wrong = |error: std::io::Error| Failure::usage(format!("--dir {}: {error}", folder.display()));
        std::fs::create_dir_all(folder).map_err(wrong)?;
        for (path, command) in all(&whole) {
            let file = folder.join(format!("{}.1", path.join("-")));
            std::fs::write(file, page(&path, command).map_err(broken)?).map_err(wrong)?;
        }
        return Ok(0);
    }
    let mut found = &whole;
    for name in &args.command {
        found = found.find_subcommand(name).ok_or_else(|| {
            let known: Vec<&str> = shown(found).map(Command::get_name).collect();
            let known = if known.is_empty() { "it has none".to_owned() } else { known.join(", ") };
            Failure::usage(format!("COMMAND {name:?}: {} has no such command; there are: {known}", found.get_name()))
        })?;
    }
    let path: Vec<String> = found.get_bin_name().unwrap_or("oncebox").split(' ').map(str::to_owned).collect();
    let page = page(&path, found).map_err(broken)?;
    exit::print(String::from_utf8_lossy(&page).trim_end())?;
    Ok(0)
}

/// All commands with the words that lead to them, the program itself first.
pub(crate) fn all(whole: &Command) -> Vec<(Vec<String>, &Command)> {
    let mut found = vec![(vec!["oncebox".to_owned()], whole)];
    let mut next = 0;
    while let Some((path, command)) = found.get(next).cloned() {
        let below = shown(command).map(|below| ([&path[..], &[below.get_name().to_owned()]].concat(), below));
        let below: Vec<_> = below.collect();
        // Depth first: what is below a command follows it.
        found.splice(next + 1..next + 1, below);
        next += 1;
    }
    found
}

pub(crate) fn shown(command: &Command) -> impl Iterator<Item = &Command> {
    command.get_subcommands().filter(|below| !below.is_hide_set() && below.get_name() != "help")
}

fn page(path: &[String], command: &Command) -> std::io::Result<Vec<u8>> {
    let named = command.clone().name(path.join("-").leak() as &'static str).bin_name(path.join(" "));
    let man = clap_mangen::Man::new(named);
    let mut body = Vec::new();
    man.render(&mut body)?;
    // The title's line leaves out a date that there is none of, so that what follows would be taken for it.
    let (name, version) = (path.join("-"), env!("CARGO_PKG_VERSION"));
    let title = format!(".TH {name} 1 \"\" \"oncebox {version}\" \"Oncebox\"");
    let body = String::from_utf8_lossy(&body);
    let lines = body.lines().map(|line| if line.starts_with(".TH ") { title.as_str() } else { line });
    let mut page = Vec::new();
    for line in lines {
        writeln!(page, "{line}")?;
    }
    let mut more = String::from(".SH EXIT STATUS\n");
    for (code, meaning) in EXIT_CODES {
        let _ = write!(more, ".TP\n{code}\n{}\n", meaning.replace('-', "\\-"));
    }
    page.extend_from_slice(more.as_bytes());
    Ok(page)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_help_fits_a_screen_and_has_every_command() {
        let help = command().render_help().to_string();
        assert!(help.lines().count() <= 24, "{} lines:\n{help}", help.lines().count());
        for line in help.lines() {
            assert!(line.chars().count() <= 80, "{} columns: {line}", line.chars().count());
        }
        for below in shown(&Cli::command()) {
            let name = below.get_name();
            let groups = GROUPS.iter().filter(|(_, names)| names.contains(&name)).count();
            assert!(groups == 1 || REST.contains(name), "{name} is in {groups} groups");
        }
    }

    #[test]
    fn each_command_has_a_page_with_the_exit_codes() {
        let mut whole = Cli::command();
        whole.build();
        let all = all(&whole);
        assert!(all.iter().any(|(path, _)| *path == ["oncebox", "sandbox", "snapshot", "create"]));
        for (path, command) in all {
            let page = String::from_utf8(page(&path, command).unwrap()).unwrap();
            let version = env!("CARGO_PKG_VERSION");
            let title = format!("\n.TH {} 1 \"\" \"oncebox {version}\" \"Oncebox\"\n", path.join("-"));
            assert!(page.contains(&title), "{path:?}: {page}");
            assert!(page.contains(".SH EXIT STATUS"), "{path:?}");
        }
    }
}
