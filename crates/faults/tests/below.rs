//! What happens below HTTP, as a raw socket or a TLS client sees it.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use std::sync::Arc;
use std::time::{Duration, Instant};

use oncebox_faults::{Answer, Blackhole, Fault, Link, Moment, Protocol, Rule, Script, Server};
use support::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName, pem::PemObject};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

fn on_connect(fault: Fault) -> Script {
    Script::new().rule(Rule::at(Moment::Connect).does(fault))
}

async fn tls(server: &Server, alpn: &[&str]) -> std::io::Result<TlsStream<TcpStream>> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(server.ca_pem().unwrap().as_bytes()).unwrap()).unwrap();
    let mut config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
    let socket = TcpStream::connect(server.addr()).await?;
    let name = ServerName::try_from("localhost").unwrap();
    TlsConnector::from(Arc::new(config)).connect(name, socket).await
}

async fn serve_tls(script: Script) -> Server {
    Server::builder(script).tls().start().await.unwrap()
}

#[tokio::test]
async fn it_accepts_and_says_nothing() {
    let server = serve(on_connect(Fault::Silence)).await;
    let mut raw = Raw::connect(server.addr()).await;
    raw.write(GET).await;
    raw.expect_silence(Duration::from_millis(50)).await;
    assert_eq!(server.log().totals().heads, 0);
}

#[tokio::test]
async fn a_blackhole_swallows_connects() {
    let blackhole = Blackhole::open().await.unwrap();
    let connect = TcpStream::connect(blackhole.addr());
    assert!(tokio::time::timeout(Duration::from_millis(200), connect).await.is_err());
}

#[tokio::test]
async fn it_refuses_connections_and_comes_back() {
    let server = Server::builder(Script::new()).refuse_connects_for(Duration::from_millis(50)).start().await.unwrap();
    let refused = TcpStream::connect(server.addr()).await.unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
    while TcpStream::connect(server.addr()).await.is_err() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(http1(&server, GET_CLOSE).await.0, OK_CLOSE);
}

#[tokio::test]
async fn a_script_refuses_connections_while_others_live_on() {
    let server = serve(Script::new().rule(Rule::at(Moment::Request).nth(1).does(Fault::RefuseConnects(60_000)))).await;
    let mut raw = Raw::connect(server.addr()).await;
    raw.write(GET).await;
    raw.exactly(OK.len()).await;
    let refused = async {
        while TcpStream::connect(server.addr()).await.is_ok() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(LONG, refused).await.unwrap();
    raw.write(GET_CLOSE).await;
    assert_eq!(raw.rest().await, (OK_CLOSE.into(), End::Fin));
}

#[tokio::test]
async fn it_resets_and_closes_at_once() {
    let server = serve(on_connect(Fault::Reset)).await;
    assert_eq!(Raw::connect(server.addr()).await.rest().await, (vec![], End::Reset));
    let server = serve(on_connect(Fault::Close)).await;
    assert_eq!(Raw::connect(server.addr()).await.rest().await, (vec![], End::Fin));
}

#[tokio::test]
async fn it_resets_after_chosen_bytes() {
    let script = |at| Script::new().rule(Rule::at(at).does(Fault::Reset));
    let server = serve(script(Moment::BytesOut(17))).await;
    assert_eq!(http1(&server, GET_CLOSE).await, (OK_CLOSE[..17].into(), End::Reset));
    let server = serve(script(Moment::BytesIn(10))).await;
    assert_eq!(http1(&server, GET_CLOSE).await, (String::new(), End::Reset));
    assert!(server.log().wait_until(LONG, |log| log.totals().connections_open == 0).await);
    assert_eq!(server.log().connections()[0].bytes_in, 10);
}

#[tokio::test]
async fn it_closes_with_unread_data() {
    let server = serve(Script::new().rule(Rule::at(Moment::BytesIn(5)).does(Fault::CloseUnread))).await;
    let mut raw = Raw::connect(server.addr()).await;
    raw.write(GET).await;
    // FIN first, and a reset afterwards: the system says that what was sent was never read.
    let mut byte = [0];
    assert_eq!(raw.socket.read(&mut byte).await.unwrap(), 0);
    let reset = async {
        while raw.socket.write_all(b"x").await.is_ok() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(LONG, reset).await.unwrap();
    assert!(server.log().wait_until(LONG, |log| log.totals().connections_open == 0).await);
    assert_eq!(server.log().connections()[0].ended.as_deref(), Some("closed unread"));
}

#[tokio::test]
async fn it_stalls_and_goes_on() {
    let rule = Rule::at(Moment::BytesOut(5)).does(Fault::Stall(60));
    let server = serve(Script::new().rule(rule)).await;
    let mut raw = Raw::connect(server.addr()).await;
    raw.write(GET_CLOSE).await;
    assert_eq!(raw.exactly(5).await, b"HTTP/");
    let began = Instant::now();
    assert_eq!(raw.rest().await.0, &OK_CLOSE.as_bytes()[5..]);
    assert!(began.elapsed() >= Duration::from_millis(40), "{:?}", began.elapsed());
}

#[tokio::test]
async fn one_percent_of_connections_is_closed_in_the_handshake() {
    let rule = Rule::at(Moment::Connect).probability(0.01).does(Fault::Reset);
    let run = async || {
        let server = serve(Script::new().seed(4).rule(rule.clone())).await;
        let mut lost = Vec::new();
        for n in 1..=400 {
            let mut raw = Raw::connect(server.addr()).await;
            if raw.socket.write_all(GET_CLOSE.as_bytes()).await.is_err() || raw.rest().await.0.is_empty() {
                lost.push(n);
            }
        }
        lost
    };
    let lost = run().await;
    assert!((1..=12).contains(&lost.len()), "{lost:?}");
    assert_eq!(lost, run().await);
}

#[tokio::test]
async fn a_line_has_a_round_trip_time_a_bandwidth_and_slices() {
    let began = Instant::now();
    let server = serve(on_connect(Fault::Link(Link { rtt_ms: 60, ..Link::default() }))).await;
    assert_eq!(http1(&server, GET_CLOSE).await.0, OK_CLOSE);
    assert!(began.elapsed() >= Duration::from_millis(60));

    let began = Instant::now();
    let link = Link { bytes_per_second: 1_000_000, ..Link::default() };
    let server = serve(on_connect(Fault::Link(link)).answer(Answer::default().size(100_000))).await;
    assert!(http1(&server, GET_CLOSE).await.0.len() > 100_000);
    assert!((90..2000).contains(&began.elapsed().as_millis()), "{:?}", began.elapsed());

    let link = Link { slice: 10, slice_pause_ms: 3, ..Link::default() };
    let server = serve(on_connect(Fault::Link(link))).await;
    let mut raw = Raw::connect(server.addr()).await;
    raw.write(GET_CLOSE).await;
    let mut buffer = [0; 100];
    assert_eq!(raw.socket.read(&mut buffer).await.unwrap(), 10);
    assert_eq!(raw.rest().await.0, &OK_CLOSE.as_bytes()[10..]);
}

#[tokio::test]
async fn tls_agrees_on_a_version() {
    let server = serve_tls(Script::new()).await;
    assert!(server.url("/").starts_with("https://127.0.0.1:"));
    let mut http1 = tls(&server, &["http/1.1"]).await.unwrap();
    http1.write_all(GET_CLOSE.as_bytes()).await.unwrap();
    let mut text = String::new();
    http1.read_to_string(&mut text).await.unwrap();
    assert_eq!(text, OK_CLOSE);
    let http2 = tls(&server, &["h2", "http/1.1"]).await.unwrap();
    assert_eq!(http2.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    let server = serve_tls(Script::new().protocol(Protocol::Http1)).await;
    let http1 = tls(&server, &["h2", "http/1.1"]).await.unwrap();
    assert_eq!(http1.get_ref().1.alpn_protocol(), Some(&b"http/1.1"[..]));
}

#[tokio::test]
async fn the_tls_handshake_is_cut() {
    // After the ClientHello, in the server's flight, or before anything.
    for fault in [Fault::CutTls(0), Fault::CutTls(100), Fault::Close, Fault::Reset] {
        let server = serve_tls(on_connect(fault.clone())).await;
        assert!(tls(&server, &[]).await.is_err(), "{fault:?}");
        assert!(server.log().wait_until(LONG, |log| log.totals().connections_open == 0).await);
        assert_eq!(server.log().totals().heads, 0);
    }
    let server = serve_tls(on_connect(Fault::CutTls(100))).await;
    let mut raw = Raw::connect(server.addr()).await;
    let config = ClientConfig::builder().with_root_certificates(RootCertStore::empty()).with_no_client_auth();
    let name = ServerName::try_from("localhost").unwrap();
    let mut client = tokio_rustls::rustls::ClientConnection::new(Arc::new(config), name).unwrap();
    let mut hello = Vec::new();
    client.write_tls(&mut hello).unwrap();
    raw.write(&hello).await;
    assert_eq!(raw.rest().await.0.len(), 100);
}

#[tokio::test]
async fn tls_ends_with_and_without_close_notify() {
    let read = async |fault: Fault| {
        let server = serve_tls(Script::new().rule(Rule::at(Moment::Answered).does(fault))).await;
        let mut stream = tls(&server, &[]).await.unwrap();
        stream.write_all(GET.as_bytes()).await.unwrap();
        let mut text = String::new();
        (stream.read_to_string(&mut text).await.map_err(|error| error.kind()), text)
    };
    assert_eq!(read(Fault::Close).await, (Ok(OK.len()), OK.into()));
    let (end, _) = read(Fault::CloseWithoutNotify).await;
    assert_eq!(end, Err(std::io::ErrorKind::UnexpectedEof));
}

#[tokio::test]
async fn it_stops_when_dropped() {
    let server = serve(Script::new().service_time_ms(60_000)).await;
    let mut raw = Raw::h2(&server).await;
    raw.get(1, "").await;
    assert!(server.log().wait_until(LONG, |log| log.totals().processed == 1).await);
    let address = server.addr();
    drop(server);
    raw.rest().await;
    assert!(TcpStream::connect(address).await.is_err());
}

#[tokio::test]
async fn the_log_is_bounded_and_counts_on() {
    let server = Server::builder(Script::new()).log_limit(10).start().await.unwrap();
    let mut raw = Raw::h2(&server).await;
    for n in 0..30 {
        raw.get(2 * n + 1, &format!("r{n}")).await;
        raw.expect_ok(2 * n + 1).await;
    }
    let totals = server.log().totals();
    assert_eq!((totals.heads, totals.processed, totals.tries_not_kept), (30, 30, 20));
    assert_eq!((server.log().all_tries().len(), server.log().events().len()), (10, 10));
    assert!(totals.events_not_kept > 50);
}
