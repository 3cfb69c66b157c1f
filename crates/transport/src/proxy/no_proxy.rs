//! Hosts that are reached without a proxy.

use std::fmt;

use http::Uri;
use hyper_util::client::proxy::matcher::Matcher;

/// A list as in `NO_PROXY`, with the rules of curl.
pub(super) struct NoProxy(Matcher);

impl NoProxy {
    pub(super) fn new(hosts: &str) -> Self {
        // The matcher is asked whether it would intercept; by whom makes no difference.
        Self(Matcher::builder().all("http://proxy.invalid").no(hosts).build())
    }

    pub(super) fn contains(&self, uri: &Uri) -> bool {
        self.0.intercept(uri).is_none()
    }
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
}
