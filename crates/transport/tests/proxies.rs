//! Through proxies of every kind: what holds without one holds through them.

#![allow(clippy::unwrap_used)] // A test panics when it fails.

mod support;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use http::{HeaderName, HeaderValue, Method, Request};
use oncebox_faults::{Answer, ErrorCode, Fault, Goaway, LastId, Moment, Rule, Script, Server};
use oncebox_transport::policy::{Cause, Outcome, Phase, Unknown};
use oncebox_transport::{Body, CallOptions, Client, ClientBuilder, Error, HttpVersion, Proxy, Resolve, Resolving};
use support::load::{BODIES, Payload, call, post, posts, request};
use support::proxies::{Authority, Manner, Proxy as Scripted};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    /// Requests in absolute form; for targets without TLS.
    Forward,
    Connect,
    /// CONNECT, inside TLS to the proxy.
    ConnectInTls,
    Socks5,
    Socks5h,
}

const TUNNELS: [Kind; 4] = [Kind::Connect, Kind::ConnectInTls, Kind::Socks5, Kind::Socks5h];

/// A proxy, and a client that goes through it and trusts both.
async fn through(kind: Kind, server: &Server, mut manner: Manner) -> (Scripted, ClientBuilder) {
    let authority = Authority::new();
    if kind == Kind::ConnectInTls {
        manner.tls = Some(TlsAcceptor::from(Arc::new(authority.server(&["127.0.0.1"]))));
    }
    let login = manner.login.map(|(user, password)| format!("{user}:{password}@")).unwrap_or_default();
    let scripted = Scripted::start(manner).await;
    let scheme = match kind {
        Kind::Forward | Kind::Connect => "http",
        Kind::ConnectInTls => "https",
        Kind::Socks5 => "socks5",
        Kind::Socks5h => "socks5h",
    };
    let proxy = Proxy::new(&format!("{scheme}://{login}{}", scripted.address)).unwrap();
    let mut client = Client::builder().proxy(proxy).add_root_certificates(authority.pem().as_bytes()).unwrap();
    if let Some(ca) = server.ca_pem() {
        client = client.add_root_certificates(ca.as_bytes()).unwrap();
    }
    (scripted, client)
}

async fn over_tls(script: Script) -> Server {
    Server::builder(script).tls().start().await.unwrap()
}

/// A row of the fault table: a script, and what must hold of a client against it.
async fn row(script: Script, holds: impl AsyncFn(Kind, Server, Client)) {
    let through_kind = async |kind| {
        let server = over_tls(script.clone()).await;
        let (scripted, client) = through(kind, &server, Manner::default()).await;
        holds(kind, server, client.build()).await;
        assert!(!scripted.asked().is_empty(), "{kind:?}: nothing went through the proxy");
    };
    join_all(TUNNELS.map(through_kind)).await;
}

#[tokio::test]
async fn connections_that_retire_lose_nothing() {
    for payload in BODIES {
        row(Script::retiring(20), async |_, server, client| {
            posts(&client, &server, 200, 32, payload).await.assert_all_done_once(&server, 3);
        })
        .await;
    }
}

#[tokio::test]
async fn streams_that_are_refused_are_sent_again() {
    let script = Script::new().seed(7).rule(Rule::at(Moment::Request).attempt(1).share(0.5).does(Fault::Refuse));
    row(script, async |_, server, client| {
        let run = posts(&client, &server, 200, 32, Payload::Stream(10_000)).await;
        run.assert_all_done_once(&server, 3);
        assert!(server.log().totals().refused > 50);
    })
    .await;
}

#[tokio::test]
async fn a_goaway_with_an_error_code_refuses_what_is_above_its_last_stream() {
    let goaway: Goaway = Fault::goaway().code(ErrorCode::ENHANCE_YOUR_CALM).last(LastId::Id(0));
    let script = Script::new().rule(Rule::at(Moment::Request).attempt(1).does(goaway));
    row(script, async |kind, server, client| {
        let answer = call(&client, post(&server, "a", Payload::Bytes(9))).await.unwrap();
        assert_eq!((answer.status().as_u16(), server.log().processed("a")), (200, 1), "{kind:?}");
    })
    .await;
}

#[tokio::test]
async fn what_may_have_been_processed_is_repeated_only_where_that_is_permitted() {
    for lost in [Fault::Close, Fault::Reset] {
        let script = Script::new().rule(Rule::at(Moment::Processed).attempt(1).does(lost));
        row(script, async |kind, server, client| {
            let error = call(&client, post(&server, "a", Payload::Bytes(9))).await.unwrap_err();
            assert!(
                matches!(error.outcome(), Some(Outcome::SentUnknown(Unknown { cause: Cause::ConnectionLost, .. }))),
                "{kind:?}: {error}"
            );
            assert_eq!((error.attempts().len(), server.log().heads("a")), (1, 1), "{kind:?}");
            let answer = call(&client, request(&server, Method::GET, "b", Payload::None)).await.unwrap();
            assert_eq!((answer.status().as_u16(), server.log().heads("b")), (200, 2), "{kind:?}");
        })
        .await;
    }
}

#[tokio::test]
async fn a_reset_with_another_code_is_never_a_replay() {
    let reset = Fault::ResetStream(ErrorCode::CANCEL);
    row(Script::new().rule(Rule::at(Moment::Processed).does(reset)), async |kind, server, client| {
        let error = call(&client, post(&server, "a", Payload::Stream(9))).await.unwrap_err();
        assert!(matches!(error.outcome(), Some(Outcome::SentUnknown(_))), "{kind:?}: {error}");
        assert_eq!((error.attempts().len(), server.log().heads("a")), (1, 1), "{kind:?}");
    })
    .await;
}

#[tokio::test]
async fn an_answer_that_is_cut_is_never_taken_for_a_whole_one() {
    let script = Script::new()
        .answer(Answer::default().text("all of it"))
        .rule(Rule::at(Moment::AnswerBody(3)).attempt(1).does(Fault::Reset));
    row(script, async |kind, server, client| {
        let answer = call(&client, request(&server, Method::GET, "a", Payload::None)).await.unwrap();
        assert_eq!((&answer.body()[..], server.log().heads("a")), (&b"all of it"[..], 2), "{kind:?}");
        let error = call(&client, post(&server, "b", Payload::None)).await.unwrap_err();
        assert!(error.may_have_been_processed() && server.log().heads("b") == 1, "{kind:?}: {error}");
    })
    .await;
}

#[tokio::test]
async fn handshakes_that_are_cut_are_repeated_as_not_sent() {
    let script = Script::new().rule(Rule::at(Moment::Connect).connection(1..=2).does(Fault::CutTls(0)));
    row(script, async |kind, server, client| {
        let answer = call(&client, post(&server, "a", Payload::Bytes(9))).await.unwrap();
        assert_eq!((answer.status().as_u16(), server.log().heads("a")), (200, 1), "{kind:?}");
    })
    .await;
}

#[tokio::test]
async fn goaway_on_accept_for_ever_ends_in_a_typed_error() {
    let goaway = Fault::goaway().last(LastId::Id(0));
    row(Script::new().rule(Rule::at(Moment::Preface).does(goaway)), async |kind, server, client| {
        let error = call(&client, post(&server, "a", Payload::None)).await.unwrap_err();
        assert!(!error.may_have_been_processed() && error.attempts().len() <= 4, "{kind:?}: {error}");
        assert_eq!(server.log().processed("a"), 0);
    })
    .await;
}

const KINDS: [Kind; 5] = [Kind::Forward, Kind::Connect, Kind::ConnectInTls, Kind::Socks5, Kind::Socks5h];

/// A server with TLS where a tunnel leads to it, and without where the proxy itself is to read the requests.
async fn behind(kind: Kind, script: Script) -> Server {
    let builder = Server::builder(script);
    if kind == Kind::Forward { builder } else { builder.tls() }.start().await.unwrap()
}

/// HTTP/1.1 through all of them, in absolute form, too.
#[tokio::test]
async fn kept_connections_that_end_lose_no_post_over_http_1() {
    let unasked = Fault::Send(oncebox_faults::Bytes(b"HTTP/1.1 408 Timeout\r\ncontent-length: 0\r\n\r\n".to_vec()));
    for script in [
        Script::new().rule(Rule::at(Moment::Idle(200)).does(Fault::Close)),
        Script::new().rule(Rule::at(Moment::Idle(200)).does(unasked).does(Fault::Close)),
        Script::new().rule(Rule::at(Moment::Answered).nth(2).does(Fault::Close)),
    ] {
        let through_kind = async |kind| {
            let server = behind(kind, script.clone()).await;
            let (scripted, client) = through(kind, &server, Manner::default()).await;
            let client = client.http_version(HttpVersion::Http1).build();
            for n in 0..5 {
                let id = format!("r{n}");
                let answer = call(&client, request(&server, Method::PUT, &id, Payload::Bytes(9))).await.unwrap();
                assert_eq!(answer.status(), 200, "{kind:?}");
                // Long enough for the server to end it, whether or not that has come by when it is used again.
                tokio::time::sleep(Duration::from_millis(if n % 2 == 0 { 210 } else { 0 })).await;
            }
            assert!(!scripted.asked().is_empty());
        };
        join_all(KINDS.map(through_kind)).await;
    }
}

#[tokio::test]
async fn targets_are_named_to_the_proxy_as_its_kind_wants_it() {
    struct Nowhere;
    impl Resolve for Nowhere {
        fn resolve(&self, host: &str) -> Resolving {
            assert_eq!(host, "service.test");
            Box::pin(async { Ok(vec![IpAddr::from([10, 9, 8, 7])]) })
        }
    }
    for (kind, expected) in [
        (Kind::Forward, "GET http://service.test:{port}/a?b=c"),
        (Kind::Socks5, "address 10.9.8.7 {port}"),
        (Kind::Socks5h, "name service.test {port}"),
    ] {
        let server = Server::builder(Script::new().protocol(oncebox_faults::Protocol::Http1)).start().await.unwrap();
        let (scripted, client) = through(kind, &server, Manner::default()).await;
        let url = format!("http://service.test:{}/a?b=c", server.addr().port());
        let client = client.resolver(Nowhere).build();
        let response = client.send(Request::get(url).body(Body::empty()).unwrap(), CallOptions::new()).await.unwrap();
        assert_eq!(response.status(), 200);
        assert_eq!(scripted.asked(), [expected.replace("{port}", &server.addr().port().to_string())], "{kind:?}");
    }
    // With prior knowledge of HTTP/2 there is no absolute form that a proxy would understand.
    let server = Server::builder(Script::new()).start().await.unwrap();
    let (scripted, client) = through(Kind::Forward, &server, Manner::default()).await;
    let client = client.http_version(HttpVersion::Http2).build();
    call(&client, post(&server, "a", Payload::Bytes(3))).await.unwrap();
    assert_eq!(scripted.asked(), [format!("CONNECT {}", server.addr())]);
}

const LOGIN: Option<(&str, &str)> = Some(("user@x", "p:ss%w"));

#[tokio::test]
async fn credentials_and_headers_reach_the_proxy_and_are_shown_nowhere() {
    for kind in KINDS {
        let server = behind(kind, Script::new()).await;
        let manner = Manner { login: LOGIN, ..Manner::default() };
        let (scripted, trusting) = through(kind, &server, Manner { login: None, ..manner.clone() }).await;
        drop(scripted);
        let authority = Authority::new();
        let tls = TlsAcceptor::from(Arc::new(authority.server(&["127.0.0.1"])));
        let tls = (kind == Kind::ConnectInTls).then_some(tls);
        let scripted = Scripted::start(Manner { tls, ..manner }).await;
        let scheme = match kind {
            Kind::ConnectInTls => "https",
            Kind::Socks5 => "socks5",
            Kind::Socks5h => "socks5h",
            _ => "http",
        };
        let proxy = Proxy::new(&format!("{scheme}://user%40x:p%3Ass%25w@{}", scripted.address)).unwrap();
        let proxy = proxy.header(HeaderName::from_static("x-team"), HeaderValue::from_static("blue"));
        let trusting = trusting.add_root_certificates(authority.pem().as_bytes()).unwrap().proxy(proxy);
        assert!(!format!("{trusting:?}").contains("ss%w") && !format!("{trusting:?}").contains("user@x"));
        let client = trusting.build();
        assert!(!format!("{client:?}").contains("ss%w"));
        let answer = call(&client, post(&server, "a", Payload::Bytes(9))).await.unwrap();
        assert_eq!(answer.status(), 200, "{kind:?}");
        let is_http = !matches!(kind, Kind::Socks5 | Kind::Socks5h);
        assert_eq!(scripted.heads().len(), usize::from(is_http), "{kind:?}");
        assert!(scripted.heads().iter().all(|head| head.contains("\r\nx-team: blue\r\n")), "{:?}", scripted.heads());
    }
}

#[track_caller]
fn proxy_failure(error: &Error) -> String {
    let Some(Outcome::NotSent(not_sent)) = error.outcome() else { panic!("{error}") };
    assert_eq!(not_sent.phase, Phase::Proxy, "{error}");
    assert!(!error.may_have_been_processed());
    error.to_string()
}

#[tokio::test]
async fn a_proxy_that_refuses_says_why_and_no_error_shows_a_password() {
    for (kind, manner, expected) in [
        (Kind::Connect, Manner { refuses: Some((403, 2)), ..Manner::default() }, "403 to CONNECT"),
        (Kind::Socks5h, Manner { refuses: Some((403, 2)), ..Manner::default() }, "not allowed by its rules"),
    ] {
        let server = over_tls(Script::new()).await;
        let (scripted, client) = through(kind, &server, manner).await;
        let client = client.connection_retries(0).build();
        let error = call(&client, post(&server, "a", Payload::None)).await.unwrap_err();
        let text = proxy_failure(&error);
        assert!(text.contains(expected) && text.contains(&scripted.address.to_string()), "{text}");
        assert_eq!(server.log().heads("a"), 0);
    }
    for scheme in ["http", "socks5h"] {
        for (login, expected) in [("", "it wants credentials"), ("user:hunter2@", "it refuses the credentials")] {
            let server = over_tls(Script::new()).await;
            let scripted = Scripted::start(Manner { login: LOGIN, ..Manner::default() }).await;
            let proxy = Proxy::new(&format!("{scheme}://{login}{}", scripted.address)).unwrap();
            let client = Client::builder().proxy(proxy).connection_retries(0).build();
            let error = call(&client, post(&server, "a", Payload::None)).await.unwrap_err();
            let text = format!("{} {error:?}", proxy_failure(&error));
            assert!(text.contains(expected) && !text.contains("hunter2"), "{text}");
        }
    }
}

#[tokio::test]
async fn a_target_that_the_proxy_cannot_reach_was_not_sent_to() {
    let unused = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let server = over_tls(Script::new()).await;
    for kind in TUNNELS {
        let (_scripted, client) = through(kind, &server, Manner::default()).await;
        let client = client.connection_retries(0).build();
        let request = Request::post(format!("https://{unused}/")).body(Body::from("x")).unwrap();
        let error = client.send(request, CallOptions::new()).await.unwrap_err();
        proxy_failure(&error);
    }
}

#[tokio::test]
async fn a_proxy_that_is_away_is_a_connect_failure_that_names_it() {
    let unused = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let proxy = Proxy::new(&format!("http://{unused}")).unwrap();
    let client = Client::builder().proxy(proxy).connection_retries(0).build();
    let request = Request::get("https://service.test/").body(Body::empty()).unwrap();
    let error = client.send(request, CallOptions::new()).await.unwrap_err();
    assert!(error.to_string().contains(&format!("not sent (connect): {unused}: ")), "{error}");
}

#[tokio::test]
async fn a_proxy_that_says_nothing_ends_by_proxy_timeout() {
    for scheme in ["http", "socks5h"] {
        let scripted = Scripted::start(Manner { is_silent: true, ..Manner::default() }).await;
        let proxy = Proxy::new(&format!("{scheme}://{}", scripted.address)).unwrap();
        let client = Client::builder().proxy(proxy).connection_retries(0).proxy_timeout(Duration::from_millis(50));
        let request = Request::get("https://service.test/").body(Body::empty()).unwrap();
        let error = client.build().send(request, CallOptions::new()).await.unwrap_err();
        let text = proxy_failure(&error);
        assert!(text.contains(&format!("{}: no tunnel in 50ms (proxy_timeout)", scripted.address)), "{text}");
    }
}

/// Connections through one proxy are not used for requests through another, or through none.
#[tokio::test]
async fn each_proxy_has_its_own_connections() {
    let server = Server::builder(Script::new()).start().await.unwrap();
    let (one, through_one) = through(Kind::Connect, &server, Manner::default()).await;
    let (other, through_other) = through(Kind::Connect, &server, Manner::default()).await;
    for client in [through_one.build(), through_other.build(), Client::builder().no_proxy().build()] {
        call(&client, post(&server, "a", Payload::None)).await.unwrap();
    }
    assert_eq!((one.asked().len(), other.asked().len(), server.log().totals().connections), (1, 1, 3));
}
