//! A client's options, from Python's to the SDK's. Each is taken once; what is left over is refused.

use std::time::Duration;

use oncebox::{ClientBuilder, Endpoint, HttpVersion, IdempotencyKeys, transport};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use super::policy;
use crate::errors::{self, Subject, invalid};
use crate::options::{self, Options};
use crate::proxy;

/// The client of these options.
pub(super) fn client(py: Python<'_>, options: Options<'_>) -> PyResult<oncebox::Client> {
    // First: it takes the place of what is said of proxies and limits before it.
    let builder = oncebox::Client::builder().transport(beneath(&options)?);
    let builder = whereto(&options, builder)?;
    let builder = policy::apply(&options, builder)?;
    let builder = limits(&options, builder)?;
    let builder = route(&options, builder)?;
    options.finish()?;
    builder.build().map_err(|error| errors::raise(py, &error, Subject::Other))
}

/// What the transport alone has.
fn beneath(options: &Options<'_>) -> PyResult<transport::ClientBuilder> {
    let mut builder = transport::Client::builder();
    if let Some(limit) = options.seconds("write_idle_timeout")? {
        builder = builder.write_idle_timeout(limit);
    }
    if let Some(bytes) = options.size("max_response_size")? {
        builder = builder.max_response_size(bytes);
    }
    if let Some(age) = options.seconds("max_connection_age")? {
        builder = builder.max_connection_age(age);
    }
    if let Some(interval) = options.seconds("tcp_keepalive")? {
        builder = builder.tcp_keepalive(interval);
    }
    match (options.seconds("ping_interval")?, options.seconds("ping_timeout")?) {
        (None, None) => {}
        (interval, timeout) => {
            builder = builder.ping(interval.unwrap_or(PING_INTERVAL), timeout.unwrap_or(PING_TIMEOUT));
        }
    }
    if let Some(send) = options.flag("trace_context")? {
        builder = builder.trace_context(send);
    }
    if let Some(seed) = options.whole("seed", 0..=u64::MAX)? {
        builder = builder.seed(seed);
    }
    if let Some(path) = options.path("unix_socket")? {
        builder = unix(options, builder, path)?;
    }
    Ok(builder)
}

/// The other half of the pair where one alone is given: the transport's own defaults.
const PING_INTERVAL: Duration = Duration::from_secs(20);
const PING_TIMEOUT: Duration = Duration::from_secs(10);

#[cfg(unix)]
fn unix(_: &Options<'_>, builder: transport::ClientBuilder, path: String) -> PyResult<transport::ClientBuilder> {
    Ok(builder.unix_socket(path))
}

#[cfg(not(unix))]
fn unix(options: &Options<'_>, _: transport::ClientBuilder, _: String) -> PyResult<transport::ClientBuilder> {
    Err(invalid(options.py(), "unix_socket: there are none on this system"))
}

/// Who is asked, by whom.
fn whereto(options: &Options<'_>, mut builder: ClientBuilder) -> PyResult<ClientBuilder> {
    // Both are extra headers for the control plane (protocol reference: `headers` is the old name of `api_headers`).
    for name in ["headers", "api_headers"] {
        for (header, value) in options.headers(name)? {
            builder = builder.api_header(header, value);
        }
    }
    for (header, value) in options.headers("request_headers")? {
        builder = builder.header(header, value);
    }
    let is_keyless = options.flag("keyless")?.unwrap_or(false);
    let debug = options.flag("debug")?.unwrap_or(false);
    if debug {
        builder = builder.endpoint(Endpoint::debug());
        // It needs none, and a client has one.
        builder = builder.api_key(options.text("api_key")?.unwrap_or_else(|| "debug".into()));
    } else if let Some(key) = options.text("api_key")? {
        builder = builder.api_key(key);
    } else if is_keyless && std::env::var("E2B_API_KEY").unwrap_or_default().is_empty() {
        // The content of a volume wants the volume's token alone.
        let why = "no API key: set E2B_API_KEY or the option api_key";
        builder = builder.credentials(move || async move { Err(why.into()) });
    }
    if let Some(domain) = options.text("domain")? {
        builder = builder.domain(domain);
    }
    if let Some(url) = options.text("api_url")? {
        builder = builder.api_url(url);
    }
    if let Some(url) = options.text("sandbox_url")? {
        builder = builder.sandbox_url(url);
    }
    if let Some(url) = options.text("volume_api_url")? {
        builder = builder.volume_api_url(url);
    }
    Ok(builder)
}

fn limits(options: &Options<'_>, mut builder: ClientBuilder) -> PyResult<ClientBuilder> {
    if let Some(connections) = options.whole("max_connections", 1..=u32::MAX.into())? {
        builder = builder.max_connections(connections);
    }
    if let Some(streams) = options.whole("initial_streams", 1..=u32::MAX.into())? {
        builder = builder.initial_streams(streams);
    }
    if let Some(bytes) = options.size("replay_buffer_limit")? {
        builder = builder.replay_buffer_limit(bytes);
    }
    type Set = fn(ClientBuilder, Duration) -> ClientBuilder;
    let times: [(&str, Set); 10] = [
        ("request_timeout", ClientBuilder::request_timeout),
        ("attempt_timeout", ClientBuilder::attempt_timeout),
        ("read_idle_timeout", ClientBuilder::read_idle_timeout),
        ("keepalive_expiry", ClientBuilder::keepalive_expiry),
        ("connect_timeout", ClientBuilder::connect_timeout),
        ("dns_timeout", ClientBuilder::dns_timeout),
        ("tls_timeout", ClientBuilder::tls_timeout),
        ("proxy_timeout", ClientBuilder::proxy_timeout),
        ("settle", ClientBuilder::settle),
        ("cleanup_timeout", ClientBuilder::cleanup_timeout),
    ];
    for (name, set) in times {
        if let Some(time) = options.seconds(name)? {
            builder = set(builder, time);
        }
    }
    let keys = [
        ("auto", IdempotencyKeys::Auto),
        ("honoured", IdempotencyKeys::Honoured),
        ("ignored", IdempotencyKeys::Ignored),
    ];
    if let Some(keys) = options.choice("idempotency_keys", &keys)? {
        builder = builder.idempotency_keys(keys);
    }
    Ok(builder)
}

/// How connections are made.
fn route(options: &Options<'_>, mut builder: ClientBuilder) -> PyResult<ClientBuilder> {
    let py = options.py();
    if let Some(version) = options.choice("http_version", &[("1.1", HttpVersion::Http1), ("2", HttpVersion::Http2)])? {
        builder = builder.http_version(version);
    }
    let (given, never) = (options.take("proxy")?, options.flag("no_proxy")?.unwrap_or(false));
    match given {
        Some(_) if never => return Err(invalid(py, "no_proxy: a proxy is given, too; give one or the other")),
        Some(given) => {
            let proxy = proxy::new(given.extract()?).map_err(|error| invalid(py, error))?;
            builder = builder.proxy(proxy);
        }
        None if never => builder = builder.no_proxy(),
        None => {}
    }
    if let Some(pem) = options.bytes("root_certificates")? {
        builder = builder.root_certificates(pem);
    }
    if let Some(given) = options.take("client_certificate")? {
        let pair = given.cast::<PyTuple>()?;
        let part = |at: usize| options::bytes("client_certificate", &pair.get_item(at)?);
        builder = builder.client_certificate(part(0)?, part(1)?);
    }
    if let Some(accept) = options.flag("danger_accept_invalid_certificates")? {
        builder = builder.danger_accept_invalid_certificates(accept);
    }
    Ok(builder)
}
