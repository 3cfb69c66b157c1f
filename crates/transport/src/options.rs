//! Options of a client and of a call.

use std::time::Duration;

use oncebox_policy::{
    DEFAULT_READ_IDLE_TIMEOUT, DEFAULT_REPLAY_BUFFER_LIMIT, DEFAULT_REQUEST_TIMEOUT, MAX_TIMEOUT, Permit, Policy,
};

use crate::answer::AnswerReader;

/// Streams that may be open on an HTTP/2 connection before the server's first SETTINGS.
pub(crate) const DEFAULT_INITIAL_STREAMS: u32 = 10;

/// Connections to one origin.
pub(crate) const DEFAULT_MAX_CONNECTIONS: usize = 200;

/// How long an idle connection is kept (protocol fact: 300 s in the official SDK).
pub(crate) const DEFAULT_KEEPALIVE_EXPIRY: Duration = Duration::from_secs(300);

/// An idle HTTP/1.1 connection is kept for no longer than this unless it is set: common servers close theirs after 5 s.
const HTTP1_KEEPALIVE_EXPIRY: Duration = Duration::from_secs(4);

/// How long a connection with open streams may be silent before it is asked whether it lives.
const DEFAULT_PING_INTERVAL: Duration = Duration::from_secs(20);

/// How long a server may take none of a request's streamed body, as long as it may send none of a response's.
const DEFAULT_WRITE_IDLE_TIMEOUT: Duration = DEFAULT_READ_IDLE_TIMEOUT;

/// How long the answer may take.
const DEFAULT_PING_TIMEOUT: Duration = Duration::from_secs(10);

/// Which HTTP version a client speaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum HttpVersion {
    /// What the server chooses in the TLS handshake (RFC 7301), HTTP/2 first; without TLS HTTP/1.1.
    #[default]
    Auto,
    /// HTTP/1.1 (RFC 9112): one exchange at a time on a connection.
    Http1,
    /// HTTP/2 (RFC 9113): many exchanges on a connection; without TLS with prior knowledge (§3.3).
    Http2,
}

/// What a call is, as far as others may feel it: those of different classes share no HTTP/2 connection.
///
/// A response that is read slowly, or a large transfer, fills the connection that it is on; a command beside it would
/// wait. `max_connections` counts over all classes; bulk transfers leave one connection to commands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TrafficClass {
    /// Requests and streams of little data, whose latency matters.
    #[default]
    Interactive,
    /// Large transfers, and responses that are read slowly.
    Bulk,
}

impl TrafficClass {
    pub(crate) const ALL: [Self; 2] = [Self::Interactive, Self::Bulk];
}

/// What bounds the connections to an origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Limits {
    pub(crate) initial_streams: u32,
    pub(crate) max_connections: usize,
    pub(crate) keepalive_expiry: Duration,
    pub(crate) keepalive_expiry_is_set: bool,
    /// Zero: connections do not age.
    pub(crate) max_connection_age: Duration,
    /// Zero: never.
    pub(crate) ping_interval: Duration,
    pub(crate) ping_timeout: Duration,
}

impl Limits {
    pub(crate) fn http1_keepalive_expiry(&self) -> Duration {
        if self.keepalive_expiry_is_set {
            self.keepalive_expiry
        } else {
            self.keepalive_expiry.min(HTTP1_KEEPALIVE_EXPIRY)
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            initial_streams: DEFAULT_INITIAL_STREAMS,
            max_connections: DEFAULT_MAX_CONNECTIONS,
            keepalive_expiry: DEFAULT_KEEPALIVE_EXPIRY,
            keepalive_expiry_is_set: false,
            max_connection_age: Duration::ZERO,
            ping_interval: DEFAULT_PING_INTERVAL,
            ping_timeout: DEFAULT_PING_TIMEOUT,
        }
    }
}

/// Options of one call. What is not set is the client's.
///
/// ```
/// use std::time::Duration;
/// use oncebox_transport::CallOptions;
/// use oncebox_policy::Permit;
///
/// let options = CallOptions::new()
///     .retries(0)
///     .request_timeout(Duration::from_secs(5))
///     .permit(Permit::OperationTable);
/// ```
#[derive(Clone, Debug, Default)]
pub struct CallOptions {
    retries: Option<u32>,
    connection_retries: Option<u32>,
    request_timeout: Option<Duration>,
    attempt_timeout: Option<Duration>,
    read_idle_timeout: Option<Duration>,
    write_idle_timeout: Option<Duration>,
    permit: Option<Permit>,
    mints: bool,
    reconciles: bool,
    class: TrafficClass,
    answer_reader: Option<AnswerReader>,
    upgrades: bool,
}

impl CallOptions {
    /// Nothing set.
    pub fn new() -> Self {
        Self::default()
    }

    /// Retries after an answer or an unknown outcome.
    #[must_use]
    pub fn retries(mut self, retries: u32) -> Self {
        self.retries = Some(retries);
        self
    }

    /// Repeats after failed connects and refusals.
    #[must_use]
    pub fn connection_retries(mut self, retries: u32) -> Self {
        self.connection_retries = Some(retries);
        self
    }

    /// The call's deadline; zero means none. It ends when a streaming response is handed on. Where the request's body is
    /// a stream it bounds each attempt up to the body's first byte, and then from its last one on: how long the body
    /// itself takes is its sender's matter, but for [`write_idle_timeout`](Self::write_idle_timeout).
    #[must_use]
    pub fn request_timeout(mut self, timeout: Duration) -> Self {
        self.request_timeout = Some(timeout.min(MAX_TIMEOUT));
        self
    }

    /// The longest that one attempt may take; zero means as long as the call.
    #[must_use]
    pub fn attempt_timeout(mut self, timeout: Duration) -> Self {
        self.attempt_timeout = Some(timeout.min(MAX_TIMEOUT));
        self
    }

    /// Ends a streaming response when nothing came for this long; zero means never.
    #[must_use]
    pub fn read_idle_timeout(mut self, timeout: Duration) -> Self {
        self.read_idle_timeout = Some(timeout.min(MAX_TIMEOUT));
        self
    }

    pub(crate) fn traffic_class(&self) -> TrafficClass {
        self.class
    }

    /// Ends the call when a part of its streamed request body was at hand and the server took none of it for this long;
    /// zero means never.
    #[must_use]
    pub fn write_idle_timeout(mut self, timeout: Duration) -> Self {
        self.write_idle_timeout = Some(timeout.min(MAX_TIMEOUT));
        self
    }

    /// Which connections the call shares with others. Default: those of commands.
    #[must_use]
    pub fn class(mut self, class: TrafficClass) -> Self {
        self.class = class;
        self
    }

    /// Permits a repeat after an unknown outcome that the method alone does not permit.
    #[must_use]
    pub fn permit(mut self, permit: Permit) -> Self {
        self.permit = Some(permit);
        self
    }

    /// The operation makes something new: even a 500 leaves its outcome unknown.
    #[must_use]
    pub fn mints(mut self, mints: bool) -> Self {
        self.mints = mints;
        self
    }

    /// The caller can find out what an unknown outcome did: such outcomes are never repeated but come back with the
    /// verdict [`Reconcile`](oncebox_policy::Verdict::Reconcile).
    #[must_use]
    pub fn reconciles(mut self, reconciles: bool) -> Self {
        self.reconciles = reconciles;
        self
    }

    /// Who reads from an answer's body what its head does not say, before it is judged. What is read of it belongs to the
    /// attempt: `request_timeout` bounds it, and a streaming response is handed on once it was looked at. Default: nobody.
    #[must_use]
    pub fn answer_reader(mut self, reader: AnswerReader) -> Self {
        self.answer_reader = Some(reader);
        self
    }

    /// The request asks to change the protocol (`Upgrade`, RFC 9110 §7.8), which only HTTP/1.1 can: it is spoken whatever
    /// the client's version is. An answer of 101 has the connection in its extensions, where `hyper::upgrade::on` finds it;
    /// from then on it is the caller's, and no longer counts among the client's. Default: off.
    #[must_use]
    pub fn upgrades(mut self, upgrades: bool) -> Self {
        self.upgrades = upgrades;
        self
    }
}

/// A client's defaults.
#[derive(Clone, Debug)]
pub(crate) struct Defaults {
    pub(crate) policy: Policy,
    pub(crate) request_timeout: Duration,
    pub(crate) attempt_timeout: Duration,
    pub(crate) read_idle_timeout: Duration,
    pub(crate) write_idle_timeout: Duration,
    pub(crate) replay_buffer_limit: usize,
}

impl Default for Defaults {
    fn default() -> Self {
        Self {
            policy: Policy::default(),
            request_timeout: DEFAULT_REQUEST_TIMEOUT,
            attempt_timeout: Duration::ZERO,
            read_idle_timeout: DEFAULT_READ_IDLE_TIMEOUT,
            write_idle_timeout: DEFAULT_WRITE_IDLE_TIMEOUT,
            replay_buffer_limit: DEFAULT_REPLAY_BUFFER_LIMIT,
        }
    }
}

/// What holds for one call.
#[derive(Debug)]
pub(crate) struct Resolved {
    pub(crate) policy: Policy,
    pub(crate) request_timeout: Option<Duration>,
    pub(crate) attempt_timeout: Option<Duration>,
    pub(crate) read_idle_timeout: Option<Duration>,
    pub(crate) write_idle_timeout: Option<Duration>,
    pub(crate) replay_buffer_limit: usize,
    pub(crate) permit: Option<Permit>,
    pub(crate) mints: bool,
    pub(crate) reconciles: bool,
    pub(crate) class: TrafficClass,
    pub(crate) answer_reader: Option<AnswerReader>,
    pub(crate) upgrades: bool,
}

impl Resolved {
    /// The version to speak, where the client's is `version`.
    pub(crate) fn version(&self, version: HttpVersion) -> HttpVersion {
        if self.upgrades { HttpVersion::Http1 } else { version }
    }
}

impl Defaults {
    pub(crate) fn resolve(&self, options: &CallOptions, method: &http::Method) -> Resolved {
        let mut policy = self.policy.clone();
        policy.retries = options.retries.unwrap_or(policy.retries);
        policy.connection_retries = options.connection_retries.unwrap_or(policy.connection_retries);
        Resolved {
            policy,
            request_timeout: nonzero(options.request_timeout.unwrap_or(self.request_timeout)),
            attempt_timeout: nonzero(options.attempt_timeout.unwrap_or(self.attempt_timeout)),
            read_idle_timeout: nonzero(options.read_idle_timeout.unwrap_or(self.read_idle_timeout)),
            write_idle_timeout: nonzero(options.write_idle_timeout.unwrap_or(self.write_idle_timeout)),
            replay_buffer_limit: self.replay_buffer_limit,
            permit: options.permit.or_else(|| Permit::of_method(method.as_str())),
            mints: options.mints,
            reconciles: options.reconciles,
            class: options.class,
            answer_reader: options.answer_reader,
            upgrades: options.upgrades,
        }
    }
}

/// Zero is none.
fn nonzero(timeout: Duration) -> Option<Duration> {
    (!timeout.is_zero()).then_some(timeout)
}
