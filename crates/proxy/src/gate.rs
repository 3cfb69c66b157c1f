//! Who a request is for, and whether the proxy may be spoken to that way at all.
//!
//! A loopback port is within reach of every web page the user opens, and pages can make a name of theirs resolve to it. So a
//! request must name this machine as its host and must not come from a page. From other machines it must have the token.

use std::net::IpAddr;

use http::header::{HOST, ORIGIN};
use http::request::Parts;
use http::uri::PathAndQuery;
use http::{Method, StatusCode, Uri};
use oncebox::SecretString;
use oncebox_protocol::headers::{E2B_SANDBOX_ID, E2B_SANDBOX_PORT, ONCEBOX_PROXY_TOKEN};

use crate::answer::Refusal;

/// envd's port (protocol fact).
pub(crate) const ENVD_PORT: u16 = 49983;

/// Where the token is in a URL, for SDKs that send no header of their user's: `http://HOST:PORT/oncebox-token/TOKEN`.
const TOKEN_PATH: &str = "/oncebox-token/";

/// Whom a request is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Target {
    /// What the proxy itself tells, as a page or in JSON.
    Status { json: bool },
    /// The control plane.
    Api,
    /// The content of volumes.
    Volumes,
    /// A port of a sandbox.
    Sandbox { id: String, port: u16 },
    /// Files whose signature alone says whose they are.
    SignedFiles,
}

/// What the proxy is called, and who may speak to it.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    pub(crate) token: Option<SecretString>,
    /// Names by which it is reached, in lower case, besides loopback ones.
    pub(crate) names: Vec<String>,
    /// Any address will do: it listens on others than loopback ones.
    pub(crate) addresses: bool,
}

impl Gate {
    /// Lets a request in and says whom it is for. A token in its path is taken out.
    pub(crate) fn admit(&self, parts: &mut Parts) -> Result<Target, Refusal> {
        self.check_token(parts)?;
        if let Some(origin) = parts.headers.get(ORIGIN) {
            let origin = String::from_utf8_lossy(origin.as_bytes());
            return Err(Refusal::new(
                StatusCode::FORBIDDEN,
                format!("the page of origin {origin:?} may not use this proxy: no page may, since any could"),
            ));
        }
        let by_host = self.check_host(parts)?;
        let mut ids = parts.headers.get_all(E2B_SANDBOX_ID).iter();
        if let Some(id) = ids.next() {
            if ids.next().is_some() {
                return Err(Refusal::bad_request("the request has more than one E2b-Sandbox-Id header"));
            }
            return Ok(Target::Sandbox { id: sandbox_id(id.to_str().unwrap_or_default())?, port: port(parts)? });
        }
        if let Some(target) = by_host {
            return Ok(target);
        }
        let is_read = matches!(parts.method, Method::GET | Method::HEAD);
        Ok(match parts.uri.path() {
            "/" if is_read => Target::Status { json: false },
            "/oncebox/status" if is_read => Target::Status { json: true },
            "/files" => Target::SignedFiles,
            path if path.starts_with("/volumecontent/") => Target::Volumes,
            _ => Target::Api,
        })
    }

    fn check_token(&self, parts: &mut Parts) -> Result<(), Refusal> {
        let in_path = take_token(&mut parts.uri);
        let Some(token) = &self.token else { return Ok(()) };
        let in_header = parts.headers.get(ONCEBOX_PROXY_TOKEN).map(|value| value.as_bytes().to_vec());
        let given = in_header.or_else(|| in_path.map(String::into_bytes)).unwrap_or_default();
        if is_same(&given, token.expose().as_bytes()) {
            return Ok(());
        }
        Err(Refusal::new(
            StatusCode::UNAUTHORIZED,
            "this proxy wants its token: in the header Oncebox-Proxy-Token, or in both URLs, \
             as http://HOST:PORT/oncebox-token/TOKEN",
        ))
    }

    /// Checks the host and returns the sandbox that it names, if it names one.
    fn check_host(&self, parts: &Parts) -> Result<Option<Target>, Refusal> {
        let mut hosts = parts.headers.get_all(HOST).iter();
        let named = match (parts.uri.authority(), hosts.next()) {
            (Some(authority), _) => authority.as_str().to_owned(),
            (None, Some(host)) => String::from_utf8_lossy(host.as_bytes()).into_owned(),
            (None, None) => String::new(),
        };
        if hosts.next().is_some() {
            return Err(Refusal::bad_request("the request has more than one Host header"));
        }
        let host = host_of(&named);
        let address: Option<IpAddr> = host.parse().ok();
        let is_ours = host == "localhost"
            || address.is_some_and(|address| self.addresses || address.is_loopback())
            || self.names.contains(&host);
        if is_ours {
            return Ok(None);
        }
        // `localhost` names mean this machine by definition, with or without DNS.
        let ours = self.names.iter().map(String::as_str).chain(["localhost"]);
        let label = ours.filter_map(|name| host.strip_suffix(name)?.strip_suffix('.')).next();
        match label {
            Some("api" | "sandbox") => Ok(None),
            Some(label) if label.contains('-') => {
                let (port, id) = label.split_once('-').unwrap_or_default();
                let port = port.parse().ok().filter(|port| *port > 0);
                let port = port.ok_or_else(|| Refusal::bad_request(format!("{label:?} does not begin with a port")))?;
                Ok(Some(Target::Sandbox { id: sandbox_id(id)?, port }))
            }
            _ => Err(Refusal::new(
                StatusCode::FORBIDDEN,
                format!(
                    "the host {named:?} is not this proxy: use 127.0.0.1, localhost, or <port>-<sandbox>.localhost; \
                     --allow-host allows another name"
                ),
            )),
        }
    }
}

/// Takes the token out of a URL's path, where there is one.
fn take_token(uri: &mut Uri) -> Option<String> {
    let whole = uri.path_and_query()?.as_str();
    let rest = whole.strip_prefix(TOKEN_PATH)?;
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let (token, path) = rest.split_at(end);
    let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
    let token = token.to_owned();
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = Some(PathAndQuery::try_from(path).ok()?);
    *uri = Uri::from_parts(parts).ok()?;
    Some(token)
}

/// Takes the same time wherever two of one length differ.
fn is_same(one: &[u8], other: &[u8]) -> bool {
    one.len() == other.len() && one.iter().zip(other).fold(0, |different, (a, b)| different | (a ^ b)) == 0
}

/// The host without its port, in lower case, without the dot that ends a complete name.
fn host_of(authority: &str) -> String {
    let without_port = match authority.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
        _ => authority,
    };
    let host = without_port.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(without_port);
    host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase()
}

/// What an id may be made of (protocol fact; an older suffix after `-` is tolerated): nothing that could lead elsewhere in a
/// host or a path.
fn sandbox_id(text: &str) -> Result<String, Refusal> {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    if !text.is_empty() && text.len() <= 128 && text.bytes().all(plain) {
        return Ok(text.to_owned());
    }
    Err(Refusal::bad_request(format!("{text:?} is not a sandbox's id: ids are letters a-z and digits")))
}

fn port(parts: &Parts) -> Result<u16, Refusal> {
    let Some(port) = parts.headers.get(E2B_SANDBOX_PORT) else { return Ok(ENVD_PORT) };
    let port = String::from_utf8_lossy(port.as_bytes());
    port.parse()
        .ok()
        .filter(|port| *port > 0)
        .ok_or_else(|| Refusal::bad_request(format!("E2b-Sandbox-Port {port:?} is not a port")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(host: &str, path: &str, more: &[(&str, &str)]) -> Parts {
        let mut request = http::Request::get(path).header(HOST, host);
        for (name, value) in more {
            request = request.header(*name, *value);
        }
        request.body(()).unwrap().into_parts().0
    }

    fn admit(gate: &Gate, host: &str, path: &str, more: &[(&str, &str)]) -> Result<Target, u16> {
        gate.admit(&mut parts(host, path, more)).map_err(|refusal| refusal.status.as_u16())
    }

    #[test]
    fn requests_find_their_way() {
        let gate = Gate::default();
        let id = ("e2b-sandbox-id", "iabc");
        let envd = Target::Sandbox { id: "iabc".into(), port: ENVD_PORT };
        let own = Target::Sandbox { id: "iabc".into(), port: 3000 };
        for (host, path, more, target) in [
            ("127.0.0.1:1", "/v2/sandboxes", &[][..], Target::Api),
            ("LOCALHOST.:1", "/volumecontent/v/dir", &[], Target::Volumes),
            ("[::1]:80", "/", &[], Target::Status { json: false }),
            ("localhost", "/oncebox/status", &[], Target::Status { json: true }),
            ("localhost", "/files?path=x&signature=v1_", &[], Target::SignedFiles),
            ("localhost", "/", &[id], envd.clone()),
            ("localhost", "/x", &[id, ("e2b-sandbox-port", "3000")], own.clone()),
            ("3000-iabc.localhost:9", "/", &[], own),
            ("api.localhost", "/health", &[], Target::Api),
        ] {
            assert_eq!(admit(&gate, host, path, more), Ok(target), "{host} {path}");
        }
    }

    #[test]
    fn whoever_is_not_meant_is_refused() {
        let gate = Gate::default();
        for (host, more, status) in [
            ("", &[][..], 403),
            ("evil.example", &[], 403),
            ("192.168.0.1", &[], 403),
            ("x.localhost", &[], 403),
            ("0-iabc.localhost", &[], 400),
            ("localhost", &[("origin", "http://localhost:5173")], 403),
            ("localhost", &[("host", "localhost")], 400),
            ("localhost", &[("e2b-sandbox-id", "i/../x")], 400),
            ("localhost", &[("e2b-sandbox-id", "")], 400),
            ("localhost", &[("e2b-sandbox-id", "i"), ("e2b-sandbox-id", "j")], 400),
            ("localhost", &[("e2b-sandbox-id", "i"), ("e2b-sandbox-port", "70000")], 400),
        ] {
            assert_eq!(admit(&gate, host, "/x", more), Err(status), "{host} {more:?}");
        }
    }

    #[test]
    fn a_token_is_asked_for_in_a_header_or_in_the_path() {
        let gate = Gate { token: Some("0123456789abcdef".to_owned().into()), addresses: true, names: Vec::new() };
        let header = |value| [("oncebox-proxy-token", value)];
        assert_eq!(admit(&gate, "10.0.0.1", "/x", &header("0123456789abcdef")), Ok(Target::Api));
        for (path, more) in [
            ("/x", &[][..]),
            ("/x", &header("0123456789abcdeg")),
            ("/x", &header("0123456789abcde")),
            ("/oncebox-token/0123456789abcde/x", &[]),
            ("/", &[]),
        ] {
            assert_eq!(admit(&gate, "10.0.0.1", path, more), Err(401), "{path}");
        }
        for (path, left) in [
            ("/oncebox-token/0123456789abcdef/v2/sandboxes?limit=1", "/v2/sandboxes?limit=1"),
            ("/oncebox-token/0123456789abcdef", "/"),
            ("/oncebox-token/0123456789abcdef?a=b", "/?a=b"),
        ] {
            let mut parts = parts("10.0.0.1", path, &[]);
            assert!(gate.admit(&mut parts).is_ok(), "{path}");
            assert_eq!(parts.uri.path_and_query().unwrap(), left);
        }
    }
}
