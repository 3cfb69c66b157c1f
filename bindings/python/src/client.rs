//! The client of one provider.

use std::time::Duration;

use oncebox::{CallOptions, Endpoint, HttpVersion, IdempotencyKeys, Policy, Proxy};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::errors::{self, Subject, invalid};
use crate::options::Options;
use crate::pending::{Pending, begin_with};

/// Options, credentials and the way to the servers. No connection is opened yet.
#[pyclass(frozen, module = "oncebox._core")]
pub(crate) struct Client {
    pub(crate) inner: oncebox::Client,
}

#[pymethods]
impl Client {
    #[new]
    #[pyo3(signature = (options=None))]
    fn new(py: Python<'_>, options: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
        let inner = build(py, Options::new(options, py)?)?;
        Ok(Self { inner })
    }

    /// The same client whose calls have these options in place of its own.
    #[pyo3(name = "with_options", signature = (options=None))]
    fn with_options(&self, py: Python<'_>, options: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
        let options = call_options(Options::new(options, py)?)?;
        let inner = self.inner.with(options).map_err(|error| errors::raise(py, &error, Subject::Other))?;
        Ok(Self { inner })
    }

    /// Waits for what creates still clear away in the background. The result lists, one text each, what may live on.
    fn close(&self, py: Python<'_>) -> PyResult<Pending> {
        let client = self.inner.clone();
        begin_with(py, async move { client.close().await }, |py, left| {
            let left: Vec<String> = left.iter().map(ToString::to_string).collect();
            Ok(left.into_pyobject(py)?.into_any().unbind())
        })
    }
}

/// The options that one call can have in place of its client's.
pub(crate) fn call_options(options: Options<'_>) -> PyResult<CallOptions> {
    let mut call = CallOptions::new();
    if let Some(retries) = options.count("retries")? {
        call = call.retries(retries);
    }
    if let Some(retries) = options.count("connection_retries")? {
        call = call.connection_retries(retries);
    }
    if let Some(timeout) = options.seconds("request_timeout")? {
        call = call.request_timeout(timeout);
    }
    if let Some(key) = options.text("api_key")? {
        call = call.api_key(key);
    }
    for name in ["headers", "api_headers"] {
        for (header, value) in options.pairs(name)? {
            call = call.api_header(header, value);
        }
    }
    options.finish()?;
    Ok(call)
}

fn build(py: Python<'_>, options: Options<'_>) -> PyResult<oncebox::Client> {
    let mut builder = oncebox::Client::builder();
    // Both are extra headers for the control plane (protocol reference: `headers` is the old name of `api_headers`).
    for name in ["headers", "api_headers"] {
        for (header, value) in options.pairs(name)? {
            builder = builder.api_header(header, value);
        }
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
    if let Some(retries) = options.count("retries")? {
        builder = builder.retries(retries);
    }
    if let Some(retries) = options.count("connection_retries")? {
        builder = builder.connection_retries(retries);
    }
    if let Some(lookups) = options.count("lookups")? {
        builder = builder.lookups(lookups);
    }
    if let Some(connections) = options.count("max_connections")? {
        builder = builder.max_connections(connections as usize);
    }
    if let Some(streams) = options.count("initial_streams")? {
        builder = builder.initial_streams(streams);
    }
    if let Some(bytes) = options.count("replay_buffer_limit")? {
        builder = builder.replay_buffer_limit(bytes as usize);
    }
    type Set = fn(oncebox::ClientBuilder, Duration) -> oncebox::ClientBuilder;
    let times: [(&str, Set); 10] = [
        ("request_timeout", oncebox::ClientBuilder::request_timeout),
        ("attempt_timeout", oncebox::ClientBuilder::attempt_timeout),
        ("read_idle_timeout", oncebox::ClientBuilder::read_idle_timeout),
        ("keepalive_expiry", oncebox::ClientBuilder::keepalive_expiry),
        ("connect_timeout", oncebox::ClientBuilder::connect_timeout),
        ("dns_timeout", oncebox::ClientBuilder::dns_timeout),
        ("tls_timeout", oncebox::ClientBuilder::tls_timeout),
        ("proxy_timeout", oncebox::ClientBuilder::proxy_timeout),
        ("settle", oncebox::ClientBuilder::settle),
        ("cleanup_timeout", oncebox::ClientBuilder::cleanup_timeout),
    ];
    for (name, set) in times {
        if let Some(time) = options.seconds(name)? {
            builder = set(builder, time);
        }
    }
    if let Some(version) = options.text("http_version")? {
        builder = builder.http_version(match version.as_str() {
            "1.1" => HttpVersion::Http1,
            "2" => HttpVersion::Http2,
            _ => return Err(invalid(py, format!("http_version: {version:?} is neither \"1.1\" nor \"2\""))),
        });
    }
    if let Some(proxy) = options.text("proxy")? {
        builder = builder.proxy(Proxy::new(&proxy).map_err(|error| invalid(py, format!("proxy: {error}")))?);
    }
    if let Some(keys) = options.text("idempotency_keys")? {
        builder = builder.idempotency_keys(match keys.as_str() {
            "auto" => IdempotencyKeys::Auto,
            "honoured" => IdempotencyKeys::Honoured,
            "ignored" => IdempotencyKeys::Ignored,
            _ => return Err(invalid(py, format!("idempotency_keys: {keys:?} is none of auto, honoured, ignored"))),
        });
    }
    if let Some(policy) = options.text("policy")? {
        builder = builder.policy(match policy.as_str() {
            "default" => Policy::default(),
            "e2b_2_52" => Policy::e2b_2_52(),
            "e2b_2_63" => Policy::e2b_2_63(),
            _ => return Err(invalid(py, format!("policy: {policy:?} is none of default, e2b_2_52, e2b_2_63"))),
        });
    }
    if let Some(pem) = options.text("root_certificates")? {
        builder = builder.root_certificates(pem);
    }
    options.finish()?;
    builder.build().map_err(|error| errors::raise(py, &error, Subject::Other))
}
