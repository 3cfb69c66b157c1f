//! Where servers are: the control plane, and the daemons inside sandboxes.

use http::header::HOST;
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

/// Where the control plane and the sandboxes are. One value answers every way of addressing them.
///
/// ```
/// use oncebox::Endpoint;
///
/// // A provider by its domain, perhaps with a port.
/// let cloud = Endpoint::domain("e2b.app")?;
/// // A cluster of one's own, without TLS.
/// let cluster = Endpoint::domain("sandboxes.internal:8080")?.plain_http();
/// // One gateway for everything: sandboxes are told apart by the headers E2b-Sandbox-Id and E2b-Sandbox-Port.
/// let gateway = Endpoint::domain("e2b.app")?.api_url("http://gw:3000/api")?.sandbox_url("http://gw:3000/sbx")?;
/// // Sandboxes by hosts or paths of one's own making.
/// let hosts = Endpoint::domain("e2b.app")?.sandbox_url("https://{port}-{id}.boxes.example:8443")?;
/// let paths = Endpoint::domain("e2b.app")?.sandbox_url("http://gw/boxes/{id}/{port}")?;
/// # Ok::<(), oncebox::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    domain: String,
    scheme: &'static str,
    api: Option<Url>,
    volumes: Option<Url>,
    sandboxes: Sandboxes,
    api_host: Option<HeaderValue>,
    sandbox_host: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Sandboxes {
    /// As follows from the domain.
    ByDomain,
    /// One address for all, told apart by headers.
    Shared(Url),
    /// An address with `{id}` and `{port}` in it.
    Template(String),
    /// This machine, one port a service.
    Debug,
}

impl Endpoint {
    /// A provider by its domain, such as `e2b.app` or `sandboxes.example:8443`: the control plane at `api.<domain>`,
    /// sandboxes at `<port>-<id>.<domain>`, over HTTPS.
    ///
    /// # Errors
    ///
    /// For what is no host name, such as a URL.
    pub fn domain(domain: &str) -> Result<Self, Error> {
        check_domain(domain)?;
        Ok(Self {
            domain: domain.to_owned(),
            scheme: "https",
            api: None,
            volumes: None,
            sandboxes: Sandboxes::ByDomain,
            api_host: None,
            sandbox_host: None,
        })
    }

    /// What `E2B_DEBUG=true` means: the control plane at `http://localhost:3000`, the content of
    /// volumes at `http://localhost:8080`, each port of the one sandbox on this machine itself.
    pub fn debug() -> Self {
        Self {
            domain: "localhost".to_owned(),
            scheme: "http",
            api: Url::parse("http://localhost:3000").ok(),
            volumes: Url::parse("http://localhost:8080").ok(),
            sandboxes: Sandboxes::Debug,
            api_host: None,
            sandbox_host: None,
        }
    }

    /// HTTP without TLS for what follows from the domain.
    #[must_use]
    pub fn plain_http(mut self) -> Self {
        self.scheme = "http";
        self
    }

    /// The control plane's URL, in place of what follows from the domain. It may have a path.
    ///
    /// # Errors
    ///
    /// For what is no URL of a server.
    pub fn api_url(mut self, url: &str) -> Result<Self, Error> {
        self.api = Some(base_url("api_url", url)?);
        Ok(self)
    }

    /// The URL of the content of volumes, in place of what follows from the domain, or from a volume's own. It may have a
    /// path.
    ///
    /// # Errors
    ///
    /// For what is no URL of a server.
    pub fn volume_api_url(mut self, url: &str) -> Result<Self, Error> {
        self.volumes = Some(base_url("volume_api_url", url)?);
        Ok(self)
    }

    /// The sandboxes' URL, in place of what follows from the domain: one for all, which is then told by headers which one
    /// is meant; or with `{id}`, and `{port}` if need be, anywhere in its host or path. It may have a path.
    ///
    /// # Errors
    ///
    /// For what is no URL of a server, and for a template without `{id}`.
    pub fn sandbox_url(mut self, url: &str) -> Result<Self, Error> {
        if !url.contains('{') {
            self.sandboxes = Sandboxes::Shared(base_url("sandbox_url", url)?);
            return Ok(self);
        }
        let wrong = |rule: &str| Error::invalid(format!("sandbox_url: {:?} {rule}", without_password(url)));
        if !url.contains("{id}") {
            return Err(wrong("has no {id}, so that it would be the same for all sandboxes"));
        }
        let filled = url.replace("{id}", "i0").replace("{port}", "1");
        if filled.contains(['{', '}']) {
            return Err(wrong("holds more in braces than {id} and {port}"));
        }
        base_url("sandbox_url", &filled)?;
        self.sandboxes = Sandboxes::Template(url.trim_end_matches('/').to_owned());
        Ok(self)
    }

    /// The `Host` that requests to the control plane name, where it is not the one that is connected to.
    ///
    /// # Errors
    ///
    /// For what a header cannot carry.
    pub fn api_host(mut self, host: &str) -> Result<Self, Error> {
        let value = HeaderValue::try_from(host);
        self.api_host = Some(value.map_err(|_| Error::invalid(format!("api_host: {host:?} is no host")))?);
        Ok(self)
    }

    /// The `Host` that requests to sandboxes name, where it is not the one that is connected to, with `{id}` and `{port}`
    /// where they belong. With it a cluster can be reached by its address alone, without DNS.
    ///
    /// # Errors
    ///
    /// For what a header cannot carry.
    pub fn sandbox_host(mut self, host: &str) -> Result<Self, Error> {
        HeaderValue::try_from(host).map_err(|_| Error::invalid(format!("sandbox_host: {host:?} is no host")))?;
        self.sandbox_host = Some(host.to_owned());
        Ok(self)
    }

    /// A control-plane URL. `path` begins with a slash and is percent-encoded.
    pub(crate) fn api(&self, path: &str) -> String {
        match &self.api {
            Some(url) => join(url, path),
            None => format!("{}://api.{}{path}", self.scheme, self.domain),
        }
    }

    /// A URL of the content of volumes. `domain` is what the control plane answered for the volume, if it did.
    pub(crate) fn volume(&self, domain: Option<&str>, path: &str) -> String {
        match &self.volumes {
            Some(url) => join(url, path),
            None => format!("{}://api.{}{path}", self.scheme, domain.unwrap_or(&self.domain)),
        }
    }

    /// The host that control-plane requests name, where it is another than they go to.
    pub(crate) fn host_of_api(&self) -> Option<&HeaderValue> {
        self.api_host.as_ref()
    }

    /// The base URL of a port of a sandbox, and the headers that route to it. `domain` is what the control plane
    /// answered for this sandbox, if it did.
    pub(crate) fn sandbox(&self, id: &str, port: u16, domain: Option<&str>) -> Result<(String, HeaderMap), Error> {
        let mut headers = HeaderMap::new();
        let header = HeaderValue::try_from(id).map_err(|_| Error::invalid(format!("{id:?} is no sandbox id")))?;
        headers.insert(E2B_SANDBOX_ID, header);
        headers.insert(E2B_SANDBOX_PORT, HeaderValue::from(port));
        if let Some(host) = &self.sandbox_host {
            let host = fill(host, id, port);
            let host = HeaderValue::try_from(&host)
                .map_err(|_| Error::invalid(format!("sandbox_host: {host:?} is no host")))?;
            headers.insert(HOST, host);
        }
        let domain = domain.unwrap_or(&self.domain);
        let base = match &self.sandboxes {
            Sandboxes::Shared(url) => join(url, ""),
            Sandboxes::Template(template) => fill(template, id, port),
            Sandboxes::Debug => format!("http://localhost:{port}"),
            Sandboxes::ByDomain if SHARED_HOST_DOMAINS.contains(&domain) => {
                format!("{}://sandbox.{domain}", self.scheme)
            }
            Sandboxes::ByDomain => format!("{}://{port}-{id}.{domain}", self.scheme),
        };
        Ok((base, headers))
    }

    /// A URL at the address that all sandboxes share, where they are told apart by headers.
    pub(crate) fn shared(&self, path: &str) -> Option<String> {
        match &self.sandboxes {
            Sandboxes::Shared(url) => Some(join(url, path)),
            _ => None,
        }
    }

    /// Where files are signed for: a URL that needs no header to say which sandbox is meant, where there is one.
    pub(crate) fn direct(&self, id: &str, port: u16, domain: Option<&str>) -> Result<String, Error> {
        match &self.sandboxes {
            Sandboxes::ByDomain => Ok(format!("{}://{}", self.scheme, self.host(id, port, domain))),
            _ => Ok(self.sandbox(id, port, domain)?.0),
        }
    }

    /// Where a browser finds a port of a sandbox: it sends no headers of ours, so that a shared address would not do.
    pub(crate) fn page(&self, id: &str, port: u16, domain: Option<&str>) -> String {
        let host = self.host(id, port, domain);
        let scheme = match &self.sandboxes {
            Sandboxes::Template(template) => return fill(template, id, port),
            Sandboxes::Debug => "http",
            Sandboxes::ByDomain => self.scheme,
            // A host of this machine speaks as its server does; elsewhere sandboxes have TLS.
            Sandboxes::Shared(url) if is_of_this_machine(&host) => url.scheme(),
            Sandboxes::Shared(_) => "https",
        };
        format!("{scheme}://{host}")
    }

    /// The host below which a port of a sandbox is reached from outside.
    pub(crate) fn host(&self, id: &str, port: u16, domain: Option<&str>) -> String {
        match self.sandboxes {
            Sandboxes::Debug => format!("localhost:{port}"),
            _ => format!("{port}-{id}.{}", domain.unwrap_or(&self.domain)),
        }
    }
}

/// Whether a host, perhaps with a port, is a name below `localhost`, which is this machine by definition.
fn is_of_this_machine(host: &str) -> bool {
    let name = host.split_once(':').map_or(host, |(name, _)| name);
    name == "localhost" || name.ends_with(".localhost")
}

fn fill(template: &str, id: &str, port: u16) -> String {
    template.replace("{id}", id).replace("{port}", &port.to_string())
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

    fn domain(domain: &str) -> Endpoint {
        Endpoint::domain(domain).unwrap()
    }

    fn base(endpoint: &Endpoint, port: u16, domain: Option<&str>) -> String {
        endpoint.sandbox("iabc", port, domain).unwrap().0
    }

    #[test]
    fn addresses_follow_from_the_domain() {
        let cloud = domain("e2b.app");
        assert_eq!(cloud.api("/v2/sandboxes"), "https://api.e2b.app/v2/sandboxes");
        let (url, headers) = cloud.sandbox("iabc", ENVD_PORT, None).unwrap();
        assert_eq!(url, "https://sandbox.e2b.app");
        assert_eq!(
            (&headers["e2b-sandbox-id"], &headers["e2b-sandbox-port"]),
            (&"iabc".parse().unwrap(), &"49983".parse().unwrap())
        );
        assert_eq!(cloud.direct("iabc", ENVD_PORT, None).unwrap(), "https://49983-iabc.e2b.app");

        let own = domain("sandboxes.example:8443");
        assert_eq!(own.api("/x"), "https://api.sandboxes.example:8443/x");
        assert_eq!(base(&own, ENVD_PORT, None), "https://49983-iabc.sandboxes.example:8443");
        assert_eq!(base(&own, 3000, Some("other.example")), "https://3000-iabc.other.example");
        assert_eq!(own.host("iabc", 80, None), "80-iabc.sandboxes.example:8443");
        assert_eq!(base(&own.plain_http(), 80, None), "http://80-iabc.sandboxes.example:8443");
    }

    #[test]
    fn urls_take_its_place_and_may_have_a_path() {
        let own = domain("e2b.app").api_url("http://127.0.0.1:3000/api/").unwrap();
        let own = own.sandbox_url("http://[::1]:3001/sbx").unwrap();
        assert_eq!(own.api("/v2/sandboxes"), "http://127.0.0.1:3000/api/v2/sandboxes");
        assert_eq!(own.volume(None, "/x"), "https://api.e2b.app/x");
        assert_eq!(own.volume(Some("volumes.example"), "/x"), "https://api.volumes.example/x");
        let own = own.volume_api_url("http://v:1/").unwrap();
        assert_eq!(own.volume(Some("volumes.example"), "/x"), "http://v:1/x");
        assert_eq!(base(&own, ENVD_PORT, None), "http://[::1]:3001/sbx");
    }

    #[test]
    fn a_template_is_filled_wherever_its_places_are() {
        let hosts = domain("e2b.app").sandbox_url("https://{port}-{id}.boxes.example:8443/").unwrap();
        assert_eq!(base(&hosts, 3000, Some("ignored.example")), "https://3000-iabc.boxes.example:8443");
        let paths = domain("e2b.app").sandbox_url("http://gw/boxes/{id}/{port}").unwrap();
        assert_eq!(base(&paths, 80, None), "http://gw/boxes/iabc/80");
        let named = domain("e2b.app").sandbox_url("http://10.0.0.1").unwrap();
        let named = named.sandbox_host("{port}-{id}.cluster").unwrap().api_host("api.cluster").unwrap();
        assert_eq!(named.sandbox("iabc", 80, None).unwrap().1[HOST], "80-iabc.cluster");
        assert_eq!(named.host_of_api().unwrap(), "api.cluster");
    }

    #[test]
    fn a_page_is_where_a_browser_finds_it() {
        let page = |endpoint: &Endpoint, domain| endpoint.page("iabc", 6080, domain);
        assert_eq!(page(&domain("e2b.app"), None), "https://6080-iabc.e2b.app");
        assert_eq!(page(&domain("a.example:80").plain_http(), None), "http://6080-iabc.a.example:80");
        let gateway = domain("e2b.app").sandbox_url("http://gw:3000/sbx").unwrap();
        assert_eq!(page(&gateway, Some("b.example")), "https://6080-iabc.b.example");
        let local = domain("e2b.app").sandbox_url("http://127.0.0.1:3000").unwrap();
        assert_eq!(page(&local, Some("localhost:3000")), "http://6080-iabc.localhost:3000");
        let paths = domain("e2b.app").sandbox_url("http://gw/boxes/{id}/{port}").unwrap();
        assert_eq!(page(&paths, None), "http://gw/boxes/iabc/6080");
        assert_eq!(page(&Endpoint::debug(), None), "http://localhost:6080");
    }

    #[test]
    fn debug_is_this_machine() {
        let debug = Endpoint::debug();
        assert_eq!(debug.api("/x"), "http://localhost:3000/x");
        assert_eq!(debug.volume(None, "/x"), "http://localhost:8080/x");
        assert_eq!(
            (base(&debug, ENVD_PORT, None), debug.host("i", 80, None)),
            ("http://localhost:49983".to_owned(), "localhost:80".to_owned())
        );
    }

    #[test]
    fn a_wrong_address_is_named_with_its_rule() {
        for (domain, message) in [
            ("https://e2b.app", "domain: \"https://e2b.app\" is a URL; give the host alone"),
            ("e2b.app/v2", "domain: \"e2b.app/v2\" has a path"),
            ("", "domain: \"\" is no host name"),
        ] {
            let error = Endpoint::domain(domain).unwrap_err().to_string();
            assert!(error.contains(message), "{error}");
        }
        for (url, message) in [
            ("localhost:3000", "api_url: \"localhost:3000\" must begin with http://"),
            ("nonsense", "api_url: \"nonsense\" is no URL"),
            ("http://", "api_url: \"http://\" is no URL"),
            ("http://a?b", "must have neither a query nor a fragment"),
        ] {
            let error = domain("e2b.app").api_url(url).unwrap_err().to_string();
            assert!(error.contains(message), "{error}");
        }
        for (url, message) in [
            ("http://a/{port}", "has no {id}"),
            ("http://a/{id}/{name}", "more in braces"),
            ("ftp://{id}", "must begin with http://"),
        ] {
            let error = domain("e2b.app").sandbox_url(url).unwrap_err().to_string();
            assert!(error.contains("sandbox_url") && error.contains(message), "{error}");
        }
        let error = domain("e2b.app").api_url("http://me:hunter2@host").unwrap_err().to_string();
        assert!(error.contains("must not hold credentials") && !error.contains("hunter2"), "{error}");
    }
}
