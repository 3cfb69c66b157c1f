//! TLS: whom a client trusts, and which HTTP version the two agree on.

#![allow(clippy::unwrap_used)] // A test panics when it fails.

mod support;

use std::sync::Arc;

use http::Request;
use oncebox_transport::policy::{Outcome, Phase};
use oncebox_transport::{Body, CallOptions, Client, ClientBuilder, History, HttpVersion};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use support::Peer;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// `:status: 200` from HPACK's static table, ending the stream.
const OK_HEADERS: &[u8] = &[0, 0, 1, 1, 5, 0, 0, 0, 1, 0x88];

/// A TLS server for `localhost` that offers these protocols and answers 200 in the one that was chosen; and its CA.
async fn server(protocols: &[&str]) -> (Peer, String) {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let ca = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let leaf = CertificateParams::new(vec!["localhost".to_owned()]).unwrap().signed_by(&key, &ca).unwrap();

    let chain = vec![CertificateDer::from(leaf.der().to_vec())];
    let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let mut config = ServerConfig::builder().with_no_client_auth().with_single_cert(chain, key).unwrap();
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
    (peer, ca.pem())
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
        assert_eq!(response.extensions().get::<History>().unwrap().attempts().len(), 1);
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
