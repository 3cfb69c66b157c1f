//! The stream of what a process does, from its first event on.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use connectrpc::ConnectError;
use futures_util::stream::{self, Stream, StreamExt};
use oncebox_protocol::envd::process::process_event::Event;
use oncebox_protocol::envd::process::{ConnectRequest, ConnectResponse, ProcessEvent, StartRequest, StartResponse};

use oncebox_transport::History;

use super::selector;
use crate::error::{Error, ErrorKind};
use crate::rpc::{CutWatch, KEEPALIVE, MISSED_KEEPALIVES, RpcCall};
use crate::sandbox::Sandbox;

/// How often a stream is attached to again without anything having come of it, by default.
const REATTACHMENTS: u32 = 5;

/// The longest keepalive interval that is asked for: a day.
const MAX_KEEPALIVE: Duration = Duration::from_secs(86_400);

/// How the stream of a command's output is kept, and what is done when it is cut.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub struct StreamOptions {
    keepalive: Duration,
    silence: Option<Duration>,
    pub(super) reattachments: u32,
}

impl StreamOptions {
    /// The defaults.
    pub fn new() -> Self {
        Self { keepalive: KEEPALIVE, silence: None, reattachments: REATTACHMENTS }
    }

    /// How often the sandbox shows, on a stream on which nothing else comes, that the connection lives. Whole seconds, at
    /// least one. Default 50 s, which is less than the 60 s after which proxies cut idle streams.
    pub fn keepalive(mut self, interval: Duration) -> Self {
        self.keepalive = interval;
        self
    }

    /// A stream on which nothing came for this long, not even a keepalive, is taken for dead, and cut; zero: never. Default:
    /// two and a half keepalive intervals. A command that merely writes nothing is not dead.
    pub fn silence(mut self, limit: Duration) -> Self {
        self.silence = Some(limit);
        self
    }

    /// How often in a row a stream that was cut is attached to again without anything coming of it. Default 5. Output
    /// resets the count.
    pub fn reattachments(mut self, count: u32) -> Self {
        self.reattachments = count;
        self
    }

    pub(super) fn validate(&self) -> Result<(), Error> {
        if self.keepalive < Duration::from_secs(1) || self.keepalive > MAX_KEEPALIVE {
            let wrong = self.keepalive;
            return Err(Error::invalid(format!("keepalive: {wrong:?} is not between 1 s and {MAX_KEEPALIVE:?}")));
        }
        match self.silence {
            Some(limit) if !limit.is_zero() && limit <= self.keepalive => Err(Error::invalid(format!(
                "silence: {limit:?} is no longer than the keepalive interval of {:?}: live streams would be cut",
                self.keepalive
            ))),
            _ => Ok(()),
        }
    }

    pub(super) fn watch(&self) -> CutWatch {
        CutWatch::new(self.keepalive, self.silence.unwrap_or_else(|| self.keepalive.mul_f64(MISSED_KEEPALIVES)))
    }
}

impl Default for StreamOptions {
    fn default() -> Self {
        Self::new()
    }
}

/// A process's stream, whose first event has named it.
pub(super) struct Attached {
    pub(super) pid: u32,
    events: Events,
    watch: CutWatch,
}

type Events = Pin<Box<dyn Stream<Item = Result<Event, ConnectError>> + Send>>;

/// Why a stream gave no event.
#[derive(Debug)]
pub(super) enum NoEvent {
    /// It was cut. That says nothing of the process.
    Cut(String),
    /// The sandbox itself ended it with an error.
    Told(ConnectError),
}

impl Attached {
    /// Starts a process. It may have been started although this fails: see [`Error::may_have_been_processed`].
    pub(super) async fn start(
        sandbox: &Sandbox,
        action: &'static str,
        request: StartRequest,
        call: RpcCall<'_>,
    ) -> Result<Self, Error> {
        let watch = call.stream.clone().unwrap_or_default();
        let stream = sandbox.envd().process(call)?.start(request).await;
        let stream = stream.map_err(|error| Error::rpc(action, error))?;
        let events = stream::try_unfold(stream, |mut stream| async move {
            let message = stream.message::<StartResponse>().await?;
            Ok(message.map(|message| (event(message.to_owned_message().event.into_option()), stream)))
        });
        let attached = Self::begin(Box::pin(events.filter_map(known)), watch.clone()).await;
        attached.map_err(|why| match why {
            NoEvent::Told(error) => Error::rpc(action, error),
            NoEvent::Cut(how) => {
                let message = format!("{how} before the process was named; nobody knows whether it was started");
                let error = Error::new(ErrorKind::OutcomeUnknown, action, message);
                match watch.history() {
                    Some(history) => error.with_ledger(history.ledger()).begun(),
                    None => error,
                }
            }
        })
    }

    /// Attaches to a process: what it does from now on.
    pub(super) async fn connect(
        sandbox: &Sandbox,
        action: &'static str,
        pid: u32,
        watch: CutWatch,
    ) -> Result<Self, Error> {
        let call = RpcCall { stream: Some(watch.clone()), ..RpcCall::default() };
        let request = ConnectRequest { process: selector(pid).into(), ..Default::default() };
        let stream = sandbox.envd().process(call)?.connect(request).await;
        let stream = stream.map_err(|error| Error::rpc(action, error))?;
        let events = stream::try_unfold(stream, |mut stream| async move {
            let message = stream.message::<ConnectResponse>().await?;
            Ok(message.map(|message| (event(message.to_owned_message().event.into_option()), stream)))
        });
        let attached = Self::begin(Box::pin(events.filter_map(known)), watch).await;
        attached.map_err(|why| match why {
            NoEvent::Told(error) => Error::rpc(action, error),
            NoEvent::Cut(how) => Error::new(ErrorKind::ConnectionLost, action, how),
        })
    }

    /// Waits for the first event, which says that the process runs.
    async fn begin(mut events: Events, watch: CutWatch) -> Result<Self, NoEvent> {
        loop {
            match std::future::poll_fn(|cx| poll(&mut events, &watch, cx)).await? {
                Event::Start(start) => return Ok(Self { pid: start.pid, events, watch }),
                Event::Keepalive(_) => {}
                _ => return Err(NoEvent::Cut("the stream did not begin with a start".to_owned())),
            }
        }
    }

    /// The attempts of the call whose answer the stream is.
    pub(super) fn history(&self) -> Option<History> {
        self.watch.history()
    }

    /// The next event.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<Event, NoEvent>> {
        poll(&mut self.events, &self.watch, cx)
    }
}

fn poll(events: &mut Events, watch: &CutWatch, cx: &mut Context<'_>) -> Poll<Result<Event, NoEvent>> {
    Poll::Ready(match ready!(events.poll_next_unpin(cx)) {
        Some(Ok(event)) => Ok(event),
        Some(Err(error)) => Err(match watch.cut() {
            Some(how) => NoEvent::Cut(how),
            None => NoEvent::Told(error),
        }),
        None => Err(NoEvent::Cut("the stream ended without an end event".to_owned())),
    })
}

fn event(event: Option<ProcessEvent>) -> Option<Event> {
    event.and_then(|event| event.event)
}

/// Passes over events of a kind that is newer than this crate.
async fn known(event: Result<Option<Event>, ConnectError>) -> Option<Result<Event, ConnectError>> {
    event.transpose()
}

impl fmt::Debug for Attached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Attached").field("pid", &self.pid).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_that_would_cut_live_streams_are_refused() {
        let seconds = Duration::from_secs;
        for (options, words) in [
            (StreamOptions::new().keepalive(Duration::from_millis(900)), "keepalive: 900ms"),
            (StreamOptions::new().keepalive(MAX_KEEPALIVE * 2), "keepalive"),
            (StreamOptions::new().keepalive(seconds(10)).silence(seconds(10)), "silence: 10s"),
        ] {
            let error = options.validate().unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
        for options in [
            StreamOptions::new(),
            StreamOptions::new().keepalive(seconds(1)),
            StreamOptions::new().silence(Duration::ZERO),
            StreamOptions::new().keepalive(seconds(1)).silence(seconds(2)),
        ] {
            options.validate().unwrap();
        }
    }
}
