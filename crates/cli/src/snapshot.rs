//! `oncebox snapshot`: sandboxes to begin others from.

use clap::{Args, Subcommand};
use oncebox::{Sandbox, Snapshot};
use serde_json::{Value, json};

use crate::args::{non_empty, sandbox_id};
use crate::exit::{self, Failure};
use crate::sandbox::PlainArgs;
use crate::secret::told_deleted;

#[derive(Debug, Args)]
pub(crate) struct SnapshotArgs {
    #[command(subcommand)]
    task: SnapshotTask,
}

#[derive(Debug, Subcommand)]
enum SnapshotTask {
    /// Take a snapshot of a sandbox, which goes on running, and print its id
    Create(CreateArgs),
    /// List snapshots
    #[command(visible_alias = "ls")]
    List(ListArgs),
    /// Delete a snapshot
    #[command(alias = "rm")]
    Delete(DeleteArgs),
}

#[derive(Debug, Args)]
struct CreateArgs {
    /// The sandbox's id
    #[arg(value_name = "SANDBOX", value_parser = sandbox_id)]
    sandbox: String,
    /// A name for it, which can be used in place of its id
    #[arg(long, value_name = "NAME", value_parser = non_empty)]
    name: Option<String>,
    #[command(flatten)]
    plain: PlainArgs,
}

#[derive(Debug, Args)]
struct ListArgs {
    /// Only those of this sandbox
    #[arg(long, value_name = "SANDBOX", value_parser = sandbox_id)]
    sandbox: Option<String>,
    #[command(flatten)]
    plain: PlainArgs,
}

#[derive(Debug, Args)]
struct DeleteArgs {
    /// The snapshot's id
    #[arg(value_name = "SNAPSHOT", value_parser = non_empty)]
    snapshot: String,
    #[command(flatten)]
    plain: PlainArgs,
}

pub(crate) async fn run(args: SnapshotArgs) -> Result<u8, Failure> {
    match args.task {
        SnapshotTask::Create(CreateArgs { sandbox, name, plain }) => {
            let sandbox = Sandbox::by_id(&plain.client()?, &sandbox).map_err(plain.failed())?;
            let taken = sandbox.snapshot(name.as_deref()).await.map_err(plain.failed())?;
            if plain.json {
                exit::print(described(&taken))?
            } else {
                exit::print(&taken.id)?
            }
            Ok(0)
        }
        SnapshotTask::List(ListArgs { sandbox, plain }) => {
            let listed = plain.client()?.snapshots(sandbox.as_deref()).await.map_err(plain.failed())?;
            if plain.json {
                exit::print(json!(listed.iter().map(described).collect::<Vec<_>>()))?;
                return Ok(0);
            }
            listed.iter().try_for_each(|one| exit::print(format!("{}\t{}", one.id, one.names.join(" "))))?;
            Ok(0)
        }
        SnapshotTask::Delete(DeleteArgs { snapshot, plain }) => {
            let deleted = plain.client()?.delete_snapshot(&snapshot).await.map_err(plain.failed())?;
            told_deleted(deleted, &format!("snapshot {snapshot:?}"), plain.json)
        }
    }
}

fn described(snapshot: &Snapshot) -> Value {
    json!({"id": snapshot.id, "names": snapshot.names})
}
