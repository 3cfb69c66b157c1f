//! `oncebox proxy`.

use std::io::ErrorKind;
use std::net::IpAddr;

use clap::Args;
use oncebox_proxy::{Proxy, StartError};
use serde_json::json;

use crate::args::{ip, port, retries, seconds_over_zero, whole};
use crate::config;
use crate::connection::ProviderArgs;
use crate::exit::{self, Failure, say};
use crate::signals::Signals;

/// How long a call to the control plane may take: less than the 60 s of the official SDKs, so that they hear what became of it.
const DEADLINE: u64 = 50;

#[derive(Debug, Args)]
#[command(
    after_help = "--request-timeout is 50 s unless something says otherwise: less than the 60 s of the official SDKs."
)]
pub(crate) struct ProxyArgs {
    /// Port to listen on; 0 takes any free one
    #[arg(long, short, value_name = "PORT", default_value_t = 3100, value_parser = port, allow_hyphen_values = true)]
    port: u16,
    /// Address to listen on; any other than a loopback one lets other machines in, and needs a token
    #[arg(long, value_name = "IP", default_value = "127.0.0.1", value_parser = ip)]
    listen: IpAddr,
    /// What every client must send, as Oncebox-Proxy-Token or in the URLs; by default nothing [env: ONCEBOX_PROXY_TOKEN]
    #[arg(long, value_name = "TOKEN")]
    token: Option<String>,
    /// Another name by which clients reach the proxy; may be repeated
    #[arg(long, value_name = "NAME")]
    allow_host: Vec<String>,
    /// Retries of calls to sandboxes and to the content of volumes; 3 makes them as patient as those of the control plane
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = retries, allow_hyphen_values = true)]
    sandbox_retries: u32,
    /// Connections of clients at a time; one more is answered 503
    #[arg(long, value_name = "N", default_value_t = 1024, value_parser = whole::<usize>(1, Some(oncebox_proxy::MOST_AT_A_TIME as u64)), allow_hyphen_values = true)]
    max_clients: usize,
    /// Calls under way at a time; one more is answered 503
    #[arg(long, value_name = "N", default_value_t = 4096, value_parser = whole::<usize>(1, Some(oncebox_proxy::MOST_AT_A_TIME as u64)), allow_hyphen_values = true)]
    max_calls: usize,
    /// How long a create must be found nowhere before it counts as not carried out, and how long one that failed can be taken
    /// over by the next like it, in seconds
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = seconds_over_zero, allow_hyphen_values = true)]
    settle: std::time::Duration,
    /// How much of a request's body is kept to be sent again, in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 65_536, value_parser = whole::<usize>(0, None), allow_hyphen_values = true)]
    replay_buffer_limit: usize,
    /// Print the address as one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    provider: ProviderArgs,
}

pub(crate) async fn run(args: ProxyArgs) -> Result<u8, Failure> {
    let mut signals = Signals::new()?;
    // Clients come with their own keys.
    let mut client = args.provider.builder()?.api_key("unused").settle(args.settle);
    if !config::says(&args.provider, "request_timeout")? {
        client = client.request_timeout(std::time::Duration::from_secs(DEADLINE));
    }
    let client = client.replay_buffer_limit(args.replay_buffer_limit).build();
    let client = client.map_err(|error| match config::by_its_source(&args.provider, &error.to_string()) {
        Some(message) => Failure::usage(message),
        None => Failure::of(&error, args.json),
    })?;
    let mut proxy = Proxy::builder(&client).listen(args.listen).port(args.port).sandbox_retries(args.sandbox_retries);
    proxy = proxy.max_clients(args.max_clients).max_calls(args.max_calls);
    // Process lists show arguments, and not variables.
    let token = args.token.or_else(|| std::env::var("ONCEBOX_PROXY_TOKEN").ok().filter(|token| !token.is_empty()));
    let below = if token.is_some() { "/oncebox-token/<the token>" } else { "" };
    if let Some(token) = token {
        proxy = proxy.token(token);
    }
    for name in args.allow_host {
        proxy = proxy.allow_host(name);
    }
    let proxy = proxy.start().await.map_err(|error| start_failure(&error))?;
    let (url, to) = (proxy.url(), proxy.status().api);
    let told = if args.json {
        exit::print(json!({"url": url, "port": proxy.addr().port(), "to": to}))
    } else {
        exit::print(format!(
            "Forwarding {url} to {to}. To send any E2B SDK through it:\n\n  \
             export E2B_API_URL={url}{below} E2B_SANDBOX_URL={url}{below} E2B_VOLUME_API_URL={url}{below} \
             NO_PROXY=127.0.0.1,localhost\n\n\
             What it does is shown on {url}{below}/. Ctrl-C ends it."
        ))
    };
    if told.is_ok() {
        signals.next().await;
    }
    for left in proxy.stop().await {
        say(left);
    }
    told.map(|()| 0)
}

fn start_failure(error: &StartError) -> Failure {
    match error {
        StartError::Bind { addr, source } if source.kind() == ErrorKind::AddrInUse => Failure::usage(format!(
            "--port is {}: {addr} is in use by another program; 0 takes any free port",
            addr.port()
        )),
        StartError::TokenMissing { ip } => Failure::usage(format!(
            "--listen is {ip}, which lets other machines in: give a token of at least 16 bytes by ONCEBOX_PROXY_TOKEN or \
             --token, or listen on 127.0.0.1"
        )),
        error => Failure::usage(error),
    }
}
