//! Proxies: which one a request goes through, and what it is told.

mod environment;
mod no_proxy;
pub(crate) mod socks;
pub(crate) mod tunnel;

pub(crate) use environment::Environment;

use std::fmt;
use std::hash::{Hash, Hasher};
use std::net::Ipv6Addr;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::header::PROXY_AUTHORIZATION;
use http::{HeaderMap, HeaderName, HeaderValue, Uri};

use crate::error::Error;
use no_proxy::NoProxy;

/// A proxy, and what it needs to be told.
///
/// | URL | what it does |
/// |---|---|
/// | `http://host:port` | takes requests to `http://` targets itself, and opens a tunnel to `https://` ones (CONNECT) |
/// | `https://host:port` | the same, inside TLS |
/// | `socks5://host:port` | opens a connection to an address that the client has looked up (RFC 1928) |
/// | `socks5h://host:port` | opens a connection to a name that the proxy looks up |
///
/// A user and a password may stand in the URL, percent-encoded. They never appear in errors, logs or `Debug`.
///
/// ```
/// use oncebox_transport::{Client, Proxy};
///
/// # fn main() -> Result<(), oncebox_transport::Error> {
/// let proxy = Proxy::new("http://user:secret@proxy.example:3128")?.except("localhost, 10.0.0.0/8");
/// assert!(!format!("{proxy:?}").contains("secret"));
/// let client = Client::builder().proxy(proxy).build();
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Proxy {
    scheme: Scheme,
    host: String,
    port: u16,
    credentials: Option<Credentials>,
    headers: Vec<(HeaderName, HeaderValue)>,
    except: Option<Arc<NoProxy>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Scheme {
    Http,
    Https,
    Socks5,
    Socks5h,
}

#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct Credentials {
    pub(crate) user: String,
    pub(crate) password: String,
}

/// SOCKS has a byte for the length of each (RFC 1929).
const SOCKS_MAX: usize = 255;

impl Proxy {
    /// Reads a proxy's URL. Without a scheme it is `http://`; the port is 80, 443 or 1080 unless it is given.
    ///
    /// # Errors
    ///
    /// When the URL is none, or is not one of a proxy.
    pub fn new(url: &str) -> Result<Self, Error> {
        // Whatever stands before the last @ may be a password.
        let shown = url.rsplit('@').next().unwrap_or_default();
        let wrong = |rule: &str| Error::invalid(format!("proxy {shown:?} {rule}"));
        let whole = if url.contains("://") { url.to_owned() } else { format!("http://{url}") };
        let uri: Uri = whole.trim().parse().map_err(|_| wrong("is no URL; it should look like http://host:port"))?;
        let (scheme, port) = match uri.scheme_str() {
            Some("http") => (Scheme::Http, 80),
            Some("https") => (Scheme::Https, 443),
            Some("socks5") => (Scheme::Socks5, 1080),
            Some("socks5h") => (Scheme::Socks5h, 1080),
            _ => return Err(wrong("must begin with http://, https://, socks5:// or socks5h://")),
        };
        if !matches!(uri.path(), "" | "/") || uri.query().is_some() {
            return Err(wrong("must end after host and port"));
        }
        let host = host_of(&uri).map_err(wrong)?.to_owned();
        let port = port_of(&uri).map_err(|()| wrong("has a port that is no number from 1 to 65535"))?.unwrap_or(port);
        let authority = uri.authority().map_or("", |authority| authority.as_str());
        let credentials = authority.rsplit_once('@').map(|(user_info, _)| Credentials::decode(user_info));
        let credentials = credentials.transpose().map_err(wrong)?;
        Self { scheme, host, port, credentials, headers: Vec::new(), except: None }.checked()
    }

    /// Names a user to the proxy, as credentials in its URL would.
    ///
    /// # Errors
    ///
    /// When SOCKS cannot carry them: it has room for 255 bytes each. When they hold what HTTP cannot carry: a colon in
    /// the user.
    pub fn credentials(mut self, user: &str, password: &str) -> Result<Self, Error> {
        self.credentials = Some(Credentials { user: user.to_owned(), password: password.to_owned() });
        self.checked()
    }

    /// Sends a header to the proxy with each CONNECT, and with each request that it takes itself. A SOCKS proxy has no
    /// headers, and gets none.
    #[must_use]
    pub fn header(mut self, name: HeaderName, mut value: HeaderValue) -> Self {
        value.set_sensitive(true);
        self.headers.push((name, value));
        self
    }

    /// Hosts that are reached without it, as in `NO_PROXY`: names with all below them, addresses, networks, `*`;
    /// separated by commas, each with a port where it is for that port alone.
    #[must_use]
    pub fn except(mut self, hosts: &str) -> Self {
        self.except = Some(Arc::new(NoProxy::new(hosts)));
        self
    }

    fn checked(self) -> Result<Self, Error> {
        let Some(Credentials { user, password }) = &self.credentials else { return Ok(self) };
        let wrong = |rule: &str| Err(Error::invalid(format!("proxy {}: {rule}", self.address())));
        if !self.is_http() && (user.len() > SOCKS_MAX || password.len() > SOCKS_MAX || user.is_empty()) {
            return wrong("SOCKS has room for a user of 1 to 255 bytes, and a password of at most 255");
        }
        if self.is_http() && user.contains(':') {
            return wrong("a user must not hold a colon (RFC 7617)");
        }
        Ok(self)
    }

    fn is_for(&self, uri: &Uri) -> bool {
        !self.except.as_ref().is_some_and(|except| except.contains(uri))
    }

    /// Whether it speaks HTTP, rather than SOCKS.
    pub(crate) fn is_http(&self) -> bool {
        matches!(self.scheme, Scheme::Http | Scheme::Https)
    }

    pub(crate) fn is_tls(&self) -> bool {
        self.scheme == Scheme::Https
    }

    /// Whether it is told names, rather than addresses.
    pub(crate) fn resolves(&self) -> bool {
        self.scheme != Scheme::Socks5
    }

    pub(crate) fn host(&self) -> &str {
        &self.host
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    pub(crate) fn user(&self) -> Option<&Credentials> {
        self.credentials.as_ref()
    }

    /// Its host and port, as errors name it.
    pub(crate) fn address(&self) -> String {
        host_and_port(&self.host, self.port)
    }

    /// What an HTTP proxy is told with each request or CONNECT.
    pub(crate) fn tell(&self, headers: &mut HeaderMap) {
        if let Some(Credentials { user, password }) = &self.credentials {
            let basic = format!("Basic {}", STANDARD.encode(format!("{user}:{password}")));
            if let Ok(mut value) = HeaderValue::try_from(basic) {
                value.set_sensitive(true);
                headers.insert(PROXY_AUTHORIZATION, value);
            }
        }
        for (name, value) in &self.headers {
            headers.insert(name.clone(), value.clone());
        }
    }
}

/// The host that a URI names, as it is looked up: an IPv6 address stands in brackets in a URI (RFC 3986 §3.2.2), and
/// without them elsewhere. An error: why there is none.
pub(crate) fn host_of(uri: &Uri) -> Result<&str, &'static str> {
    let host = uri.host().filter(|host| !host.is_empty()).ok_or("names no host")?;
    let address = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    match address {
        Some(address) if address.parse::<Ipv6Addr>().is_ok() => Ok(address),
        None if !host.contains(['[', ']']) => Ok(host),
        _ => Err("has brackets that hold no IPv6 address"),
    }
}

/// The port that a URI names. An error: what it names is none, of which `http` only says that there is none.
pub(crate) fn port_of(uri: &Uri) -> Result<Option<u16>, ()> {
    let authority = uri.authority().map_or("", |authority| authority.as_str());
    let host_and_port = authority.rsplit('@').next().unwrap_or_default();
    match host_and_port.strip_prefix(uri.host().unwrap_or_default()).unwrap_or_default() {
        "" | ":" => Ok(None),
        port => port[1..].parse().ok().filter(|port| *port > 0).map(Some).ok_or(()),
    }
}

/// As it stands in an authority, with an IPv6 address in brackets.
pub(crate) fn host_and_port(host: &str, port: u16) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

impl Credentials {
    fn decode(user_info: &str) -> Result<Self, &'static str> {
        let decode = |text: &str| {
            let decoded = percent_encoding::percent_decode_str(text).decode_utf8();
            decoded.map(|text| text.into_owned()).map_err(|_| "has credentials that are not UTF-8")
        };
        let (user, password) = user_info.split_once(':').unwrap_or((user_info, ""));
        Ok(Self { user: decode(user)?, password: decode(password)? })
    }
}

impl PartialEq for Proxy {
    /// Whether connections through the one are as good as those through the other.
    fn eq(&self, other: &Self) -> bool {
        (self.scheme, &self.host, self.port, &self.credentials, &self.headers)
            == (other.scheme, &other.host, other.port, &other.credentials, &other.headers)
    }
}

impl Eq for Proxy {}

impl Hash for Proxy {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.scheme, &self.host, self.port, &self.credentials, &self.headers).hash(state);
    }
}

impl fmt::Debug for Proxy {
    // Neither the credentials nor the headers' values.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Proxy")
            .field("scheme", &self.scheme)
            .field("address", &self.address())
            .field("credentials", &self.credentials.is_some())
            .field("headers", &self.headers.iter().map(|(name, _)| name).collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}

/// Which proxy a client's requests go through.
#[derive(Clone, Debug, Default)]
pub(crate) enum Proxies {
    /// What the environment says.
    #[default]
    Environment,
    Read(Arc<Environment>),
    Never,
    Always(Arc<Proxy>),
}

impl Proxies {
    /// Reads the environment, where that is what decides.
    pub(crate) fn read(self) -> Self {
        match self {
            Self::Environment => Self::Read(Arc::new(Environment::read(&|name| std::env::var(name).ok()))),
            decided => decided,
        }
    }

    /// The proxy for this target.
    pub(crate) fn of(&self, uri: &Uri) -> Result<Option<Arc<Proxy>>, Error> {
        match self {
            Self::Environment | Self::Never => Ok(None),
            Self::Read(environment) => environment.proxy_for(uri),
            Self::Always(proxy) => Ok(Some(proxy.clone()).filter(|proxy| proxy.is_for(uri))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_says_how_where_and_as_whom() {
        for (url, scheme, address, user) in [
            ("http://proxy", Scheme::Http, "proxy:80", None),
            ("proxy.example:3128", Scheme::Http, "proxy.example:3128", None),
            ("https://proxy/", Scheme::Https, "proxy:443", None),
            ("socks5://[::1]", Scheme::Socks5, "[::1]:1080", None),
            ("socks5h://a%40b:c%3Ad@h:1", Scheme::Socks5h, "h:1", Some(("a@b", "c:d"))),
            ("http://just-a-user@h:1", Scheme::Http, "h:1", Some(("just-a-user", ""))),
        ] {
            let proxy = Proxy::new(url).unwrap();
            assert_eq!((proxy.scheme, proxy.address()), (scheme, address.to_owned()), "{url}");
            assert_eq!(proxy.user().map(|c| (c.user.as_str(), c.password.as_str())), user, "{url}");
        }
    }

    #[test]
    fn what_is_no_proxy_is_refused_and_passwords_are_not_repeated() {
        for (url, rule) in [
            ("ftp://u:secret@h:1", "must begin with"),
            ("socks4://u:secret@h:1", "must begin with"),
            ("http://u:secret@h:1/path", "must end after"),
            ("http://u:secret@", "proxy"),
            ("http://u:secret@h:port", "no number"),
            ("http://u:secret@h:65536", "no number"),
            ("http://u:secret@[]", "no IPv6 address"),
            ("http://%ff:secret@h", "not UTF-8"),
            ("http://a%3Ab:secret@h", "colon"),
            ("", "proxy"),
        ] {
            let text = Proxy::new(url).unwrap_err().to_string();
            assert!(text.contains(rule) && !text.contains("secret"), "{url}: {text}");
        }
        let long = "secret".repeat(50);
        let text = Proxy::new("socks5://h").unwrap().credentials("u", &long).unwrap_err().to_string();
        assert!(text.contains("255") && !text.contains("secret"), "{text}");
    }

    #[test]
    fn a_host_in_brackets_is_an_ipv6_address_or_none() {
        let of = |text: &str| text.parse::<Uri>().map(|uri| host_of(&uri).map(str::to_owned));
        for (url, host) in [("http://[::1]:1/", "::1"), ("http://h:1/", "h"), ("http://127.0.0.1/", "127.0.0.1")] {
            assert_eq!(of(url).unwrap().as_deref(), Ok(host), "{url}");
        }
        // Whether they are no URI at all or one without a host, nothing is dialled.
        for url in ["http://[]/", "http://[h]/", "http://x[::1]/", "http://[[::1]]/", "http://:1/", "/"] {
            assert!(!matches!(of(url), Ok(Ok(_))), "{url}: {:?}", of(url));
        }
    }

    #[test]
    fn debug_shows_neither_credentials_nor_headers() {
        let proxy = Proxy::new("http://user:secret@h:1").unwrap();
        let proxy = proxy.header(HeaderName::from_static("x-token"), HeaderValue::from_static("secret"));
        let text = format!("{proxy:?} {:?}", Proxies::Always(Arc::new(proxy.clone())));
        assert!(text.contains("x-token") && !text.contains("secret") && !text.contains("user"), "{text}");
        let mut headers = HeaderMap::new();
        proxy.tell(&mut headers);
        assert_eq!(headers[PROXY_AUTHORIZATION], "Basic dXNlcjpzZWNyZXQ=");
        assert!(!format!("{headers:?}").contains("ecret"));
    }

    #[test]
    fn an_exception_goes_past_the_proxy() {
        let proxies = Proxies::Always(Arc::new(Proxy::new("http://h:1").unwrap().except("localhost,10.0.0.0/8")));
        let goes = |uri: &str| proxies.of(&uri.parse().unwrap()).unwrap().is_some();
        assert!(goes("http://example.com/") && goes("https://11.0.0.1/"));
        assert!(!goes("http://localhost:3000/") && !goes("https://10.1.2.3/"));
    }
}
