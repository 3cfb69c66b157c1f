//! Who a request is for, and whether this server may be spoken to that way at all.
//!
//! A server on a loopback port is within reach of every web page the user opens. Pages can send requests anywhere, and
//! can make a name of theirs resolve to 127.0.0.1. So a request must name this machine as its host, and must not come from
//! a page, unless that page's origin was allowed.

use std::net::IpAddr;

use http::header::{HOST, ORIGIN};
use http::{HeaderMap, HeaderValue, StatusCode, Uri};

use crate::ids::is_sandbox_id;
use crate::lifeline::ENVD_PORT;
use crate::refusal::Refusal;

/// Whom a request is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Target {
    /// A port of a sandbox.
    Sandbox { id: String, port: u16 },
    /// The server itself: the control plane, or files signed for a sandbox that is yet to be found.
    Server,
}

/// The origin of the page a request comes from, if its pages may use this server.
pub(crate) fn check_origin<'h>(headers: &'h HeaderMap, allowed: &[String]) -> Result<Option<&'h HeaderValue>, Refusal> {
    let Some(origin) = headers.get(ORIGIN) else { return Ok(None) };
    if allowed.iter().any(|allowed| allowed.as_bytes() == origin.as_bytes()) {
        return Ok(Some(origin));
    }
    let origin = String::from_utf8_lossy(origin.as_bytes());
    Err(Refusal::new(
        StatusCode::FORBIDDEN,
        format!("pages of origin '{}' may not use this server; `allow_origin` allows an origin", origin.escape_debug()),
    ))
}

/// Checks that a value is an origin as browsers send it: another would never match, or match more than was meant. The error
/// is the rule that it breaks.
pub(crate) fn check_allowed(origin: &str) -> Result<(), &'static str> {
    match origin {
        "null" => return Err("'null' is what every page without an origin sends"),
        _ if origin.contains('*') => return Err("each origin is named in full, without '*'"),
        _ => {}
    }
    let (rest, own_port) = match origin.split_once("://") {
        Some(("http", rest)) => (rest, 80),
        Some(("https", rest)) => (rest, 443),
        _ => return Err("it begins with http:// or https://"),
    };
    if rest.contains(['/', '?', '#']) {
        return Err("nothing comes after the host and the port, not even '/'");
    }
    if rest.contains('@') {
        return Err("it names no user");
    }
    let (host, port) = match rest.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host, Some(port)),
        _ => (rest, None),
    };
    if host.bytes().any(|byte| byte.is_ascii_uppercase()) {
        return Err("the host is in lower case");
    }
    let is_host = match host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
        Some(address) => address.parse::<std::net::Ipv6Addr>().is_ok_and(|parsed| parsed.to_string() == address),
        None => {
            let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-._".contains(&byte);
            !host.is_empty() && host.bytes().all(allowed)
        }
    };
    if !is_host {
        return Err("the host is a name in ASCII or an address, an IPv6 one in its shortest form and in brackets");
    }
    match port {
        None => Ok(()),
        Some(port) => match port.parse::<u16>() {
            Ok(number) if number == own_port => Err("the scheme's own port is left out"),
            Ok(number) if number > 0 && number.to_string() == port => Ok(()),
            _ => Err("the port is a number from 1 to 65535"),
        },
    }
}

/// What else the server may be called, besides loopback names.
#[derive(Debug, Clone, Default)]
pub(crate) struct Hosts {
    /// Any address: it listens on others than loopback ones, and asks for a token.
    pub(crate) addresses: bool,
    /// Names, in lower case.
    pub(crate) names: Vec<String>,
}

impl Hosts {
    fn have(&self, host: &str) -> bool {
        self.names.iter().any(|name| name == host) || (self.addresses && host.parse::<IpAddr>().is_ok())
    }

    /// The label before one of the server's names.
    fn label<'h>(&self, host: &'h str) -> Option<&'h str> {
        // `localhost` names mean this machine by definition, with or without DNS.
        let names = self.names.iter().map(String::as_str).chain(["localhost"]);
        names.filter_map(|name| host.strip_suffix(name)?.strip_suffix('.')).next()
    }
}

/// Finds out whom a request is for, and refuses it if its host is not this machine.
pub(crate) fn target(uri: &Uri, headers: &HeaderMap, hosts: &Hosts) -> Result<Target, Refusal> {
    let label = check_host(uri, headers, hosts)?;
    let mut ids = headers.get_all("e2b-sandbox-id").iter();
    if let Some(id) = ids.next() {
        if ids.next().is_some() {
            return Err(Refusal::bad_request("the request has more than one E2b-Sandbox-Id header"));
        }
        let id = id.to_str().unwrap_or_default();
        return Ok(Target::Sandbox { id: sandbox_id(id)?, port: port(headers)? });
    }
    Ok(label.unwrap_or(Target::Server))
}

/// Checks the host and returns the sandbox it names, if it names one.
fn check_host(uri: &Uri, headers: &HeaderMap, allowed: &Hosts) -> Result<Option<Target>, Refusal> {
    let mut hosts = headers.get_all(HOST).iter();
    let authority = match (uri.authority(), hosts.next()) {
        (Some(authority), Some(host)) if !authority.as_str().as_bytes().eq_ignore_ascii_case(host.as_bytes()) => {
            return Err(Refusal::bad_request("the request names two hosts"));
        }
        (Some(authority), _) => authority.as_str(),
        (None, Some(host)) => host.to_str().unwrap_or_default(),
        (None, None) => "",
    };
    if hosts.next().is_some() {
        return Err(Refusal::bad_request("the request has more than one Host header"));
    }
    let host = host_of(authority);
    if is_loopback(&host) || allowed.have(&host) {
        return Ok(None);
    }
    match allowed.label(&host) {
        Some("api" | "sandbox") => Ok(None),
        Some(label) if label.contains('-') => {
            let (port, id) = label.split_once('-').unwrap_or_default();
            let port = port.parse().ok().filter(|port| *port > 0);
            let port = port.ok_or_else(|| Refusal::bad_request(format!("'{label}' does not begin with a port")))?;
            Ok(Some(Target::Sandbox { id: sandbox_id(id)?, port }))
        }
        _ => Err(Refusal::new(
            StatusCode::FORBIDDEN,
            format!(
                "host '{}' is not this machine: use 127.0.0.1, localhost, or <port>-<sandbox>.localhost; `allow_host` allows \
                 another name",
                authority.escape_debug()
            ),
        )),
    }
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

fn is_loopback(host: &str) -> bool {
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// An id without the suffix that old clients still send.
fn sandbox_id(text: &str) -> Result<String, Refusal> {
    let id = text.split('-').next().unwrap_or_default();
    if is_sandbox_id(id) {
        return Ok(id.to_owned());
    }
    Err(Refusal::bad_request(format!("'{}' is not a sandbox id: ids are letters a-z and digits", text.escape_debug())))
}

fn port(headers: &HeaderMap) -> Result<u16, Refusal> {
    let Some(port) = headers.get("e2b-sandbox-port") else { return Ok(ENVD_PORT) };
    let port = port.to_str().unwrap_or_default();
    port.parse()
        .ok()
        .filter(|port| *port > 0)
        .ok_or_else(|| Refusal::bad_request(format!("E2b-Sandbox-Port '{}' is not a port", port.escape_debug())))
}

#[cfg(test)]
mod tests {
    use axum::response::IntoResponse;

    use super::*;

    fn of(host: &str, more: &[(&str, &str)]) -> Result<Target, u16> {
        let mut headers = HeaderMap::new();
        headers.insert(HOST, host.parse().unwrap());
        for (name, value) in more {
            headers.append(http::HeaderName::try_from(*name).unwrap(), value.parse().unwrap());
        }
        target(&Uri::from_static("/files"), &headers, &Hosts::default())
            .map_err(|refusal| refusal.into_response().status().as_u16())
    }

    #[test]
    fn hosts_that_are_this_machine_are_let_in() {
        for host in
            ["localhost", "LOCALHOST:3000", "127.0.0.1:1", "127.9.9.9", "[::1]:80", "localhost.:1", "api.localhost"]
        {
            assert_eq!(of(host, &[]), Ok(Target::Server), "{host}");
        }
        for host in
            ["", "evil.example", "127.0.0.1.evil.example", "localhost.evil.example", "192.168.0.1", "x.localhost"]
        {
            assert_eq!(of(host, &[]), Err(403), "{host}");
        }
        assert_eq!(of("localhost", &[("host", "localhost")]), Err(400));
    }

    #[test]
    fn sandboxes_are_named_by_label_or_header() {
        let sandbox = |port| Ok(Target::Sandbox { id: "iabc".to_owned(), port });
        assert_eq!(of("3000-iabc.localhost:80", &[]), sandbox(3000));
        assert_eq!(of("localhost", &[("e2b-sandbox-id", "iabc")]), sandbox(ENVD_PORT));
        assert_eq!(of("localhost", &[("e2b-sandbox-id", "iabc-6532622b")]), sandbox(ENVD_PORT));
        assert_eq!(of("localhost", &[("e2b-sandbox-id", "iabc"), ("e2b-sandbox-port", "8080")]), sandbox(8080));
        assert_eq!(of("localhost", &[("e2b-sandbox-id", "../x")]), Err(400));
        assert_eq!(of("localhost", &[("e2b-sandbox-id", "iabc"), ("e2b-sandbox-port", "0")]), Err(400));
        assert_eq!(of("x-iabc.localhost", &[]), Err(400));
        assert_eq!(of("evil.example", &[("e2b-sandbox-id", "iabc")]), Err(403));
    }

    #[test]
    fn pages_need_an_allowed_origin() {
        let headers = HeaderMap::from_iter([(ORIGIN, "https://a.example".parse().unwrap())]);
        assert!(check_origin(&headers, &[]).is_err());
        assert!(check_origin(&headers, &["https://b.example".to_owned()]).is_err());
        assert!(check_origin(&headers, &["https://a.example".to_owned()]).unwrap().is_some());
        assert!(check_origin(&HeaderMap::new(), &[]).unwrap().is_none());
    }

    #[test]
    fn only_origins_as_browsers_write_them_can_be_allowed() {
        for origin in [
            "http://localhost:5173",
            "https://app.example",
            "http://127.0.0.1:1",
            "https://[::1]:8443",
            "http://xn--bcher-kva.example",
            "http://[::1]",
        ] {
            assert_eq!(check_allowed(origin), Ok(()), "{origin}");
        }
        for origin in [
            "",
            "*",
            "null",
            "http://*",
            "https://*.example",
            "localhost:5173",
            "file://",
            "ftp://localhost",
            "HTTP://localhost",
            "http://",
            "http://:80",
            "http://Localhost",
            "http://localhost/",
            "http://localhost/path",
            "http://localhost?x",
            "http://localhost#x",
            "http://me@localhost",
            "http://localhost:",
            "http://localhost:80",
            "https://localhost:443",
            "http://localhost:0",
            "http://localhost:01",
            "http://localhost:+1",
            "http://localhost:65536",
            "http://local host",
            " http://localhost",
            "http://localhost\n",
            "http://[::1",
            "http://[0:0::1]",
            "http://b\u{fc}cher.example",
            "http://a,http://b",
        ] {
            assert!(check_allowed(origin).is_err(), "{origin}");
        }
    }

    #[test]
    fn other_names_and_addresses_are_those_that_were_allowed() {
        let hosts = Hosts { addresses: true, names: vec!["build-box.internal".to_owned()] };
        let target = |host: &str, hosts: &Hosts| {
            let mut headers = HeaderMap::new();
            headers.insert(HOST, HeaderValue::from_str(host).unwrap());
            target(&Uri::from_static("/"), &headers, hosts)
        };
        for host in ["10.0.0.7:3000", "[fe80::1]:3000", "build-box.internal", "BUILD-BOX.internal:80", "localhost"] {
            assert_eq!(target(host, &hosts).unwrap(), Target::Server, "{host}");
        }
        let sandbox = Target::Sandbox { id: "i1".to_owned(), port: 80 };
        assert_eq!(target("80-i1.build-box.internal", &hosts).unwrap(), sandbox);
        for host in ["evil.example", "xbuild-box.internal", "evil.build-box.internal", "build-box.internal.evil"] {
            assert!(target(host, &hosts).is_err(), "{host}");
        }
        for host in ["10.0.0.7:3000", "build-box.internal"] {
            assert!(target(host, &Hosts::default()).is_err(), "{host}");
        }
    }

    #[test]
    fn two_hosts_or_two_sandboxes_are_refused() {
        let mut headers = HeaderMap::new();
        headers.insert(HOST, HeaderValue::from_static("localhost"));
        let evil = Uri::from_static("http://127.0.0.1/");
        assert!(target(&evil, &headers, &Hosts::default()).is_err());
        headers.append("e2b-sandbox-id", HeaderValue::from_static("i1"));
        assert!(target(&Uri::from_static("/"), &headers, &Hosts::default()).is_ok());
        headers.append("e2b-sandbox-id", HeaderValue::from_static("i2"));
        assert!(target(&Uri::from_static("/"), &headers, &Hosts::default()).is_err());
    }
}
