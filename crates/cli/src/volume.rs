//! `oncebox volume`: volumes and what is in them.

mod transfer;

use std::path::PathBuf;

use clap::{Args, Subcommand};
use oncebox::{CallOptions, Client, Error, Volume, VolumeEntry, VolumeInfo};
use serde_json::{Value, json};

use crate::args::{non_empty, whole};
use crate::connection::ProviderArgs;
use crate::exit::{self, Failure};
use crate::secret::told_deleted;

/// Repeats of a transfer, unless `--retries` says otherwise.
const RETRIES: u32 = 3;

#[derive(Debug, Args)]
pub(crate) struct VolumeArgs {
    #[command(subcommand)]
    task: VolumeTask,
}

#[derive(Debug, Subcommand)]
enum VolumeTask {
    /// Make an empty volume
    Create(NameArgs),
    /// List all volumes
    List(PlainArgs),
    /// Describe a volume
    Info(NameArgs),
    /// Delete a volume with all that is in it
    Delete(NameArgs),
    /// List a directory of a volume
    Ls(LsArgs),
    /// Describe a file or directory of a volume
    Stat(PathArgs),
    /// Make a directory in a volume, with its parents
    Mkdir(PathArgs),
    /// Remove a file, or a directory with all below it, from a volume
    Rm(PathArgs),
    /// Write a file into a volume
    Upload(UploadArgs),
    /// Read a file out of a volume
    Download(DownloadArgs),
}

#[derive(Debug, Args)]
struct PlainArgs {
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: ProviderArgs,
}

#[derive(Debug, Args)]
struct NameArgs {
    /// The volume's name; of one that exists also its id
    #[arg(value_name = "VOLUME", value_parser = non_empty)]
    volume: String,
    #[command(flatten)]
    plain: PlainArgs,
}

#[derive(Debug, Args)]
struct PathArgs {
    /// The volume's name or id
    #[arg(value_name = "VOLUME", value_parser = non_empty)]
    volume: String,
    /// A path inside the volume
    #[arg(value_name = "PATH", value_parser = non_empty)]
    path: String,
    #[command(flatten)]
    plain: PlainArgs,
}

#[derive(Debug, Args)]
struct LsArgs {
    /// The volume's name or id
    #[arg(value_name = "VOLUME", value_parser = non_empty)]
    volume: String,
    /// A directory of the volume
    #[arg(value_name = "PATH", default_value = "/", value_parser = non_empty)]
    path: String,
    /// How many levels down
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = whole::<u32>(1, None), allow_hyphen_values = true)]
    depth: u32,
    #[command(flatten)]
    plain: PlainArgs,
}

#[derive(Debug, Args)]
struct UploadArgs {
    /// The file to write; - is standard input, which cannot be sent a second time
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The volume's name or id
    #[arg(value_name = "VOLUME", value_parser = non_empty)]
    volume: String,
    /// Where to, inside the volume
    #[arg(value_name = "PATH", value_parser = non_empty)]
    path: String,
    /// The file's owner, by number
    #[arg(long, value_name = "UID", value_parser = whole::<u32>(0, None), allow_hyphen_values = true)]
    uid: Option<u32>,
    /// The file's group, by number
    #[arg(long, value_name = "GID", value_parser = whole::<u32>(0, None), allow_hyphen_values = true)]
    gid: Option<u32>,
    /// The file's permissions, in octal, such as 644
    #[arg(long, value_name = "MODE", value_parser = octal, allow_hyphen_values = true)]
    mode: Option<u32>,
    /// Make the file's parents too
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    plain: PlainArgs,
}

#[derive(Debug, Args)]
struct DownloadArgs {
    /// The volume's name or id
    #[arg(value_name = "VOLUME", value_parser = non_empty)]
    volume: String,
    /// The file inside the volume
    #[arg(value_name = "PATH", value_parser = non_empty)]
    path: String,
    /// Where to; - is standard output
    #[arg(value_name = "FILE")]
    file: PathBuf,
    #[command(flatten)]
    plain: PlainArgs,
}

impl PlainArgs {
    fn client(&self) -> Result<Client, Failure> {
        self.connection.client(self.json)
    }

    fn failed(&self) -> impl Fn(Error) -> Failure {
        let json = self.json;
        move |error| Failure::of(&error, json)
    }

    /// A volume by its name or id, whose transfers are repeated.
    async fn open(&self, volume: &str) -> Result<Volume, Failure> {
        let client = self.client()?;
        let id = id(&client, volume).await.map_err(self.failed())?;
        let retries = self.connection.retries.unwrap_or(RETRIES);
        let volume = Volume::connect(&client, &id).await.map_err(self.failed())?;
        volume.with(CallOptions::new().retries(retries)).map_err(self.failed())
    }
}

pub(crate) async fn run(args: VolumeArgs) -> Result<u8, Failure> {
    match args.task {
        VolumeTask::Create(NameArgs { volume, plain }) => {
            let made = Volume::create(&plain.client()?, &volume).await.map_err(plain.failed())?;
            print_volume(made.id(), made.name(), plain.json)
        }
        VolumeTask::List(plain) => {
            let listed = Volume::list(&plain.client()?).await.map_err(plain.failed())?;
            list(&listed, plain.json)
        }
        VolumeTask::Info(NameArgs { volume, plain }) => {
            let volume = plain.open(&volume).await?;
            print_volume(volume.id(), volume.name(), plain.json)
        }
        VolumeTask::Delete(NameArgs { volume, plain }) => {
            let client = plain.client()?;
            let id = id(&client, &volume).await.map_err(plain.failed())?;
            let deleted = Volume::destroy(&client, &id).await.map_err(plain.failed())?;
            told_deleted(deleted, &format!("volume {volume:?}"), plain.json)
        }
        VolumeTask::Ls(LsArgs { volume, path, depth, plain }) => {
            let entries = plain.open(&volume).await?.list_dir(&path, depth).await.map_err(plain.failed())?;
            if plain.json {
                exit::print(json!(entries.iter().map(described).collect::<Vec<_>>()))?;
                return Ok(0);
            }
            entries.iter().try_for_each(print_entry).map(|()| 0)
        }
        VolumeTask::Stat(PathArgs { volume, path, plain }) => {
            let entry = plain.open(&volume).await?.entry(&path).await.map_err(plain.failed())?;
            show(&entry, plain.json)
        }
        VolumeTask::Mkdir(PathArgs { volume, path, plain }) => {
            let made = plain.open(&volume).await?.make_dir(path).force(true).await.map_err(plain.failed())?;
            show(&made, plain.json)
        }
        VolumeTask::Rm(PathArgs { volume, path, plain }) => {
            let removed = match plain.open(&volume).await?.remove(&path).await {
                Ok(()) => true,
                Err(error) if error.is_not_found() => false,
                Err(error) => return Err(plain.failed()(error)),
            };
            told_deleted(removed, &path, plain.json)
        }
        VolumeTask::Upload(args) => match transfer::upload(&args).await? {
            Ok(written) => show(&written, args.plain.json),
            Err(signal) => Ok(signal),
        },
        VolumeTask::Download(args) => {
            let volume = args.plain.open(&args.volume).await?;
            match transfer::download(&volume, &args).await? {
                Ok(bytes) if args.plain.json && !is_stream(&args.file) => {
                    exit::print(json!({"path": args.path, "file": args.file, "bytes": bytes}))?;
                    Ok(0)
                }
                Ok(_) => Ok(0),
                Err(signal) => Ok(signal),
            }
        }
    }
}

/// The id of the volume of this name; what is no volume's name is taken for an id.
async fn id(client: &Client, volume: &str) -> Result<String, Error> {
    let listed = Volume::list(client).await?;
    let found = listed.into_iter().find(|listed| listed.name == volume);
    Ok(found.map_or_else(|| volume.to_owned(), |found| found.id))
}

fn is_stream(file: &std::path::Path) -> bool {
    file.as_os_str() == "-"
}

fn print_volume(id: &str, name: &str, as_json: bool) -> Result<u8, Failure> {
    if as_json {
        exit::print(json!({"id": id, "name": name}))?;
    } else {
        exit::print(format!("{name}\t{id}"))?;
    }
    Ok(0)
}

fn list(volumes: &[VolumeInfo], as_json: bool) -> Result<u8, Failure> {
    if as_json {
        let all: Vec<Value> = volumes.iter().map(|volume| json!({"id": volume.id, "name": volume.name})).collect();
        exit::print(json!(all))?;
        return Ok(0);
    }
    volumes.iter().try_for_each(|volume| exit::print(format!("{}\t{}", volume.name, volume.id))).map(|()| 0)
}

fn show(entry: &VolumeEntry, as_json: bool) -> Result<u8, Failure> {
    if as_json {
        exit::print(described(entry))?
    } else {
        print_entry(entry)?
    }
    Ok(0)
}

fn print_entry(entry: &VolumeEntry) -> Result<(), Failure> {
    let VolumeEntry { kind, mode, uid, gid, size, path, .. } = entry;
    exit::print(format!("{kind}\t{:04o}\t{uid}:{gid}\t{size}\t{path}", mode & 0o7777))
}

fn described(entry: &VolumeEntry) -> Value {
    json!({
        "name": entry.name,
        "path": entry.path,
        "type": entry.kind,
        "size": entry.size,
        "mode": entry.mode & 0o7777,
        "uid": entry.uid,
        "gid": entry.gid,
        "modified_at": entry.modified_at.to_string(),
        "target": entry.target,
    })
}

fn octal(text: &str) -> Result<u32, String> {
    match u32::from_str_radix(text, 8) {
        Ok(mode) if mode <= 0o7777 => Ok(mode),
        _ => Err("it must be octal, from 0 to 7777, such as 644".to_owned()),
    }
}
