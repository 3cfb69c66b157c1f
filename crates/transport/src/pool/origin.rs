//! One server, and the connections to it.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use http::Uri;
use http::uri::Scheme;
use oncebox_policy::{Budget, Connection, Phase};
use tokio::time::Instant;

use super::bound::Bound;
use super::http1::{HeldHttp1, Http1Pool};
use super::http2::{Http2Pool, Unserved, Want};
use super::permit::Permit;
use super::progress::Progress;
use crate::body::{AttemptBody, ResponseBody};
use crate::conn::{Exchange, Failure};
use crate::dial::{Dialer, Route};
use crate::error::Error;
use crate::observe::{Hook, Shown};
use crate::options::{HttpVersion, Limits, TrafficClass};
use crate::proxy::{host_and_port, host_of, port_of};

/// Scheme, host and port.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Authority {
    https: bool,
    host: String,
    port: u16,
}

impl Authority {
    /// Parses what a request's URI names. Everything is refused here that could not be dialled.
    pub(crate) fn of(uri: &Uri) -> Result<Self, Error> {
        let https = match uri.scheme() {
            Some(scheme) if *scheme == Scheme::HTTP => false,
            Some(scheme) if *scheme == Scheme::HTTPS => true,
            _ => return Err(Error::invalid(format!("{}: a URL must begin with http:// or https://", Redacted(uri)))),
        };
        let host = host_of(uri).map_err(|why| Error::invalid(format!("{}: the URL {why}", Redacted(uri))))?.to_owned();
        if uri.authority().is_some_and(|authority| authority.as_str().contains('@')) {
            return Err(Error::invalid(format!(
                "{}: a URL must not hold credentials; set a header instead",
                Redacted(uri)
            )));
        }
        let port = port_of(uri)
            .map_err(|()| Error::invalid(format!("{}: the URL's port is no number from 1 to 65535", Redacted(uri))))?;
        let port = port.unwrap_or(if https { 443 } else { 80 });
        Ok(Self { https, host, port })
    }

    pub(crate) fn is_https(&self) -> bool {
        self.https
    }

    /// A target in origin form, with scheme and authority before it.
    fn absolute(&self, target: &Uri) -> Option<Uri> {
        let scheme = if self.https { Scheme::HTTPS } else { Scheme::HTTP };
        let default = if self.https { 443 } else { 80 };
        let mut authority = host_and_port(&self.host, self.port);
        if self.port == default {
            authority.truncate(authority.len() - default.to_string().len() - 1);
        }
        let path = target.path_and_query().map_or("/", |path| path.as_str());
        Uri::builder().scheme(scheme).authority(authority).path_and_query(path).build().ok()
    }

    pub(crate) fn host(&self) -> &str {
        &self.host
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }
}

/// A URI without query and credentials, which may be secret.
pub(crate) struct Redacted<'a>(pub(crate) &'a Uri);

impl fmt::Display for Redacted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(scheme) = self.0.scheme_str() {
            write!(f, "{scheme}://")?;
        }
        let authority = self.0.authority().map_or("", |a| a.as_str());
        f.write_str(authority.rsplit('@').next().unwrap_or_default())?;
        f.write_str(self.0.path())
    }
}

/// One server, and the connections to it.
pub(crate) struct Origin {
    authority: Authority,
    dialer: Arc<Dialer>,
    pub(crate) budget: Budget,
    pub(crate) created: Instant,
    http1: Arc<Http1Pool>,
    /// One for each class, or one for all.
    http2: Vec<(TrafficClass, Arc<Http2Pool>)>,
    /// Whether the server chose HTTP/1.1 when it had the choice.
    chose_http1: AtomicBool,
    shown: Arc<Shown>,
}

/// A response that has begun, and the connection that it comes on.
pub(crate) struct Answer {
    pub(crate) connection: u64,
    pub(crate) response: http::Response<ResponseBody>,
}

/// An attempt without an answer.
pub(crate) struct Failed {
    pub(crate) connection: Option<u64>,
    pub(crate) failure: Failure,
    /// How many dials have failed in a row, where it was a dial that failed: for the wait nothing else counts.
    pub(crate) failed_dials: u32,
    /// Whether another connection is open or being dialled.
    pub(crate) other_connection: bool,
}

impl Failed {
    fn new(pool: &Http2Pool, connection: Option<u64>, failure: Failure, failed_dials: u32) -> Self {
        // Another connection may have been answered in the meantime.
        let failed_dials = if failure.is_failed_dial() { failed_dials.max(1) } else { 0 };
        Self { connection, failure, failed_dials, other_connection: pool.has_other(connection) }
    }
}

/// A request that was sent on an HTTP/2 connection.
pub(crate) struct Began {
    pub(crate) id: u64,
    pub(crate) exchange: Result<Exchange, Failure>,
}

impl Origin {
    pub(super) fn new(authority: Authority, limits: Limits, route: Route) -> Arc<Self> {
        let dialer = Arc::new(Dialer::new(authority.clone(), route));
        let scheme = if authority.is_https() { Scheme::HTTPS } else { Scheme::HTTP };
        let shown = Shown::new(format!("{scheme}://{}", host_and_port(&authority.host, authority.port)));
        let http1 = Http1Pool::new(dialer.clone(), limits, shown.clone());
        let bound = Bound::new(limits.max_connections);
        // One connection cannot be kept apart from itself.
        let classes = if limits.max_connections > 1 { &TrafficClass::ALL[..] } else { &TrafficClass::ALL[..1] };
        let pool = |class| Http2Pool::new(class, bound.clone(), dialer.clone(), limits, http1.clone(), shown.clone());
        let http2: Vec<_> = classes.iter().map(|class| (*class, pool(*class))).collect();
        bound.is_of(&http2);
        Arc::new(Self {
            http2,
            dialer,
            http1,
            chose_http1: AtomicBool::new(false),
            shown,
            authority,
            budget: Budget::new(),
            created: Instant::now(),
        })
    }

    /// Tells this observer of the connections from now on, and of those that there are.
    pub(crate) fn watched_by(&self, hook: &Hook) {
        if self.shown.watched_by(hook) {
            self.http1.show();
            for (_, pool) in &self.http2 {
                pool.show_now();
            }
        }
    }

    fn http2(&self, class: TrafficClass) -> &Arc<Http2Pool> {
        let own = self.http2.iter().find(|(of, _)| *of == class);
        &own.unwrap_or(&self.http2[0]).1
    }

    /// Begins an attempt, where a stream is free at once: what waits then is small. `None`: it has to be
    /// [waited](Self::attempt) for. `request` is called at most once.
    pub(crate) fn begin(
        &self,
        version: HttpVersion,
        request: &mut impl FnMut(HttpVersion, &mut http::Request<()>) -> AttemptBody,
        wanted: Wanted,
        progress: &Progress,
    ) -> Option<Began> {
        let may_choose = self.http2_first(version)?;
        let permit = self.http2(wanted.class).try_acquire(wanted.want(may_choose))?;
        Some(Self::sent(permit, request, progress))
    }

    /// Makes one attempt: at most one request head on the wire.
    pub(crate) async fn attempt(
        &self,
        version: HttpVersion,
        mut request: impl FnMut(HttpVersion, &mut http::Request<()>) -> AttemptBody,
        wanted: Wanted,
        progress: &Progress,
    ) -> Result<Answer, Failed> {
        if let Some(may_choose) = self.http2_first(version) {
            progress.joins_line();
            let http2 = self.http2(wanted.class);
            match http2.acquire(wanted.want(may_choose)).await {
                Ok(permit) => {
                    let Began { id, exchange } = Self::sent(permit, &mut request, progress);
                    let result = match exchange {
                        Ok(exchange) => exchange.await,
                        Err(failure) => Err(failure),
                    };
                    return match result {
                        Ok(response) => Ok(Answer { connection: id, response: response.into_response() }),
                        Err(failure) => Err(Failed::new(http2, Some(id), failure, http2.failed_dials())),
                    };
                }
                Err(Unserved::Failed(failure)) => {
                    return Err(Failed::new(http2, None, failure, http2.failed_dials()));
                }
                // The connection is at hand, and waits among those of HTTP/1.1.
                Err(Unserved::ChoseHttp1) => self.chose_http1.store(true, Ordering::Release),
            }
        }
        let mut head = http::Request::new(());
        let body = request(HttpVersion::Http1, &mut head);
        self.attempt_http1(head.map(|()| body), wanted, progress).await
    }

    /// Whether HTTP/2 is tried, and then whether the server may still choose.
    fn http2_first(&self, version: HttpVersion) -> Option<bool> {
        let may_choose = version == HttpVersion::Auto && self.authority.is_https();
        let http2 = match version {
            HttpVersion::Http1 => false,
            HttpVersion::Http2 => true,
            HttpVersion::Auto => may_choose && !self.chose_http1.load(Ordering::Acquire),
        };
        http2.then_some(may_choose)
    }

    fn sent(
        permit: Permit,
        request: &mut impl FnMut(HttpVersion, &mut http::Request<()>) -> AttemptBody,
        progress: &Progress,
    ) -> Began {
        let id = permit.connection().id();
        progress.sends_on(id);
        // Filled where it is: what is handed on by value is copied.
        let mut head = http::Request::new(());
        let body = request(HttpVersion::Http2, &mut head);
        let exchange = Exchange::start(permit, head, body);
        if let Ok(exchange) = &exchange {
            progress.has_stream(exchange.stream_id());
        }
        Began { id, exchange }
    }

    /// What came of a request that was sent in vain.
    #[cold]
    pub(crate) fn failed(&self, class: TrafficClass, id: u64, failure: Failure) -> Failed {
        let pool = self.http2(class);
        Failed::new(pool, Some(id), failure, pool.failed_dials())
    }

    /// What an attempt that has sent nothing waits for: room on the connections that there are, or one to be made.
    pub(crate) fn waits_for(&self, progress: &Progress, class: TrafficClass) -> Phase {
        let waits_for_dial = progress.is_dialling() || (progress.is_in_line() && self.http2(class).waits_for_dial());
        if waits_for_dial { self.dialer.phase() } else { Phase::Slot }
    }

    async fn attempt_http1(
        &self,
        mut request: http::Request<AttemptBody>,
        wanted: Wanted,
        progress: &Progress,
    ) -> Result<Answer, Failed> {
        if let Some(proxy) = self.dialer.forwards() {
            // Absolute form (RFC 9112 §3.2.2).
            if let Some(target) = self.authority.absolute(request.uri()) {
                *request.uri_mut() = target;
            }
            proxy.tell(request.headers_mut());
        }
        let round = self.http1.failed_dials();
        let failed =
            |connection, failure| Failed::new(self.http2(wanted.class), connection, failure, self.http1.failed_dials());
        let leased = self.http1.acquire(wanted.connection, wanted.class, progress).await;
        let (connection, room) = leased.map_err(|failure| failed(None, failure))?.into_parts();
        let id = connection.id();
        progress.sends_on(id);
        match connection.send(request).await {
            Ok((response, connection)) => {
                self.http1.served();
                let held = Box::new(HeldHttp1 { pool: self.http1.clone(), connection, room });
                Ok(Answer { connection: id, response: response.map(|body| ResponseBody::http1(body, held)) })
            }
            Err(failure) => {
                if failure.is_failed_dial() {
                    self.http1.dial_failed(round);
                }
                Err(failed(Some(id), failure))
            }
        }
    }
}

/// How the loop wants its next attempt made.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Wanted {
    pub(crate) connection: Connection,
    /// The connection of the last attempt.
    pub(crate) last_connection: Option<u64>,
    /// The request is sent again because it was provably not processed.
    pub(crate) is_replay: bool,
    /// `connection_retries` is 0.
    pub(crate) cautious: bool,
    pub(crate) class: TrafficClass,
}

impl Wanted {
    fn want(self, may_choose: bool) -> Want {
        Want {
            is_replay: self.is_replay,
            avoid: self.last_connection.filter(|_| self.connection != Connection::Any),
            fresh: self.connection == Connection::Fresh,
            cautious: self.cautious,
            may_choose,
        }
    }
}

impl fmt::Debug for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Origin").field("authority", &self.authority).finish_non_exhaustive()
    }
}
