//! A request's head, and how each attempt makes its request of it.

use std::fmt;

use http::header::{CONNECTION, CONTENT_LENGTH, HOST, HeaderName, TE, TRANSFER_ENCODING};
use http::uri::Authority;
use http::{HeaderMap, HeaderValue, Method, Request, Uri, Version};

use super::headers::Headers;
use crate::body::Replay;
use crate::error::Error;
use crate::options::HttpVersion;
use crate::pool::Redacted;

/// Tells a server, and whoever reads its log, that a request is the n-th attempt of its call. Sent from the second on.
static ATTEMPT: HeaderName = HeaderName::from_static("oncebox-attempt");

/// A request's head, kept to be sent any number of times.
pub(super) struct Head {
    pub(super) method: Method,
    /// With scheme and authority.
    pub(super) uri: Uri,
    /// For attempts after the first, which takes the headers themselves.
    headers: Headers,
    /// Whether any of them describes a connection rather than the request.
    describes_connection: bool,
    /// Whether one of them names the host.
    has_host: bool,
    length: Length,
}

/// The length of its body that a request was given.
enum Length {
    None,
    Bytes(u64),
    /// Something else than one number.
    Unreadable,
}

impl Head {
    pub(super) fn new(method: Method, uri: Uri, headers: &HeaderMap) -> Self {
        let (mut describes_connection, mut has_host, mut has_length) = (false, false, false);
        let kept = Headers::of(headers, |name| {
            describes_connection |= is_of_a_connection(name);
            has_host |= name == HOST.as_str();
            has_length |= name == CONTENT_LENGTH.as_str();
        });
        let length = if has_length { length_of(headers) } else { Length::None };
        Self { method, uri, headers: kept, describes_connection, has_host, length }
    }

    /// Has the body keep to the length that its request tells, where it tells one.
    ///
    /// # Errors
    ///
    /// When the body has another one: a server would take a part for the whole, or wait for what never comes.
    #[inline]
    pub(super) fn settle_length(&self, body: &Replay) -> Result<(), Error> {
        match self.length {
            Length::None => Ok(()),
            Length::Bytes(given) => self.settle(given, body),
            Length::Unreadable => Err(Error::invalid(format!("{self}: its content-length is not one number of bytes"))),
        }
    }

    #[cold]
    fn settle(&self, given: u64, body: &Replay) -> Result<(), Error> {
        match body.length() {
            Some(length) if length != given => {
                Err(Error::invalid(format!("{self}: its content-length is {given}, and its body has {length} bytes")))
            }
            Some(_) => Ok(()),
            None => {
                body.keep_to(given);
                Ok(())
            }
        }
    }

    /// Fills the request of an attempt, an empty one. The first that gets so far takes `given`, the headers as they were
    /// given. `length` is that of its body, where it is known.
    pub(super) fn fill(
        &self,
        request: &mut Request<()>,
        version: HttpVersion,
        number: usize,
        given: &mut HeaderMap,
        length: Option<u64>,
    ) {
        *request.method_mut() = self.method.clone();
        std::mem::swap(request.headers_mut(), given);
        if request.headers().is_empty() {
            self.headers.append_to(request.headers_mut());
        }
        if version == HttpVersion::Http2 {
            *request.uri_mut() = self.uri.clone();
            *request.version_mut() = Version::HTTP_2;
            if self.describes_connection {
                remove_of_a_connection(request.headers_mut());
            }
            if self.has_host {
                name_authority(request);
            }
        } else {
            // Origin form (RFC 9112 §3.2.1).
            *request.uri_mut() = self.uri.path_and_query().cloned().map_or_else(Uri::default, Uri::from);
            *request.version_mut() = Version::HTTP_11;
            // Whatever an authority may hold, a header value may.
            if !request.headers().contains_key(HOST)
                && let Some(Ok(host)) = self.uri.authority().map(|authority| HeaderValue::from_str(authority.as_str()))
            {
                request.headers_mut().insert(HOST, host);
            }
        }
        if number > 1 {
            request.headers_mut().insert(ATTEMPT.clone(), HeaderValue::from(number));
        }
        match length {
            _ if !matches!(self.length, Length::None) => {}
            // Methods without a defined body say nothing of one (RFC 9110 §8.6).
            Some(length) if length > 0 || matches!(self.method, Method::POST | Method::PUT | Method::PATCH) => {
                request.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from(length));
            }
            // Without a word of it such a method's body would not be sent at all.
            None if version != HttpVersion::Http2 => {
                request.headers_mut().entry(TRANSFER_ENCODING).or_insert(HeaderValue::from_static("chunked"));
            }
            _ => {}
        }
    }
}

/// What people and logs call it.
impl fmt::Display for Head {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.method, Redacted(&self.uri))
    }
}

/// Fields that HTTP/2 has no place for (RFC 9113 §8.2.2).
const OF_A_CONNECTION: [&str; 5] = ["connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"];

fn is_of_a_connection(name: &str) -> bool {
    // Most names are told apart by their length.
    match name.len() {
        2 => name == TE.as_str(),
        7 | 10 | 16 | 17 => OF_A_CONNECTION.contains(&name),
        _ => false,
    }
}

/// Takes out what describes an HTTP/1.1 connection. `h2` would refuse the request for it.
fn remove_of_a_connection(headers: &mut HeaderMap) {
    let named: Vec<_> = headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| HeaderName::try_from(name.trim()).ok())
        .collect();
    // The body's length never describes the connection.
    for name in named.into_iter().filter(|name| *name != CONTENT_LENGTH) {
        headers.remove(name);
    }
    for name in OF_A_CONNECTION {
        headers.remove(name);
    }
    if headers.get(TE).is_some_and(|te| te != "trailers") {
        headers.remove(TE);
    }
}

/// Puts the host that a request names into its `:authority`: both may not be there, and differ (RFC 9113 §8.3.1).
#[cold]
fn name_authority(request: &mut Request<()>) {
    let Some(Ok(host)) = request.headers().get(HOST).map(|host| Authority::try_from(host.as_bytes())) else { return };
    let mut parts = request.uri().clone().into_parts();
    parts.authority = Some(host);
    if let Ok(uri) = Uri::from_parts(parts) {
        *request.uri_mut() = uri;
        request.headers_mut().remove(HOST);
    }
}

#[cold]
fn length_of(headers: &HeaderMap) -> Length {
    let mut given = headers.get_all(CONTENT_LENGTH).iter();
    let (first, more) = (given.next(), given.next());
    first
        .filter(|_| more.is_none())
        .and_then(|value| value.to_str().ok())
        .filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()))
        .and_then(|text| text.parse().ok())
        .map_or(Length::Unreadable, Length::Bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_that_a_request_names_is_its_authority_over_http2() {
        for (host, authority, left) in [
            ("other.test", "other.test", None),
            ("other.test:8443", "other.test:8443", None),
            ("no host", "10.0.0.1", Some("no host")),
        ] {
            let mut given = HeaderMap::from_iter([(HOST, HeaderValue::from_static(host))]);
            let head = Head::new(Method::GET, Uri::from_static("https://10.0.0.1/a?b=c"), &given);
            for version in [HttpVersion::Http2, HttpVersion::Http1, HttpVersion::Http2] {
                let mut request = Request::new(());
                head.fill(&mut request, version, 1, &mut given, Some(0));
                let told = request.headers().get(HOST).map(|value| value.to_str().unwrap());
                if version == HttpVersion::Http2 {
                    assert_eq!((request.uri().authority().unwrap().as_str(), told), (authority, left));
                    assert_eq!(request.uri().path_and_query().unwrap(), "/a?b=c");
                } else {
                    assert_eq!(told, Some(host));
                }
            }
        }
    }

    #[test]
    fn each_field_of_a_connection_is_known_by_its_name() {
        for name in OF_A_CONNECTION.into_iter().chain(["te"]) {
            assert!(is_of_a_connection(name), "{name}");
        }
        for name in ["tf", "keep-alike", "trailer", "x-forwarded-proto", "user-agent"] {
            assert!(!is_of_a_connection(name), "{name}");
        }
    }
}
