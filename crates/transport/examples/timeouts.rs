//! Measures that a limit of 2 s ends a call after 2.0 to 2.3 s, whatever it waits for: `cargo xtask bench timeouts`.
//!
//! All at once, each against a peer of its own that goes no further than the step in question.

use std::error::Error as StdError;
use std::future::{Future, pending};
use std::net::SocketAddr;
use std::pin::Pin;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::future::join_all;
use http::Request;
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use oncebox_transport::policy::{Outcome, Phase};
use oncebox_transport::{Body, BoxError, CallOptions, Client, ClientBuilder, Error, Proxy, Resolve, Resolving, Step};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};

const LIMIT: Duration = Duration::from_secs(2);
const BAND: std::ops::RangeInclusive<Duration> = Duration::from_secs(2)..=Duration::from_millis(2300);

type Run = Pin<Box<dyn Future<Output = Result<(), Box<dyn StdError>>>>>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let runs: Vec<(&str, Run)> = vec![
        ("dns", Box::pin(dns())),
        ("connect", Box::pin(connect())),
        ("proxy", Box::pin(proxy())),
        ("tls", Box::pin(tls())),
        ("waiting for a slot", Box::pin(slot())),
        ("upload", Box::pin(upload())),
        ("headers", Box::pin(headers())),
        ("body", Box::pin(body())),
        ("body idle", Box::pin(body_idle())),
    ];
    let outcomes = join_all(runs.into_iter().map(|(name, run)| async move { (name, run.await) })).await;
    let mut code = ExitCode::SUCCESS;
    for (name, outcome) in outcomes {
        match outcome {
            Ok(()) => println!("{name:<20} in the band"),
            Err(error) => {
                println!("{name:<20} FAILED: {error}");
                code = ExitCode::FAILURE;
            }
        }
    }
    code
}

/// The call must fail within the band, as `is_it` wants it, and after one attempt.
async fn expect(
    client: ClientBuilder,
    request: Request<Body>,
    options: CallOptions,
    is_it: impl Fn(&Error) -> bool,
) -> Result<(), Box<dyn StdError>> {
    let client = client.connection_retries(0).build();
    let began = Instant::now();
    let Err(error) = client.send_collected(request, options).await else { return Err("it was answered".into()) };
    let took = began.elapsed();
    println!("{took:>12.3?}  {error}");
    if !is_it(&error) || error.attempts().len() != 1 {
        return Err(format!("not what was expected: {error}").into());
    }
    in_band(took)
}

fn in_band(took: Duration) -> Result<(), Box<dyn StdError>> {
    if BAND.contains(&took) { Ok(()) } else { Err(format!("{took:.3?} is not within {BAND:?}").into()) }
}

fn dial_failed_in(phase: Phase) -> impl Fn(&Error) -> bool {
    move |error| matches!(error.outcome(), Some(Outcome::NotSent(not_sent)) if not_sent.phase == phase)
}

fn stopped_in(step: Step) -> impl Fn(&Error) -> bool {
    move |error| error.timed_out_in() == Some(step)
}

fn get(url: &str) -> Result<Request<Body>, http::Error> {
    Request::get(url).body(Body::empty())
}

fn limited() -> CallOptions {
    CallOptions::new().request_timeout(LIMIT)
}

async fn dns() -> Result<(), Box<dyn StdError>> {
    struct Silent;
    impl Resolve for Silent {
        fn resolve(&self, _: &str) -> Resolving {
            Box::pin(pending())
        }
    }
    let client = Client::builder().no_proxy().resolver(Silent).dns_timeout(LIMIT);
    expect(client, get("http://service.test/")?, CallOptions::new(), dial_failed_in(Phase::Dns)).await
}

/// A listener whose queue is full lets connections hang.
async fn connect() -> Result<(), Box<dyn StdError>> {
    let socket = TcpSocket::new_v4()?;
    socket.bind(([127, 0, 0, 1], 0).into())?;
    let listener = socket.listen(1)?;
    let address = listener.local_addr()?;
    let mut queued = Vec::new();
    while let Ok(stream) = tokio::time::timeout(Duration::from_millis(200), TcpStream::connect(address)).await {
        queued.push(stream?);
    }
    let client = Client::builder().connect_timeout(LIMIT);
    expect(client, get(&format!("http://{address}/"))?, CallOptions::new(), dial_failed_in(Phase::Connect)).await
}

async fn proxy() -> Result<(), Box<dyn StdError>> {
    let client = Client::builder().proxy(Proxy::new(&format!("http://{}", silent("").await?))?).proxy_timeout(LIMIT);
    expect(client, get("https://service.test/")?, CallOptions::new(), dial_failed_in(Phase::Proxy)).await
}

async fn tls() -> Result<(), Box<dyn StdError>> {
    let client = Client::builder().tls_timeout(LIMIT);
    let url = format!("https://{}/", silent("").await?);
    expect(client, get(&url)?, CallOptions::new(), dial_failed_in(Phase::Tls)).await
}

async fn slot() -> Result<(), Box<dyn StdError>> {
    let url = format!("http://{}/", silent("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n").await?);
    let client = Client::builder().max_connections(1);
    let holding = client.clone().build();
    let _held = holding.send(get(&url)?, CallOptions::new()).await?;
    expect(client, get(&url)?, limited(), stopped_in(Step::Slot)).await
}

async fn upload() -> Result<(), Box<dyn StdError>> {
    let frames = futures_util::stream::repeat_with(|| Ok::<_, BoxError>(Frame::data(Bytes::from_static(&[0; 4096]))));
    let request = Request::put(format!("http://{}/", silent("").await?)).body(Body::stream(StreamBody::new(frames)))?;
    let options = CallOptions::new().write_idle_timeout(LIMIT);
    expect(Client::builder(), request, options, stopped_in(Step::Upload)).await
}

async fn headers() -> Result<(), Box<dyn StdError>> {
    let url = format!("http://{}/", silent("").await?);
    expect(Client::builder(), get(&url)?, limited(), stopped_in(Step::Head)).await
}

async fn body() -> Result<(), Box<dyn StdError>> {
    let url = format!("http://{}/", silent("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf").await?);
    expect(Client::builder(), get(&url)?, limited(), stopped_in(Step::Body)).await
}

async fn body_idle() -> Result<(), Box<dyn StdError>> {
    let url = format!("http://{}/", silent("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf").await?);
    let options = CallOptions::new().read_idle_timeout(LIMIT);
    let mut body = Client::new().send(get(&url)?, options).await?.into_body();
    let began = Instant::now();
    loop {
        match body.frame().await {
            Some(Ok(_)) => {}
            Some(Err(error)) if error.is_idle_timeout() => {
                println!("{:>12.3?}  {error}", began.elapsed());
                return in_band(began.elapsed());
            }
            other => return Err(format!("not what was expected: {other:?}").into()),
        }
    }
}

/// A peer that reads a little, says this, and then nothing more.
async fn silent(says: &'static str) -> std::io::Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move {
        let mut kept = Vec::new();
        while let Ok((mut socket, _)) = listener.accept().await {
            let mut some = [0; 16];
            if socket.read_exact(&mut some).await.is_ok() && socket.write_all(says.as_bytes()).await.is_ok() {
                kept.push(socket);
            }
        }
    });
    Ok(address)
}
