//! The stream of events that `Start` and `Connect` answer with.

use std::sync::Arc;
use std::time::Duration;

use connectrpc::ConnectError;
use futures_util::Stream;
use http::HeaderMap;
use oncebox_protocol::envd::process::__buffa::oneof::process_event::{Event, data_event::Output};
use oncebox_protocol::envd::process::ProcessEvent;
use oncebox_protocol::envd::process::process_event::{DataEvent, KeepAlive, StartEvent};
use tokio::sync::mpsc;

use super::output::{Chunk, Source};
use super::running::Running;

/// Between keepalives, where the client does not say.
const DEFAULT_KEEPALIVE: Duration = Duration::from_secs(90);

/// How long a stream may be silent, from `Keepalive-Ping-Interval` in seconds.
pub(in crate::envd) fn keepalive_of(headers: &HeaderMap) -> Duration {
    let seconds = headers.get("keepalive-ping-interval").and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    seconds.filter(|seconds| *seconds > 0).map_or(DEFAULT_KEEPALIVE, Duration::from_secs)
}

/// A start event, the output that comes through `chunks`, and the end event; keepalives in between. Dropping the stream
/// leaves the process alone.
pub(super) fn events(
    process: Arc<Running>,
    mut chunks: mpsc::Receiver<Chunk>,
    keepalive: Duration,
) -> impl Stream<Item = Result<ProcessEvent, ConnectError>> + Send + 'static {
    async_stream::stream! {
        yield Ok(event(StartEvent { pid: process.pid(), ..StartEvent::default() }));
        loop {
            match tokio::time::timeout(keepalive, chunks.recv()).await {
                Ok(Some(chunk)) => yield Ok(event(data(chunk))),
                Ok(None) => break,
                Err(_) => yield Ok(event(KeepAlive::default())),
            }
        }
        let mut end = process.end();
        let end = end.wait_for(Option::is_some).await.map(|end| end.clone());
        match end {
            Ok(Some(end)) => yield Ok(event(end)),
            _ => yield Err(ConnectError::internal("the end of the process was lost")),
        }
    }
}

fn event(event: impl Into<Event>) -> ProcessEvent {
    ProcessEvent { event: Some(event.into()), ..ProcessEvent::default() }
}

fn data(chunk: Chunk) -> DataEvent {
    let bytes = chunk.bytes.into();
    let output = match chunk.source {
        Source::Stdout => Output::Stdout(bytes),
        Source::Stderr => Output::Stderr(bytes),
        Source::Terminal => Output::Pty(bytes),
    };
    DataEvent { output: Some(output), ..DataEvent::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_client_chooses_the_keepalive() {
        let of = |value: &str| {
            keepalive_of(&HeaderMap::from_iter([("keepalive-ping-interval".parse().unwrap(), value.parse().unwrap())]))
        };
        assert_eq!(of("50"), Duration::from_secs(50));
        assert_eq!(of("0"), DEFAULT_KEEPALIVE);
        assert_eq!(of("soon"), DEFAULT_KEEPALIVE);
        assert_eq!(keepalive_of(&HeaderMap::new()), DEFAULT_KEEPALIVE);
    }
}
