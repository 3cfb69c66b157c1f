//! How connections come to be: names, addresses, sockets, and the limit of each step.

#![allow(clippy::unwrap_used)] // A test panics when it fails.

mod support;

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use http::Request;
use oncebox_faults::{Fault, Moment, Rule, Script, Server};
use oncebox_transport::policy::{Outcome, Phase};
use oncebox_transport::{Body, CallOptions, Client, ClientBuilder, Error, HttpVersion, Resolve, Resolving};
use parking_lot::Mutex;
use support::{OK, Peer, answer, read_request};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};

const GOODBYE: &str = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";

/// Answers with the addresses it holds, or says nothing where it holds none.
#[derive(Clone, Default)]
struct Names(Arc<Mutex<Option<Known>>>);

type Known = Result<Vec<IpAddr>, String>;

impl Names {
    fn of(addresses: &[&str]) -> Self {
        let names = Self::default();
        names.set(addresses);
        names
    }

    fn set(&self, addresses: &[&str]) {
        *self.0.lock() = Some(Ok(addresses.iter().map(|address| address.parse().unwrap()).collect()));
    }
}

impl Resolve for Names {
    fn resolve(&self, host: &str) -> Resolving {
        assert_eq!(host, "service.test");
        let known = self.0.lock().clone();
        Box::pin(async move {
            match known {
                Some(known) => known.map_err(Into::into),
                None => std::future::pending().await,
            }
        })
    }
}

fn once(names: Names) -> ClientBuilder {
    Client::builder().no_proxy().connection_retries(0).resolver(names)
}

fn get(port: u16) -> Request<Body> {
    Request::get(format!("http://service.test:{port}/")).body(Body::empty()).unwrap()
}

#[track_caller]
fn phase(error: &Error) -> Phase {
    let Some(Outcome::NotSent(not_sent)) = error.outcome() else { panic!("{error}") };
    not_sent.phase
}

/// Says goodbye after each answer, so that each request needs a dial.
async fn peer_at(address: SocketAddr) -> Option<(SocketAddr, Arc<Mutex<usize>>)> {
    let listener = TcpListener::bind(address).await.ok()?;
    let address = listener.local_addr().unwrap();
    let served = Arc::new(Mutex::new(0));
    let counted = served.clone();
    tokio::spawn(async move {
        loop {
            let (mut socket, _) = listener.accept().await.unwrap();
            if read_request(&mut socket).await.is_some() {
                *counted.lock() += 1;
                answer(&mut socket, GOODBYE).await;
            }
        }
    });
    Some((address, served))
}

#[tokio::test]
async fn an_address_that_refuses_is_passed_over_and_comes_last_from_then_on() {
    let Some((address, served)) = peer_at(([127, 0, 0, 1], 0).into()).await else { panic!("no loopback") };
    let names = Names::of(&["127.0.0.2", "127.0.0.1"]);
    let client = once(names).build();
    assert_eq!(client.send(get(address.port()), CallOptions::new()).await.unwrap().status(), 200);
    // From here on somebody answers there, too; who answered before is still preferred.
    let other = peer_at(([127, 0, 0, 2], address.port()).into()).await;
    let Some((_, unused)) = other else {
        println!(
            "SKIP an_address_that_refuses_is_passed_over_and_comes_last_from_then_on: 127.0.0.2 cannot be listened on here"
        );
        return;
    };
    assert_eq!(client.send(get(address.port()), CallOptions::new()).await.unwrap().status(), 200);
    assert_eq!((*served.lock(), *unused.lock()), (2, 0));
}

#[tokio::test]
async fn names_are_resolved_anew_for_each_dial() {
    let (address, first) = peer_at(([127, 0, 0, 1], 0).into()).await.unwrap();
    let Some((_, second)) = peer_at(([127, 0, 0, 2], address.port()).into()).await else {
        println!("SKIP names_are_resolved_anew_for_each_dial: 127.0.0.2 cannot be listened on here");
        return;
    };
    let names = Names::of(&["127.0.0.1"]);
    let client = once(names.clone()).build();
    client.send(get(address.port()), CallOptions::new()).await.unwrap();
    names.set(&["127.0.0.2"]);
    client.send(get(address.port()), CallOptions::new()).await.unwrap();
    assert_eq!((*first.lock(), *second.lock()), (1, 1));
}

#[tokio::test]
async fn where_nobody_answers_each_address_is_listed() {
    let unused = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port();
    for version in [HttpVersion::Http1, HttpVersion::Http2] {
        let client = once(Names::of(&["127.0.0.1", "::1", "127.0.0.3"])).http_version(version).build();
        let error = client.send(get(unused), CallOptions::new()).await.unwrap_err();
        assert_eq!(phase(&error), Phase::Connect);
        let text = error.to_string();
        for address in ["127.0.0.1", "[::1]", "127.0.0.3"] {
            assert!(text.contains(&format!("{address}:{unused}: ")), "{text}");
        }
    }
}

#[tokio::test]
async fn a_name_without_addresses_and_one_that_cannot_be_resolved_are_told_apart() {
    let names = Names::of(&[]);
    let client = once(names.clone()).build();
    let error = client.send(get(1), CallOptions::new()).await.unwrap_err();
    assert_eq!(phase(&error), Phase::Dns);
    assert!(error.to_string().contains("not sent (dns): service.test: the name has no address"), "{error}");
    *names.0.lock() = Some(Err("SERVFAIL".into()));
    let error = client.send(get(1), CallOptions::new()).await.unwrap_err();
    assert!(error.to_string().contains("not sent (dns): service.test: SERVFAIL"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_resolver_that_says_nothing_ends_by_dns_timeout() {
    let client = once(Names::default()).dns_timeout(Duration::from_secs(3)).build();
    let error = client.send(get(1), CallOptions::new()).await.unwrap_err();
    assert_eq!(phase(&error), Phase::Dns);
    assert!(error.to_string().contains("service.test: no addresses in 3s (dns_timeout)"), "{error}");
}

/// A listener that accepts no more: the kernel lets further connects hang.
async fn full() -> (TcpListener, Vec<TcpStream>) {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(([127, 0, 0, 1], 0).into()).unwrap();
    let listener = socket.listen(1).unwrap();
    let address = listener.local_addr().unwrap();
    let mut queued = Vec::new();
    while let Ok(Ok(stream)) = tokio::time::timeout(Duration::from_millis(200), TcpStream::connect(address)).await {
        queued.push(stream);
        assert!(queued.len() < 1000, "the queue has no end");
    }
    (listener, queued)
}

#[tokio::test]
async fn an_address_that_says_nothing_ends_by_connect_timeout() {
    let (listener, _queued) = full().await;
    let address = listener.local_addr().unwrap();
    let client = once(Names::of(&["127.0.0.1"])).connect_timeout(Duration::from_secs(7)).build();
    tokio::time::pause();
    let error = client.send(get(address.port()), CallOptions::new()).await.unwrap_err();
    assert_eq!(phase(&error), Phase::Connect);
    let expected = format!("{address}: no answer in 7s (connect_timeout)");
    assert!(error.to_string().contains(&expected), "{error}");
}

#[tokio::test]
async fn a_handshake_that_gets_no_answer_ends_by_tls_timeout() {
    let peer = Peer::start(|_, mut socket| async move {
        let mut hello = [0; 16];
        socket.read_exact(&mut hello).await.unwrap();
        // From here on time passes by itself.
        tokio::time::pause();
        let _ = socket.read_to_end(&mut Vec::new()).await;
    })
    .await;
    let client = once(Names::of(&["127.0.0.1"])).tls_timeout(Duration::from_secs(4)).build();
    let request = Request::get(format!("https://service.test:{}/", peer.address.port())).body(Body::empty()).unwrap();
    let error = client.send(request, CallOptions::new()).await.unwrap_err();
    assert_eq!(phase(&error), Phase::Tls);
    assert!(error.to_string().contains("service.test: no handshake in 4s (tls_timeout)"), "{error}");
    assert_eq!(peer.connections(), 1);
}

/// An attempt's own limit says what it waited for, too.
#[tokio::test(start_paused = true)]
async fn an_attempt_that_times_out_in_a_dial_names_the_step() {
    for version in [HttpVersion::Http1, HttpVersion::Http2] {
        let client = once(Names::default()).dns_timeout(Duration::ZERO).http_version(version);
        let client = client.attempt_timeout(Duration::from_secs(3)).build();
        let error = client.send(get(1), CallOptions::new()).await.unwrap_err();
        assert_eq!(phase(&error), Phase::Dns, "{error}");
    }
}

#[tokio::test]
async fn a_handshake_that_the_peer_cuts_is_repeated_as_not_sent() {
    let cut = Rule::at(Moment::Connect).connection(1..=2).does(Fault::CutTls(0));
    let server = Server::builder(Script::new().rule(cut)).tls().start().await.unwrap();
    let client = Client::builder().add_root_certificates(server.ca_pem().unwrap().as_bytes()).unwrap().build();
    let request = Request::post(server.url("/")).header("x-request-id", "a").body(Body::from("once")).unwrap();
    let response = client.send_collected(request, CallOptions::new()).await.unwrap();
    let history = response.history();
    assert_eq!((response.status().as_u16(), history.attempts().len()), (200, 3));
    for cut in &history.attempts()[..2] {
        let Outcome::NotSent(not_sent) = cut.outcome else { panic!("{cut:?}") };
        assert_eq!(not_sent.phase, Phase::Tls);
    }
    assert_eq!(server.log().processed("a"), 1);
}

#[cfg(unix)]
#[tokio::test]
async fn a_unix_socket_is_kept_alive_and_told_the_urls_host() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let listener = tokio::net::UnixListener::bind(&path).unwrap();
    let server = tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.unwrap();
        for _ in 0..2 {
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                assert!(socket.read_buf(&mut head).await.unwrap() > 0);
            }
            let head = String::from_utf8(head).unwrap();
            assert!(head.starts_with("GET /x HTTP/1.1\r\n") && head.contains("\r\nhost: some.name\r\n"), "{head}");
            socket.write_all(OK.as_bytes()).await.unwrap();
        }
    });
    let client = Client::builder().unix_socket(&path).build();
    for _ in 0..2 {
        let request = Request::get("http://some.name/x").body(Body::empty()).unwrap();
        assert_eq!(client.send_collected(request, CallOptions::new()).await.unwrap().body(), "ok");
    }
    server.await.unwrap();

    let client = Client::builder().connection_retries(0).unix_socket(folder.path().join("none")).build();
    let request = Request::get("http://some.name/x").body(Body::empty()).unwrap();
    let error = client.send(request, CallOptions::new()).await.unwrap_err();
    assert_eq!(phase(&error), Phase::Connect);
    assert!(error.to_string().contains("/none: ") && error.to_string().contains("(unix_socket)"), "{error}");
}
