//! `oncebox sandbox kill`: some sandboxes, or all that a filter leaves.

use clap::Args;
use futures_util::{StreamExt, stream};
use oncebox::{Killed, Sandbox, SandboxState};
use serde_json::json;

use super::{FilterArgs, PlainArgs, find, state};
use crate::args::{label, sandbox_id};
use crate::exit::{self, Failure};
use crate::style::bar;

/// Sandboxes that are killed at a time.
const AT_A_TIME: usize = 8;

#[derive(Debug, Args)]
pub(super) struct KillArgs {
    /// The sandboxes' ids
    #[arg(value_name = "SANDBOX", required_unless_present = "all", value_parser = sandbox_id)]
    sandboxes: Vec<String>,
    /// Kill all sandboxes that --state and --metadata leave
    #[arg(long, short, conflicts_with = "sandboxes")]
    all: bool,
    /// With --all: only those in these states: running, paused
    #[arg(long, short, value_name = "STATE", value_delimiter = ',', requires = "all", value_parser = state)]
    state: Vec<SandboxState>,
    /// With --all: only those with this label; may be repeated
    #[arg(long, short, value_name = "NAME=VALUE", requires = "all", value_parser = label)]
    metadata: Vec<(String, String)>,
    #[command(flatten)]
    plain: PlainArgs,
}

pub(super) async fn kill(args: KillArgs) -> Result<u8, Failure> {
    let (client, failed) = (args.plain.client()?, args.plain.failed());
    let ids = if args.all {
        let filter = FilterArgs { state: args.state, metadata: args.metadata };
        let found = find(&client, &filter, None).await.map_err(failed)?;
        found.into_iter().map(|sandbox| sandbox.id).collect()
    } else {
        args.sandboxes
    };
    // Before the first is killed: a mistake in the last is one in the whole.
    let sandboxes: Result<Vec<_>, _> = ids.iter().map(|id| Sandbox::by_id(&client, id)).collect();
    let bar = bar(ids.len(), args.plain.json || ids.len() == 1);
    let mut ended =
        stream::iter(sandboxes.map_err(failed)?).map(|sandbox| async move { sandbox.kill().await }).buffered(AT_A_TIME);
    // As they were typed.
    let mut ids = ids.iter();
    let (mut worst, mut told) = (None, Ok(()));
    while let Some(killed) = ended.next().await {
        let id = ids.next().map(String::as_str).unwrap_or_default();
        bar.inc(1);
        // What was begun is done to its end, whether or not anybody reads what came of it.
        match killed {
            Ok(killed) if args.plain.json => {
                let killed = match killed {
                    Killed::Now => "now",
                    Killed::ByEarlierAttempt => "by_earlier_attempt",
                    Killed::Already => "already",
                };
                told = told.and(exit::print(json!({"id": id, "killed": killed})));
            }
            Ok(Killed::Already) => bar.suspend(|| exit::say(format!("there was no sandbox {id}"))),
            Ok(_) => {}
            Err(error) if args.plain.json => {
                told = told.and(exit::print(json!({"id": id, "error": error.to_string()})));
                worst = Some(exit::INFRASTRUCTURE);
            }
            Err(error) => {
                bar.suspend(|| exit::say(format!("{id}: {error}")));
                worst = Some(exit::INFRASTRUCTURE);
            }
        }
    }
    bar.finish_and_clear();
    match worst {
        Some(code) => Ok(code),
        None => told.map(|()| 0),
    }
}
