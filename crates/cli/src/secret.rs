//! `oncebox secret`: secrets, whose values are read from a file, a variable or standard input, and never shown.

use std::io::IsTerminal;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use oncebox::{Secret, SecretInfo, SecretString};
use serde_json::{Value, json};

use crate::args::{label, non_empty};
use crate::bounded::read_text;
use crate::connection::ProviderArgs;
use crate::exit::{self, Failure};

/// The longest value that is read. Servers have lower limits of their own.
const MAX_VALUE: u64 = 1 << 20;

#[derive(Debug, Args)]
pub(crate) struct SecretArgs {
    #[command(subcommand)]
    task: SecretTask,
}

#[derive(Debug, Subcommand)]
enum SecretTask {
    /// Store a secret
    Create(ValueArgs),
    /// Add a version to a secret, which takes the place of the one in use
    Update(ValueArgs),
    /// List all secrets
    #[command(alias = "ls")]
    List(PlainArgs),
    /// Describe a secret
    Info(OneArgs),
    /// Delete a secret with all its versions
    #[command(alias = "rm")]
    Delete(OneArgs),
}

#[derive(Debug, Args)]
struct ValueArgs {
    /// Its name; to update also its id
    #[arg(value_name = "NAME", value_parser = non_empty)]
    name: String,
    /// Read the value from this file [default: from standard input, without its last line break]
    #[arg(long, value_name = "FILE")]
    from_file: Option<PathBuf>,
    /// Read the value from this environment variable
    #[arg(long, value_name = "VARIABLE", conflicts_with = "from_file")]
    from_env: Option<String>,
    /// Label the secret; may be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = label)]
    metadata: Vec<(String, String)>,
    #[command(flatten)]
    plain: PlainArgs,
}

#[derive(Debug, Args)]
struct OneArgs {
    /// Its name or id
    #[arg(value_name = "SECRET", value_parser = non_empty)]
    secret: String,
    #[command(flatten)]
    plain: PlainArgs,
}

#[derive(Debug, Args)]
struct PlainArgs {
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: ProviderArgs,
}

pub(crate) async fn run(args: SecretArgs) -> Result<u8, Failure> {
    match args.task {
        SecretTask::Create(args) => {
            let value = args.value()?;
            let client = args.plain.connection.client(args.plain.json)?;
            let mut create = Secret::create(&client, &args.name, value);
            for (name, value) in &args.metadata {
                create = create.metadata(name, value);
            }
            let made = create.await.map_err(|error| Failure::of(&error, args.plain.json))?;
            show(&[made], args.plain.json, false)
        }
        SecretTask::Update(args) => {
            let value = args.value()?;
            let client = args.plain.connection.client(args.plain.json)?;
            let mut update = Secret::update(&client, &args.name, value);
            for (name, value) in &args.metadata {
                update = update.metadata(name, value);
            }
            let updated = update.await.map_err(|error| Failure::of(&error, args.plain.json))?;
            show(&[updated], args.plain.json, false)
        }
        SecretTask::List(args) => {
            let client = args.connection.client(args.json)?;
            let listed = Secret::list(&client).await.map_err(|error| Failure::of(&error, args.json))?;
            show(&listed, args.json, true)
        }
        SecretTask::Info(OneArgs { secret, plain }) => {
            let client = plain.connection.client(plain.json)?;
            let info = Secret::info(&client, &secret).await.map_err(|error| Failure::of(&error, plain.json))?;
            show(&[info], plain.json, false)
        }
        SecretTask::Delete(OneArgs { secret, plain }) => {
            let client = plain.connection.client(plain.json)?;
            let deleted = Secret::destroy(&client, &secret).await.map_err(|error| Failure::of(&error, plain.json))?;
            told_deleted(deleted, &format!("secret {secret:?}"), plain.json)
        }
    }
}

impl ValueArgs {
    fn value(&self) -> Result<SecretString, Failure> {
        if let Some(name) = &self.from_env {
            let wrong = |why: &dyn std::fmt::Display| {
                Failure::usage(format!("--from-env {name:?}: {why}; set it, or use --from-file or standard input"))
            };
            let value = std::env::var(name).map_err(|error| wrong(&error))?;
            return if value.is_empty() { Err(wrong(&"the variable is empty")) } else { Ok(value.into()) };
        }
        let (what, read) = match &self.from_file {
            Some(path) => {
                let file = std::fs::File::open(path);
                let file = file.map_err(|error| Failure::unreadable("--from-file", path, &error))?;
                (format!("--from-file {}", path.display()), read_text(file, MAX_VALUE))
            }
            None => {
                if std::io::stdin().is_terminal() {
                    exit::say("type the value, then Enter and Ctrl-D");
                }
                ("standard input".to_owned(), read_text(std::io::stdin().lock(), MAX_VALUE))
            }
        };
        let mut value = read.map_err(|error| Failure::usage(format!("{what}: {error}")))?;
        if value.ends_with('\n') {
            value.pop();
            if value.ends_with('\r') {
                value.pop();
            }
        }
        if value.is_empty() {
            return Err(Failure::usage(format!("{what}: the value is empty")));
        }
        Ok(value.into())
    }
}

/// Says whether something was deleted. That there was none is no failure: it is gone.
pub(crate) fn told_deleted(deleted: bool, what: &str, as_json: bool) -> Result<u8, Failure> {
    if as_json {
        exit::print(json!({ "deleted": deleted }))?;
    } else if !deleted {
        exit::say(format!("there was no {what}"));
    }
    Ok(0)
}

fn show(secrets: &[SecretInfo], as_json: bool, is_list: bool) -> Result<u8, Failure> {
    if as_json {
        let all: Vec<Value> = secrets.iter().map(described).collect();
        match (&all[..], is_list) {
            ([one], false) => exit::print(one)?,
            _ => exit::print(json!(all))?,
        }
        return Ok(0);
    }
    for secret in secrets {
        exit::print(format!("{}\tversion {}\t{}\t{}", secret.name, secret.version, secret.updated_at, secret.id))?;
    }
    Ok(0)
}

fn described(secret: &SecretInfo) -> Value {
    json!({
        "id": secret.id,
        "name": secret.name,
        "version": secret.version,
        "metadata": secret.metadata,
        "created_at": secret.created_at.to_string(),
        "updated_at": secret.updated_at.to_string(),
    })
}
