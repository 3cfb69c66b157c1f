//! Options as JavaScript names them. Times are milliseconds, and zero is what it is for the transport.

use std::time::Duration;

use napi::{Error, Result, Status};
use oncebox_policy::{Permit, Policy};
use oncebox_protocol::answers;
use oncebox_transport::{CallOptions, Client, ClientBuilder, HttpVersion, Proxy, TrafficClass};
use serde::Deserialize;
use serde::de::DeserializeOwned;

/// Options of a client. What is not given is the transport's default.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ClientSettings {
    policy: Option<Policy>,
    request_timeout: Option<f64>,
    attempt_timeout: Option<f64>,
    read_idle_timeout: Option<f64>,
    write_idle_timeout: Option<f64>,
    replay_buffer_limit: Option<u32>,
    max_response_size: Option<u32>,
    http_version: Option<Version>,
    max_connections: Option<u32>,
    keepalive_expiry: Option<f64>,
    max_connection_age: Option<f64>,
    initial_streams: Option<u32>,
    ping_interval: Option<f64>,
    ping_timeout: Option<f64>,
    dns_timeout: Option<f64>,
    connect_timeout: Option<f64>,
    tls_timeout: Option<f64>,
    proxy_timeout: Option<f64>,
    tcp_keepalive: Option<f64>,
    root_certificates: Vec<String>,
    client_certificate: Option<ClientCertificate>,
    danger_accept_invalid_certificates: bool,
    proxy: Option<ProxySetting>,
    unix_socket: Option<String>,
    trace_context: bool,
    seed: Option<u32>,
}

#[derive(Debug, Deserialize)]
enum Version {
    #[serde(rename = "auto")]
    Auto,
    #[serde(rename = "1.1")]
    Http1,
    #[serde(rename = "2")]
    Http2,
}

/// Both in PEM form.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ClientCertificate {
    cert: String,
    key: String,
}

// Holds a secret.
impl std::fmt::Debug for ClientCertificate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClientCertificate").finish_non_exhaustive()
    }
}

/// `false`, a URL, or a URL with exceptions.
#[derive(Deserialize)]
#[serde(untagged)]
enum ProxySetting {
    Use(bool),
    Url(String),
    Except { url: String, except: String },
}

// Its URL may hold a password.
impl std::fmt::Debug for ProxySetting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ProxySetting").finish_non_exhaustive()
    }
}

impl ClientSettings {
    /// The client.
    pub(crate) fn build(self) -> Result<ClientBuilder> {
        let mut builder = Client::builder();
        if let Some(policy) = self.policy {
            builder = builder.policy(policy);
        }
        let times: [Time<ClientBuilder>; 11] = [
            ("requestTimeout", self.request_timeout, ClientBuilder::request_timeout),
            ("attemptTimeout", self.attempt_timeout, ClientBuilder::attempt_timeout),
            ("readIdleTimeout", self.read_idle_timeout, ClientBuilder::read_idle_timeout),
            ("writeIdleTimeout", self.write_idle_timeout, ClientBuilder::write_idle_timeout),
            ("keepaliveExpiry", self.keepalive_expiry, ClientBuilder::keepalive_expiry),
            ("maxConnectionAge", self.max_connection_age, ClientBuilder::max_connection_age),
            ("dnsTimeout", self.dns_timeout, ClientBuilder::dns_timeout),
            ("connectTimeout", self.connect_timeout, ClientBuilder::connect_timeout),
            ("tlsTimeout", self.tls_timeout, ClientBuilder::tls_timeout),
            ("proxyTimeout", self.proxy_timeout, ClientBuilder::proxy_timeout),
            ("tcpKeepalive", self.tcp_keepalive, ClientBuilder::tcp_keepalive),
        ];
        builder = with_times(builder, times)?;
        builder = match self.http_version {
            None | Some(Version::Auto) => builder,
            Some(Version::Http1) => builder.http_version(HttpVersion::Http1),
            Some(Version::Http2) => builder.http_version(HttpVersion::Http2),
        };
        if let Some(bytes) = self.replay_buffer_limit {
            builder = builder.replay_buffer_limit(bytes as usize);
        }
        if let Some(bytes) = self.max_response_size {
            builder = builder.max_response_size(bytes as usize);
        }
        if let Some(connections) = self.max_connections {
            builder = builder.max_connections(connections as usize);
        }
        if let Some(streams) = self.initial_streams {
            builder = builder.initial_streams(streams);
        }
        if self.ping_interval.is_some() || self.ping_timeout.is_some() {
            let interval = duration("pingInterval", self.ping_interval.unwrap_or(20_000.0))?;
            builder = builder.ping(interval, duration("pingTimeout", self.ping_timeout.unwrap_or(10_000.0))?);
        }
        for pem in &self.root_certificates {
            builder = builder
                .add_root_certificates(pem.as_bytes())
                .map_err(|error| invalid(&format_args!("rootCertificates: {error}")))?;
        }
        if let Some(ClientCertificate { cert, key }) = &self.client_certificate {
            let with = builder.client_certificate(cert.as_bytes(), key.as_bytes());
            builder = with.map_err(|error| invalid(&format_args!("clientCertificate: {error}")))?;
        }
        builder = builder.danger_accept_invalid_certificates(self.danger_accept_invalid_certificates);
        builder = builder.trace_context(self.trace_context);
        let proxy = |url: &str| Proxy::new(url).map_err(|error| invalid(&error));
        builder = match &self.proxy {
            // What the environment says.
            None | Some(ProxySetting::Use(true)) => builder,
            Some(ProxySetting::Use(false)) => builder.no_proxy(),
            Some(ProxySetting::Url(url)) => builder.proxy(proxy(url)?),
            Some(ProxySetting::Except { url, except }) => builder.proxy(proxy(url)?.except(except)),
        };
        if let Some(path) = &self.unix_socket {
            builder = unix_socket(builder, path)?;
        }
        if let Some(seed) = self.seed {
            builder = builder.seed(seed.into());
        }
        builder
            .validate()
            .map_err(|error| invalid(&format_args!("{}: {} is not {}", camel(error.name), error.value, error.rule)))?;
        Ok(builder)
    }
}

#[cfg(unix)]
#[allow(clippy::unnecessary_wraps)]
fn unix_socket(builder: ClientBuilder, path: &str) -> Result<ClientBuilder> {
    Ok(builder.unix_socket(path))
}

#[cfg(not(unix))]
fn unix_socket(_: ClientBuilder, _: &str) -> Result<ClientBuilder> {
    Err(invalid(&"unixSocket: there are none on this system"))
}

/// Options of a call. What is not given is the client's.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct CallSettings {
    retries: Option<u32>,
    connection_retries: Option<u32>,
    request_timeout: Option<f64>,
    attempt_timeout: Option<f64>,
    read_idle_timeout: Option<f64>,
    write_idle_timeout: Option<f64>,
    permit: Option<Permit>,
    mints: bool,
    reconciles: bool,
    bulk: bool,
    /// The answer may be that of the proxy in front of sandboxes, or an error that a stream begins with.
    edge: bool,
    /// The response is read whole, within the attempt.
    pub(crate) collect: bool,
    /// Each attempt is told when it ends.
    pub(crate) watch: bool,
}

impl CallSettings {
    /// The transport's own.
    pub(crate) fn options(&self) -> Result<CallOptions> {
        let mut options = CallOptions::new().mints(self.mints).reconciles(self.reconciles);
        if let Some(retries) = self.retries {
            options = options.retries(retries);
        }
        if let Some(retries) = self.connection_retries {
            options = options.connection_retries(retries);
        }
        let times: [Time<CallOptions>; 4] = [
            ("requestTimeout", self.request_timeout, CallOptions::request_timeout),
            ("attemptTimeout", self.attempt_timeout, CallOptions::attempt_timeout),
            ("readIdleTimeout", self.read_idle_timeout, CallOptions::read_idle_timeout),
            ("writeIdleTimeout", self.write_idle_timeout, CallOptions::write_idle_timeout),
        ];
        options = with_times(options, times)?;
        if let Some(permit) = self.permit {
            options = options.permit(permit);
        }
        if self.edge {
            options = options.answer_reader(answers::read);
        }
        Ok(if self.bulk { options.class(TrafficClass::Bulk) } else { options })
    }
}

/// Reads options from JSON. Nothing stands for none.
pub(crate) fn parse<T: DeserializeOwned + Default>(json: Option<&str>) -> Result<T> {
    json.map_or_else(|| Ok(T::default()), |json| serde_json::from_str(json).map_err(|error| invalid(&error)))
}

/// An option's name, its value, and what takes it.
type Time<B> = (&'static str, Option<f64>, fn(B, Duration) -> B);

/// Sets those that are given.
fn with_times<B, const N: usize>(mut builder: B, times: [Time<B>; N]) -> Result<B> {
    for (name, time, set) in times {
        if let Some(time) = time {
            builder = set(builder, duration(name, time)?);
        }
    }
    Ok(builder)
}

fn duration(name: &str, milliseconds: f64) -> Result<Duration> {
    Duration::try_from_secs_f64(milliseconds / 1000.0).map_err(|_| {
        invalid(&format_args!("{name}: {milliseconds} is not a number of milliseconds from 0 to 2147483647000"))
    })
}

/// An option's name as JavaScript has it.
fn camel(name: &str) -> String {
    let mut words = name.split('_');
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |all, word| all + &word[..1].to_ascii_uppercase() + &word[1..])
}

/// An argument was refused, before any I/O.
pub(crate) fn invalid(error: &dyn std::fmt::Display) -> Error {
    Error::new(Status::InvalidArg, error.to_string())
}
