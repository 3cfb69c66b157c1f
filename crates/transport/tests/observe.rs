//! What a client shows of its calls, and what it never shows.

#![allow(clippy::unwrap_used)] // A test panics when it fails.

mod support;

use std::cell::RefCell;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Once};
use std::time::Duration;

use http::{Request, Uri};
use oncebox_faults::{Answer, Fault, Moment, Protocol, Rule, Script, Server};
use oncebox_transport::policy::{Attempt, Outcome, Record};
use oncebox_transport::{
    Body, CallEnd, CallOptions, Client, ClientBuilder, Connections, Count, MetricsRecorder, Observed, Observer,
    OpenTelemetryRecorder, Place, Proxy, Recorder, Recording,
};
use opentelemetry_sdk::metrics::data::{AggregatedMetrics, MetricData};
use opentelemetry_sdk::metrics::{InMemoryMetricExporter, SdkMeterProvider};
use parking_lot::Mutex;
use support::load::{LONG, Payload, http2, post, posts, serve};
use support::{OK, Peer, answer, proxies, read_request};
use tracing::level_filters::LevelFilter;
use tracing_subscriber::fmt::format::FmtSpan;

thread_local! {
    /// What this thread logged. Each test runs on one of its own.
    static LOGGED: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

struct ToThread;

impl io::Write for ToThread {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        LOGGED.with_borrow_mut(|logged| logged.extend_from_slice(bytes));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Keeps what is logged from now on, at every level and by every crate.
fn log() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        tracing_subscriber::fmt()
            .with_max_level(LevelFilter::TRACE)
            .with_span_events(FmtSpan::FULL)
            .with_ansi(false)
            .with_writer(|| ToThread)
            .init();
    });
}

fn logged() -> String {
    LOGGED.with_borrow(|logged| String::from_utf8_lossy(logged).into_owned())
}

/// Refuses the first try of a request, has no time for the second, and answers the third.
fn third_time_lucky() -> Script {
    Script::new()
        .rule(Rule::at(Moment::Request).attempt(1).does(Fault::Refuse))
        .rule(Rule::at(Moment::Request).attempt(2).does(Fault::answer(Answer::status(503))))
}

async fn send(client: &Client, server: &Server) -> u16 {
    let sent = client.send_collected(post(server, "a", Payload::Bytes(3)), CallOptions::new()).await;
    sent.unwrap().status().as_u16()
}

#[tokio::test]
async fn a_call_and_its_attempts_are_spans_and_one_readable_block() {
    let server = serve(third_time_lucky()).await;
    log();
    assert_eq!(send(&http2().build(), &server).await, 200);
    let text = logged();
    let closed = |number: usize| {
        let span = format!("attempt{{number={number} ");
        let mut of_it = text.lines().filter(|line| line.contains(&span) && line.contains("close"));
        of_it.next_back().unwrap_or_else(|| panic!("no {span}:\n{text}")).to_owned()
    };
    for (number, parts) in [
        (1, &["connection=", "stream=1", "outcome=stream refused: REFUSED_STREAM on stream 1", "wait=", "reason="][..]),
        (2, &["connection=", "stream=", "outcome=", "503", "wait=", "reason="]),
        (3, &["connection=", "stream=", "outcome=", "200", "reason="]),
    ] {
        let line = closed(number);
        assert!(line.contains("call{target=POST http://127.0.0.1"), "{line}");
        assert!(parts.iter().all(|part| line.contains(part)), "{parts:?}: {line}");
    }
    let block = text.split_once("/, 3 attempts\n").unwrap_or_else(|| panic!("no block:\n{text}")).1;
    let lines: Vec<_> = block.lines().take(3).collect();
    assert!(lines[0].starts_with("  1. at ") && lines[0].contains("REFUSED_STREAM"), "{lines:#?}");
    assert!(lines[1].starts_with("  2. at ") && lines[1].contains("503"), "{lines:#?}");
    assert!(lines[2].starts_with("  3. at ") && lines[2].contains("200"), "{lines:#?}");
}

#[tokio::test]
async fn an_attempt_that_ran_out_of_time_says_where_it_was_sent() {
    let server = serve(Script::new().rule(Rule::at(Moment::Request).does(Fault::Hold))).await;
    log();
    let client = http2().attempt_timeout(Duration::from_millis(20)).retries(0).build();
    let error = client.send(post(&server, "a", Payload::None), CallOptions::new()).await.unwrap_err();
    let Some(Outcome::SentUnknown(unknown)) = error.outcome() else { panic!("{error}") };
    assert_eq!((unknown.stream_id, error.attempts()[0].connection.is_some()), (Some(1), true), "{error}");
    let text = logged();
    let closed = text.lines().find(|line| line.contains("attempt{number=1 ") && line.contains("close")).unwrap();
    assert!(closed.contains("connection=") && closed.contains("stream=1 "), "{closed}");
}

/// None of what is secret may be found in what is logged: each has this in it.
const SECRET: &str = "s3cr3t";

fn with_secrets(uri: Uri, id: &str) -> Request<Body> {
    let mut request = Request::post(uri).header("x-request-id", id).body(Body::from(format!("{SECRET} body"))).unwrap();
    for name in ["authorization", "x-api-key", "x-access-token", "cookie", "proxy-authorization"] {
        request.headers_mut().insert(name, format!("Bearer {SECRET}-{name}").parse().unwrap());
    }
    request
}

#[tokio::test]
async fn nothing_secret_is_logged_at_any_level() {
    log();
    let cookie = Answer { headers: [("set-cookie".into(), format!("id={SECRET}"))].into(), ..Answer::default() };
    let script = third_time_lucky().rule(Rule::at(Moment::Request).does(Fault::answer(cookie)));
    let plain = serve(script.clone()).await;
    let secured = Server::builder(script).tls().start().await.unwrap();
    let proxy = proxies::Proxy::start(proxies::Manner { login: Some(("me", SECRET)), ..Default::default() }).await;
    let over_tls = || Client::builder().add_root_certificates(secured.ca_pem().unwrap().as_bytes()).unwrap();
    let through = |scheme: &str| Proxy::new(&format!("{scheme}://me:{SECRET}@{}", proxy.address)).unwrap();
    let clients: [(ClientBuilder, &Server); 7] = [
        (Client::builder(), &plain),
        (http2(), &plain),
        (over_tls(), &secured),
        (over_tls().proxy(through("http")), &secured),
        (Client::builder().proxy(through("http")), &plain),
        (Client::builder().proxy(through("socks5h")), &plain),
        (http2().connect_timeout(Duration::from_millis(1)), &secured),
    ];
    let options = || CallOptions::new().retries(1).connection_retries(1);
    let (mut answered, mut failed) = (0, 0);
    for (n, (builder, server)) in clients.into_iter().enumerate() {
        tracing::trace!(?builder, "options");
        let client = builder.trace_context(true).build();
        tracing::trace!(?client, "client");
        for path in ["/", &format!("/?token={SECRET}")] {
            let uri: Uri = server.url(path).parse().unwrap();
            match client.send_collected(with_secrets(uri, &format!("{n} {}", path.len())), options()).await {
                Ok(response) => {
                    tracing::trace!(history = ?response.history());
                    answered += 1;
                }
                Err(error) => {
                    tracing::trace!(%error, ?error);
                    failed += 1;
                }
            }
        }
        let wrong: Uri = format!("http://user:{SECRET}@127.0.0.1/").parse().unwrap();
        let error = client.send(with_secrets(wrong, "wrong"), options()).await.unwrap_err();
        tracing::trace!(%error, ?error);
    }
    let text = logged();
    // The test can see what it looks for: other crates' words are there too.
    assert!(text.contains("TRACE") && text.contains("h2::") && text.contains("attempt{number=1"), "{text}");
    // HTTP/1.1 cannot refuse, and nobody vouches for the last server.
    assert!(answered >= 8 && answered + failed == 14, "{answered} answered, {failed} failed");
    let leaks: Vec<_> = text.lines().filter(|line| line.contains(SECRET)).collect();
    assert!(leaks.is_empty(), "{leaks:#?}");
    // Nor as it is sent to a proxy, in base64.
    let encoded = "bWU6czNjcjN0";
    assert!(!text.contains(encoded));
}

/// What an observer was told, in words.
#[derive(Clone, Default)]
struct Told(Arc<Mutex<Vec<String>>>);

impl Observer for Told {
    fn call_started(&self, call: &Observed<'_>) {
        self.0.lock().push(format!("{} {} begins", call.method(), call.path()));
    }

    fn attempt_ended(&self, _: &Observed<'_>, number: usize, record: &Record) {
        let sent_again = matches!(record.verdict, oncebox_transport::policy::Verdict::Retry(_));
        self.0.lock().push(format!("attempt {number}, again: {sent_again}"));
    }

    fn single_attempt_ended(&self, call: &Observed<'_>, number: usize, attempt: &Attempt) {
        self.0.lock().push(format!("{} single attempt {number}: {}", call.method(), attempt.outcome));
    }

    fn call_ended(&self, _: &Observed<'_>, end: CallEnd<'_>, _: Duration) {
        self.0.lock().push(match end {
            CallEnd::Failed(error) => format!("failed after {} attempts", error.attempts().len()),
            end => format!("{end:?}"),
        });
    }
}

#[tokio::test]
async fn an_observer_is_told_of_every_attempt_and_of_every_end() {
    let told = Told::default();
    let server = serve(third_time_lucky()).await;
    let client = http2().observer(told.clone()).build();
    send(&client, &server).await;
    let again = ["attempt 1, again: true", "attempt 2, again: true", "attempt 3, again: false", "Responded(200)"];
    assert_eq!(told.0.lock()[..], [&["POST / begins"], &again[..]].concat());

    told.0.lock().clear();
    drop(server);
    let unreachable = Request::get("http://127.0.0.1:1/").body(Body::empty()).unwrap();
    let options = CallOptions::new().connection_retries(0);
    client.send(unreachable, options).await.unwrap_err();
    assert_eq!(told.0.lock()[..], ["GET / begins", "attempt 1, again: false", "failed after 1 attempts"]);

    told.0.lock().clear();
    let silent = serve(Script::new().rule(Rule::at(Moment::Request).does(Fault::Hold))).await;
    let call = client.send(post(&silent, "b", Payload::None), CallOptions::new());
    assert!(tokio::time::timeout(Duration::from_millis(20), call).await.is_err());
    assert_eq!(told.0.lock()[..], ["POST / begins", "Dropped"]);
}

#[tokio::test]
async fn a_single_attempt_is_told_of_and_has_a_span() {
    let told = Told::default();
    let server = serve(third_time_lucky()).await;
    log();
    let client = http2().observer(told.clone()).build();
    let place = Place { before: 4, ..Place::default() };
    client.attempt(post(&server, "a", Payload::None), CallOptions::new(), place).await.unwrap();
    let outcome = "stream refused: REFUSED_STREAM on stream 1";
    assert_eq!(told.0.lock()[..], [format!("POST single attempt 5: {outcome}")]);
    let text = logged();
    let closed = text.lines().find(|line| line.contains("number=5 ") && line.contains("close"));
    let closed = closed.unwrap_or_else(|| panic!("no span:\n{text}"));
    assert!(closed.contains("stream=1 ") && closed.contains(outcome), "{closed}");
}

/// An observer's picture of the connections, and the most of each that it ever showed.
#[derive(Clone, Default)]
struct Picture(Arc<Mutex<(Connections, Connections)>>);

impl Observer for Picture {
    fn connections_changed(&self, origin: &str, before: Connections, now: Connections) {
        assert!(origin.starts_with("http://127.0.0.1:"), "{origin}");
        let (known, most) = &mut *self.0.lock();
        assert_eq!(*known, before, "no change was left out");
        *known = now;
        most.open = most.open.max(now.open);
        most.draining = most.draining.max(now.draining);
        most.waiting = most.waiting.max(now.waiting);
    }
}

impl Picture {
    fn now(&self) -> [usize; 3] {
        let now = self.0.lock().0;
        [now.open, now.draining, now.waiting]
    }

    fn most(&self) -> [usize; 3] {
        let most = self.0.lock().1;
        [most.open, most.draining, most.waiting]
    }

    async fn becomes(&self, expected: [usize; 3]) {
        let all = async {
            while self.now() != expected {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        let all = tokio::time::timeout(LONG, all).await;
        assert!(all.is_ok(), "{:?} instead of {expected:?}", self.now());
    }
}

#[tokio::test]
async fn connections_and_those_who_wait_are_shown_by_origin() {
    let held = Rule::at(Moment::Processed).does(Fault::Hold);
    let script = Script::new().max_concurrent_streams(1);
    let server = serve(script.clone()).await;
    let picture = Picture::default();
    let client = http2().max_connections(2).observer(picture.clone()).build();
    // From here on the client knows how many streams there are on a connection.
    send(&client, &server).await;
    server.set_script(script.rule(held)).unwrap();
    let calls: Vec<_> = (0..5)
        .map(|n| {
            let (client, request) = (client.clone(), post(&server, &n.to_string(), Payload::None));
            tokio::spawn(async move { client.send(request, CallOptions::new()).await })
        })
        .collect();
    picture.becomes([2, 0, 3]).await;
    // One that comes later is told what there is, and what becomes of it, until it goes.
    let later = Picture::default();
    let other = http2().max_connections(2).observer(later.clone()).build();
    let waits = tokio::spawn({
        let (other, request) = (other.clone(), post(&server, "later", Payload::None));
        async move { other.send(request, CallOptions::new()).await }
    });
    later.becomes([2, 0, 4]).await;
    waits.abort();
    picture.becomes([2, 0, 3]).await;
    drop(other);
    later.becomes([0, 0, 0]).await;
    server.set_script(Script::new()).unwrap();
    for call in &calls {
        call.abort();
    }
    picture.becomes([2, 0, 0]).await;
    assert_eq!(later.now(), [0, 0, 0]);
    drop(server);
    picture.becomes([0, 0, 0]).await;
}

#[tokio::test]
async fn connections_that_drain_are_shown_until_they_are_gone() {
    let script = Script::new()
        .rule(Rule::at(Moment::Request).request_id("last").does(Fault::goaway()))
        .rule(Rule::at(Moment::Processed).request_id("held").does(Fault::Hold));
    let server = serve(script).await;
    let picture = Picture::default();
    let client = http2().observer(picture.clone()).build();
    let send = |id: &'static str| {
        let (client, request) = (client.clone(), post(&server, id, Payload::None));
        tokio::spawn(async move { client.send(request, CallOptions::new()).await })
    };
    let held = send("held");
    picture.becomes([1, 0, 0]).await;
    while server.log().processed("held") == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    send("last").await.unwrap().unwrap();
    picture.becomes([0, 1, 0]).await;
    held.abort();
    picture.becomes([0, 0, 0]).await;
}

#[tokio::test]
async fn connections_of_http_1_are_shown_too() {
    let server = serve(Script::new().protocol(Protocol::Http1).service_time_ms(5)).await;
    let picture = Picture::default();
    let client = Client::builder().max_connections(2).observer(picture.clone()).build();
    let run = posts(&client, &server, 10, 5, Payload::None).await;
    run.assert_all_done_once(&server, 3);
    // A call that was served counts as waiting until it runs.
    let [open, draining, waiting] = picture.most();
    assert!((open, draining) == (2, 0) && (3..=5).contains(&waiting), "{:?}", picture.most());
    assert_eq!(picture.now(), [2, 0, 0]);
}

/// Whoever ends an idle connection, it is closed then, and not when its origin is called the next time.
#[tokio::test]
async fn idle_connections_of_http_1_are_closed_and_counted_no_more_though_nobody_calls() {
    let (ended, mut ends) = tokio::sync::mpsc::unbounded_channel();
    let peer = Peer::start(move |_, mut socket| {
        let ended = ended.clone();
        async move {
            while read_request(&mut socket).await.is_some() {
                answer(&mut socket, OK).await;
            }
            ended.send(()).unwrap();
        }
    })
    .await;
    let picture = Picture::default();
    let builder = Client::builder().observer(picture.clone());
    let client = builder.keepalive_expiry(Duration::from_millis(50)).build();
    // The second time another task watches.
    for _ in 0..2 {
        let calls = (0..3).map(|_| client.send_collected(get(&peer), CallOptions::new()));
        futures_util::future::try_join_all(calls).await.unwrap();
        for _ in 0..3 {
            assert!(tokio::time::timeout(LONG, ends.recv()).await.is_ok(), "a connection stays open");
        }
        picture.becomes([0, 0, 0]).await;
    }
    assert_eq!(picture.most()[0], 3);
    // The server does, long before the client would.
    let peer = Peer::start(|_, mut socket| async move {
        read_request(&mut socket).await.unwrap();
        answer(&mut socket, OK).await;
    })
    .await;
    let picture = Picture::default();
    let client = Client::builder().observer(picture.clone()).keepalive_expiry(Duration::from_secs(600)).build();
    client.send_collected(get(&peer), CallOptions::new()).await.unwrap();
    picture.becomes([0, 0, 0]).await;
    assert_eq!(picture.most()[0], 1);
}

fn get(peer: &Peer) -> Request<Body> {
    Request::get(peer.url("/")).body(Body::empty()).unwrap()
}

/// Adds up whatever is counted.
#[derive(Clone, Default)]
struct Sums(Arc<Mutex<Vec<(Count, &'static str)>>>, Arc<Mutex<(i64, i64)>>);

impl Recorder for Sums {
    fn count(&self, what: Count, label: &'static str) {
        self.0.lock().push((what, label));
    }

    fn in_flight(&self, change: i64) {
        let mut sums = self.1.lock();
        sums.0 += change;
        sums.1 = sums.1.max(sums.0);
    }

    fn took(&self, _: Duration) {}
}

#[tokio::test]
async fn numbers_are_what_happened() {
    let sums = Sums::default();
    let server = serve(third_time_lucky()).await;
    send(&http2().observer(Recording(sums.clone())).build(), &server).await;
    let counted = [
        (Count::Attempts, "refused"),
        (Count::Repeats, "replay"),
        (Count::Attempts, "responded"),
        (Count::Repeats, "retry"),
        (Count::Attempts, "responded"),
        (Count::Calls, "2xx"),
    ];
    assert_eq!(sums.0.lock()[..], counted);
    assert_eq!(*sums.1.lock(), (0, 1), "one was in flight, and none is");
}

/// A recorder of the `metrics` crate that adds up the attempts, and the connections that are open.
#[derive(Default)]
struct Attempts(Arc<AtomicU64>, Arc<AtomicU64>);

impl metrics::Recorder for Attempts {
    fn describe_counter(&self, _: metrics::KeyName, _: Option<metrics::Unit>, _: metrics::SharedString) {}
    fn describe_gauge(&self, _: metrics::KeyName, _: Option<metrics::Unit>, _: metrics::SharedString) {}
    fn describe_histogram(&self, _: metrics::KeyName, _: Option<metrics::Unit>, _: metrics::SharedString) {}

    fn register_counter(&self, key: &metrics::Key, _: &metrics::Metadata<'_>) -> metrics::Counter {
        if key.name() == "oncebox_attempts" {
            metrics::Counter::from_arc(self.0.clone())
        } else {
            metrics::Counter::noop()
        }
    }

    fn register_gauge(&self, key: &metrics::Key, _: &metrics::Metadata<'_>) -> metrics::Gauge {
        if key.name() == "oncebox_connections" && key.labels().any(|label| label.value() == "open") {
            metrics::Gauge::from_arc(self.1.clone())
        } else {
            metrics::Gauge::noop()
        }
    }

    fn register_histogram(&self, _: &metrics::Key, _: &metrics::Metadata<'_>) -> metrics::Histogram {
        metrics::Histogram::noop()
    }
}

#[tokio::test]
async fn the_metrics_crate_is_given_the_numbers() {
    let attempts = Attempts::default();
    let server = serve(third_time_lucky()).await;
    let _guard = metrics::set_default_local_recorder(&attempts);
    let client = http2().observer(Recording(MetricsRecorder)).build();
    send(&client, &server).await;
    assert_eq!(attempts.0.load(Ordering::Relaxed), 3);
    assert_eq!(f64::from_bits(attempts.1.load(Ordering::Relaxed)), 1.0);
    drop(client);
    assert_eq!(f64::from_bits(attempts.1.load(Ordering::Relaxed)), 0.0);
}

#[tokio::test]
async fn opentelemetry_is_given_the_numbers() {
    use opentelemetry::metrics::MeterProvider;

    let exporter = InMemoryMetricExporter::default();
    let provider = SdkMeterProvider::builder().with_periodic_exporter(exporter.clone()).build();
    let recorder = OpenTelemetryRecorder::new(&provider.meter("oncebox"));
    let server = serve(third_time_lucky()).await;
    send(&http2().observer(Recording(recorder)).build(), &server).await;
    provider.force_flush().unwrap();
    let mut attempts = 0;
    for resource in exporter.get_finished_metrics().unwrap() {
        let metrics = resource.scope_metrics().flat_map(|scope| scope.metrics());
        for metric in metrics.filter(|metric| metric.name() == "oncebox_attempts") {
            if let AggregatedMetrics::U64(MetricData::Sum(sum)) = metric.data() {
                attempts += sum.data_points().map(|point| point.value()).sum::<u64>();
            }
        }
    }
    assert_eq!(attempts, 3);
}

#[tokio::test]
async fn each_attempt_names_itself_in_the_callers_trace() {
    let parents = Arc::new(Mutex::new(Vec::new()));
    let kept = parents.clone();
    let peer = Peer::start(move |_, mut socket| {
        let kept = kept.clone();
        async move {
            while let Some(text) = read_request(&mut socket).await {
                let parent = text.lines().find_map(|line| line.strip_prefix("traceparent: "));
                let nth = {
                    let mut kept = kept.lock();
                    kept.push(parent.map(str::to_owned));
                    kept.len()
                };
                let status = if nth == 1 { "503 Busy" } else { "200 OK" };
                answer(&mut socket, &format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n")).await;
            }
        }
    })
    .await;
    let request = || {
        let given = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        Request::get(peer.url("/")).header("traceparent", given).body(Body::empty()).unwrap()
    };
    let client = Client::builder().trace_context(true).build();
    client.send_collected(request(), CallOptions::new()).await.unwrap();
    let seen = std::mem::take(&mut *parents.lock());
    let ids: Vec<_> = seen.iter().map(|parent| parent.as_deref().unwrap().split('-').collect::<Vec<_>>()).collect();
    assert_eq!(ids.len(), 2);
    assert!(ids.iter().all(|id| id[1] == "4bf92f3577b34da6a3ce929d0e0e4736" && id[3] == "01"), "{seen:?}");
    assert!(ids[0][2] != ids[1][2] && ids.iter().all(|id| id[2] != "00f067aa0ba902b7"), "{seen:?}");

    // Unless it is asked for, the caller's own header is left as it is, and none is added.
    Client::new()
        .send_collected(Request::get(peer.url("/")).body(Body::empty()).unwrap(), CallOptions::new())
        .await
        .unwrap();
    assert_eq!(parents.lock().pop(), Some(None));
}
