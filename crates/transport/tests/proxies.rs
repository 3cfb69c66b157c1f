//! Through proxies of every kind: what holds without one holds through them.

#![allow(clippy::unwrap_used)] // A test panics when it fails.

mod support;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use http::{HeaderName, HeaderValue, Method, Request};
use oncebox_faults::{Answer, ErrorCode, Fault, Goaway, LastId, Moment, Number, Rule, Script, Server, Settings, Then};
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
    row_with(|client| client, script, holds).await;
}

async fn row_with(
    options: impl Fn(ClientBuilder) -> ClientBuilder,
    script: Script,
    holds: impl AsyncFn(Kind, Server, Client),
) {
    let through_kind = async |kind| {
        let server = over_tls(script.clone()).await;
        let (scripted, client) = through(kind, &server, Manner::default()).await;
        holds(kind, server, options(client).build()).await;
        assert!(!scripted.asked().is_empty(), "{kind:?}: nothing went through the proxy");
    };
    join_all(TUNNELS.map(through_kind)).await;
}

#[tokio::test]
async fn connections_that_retire_lose_nothing() {
    for payload in BODIES {
        for streams in [20, 5] {
            row(Script::retiring(streams), async |kind, server, client| {
                posts(&client, &server, 200, 32, payload).await.assert_done_once(&server, 2);
                let connections = server.log().totals().connections;
                assert!(connections <= 300 / streams, "{kind:?}, {streams}: {connections} connections");
            })
            .await;
        }
        let random = Script::retiring(Number::Random { from: 1, to: 40 }).seed(2);
        row_with(eight_retries, random, async |_, server, client| {
            posts(&client, &server, 200, 32, payload).await.assert_done_once(&server, 8);
        })
        .await;
    }
}

fn eight_retries(client: ClientBuilder) -> ClientBuilder {
    client.connection_retries(8)
}

#[tokio::test]
async fn goaways_in_two_phases_and_lowered_caps_lose_nothing() {
    let at = |n| Rule::at(Moment::Request).nth(n);
    let two_phases = at(20)
        .does(Fault::goaway().last(LastId::Max).debug("shutdown"))
        .does(Fault::Wait(10))
        .does(Fault::goaway().debug("shutdown"));
    let caps =
        [at(30).does(Settings::streams(3)), at(60).does(Settings::streams(1)), at(70).does(Settings::streams(10))];
    for rules in [vec![two_phases], caps.to_vec()] {
        let script = rules.into_iter().fold(Script::new().service_time_ms(2), Script::rule);
        for payload in BODIES {
            row(script.clone(), async |_, server, client| {
                posts(&client, &server, 200, 32, payload).await.assert_done_once(&server, 2);
            })
            .await;
        }
    }
}

/// A reset at the proxy's other end may take answers with it that the proxy had not read. Nothing else is unknown then,
/// and nothing is done twice.
#[tokio::test]
async fn a_reset_after_the_answers_doubles_nothing() {
    let goaway = Fault::goaway().debug("max_age").then(Then::ResetWhenDone);
    let script = Script::new().service_time_ms(2).rule(Rule::at(Moment::Request).nth(20).does(goaway));
    for payload in BODIES {
        row(script.clone(), async |kind, server, client| {
            let run = posts(&client, &server, 200, 32, payload).await;
            assert_eq!(server.log().doubled(), []);
            for done in run.done.iter().filter(|done| done.result.is_err()) {
                let outcome = done.outcomes().pop();
                assert!(matches!(outcome, Some(Outcome::SentUnknown(_))), "{kind:?}: {outcome:?}");
                assert_eq!(server.log().processed(&done.id), 1, "{kind:?}: {}", done.id);
            }
        })
        .await;
    }
}

/// Of what was accepted and not answered when the connection was reset nobody knows whether it was processed. The reset may
/// overtake the GOAWAY at the proxy, and then that holds of all that was sent on the connection; and of nothing else.
#[tokio::test]
async fn a_reset_before_the_answers_leaves_those_unknown_and_is_no_reason_to_repeat_them() {
    let goaway = Fault::goaway().debug("max_age").then(Then::Reset);
    let script = Script::new().service_time_ms(300).rule(Rule::at(Moment::Request).connection(1).nth(20).does(goaway));
    for payload in BODIES {
        row(script.clone(), async |kind, server, client| {
            let run = posts(&client, &server, 100, 32, payload).await;
            assert_eq!(server.log().doubled(), []);
            let mut accepted = server.log().all_tries();
            accepted.retain(|a_try| a_try.connection == 1 && !a_try.after_goaway && !a_try.disowned);
            let mut ids: Vec<_> = accepted.into_iter().map(|a_try| a_try.request_id.unwrap()).collect();
            ids.sort_unstable();
            let failed = run.failed();
            assert_eq!(ids.len(), 20, "{kind:?}");
            assert!(ids.iter().all(|id| failed.contains(&id.as_str())), "{kind:?}: {failed:?}, {ids:?}");
            for done in run.done.iter().filter(|done| done.result.is_err()) {
                assert!(matches!(done.outcomes()[..], [Outcome::SentUnknown(_)]), "{kind:?}: {:#?}", done.outcomes());
                let tries = server.log().tries(&done.id);
                assert!(tries.iter().all(|a_try| a_try.connection == 1), "{kind:?}: {tries:#?}");
            }
        })
        .await;
    }
}

#[tokio::test]
async fn streams_that_are_refused_are_sent_again() {
    let refuses = |rule: Rule| rule.does(Fault::Refuse);
    let script = Script::new()
        .seed(7)
        .rule(refuses(Rule::at(Moment::Request).attempt(1).share(0.5)))
        .rule(refuses(Rule::at(Moment::Request).attempt(1..=2).share(0.1)))
        .rule(refuses(Rule::at(Moment::Request).attempt(1..=3).share(0.02)));
    let one_in_ten = Script::new().seed(7).rule(refuses(Rule::at(Moment::Request).probability(0.1)));
    for payload in [Payload::Bytes(100), Payload::Stream(10_000), Payload::Stream(65_536)] {
        row(script.clone(), async |_, server, client| {
            posts(&client, &server, 100, 32, payload).await.assert_done_once(&server, 3);
            assert!(server.log().totals().refused > 25);
        })
        .await;
        row_with(eight_retries, one_in_ten.clone(), async |_, server, client| {
            posts(&client, &server, 100, 32, payload).await.assert_done_once(&server, 8);
        })
        .await;
    }
}

#[tokio::test]
async fn what_is_refused_four_times_fails_and_nothing_else() {
    let script = Script::new().seed(7).rule(Rule::at(Moment::Request).probability(0.5).does(Fault::Refuse));
    for payload in BODIES {
        row(script.clone(), async |kind, server, client| {
            let run = posts(&client, &server, 200, 64, payload).await;
            run.assert_histories_agree(&server);
            let log = server.log();
            assert_eq!(log.doubled(), []);
            let mut refused = log.request_ids();
            refused.retain(|id| log.processed(id) == 0);
            assert!(!refused.is_empty());
            assert_eq!(run.failed(), refused, "{kind:?}");
            for error in run.done.iter().filter_map(|done| done.result.as_ref().err()) {
                assert!(matches!(error.outcome(), Some(Outcome::Refused(_))), "{kind:?}: {error}");
                assert_eq!((error.attempts().len(), error.may_have_been_processed()), (4, false), "{kind:?}: {error}");
            }
        })
        .await;
    }
}

#[tokio::test]
async fn a_stream_is_replayed_up_to_the_mirrors_size_and_not_beyond() {
    for (length, replayed) in [(65_536, true), (65_537, false), (1 << 20, false)] {
        let script = Script::new().rule(Rule::at(Moment::RequestBody(length)).attempt(1).does(Fault::Refuse));
        row(script, async |kind, server, client| {
            match call(&client, post(&server, "a", Payload::Stream(length as usize))).await {
                Ok(_) => assert!(replayed, "{kind:?}"),
                Err(error) => {
                    assert!(!replayed && matches!(error.outcome(), Some(Outcome::Refused(_))), "{kind:?}: {error}");
                    assert!(error.to_string().contains("body not replayable"), "{kind:?}: {error}");
                }
            }
            let expected = if replayed { (2, 1) } else { (1, 0) };
            assert_eq!((server.log().heads("a"), server.log().processed("a")), expected, "{kind:?}");
        })
        .await;
    }
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
            for (id, method) in [("b", Method::GET), ("c", Method::DELETE)] {
                let answer = call(&client, request(&server, method, id, Payload::None)).await.unwrap();
                assert_eq!((answer.status().as_u16(), server.log().heads(id)), (200, 2), "{kind:?}");
            }
            let error = call(&client, post(&server, "d", Payload::Stream(10_000))).await.unwrap_err();
            assert!(error.may_have_been_processed() && server.log().heads("d") == 1, "{kind:?}: {error}");
        })
        .await;
    }
}

#[tokio::test]
async fn a_reset_with_another_code_is_never_a_replay() {
    for code in [ErrorCode::NO_ERROR, ErrorCode::CANCEL, ErrorCode::INTERNAL_ERROR] {
        let reset = Rule::at(Moment::Processed).does(Fault::ResetStream(code));
        row(Script::new().rule(reset), async |kind, server, client| {
            for (id, payload) in [("a", Payload::Bytes(9)), ("b", Payload::Stream(9))] {
                let error = call(&client, post(&server, id, payload)).await.unwrap_err();
                let Some(Outcome::SentUnknown(unknown)) = error.outcome() else { panic!("{kind:?}: {error}") };
                assert_eq!(unknown.cause, Cause::Reset { code: code.0 }, "{kind:?}: {error}");
                assert_eq!((error.attempts().len(), server.log().heads(id)), (1, 1), "{kind:?}");
            }
        })
        .await;
    }
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
        let answer = call(&client, post(&server, "a", Payload::Stream(100_000))).await.unwrap();
        assert_eq!((answer.status().as_u16(), server.log().heads("a")), (200, 1), "{kind:?}");
    })
    .await;
}

#[tokio::test]
async fn goaway_on_accept_for_ever_ends_in_a_typed_error() {
    let goaway = Fault::goaway().last(LastId::Id(0));
    row(Script::new().rule(Rule::at(Moment::Preface).does(goaway)), async |kind, server, client| {
        for (id, payload) in [("a", Payload::Bytes(9)), ("b", Payload::Stream(10_000))] {
            let error = call(&client, post(&server, id, payload)).await.unwrap_err();
            assert!(!error.may_have_been_processed() && error.attempts().len() <= 4, "{kind:?}: {error}");
            assert_eq!(server.log().processed(id), 0);
        }
        let connections = server.log().totals().connections;
        assert!(connections <= 8, "{kind:?}: {connections} connections for 8 attempts");
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
