//! What a call waits for, and the limit that ended it.

use std::fmt;
use std::time::Duration;

use oncebox_policy::Phase;
use tokio::time::Instant;

use crate::body::Upload;

/// What a call waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Step {
    /// The addresses of the server, or of the proxy.
    Dns,
    /// An address that answers.
    Connect,
    /// A tunnel through the proxy.
    Proxy,
    /// The TLS handshake.
    Tls,
    /// A free stream or connection.
    Slot,
    /// The server takes the request's streamed body.
    Upload,
    /// The response's head. A body that was at hand may not be sent whole yet.
    Head,
    /// The rest of a response that is read whole.
    Body,
}

impl From<Phase> for Step {
    fn from(phase: Phase) -> Self {
        match phase {
            Phase::Dns => Self::Dns,
            Phase::Connect => Self::Connect,
            Phase::Proxy => Self::Proxy,
            Phase::Tls => Self::Tls,
            Phase::Slot | Phase::Queue => Self::Slot,
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Dns => "the server's addresses",
            Self::Connect => "a connection",
            Self::Proxy => "the proxy's tunnel",
            Self::Tls => "the TLS handshake",
            Self::Slot => "a slot",
            Self::Upload => "the server to take the request's body",
            Self::Head => "the response's head",
            Self::Body => "the rest of the response",
        })
    }
}

/// The limit that ended a call, where it stood then, and the option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Expired {
    pub(crate) step: Step,
    pub(crate) limit: Duration,
    pub(crate) option: &'static str,
}

impl fmt::Display for Expired {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "waited for {}; {:?} ({})", self.step, self.limit, self.option)
    }
}

impl std::error::Error for Expired {}

/// The limits of an attempt whose request is read as it is sent.
///
/// The caller's own stream may take its time. What it yielded must be taken within `write_idle`; and the clock of
/// `request` stands still meanwhile: it bounds what comes before the upload, and then what comes after it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StreamLimits {
    pub(crate) began: Instant,
    pub(crate) request: Option<Duration>,
    pub(crate) write_idle: Option<Duration>,
}

/// When an attempt is over unless it gets on, and by which limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Due {
    pub(crate) at: Instant,
    pub(crate) limit: Duration,
    pub(crate) option: &'static str,
}

impl StreamLimits {
    /// When the attempt is over, standing where it does. `None`: nothing is limited now.
    pub(crate) fn due(&self, upload: Upload, has_head: bool) -> Option<Due> {
        let (since, limit, option) = match upload {
            Upload::Over(since) => (since, self.request, "request_timeout"),
            // From here on the response's own limit holds.
            _ if has_head => return None,
            Upload::NotBegun => (self.began, self.request, "request_timeout"),
            Upload::Source => return None,
            Upload::Peer(since) => (since, self.write_idle, "write_idle_timeout"),
        };
        limit.map(|limit| Due { at: since + limit, limit, option })
    }

    /// When to look again at where the attempt stands, which changes without a word: nothing that begins after `now` is
    /// over before then. `None`: nothing will ever be limited.
    pub(crate) fn look_again(&self, now: Instant) -> Option<Instant> {
        self.request.into_iter().chain(self.write_idle).min().map(|shortest| now + shortest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REQUEST: Duration = Duration::from_secs(60);
    const IDLE: Duration = Duration::from_secs(20);

    fn limits(request: Option<Duration>, write_idle: Option<Duration>) -> (Instant, StreamLimits) {
        let began = Instant::now();
        (began, StreamLimits { began, request, write_idle })
    }

    #[tokio::test(start_paused = true)]
    async fn each_stretch_of_an_upload_has_its_own_limit() {
        let (began, limits) = limits(Some(REQUEST), Some(IDLE));
        let later = began + Duration::from_secs(1000);
        let due = |upload| limits.due(upload, false).map(|due| (due.at, due.option));
        assert_eq!(due(Upload::NotBegun), Some((began + REQUEST, "request_timeout")));
        // The caller's stream may take its time.
        assert_eq!(due(Upload::Source), None);
        assert_eq!(due(Upload::Peer(later)), Some((later + IDLE, "write_idle_timeout")));
        assert_eq!(due(Upload::Over(later)), Some((later + REQUEST, "request_timeout")));
    }

    /// Whatever an attempt comes to after a look, it is not over before the next.
    #[tokio::test(start_paused = true)]
    async fn no_limit_passes_unseen() {
        let (began, limits) = limits(Some(REQUEST), Some(IDLE));
        let next = limits.look_again(began).unwrap();
        for upload in [Upload::NotBegun, Upload::Source, Upload::Peer(began), Upload::Over(began)] {
            assert!(limits.due(upload, false).is_none_or(|due| due.at >= next), "{upload:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_response_that_has_begun_is_not_cut_for_an_upload_that_stands_still() {
        let (began, limits) = limits(Some(REQUEST), Some(IDLE));
        assert_eq!(limits.due(Upload::Peer(began), true), None);
        assert_eq!(limits.due(Upload::Over(began), true).unwrap().at, began + REQUEST);
    }

    #[tokio::test(start_paused = true)]
    async fn a_limit_of_none_never_ends_anything() {
        let (began, none) = limits(None, None);
        for upload in [Upload::NotBegun, Upload::Source, Upload::Peer(began), Upload::Over(began)] {
            assert_eq!(none.due(upload, false), None);
        }
        assert_eq!(none.look_again(began), None);
        assert_eq!(limits(None, Some(IDLE)).1.look_again(began), Some(began + IDLE));
    }
}
