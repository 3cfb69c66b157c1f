//! `oncebox sandbox`: sandboxes made, found, looked at, paused and killed.

mod kill;
mod observe;
mod show;

use std::time::Duration;

use clap::{Args, Subcommand};
use futures_util::StreamExt;
use oncebox::{Client, Pause, Paused, Sandbox, SandboxInfo, SandboxState};
use serde_json::json;

use crate::args::{ExecArgs, ShellArgs, label, non_empty, pair, sandbox_id, seconds_over_zero, whole};
use crate::connection::ProviderArgs;
use crate::exit::{self, Failure};
use crate::signals::Signals;
use crate::snapshot::SnapshotArgs;
use crate::{exec, shell, snapshot};
use kill::KillArgs;
use observe::{LogsArgs, MetricsArgs};

#[derive(Debug, Args)]
pub(crate) struct SandboxArgs {
    #[command(subcommand)]
    task: SandboxTask,
}

#[derive(Debug, Subcommand)]
enum SandboxTask {
    /// Make a sandbox and print its id; it lives on until its lifetime ends
    #[command(visible_alias = "cr", alias = "spawn")]
    Create(CreateArgs),
    /// List sandboxes
    #[command(visible_alias = "ls")]
    List(ListArgs),
    /// Describe a sandbox; a paused one stays paused
    #[command(visible_alias = "in")]
    Info(OneArgs),
    /// Kill sandboxes
    #[command(visible_alias = "kl")]
    Kill(KillArgs),
    /// Pause a sandbox: its files, and its processes unless told otherwise, are there when it is resumed
    #[command(visible_alias = "ps")]
    Pause(PauseArgs),
    /// Resume a paused sandbox
    #[command(visible_alias = "rs")]
    Resume(ResumeArgs),
    /// Open a terminal in a sandbox, as `shell` does
    #[command(visible_alias = "cn")]
    Connect(Box<ShellArgs>),
    /// Open a terminal in a sandbox
    Shell(Box<ShellArgs>),
    /// Run a command in a sandbox
    #[command(visible_alias = "ex")]
    Exec(Box<ExecArgs>),
    /// Show a sandbox's log
    #[command(visible_alias = "lg")]
    Logs(LogsArgs),
    /// Show what a sandbox uses
    #[command(visible_alias = "mt")]
    Metrics(MetricsArgs),
    /// Take snapshots of sandboxes, list and delete them
    #[command(visible_alias = "snap")]
    Snapshot(SnapshotArgs),
}

#[derive(Debug, Args)]
struct CreateArgs {
    /// What to make it from: a template's name, name:tag or id, or a snapshot's id
    #[arg(value_name = "TEMPLATE", default_value = "base", value_parser = non_empty)]
    template: String,
    /// How long it lives, in seconds [default: the server's, 300]
    #[arg(long, short = 't', value_name = "SECONDS", value_parser = seconds_over_zero, allow_hyphen_values = true)]
    lifetime: Option<Duration>,
    /// Label the sandbox; may be repeated
    #[arg(long, short, value_name = "NAME=VALUE", value_parser = label)]
    metadata: Vec<(String, String)>,
    /// Set an environment variable for all its commands; may be repeated
    #[arg(long, short, value_name = "NAME=VALUE", value_parser = pair)]
    env: Vec<(String, String)>,
    /// Mount a volume; may be repeated
    #[arg(long, value_name = "NAME:PATH", value_parser = mount)]
    volume: Vec<(String, String)>,
    /// Keep the sandbox from the internet
    #[arg(long)]
    no_internet: bool,
    /// Pause the sandbox at the end of its lifetime, in place of killing it
    #[arg(long)]
    pause_at_end: bool,
    /// The create's name, 32 lower-case hex digits: asked for again with it, the same sandbox comes back
    #[arg(long, value_name = "INTENT", value_parser = intent)]
    intent: Option<String>,
    #[command(flatten)]
    plain: PlainArgs,
}

#[derive(Debug, Args)]
struct ListArgs {
    #[command(flatten)]
    filter: FilterArgs,
    /// At most so many
    #[arg(long, short, value_name = "N", value_parser = whole::<u32>(1, None), allow_hyphen_values = true)]
    limit: Option<u32>,
    #[command(flatten)]
    plain: PlainArgs,
}

/// Which sandboxes.
#[derive(Debug, Args)]
struct FilterArgs {
    /// Only those in these states: running, paused
    #[arg(long, short, value_name = "STATE", value_delimiter = ',', value_parser = state)]
    state: Vec<SandboxState>,
    /// Only those with this label; may be repeated
    #[arg(long, short, value_name = "NAME=VALUE", value_parser = label)]
    metadata: Vec<(String, String)>,
}

#[derive(Debug, Args)]
struct OneArgs {
    /// The sandbox's id
    #[arg(value_name = "SANDBOX", value_parser = sandbox_id)]
    sandbox: String,
    #[command(flatten)]
    plain: PlainArgs,
}

#[derive(Debug, Args)]
struct PauseArgs {
    /// The sandbox's id
    #[arg(value_name = "SANDBOX", value_parser = sandbox_id)]
    sandbox: String,
    /// Keep its files only: processes end
    #[arg(long)]
    files_only: bool,
    #[command(flatten)]
    plain: PlainArgs,
}

#[derive(Debug, Args)]
struct ResumeArgs {
    /// The sandbox's id
    #[arg(value_name = "SANDBOX", value_parser = sandbox_id)]
    sandbox: String,
    /// How long it lives from now, in seconds [default: the server's, 300]
    #[arg(long, short = 't', value_name = "SECONDS", value_parser = seconds_over_zero, allow_hyphen_values = true)]
    lifetime: Option<Duration>,
    #[command(flatten)]
    plain: PlainArgs,
}

#[derive(Debug, Args)]
pub(crate) struct PlainArgs {
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) connection: ProviderArgs,
}

impl PlainArgs {
    pub(crate) fn client(&self) -> Result<Client, Failure> {
        self.connection.client(self.json)
    }

    pub(crate) fn failed(&self) -> impl Fn(oncebox::Error) -> Failure + Copy + use<> {
        let json = self.json;
        move |error| Failure::of(&error, json)
    }
}

pub(crate) async fn run(args: SandboxArgs) -> Result<u8, Failure> {
    match args.task {
        SandboxTask::Create(args) => create(args).await,
        SandboxTask::List(args) => {
            let found = find(&args.plain.client()?, &args.filter, args.limit).await.map_err(args.plain.failed())?;
            show::list(&found, args.plain.json)
        }
        SandboxTask::Info(OneArgs { sandbox, plain }) => {
            let sandbox = Sandbox::by_id(&plain.client()?, &sandbox).map_err(plain.failed())?;
            show::one(&sandbox.info().await.map_err(plain.failed())?, plain.json)
        }
        SandboxTask::Kill(args) => kill::kill(args).await,
        SandboxTask::Pause(PauseArgs { sandbox, files_only, plain }) => {
            let how = if files_only { Pause::filesystem() } else { Pause::full() };
            let sandbox = Sandbox::by_id(&plain.client()?, &sandbox).map_err(plain.failed())?;
            let paused = sandbox.pause(how).await.map_err(plain.failed())?;
            if plain.json {
                exit::print(json!({"id": sandbox.id(), "paused": match paused {
                    Paused::Now => "now",
                    Paused::ByEarlierAttempt => "by_earlier_attempt",
                    Paused::Already => "already",
                }}))?;
            } else if paused == Paused::Already {
                exit::say(format!("{} was paused already", sandbox.id()));
            }
            Ok(0)
        }
        SandboxTask::Resume(ResumeArgs { sandbox, lifetime, plain }) => {
            let sandbox = Sandbox::connect(&plain.client()?, &sandbox).await.map_err(plain.failed())?;
            if let Some(lifetime) = lifetime {
                sandbox.set_timeout(lifetime).await.map_err(plain.failed())?;
            }
            if plain.json {
                show::one(&sandbox.info().await.map_err(plain.failed())?, true)?;
            }
            Ok(0)
        }
        SandboxTask::Connect(args) | SandboxTask::Shell(args) => shell::run(*args).await,
        SandboxTask::Exec(args) => exec::run(*args).await,
        SandboxTask::Logs(args) => observe::logs(args).await,
        SandboxTask::Metrics(args) => observe::metrics(args).await,
        SandboxTask::Snapshot(args) => snapshot::run(args).await,
    }
}

async fn create(args: CreateArgs) -> Result<u8, Failure> {
    let mut signals = Signals::new()?;
    let client = args.plain.client()?;
    let mut create = Sandbox::create(&client).template(&args.template);
    if let Some(lifetime) = args.lifetime {
        create = create.lifetime(lifetime);
    }
    for (name, value) in &args.metadata {
        create = create.metadata(name, value);
    }
    for (name, value) in &args.env {
        create = create.env(name, value);
    }
    for (name, path) in &args.volume {
        create = create.volume(name, path);
    }
    if args.no_internet {
        create = create.allow_internet_access(false);
    }
    if args.pause_at_end {
        create = create.pause_at_end(Pause::full());
    }
    if let Some(intent) = &args.intent {
        create = create.intent(intent);
    }
    let made = tokio::select! {
        made = create => Ok(made),
        // Dropped, it is given up: what was sent is looked for and killed.
        signal = signals.next() => Err(signal),
    };
    let result = match made {
        Err(signal) => Ok(exit::SIGNAL.saturating_add(signal)),
        Ok(Err(error)) => Err(Failure::of(&error, args.plain.json)),
        Ok(Ok(sandbox)) => show::made(&sandbox, args.plain.json),
    };
    let left = tokio::select! {
        left = client.close() => left,
        // Asked twice, it does not wait.
        _ = signals.next() => Vec::new(),
    };
    for left in left {
        exit::say(left);
    }
    result
}

async fn find(client: &Client, filter: &FilterArgs, limit: Option<u32>) -> Result<Vec<SandboxInfo>, oncebox::Error> {
    let mut list = Sandbox::list(client);
    for state in &filter.state {
        list = list.state(state.clone());
    }
    for (name, value) in &filter.metadata {
        list = list.metadata(name, value);
    }
    let mut found = std::pin::pin!(list.stream().take(limit.map_or(usize::MAX, |limit| limit as usize)));
    let mut all = Vec::new();
    while let Some(sandbox) = found.next().await {
        all.push(sandbox?);
    }
    Ok(all)
}

fn state(text: &str) -> Result<SandboxState, String> {
    match text {
        "running" => Ok(SandboxState::Running),
        "paused" => Ok(SandboxState::Paused),
        _ => Err("it must be running or paused".to_owned()),
    }
}

fn intent(text: &str) -> Result<String, String> {
    let is_intent = text.len() == 32 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    if is_intent {
        Ok(text.to_owned())
    } else {
        Err("it must be 32 lower-case hex digits; without it one is minted".into())
    }
}

fn mount(text: &str) -> Result<(String, String), String> {
    match text.split_once(':') {
        Some((name, path)) if !name.is_empty() && path.starts_with('/') => Ok((name.to_owned(), path.to_owned())),
        _ => Err("it must look like NAME:/PATH, such as data:/mnt/data".into()),
    }
}
