//! One server, and the connections to it.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use http::Uri;
use http::uri::Scheme;
use oncebox_policy::{Budget, Connection, Outcome};
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::body::AttemptBody;
use crate::body::ResponseBody;

use crate::conn::{Failure, H1Connection, H2Connection, H2Stream};
use crate::dial::dial;
use crate::error::Error;
use crate::options::{HttpVersion, Limits};

/// Numbers connections over the whole process, so that histories of several origins can be read together.
static NEXT_CONNECTION: AtomicU64 = AtomicU64::new(1);

/// Host and port.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Authority {
    host: String,
    port: u16,
}

impl Authority {
    /// Parses what a request's URI names. Everything is refused here that could not be dialled.
    pub(crate) fn of(uri: &Uri) -> Result<Self, Error> {
        match uri.scheme() {
            Some(scheme) if *scheme == Scheme::HTTP => {}
            Some(scheme) if *scheme == Scheme::HTTPS => {
                return Err(Error::invalid(format!(
                    "{}: https is not supported yet by this transport; use an http URL, or a local TLS proxy in front",
                    Redacted(uri)
                )));
            }
            _ => return Err(Error::invalid(format!("{}: a URL must begin with http:// or https://", Redacted(uri)))),
        }
        let host = uri.host().filter(|host| !host.is_empty());
        let host = host.ok_or_else(|| Error::invalid(format!("{}: the URL names no host", Redacted(uri))))?;
        if uri.authority().is_some_and(|authority| authority.as_str().contains('@')) {
            return Err(Error::invalid(format!(
                "{}: a URL must not hold credentials; set a header instead",
                Redacted(uri)
            )));
        }
        // IPv6 literals stand in brackets in a URI, and without them in a socket address.
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        Ok(Self { host, port: uri.port_u16().unwrap_or(80) })
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

/// A server's connections: one HTTP/2 connection, and as many of HTTP/1.1 as are in use.
pub(crate) struct Origin {
    authority: Authority,
    limits: Limits,
    pub(crate) budget: Budget,
    pub(crate) created: Instant,
    idle: Mutex<Vec<(H1Connection, Instant)>>,
    http2: tokio::sync::Mutex<Option<H2Connection>>,
    failed_dials: AtomicU32,
}

/// An attempt that was answered, or was not.
pub(crate) struct Attempted {
    pub(crate) connection: Option<u64>,
    pub(crate) result: Result<http::Response<ResponseBody>, Failure>,
    pub(crate) failed_dials: u32,
    pub(crate) other_connection: bool,
}

impl Origin {
    pub(crate) fn new(authority: Authority, limits: Limits) -> Arc<Self> {
        Arc::new(Self {
            authority,
            limits,
            budget: Budget::new(),
            created: Instant::now(),
            idle: Mutex::default(),
            http2: tokio::sync::Mutex::default(),
            failed_dials: AtomicU32::new(0),
        })
    }

    /// Makes one attempt: at most one request head on the wire. `sent` is set as soon as the head may be.
    pub(crate) async fn attempt(
        self: &Arc<Self>,
        version: HttpVersion,
        request: http::Request<AttemptBody>,
        connection: Connection,
        sent: &SentFlag,
    ) -> Attempted {
        let (connection, result) = match version {
            HttpVersion::Http1 => self.attempt_http1(request, connection, sent).await,
            HttpVersion::Http2 => self.attempt_http2(request, connection, sent).await,
        };
        let failed_dials = match &result {
            Err(Failure { outcome: Outcome::NotSent(not_sent), .. }) if not_sent.phase.is_dial() => {
                self.failed_dials.fetch_add(1, Ordering::AcqRel) + 1
            }
            _ => 0,
        };
        Attempted { connection, result, failed_dials, other_connection: false }
    }

    async fn attempt_http1(
        self: &Arc<Self>,
        request: http::Request<AttemptBody>,
        wanted: Connection,
        sent: &SentFlag,
    ) -> (Option<u64>, Result<http::Response<ResponseBody>, Failure>) {
        let idle = if wanted == Connection::Fresh { None } else { self.take_idle() };
        let connection = match idle {
            Some(connection) => connection,
            None => match self.dial_http1().await {
                Ok(connection) => connection,
                Err(failure) => return (None, Err(failure)),
            },
        };
        let id = connection.id();
        sent.set();
        let result = connection.send(request).await.map(|(response, connection)| {
            let held = Box::new(HeldHttp1 { origin: self.clone(), connection });
            response.map(|body| ResponseBody::http1(body, held))
        });
        (Some(id), result)
    }

    async fn attempt_http2(
        self: &Arc<Self>,
        request: http::Request<AttemptBody>,
        wanted: Connection,
        sent: &SentFlag,
    ) -> (Option<u64>, Result<http::Response<ResponseBody>, Failure>) {
        let connection = match self.http2_connection(wanted == Connection::Fresh).await {
            Ok(connection) => connection,
            Err(failure) => return (None, Err(failure)),
        };
        let id = Some(connection.id());
        let slot = match connection.acquire().await {
            Ok(slot) => slot,
            Err(failure) => return (id, Err(failure)),
        };
        sent.set();
        let result = connection.send(slot, request).await.map(|sent| {
            let held = Box::new(HeldHttp2(sent.guard));
            sent.response.map(|body| ResponseBody::http2(body, held))
        });
        (id, result)
    }

    async fn dial_http1(&self) -> Result<H1Connection, Failure> {
        let socket = dial(&self.authority).await?;
        let connection = H1Connection::open(socket, NEXT_CONNECTION.fetch_add(1, Ordering::Relaxed))
            .await
            .map_err(|error| Failure::dial(oncebox_policy::Phase::Connect, error))?;
        self.failed_dials.store(0, Ordering::Release);
        Ok(connection)
    }

    /// The one HTTP/2 connection, dialled when there is none that takes streams. Those who come meanwhile wait.
    async fn http2_connection(&self, fresh: bool) -> Result<H2Connection, Failure> {
        let mut current = self.http2.lock().await;
        if let Some(connection) = current.as_ref().filter(|c| !fresh && !c.is_draining()) {
            return Ok(connection.clone());
        }
        let socket = dial(&self.authority).await?;
        let id = NEXT_CONNECTION.fetch_add(1, Ordering::Relaxed);
        let connection = H2Connection::open(socket, id, self.limits.initial_streams)
            .await
            .map_err(|error| Failure::dial(oncebox_policy::Phase::Connect, error))?;
        self.failed_dials.store(0, Ordering::Release);
        *current = Some(connection.clone());
        Ok(connection)
    }

    /// The most recently used connection that is still good; the others are dropped as they are found to be over.
    fn take_idle(&self) -> Option<H1Connection> {
        let mut idle = self.idle.lock();
        while let Some((connection, since)) = idle.pop() {
            if !connection.is_closed() && since.elapsed() < self.limits.keepalive_expiry {
                return Some(connection);
            }
        }
        None
    }

    fn put_idle(&self, connection: H1Connection) {
        let mut idle = self.idle.lock();
        if idle.len() < self.limits.max_connections {
            idle.push((connection, Instant::now()));
        }
    }
}

impl fmt::Debug for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Origin").field("authority", &self.authority).finish_non_exhaustive()
    }
}

struct HeldHttp1 {
    origin: Arc<Origin>,
    connection: H1Connection,
}

impl crate::body::Held for HeldHttp1 {
    fn finish(self: Box<Self>) {
        let Self { origin, connection } = *self;
        if !connection.is_closed() {
            origin.put_idle(connection);
        }
    }
}

struct HeldHttp2(H2Stream);

impl crate::body::Held for HeldHttp2 {
    fn finish(self: Box<Self>) {
        drop(self.0);
    }
}

/// Whether the head of the running attempt may have been written. It outlives an attempt that is dropped at the
/// deadline, whose outcome nobody else can tell.
#[derive(Debug, Default)]
pub(crate) struct SentFlag(std::sync::atomic::AtomicBool);

impl SentFlag {
    pub(crate) fn set(&self) {
        self.0.store(true, Ordering::Release);
    }

    pub(crate) fn get(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}
