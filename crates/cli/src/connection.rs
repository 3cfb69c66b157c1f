//! Where sandboxes are, and the way there: options that several subcommands share.

use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use oncebox::{Client, ErrorKind, HttpVersion, Proxy};
use oncebox_transport::ClientBuilder;

use crate::args::{retries, seconds};
use crate::bounded::read_bytes;
use crate::config;
use crate::exit::Failure;
use crate::serve::{host, start_failure};

/// The longest file of certificates: all that a system trusts take less than one MiB.
const MAX_PEM: u64 = 16 << 20;

/// What says nothing of an embedded server.
const OF_A_PROVIDER: [&str; 14] = [
    "domain",
    "api_url",
    "sandbox_url",
    "volume_api_url",
    "request_timeout",
    "retries",
    "connection_retries",
    "http",
    "insecure",
    "ca",
    "cert",
    "key",
    "proxy",
    "no_proxy",
];

/// Options of the client. The environment's: E2B_API_KEY, E2B_DOMAIN, E2B_API_URL, E2B_SANDBOX_URL, …
#[derive(Debug, Args)]
pub(crate) struct ConnectionArgs {
    /// Run on this machine, on an embedded server started for it
    #[arg(long, conflicts_with_all = OF_A_PROVIDER)]
    pub(crate) local: bool,
    /// With --local: run without isolating sandboxes from this machine
    #[arg(long, requires = "local")]
    pub(crate) no_isolation: bool,
    #[command(flatten)]
    pub(crate) provider: ProviderArgs,
}

/// A provider of sandboxes. What follows it in a command would be below its heading: it comes last.
#[derive(Debug, Args)]
#[command(next_help_heading = "Connection options")]
pub(crate) struct ProviderArgs {
    /// The provider's domain [env: E2B_DOMAIN] [default: e2b.app]
    #[arg(long, value_name = "HOST")]
    pub(crate) domain: Option<String>,
    /// Where the control plane is [env: E2B_API_URL]
    #[arg(long, value_name = "URL")]
    pub(crate) api_url: Option<String>,
    /// Where sandboxes are reached [env: E2B_SANDBOX_URL]
    #[arg(long, value_name = "URL")]
    pub(crate) sandbox_url: Option<String>,
    /// Where the content of volumes is [env: E2B_VOLUME_API_URL]
    #[arg(long, value_name = "URL")]
    pub(crate) volume_api_url: Option<String>,
    /// Deadline of a control-plane call in seconds; 0 is none [env: ONCEBOX_REQUEST_TIMEOUT] [default: 60]
    #[arg(long, value_name = "SECONDS", value_parser = seconds, allow_hyphen_values = true)]
    pub(crate) request_timeout: Option<Duration>,
    /// Retries of a control-plane call [env: ONCEBOX_RETRIES] [default: 3]
    #[arg(long, value_name = "N", value_parser = retries, allow_hyphen_values = true)]
    pub(crate) retries: Option<u32>,
    /// Repeats after failed connects and refusals [env: E2B_CONNECTION_RETRIES] [default: 3]
    #[arg(long, value_name = "N", value_parser = retries, allow_hyphen_values = true)]
    pub(crate) connection_retries: Option<u32>,
    #[command(flatten)]
    pub(crate) network: NetworkArgs,
}

impl ConnectionArgs {
    /// A client: of an embedded server with room for so many sandboxes, or of a provider. `json`: how failures are shown.
    pub(crate) async fn client(&self, sandboxes: Option<usize>, json: bool) -> Result<Client, Failure> {
        if !self.local {
            let way_out = "set E2B_API_KEY to use a sandbox provider, or add --local to run on this machine";
            return self.provider.build(json, way_out);
        }
        let mut host = host(self.no_isolation)?;
        if let Some(sandboxes) = sandboxes {
            host = host.max_sandboxes(sandboxes);
        }
        let server = host.start().await.map_err(|error| start_failure(&error))?;
        Client::of(server).map_err(|error| Failure::of(&error, json))
    }
}

impl ProviderArgs {
    /// A client of it. `json`: how failures are shown.
    pub(crate) fn client(&self, json: bool) -> Result<Client, Failure> {
        self.build(json, "set E2B_API_KEY, or api_key in the configuration file (`oncebox config` tells where it is)")
    }

    fn build(&self, json: bool, way_out: &str) -> Result<Client, Failure> {
        self.builder()?.build().map_err(|error| match error.kind() {
            ErrorKind::Authentication => Failure::usage(format!("no API key: {way_out}")),
            _ => match config::by_its_source(self, &error.to_string()) {
                Some(message) => Failure::usage(message),
                None => Failure::of(&error, json),
            },
        })
    }

    /// These options, and those of the environment and the configuration file.
    pub(crate) fn builder(&self) -> Result<oncebox::ClientBuilder, Failure> {
        let builder = config::apply(self, Client::builder().transport(self.network.transport()?))?;
        // It stands against the file's, which is no flag.
        Ok(if self.network.no_proxy { builder.no_proxy() } else { builder })
    }
}

/// The way to a server: TLS, proxies, the version of HTTP.
#[derive(Debug, Args)]
pub(crate) struct NetworkArgs {
    /// The HTTP version, 1.1 or 2 [default: what the server chooses over https, else 1.1]
    #[arg(long, value_name = "VERSION", value_parser = http_version)]
    pub(crate) http: Option<HttpVersion>,
    /// Accept any certificate; for tests only
    #[arg(long, conflicts_with = "ca")]
    insecure: bool,
    /// Trust the certificates of this PEM file besides the platform's
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// The client's certificate, a PEM file with its chain, for servers that ask for one
    #[arg(long, value_name = "FILE", requires = "key")]
    cert: Option<PathBuf>,
    /// The certificate's private key, a PEM file
    #[arg(long, value_name = "FILE", requires = "cert")]
    key: Option<PathBuf>,
    /// Go through this proxy: http://, https://, socks5:// or socks5h://[USER:PASSWORD@]HOST:PORT [default: what HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and NO_PROXY say]
    // Not parsed by clap, which would print what is wrong, and with it a password.
    #[arg(long, value_name = "URL")]
    pub(crate) proxy: Option<String>,
    /// Go through no proxy, whatever the environment says
    #[arg(long, conflicts_with = "proxy")]
    pub(crate) no_proxy: bool,
}

impl NetworkArgs {
    /// A transport with these options, but for the HTTP version, which the environment may have a say in.
    pub(crate) fn transport(&self) -> Result<ClientBuilder, Failure> {
        let mut transport = oncebox_transport::Client::builder().danger_accept_invalid_certificates(self.insecure);
        if let Some(path) = &self.ca {
            let wrong = |error: &dyn Display| Failure::usage(format!("--ca {}: {error}", path.display()));
            let pem = read("--ca", path)?;
            transport = transport.add_root_certificates(&pem).map_err(|error| wrong(&error))?;
        }
        if let (Some(cert), Some(key_file)) = (&self.cert, &self.key) {
            let (chain, key) = (read("--cert", cert)?, read("--key", key_file)?);
            let wrong =
                |error| Failure::usage(format!("--cert {}, --key {}: {error}", cert.display(), key_file.display()));
            transport = transport.client_certificate(&chain, &key).map_err(wrong)?;
        }
        if let Some(proxy) = &self.proxy {
            let proxy = Proxy::new(proxy).map_err(|error| Failure::usage(format!("--proxy: {error}")))?;
            transport = transport.proxy(proxy);
        }
        Ok(if self.no_proxy { transport.no_proxy() } else { transport })
    }
}

fn read(option: &str, path: &Path) -> Result<Vec<u8>, Failure> {
    let bytes = std::fs::File::open(path).and_then(|file| read_bytes(file, MAX_PEM));
    bytes.map_err(|error| Failure::unreadable(option, path, &error))
}

pub(crate) fn http_version(text: &str) -> Result<HttpVersion, String> {
    match text {
        "1.1" => Ok(HttpVersion::Http1),
        "2" => Ok(HttpVersion::Http2),
        _ => Err("it must be 1.1 or 2".to_owned()),
    }
}
