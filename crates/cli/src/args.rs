//! The command line.

mod values;

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};

use crate::config::ConfigArgs;
use crate::connection::{ConnectionArgs, ProviderArgs};
use crate::cp::CpArgs;
use crate::effects::EffectsArgs;
use crate::explain::ExplainArgs;
use crate::faults::FaultsArgs;
use crate::help::{CompletionsArgs, ManArgs};
use crate::probe::ProbeArgs;
use crate::proxy::ProxyArgs;
use crate::sandbox::SandboxArgs;
use crate::secret::SecretArgs;
use crate::snapshot::SnapshotArgs;
use crate::template::TemplateArgs;
use crate::volume::VolumeArgs;
use values::{durable_id, memory, processors};
pub(crate) use values::{ip, label, non_empty, pair, port, retries, sandbox_id, seconds, seconds_over_zero, whole};

/// Sandboxes over HTTP whose effects happen once.
#[derive(Debug, Parser)]
#[command(name = "oncebox", version, max_term_width = 100)]
pub(crate) struct Cli {
    /// Show each call with its attempts on standard error; RUST_LOG says more precisely what.
    #[arg(long, short, global = true)]
    pub(crate) verbose: bool,
    /// Use this profile of the configuration file [env: ONCEBOX_PROFILE]
    #[arg(long, value_name = "NAME", global = true, value_parser = non_empty)]
    pub(crate) profile: Option<String>,
    #[command(subcommand)]
    pub(crate) task: Task,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Task {
    /// Make a sandbox, run a command in it, and kill it
    Run(RunArgs),
    /// Run a command in a sandbox that is there already
    Exec(ExecArgs),
    /// Open a terminal in a sandbox
    Shell(ShellArgs),
    /// Copy files and directories into a sandbox, or out of it
    Cp(CpArgs),
    /// Make, list, look at, pause and kill sandboxes
    #[command(visible_alias = "sbx")]
    Sandbox(SandboxArgs),
    /// Take snapshots of sandboxes, list and delete them
    #[command(visible_alias = "snap")]
    Snapshot(SnapshotArgs),
    /// Run a command in many sandboxes at once
    Fleet(FleetArgs),
    /// Build templates, and look after them
    #[command(visible_alias = "tpl")]
    Template(TemplateArgs),
    /// Make volumes, and read and write what is in them
    Volume(VolumeArgs),
    /// Store, list and delete secrets; values are never shown
    Secret(SecretArgs),
    /// Tell which options hold, and where each is from
    Config(ConfigArgs),
    /// Serve local sandboxes to any E2B-compatible client
    Serve(ServeArgs),
    /// Let any E2B SDK have these guarantees, by two URLs
    Proxy(ProxyArgs),
    /// Send requests and tell what became of them
    Probe(ProbeArgs),
    /// Serve HTTP that misbehaves by a script, or a local server
    Faults(FaultsArgs),
    /// Tell what really happened on a local server, how often
    Effects(EffectsArgs),
    /// Tell what would happen after an attempt, by which rule
    Explain(ExplainArgs),
    /// Print a shell's completions, such as `oncebox completions bash`
    Completions(CompletionsArgs),
    /// Print a man page, such as `oncebox man run | man -l -`
    Man(ManArgs),
}

#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// Run in this existing sandbox, and leave it running
    #[arg(long, value_name = "ID", value_parser = sandbox_id,
        conflicts_with_all = ["local", "template", "metadata"])]
    pub(crate) sandbox: Option<String>,
    /// Label the sandbox; may be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = label)]
    pub(crate) metadata: Vec<(String, String)>,
    /// Read environment variables from a file, one NAME=VALUE a line
    #[arg(long, value_name = "FILE")]
    pub(crate) env_file: Option<PathBuf>,
    /// Working directory in the sandbox
    #[arg(long, value_name = "PATH", value_parser = non_empty)]
    pub(crate) cwd: Option<String>,
    /// Whom the command runs as
    #[arg(long, value_name = "NAME", value_parser = non_empty)]
    pub(crate) user: Option<String>,
    /// Pass standard input on to the command
    #[arg(long, short = 'i')]
    pub(crate) stdin: bool,
    /// Print one JSON object when the command has ended, instead of its output as it comes
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) program: ProgramArgs,
    #[command(flatten)]
    pub(crate) connection: ConnectionArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ExecArgs {
    /// The sandbox's id; it is resumed where it is paused
    #[arg(value_name = "SANDBOX", value_parser = sandbox_id)]
    pub(crate) sandbox: String,
    /// Keep output, input and end in the sandbox until they are taken, so that a lost connection loses nothing
    #[arg(long)]
    pub(crate) durable: bool,
    /// The durable command's id; the same command with the same id attaches to the one that there is
    #[arg(long, value_name = "ID", value_parser = durable_id)]
    pub(crate) id: Option<String>,
    /// Follow the durable command of this id, whatever it is, instead of starting one
    #[arg(long, value_name = "ID", value_parser = durable_id,
        conflicts_with_all = ["durable", "id", "env", "env_file", "cwd", "timeout", "command"])]
    pub(crate) attach: Option<String>,
    /// Pass standard input on to the command
    #[arg(long, short = 'i')]
    pub(crate) stdin: bool,
    /// Set an environment variable; may be repeated
    #[arg(long, short, value_name = "NAME=VALUE", value_parser = pair)]
    pub(crate) env: Vec<(String, String)>,
    /// Read environment variables from a file, one NAME=VALUE a line
    #[arg(long, value_name = "FILE")]
    pub(crate) env_file: Option<PathBuf>,
    /// Working directory in the sandbox
    #[arg(long, value_name = "PATH", value_parser = non_empty)]
    pub(crate) cwd: Option<String>,
    /// Whom the command runs as
    #[arg(long, value_name = "NAME", value_parser = non_empty)]
    pub(crate) user: Option<String>,
    /// Kill the command after this many seconds; 0 is never
    #[arg(long, value_name = "SECONDS", default_value = "0", value_parser = seconds, allow_hyphen_values = true)]
    pub(crate) timeout: Duration,
    /// Print one JSON object when the command has ended, instead of its output as it comes
    #[arg(long)]
    pub(crate) json: bool,
    /// The command and its arguments
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, required_unless_present = "attach", value_name = "CMD")]
    pub(crate) command: Vec<String>,
    #[command(flatten)]
    pub(crate) connection: ProviderArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ShellArgs {
    /// The sandbox's id; it is resumed where it is paused
    #[arg(value_name = "SANDBOX", value_parser = sandbox_id)]
    pub(crate) sandbox: String,
    /// Attach to this process, which has a terminal, instead of starting a shell
    #[arg(long, value_name = "PID", value_parser = whole::<u32>(1, None), allow_hyphen_values = true,
        conflicts_with_all = ["env", "cwd", "user", "command"])]
    pub(crate) attach: Option<u32>,
    /// Set an environment variable; may be repeated
    #[arg(long, short, value_name = "NAME=VALUE", value_parser = pair)]
    pub(crate) env: Vec<(String, String)>,
    /// Working directory in the sandbox
    #[arg(long, value_name = "PATH", value_parser = non_empty)]
    pub(crate) cwd: Option<String>,
    /// Whom the shell runs as
    #[arg(long, value_name = "NAME", value_parser = non_empty)]
    pub(crate) user: Option<String>,
    /// What to run on the terminal [default: a login shell]
    #[arg(last = true, value_name = "CMD")]
    pub(crate) command: Vec<String>,
    #[command(flatten)]
    pub(crate) connection: ProviderArgs,
}

/// What runs in new sandboxes.
#[derive(Debug, Args)]
pub(crate) struct ProgramArgs {
    /// What to make the sandbox from
    #[arg(long, value_name = "NAME", default_value = "base", value_parser = non_empty)]
    pub(crate) template: String,
    /// Set an environment variable; may be repeated
    #[arg(long, short, value_name = "NAME=VALUE", value_parser = pair)]
    pub(crate) env: Vec<(String, String)>,
    /// Kill the command after this many seconds; 0 is never
    #[arg(long, value_name = "SECONDS", default_value = "0", value_parser = seconds, allow_hyphen_values = true)]
    pub(crate) timeout: Duration,
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    pub(crate) command: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct FleetArgs {
    #[command(subcommand)]
    pub(crate) task: FleetTask,
}

#[derive(Debug, Subcommand)]
pub(crate) enum FleetTask {
    /// Make sandboxes, run the command in each, kill them, and tell what became of them. The command finds its number,
    /// from 0, in ONCEBOX_NUMBER
    Run(FleetRunArgs),
}

#[derive(Debug, Args)]
pub(crate) struct FleetRunArgs {
    /// How many sandboxes in all
    #[arg(long, short = 'n', value_name = "N", value_parser = whole::<u32>(1, Some(1_000_000)), allow_hyphen_values = true)]
    pub(crate) count: u32,
    /// How many at a time
    #[arg(long, short = 'c', value_name = "C", default_value_t = 50,
        value_parser = whole::<u32>(1, Some(10_000)), allow_hyphen_values = true)]
    pub(crate) concurrency: u32,
    /// Print one JSON object a sandbox, and one for all at the end
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) program: ProgramArgs,
    #[command(flatten)]
    pub(crate) connection: ConnectionArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    /// Port to listen on; 0 takes any free one
    #[arg(long, short, default_value_t = 3000, value_parser = port, allow_hyphen_values = true)]
    pub(crate) port: u16,
    /// Address to listen on; any other than a loopback one lets other machines in, and needs a token
    #[arg(long, value_name = "IP", default_value = "127.0.0.1", value_parser = ip)]
    pub(crate) listen: std::net::IpAddr,
    /// The API key that every client must have; by default any will do [env: ONCEBOX_TOKEN]
    #[arg(long, value_name = "TOKEN")]
    pub(crate) token: Option<String>,
    /// Another name by which clients reach the server; may be repeated
    #[arg(long, value_name = "NAME")]
    pub(crate) allow_host: Vec<String>,
    /// Keep sandboxes, templates, volumes and all records in this folder; by default nothing outlives the server
    #[arg(long, value_name = "DIR")]
    pub(crate) state: Option<PathBuf>,
    /// Run sandboxes without isolating them from this machine
    #[arg(long)]
    pub(crate) no_isolation: bool,
    /// Processors that a sandbox may use at a time, such as 1.5; by default all
    #[arg(long, value_name = "NUMBER", value_parser = processors, allow_hyphen_values = true)]
    pub(crate) cpus: Option<f64>,
    /// Memory that a sandbox may use, such as 512M or 2G, or none for no limit [default: half of the machine's]
    #[arg(long, value_name = "BYTES", value_parser = memory, allow_hyphen_values = true)]
    pub(crate) memory: Option<Memory>,
    /// Processes and threads that a sandbox may have
    #[arg(long, value_name = "NUMBER", default_value_t = 1024, value_parser = whole::<u32>(0, None), allow_hyphen_values = true)]
    pub(crate) pids: u32,
    /// What sandboxes can reach. With host they share the machine's network and ports, and reach this server too
    #[arg(long, value_name = "WHAT", default_value = "auto")]
    pub(crate) network: NetworkArg,
    /// Tell what keeps sandboxes apart on this machine with the other options, and what does not, instead of serving
    #[arg(long)]
    pub(crate) explain_isolation: bool,
    /// Let pages of this origin use the server, such as http://localhost:5173; may be repeated
    #[arg(long, value_name = "ORIGIN")]
    pub(crate) allow_origin: Vec<String>,
    /// Python whose kernels run code in sandboxes; it needs ipykernel [default: /usr/bin/python3]
    #[arg(long, value_name = "PYTHON")]
    pub(crate) code_interpreter: Option<PathBuf>,
    /// Misbehave from the start by this fault document, JSON; {} lets `oncebox faults set` begin later
    #[arg(long, value_name = "FILE")]
    pub(crate) faults: Option<PathBuf>,
    /// Print the address, or what --explain-isolation tells, as one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// A limit of memory, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Memory(pub(crate) Option<u64>);

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum NetworkArg {
    /// As egress where pasta is installed and works, else none
    Auto,
    /// Nothing outside the sandbox
    None,
    /// What this machine's network reaches, but not this machine, with ports of the sandbox's own; needs pasta
    Egress,
    /// What this machine reaches
    Host,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_table_of_flags_is_consistent() {
        Cli::command().debug_assert();
    }
}
