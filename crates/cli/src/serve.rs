//! `oncebox serve`.

use std::io::ErrorKind;

use oncebox_local::{Helper, Isolation, LocalServer, LocalServerBuilder, Network, StartError};
use serde_json::json;

use crate::ENVD_HELPER;
use crate::args::{Memory, NetworkArg, ServeArgs};
use crate::bounded::read_text;
use crate::effects::MAX_DOCUMENT;
use crate::exit::{self, Failure};
use crate::signals::Signals;

pub(crate) async fn serve(args: ServeArgs) -> Result<u8, Failure> {
    let mut signals = Signals::new()?;
    let mut builder = host(args.no_isolation)?.port(args.port).listen(args.listen);
    // Process lists show arguments, and not variables.
    let token = args.token.or_else(|| std::env::var("ONCEBOX_TOKEN").ok().filter(|token| !token.is_empty()));
    let with_token = token.is_some();
    if let Some(token) = token {
        builder = builder.token(token);
    }
    if let Some(folder) = args.state {
        builder = builder.state(folder);
    }
    for name in args.allow_host {
        builder = builder.allow_host(name);
    }
    for origin in &args.allow_origin {
        builder = builder.allow_origin(origin);
    }
    if let Some(python) = &args.code_interpreter {
        builder = builder.code_interpreter(python);
    }
    if let Some(cpus) = args.cpus {
        builder = builder.cpus(cpus);
    }
    if let Some(Memory(bytes)) = args.memory {
        builder = builder.memory(bytes);
    }
    let network = match args.network {
        // Nothing is kept apart there, so there is nothing to be let out of.
        NetworkArg::Auto if args.no_isolation => Network::None,
        NetworkArg::Auto => {
            let network =
                builder.clone().pids(args.pids).available_network().await.map_err(|error| start_failure(&error))?;
            if let Err(why) = &network {
                tracing::info!("sandboxes reach no network: {why}");
            }
            network.unwrap_or_default()
        }
        NetworkArg::None => Network::None,
        NetworkArg::Egress => Network::Egress,
        NetworkArg::Host => Network::Host,
    };
    builder = builder.pids(args.pids).network(network);
    if let Some(file) = &args.faults {
        let read = std::fs::File::open(file).and_then(|file| read_text(file, MAX_DOCUMENT));
        let document = read.map_err(|error| Failure::unreadable("--faults", file, &error))?;
        builder = builder.faults(document);
    }
    if args.explain_isolation {
        return explain(builder, args.json).await;
    }
    let server = builder.start().await.map_err(|error| start_failure(&error))?;
    let url = server.url();
    let key = if with_token { "<the token>" } else { "local" };
    let told = if args.json {
        exit::print(json!({"url": url, "port": server.addr().port()}))
    } else {
        exit::print(format!(
            "Serving sandboxes on {url}. To use them from the official SDKs and this one:\n\n  \
             export E2B_API_URL={url} E2B_SANDBOX_URL={url} E2B_VOLUME_API_URL={url} E2B_API_KEY={key} \
             NO_PROXY=127.0.0.1,localhost\n\n\
             Ctrl-C ends the server and all its sandboxes."
        ))
    };
    if let Err(failure) = told {
        server.stop().await;
        return Err(failure);
    }
    signals.next().await;
    server.stop().await;
    Ok(0)
}

async fn explain(builder: LocalServerBuilder, as_json: bool) -> Result<u8, Failure> {
    let told = builder.explain().await.map_err(|error| start_failure(&error))?;
    if as_json {
        exit::print(json!(told))?;
        return Ok(0);
    }
    let mut lines = Vec::new();
    if let Some(problem) = &told.problem {
        lines.push(format!("Sandboxes do not start with these options: {problem}"));
    }
    for part in &told.parts {
        let isolated = if part.isolated { "isolated" } else { "NOT" };
        lines.push(format!("{:<10} {isolated:<9} {}", part.name, part.how));
    }
    exit::print(lines.join("\n"))?;
    Ok(0)
}

/// A local host whose helper is this very program.
pub(crate) fn host(no_isolation: bool) -> Result<LocalServerBuilder, Failure> {
    let this =
        std::env::current_exe().map_err(|error| Failure::infrastructure(format!("where this program is: {error}")))?;
    let isolation = if no_isolation { Isolation::None } else { Isolation::Namespaces };
    Ok(LocalServer::builder()
        .helper(Helper::new(this).arg(ENVD_HELPER))
        .isolation(isolation)
        .no_isolation_hint(without_isolation()))
}

pub(crate) fn start_failure(error: &StartError) -> Failure {
    match error {
        StartError::Bind { addr, source } if source.kind() == ErrorKind::AddrInUse => Failure::usage(format!(
            "--port is {}: {addr} is in use by another program; 0 takes any free port",
            addr.port()
        )),
        StartError::TokenMissing { ip } => Failure::usage(format!(
            "--listen is {ip}, which lets other machines run programs here: give a token of at least 16 characters by \
             ONCEBOX_TOKEN or --token, or listen on 127.0.0.1"
        )),
        StartError::Bind { .. }
        | StartError::Origin { .. }
        | StartError::CodeInterpreter { .. }
        | StartError::Token { .. }
        | StartError::Host { .. }
        | StartError::Limit { .. }
        | StartError::Faults(_)
        | StartError::KeptState { .. } => Failure::usage(in_flags(&error.to_string())),
        _ => Failure::infrastructure(error),
    }
}

/// What the library says of its options, said of the flags that set them.
fn in_flags(message: &str) -> String {
    const OPTIONS: [&str; 9] =
        ["allow_host", "allow_origin", "code_interpreter", "cpus", "faults", "memory", "pids", "state", "token"];
    OPTIONS.iter().fold(message.to_owned(), |message, option| {
        message.replace(&format!("`{option}`"), &format!("--{}", option.replace('_', "-")))
    })
}

/// This program's own command line, with `--no-isolation` after the task.
fn without_isolation() -> String {
    let mut words: Vec<String> = std::env::args().map(|word| quoted(&word)).collect();
    words.insert(words.len().min(2), "--no-isolation".to_owned());
    words.join(" ")
}

/// As a shell would need it.
pub(crate) fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,@%+".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn words_are_quoted_for_a_shell() {
        assert_eq!(quoted("--port=1"), "--port=1");
        assert_eq!(quoted("echo hi"), "'echo hi'");
        assert_eq!(quoted("it's"), r"'it'\''s'");
        assert_eq!(quoted(""), "''");
    }
}
