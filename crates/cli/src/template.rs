//! `oncebox template`: templates built from Dockerfiles, and looked after.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use clap::{Args, Subcommand};
use futures_util::TryStreamExt;
use indicatif::{ProgressBar, ProgressStyle};
use oncebox::{BuildEvent, Client, Ready, Template, TemplateBuild, TemplateInfo};
use serde_json::json;

use crate::args::{non_empty, whole};
use crate::bounded::read_text;
use crate::connection::{ConnectionArgs, ProviderArgs};
use crate::exit::{Failure, print, say};

/// The longest Dockerfile that is read.
const MAX_DOCKERFILE: u64 = 1 << 20;

#[derive(Debug, Args)]
pub(crate) struct TemplateArgs {
    #[command(subcommand)]
    task: TemplateTask,
}

#[derive(Debug, Subcommand)]
enum TemplateTask {
    /// Build a template from a Dockerfile, and show its log
    #[command(visible_aliases = ["create", "ct"], alias = "bd")]
    Build(BuildArgs),
    /// Show a build's log until it ends, whoever started it
    Logs(KnownArgs),
    /// Tell how far a build is
    Status(KnownArgs),
    /// List the account's templates
    #[command(visible_alias = "ls")]
    List(ListArgs),
    /// Describe a template and its builds
    Info(OneArgs),
    /// Delete templates
    #[command(visible_alias = "dl")]
    Delete(DeleteArgs),
    /// Let other teams use a template
    #[command(visible_alias = "pb")]
    Publish(OneArgs),
    /// Let nobody else use a template any longer
    #[command(visible_alias = "upb")]
    Unpublish(OneArgs),
    /// List a template's tags
    Tags(OneArgs),
    /// Let tags point to a build
    Tag(TagArgs),
    /// Remove tags from a template
    Untag(TagArgs),
}

#[derive(Debug, Args)]
struct BuildArgs {
    /// The template's name, or name:tag
    #[arg(value_name = "NAME", value_parser = non_empty)]
    name: String,
    /// The Dockerfile
    #[arg(long, short = 'f', value_name = "FILE", default_value = "Dockerfile")]
    file: PathBuf,
    /// The directory that files are copied from [default: the Dockerfile's]
    #[arg(long, value_name = "DIR")]
    context: Option<PathBuf>,
    /// Let this tag point to the build; may be repeated
    #[arg(long, value_name = "TAG")]
    tag: Vec<String>,
    /// CPU cores of its sandboxes [default: the server's]
    #[arg(long, value_name = "N", value_parser = whole::<u32>(1, Some(1024)), allow_hyphen_values = true)]
    cpu_count: Option<u32>,
    /// Memory of its sandboxes in MiB [default: the server's]
    #[arg(long, value_name = "MIB", value_parser = whole::<u32>(128, Some(16_777_216)), allow_hyphen_values = true)]
    memory_mb: Option<u32>,
    /// What its sandboxes start with, in place of the Dockerfile's
    #[arg(long, value_name = "LINE", requires = "ready_cmd", value_parser = non_empty)]
    start_cmd: Option<String>,
    /// What succeeds once they are ready
    #[arg(long, value_name = "LINE", value_parser = non_empty)]
    ready_cmd: Option<String>,
    /// Build every step anew
    #[arg(long)]
    no_cache: bool,
    /// Start the build and print its ids, and do not wait for its end
    // With --local it would end with the server.
    #[arg(long, conflicts_with = "local")]
    detach: bool,
    /// Print JSON: an object with the ids when it has started, one a line of the log, and one at the end
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: ConnectionArgs,
}

#[derive(Debug, Args)]
struct KnownArgs {
    /// The template's id
    #[arg(value_name = "TEMPLATE", value_parser = non_empty)]
    template: String,
    /// The build's id
    #[arg(value_name = "BUILD", value_parser = non_empty)]
    build: String,
    /// Print JSON; of a log, one object a line, and one at the end
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: ProviderArgs,
}

#[derive(Debug, Args)]
struct ListArgs {
    /// Print one JSON array
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: ProviderArgs,
}

#[derive(Debug, Args)]
struct OneArgs {
    /// The template's name or id
    #[arg(value_name = "TEMPLATE", value_parser = non_empty)]
    template: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: ProviderArgs,
}

#[derive(Debug, Args)]
struct DeleteArgs {
    /// The templates' names or ids
    #[arg(value_name = "TEMPLATE", required = true, value_parser = non_empty)]
    templates: Vec<String>,
    /// Print one JSON object a template
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: ProviderArgs,
}

#[derive(Debug, Args)]
struct TagArgs {
    /// The build as name:tag; to remove tags, the template's name
    #[arg(value_name = "TEMPLATE", value_parser = non_empty)]
    template: String,
    /// The tags
    #[arg(value_name = "TAG", required = true, value_parser = non_empty)]
    tags: Vec<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: ProviderArgs,
}

pub(crate) async fn run(args: TemplateArgs) -> Result<u8, Failure> {
    match args.task {
        TemplateTask::Build(args) => build(args).await,
        TemplateTask::Logs(args) => logs(args).await,
        TemplateTask::Status(args) => status(args).await,
        TemplateTask::List(args) => {
            let client = args.connection.client(args.json)?;
            let listed = client.templates().list().await;
            let listed = ended(&client, listed, args.json).await?;
            if args.json {
                print(json!(listed))?;
            } else {
                print(table(&listed))?;
            }
            Ok(0)
        }
        TemplateTask::Info(args) => {
            let client = args.connection.client(args.json)?;
            let info = client.templates().info(&args.template).await;
            let info = ended(&client, info, args.json).await?;
            if args.json {
                print(json!(info))?;
            } else {
                let names = info.names.join(", ");
                let mut lines = vec![format!("{}  {names}  {}", info.template_id, visibility(info.public))];
                let builds = info.builds.iter();
                lines.extend(
                    builds.map(|build| format!("  {}  {}  {}", build.build_id, build.status, build.created_at)),
                );
                print(lines.join("\n"))?;
            }
            Ok(0)
        }
        TemplateTask::Delete(args) => delete(args).await,
        TemplateTask::Publish(args) => publish(args, true).await,
        TemplateTask::Unpublish(args) => publish(args, false).await,
        TemplateTask::Tags(args) => {
            let client = args.connection.client(args.json)?;
            let tags = client.templates().tags(&args.template).await;
            let tags = ended(&client, tags, args.json).await?;
            if args.json {
                print(json!(tags))?;
            } else {
                let line = |tag: &oncebox::TemplateTag| format!("{}  {}  {}", tag.tag, tag.build_id, tag.created_at);
                print(tags.iter().map(line).collect::<Vec<_>>().join("\n"))?;
            }
            Ok(0)
        }
        TemplateTask::Tag(args) => {
            let client = args.connection.client(args.json)?;
            let assigned = client.templates().assign_tags(&args.template, args.tags).await;
            let assigned = ended(&client, assigned, args.json).await?;
            if args.json {
                print(json!(assigned))?;
            } else {
                print(format!("{} -> {}", assigned.tags.join(", "), assigned.build_id))?;
            }
            Ok(0)
        }
        TemplateTask::Untag(args) => {
            let client = args.connection.client(args.json)?;
            let removed = client.templates().remove_tags(&args.template, args.tags.clone()).await;
            ended(&client, removed, args.json).await?;
            if args.json {
                print(json!({"template": args.template, "removed": args.tags}))?;
            }
            Ok(0)
        }
    }
}

async fn build(args: BuildArgs) -> Result<u8, Failure> {
    let text = std::fs::File::open(&args.file).and_then(|file| read_text(file, MAX_DOCKERFILE));
    let text = text.map_err(|error| Failure::unreadable("--file", &args.file, &error))?;
    let context = args.context.clone().or_else(|| args.file.parent().map(PathBuf::from)).unwrap_or_default();
    let context = if context.as_os_str().is_empty() { PathBuf::from(".") } else { context };
    let mut recipe = Template::from_dockerfile(&text).map_err(|error| Failure::of(&error, args.json))?.context(context);
    recipe = match (&args.start_cmd, &args.ready_cmd) {
        (Some(start), Some(ready)) => recipe.start_command(start, Ready::command(ready)),
        (None, Some(ready)) => recipe.ready(Ready::command(ready)),
        _ => recipe,
    };
    let client = args.connection.client(None, args.json).await?;
    let mut build = client.templates().build(&recipe, &args.name);
    for tag in &args.tag {
        build = build.tag(tag);
    }
    if let Some(cores) = args.cpu_count {
        build = build.cpu_count(cores);
    }
    if let Some(mebibytes) = args.memory_mb {
        build = build.memory_mb(mebibytes);
    }
    if args.no_cache {
        build = build.skip_cache();
    }
    let (as_json, detach) = (args.json, args.detach);
    let uploads = Uploads::default();
    let build = build.on_event(move |event| tell(event, as_json, detach, &uploads));
    let built = if detach { build.start().await } else { build.await };
    let built = ended(&client, built, as_json).await?;
    if as_json {
        print(ids(&built))?;
    } else if detach {
        print(format!("{} {}", built.template_id(), built.build_id()))?;
    } else {
        print(format!("{} is built: {}", args.name, built.template_id()))?;
    }
    Ok(0)
}

fn ids(build: &TemplateBuild) -> serde_json::Value {
    let (template, id) = (build.template_id(), build.build_id());
    json!({"templateID": template, "buildID": id, "names": build.names(), "tags": build.tags()})
}

async fn logs(args: KnownArgs) -> Result<u8, Failure> {
    let client = args.connection.client(args.json)?;
    let build = client.templates().known_build(&args.template, &args.build);
    let mut log = std::pin::pin!(build.logs());
    loop {
        match log.try_next().await {
            Ok(None) => break,
            Ok(Some(entry)) => {
                // The build goes on whether or not anybody reads: there is nothing else to do here.
                let told = if args.json { print(json!(entry)) } else { print(entry.message) };
                if let Err(failure) = told {
                    client.close().await;
                    return Err(failure);
                }
            }
            Err(error) => return ended(&client, Err(error), args.json).await,
        }
    }
    client.close().await;
    if args.json {
        print(json!({"templateID": args.template, "buildID": args.build, "status": "ready"}))?;
    } else {
        print(format!("{} is built", args.template))?;
    }
    Ok(0)
}

async fn status(args: KnownArgs) -> Result<u8, Failure> {
    let client = args.connection.client(args.json)?;
    let info = client.templates().known_build(&args.template, &args.build).status(0).await;
    let info = ended(&client, info, args.json).await?;
    let reason = info.reason.as_ref().map(|why| json!({"message": why.message, "step": why.step}));
    if args.json {
        let (template, build) = (&info.template_id, &info.build_id);
        print(json!({"templateID": template, "buildID": build, "status": info.status, "reason": reason}))?;
    } else {
        let step = |step: &String| format!("step {step}: ");
        let why = info.reason.as_ref().map(|why| {
            let step = why.step.as_ref().map(step).unwrap_or_default();
            format!("  {step}{}", why.message)
        });
        print(format!("{}{}", info.status, why.unwrap_or_default()))?;
    }
    Ok(0)
}

/// A bar for the files that are being uploaded; drawn on a terminal alone.
type Uploads = Arc<Mutex<Option<ProgressBar>>>;

fn tell(event: BuildEvent, as_json: bool, detach: bool, uploads: &Uploads) {
    let mut bar = uploads.lock().unwrap_or_else(PoisonError::into_inner);
    match event {
        BuildEvent::Uploading { from, sent, of } if !as_json => {
            let bar = bar.get_or_insert_with(|| {
                let bar = ProgressBar::new(of);
                if let Ok(style) = ProgressStyle::with_template("{msg} {bar:30} {bytes}/{total_bytes}") {
                    bar.set_style(style);
                }
                bar
            });
            bar.set_length(of);
            bar.set_message(from);
            bar.set_position(sent);
        }
        BuildEvent::Started { template_id, build_id, names, tags } => {
            if let Some(bar) = bar.take() {
                bar.finish_and_clear();
            }
            // Told at once: whatever becomes of the watching, there is something to ask for. With --detach that is all that is
            // told, once it is known that nothing failed.
            match (detach, as_json) {
                (true, _) => {}
                (false, true) => {
                    let ids = json!({"templateID": template_id, "buildID": build_id, "names": names, "tags": tags});
                    let _ = print(json!({"started": ids}));
                }
                (false, false) => say(format!("build {build_id} of template {template_id} has started")),
            }
        }
        BuildEvent::Log(entry) => {
            if let Some(bar) = bar.take() {
                bar.finish_and_clear();
            }
            // A reader that has gone is no reason to end the build.
            let _ = if as_json { print(json!(entry)) } else { print(entry.message) };
        }
        _ => {}
    }
}

async fn delete(args: DeleteArgs) -> Result<u8, Failure> {
    let client = args.connection.client(args.json)?;
    let mut told = Ok(());
    for template in &args.templates {
        let deleted = match client.templates().delete(template).await {
            Ok(deleted) => deleted,
            failed => ended(&client, failed, args.json).await?,
        };
        // What was begun is done to its end, whether or not anybody reads what came of it.
        let line = if args.json {
            print(json!({"template": template, "deleted": deleted}))
        } else if deleted {
            print(format!("{template} is deleted"))
        } else {
            say(format!("there was no template {template:?}"));
            Ok(())
        };
        told = told.and(line);
    }
    client.close().await;
    told.map(|()| 0)
}

async fn publish(args: OneArgs, public: bool) -> Result<u8, Failure> {
    let client = args.connection.client(args.json)?;
    let names = client.templates().publish(&args.template, public).await;
    let names = ended(&client, names, args.json).await?;
    if args.json {
        print(json!({"template": args.template, "public": public, "names": names}))?;
    } else {
        print(format!("{} is {}", args.template, visibility(public)))?;
    }
    Ok(0)
}

/// Ends the client, whatever came of the call.
async fn ended<T>(client: &Client, result: Result<T, oncebox::Error>, as_json: bool) -> Result<T, Failure> {
    client.close().await;
    result.map_err(|error| Failure::of(&error, as_json))
}

fn table(templates: &[TemplateInfo]) -> String {
    let row = |id: &str, names: &str, cpu: &str, memory: &str, status: &str| {
        format!("{id:<24} {names:<32} {cpu:>4} {memory:>8}  {status}")
    };
    let mut lines = vec![row("TEMPLATE", "NAMES", "CPUS", "MIB", "VISIBLE TO")];
    lines.extend(templates.iter().map(|template| {
        let (cpus, memory) = (template.cpu_count.to_string(), template.memory_mb.to_string());
        row(&template.template_id, &template.names.join(", "), &cpus, &memory, visibility(template.public))
    }));
    lines.join("\n")
}

fn visibility(public: bool) -> &'static str {
    if public { "public" } else { "private" }
}
