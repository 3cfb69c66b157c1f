//! Hosts that are reached without a proxy.

use std::fmt;

use http::Uri;
use http::uri::Scheme;
use hyper_util::client::proxy::matcher::Matcher;

/// A list as in `NO_PROXY`, with the rules of curl. An entry with a port, as Go and Python know it, is for that port
/// alone.
pub(super) struct NoProxy {
    any_port: Matcher,
    of_port: Vec<(u16, Matcher)>,
}

impl NoProxy {
    pub(super) fn new(hosts: &str) -> Self {
        let entries = hosts.split(',').map(|entry| with_port(entry.trim()));
        let (with, without): (Vec<_>, Vec<_>) = entries.partition(|(_, port)| port.is_some());
        let without: Vec<_> = without.into_iter().map(|(host, _)| host).collect();
        let of_port = with.into_iter().filter_map(|(host, port)| Some((port?, matcher(host))));
        Self { any_port: matcher(&without.join(",")), of_port: of_port.collect() }
    }

    pub(super) fn contains(&self, uri: &Uri) -> bool {
        let matches = |matcher: &Matcher| matcher.intercept(uri).is_none();
        let default = if uri.scheme() == Some(&Scheme::HTTPS) { 443 } else { 80 };
        let port = uri.port_u16().unwrap_or(default);
        matches(&self.any_port) || self.of_port.iter().any(|(of, matcher)| *of == port && matches(matcher))
    }
}

/// The matcher is asked whether it would intercept; by whom makes no difference.
fn matcher(hosts: &str) -> Matcher {
    Matcher::builder().all("http://proxy.invalid").no(hosts).build()
}

/// Host and port of an entry. An address of IPv6 has colons of its own, and stands in brackets before a port.
fn with_port(entry: &str) -> (&str, Option<u16>) {
    let (host, port) = match entry.rsplit_once(':') {
        Some((host, port)) if host.ends_with(']') || !host.contains(':') => match port.parse() {
            Ok(port) => (host, Some(port)),
            Err(_) => (entry, None),
        },
        _ => (entry, None),
    };
    (host.trim_start_matches('[').trim_end_matches(']'), port)
}

impl fmt::Debug for NoProxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("NoProxy")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_all_below_them_addresses_and_networks() {
        let list = NoProxy::new("example.com, .internal ,192.168.0.0/16,::1");
        for (url, expected) in [
            ("http://example.com/", true),
            ("https://deep.EXAMPLE.com:8443/", true),
            ("http://notexample.com/", false),
            ("http://a.internal/", true),
            ("http://192.168.7.7/", true),
            ("http://192.169.0.1/", false),
            ("http://[::1]:80/", true),
        ] {
            assert_eq!(list.contains(&url.parse().unwrap()), expected, "{url}");
        }
        assert!(NoProxy::new("*").contains(&"http://any/".parse().unwrap()));
        assert!(!NoProxy::new("").contains(&"http://any/".parse().unwrap()));
    }

    #[test]
    fn an_entry_with_a_port_is_for_that_port_alone() {
        let list = NoProxy::new("example.com:8080, .internal:443,10.0.0.0/8:80,[fd00::1]:81,[::1],a.b:x, plain");
        for (url, expected) in [
            ("http://example.com:8080/", true),
            ("http://deep.example.com:8080/", true),
            ("http://example.com/", false),
            ("https://a.internal/", true),
            ("http://a.internal/", false),
            ("http://10.1.2.3/", true),
            ("https://10.1.2.3/", false),
            ("http://[fd00::1]:81/", true),
            ("http://[fd00::1]/", false),
            ("https://[::1]:9/", true),
            ("https://plain:9/", true),
            ("http://other:8080/", false),
            ("http://a.b/", false),
        ] {
            assert_eq!(list.contains(&url.parse().unwrap()), expected, "{url}");
        }
    }
}
