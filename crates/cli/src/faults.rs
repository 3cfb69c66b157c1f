//! `oncebox faults`: servers that misbehave on purpose.

use std::fs;
use std::io::{ErrorKind, Write};
use std::path::PathBuf;

use clap::{Args, Subcommand};
use oncebox_faults::{Builder, Script, Server, StartError, catalog, ready_scripts};
use serde_json::json;

use crate::args::{port, whole};
use crate::bounded::read_text;
use crate::effects::{self, MAX_DOCUMENT, ServerArgs, SetArgs};
use crate::exit::{Failure, print, say};
use crate::signals::Signals;

#[derive(Debug, Args)]
pub(crate) struct FaultsArgs {
    #[command(subcommand)]
    task: FaultsTask,
}

#[derive(Debug, Subcommand)]
enum FaultsTask {
    /// Serve HTTP/1.1 and HTTP/2 by a script, until Ctrl-C
    Serve(ServeArgs),
    /// Stand before a real server and misbehave by a script, until Ctrl-C
    Proxy(ProxyArgs),
    /// List the faults and the scripts that are ready to use
    List(ListArgs),
    /// Make a local server misbehave by a fault document, in place of the one before
    Set(SetArgs),
    /// Print a local server's fault document, and how often each rule has fired
    Get(ServerArgs),
    /// Let a local server behave again
    Clear(ServerArgs),
    /// Print a script that is ready to use, to begin one of your own
    Show {
        /// Its name
        #[arg(value_name = "NAME")]
        name: String,
    },
}

#[derive(Debug, Args)]
struct ServeArgs {
    /// A script's file, or the name of one that is ready to use
    #[arg(value_name = "SCRIPT")]
    script: String,
    #[command(flatten)]
    common: CommonArgs,
}

#[derive(Debug, Args)]
struct ProxyArgs {
    /// The server behind, such as http://127.0.0.1:3000 or https://api.example.com
    #[arg(long, value_name = "URL")]
    to: String,
    /// Pass on the client's Host instead of the server's own
    #[arg(long)]
    keep_host: bool,
    /// A script's file, or the name of one that is ready to use
    #[arg(value_name = "SCRIPT")]
    script: String,
    #[command(flatten)]
    common: CommonArgs,
}

#[derive(Debug, Args)]
struct CommonArgs {
    /// Port on 127.0.0.1; 0 takes any free one
    #[arg(long, short, default_value_t = 0, value_parser = port, allow_hyphen_values = true)]
    port: u16,
    /// Speak TLS, with a certificate made for the occasion
    #[arg(long)]
    tls: bool,
    /// Write the certificate that a client must trust to this file
    #[arg(long, value_name = "FILE", requires = "tls")]
    ca_out: Option<PathBuf>,
    /// At the end, write what was received and processed to this file, as JSON; - is standard output
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Use this seed instead of the script's
    #[arg(long, value_name = "N", value_parser = whole::<u64>(0, None), allow_hyphen_values = true)]
    seed: Option<u64>,
    /// Print the address as one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct ListArgs {
    /// With an example of each
    #[arg(long)]
    examples: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(crate) async fn run(args: FaultsArgs) -> Result<u8, Failure> {
    match args.task {
        FaultsTask::Serve(args) => serve(Server::builder(script(&args.script, &args.common)?), args.common).await,
        FaultsTask::Proxy(args) => {
            let mut builder = Server::builder(script(&args.script, &args.common)?).proxy_to(&args.to);
            if args.keep_host {
                builder = builder.keep_host();
            }
            serve(builder, args.common).await
        }
        FaultsTask::List(args) => list(&args),
        FaultsTask::Set(args) => effects::set(args).await,
        FaultsTask::Get(server) => effects::get(server).await,
        FaultsTask::Clear(server) => effects::clear(server).await,
        FaultsTask::Show { name } => match ready_scripts().iter().find(|ready| ready.name == name) {
            Some(ready) => {
                print(ready.json.trim_end())?;
                Ok(0)
            }
            None => Err(no_script("NAME", &name, "there is no such script")),
        },
    }
}

fn script(name: &str, common: &CommonArgs) -> Result<Script, Failure> {
    let script = match Script::ready(name) {
        Some(script) => script,
        None => {
            let text = fs::File::open(name).and_then(|file| read_text(file, MAX_DOCUMENT));
            let text = text.map_err(|error| no_script("SCRIPT", name, &error.to_string()))?;
            Script::from_json(&text).map_err(|error| Failure::usage(format!("{name}: {error}")))?
        }
    };
    Ok(match common.seed {
        Some(seed) => script.seed(seed),
        None => script,
    })
}

fn no_script(what: &str, name: &str, why: &str) -> Failure {
    let names: Vec<&str> = ready_scripts().iter().map(|ready| ready.name).collect();
    Failure::usage(format!("{what} is {name:?}: {why}; ready to use are: {}", names.join(", ")))
}

async fn serve(builder: Builder, common: CommonArgs) -> Result<u8, Failure> {
    let mut signals = Signals::new()?;
    let mut builder = builder.port(common.port);
    if common.tls {
        builder = builder.tls();
    }
    let server = builder.start().await.map_err(|error| start_failure(&error))?;
    if let (Some(file), Some(pem)) = (&common.ca_out, server.ca_pem()) {
        fs::write(file, pem).map_err(|error| Failure::usage(format!("--ca-out is {}: {error}", file.display())))?;
    }
    let url = server.url("");
    let address = if common.json {
        json!({"url": url, "port": server.addr().port()}).to_string()
    } else {
        format!("Misbehaving on {url}. Ctrl-C ends it.")
    };
    // A report on standard output stands alone there.
    if common.report.as_deref().is_some_and(|file| file.as_os_str() == "-") {
        say(&address);
    } else {
        print(&address)?;
    }
    signals.next().await;
    if let Some(file) = &common.report {
        let text = serde_json::to_string_pretty(&server.report())
            .map_err(|error| Failure::infrastructure(format!("the report: {error}")))?;
        let written =
            if file.as_os_str() == "-" { writeln!(std::io::stdout(), "{text}") } else { fs::write(file, text + "\n") };
        written.map_err(|error| match error.kind() {
            ErrorKind::BrokenPipe => Failure::unwritten(&error),
            _ => Failure::infrastructure(format!("--report is {}: {error}", file.display())),
        })?;
    }
    Ok(0)
}

fn start_failure(error: &StartError) -> Failure {
    match error {
        StartError::Listen { address, error } if error.kind() == ErrorKind::AddrInUse => Failure::usage(format!(
            "--port is {}: {address} is in use by another program; 0 takes any free port",
            address.port()
        )),
        StartError::Upstream(error) => Failure::usage(format!("--to: {error}")),
        StartError::Script(_) | StartError::Listen { .. } => Failure::usage(error),
        _ => Failure::infrastructure(error),
    }
}

fn list(args: &ListArgs) -> Result<u8, Failure> {
    if args.json {
        let faults: Vec<_> = catalog()
            .iter()
            .map(|info| json!({"name": info.name, "layer": info.layer, "about": info.about, "example": info.example}))
            .collect();
        let scripts: Vec<_> =
            ready_scripts().iter().map(|ready| json!({"name": ready.name, "about": about(ready)})).collect();
        print(json!({"faults": faults, "scripts": scripts}))?;
        return Ok(0);
    }
    let mut lines = Vec::new();
    let mut layer = "";
    for info in catalog() {
        if layer != info.layer {
            if !layer.is_empty() {
                lines.push(String::new());
            }
            layer = info.layer;
            lines.push(layer.to_owned());
        }
        lines.push(format!("  {:<22} {}", info.name, info.about));
        if args.examples {
            lines.push(format!("  {:<22}   {}", "", info.example));
        }
    }
    lines.push("\nscripts that are ready to use".to_owned());
    lines.extend(ready_scripts().iter().map(|ready| format!("  {:<38} {}", ready.name, about(ready))));
    print(lines.join("\n"))?;
    Ok(0)
}

/// What a script is for, in its first sentence.
fn about(ready: &oncebox_faults::ReadyScript) -> String {
    let about = ready.script().map(|script| script.about).unwrap_or_default();
    about.split_inclusive(". ").next().unwrap_or_default().trim().to_owned()
}
