//! Bodies that do not keep to the length which their request tells, and bodies where the method expects none.

#![allow(clippy::unwrap_used)] // A test panics when it fails.

mod support;

use bytes::Bytes;
use http::{Method, Request};
use http_body::Frame;
use http_body_util::StreamBody;
use oncebox_faults::Script;
use oncebox_transport::{Body, BoxError, CallOptions, Client, HttpVersion};
use support::load::serve;

const VERSIONS: [HttpVersion; 2] = [HttpVersion::Http1, HttpVersion::Http2];

fn client(version: HttpVersion) -> Client {
    Client::builder().http_version(version).build()
}

/// A stream that does not say how long it is.
fn stream(pieces: &'static [&'static str]) -> Body {
    let frames = pieces.iter().map(|piece| Ok::<_, BoxError>(Frame::data(Bytes::from_static(piece.as_bytes()))));
    Body::stream(StreamBody::new(futures_util::stream::iter(frames)))
}

fn request(method: Method, url: &str, length: Option<&str>, body: Body) -> Request<Body> {
    let mut request = Request::builder().method(method).uri(url).header("x-request-id", "r0");
    if let Some(length) = length {
        request = request.header("content-length", length);
    }
    request.body(body).unwrap()
}

#[tokio::test]
async fn a_streamed_body_is_sent_whole_whatever_the_method() {
    for version in VERSIONS {
        for method in [Method::GET, Method::DELETE, Method::OPTIONS, Method::POST] {
            let server = serve(Script::default()).await;
            let call = request(method.clone(), &server.url("/"), None, stream(&["abc", "def"]));
            client(version).send_collected(call, CallOptions::new()).await.unwrap();
            let tries = server.log().all_tries();
            assert_eq!((tries.len(), tries[0].body_bytes), (1, 6), "{method} over {version:?}");
        }
    }
}

#[tokio::test]
async fn a_body_that_keeps_to_its_length_is_sent() {
    for version in VERSIONS {
        for body in [stream(&["abc", "def"]), stream(&["abc", "", "def", ""]), Body::from("abcdef")] {
            let server = serve(Script::default()).await;
            let call = request(Method::POST, &server.url("/"), Some("6"), body);
            let response = client(version).send_collected(call, CallOptions::new()).await.unwrap();
            assert_eq!((response.status().as_u16(), server.log().all_tries()[0].body_bytes), (200, 6), "{version:?}");
        }
    }
}

#[tokio::test]
async fn a_stream_of_another_length_than_its_request_tells_is_never_taken_for_the_whole() {
    let wrong: [(&'static [&'static str], &str); 5] = [
        (&["abc", "def"], "content-length is 3, and the body goes on"),
        (&["abcdef"], "content-length is 3, and the body goes on"),
        (&["abc", "", "def"], "content-length is 3, and the body goes on"),
        (&["ab"], "content-length is 3, and the body ended after 2"),
        (&[], "content-length is 3, and the body ended after 0"),
    ];
    for version in VERSIONS {
        for (pieces, why) in wrong {
            let server = serve(Script::default()).await;
            let call = request(Method::POST, &server.url("/"), Some("3"), stream(pieces));
            let error = client(version).send_collected(call, CallOptions::new()).await.unwrap_err();
            assert!(error.to_string().contains(why), "{pieces:?} over {version:?}: {error}");
            assert_eq!(error.attempts().len(), 1, "{pieces:?} over {version:?}: {error}");
            assert!(server.log().all_tries().iter().all(|tried| !tried.processed), "{pieces:?} over {version:?}");
        }
    }
}

#[tokio::test]
async fn a_wrong_length_of_bytes_at_hand_is_refused_before_anything_is_sent() {
    let server = serve(Script::default()).await;
    for version in VERSIONS {
        for (length, why) in [
            ("3", "content-length is 3, and its body has 6 bytes"),
            ("7", "content-length is 7, and its body has 6 bytes"),
            ("six", "content-length is not one number of bytes"),
            ("6, 6", "content-length is not one number of bytes"),
        ] {
            let call = request(Method::POST, &server.url("/"), Some(length), Body::from("abcdef"));
            let error = client(version).send_collected(call, CallOptions::new()).await.unwrap_err();
            assert!(error.is_invalid() && error.to_string().contains(why), "{length}: {error}");
        }
    }
    assert!(server.log().connections().is_empty());
}

#[tokio::test]
async fn a_stream_that_yields_nothing_for_ever_after_its_last_byte_holds_nobody_up() {
    let server = serve(Script::default()).await;
    let first = futures_util::stream::iter([Bytes::from_static(b"abc")]);
    let pieces = futures_util::StreamExt::chain(first, futures_util::stream::repeat(Bytes::new()));
    let frames = futures_util::StreamExt::map(pieces, |piece| Ok::<_, BoxError>(Frame::data(piece)));
    let call = request(Method::POST, &server.url("/"), Some("3"), Body::stream(StreamBody::new(frames)));
    let response = client(HttpVersion::Http1).send_collected(call, CallOptions::new()).await.unwrap();
    assert_eq!((response.status().as_u16(), server.log().all_tries()[0].body_bytes), (200, 3));
}
