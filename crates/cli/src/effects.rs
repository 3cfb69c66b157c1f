//! A local server's faults and effects, from outside: `oncebox effects`, `oncebox faults set|get|clear`.

use std::path::PathBuf;

use clap::Args;
use http::{Method, Request};
use oncebox_transport::{Body, CallOptions, Client};
use serde_json::Value;

use crate::args::non_empty;
use crate::bounded::read_text;
use crate::exit::{Failure, print};

/// Where `oncebox serve` is unless something else is said.
const DEFAULT_SERVER: &str = "http://127.0.0.1:3000";
/// The longest fault document: servers take no longer one.
pub(crate) const MAX_DOCUMENT: u64 = 1 << 20;

/// A local server.
#[derive(Debug, Args)]
pub(crate) struct ServerArgs {
    /// The local server [env: E2B_API_URL] [default: http://127.0.0.1:3000]
    #[arg(long, value_name = "URL")]
    server: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct EffectsArgs {
    /// Only those of requests with this Oncebox-Test-Id
    #[arg(long, value_name = "ID", value_parser = non_empty)]
    test_id: Option<String>,
    /// Begin to count anew, once they are told
    #[arg(long)]
    reset: bool,
    /// Print the server's own report, one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    server: ServerArgs,
}

#[derive(Debug, Args)]
pub(crate) struct SetArgs {
    /// The fault document, JSON; - is standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
    #[command(flatten)]
    server: ServerArgs,
}

/// `oncebox effects`
pub(crate) async fn run(args: EffectsArgs) -> Result<u8, Failure> {
    let query = match &args.test_id {
        Some(id) => {
            let mut query = url::form_urlencoded::Serializer::new(String::from("?"));
            query.append_pair("test_id", id).finish()
        }
        None => String::new(),
    };
    let path = format!("/oncebox/effects{query}");
    let told = args.server.ask(Method::GET, &path, String::new()).await?;
    if args.json {
        print(&told)?;
    } else {
        let report: Value = serde_json::from_str(&told)
            .map_err(|error| Failure::infrastructure(format!("the server's report makes no sense: {error}")))?;
        print(shown(&report))?;
    }
    if args.reset {
        args.server.ask(Method::DELETE, &path, String::new()).await?;
    }
    Ok(0)
}

/// `oncebox faults set`
pub(crate) async fn set(args: SetArgs) -> Result<u8, Failure> {
    let read = if args.file.as_os_str() == "-" {
        read_text(std::io::stdin().lock(), MAX_DOCUMENT)
    } else {
        std::fs::File::open(&args.file).and_then(|file| read_text(file, MAX_DOCUMENT))
    };
    let document = read.map_err(|error| Failure::unreadable("FILE", &args.file, &error))?;
    // What is no JSON at all is another file than was meant.
    if let Err(error) = serde_json::from_str::<Value>(&document) {
        let file = args.file.display().to_string();
        return Err(Failure::usage(format!(
            "FILE {file:?} is no fault document, which is JSON: {error}; `{{\"rules\": []}}` is one without faults, and \
             `oncebox faults get` prints the one in force"
        )));
    }
    args.server.ask(Method::PUT, "/oncebox/faults", document).await.map(|_| 0)
}

/// `oncebox faults get`
pub(crate) async fn get(server: ServerArgs) -> Result<u8, Failure> {
    print(server.ask(Method::GET, "/oncebox/faults", String::new()).await?)?;
    Ok(0)
}

/// `oncebox faults clear`
pub(crate) async fn clear(server: ServerArgs) -> Result<u8, Failure> {
    server.ask(Method::DELETE, "/oncebox/faults", String::new()).await.map(|_| 0)
}

impl ServerArgs {
    async fn ask(&self, method: Method, path: &str, body: String) -> Result<String, Failure> {
        let variable = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
        let (from, server) = match (&self.server, variable("E2B_API_URL")) {
            (Some(server), _) => ("--server", server.clone()),
            (None, Some(server)) => ("E2B_API_URL", server),
            (None, None) => ("--server", DEFAULT_SERVER.to_owned()),
        };
        let server = server.trim_end_matches('/');
        let wrong = || Failure::usage(format!("{from} {server:?}: it must be a URL, such as {DEFAULT_SERVER}"));
        let url = url::Url::parse(server).map_err(|_| wrong())?;
        if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
            return Err(wrong());
        }
        // A server without a token takes any key.
        let key = variable("ONCEBOX_TOKEN").or_else(|| variable("E2B_API_KEY")).unwrap_or_else(|| "local".into());
        let is_set = method == Method::PUT;
        let request = Request::builder().method(method).uri(format!("{server}{path}")).header("x-api-key", key);
        let request = request.header("content-type", "application/json").body(Body::from(body));
        let request = request.map_err(|_| wrong())?;
        let answer = Client::new().send_collected(request, CallOptions::new()).await.map_err(|error| {
            Failure::infrastructure(format!(
                "{server} was not reached; `oncebox serve` starts one, --server names another: {error}"
            ))
        })?;
        let text = String::from_utf8_lossy(answer.body()).into_owned();
        if answer.status().is_success() {
            return Ok(text);
        }
        let message =
            serde_json::from_str::<Value>(&text).ok().and_then(|error| Some(error["message"].as_str()?.to_owned()));
        let message = message.unwrap_or(text);
        match answer.status().as_u16() {
            400 if is_set => Err(Failure::usage(message)),
            404 | 405 => Err(Failure::usage(format!("{server} is no local server of Oncebox: {message}"))),
            status => Err(Failure::infrastructure(format!("{server} answered {status}: {message}"))),
        }
    }
}

/// A report for people: what was done more than once for one name comes last, and first to the eye.
fn shown(report: &Value) -> String {
    let text = |effect: &Value, name: &str| effect[name].as_str().unwrap_or("-").to_owned();
    let empty = Vec::new();
    let effects = report["effects"].as_array().unwrap_or(&empty);
    if effects.is_empty() {
        return "no effects".to_owned();
    }
    let row = |count: &str, operation: &str, sandbox: &str, name: &str, first: &str| {
        format!("{count:>5}  {operation:<24} {sandbox:<24} {name:<34} {first}")
    };
    let mut lines = vec![row("COUNT", "OPERATION", "SANDBOX", "INTENT OR KEY", "FIRST")];
    for effect in effects {
        let name = match effect["intent"].as_str() {
            Some(intent) => intent.to_owned(),
            None => text(effect, "key"),
        };
        let operation = text(effect, "operation");
        let count = effect["count"].as_u64().unwrap_or_default().to_string();
        lines.push(row(&count, &operation, &text(effect, "sandbox"), &name, &text(effect, "first")));
    }
    for (name, made) in report["doubled"].as_object().into_iter().flatten() {
        let made: Vec<&str> = made.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        lines.push(format!("doubled: {name} made {} sandboxes: {}", made.len(), made.join(", ")));
    }
    if let Some(more @ 1..) = report["not_told_apart"].as_u64() {
        lines.push(format!("and {more} more that are only counted"));
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_was_made_twice_is_named() {
        let effect = |sandbox: &str| json!({"operation": "createSandbox", "intent": "abc", "key": null, "sandbox": sandbox, "count": 1, "first": "t"});
        let text = shown(
            &json!({"effects": [effect("i1"), effect("i2")], "doubled": {"abc": ["i1", "i2"]}, "not_told_apart": 0}),
        );
        assert!(text.ends_with("doubled: abc made 2 sandboxes: i1, i2"), "{text}");
        assert!(!shown(&json!({"effects": [effect("i1")]})).contains("doubled"));
        assert_eq!(shown(&json!({"effects": []})), "no effects");
    }
}
