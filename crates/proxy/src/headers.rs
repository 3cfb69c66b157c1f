//! Headers on their way through.

use http::header::{
    ACCEPT_ENCODING, CONNECTION, CONTENT_LENGTH, EXPECT, HOST, HeaderName, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, TE,
    TRAILER, TRANSFER_ENCODING, UPGRADE, VIA,
};
use http::{HeaderMap, HeaderValue};
use oncebox_protocol::headers::{ONCEBOX_PROXY_TOKEN, X_REQUEST_ID};

/// Fields that are about one connection (RFC 9110 §7.6.1).
const OF_A_CONNECTION: [HeaderName; 7] =
    [CONNECTION, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, TRANSFER_ENCODING, UPGRADE, KEEP_ALIVE, PROXY_CONNECTION];
const KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");
const PROXY_CONNECTION: HeaderName = HeaderName::from_static("proxy-connection");

/// What this hop calls itself (RFC 9110 §7.6.3).
const VIA_US: HeaderValue = HeaderValue::from_static("1.1 oncebox");

/// Makes an SDK's headers those of the request that goes on. `reads_answer`: the answer is looked into, and must not come
/// compressed.
pub(crate) fn for_server(headers: &mut HeaderMap, reads_answer: bool) {
    drop_of_a_connection(headers);
    for name in [HOST, CONTENT_LENGTH, EXPECT, ONCEBOX_PROXY_TOKEN] {
        headers.remove(name);
    }
    if headers.get(TE).is_some_and(|te| te != "trailers") {
        headers.remove(TE);
    }
    if reads_answer {
        headers.remove(ACCEPT_ENCODING);
    }
    headers.append(VIA, VIA_US);
    if !headers.contains_key(X_REQUEST_ID)
        && let Some(id) = request_id()
    {
        headers.insert(X_REQUEST_ID, id);
    }
}

/// Makes a server's headers those of the answer that goes back. `whole`: its body is given anew.
pub(crate) fn for_sdk(headers: &mut HeaderMap, whole: bool) {
    drop_of_a_connection(headers);
    headers.remove(TRAILER);
    if whole {
        headers.remove(CONTENT_LENGTH);
    }
}

fn drop_of_a_connection(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| HeaderName::try_from(name.trim()).ok())
        // How long the body is never describes the connection.
        .filter(|name| *name != CONTENT_LENGTH)
        .collect();
    for name in named.into_iter().chain(OF_A_CONNECTION) {
        headers.remove(name);
    }
}

fn request_id() -> Option<HeaderValue> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).ok()?;
    HeaderValue::try_from(format!("{:032x}", u128::from_be_bytes(bytes))).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_about_one_hop_stays_there() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("connection", "x-hop, Content-Length, close"),
            ("x-hop", "1"),
            ("keep-alive", "timeout=5"),
            ("upgrade", "h2c"),
            ("te", "gzip"),
            ("host", "127.0.0.1"),
            ("content-length", "3"),
            ("oncebox-proxy-token", "secret"),
            ("accept-encoding", "gzip"),
            ("x-api-key", "k"),
        ] {
            headers.append(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        let mut streamed = headers.clone();
        for_server(&mut headers, true);
        let mut names: Vec<_> = headers.keys().map(HeaderName::as_str).collect();
        names.sort_unstable();
        assert_eq!(names, ["via", "x-api-key", "x-request-id"]);
        for_server(&mut streamed, false);
        assert_eq!(streamed["accept-encoding"], "gzip");
        assert_ne!(streamed["x-request-id"], headers["x-request-id"]);

        let mut again = HeaderMap::from_iter([(X_REQUEST_ID, HeaderValue::from_static("theirs"))]);
        for_server(&mut again, false);
        assert_eq!(again["x-request-id"], "theirs");
    }
}
