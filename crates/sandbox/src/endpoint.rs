//! Where servers are: the control plane, and the daemons inside sandboxes.

use http::{HeaderMap, HeaderValue};
use oncebox_protocol::headers::{E2B_SANDBOX_ID, E2B_SANDBOX_PORT};
use url::{Host, Url};

use crate::error::Error;

/// The port of envd, the daemon inside a sandbox (protocol fact).
pub(crate) const ENVD_PORT: u16 = 49983;

/// The domain of E2B's cloud.
pub(crate) const DEFAULT_DOMAIN: &str = "e2b.app";

/// Domains whose sandboxes answer on one host, `sandbox.<domain>`, and are told apart by headers (protocol fact).
const SHARED_HOST_DOMAINS: [&str; 7] =
    ["e2b.app", "e2b.dev", "e2b.pro", "e2b-staging.dev", "e2b-tango.dev", "e2b-juliett.dev", "foxtrot-2.e2b.dev"];

/// Where the control plane and the sandboxes are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Endpoint {
    api: Url,
    sandboxes: Option<Url>,
    domain: String,
}

impl Endpoint {
    /// `api_url` and `sandbox_url` take the place of what would follow from the domain.
    pub(crate) fn new(domain: &str, api_url: Option<&str>, sandbox_url: Option<&str>) -> Result<Self, Error> {
        check_domain(domain)?;
        let api = match api_url {
            Some(url) => base_url("api_url", url)?,
            None => base_url("domain", &format!("https://api.{domain}"))?,
        };
        let sandboxes = sandbox_url.map(|url| base_url("sandbox_url", url)).transpose()?;
        Ok(Self { api, sandboxes, domain: domain.to_owned() })
    }

    /// A control-plane URL. `path` begins with a slash and is percent-encoded.
    pub(crate) fn api(&self, path: &str) -> String {
        join(&self.api, path)
    }

    /// The base URL of a port of a sandbox, and the headers that route to it. `domain` is what the control plane
    /// answered for this sandbox, if it did.
    pub(crate) fn sandbox(&self, id: &str, port: u16, domain: Option<&str>) -> Result<(String, HeaderMap), Error> {
        let mut headers = HeaderMap::new();
        let header = HeaderValue::try_from(id).map_err(|_| Error::invalid(format!("{id:?} is no sandbox id")))?;
        headers.insert(E2B_SANDBOX_ID, header);
        headers.insert(E2B_SANDBOX_PORT, HeaderValue::from(port));
        let domain = domain.unwrap_or(&self.domain);
        let base = match &self.sandboxes {
            Some(url) => join(url, ""),
            None if SHARED_HOST_DOMAINS.contains(&domain) => format!("https://sandbox.{domain}"),
            None => format!("https://{port}-{id}.{domain}"),
        };
        Ok((base, headers))
    }

    /// The host below which a port of a sandbox is reached from outside.
    pub(crate) fn host(&self, id: &str, port: u16, domain: Option<&str>) -> String {
        format!("{port}-{id}.{}", domain.unwrap_or(&self.domain))
    }
}

fn check_domain(domain: &str) -> Result<(), Error> {
    let rule = if domain.contains("://") {
        "is a URL; give the host alone, such as e2b.app, or set api_url"
    } else if domain.contains('/') {
        "has a path; give the host alone, such as e2b.app"
    } else if Url::parse(&format!("https://{domain}")).ok().and_then(|u| u.host_str().map(str::len)).is_none() {
        "is no host name"
    } else {
        return Ok(());
    };
    Err(Error::invalid(format!("domain: {domain:?} {rule}")))
}

fn base_url(option: &str, text: &str) -> Result<Url, Error> {
    let wrong = |rule: &str| Error::invalid(format!("{option}: {:?} {rule}", without_password(text)));
    let url = Url::parse(text).map_err(|e| wrong(&format!("is no URL ({e}); it should look like http://host:port")))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(wrong("must begin with http:// or https://"));
    }
    if matches!(url.host(), None | Some(Host::Domain(""))) {
        return Err(wrong("names no host"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(wrong("must not hold credentials"));
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err(wrong("must have neither a query nor a fragment"));
    }
    Ok(url)
}

/// A password in a mistyped URL is not repeated in the error about it.
fn without_password(text: &str) -> String {
    match (text.find("://"), text.rfind('@')) {
        (Some(scheme), Some(at)) if scheme < at => format!("{}…{}", &text[..scheme + 3], &text[at..]),
        _ => text.to_owned(),
    }
}

fn join(base: &Url, path: &str) -> String {
    format!("{}{path}", base.as_str().trim_end_matches('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_domain_gives_both_addresses() {
        let cloud = Endpoint::new("e2b.app", None, None).unwrap();
        assert_eq!(cloud.api("/v2/sandboxes"), "https://api.e2b.app/v2/sandboxes");
        let (base, headers) = cloud.sandbox("iabc", ENVD_PORT, None).unwrap();
        assert_eq!(base, "https://sandbox.e2b.app");
        assert_eq!(
            (&headers[E2B_SANDBOX_ID], &headers[E2B_SANDBOX_PORT]),
            (&"iabc".parse().unwrap(), &"49983".parse().unwrap())
        );

        let own = Endpoint::new("sandboxes.example:8443", None, None).unwrap();
        assert_eq!(own.api("/x"), "https://api.sandboxes.example:8443/x");
        assert_eq!(own.sandbox("iabc", 3000, None).unwrap().0, "https://3000-iabc.sandboxes.example:8443");
        assert_eq!(own.sandbox("iabc", 3000, Some("other.example")).unwrap().0, "https://3000-iabc.other.example");
        assert_eq!(own.host("iabc", 80, None), "80-iabc.sandboxes.example:8443");
    }

    #[test]
    fn urls_take_its_place_and_may_have_a_path() {
        let local = Endpoint::new("e2b.app", Some("http://127.0.0.1:3000/api/"), Some("http://[::1]:3001")).unwrap();
        assert_eq!(local.api("/v2/sandboxes"), "http://127.0.0.1:3000/api/v2/sandboxes");
        assert_eq!(local.sandbox("iabc", ENVD_PORT, None).unwrap().0, "http://[::1]:3001");
    }

    #[test]
    fn a_wrong_address_is_named_with_its_rule() {
        for (domain, api, message) in [
            ("https://e2b.app", None, "domain: \"https://e2b.app\" is a URL; give the host alone"),
            ("e2b.app/v2", None, "domain: \"e2b.app/v2\" has a path"),
            ("", None, "domain: \"\" is no host name"),
            ("e2b.app", Some("localhost:3000"), "api_url: \"localhost:3000\" must begin with http://"),
            ("e2b.app", Some("nonsense"), "api_url: \"nonsense\" is no URL"),
            ("e2b.app", Some("http://"), "api_url: \"http://\" is no URL"),
            ("e2b.app", Some("http://a?b"), "must have neither a query nor a fragment"),
        ] {
            let error = Endpoint::new(domain, api, None).unwrap_err().to_string();
            assert!(error.contains(message), "{error}");
        }
        let error = Endpoint::new("e2b.app", Some("http://me:hunter2@host"), None).unwrap_err().to_string();
        assert!(error.contains("must not hold credentials") && !error.contains("hunter2"), "{error}");
    }
}
