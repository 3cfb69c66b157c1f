//! A request's head, and how each attempt makes its request of it.

use std::fmt;

use http::header::{CONNECTION, CONTENT_LENGTH, HOST, HeaderName, TE};
use http::{HeaderMap, HeaderValue, Method, Request, Uri, Version};

use super::headers::Headers;
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
    /// Whether one of them is the body's length.
    has_length: bool,
}

impl Head {
    pub(super) fn new(method: Method, uri: Uri, headers: &HeaderMap) -> Self {
        let (mut describes_connection, mut has_length) = (false, false);
        let headers = Headers::of(headers, |name| {
            describes_connection |= is_of_a_connection(name);
            has_length |= name == CONTENT_LENGTH.as_str();
        });
        Self { method, uri, headers, describes_connection, has_length }
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
        // Methods without a defined body say nothing of one (RFC 9110 §8.6).
        if let Some(length) = length
            && (length > 0 || matches!(self.method, Method::POST | Method::PUT | Method::PATCH))
            && !self.has_length
        {
            request.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from(length));
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

#[cfg(test)]
mod tests {
    use super::*;

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
