//! The `oncebox` command.

mod args;
mod bounded;
mod config;
mod connection;
mod cp;
mod effects;
mod exec;
mod exit;
mod explain;
mod faults;
mod fleet;
mod help;
mod probe;
mod program;
mod proxy;
#[cfg(test)]
mod reference;
mod run;
mod sandbox;
mod secret;
mod serve;
mod shell;
mod signals;
mod snapshot;
mod style;
mod template;
mod usage;
mod volume;

use std::process::ExitCode;

use clap::FromArgMatches;

use args::{Cli, Task};
use exit::Failure;

/// The subcommand by which this program becomes the process inside a local sandbox. Not for people.
const ENVD_HELPER: &str = "envd-helper";

fn main() -> ExitCode {
    // Before anything else: inside a sandbox nothing of the command line's own applies.
    let mut args = std::env::args_os();
    if args.nth(1).is_some_and(|arg| arg == ENVD_HELPER) {
        return oncebox_local::helper_main(args);
    }
    let parsed = help::command().try_get_matches().and_then(|matches| {
        let cli = Cli::from_arg_matches(&matches)?;
        Ok((cli, help::wants_json(&matches)))
    });
    match parsed {
        Ok((cli, as_json)) => exit::end(start(cli), as_json),
        Err(error) => usage::report(&error),
    }
}

fn start(cli: Cli) -> Result<u8, Failure> {
    log(cli.verbose);
    config::choose(cli.profile);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::infrastructure(format!("no runtime: {error}")))?;
    let result = match cli.task {
        Task::Run(args) => runtime.block_on(run::run(args)),
        Task::Exec(args) => runtime.block_on(exec::run(args)),
        Task::Shell(args) => runtime.block_on(shell::run(args)),
        Task::Fleet(args) => runtime.block_on(fleet::run(args)),
        Task::Cp(args) => runtime.block_on(cp::run(args)),
        Task::Proxy(args) => runtime.block_on(proxy::run(args)),
        Task::Serve(args) => runtime.block_on(serve::serve(args)),
        Task::Probe(args) => runtime.block_on(probe::run(args)),
        Task::Faults(args) => runtime.block_on(faults::run(args)),
        Task::Effects(args) => runtime.block_on(effects::run(args)),
        Task::Template(args) => runtime.block_on(template::run(args)),
        Task::Secret(args) => runtime.block_on(secret::run(args)),
        Task::Volume(args) => runtime.block_on(volume::run(args)),
        Task::Sandbox(args) => runtime.block_on(sandbox::run(args)),
        Task::Snapshot(args) => runtime.block_on(snapshot::run(args)),
        Task::Explain(args) => explain::run(&args),
        Task::Config(args) => config::run(&args),
        Task::Completions(args) => help::completions(&args),
        Task::Man(args) => help::man(&args),
    };
    // A read of the terminal may still block; it must not keep the program from ending.
    runtime.shutdown_background();
    result
}

fn log(verbose: bool) {
    use tracing_subscriber::EnvFilter;

    let filter = match EnvFilter::try_from_default_env() {
        Ok(filter) => filter,
        Err(_) if verbose => EnvFilter::new("oncebox=debug,oncebox_transport=debug,oncebox_local=debug"),
        Err(_) => return,
    };
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    lines.with_ansi(style::colours_errors()).init();
}
