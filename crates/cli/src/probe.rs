//! `oncebox probe`: many requests through the transport, and what became of each.

mod progress;
mod tally;

use std::io::IsTerminal;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use http::{HeaderName, HeaderValue, Method, Request, Uri};
use oncebox_transport::{Body, CallOptions, Client, Response};

use crate::args::{retries, seconds, whole};
use crate::connection::NetworkArgs;
use crate::exit::{Failure, PROBE_FAILED, print};
use progress::Progress;
use tally::Tally;

/// Streamed bodies are sent in pieces of this size.
const STREAM_PIECE: usize = 16 << 10;

/// The largest body that can be asked for: 1 GiB.
const MAX_BODY: u64 = 1 << 30;

#[derive(Debug, Args)]
pub(crate) struct ProbeArgs {
    /// Where to send the requests; http:// with --http 2 means prior knowledge
    url: String,
    /// How many requests to send
    #[arg(long, short = 'n', value_name = "N", default_value_t = 1, value_parser = whole::<u64>(1, Some(100_000_000)), allow_hyphen_values = true)]
    requests: u64,
    /// How many of them at once
    #[arg(long, short = 'c', value_name = "C", default_value_t = 1, value_parser = whole::<u64>(1, Some(100_000)), allow_hyphen_values = true)]
    concurrency: u64,
    /// The method
    #[arg(long, value_name = "M", default_value = "GET", value_parser = method)]
    method: Method,
    /// What kind of body each request has
    #[arg(long, value_enum, default_value = "none")]
    body: BodyKind,
    /// The body's size in bytes
    #[arg(long, value_name = "B", default_value_t = 128, value_parser = whole::<u64>(0, Some(MAX_BODY)), allow_hyphen_values = true)]
    body_size: u64,
    /// A header; may be repeated
    #[arg(long = "header", short = 'H', value_name = "NAME:VALUE", value_parser = header)]
    headers: Vec<(HeaderName, HeaderValue)>,
    /// A header that carries r0, r1, … and stays the same over the attempts of a call
    #[arg(long, value_name = "NAME", value_parser = header_name)]
    request_id_header: Option<HeaderName>,
    /// Retries after an answer or an unknown outcome [default: 3]
    #[arg(long, value_name = "N", value_parser = retries, allow_hyphen_values = true)]
    retries: Option<u32>,
    /// Repeats after failed connects and refusals [default: 3]
    #[arg(long, value_name = "N", value_parser = retries, allow_hyphen_values = true)]
    connection_retries: Option<u32>,
    /// Deadline of each call in seconds; 0 is none [default: 60]
    #[arg(long, value_name = "SECONDS", value_parser = seconds, allow_hyphen_values = true)]
    timeout: Option<Duration>,
    #[command(flatten)]
    network: NetworkArgs,
    /// Connect to this Unix socket, whatever host the URL names
    #[cfg(unix)]
    #[arg(long, value_name = "PATH", conflicts_with_all = ["proxy", "no_proxy"])]
    unix_socket: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum BodyKind {
    /// No body
    None,
    /// Bytes at hand
    Bytes,
    /// A stream, read as it is sent
    Stream,
}

pub(crate) async fn run(args: ProbeArgs) -> Result<u8, Failure> {
    let plan = Arc::new(Plan::new(&args)?);
    let progress = (!args.json && std::io::stderr().is_terminal()).then(|| Progress::start(args.requests));
    let next = Arc::new(AtomicU64::new(0));
    let started = Instant::now();
    let workers: Vec<_> = (0..args.concurrency.min(args.requests))
        .map(|_| {
            let (plan, next) = (plan.clone(), next.clone());
            let done = progress.as_ref().map(Progress::counter);
            tokio::spawn(async move {
                let mut tally = Tally::default();
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= plan.requests {
                        return tally;
                    }
                    let began = Instant::now();
                    let result = plan.send(number).await;
                    tally.take(&result, began.elapsed());
                    if let Some(done) = &done {
                        done.fetch_add(1, Ordering::Relaxed);
                    }
                }
            })
        })
        .collect();
    let mut tally = Tally::default();
    for worker in workers {
        let part = worker.await.map_err(|error| Failure::infrastructure(format!("a worker ended: {error}")))?;
        tally.add(part);
    }
    let seconds = started.elapsed();
    drop(progress);
    if args.json {
        print(tally.json(seconds))?;
    } else {
        print(tally.text(seconds).trim_end())?;
    }
    Ok(if tally.all_ok() { 0 } else { PROBE_FAILED })
}

/// What each request looks like.
struct Plan {
    client: Client,
    requests: u64,
    method: Method,
    uri: Uri,
    headers: Vec<(HeaderName, HeaderValue)>,
    request_id_header: Option<HeaderName>,
    body: BodyKind,
    bytes: bytes::Bytes,
}

impl Plan {
    fn new(args: &ProbeArgs) -> Result<Self, Failure> {
        let uri = uri(&args.url)?;
        let mut client = args.network.transport()?.http_version(args.network.http.unwrap_or_default());
        if let Some(retries) = args.retries {
            client = client.retries(retries);
        }
        if let Some(retries) = args.connection_retries {
            client = client.connection_retries(retries);
        }
        if let Some(timeout) = args.timeout {
            client = client.request_timeout(timeout);
        }
        #[cfg(unix)]
        if let Some(path) = &args.unix_socket {
            client = client.unix_socket(path);
        }
        let size = if args.body == BodyKind::None { 0 } else { args.body_size as usize };
        Ok(Self {
            client: client.build(),
            requests: args.requests,
            method: args.method.clone(),
            uri,
            headers: args.headers.clone(),
            request_id_header: args.request_id_header.clone(),
            body: args.body,
            bytes: vec![b'x'; size].into(),
        })
    }

    async fn send(&self, number: u64) -> Result<Response<bytes::Bytes>, oncebox_transport::Error> {
        let body = match self.body {
            BodyKind::None => Body::empty(),
            BodyKind::Bytes => Body::from(self.bytes.clone()),
            BodyKind::Stream => Body::stream(Pieces(self.bytes.clone())),
        };
        let mut request = Request::new(body);
        *request.method_mut() = self.method.clone();
        *request.uri_mut() = self.uri.clone();
        for (name, value) in &self.headers {
            request.headers_mut().append(name.clone(), value.clone());
        }
        if let Some(name) = &self.request_id_header
            && let Ok(value) = HeaderValue::try_from(format!("r{number}"))
        {
            request.headers_mut().insert(name.clone(), value);
        }
        self.client.send_collected(request, CallOptions::new()).await
    }
}

/// Bytes as a stream of pieces, its length unknown to who sends it.
struct Pieces(bytes::Bytes);

impl http_body::Body for Pieces {
    type Data = bytes::Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<http_body::Frame<bytes::Bytes>, Self::Error>>> {
        let piece = self.0.len().min(STREAM_PIECE);
        let piece = self.0.split_to(piece);
        std::task::Poll::Ready((!piece.is_empty()).then(|| Ok(http_body::Frame::data(piece))))
    }
}

/// The transport checks it too, for each call; here it is told once, before anything is sent.
fn uri(text: &str) -> Result<Uri, Failure> {
    let wrong = |rule: &str| Failure::usage(format!("{text:?} {rule}"));
    let uri: Uri =
        text.parse().map_err(|error| wrong(&format!("is no URL ({error}); it should look like http://host/path")))?;
    match uri.scheme_str() {
        Some("http" | "https") => Ok(uri),
        _ => Err(wrong("must begin with http:// or https://")),
    }
}

fn method(text: &str) -> Result<Method, String> {
    Method::from_bytes(text.to_uppercase().as_bytes()).map_err(|_| "it is no HTTP method".to_owned())
}

fn header(text: &str) -> Result<(HeaderName, HeaderValue), String> {
    let rule = "it must look like NAME:VALUE, in characters that a header can carry";
    let (name, value) = text.split_once(':').ok_or(rule)?;
    let value = HeaderValue::try_from(value.trim()).map_err(|_| rule)?;
    Ok((header_name(name)?, value))
}

fn header_name(text: &str) -> Result<HeaderName, String> {
    HeaderName::try_from(text.trim()).map_err(|_| "it is no name for a header".to_owned())
}
