//! `oncebox fleet run`: one command in many sandboxes.

use std::time::Duration;

use indicatif::ProgressBar;
use oncebox::{Client, Command, CommandOutput, Error, FleetProgress, FleetReport, Sandbox};
use serde_json::json;

use crate::args::{FleetArgs, FleetRunArgs, FleetTask};
use crate::exit::{self, Failure};
use crate::signals::Signals;
use crate::style::bar;

/// The variable in which each command finds its number.
const NUMBER: &str = "ONCEBOX_NUMBER";

/// A command failed in some sandbox.
const FAILED: u8 = 1;

/// Without the fleet each sandbox soon ends by itself; commands that take longer are given more.
const LIFETIME: Duration = Duration::from_secs(3600);

pub(crate) async fn run(args: FleetArgs) -> Result<u8, Failure> {
    let FleetTask::Run(args) = args.task;
    let mut signals = Signals::new()?;
    let client = client(&args).await?;
    let bar = bar(args.count as usize, args.json);
    let result = tokio::select! {
        report = fleet(&client, &args, &bar) => Ok(report),
        signal = signals.next() => Err(signal),
    };
    bar.finish_and_clear();
    let left = tokio::select! {
        left = client.close() => left,
        // Asked twice, it does not wait.
        _ = signals.next() => Vec::new(),
    };
    for left in left {
        exit::say(left);
    }
    match result {
        Ok(report) => tell(&report, &args),
        Err(signal) => Ok(exit::SIGNAL.saturating_add(signal)),
    }
}

async fn fleet(client: &Client, args: &FleetRunArgs, bar: &ProgressBar) -> FleetReport<CommandOutput, Error> {
    let (template, creating, shown) = (args.program.template.clone(), client.clone(), bar.clone());
    client
        .fleet()
        .concurrency(args.concurrency as usize)
        .create(move |_| Sandbox::create(&creating).template(&template).lifetime(LIFETIME))
        .progress(move |progress| show(&shown, progress))
        .run(args.count as usize, |sandbox, number| {
            let command = command(args, number);
            async move { sandbox.commands().run(command).await }
        })
        .await
}

fn command(args: &FleetRunArgs, number: usize) -> Command {
    let (program, arguments) =
        args.program.command.split_first().map_or(("", &[][..]), |(first, rest)| (first.as_str(), rest));
    let mut command = Command::new(program).args(arguments).timeout(args.program.timeout);
    for (name, value) in &args.program.env {
        command = command.env(name, value);
    }
    command.env(NUMBER, number.to_string())
}

async fn client(args: &FleetRunArgs) -> Result<Client, Failure> {
    command(args, 0).validate().map_err(|error| Failure::of(&error, false))?;
    // Some more than run at a time: a killed one is cleared away while the next is made.
    args.connection.client(Some(args.concurrency as usize + 16), args.json).await
}

fn show(bar: &ProgressBar, progress: &FleetProgress) {
    bar.set_position(progress.ended() as u64);
    let mut message = format!("{} creating, {} running", progress.creating, progress.running);
    for (count, what) in [(progress.failed, "failed"), (progress.unknown, "unknown")] {
        if count > 0 {
            message.push_str(&format!(", {count} {what}"));
        }
    }
    if let Some(rate) = progress.rate {
        message.push_str(&format!(", {rate:.1}/s"));
    }
    if let Some(eta) = progress.eta() {
        message.push_str(&format!(", {} s left", eta.as_secs()));
    }
    bar.set_message(message);
}

fn tell(report: &FleetReport<CommandOutput, Error>, args: &FleetRunArgs) -> Result<u8, Failure> {
    let (mut failed, mut ended_badly) = (0_usize, 0_usize);
    for (number, result) in report.results() {
        let bad = !result.as_ref().is_ok_and(CommandOutput::success);
        failed += usize::from(bad);
        ended_badly += usize::from(bad && result.is_ok());
        if args.json {
            exit::print(match result {
                Ok(output) => json!({
                    "number": number,
                    "exit_code": output.exit_code(),
                    "stdout": output.stdout_text(),
                    "stderr": output.stderr_text(),
                }),
                Err(error) => json!({
                    "number": number,
                    "error": error.to_string(),
                    "intent": error.intent(),
                    "may_have_been_processed": error.may_have_been_processed(),
                }),
            })?;
            continue;
        }
        match result {
            Ok(output) => {
                for line in output.stdout_text().lines() {
                    exit::print(format!("{number}: {line}"))?;
                }
                for line in output.stderr_text().lines() {
                    exit::say(format!("{number}: {line}"));
                }
                if bad {
                    exit::say(format!("{number}: ended with {}", output.exit_code()));
                }
            }
            Err(error) => exit::say(format!("{number}: {error}")),
        }
    }
    if args.json {
        exit::print(json!({
            "count": report.results().len(),
            "failed": failed,
            "created": report.created(),
            "adopted": report.adopted(),
            "lost": report.lost(),
            "doubled": report.doubled(),
            "unknown": report.unknown(),
            "left": report.left(),
            "limited": report.limited(),
            "seconds": report.elapsed().as_secs_f64(),
        }))?;
    } else {
        exit::say(report);
        // The report knows of sandboxes and calls; what a command's own code means is not its business.
        if ended_badly > 0 {
            exit::say(format!("in {ended_badly} of them the command itself failed"));
        }
    }
    Ok(if failed == 0 { 0 } else { FAILED })
}
