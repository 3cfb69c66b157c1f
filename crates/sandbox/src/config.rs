//! A client's options: what was given, else the environment, else the default.

use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue};
use oncebox_transport::policy::{OptionError, Policy, check_at_least_one, check_duration, retries_option};
use oncebox_transport::{BoxError, HttpVersion};

use crate::endpoint::{DEFAULT_DOMAIN, Endpoint};
use crate::error::{Error, ErrorKind};
use crate::once::CreateOptions;

/// The environment variables that are read.
pub(crate) const VARIABLES: [&str; 10] = [
    "E2B_API_KEY",
    "E2B_DOMAIN",
    "E2B_API_URL",
    "E2B_SANDBOX_URL",
    "E2B_VOLUME_API_URL",
    "E2B_DEBUG",
    "E2B_CONNECTION_RETRIES",
    "E2B_HTTP_VERSION",
    "E2B_MAX_CONNECTIONS",
    "E2B_KEEPALIVE_EXPIRY",
];

/// Looks a variable up. Tests pass their own.
pub(crate) type Environment<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Asks for an API key: at first, and again when the server refused the last one.
#[derive(Clone)]
pub(crate) struct Credentials(pub(crate) Arc<Ask>);

type Ask = dyn Fn() -> Pin<Box<dyn Future<Output = Result<String, BoxError>> + Send>> + Send + Sync;

/// Options as given; `None` falls back.
#[derive(Clone, Default)]
pub(crate) struct Given {
    pub(crate) api_key: Option<String>,
    pub(crate) domain: Option<String>,
    pub(crate) api_url: Option<String>,
    pub(crate) sandbox_url: Option<String>,
    pub(crate) volume_api_url: Option<String>,
    pub(crate) endpoint: Option<Endpoint>,
    pub(crate) root_certificates: Vec<Vec<u8>>,
    pub(crate) credentials: Option<Credentials>,
    pub(crate) lookups: Option<u32>,
    pub(crate) request_timeout: Option<Duration>,
    pub(crate) retries: Option<u32>,
    pub(crate) connection_retries: Option<u32>,
    pub(crate) policy: Option<Policy>,
    pub(crate) http_version: Option<HttpVersion>,
    pub(crate) max_connections: Option<usize>,
    pub(crate) keepalive_expiry: Option<Duration>,
    /// Chain and key, in PEM form.
    pub(crate) client_certificate: Option<(Vec<u8>, Vec<u8>)>,
    pub(crate) creates: CreateOptions,
    /// For every request.
    pub(crate) headers: Vec<(String, String)>,
    /// For the control plane alone.
    pub(crate) api_headers: Vec<(String, String)>,
    /// What the environment has no say in, and cannot be wrong.
    pub(crate) transport: oncebox_transport::ClientBuilder,
}

/// Options as they hold.
pub(crate) struct Config {
    /// `None`: the hook has not been asked yet.
    pub(crate) api_key: Mutex<Option<HeaderValue>>,
    pub(crate) credentials: Option<Credentials>,
    pub(crate) endpoint: Endpoint,
    pub(crate) creates: CreateOptions,
    /// For every request.
    pub(crate) headers: HeaderMap,
    /// For the control plane alone.
    pub(crate) api_headers: HeaderMap,
    pub(crate) transport: oncebox_transport::Client,
}

impl Config {
    pub(crate) fn resolve(given: Given, environment: Environment<'_>) -> Result<Self, Error> {
        let variable = |name: &str| environment(name).filter(|value| !value.is_empty());
        let api_key = match (&given.api_key, &given.credentials) {
            // The hook gives one, before the first call.
            (None, Some(_)) => None,
            (key, _) => Some(api_key(key.clone().or_else(|| variable("E2B_API_KEY")))?),
        };
        let endpoint = endpoint(&given, &variable)?;
        let headers = |option: &str, given: &[(String, String)]| {
            given.iter().map(|(name, value)| header(option, name, value)).collect::<Result<HeaderMap, _>>()
        };
        let (headers, api_headers) = (headers("header", &given.headers)?, headers("api_header", &given.api_headers)?);

        let transport = transport(&given, &variable)?;
        check_duration("settle", given.creates.settle).map_err(refused)?;
        check_duration("cleanup_timeout", given.creates.cleanup_timeout).map_err(refused)?;
        Ok(Self {
            api_key: Mutex::new(api_key),
            credentials: given.credentials,
            endpoint,
            creates: given.creates,
            headers,
            api_headers,
            transport: transport.build(),
        })
    }
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config").field("endpoint", &self.endpoint).finish_non_exhaustive()
    }
}

/// The transport's own options, as they hold.
pub(crate) fn transport(
    given: &Given,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Result<oncebox_transport::ClientBuilder, Error> {
    let mut transport = given.transport.clone();
    for pem in &given.root_certificates {
        transport =
            transport.add_root_certificates(pem).map_err(|e| Error::invalid(format!("root_certificates: {e}")))?;
    }
    if let Some((chain, key)) = &given.client_certificate {
        let wrong = |error| Error::invalid(format!("client_certificate: {error}"));
        transport = transport.client_certificate(chain, key).map_err(wrong)?;
    }
    if given.policy.is_some() || given.lookups.is_some() {
        let mut policy = given.policy.clone().unwrap_or_default();
        policy.lookups = given.lookups.unwrap_or(policy.lookups);
        transport = transport.policy(policy);
    }
    if let Some(timeout) = given.request_timeout {
        transport = transport.request_timeout(timeout);
    }
    if let Some(given) = given.retries {
        transport = transport.retries(retries("retries", &given.to_string())?);
    }
    let connection_retries = match (given.connection_retries, &given.policy) {
        (Some(given), _) => Some(retries("connection_retries", &given.to_string())?),
        // It says how many.
        (None, Some(_)) => None,
        (None, None) => {
            let name = "E2B_CONNECTION_RETRIES";
            variable(name).map(|text| retries(name, &text)).transpose()?
        }
    };
    if let Some(retries) = connection_retries {
        transport = transport.connection_retries(retries);
    }
    let version = match given.http_version {
        Some(version) => Some(version),
        None => http_version(variable)?,
    };
    if let Some(version) = version {
        transport = transport.http_version(version);
    }
    let connections = match given.max_connections {
        Some(connections) => Some(("max_connections", connections)),
        None => number(variable, "E2B_MAX_CONNECTIONS")?.map(|number| ("E2B_MAX_CONNECTIONS", number as usize)),
    };
    if let Some((name, connections)) = connections {
        check_at_least_one(name, connections).map_err(refused)?;
        transport = transport.max_connections(connections);
    }
    let expiry = match given.keepalive_expiry {
        Some(expiry) => Some(expiry),
        None => number(variable, "E2B_KEEPALIVE_EXPIRY")?.map(|seconds| Duration::from_secs(seconds.into())),
    };
    if let Some(expiry) = expiry {
        transport = transport.keepalive_expiry(expiry);
    }
    transport.validate().map_err(refused)?;
    Ok(transport)
}

/// An option's value that its rule forbids.
pub(crate) fn refused(error: OptionError) -> Error {
    Error::invalid(error.to_string())
}

fn endpoint(given: &Given, variable: &dyn Fn(&str) -> Option<String>) -> Result<Endpoint, Error> {
    if let Some(endpoint) = &given.endpoint {
        let parts = [&given.domain, &given.api_url, &given.sandbox_url, &given.volume_api_url];
        if parts.iter().any(|part| part.is_some()) {
            return Err(Error::invalid(
                "endpoint: it says all of domain, api_url, sandbox_url and volume_api_url; give one or the others",
            ));
        }
        return Ok(endpoint.clone());
    }
    let domain = given.domain.clone().or_else(|| variable("E2B_DOMAIN"));
    // A domain that was given says where to go; the variable speaks of those who gave none.
    let debug = match variable("E2B_DEBUG") {
        Some(debug) => given.domain.is_none() && boolean("E2B_DEBUG", &debug)?,
        None => false,
    };
    let mut endpoint =
        if debug { Endpoint::debug() } else { Endpoint::domain(domain.as_deref().unwrap_or(DEFAULT_DOMAIN))? };
    if let Some(url) = given.api_url.clone().or_else(|| variable("E2B_API_URL")) {
        endpoint = endpoint.api_url(&url)?;
    }
    if let Some(url) = given.sandbox_url.clone().or_else(|| variable("E2B_SANDBOX_URL")) {
        endpoint = endpoint.sandbox_url(&url)?;
    }
    if let Some(url) = given.volume_api_url.clone().or_else(|| variable("E2B_VOLUME_API_URL")) {
        endpoint = endpoint.volume_api_url(&url)?;
    }
    Ok(endpoint)
}

fn boolean(name: &str, text: &str) -> Result<bool, Error> {
    match text.trim().to_ascii_lowercase().as_str() {
        "true" | "1" => Ok(true),
        "false" | "0" => Ok(false),
        _ => Err(Error::invalid(format!("{name}: {text:?} is neither true nor false"))),
    }
}

pub(crate) fn api_key(key: Option<String>) -> Result<HeaderValue, Error> {
    let key = key.ok_or_else(|| {
        Error::new(
            ErrorKind::Authentication,
            "",
            "no API key: set E2B_API_KEY or the option api_key, or use the embedded local server, which needs none",
        )
    })?;
    // The key itself stays out of the message.
    let mut value = HeaderValue::try_from(key.trim())
        .map_err(|_| Error::invalid("api_key: it holds characters that a header cannot carry"))?;
    value.set_sensitive(true);
    Ok(value)
}

pub(crate) fn header(option: &str, name: &str, value: &str) -> Result<(HeaderName, HeaderValue), Error> {
    // The value may be a secret.
    match (HeaderName::try_from(name), HeaderValue::try_from(value)) {
        (Ok(name), Ok(value)) => Ok((name, value)),
        _ => Err(Error::invalid(format!("{option}: {name:?} and its value make no header"))),
    }
}

/// The policy's own check, which names the option, the value and the rule.
pub(crate) fn retries(option: &'static str, text: &str) -> Result<u32, Error> {
    retries_option(option, text).map_err(refused)
}

fn number(variable: &dyn Fn(&str) -> Option<String>, name: &str) -> Result<Option<u32>, Error> {
    let Some(text) = variable(name) else { return Ok(None) };
    match text.trim().parse() {
        Ok(number) => Ok(Some(number)),
        Err(_) => Err(Error::invalid(format!("{name}: {text:?} is not a whole number of 0 or more"))),
    }
}

fn http_version(variable: &dyn Fn(&str) -> Option<String>) -> Result<Option<HttpVersion>, Error> {
    match variable("E2B_HTTP_VERSION").as_deref().map(str::trim) {
        None => Ok(None),
        Some("1.1") => Ok(Some(HttpVersion::Http1)),
        Some("2") => Ok(Some(HttpVersion::Http2)),
        Some(other) => Err(Error::invalid(format!("E2B_HTTP_VERSION: {other:?} is neither \"1.1\" nor \"2\""))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolve(given: Given, variables: &[(&str, &str)]) -> Result<Config, Error> {
        let variables: Vec<(String, String)> =
            variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Config::resolve(given, &move |name| {
            variables.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone())
        })
    }

    #[test]
    fn what_is_given_wins_over_the_environment() {
        let given = Given { api_url: Some("http://given".into()), ..Given::default() };
        let config = resolve(
            given,
            &[("E2B_API_KEY", " key "), ("E2B_API_URL", "http://env"), ("E2B_SANDBOX_URL", "http://env")],
        )
        .unwrap();
        assert_eq!(config.endpoint.api("/x"), "http://given/x");
        assert_eq!(config.endpoint.sandbox("i", 1, None).unwrap().0, "http://env");
        assert_eq!(config.api_key.lock().unwrap().as_ref().unwrap(), "key");
        assert!(!format!("{config:?}").contains("key"));
    }

    #[test]
    fn debug_is_this_machine_unless_a_url_says_otherwise() {
        let key = ("E2B_API_KEY", "k");
        let config = resolve(Given::default(), &[key, ("E2B_DEBUG", "true")]).unwrap();
        assert_eq!(config.endpoint, Endpoint::debug());
        let config = resolve(Given::default(), &[key, ("E2B_DEBUG", "1"), ("E2B_API_URL", "http://x")]).unwrap();
        assert_eq!(config.endpoint.api("/y"), "http://x/y");
        let config = resolve(Given::default(), &[key, ("E2B_DEBUG", "false")]).unwrap();
        assert_eq!(config.endpoint, Endpoint::domain("e2b.app").unwrap());
        let both = Given { endpoint: Some(Endpoint::debug()), domain: Some("x".into()), ..Given::default() };
        assert!(resolve(both, &[key]).unwrap_err().to_string().contains("endpoint"));
    }

    #[test]
    fn without_a_key_both_ways_forward_are_named() {
        for variables in [&[][..], &[("E2B_API_KEY", "")]] {
            let error = resolve(Given::default(), variables).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Authentication);
            assert!(error.to_string().contains("E2B_API_KEY") && error.to_string().contains("local server"), "{error}");
        }
    }

    #[test]
    fn variables_that_make_no_sense_are_named_with_their_rule() {
        for (name, value, rule) in [
            ("E2B_CONNECTION_RETRIES", "-1", "not a whole number"),
            ("E2B_CONNECTION_RETRIES", "1.5", "not a whole number"),
            ("E2B_CONNECTION_RETRIES", "1001", "from 0 to 1000"),
            ("E2B_HTTP_VERSION", "3", "neither"),
            ("E2B_MAX_CONNECTIONS", "0", "from 1 to"),
            ("E2B_KEEPALIVE_EXPIRY", "soon", "not a whole number"),
            ("E2B_DOMAIN", "http://x", "is a URL"),
            ("E2B_DEBUG", "perhaps", "neither true nor false"),
        ] {
            let error = resolve(Given::default(), &[("E2B_API_KEY", "k"), (name, value)]).unwrap_err().to_string();
            assert!(error.contains(rule) && error.contains(value), "{name}: {error}");
        }
    }

    #[test]
    fn a_key_that_no_header_can_carry_is_refused_and_not_repeated() {
        let given = Given { api_key: Some("sec\nret".into()), ..Given::default() };
        let error = resolve(given, &[]).unwrap_err().to_string();
        assert!(error.contains("api_key") && !error.contains("sec"), "{error}");
    }
}
