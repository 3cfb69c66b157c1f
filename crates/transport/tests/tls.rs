//! TLS: whom a client trusts, and which HTTP version the two agree on.

#![allow(clippy::unwrap_used)] // A test panics when it fails.

mod support;

use std::sync::Arc;

use http::Request;
use oncebox_faults::{Fault, Moment, Protocol, Rule, Script, Server};
use oncebox_transport::policy::{Outcome, Phase};
use oncebox_transport::{Body, CallOptions, Client, ClientBuilder, HttpVersion};
use support::Peer;
use support::load::{Done, Payload, posts};
use support::proxies::Authority;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{HandshakeKind, RootCertStore, ServerConfig};

/// `:status: 200` from HPACK's static table, ending the stream.
const OK_HEADERS: &[u8] = &[0, 0, 1, 1, 5, 0, 0, 0, 1, 0x88];

/// A TLS server for `localhost` that offers these protocols and answers 200 in the one that was chosen; and its CA.
async fn server(protocols: &[&str]) -> (Peer, String) {
    let authority = Authority::new();
    let mut config = authority.server(&["localhost"]);
    config.alpn_protocols = protocols.iter().map(|p| p.as_bytes().to_vec()).collect();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let peer = Peer::start(move |_, socket| {
        let acceptor = acceptor.clone();
        async move {
            let Ok(mut stream) = acceptor.accept(socket).await else { return };
            let http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
            let mut got = vec![0; 4096];
            let mut seen = Vec::new();
            // A head of either version, by what ends it or marks it.
            let complete = |seen: &[u8]| {
                if http2 { seen.windows(2).any(|w| w == [1, 5]) } else { seen.ends_with(b"\r\n\r\n") }
            };
            if http2 {
                stream.write_all(&[0, 0, 0, 4, 0, 0, 0, 0, 0]).await.unwrap();
            }
            while !complete(&seen) {
                let n = stream.read(&mut got).await.unwrap();
                assert!(n > 0, "the client left");
                seen.extend_from_slice(&got[..n]);
            }
            let answer: &[u8] = if http2 { OK_HEADERS } else { b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n" };
            stream.write_all(answer).await.unwrap();
            let _ = stream.read(&mut got).await;
        }
    })
    .await;
    (peer, authority.pem())
}

fn get(peer: &Peer) -> Request<Body> {
    Request::get(format!("https://localhost:{}/", peer.address.port())).body(Body::empty()).unwrap()
}

fn trusting(ca: &str) -> ClientBuilder {
    Client::builder().add_root_certificates(ca.as_bytes()).unwrap()
}

#[tokio::test]
async fn the_server_chooses_the_version_and_a_forced_one_is_what_it_is() {
    for (protocols, version, expected) in [
        (&["h2", "http/1.1"][..], HttpVersion::Auto, http::Version::HTTP_2),
        (&["http/1.1"], HttpVersion::Auto, http::Version::HTTP_11),
        (&[], HttpVersion::Auto, http::Version::HTTP_11),
        (&["h2", "http/1.1"], HttpVersion::Http1, http::Version::HTTP_11),
        (&["h2", "http/1.1"], HttpVersion::Http2, http::Version::HTTP_2),
    ] {
        let (peer, ca) = server(protocols).await;
        let client = trusting(&ca).http_version(version).build();
        let response = client.send_collected(get(&peer), CallOptions::new()).await.unwrap();
        assert_eq!((response.status().as_u16(), response.version()), (200, expected), "{protocols:?} {version:?}");
        // Finding the version out costs neither an attempt nor a connection.
        assert_eq!(response.history().attempts().len(), 1);
        assert_eq!(peer.connections(), 1, "{protocols:?} {version:?}");
    }
}

#[tokio::test]
async fn a_server_without_the_forced_version_is_told_apart_from_one_that_is_away() {
    let (peer, ca) = server(&["http/1.1"]).await;
    let client = trusting(&ca).http_version(HttpVersion::Http2).connection_retries(0).build();
    let error = client.send(get(&peer), CallOptions::new()).await.unwrap_err();
    let Some(Outcome::NotSent(not_sent)) = error.outcome() else { panic!("{error}") };
    assert_eq!(not_sent.phase, Phase::Tls);
}

#[tokio::test]
async fn a_certificate_that_nobody_vouches_for_is_refused_before_anything_is_sent() {
    let (peer, _) = server(&["h2", "http/1.1"]).await;
    for version in [HttpVersion::Auto, HttpVersion::Http1] {
        let client = Client::builder().http_version(version).connection_retries(0).build();
        let error = client.send(get(&peer), CallOptions::new()).await.unwrap_err();
        let Some(Outcome::NotSent(not_sent)) = error.outcome() else { panic!("{error}") };
        assert_eq!(not_sent.phase, Phase::Tls, "{error}");
        assert!(error.to_string().contains("not sent (tls): invalid peer certificate"), "{error}");
        assert!(!error.may_have_been_processed());
    }
}

#[tokio::test]
async fn whoever_asks_for_it_gets_no_verification() {
    let (peer, _) = server(&["h2", "http/1.1"]).await;
    let client = Client::builder().danger_accept_invalid_certificates(true).build();
    assert_eq!(client.send(get(&peer), CallOptions::new()).await.unwrap().status(), 200);
}

/// A peer inside TLS that reads a head, says this, and ends: with close_notify, or without a word.
async fn saying(config: ServerConfig, answer: &'static str, farewell: bool) -> Peer {
    let acceptor = TlsAcceptor::from(Arc::new(config));
    Peer::start(move |_, socket| {
        let acceptor = acceptor.clone();
        async move {
            let Ok(mut stream) = acceptor.accept(socket).await else { return };
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                if stream.read_buf(&mut head).await.unwrap_or(0) == 0 {
                    return;
                }
            }
            stream.write_all(answer.as_bytes()).await.unwrap();
            stream.flush().await.unwrap();
            if farewell {
                stream.shutdown().await.unwrap();
            }
        }
    })
    .await
}

const CLOSING: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok";

#[tokio::test]
async fn an_end_without_close_notify_is_fine_where_the_message_was_complete() {
    for (answer, farewell, whole) in [
        (CLOSING, false, true),
        ("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", false, true),
        ("HTTP/1.1 200 OK\r\nconnection: close\r\n\r\nok", true, true),
        // Whoever cuts a connection could make a part pass for the whole.
        ("HTTP/1.1 200 OK\r\nconnection: close\r\n\r\nok", false, false),
        ("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nok", true, false),
        ("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n", true, false),
    ] {
        let authority = Authority::new();
        let peer = saying(authority.server(&["localhost"]), answer, farewell).await;
        let client = trusting(&authority.pem()).http_version(HttpVersion::Http1).retries(0).build();
        match client.send_collected(get(&peer), CallOptions::new()).await {
            Ok(response) => assert!(whole && response.body() == "ok", "{answer}"),
            Err(error) => {
                assert!(!whole, "{answer}: {error}");
                assert!(error.to_string().contains("answered 200, the body was cut"), "{error}");
            }
        }
    }
}

#[tokio::test]
async fn a_certificate_for_somebody_else_is_shown_with_its_names() {
    let authority = Authority::new();
    let peer = saying(authority.server(&["other.test", "*.more.test"]), CLOSING, true).await;
    for version in [HttpVersion::Http1, HttpVersion::Auto] {
        let client = trusting(&authority.pem()).http_version(version).connection_retries(0).build();
        let error = client.send(get(&peer), CallOptions::new()).await.unwrap_err();
        let expected = "not sent (tls): invalid peer certificate: not for localhost, but for other.test, *.more.test";
        assert!(error.to_string().contains(expected), "{error}");
    }
}

#[tokio::test]
async fn the_second_connection_resumes_the_session_of_the_first() {
    let authority = Authority::new();
    let acceptor = TlsAcceptor::from(Arc::new(authority.server(&["localhost"])));
    let kinds = Arc::new(parking_lot::Mutex::new(Vec::new()));
    let seen = kinds.clone();
    let peer = Peer::start(move |_, socket| {
        let (acceptor, seen) = (acceptor.clone(), seen.clone());
        async move {
            let mut stream = acceptor.accept(socket).await.unwrap();
            seen.lock().push(stream.get_ref().1.handshake_kind().unwrap());
            let _ = stream.read(&mut [0; 4096]).await;
            stream.write_all(CLOSING.as_bytes()).await.unwrap();
            stream.shutdown().await.unwrap();
        }
    })
    .await;
    let client = trusting(&authority.pem()).build();
    for _ in 0..3 {
        client.send_collected(get(&peer), CallOptions::new()).await.unwrap();
    }
    assert_eq!(kinds.lock()[..], [HandshakeKind::Full, HandshakeKind::Resumed, HandshakeKind::Resumed]);
}

#[tokio::test]
async fn a_client_shows_its_certificate_where_it_is_asked_for_one() {
    let authority = Authority::new();
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(authority.pem().as_bytes()).unwrap()).unwrap();
    let verifier = WebPkiClientVerifier::builder(Arc::new(roots)).build().unwrap();
    let peer = saying(authority.server_asking(&["localhost"], verifier), CLOSING, true).await;
    let (chain, key) = authority.vouch(&["client.test"]);
    let client = trusting(&authority.pem()).client_certificate(chain.as_bytes(), key.as_bytes()).unwrap().build();
    assert_eq!(client.send(get(&peer), CallOptions::new()).await.unwrap().status(), 200);
    // One without, or of another authority, gets no answer; and never the connection of one with.
    let (chain, key) = Authority::new().vouch(&["client.test"]);
    let other = trusting(&authority.pem()).client_certificate(chain.as_bytes(), key.as_bytes()).unwrap();
    for (client, expected) in [
        (trusting(&authority.pem()), "the server wants a certificate (client_certificate)"),
        (other, "client_certificate refused: "),
    ] {
        for version in [HttpVersion::Auto, HttpVersion::Http1] {
            let client = client.clone().http_version(version).retries(0).connection_retries(0).build();
            let error = client.send(get(&peer), CallOptions::new()).await.unwrap_err();
            assert!(error.to_string().contains(expected), "{error}");
        }
    }
}

/// One handshake in a hundred is cut, at 300 calls at once.
#[tokio::test]
async fn handshakes_that_fail_now_and_then_fail_no_call() {
    let script = Script::new()
        .seed(3)
        .rule(Rule::at(Moment::Connect).probability(0.01).does(Fault::CutTls(0)))
        .rule(Rule::at(Moment::Answered).nth(3).does(Fault::Close));
    let server = Server::builder(script.protocol(Protocol::Http1)).tls().start().await.unwrap();
    let client = trusting(server.ca_pem().unwrap()).build();
    let run = posts(&client, &server, 1200, 300, Payload::Bytes(10)).await;
    run.assert_all_done_once(&server, 3);
    let cut = run.done.iter().flat_map(Done::outcomes).filter(|outcome| matches!(outcome, Outcome::NotSent(_))).count();
    println!("{} connections, {cut} attempts were not sent", server.log().totals().connections);
    assert!(cut > 0, "no handshake was cut");
}
